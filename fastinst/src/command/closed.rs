//! The standard descriptors that were closed when this command started. Rust's runtime opens
//! /dev/null in their place; the profiled program gets them as they were.
//!
//! # Safety
//!
//! The loader calls [`look`] before `main`, and a child calls [`close_again`] before exec.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// A bit for each descriptor that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader, before Rust's runtime.
extern "C" fn look() {
    // SAFETY: (1) a number only.
    let is_closed = |number: &i32| unsafe { libc::fcntl(*number, libc::F_GETFD) } == -1;
    CLOSED.store((0..3).filter(is_closed).map(|number| 1u8 << number).sum(), Relaxed);
}

/// Closes them in the program that the command runs.
pub(super) fn close_again(command: &mut Command) {
    let closed = CLOSED.load(Relaxed);
    if closed == 0 {
        return;
    }
    let close = move || {
        for number in (0..3).filter(|number| closed & 1 << number != 0) {
            // SAFETY: (1) the child's copy of /dev/null, which nothing uses.
            unsafe { libc::close(number) };
        }
        Ok(())
    };
    // SAFETY: (1) only closes, which may be called after fork.
    unsafe { command.pre_exec(close) };
}
