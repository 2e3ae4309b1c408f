//! The signal that requests the profile, and the signals that switch recording.
//!
//! # Safety
//!
//! This module is called by the kernel.
#![allow(unsafe_code)]

use super::{config, is_own_process};
use crate::runtime::{agent, sites, spans};
use std::arch::naked_asm;
use wordpatch::os;
use wordpatch::os::signals;
use wordpatch::os::spare_stacks::{self, Onward};

/// Blocks all signals on the calling thread, for good, except for those that the C library keeps
/// for itself.
pub(in crate::runtime) fn block_signals() {
    // SAFETY: (1) a set to fill and to read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Installs the handler of the signal that requests the profile, unless the program has a use for
/// that signal already.
pub(super) fn take_signal() {
    let signal = config().signal;
    if signal == 0 || sites::count() == 0 {
        return;
    }
    if signals::action(signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_DFL) {
        let _ = install_signal_handler(signal);
    }
}

/// Installs the profiler's handler of a signal.
pub(in crate::runtime) fn install_signal_handler(signal: i32) -> Result<(), os::OsError> {
    // SAFETY: (1) the handler is safe in a signal.
    unsafe { signals::install(signal, asked, libc::SA_RESTART) }.map(drop)
}

/// Whether it is still installed: the program may have replaced it.
pub(in crate::runtime) fn has_signal_handler(signal: i32) -> bool {
    let ours = asked as *const () as usize;
    signals::action(signal).is_ok_and(|action| action.sa_sigaction == ours)
}

/// Called by the kernel, on the signal stack, if the thread has one: the program may run on stacks
/// with no room for a frame.
#[unsafe(naked)]
extern "C" fn asked(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    naked_asm!(
        "endbr64",
        "lea rax, [rip + {}]",
        "lea r11, [rip + {}]",
        "jmp {}",
        sym asked_with_room,
        sym asked_by_handler,
        sym spare_stacks::handle,
    )
}

extern "C" fn asked_with_room(
    signal: i32,
    _: *mut libc::siginfo_t,
    _: *mut libc::c_void,
    _: &mut Onward,
    _: usize,
) -> bool {
    let errno = os::errno();
    if is_own_process() && !spans::signal_arrived(signal) {
        agent::ask_to_write();
    }
    os::set_errno(errno);
    false
}

/// Called by a handler that the program has installed later, and that passes the signal on.
extern "C" fn asked_by_handler(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    asked_with_room(signal, info, context, &mut Onward { handler: 0, mask: 0 }, 0);
}
