//! Whether hooks do anything: in the process that the profiler was started in, in its children, and
//! in a library that waits to be attached.
//!
//! # Safety
//!
//! This module reads a byte on a page that the kernel clears in every child.
#![allow(unsafe_code)]

use crate::runtime::complaint::complain;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr};
use wordpatch::os;
use wordpatch::os::pages::{self, PAGE, Place, Protection};

/// Whether hooks do anything.
pub(in crate::runtime) static RUNNING: AtomicBool = AtomicBool::new(false);
/// Whether hooks that are called as they were linked return at once: in a library that waits to be
/// attached, or was attached, or has given up.
pub(in crate::runtime) static DORMANT: AtomicBool = AtomicBool::new(false);
/// The process that the profiler runs in: a child made by `vfork` shares its memory, and is
/// another.
pub(super) static PROCESS: AtomicI32 = AtomicI32::new(0);
/// A byte on a page that the kernel clears in every child of a fork, however it was made: set in
/// processes that the profiler knows.
static KNOWN_PROCESS: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

/// Whether hooks do anything.
pub(crate) fn is_running() -> bool {
    RUNNING.load(Relaxed) && is_known_process()
}

/// Whether this process has begun with our constructor, or run our fork handler; or shares the
/// memory of one that has.
pub(in crate::runtime) fn is_known_process() -> bool {
    known_process().is_none_or(|known| known.load(Relaxed))
}

pub(super) fn known_process() -> Option<&'static AtomicBool> {
    // SAFETY: (1) null, or mapped for ever.
    unsafe { KNOWN_PROCESS.load(Relaxed).as_ref() }
}

/// Where the kernel cannot clear pages, children that run no fork handlers are taken for their
/// parents.
pub(super) fn make_process_known() {
    // SAFETY: (1) a new mapping.
    let page = unsafe { pages::map_private(Place::Anywhere, PAGE, Protection::ReadWrite) };
    if let Ok(page) = page
        && pages::wipe_on_fork(page, PAGE).is_ok()
    {
        // SAFETY: (1) mapped, and not known to any other code.
        let known: &AtomicBool = unsafe { &*page.as_ptr().cast() };
        known.store(true, Relaxed);
        KNOWN_PROCESS.store(std::ptr::from_ref(known).cast_mut(), Release);
    }
}

/// From now on hooks are active.
pub(in crate::runtime) fn activate_hooks() {
    DORMANT.store(false, Release);
    RUNNING.store(true, Release);
}

/// From now on hooks do nothing.
pub(in crate::runtime) fn deactivate_hooks() {
    RUNNING.store(false, Release);
    DORMANT.store(true, Release);
}

/// Tests call hooks without being preloaded.
#[cfg(test)]
pub(in crate::runtime) fn activate_hooks_in_test() {
    RUNNING.store(true, Release);
}

/// Whether hooks do anything, in the process that the profiler was started in.
pub(in crate::runtime) fn is_observed() -> bool {
    is_running() && is_own_process()
}

/// Where this process is the first of its namespace, a child that shares its memory may be the
/// first of another one.
pub(in crate::runtime) fn is_own_process() -> bool {
    const FIRST: i32 = 1;
    let process = os::threads::process();
    PROCESS.load(Relaxed) == process && (process != FIRST || os::threads::is_set_up())
}

/// Switches the profiler off, and reports why.
pub(in crate::runtime) fn give_up(why: &str) {
    deactivate_hooks();
    complain(why);
}
