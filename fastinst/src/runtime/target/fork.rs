//! Forks: a child gets what it needs of its own when the function that forks returns in it.
//!
//! # Safety
//!
//! This module is called by `fork`, and keeps the registry locked from one handler to the next.
#![allow(unsafe_code)]

use super::profile_path::IMAGE;
use super::running::{PROCESS, known_process};
use super::{
    ASIDE, RUNNING, complain, config, has_probes, is_own_process, is_running, start_agent,
};
use crate::runtime::{
    agent, arguments, functions, load_handshake, modes, registered, registry, spans, threads,
    unloading,
};
use crate::{heap, output};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use wordpatch::os;

/// Whether a child was forked in which the profiler has not begun yet; and whether the thread that
/// has forked it was unloading a module.
pub(super) static UNBEGUN: AtomicBool = AtomicBool::new(false);
static UNLOADS: AtomicBool = AtomicBool::new(false);
/// The registry, held across a fork; and whether the thread that forks is unloading a module.
static HELD: HeldRegistry = HeldRegistry(std::cell::UnsafeCell::new(None));

struct HeldRegistry(std::cell::UnsafeCell<Option<(registry::LockedRegistry, bool)>>);

// SAFETY: (1) used only by the thread that forks, between its handlers, while it holds the
// registry.
unsafe impl Sync for HeldRegistry {}

pub(super) extern "C" fn before_fork() {
    if !is_running() {
        return;
    }
    let held = (registry::lock_registry(), unloading::is_by_caller());
    // SAFETY: (1) we hold the registry, so that no other thread is here.
    unsafe { *HELD.0.get() = Some(held) };
}

pub(super) extern "C" fn after_fork() {
    // SAFETY: (1) this thread holds the registry since `before_fork`.
    drop(unsafe { (*HELD.0.get()).take() });
}

/// Releases what was held, and leaves the rest for [`begin_in_child`]: other handlers follow,
/// possibly of allocators, which still hold their locks. Stores only to the profiler's memory. What
/// probes count meanwhile, they count into the child's own memory.
pub(super) extern "C" fn in_child() {
    heap::inherit();
    // SAFETY: (1) this thread holds the registry since `before_fork`. Nothing is held where the
    // profiler is not running: in a process that has forbidden itself our system calls, or that we
    // do not know.
    let Some((registry, unloads)) = (unsafe { (*HELD.0.get()).take() }) else { return };
    drop(registry);
    UNLOADS.store(unloads, Relaxed);
    functions::inherit();
    PROCESS.store(os::threads::process(), Release);
    IMAGE.store(0, Relaxed);
    agent::forget();
    spans::inherit();
    load_handshake::forget_requests();
    output::forget();
    ASIDE.store(std::ptr::null_mut(), Release);
    threads::forget_all();
    functions::all().for_each(|id| id.function().late.store(0, Relaxed));
    modes::ACCOUNT.clear();
    arguments::clear();
    modes::forget_hooks();
    if !config().follow {
        RUNNING.store(false, Release);
    }
    UNBEGUN.store(true, Release);
    if let Some(known) = known_process() {
        known.store(true, Release);
    }
}

/// A function that forks has returned, possibly in the child, where all handlers have run: there
/// the child is observed as a process of its own from now on, or left alone. What else a child
/// needs of its own is made here, before its agent.
///
/// A child of `_Fork` or of the system call has run no handlers. In it the profiler is not running,
/// and it is left alone.
pub(crate) fn begin_in_child() {
    if !UNBEGUN.load(Acquire) || !is_own_process() || !UNBEGUN.swap(false, AcqRel) {
        return;
    }
    let errno = os::errno();
    agent::control::close_copy();
    let begun = std::panic::catch_unwind(|| {
        let mut registry = registry::lock_registry();
        registry.inherit(UNLOADS.load(Relaxed));
        registered::inherit(&registry);
        drop(registry);
        if !wordpatch::owns_code() {
            // Switching here would switch the parent's code, too.
            RUNNING.store(false, Release);
            return Err("there was no memory for a copy of its code".to_owned());
        }
        functions::all().for_each(modes::inherit);
        if !config().follow {
            functions::all().for_each(|id| modes::allow(id, false));
        } else if has_probes() {
            // Before the program continues: calls that are open when functions get their first
            // modes are not timed.
            return start_agent();
        }
        Ok(())
    });
    if let Err(why) = begun.unwrap_or_else(|_| Err("an invariant of ours is broken".to_owned())) {
        complain(&format!("a forked child is not profiled: {why}"));
    }
    os::set_errno(errno);
}
