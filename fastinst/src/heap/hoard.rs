//! Mappings that are kept when large blocks are freed, while a profile is written.
//!
//! # Safety
//!
//! This module unmaps what no block has.
#![allow(unsafe_code)]

use super::{Taken, map};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, round_up};

/// Mappings that no block has. Neighbours stay apart: each is a part of one mapping of the
/// kernel's, so that it can be moved.
pub(super) struct Kept {
    pub(super) parts: [(usize, usize); Self::MOST],
    pub(super) count: usize,
}

impl Kept {
    pub(super) const MOST: usize = 64;

    /// Returns whether there is room for one more.
    fn put(&mut self, start: usize, len: usize) -> bool {
        let has_room = self.count < Self::MOST;
        if has_room {
            self.parts[self.count] = (start, len);
            self.count += 1;
        }
        has_room
    }

    /// The beginning of the smallest that is large enough.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let parts = self.parts[..self.count].iter().enumerate();
        let fits = parts.filter(|(_, part)| part.1 >= len).min_by_key(|(_, part)| part.1);
        let (at, (start, had)) = fits.map(|(at, part)| (at, *part))?;
        if had > len {
            self.parts[at] = (start + len, had - len);
        } else {
            self.count -= 1;
            self.parts[at] = self.parts[self.count];
        }
        Some(start)
    }
}

/// How many there are.
pub(super) static HOARDS: AtomicU32 = AtomicU32::new(0);

/// While this lives, large blocks that are freed are kept for others.
#[derive(Debug)]
pub(crate) struct Hoard(());

impl Hoard {
    pub(crate) fn begin() -> Self {
        HOARDS.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        if HOARDS.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        let Some(mut arena) = Taken::current() else { return };
        let kept = arena.kept();
        for (start, len) in kept.parts.iter().take(std::mem::take(&mut kept.count)) {
            // SAFETY: (1) no block's.
            let _ = unsafe { pages::unmap(CodeAddr::new(*start), *len) };
        }
    }
}

/// A mapping for a block, and whether it is known to be zero: a kept one is not.
pub(super) fn take_mapping(len: usize) -> (Option<*mut u8>, bool) {
    if HOARDS.load(Relaxed) > 0
        && let Some(mut arena) = Taken::current()
        && let Some(start) = arena.kept().take(round_up(len))
    {
        return (Some(std::ptr::with_exposed_provenance_mut(start)), false);
    }
    (map(len), true)
}

/// Gives a mapping back.
///
/// # Safety
/// No block has it.
pub(super) unsafe fn leave_mapping(start: *mut u8, len: usize) {
    if HOARDS.load(Relaxed) > 0
        && let Some(mut arena) = Taken::current()
        && arena.kept().put(start.expose_provenance(), len)
    {
        return;
    }
    // SAFETY: (1) the caller.
    let _ = unsafe { pages::unmap(CodeAddr::from_ptr(start), len) };
}
