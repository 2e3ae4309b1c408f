//! What a forked child has to put in order before its code goes on.
//!
//! The child has one thread, a copy of the one that forked; the others are gone in the middle of whatever they did. Locks are
//! therefore taken before the fork and given back on both sides of it, and the gate is closed, so that no flight stores while the
//! process is being copied. Our own code memory is still the parent's too: the child makes a copy, for which the parent waits,
//! since its next patch would already be none of the child's. Flights that were under way have no one left to finish them, and
//! the child finishes them. All of that is done in this order, with system calls and stores only.
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
use crate::os::{
    self, files,
    threads::{self, Tid},
};
use crate::sync::{AtomicU32, Ordering};
use crate::trap::chain::INSTALLING;
use crate::{barrier, capi, code_memory, completion, flight, gate};
use std::cell::UnsafeCell;
use std::os::fd::OwnedFd;
use std::sync::MutexGuard;
use std::time::Duration;

/// How long the parent waits for its child's copy of the code memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether we are registered with the C library.
///
/// | value | meaning | who may change it |
/// |---|---|---|
/// | 0 | no | who registers: to its thread's id |
/// | a thread's id | that thread is about to | that thread: to `DONE`; anybody, if it is gone: to its own |
/// | `DONE` | yes | - |
static REGISTERED: AtomicU32 = AtomicU32::new(0);
const DONE: u32 = u32::MAX;

/// Registers with the C library, once, and makes sure that what was registered stays.
pub(crate) fn prepare() {
    let this = threads::current();
    loop {
        let state = REGISTERED.load(Ordering::Acquire);
        if state == DONE {
            return;
        }
        // In the child of a fork that came while a thread registered, that thread is gone and may or may not have done it. To be
        // registered twice does no harm: see `before`.
        let in_other_hands = state != 0 && threads::lives(Tid(state as i32));
        if in_other_hands {
            threads::give_way();
        } else if REGISTERED.compare_exchange(state, this.0 as u32, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            os::stay_loaded();
            // SAFETY: (1) the functions do only what the child of a program with threads may do.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
            REGISTERED.store(DONE, Ordering::Release);
        }
    }
}

/// Every lock of ours, taken.
type Guards = (
    MutexGuard<'static, ()>,
    MutexGuard<'static, ()>,
    MutexGuard<'static, Option<PatchError>>,
    MutexGuard<'static, ()>,
    MutexGuard<'static, Vec<Region>>,
);

/// What is kept while the process is being copied.
struct Copying {
    guards: Guards,
    /// The parent reads until the child has closed the other end. None if there is nothing to wait for.
    pipe: Option<(OwnedFd, OwnedFd)>,
}

/// At most one process is being copied at a time.
struct Held(UnsafeCell<Option<Copying>>);

// SAFETY: (1) the cell is used only by the thread that holds the first of the locks whose guards it keeps.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Takes every lock. None of them is ever taken while another is held, and none across code that is not ours, so this waits for
/// a moment at most.
extern "C" fn before() {
    if gate::is_closed_here() {
        // Registered twice, and called for the second time: all is done already.
        return;
    }
    let guards = (INSTALLING.lock(), RESERVING.lock(), LATEST.lock(), WINDOWS.lock(), REGIONS.lock());
    gate::close();
    // Without a pipe the parent goes on at once: then patches of the next microseconds may show in the child.
    let pipe = if guards.4.is_empty() { None } else { files::pipe().ok() };
    // SAFETY: (1) this thread holds the locks; see `Held`.
    unsafe { *HELD.0.get() = Some(Copying { guards, pipe }) };
}

/// What `before` has put away.
fn take_back() -> Option<Copying> {
    // SAFETY: (1) this thread, or the one that it is the copy of, holds the locks.
    unsafe { (*HELD.0.get()).take() }
}

extern "C" fn in_parent() {
    let Some(Copying { guards, pipe }) = take_back() else { return };
    if let Some((reading, writing)) = pipe {
        drop(writing);
        files::await_end(&reading, PATIENCE);
    }
    gate::open();
    drop(guards);
}

extern "C" fn in_child() {
    let Some(Copying { guards, pipe }) = take_back() else { return };
    code_memory::separate_all(&guards.4);
    drop(pipe);
    drop(guards);
    barrier::forget_call();
    completion::forget_thread();
    flight::land_all();
    capi::forget_callers();
    gate::open_in_child();
}
