//! What there is to say to the user: one line on standard error, once, where that is still what it
//! was.
//!
//! # Safety
//!
//! This module exists to look at a descriptor and to write to it.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;

static COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Looks what standard error is, before the program may change it.
pub(super) fn prepare() {
    STDERR.get_or_init(|| identity(libc::STDERR_FILENO));
}

/// What standard error was at the beginning; a program may have closed it, and have got its number
/// for a file of its own.
static STDERR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

/// What is open there: the device and the number of the file.
fn identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: (1) a record to write to.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut data) == 0).then_some((data.st_dev, data.st_ino))
    }
}

/// Says one line on standard error, the first time, if that is still what it was.
pub(super) fn complain(what: &str) {
    let is_the_same = STDERR
        .get()
        .is_some_and(|known| known.is_some() && *known == identity(libc::STDERR_FILENO));
    if is_the_same && !COMPLAINED.swap(true, AcqRel) {
        let line = format!("fastinst: {}\n", what.replace('\n', " "));
        // SAFETY: (1) a buffer and its length; what becomes of it is no matter.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}
