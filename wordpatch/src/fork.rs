//! What a forked child has to put in order before its code goes on.
//!
//! The child has one thread, a copy of the one that forked; the others are gone in the middle of whatever they did. Our own code
//! memory is still the parent's too; locks may be held by nobody; flights may be under way with no one left to finish them.
//! All of that is mended here, in this order, with system calls and stores only.

use crate::{access, barrier, code_memory, completion, flight};
use std::sync::Once;

/// Registers with the C library, once.
#[allow(unsafe_code)]
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: (1) the functions do only what the child of a program with threads may do.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before() {
    code_memory::hold();
}

extern "C" fn in_parent() {
    code_memory::release();
}

extern "C" fn in_child() {
    code_memory::release();
    code_memory::separate_all();
    access::forget_windows();
    barrier::forget_call();
    completion::forget_thread();
    flight::land_all();
}
