//! The repairs of a forked child's state before its code continues.
//!
//! The child has one thread, a copy of the one that forked; no other thread of the parent exists in
//! it. So locks are taken before the fork and released in both processes after it, and the gate is
//! closed, so that no patch in progress stores while the process is being copied. Code memory is
//! still shared with the parent. The parent copies it before the fork, since its next patch must
//! not appear in the child, and the child maps the copy in place of it. So neither process waits
//! for the other, and the child needs no resource that it may not get. Patches in progress in
//! progress have lost their threads, so the child finishes them. All of that happens in this order,
//! with system calls and stores only.
//!
//! # Safety
//!
//! This module exists to keep the guards of locks from before a fork until after it.
#![allow(unsafe_code)]

use crate::access::WINDOWS;
use crate::barrier::RESERVING;
use crate::code_memory::{REGIONS, Region};
use crate::completion::LATEST;
use crate::error::PatchError;
use crate::os::{
    self,
    signals::Blocked,
    spare_stacks,
    threads::{self, Tid},
};
use crate::sync::{AtomicU32, Ordering};
use crate::trap::chain::INSTALLING;
use crate::{barrier, capi, code_memory, completion, gate, patch_in_progress};
use std::cell::UnsafeCell;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;

/// Whether some code memory of this process belongs to the process that forked it.
static SHARES_CODE: AtomicBool = AtomicBool::new(false);

/// Whether all code memory is this process's own. It is not in a forked child for which there was
/// no memory: there, patches of such code are refused, and other stores to it have no effect.
pub fn owns_code() -> bool {
    !SHARES_CODE.load(Ordering::Relaxed)
}

/// Whether the fork handlers are registered with the C library.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | no | the thread that registers: to its thread's id |
/// | a thread's id | it is registering | that thread: to `DONE`; if it is gone, any: to its own |
/// | `DONE` | yes | - |
static REGISTERED: AtomicU32 = AtomicU32::new(0);
const DONE: u32 = u32::MAX;

/// Whether forks are no longer handled.
static LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// Disables the fork handlers from now on, for a process that may make no system calls except its
/// own. After that, no code may be patched, here or in its children.
pub fn leave_forks_alone() {
    LEFT_ALONE.store(true, Ordering::Release);
}

/// Registers the fork handlers with the C library, once, and keeps their library loaded.
pub(crate) fn prepare() {
    let this = threads::current();
    loop {
        let state = REGISTERED.load(Ordering::Acquire);
        if state == DONE {
            return;
        }
        // If a fork happened while a thread registered, that thread does not exist in the child,
        // and may or may not have registered. Registering twice does no harm: see `before`.
        let in_other_hands = state != 0 && threads::lives(Tid(state as i32));
        if in_other_hands {
            threads::give_way();
        } else if REGISTERED
            .compare_exchange(state, this.0 as u32, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            os::stay_loaded();
            // SAFETY: (1) the functions make only calls that are allowed in the child of a program
            // with threads.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
            REGISTERED.store(DONE, Ordering::Release);
        }
    }
}

/// The guards of all locks of this crate, and of blocked signals, until all locks are released.
type Guards = (
    MutexGuard<'static, ()>,
    MutexGuard<'static, ()>,
    MutexGuard<'static, Option<PatchError>>,
    MutexGuard<'static, ()>,
    MutexGuard<'static, Vec<Region>>,
    Blocked,
);

/// The guards that are kept while a process is being copied. At most one process is copied at a
/// time.
struct Held(UnsafeCell<Option<Guards>>);

// SAFETY: (1) the cell is used only by the thread that holds the first of the locks whose guards it
// keeps.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Takes every lock. No thread ever takes one of them while it holds another, or holds one while
/// foreign code runs, so this waits only briefly.
extern "C" fn before() {
    if LEFT_ALONE.load(Ordering::Acquire) {
        return;
    }
    if gate::is_closed_here() {
        // Registered twice, and called for the second time: the locks are taken already.
        return;
    }
    let undisturbed = Blocked::all();
    let mut guards = (
        INSTALLING.lock_for_fork(),
        RESERVING.lock_for_fork(),
        LATEST.lock_for_fork(),
        WINDOWS.lock_for_fork(),
        REGIONS.lock_for_fork(),
        undisturbed,
    );
    gate::close();
    code_memory::copy_all(&mut guards.4);
    // SAFETY: (1) this thread holds the locks; see `Held`.
    unsafe { *HELD.0.get() = Some(guards) };
}

/// The guards that `before` has stored.
fn take_back() -> Option<Guards> {
    // SAFETY: (1) this thread, or the one of which it is a copy, holds the locks.
    unsafe { (*HELD.0.get()).take() }
}

extern "C" fn in_parent() {
    let Some(mut guards) = take_back() else { return };
    gate::open();
    code_memory::drop_copies(&mut guards.4);
    drop(guards);
}

extern "C" fn in_child() {
    os::signals::forget_at_length();
    let Some(mut guards) = take_back() else { return };
    let owns_code = code_memory::separate_all(&mut guards.4);
    SHARES_CODE.store(!owns_code, Ordering::Relaxed);
    drop(guards);
    spare_stacks::forget();
    barrier::forget_call();
    completion::forget_thread();
    // Addresses are checked one by one only if some code memory is foreign.
    patch_in_progress::finish_all(|at| !owns_code && code_memory::is_foreign(at));
    capi::forget_callers();
    gate::open_in_child();
}
