//! Reports to the user: one line on standard error, once, if that is still the same file.
//!
//! # Safety
//!
//! This module inspects a descriptor and writes to it.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;

static COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Records what standard error is, before the program may change it.
pub(super) fn prepare() {
    STDERR.get_or_init(|| identity(libc::STDERR_FILENO));
}

/// What standard error was at the beginning; the program may close it, and get its number for a
/// file of its own.
static STDERR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

/// The device and the number of the file that is open there.
fn identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: (1) a record to write to.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut data) == 0).then_some((data.st_dev, data.st_ino))
    }
}

/// Writes one line to standard error, the first time, if that is still the same file.
pub(super) fn complain(what: &str) {
    let is_the_same = STDERR
        .get()
        .is_some_and(|known| known.is_some() && *known == identity(libc::STDERR_FILENO));
    if is_the_same && !COMPLAINED.swap(true, AcqRel) {
        let line = format!("fastinst: {}\n", what.replace('\n', " "));
        // SAFETY: (1) a buffer and its length; the result does not matter.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}
