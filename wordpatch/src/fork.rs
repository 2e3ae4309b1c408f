//! What a forked child has to put in order before its code goes on.
//!
//! The child has one thread, a copy of the one that forked; the others are gone in the middle of whatever they did. Locks are
//! therefore taken before the fork and given back on both sides of it. Our own code memory is still the parent's too, and gets a
//! copy; flights may be under way with no one left to finish them, and are finished. All of that is done in this order, with system
//! calls and stores only.
//!
//! # Safety
//!
//! This module exists because the guards of locks that are taken before a fork have to be kept until after it.
#![allow(unsafe_code)]

use crate::access::WINDOWS;
use crate::barrier::RESERVING;
use crate::code_memory::{REGIONS, Region};
use crate::completion::LATEST;
use crate::error::PatchError;
use crate::trap::chain::INSTALLING;
use crate::{barrier, code_memory, completion, flight};
use std::cell::UnsafeCell;
use std::sync::{MutexGuard, Once};

/// Registers with the C library, once.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: (1) the functions do only what the child of a program with threads may do.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

/// Every lock of ours, taken.
type Guards = (
    MutexGuard<'static, ()>,
    MutexGuard<'static, ()>,
    MutexGuard<'static, Option<PatchError>>,
    MutexGuard<'static, ()>,
    MutexGuard<'static, Vec<Region>>,
);

/// The guards while the process is being copied.
struct Held(UnsafeCell<Option<Guards>>);

// SAFETY: (1) the cell is used only by the thread that holds the first of the locks whose guards it keeps.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Takes every lock. None of them is ever taken while another is held, and none across code that is not ours, so this waits for
/// a moment at most.
extern "C" fn before() {
    let guards = (INSTALLING.lock(), RESERVING.lock(), LATEST.lock(), WINDOWS.lock(), REGIONS.lock());
    // SAFETY: (1) this thread holds the locks; see `Held`.
    unsafe { *HELD.0.get() = Some(guards) };
}

extern "C" fn in_parent() {
    // SAFETY: (1) this thread, or the one that it is the copy of, holds the locks until the guards are dropped below.
    let guards = unsafe { (*HELD.0.get()).take() };
    drop(guards);
}

extern "C" fn in_child() {
    in_parent();
    code_memory::separate_all();
    barrier::forget_call();
    completion::forget_thread();
    flight::land_all();
}
