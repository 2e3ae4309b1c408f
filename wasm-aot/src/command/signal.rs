//! Ctrl-C stops the program as a trap would: its files are closed, and the place that it had
//! reached is reported. Before the program runs, and the second time, Ctrl-C ends the process.
//!
//! # Safety
//!
//! This module exists to wait for signals with the C library.
#![allow(unsafe_code)]

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// The signal that was received, or 0.
static RECEIVED: AtomicU8 = AtomicU8::new(0);

/// The function that stops the program.
static STOP: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Makes writes beyond the file size limit fail instead of ending the process.
pub(crate) fn survive_file_size_limits() {
    // SAFETY: (1) ignoring a signal calls nothing.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Registers `stop` to be called when a signal requests the end of the process.
pub(crate) fn on_interrupt(stop: impl Fn() + Send + 'static) {
    *STOP.lock() = Some(Box::new(stop));
}

/// Handles the signals that request the end of the process in a thread of its own. Must be called
/// before other threads are started, so that they block these signals.
pub(crate) fn watch() {
    let wanted = [libc::SIGINT, libc::SIGTERM];
    // SAFETY: (1) an empty set is made before signals are added to it; (2) blocking signals changes
    // nothing but their handler.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in wanted {
            // Signals that the parent process ignores stay ignored.
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction != libc::SIG_IGN
            {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    };
    let serve = move || {
        loop {
            let mut signal = 0;
            // SAFETY: (1) both places are locals.
            if unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {
                return;
            }
            let again = RECEIVED.swap(signal as u8, SeqCst) != 0;
            match &*STOP.lock() {
                Some(stop) if !again => stop(),
                _ => std::process::exit(128 + signal),
            }
        }
    };
    if std::thread::Builder::new().spawn(serve).is_err() {
        // Without a handler they end this process, as is their default.
        // SAFETY: (1) the set was made above.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
    }
}

/// The signal that was received, if there was one.
pub(crate) fn received() -> Option<u8> {
    Some(RECEIVED.load(SeqCst)).filter(|signal| *signal != 0)
}
