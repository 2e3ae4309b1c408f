//! Memory that is put aside at the beginning, for requests that the kernel refuses.
//!
//! # Safety
//!
//! This module makes a mapping writable that no other code knows.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use wordpatch::os::pages::{self, Protection};

/// The address space that is put aside: until it is touched it takes no memory, and it is not
/// locked.
pub(super) const SPARE: usize = 2 << 20;

/// The address of the next block for a request that the kernel refuses, and that of the first one:
/// zero if nothing is put aside.
static SPARE_NEXT: AtomicUsize = AtomicUsize::new(0);
static SPARE_START: AtomicUsize = AtomicUsize::new(0);

/// Puts memory aside, unless the kernel refuses.
pub(super) fn put_aside() {
    let Ok(start) = pages::reserve(SPARE) else { return };
    // SAFETY: (1) mapped above, and no other thread knows it.
    if unsafe { pages::protect(start, SPARE, Protection::ReadWrite) }.is_ok()
        && SPARE_START.compare_exchange(0, start.get(), AcqRel, Acquire).is_ok()
    {
        SPARE_NEXT.store(start.get(), Release);
    }
}

/// Memory that was put aside.
pub(super) fn spare(len: usize) -> Option<*mut u8> {
    let end = SPARE_START.load(Acquire) + SPARE;
    let fits = |next: usize| next.checked_add(len).filter(|next_after| *next_after <= end);
    let next = SPARE_NEXT.fetch_update(AcqRel, Acquire, |next| (next != 0).then(|| fits(next))?);
    next.ok().map(std::ptr::with_exposed_provenance_mut)
}

/// Whether the kernel has refused so much that little is left.
pub(crate) fn is_short() -> bool {
    SPARE_NEXT.load(Relaxed) > SPARE_START.load(Relaxed) + SPARE / 2
}
