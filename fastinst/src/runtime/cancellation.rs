//! Threads that may be cancelled at any instruction (`PTHREAD_CANCEL_ASYNCHRONOUS`): the
//! interposed `pthread_setcanceltype`.
//!
//! The C library ends such a thread in a signal's handler, by unwinding: all cleanups of its
//! functions run on the way. Trampolines have no unwind information, so a thread that is cancelled
//! inside of one would leave its locks taken. So the profile ends before a thread can be in that
//! state. Threads that are cancelled where they wait, which is the default, are in the C library
//! then.
//!
//! # Safety
//!
//! This module interposes a function of the C library.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches it, by name")]

use super::{interposed, target};
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use wordpatch::os;

pub(super) static SETCANCELTYPE: AtomicUsize = AtomicUsize::new(0);

/// `PTHREAD_CANCEL_ASYNCHRONOUS` (pthread.h).
const ASYNCHRONOUS: c_int = 1;

const ANYWHERE: &str = "the program has threads that may be cancelled anywhere \
                        (PTHREAD_CANCEL_ASYNCHRONOUS), which could not clean up behind a probe: the \
                        profile ends there";

/// Whether a thread ever requested to be cancelled anywhere; only ever set.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// Refuses if a thread may be cancelled at any instruction.
pub(super) fn require_none() -> Result<(), String> {
    if HAS_ANY.load(Relaxed) { Err(ANYWHERE.to_owned()) } else { Ok(()) }
}

/// Changes how the calling thread is cancelled.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    if kind == ASYNCHRONOUS {
        let errno = os::errno();
        HAS_ANY.store(true, Relaxed);
        target::stand_down(ANYWHERE);
        os::set_errno(errno);
    }
    type Next = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    // SAFETY: (1) the C library's function has this type.
    let next: Next =
        unsafe { std::mem::transmute(interposed::next(&SETCANCELTYPE, c"pthread_setcanceltype")) };
    // SAFETY: (1) the caller.
    unsafe { next(kind, old) }
}
