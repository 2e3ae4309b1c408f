//! Interruption: the first SIGINT or SIGTERM requests an orderly stop of the measurement; the
//! second one kills it.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use wordpatch::os::{OsError, signals};

static ASKED: AtomicBool = AtomicBool::new(false);
static BY: AtomicI32 = AtomicI32::new(0);

/// Installs the handlers.
pub fn prepare() -> Result<&'static AtomicBool, OsError> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: (1) the handler stores two numbers.
        #[allow(unsafe_code)]
        unsafe {
            signals::install(signal, ask, libc::SA_RESTART | libc::SA_RESETHAND)?;
        }
    }
    Ok(&ASKED)
}

/// Whether a signal has requested a stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// The exit status that a shell expects of a program that a signal ended.
pub fn status() -> u8 {
    128 + BY.load(Ordering::Relaxed) as u8
}

extern "C" fn ask(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    BY.store(signal, Ordering::Relaxed);
    ASKED.store(true, Ordering::Relaxed);
}
