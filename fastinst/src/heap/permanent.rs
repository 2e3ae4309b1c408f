//! Blocks that stay: thousands of small ones, side by side in populated memory, allocated by one
//! thread and without the lock.
//!
//! # Safety
//!
//! This module writes headers into memory that it has mapped.
#![allow(unsafe_code)]

use super::{ALIGN, Header, map};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, round_up};
use wordpatch::os::signals::thread_pointer;

/// The generation of blocks that stay.
pub(super) const FOR_GOOD: u32 = u32::MAX;
/// Memory for those is mapped in pieces of this size.
pub(super) const ROOM: usize = 64 << 10;

/// The thread that allocates for good, by its thread pointer; zero if there is none.
pub(super) static BUILDER: AtomicUsize = AtomicUsize::new(0);
/// The address of its next block, and the end of its memory.
static NEXT: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Blocks that this thread allocates in `act` are permanent, except for those that it frees there
/// at once. Used for tables that are made once.
pub(crate) fn for_good<R>(act: impl FnOnce() -> R) -> R {
    let is_first = BUILDER.compare_exchange(0, thread_pointer(), Acquire, Relaxed).is_ok();
    let made = act();
    if is_first {
        BUILDER.store(0, Release);
    }
    made
}

/// Whether the calling thread allocates for good.
pub(super) fn builds() -> bool {
    let builder = BUILDER.load(Relaxed);
    builder != 0 && builder == thread_pointer()
}

/// A block that stays. By the thread that builds.
pub(super) fn build(len: usize, align: usize) -> Option<*mut u8> {
    let place = |next: usize| (next + ALIGN).next_multiple_of(align);
    let mut next = NEXT.load(Relaxed);
    if place(next) + len > END.load(Relaxed) {
        let room = round_up((len + align + ALIGN).max(ROOM));
        let start = map(room)?;
        pages::populate(CodeAddr::from_ptr(start), room);
        next = start.expose_provenance();
        END.store(next + room, Relaxed);
    }
    let block = place(next);
    NEXT.store(block + len, Relaxed);
    let block: *mut u8 = std::ptr::with_exposed_provenance_mut(block);
    // SAFETY: (1) behind what was there before, and inside; (2) aligned to a header's alignment.
    unsafe {
        block.cast::<Header>().sub(1).write(Header { len, before: 0, generation: FOR_GOOD });
    };
    Some(block)
}

/// Changes the length of a permanent block, if it is the last one and there is room. Called by the
/// thread that builds.
pub(super) fn rebuild(block: *mut u8, old: usize, len: usize) -> bool {
    let is_last = block.addr() + old == NEXT.load(Relaxed);
    let fits = is_last && block.addr() + len <= END.load(Relaxed);
    if fits {
        NEXT.store(block.addr() + len, Relaxed);
        // SAFETY: (1) its own header.
        unsafe { (*block.cast::<Header>().sub(1)).len = len };
    }
    fits
}
