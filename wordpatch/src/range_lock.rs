//! Range locks: locks on the bytes that are being replaced.
//!
//! A *quad* is an aligned quadword of code, with one bit for each byte that is being patched. Two
//! words overlap exactly if they need the same bit. A word touches at most two quads and takes the
//! lower one first. So of several contenders, the one that holds the highest quad cannot fail any
//! more: at least one succeeds, and disjoint words never conflict.
//!
//! Quads are kept apart from the data that the trap handler reads: a lock must not wait for a
//! cache line that executing threads have just read.
//!
//! There is no unsafe code here, and nothing but atomics: the loom models compile this very file.

use crate::addr::CodeAddr;
use crate::address_map::Entry;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use std::ops::Range;

/// An aligned quadword of code that an adopted word touches.
#[derive(Debug)]
pub(crate) struct Quad {
    /// Its address; zero while the entry is vacant. Set once.
    key: AtomicUsize,
    /// Bit `i`: byte `i` is being patched. Set and cleared by the patch that holds it.
    held: AtomicU32,
}

impl Entry for Quad {
    fn vacant() -> Self {
        Self { key: AtomicUsize::new(0), held: AtomicU32::new(0) }
    }

    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

impl Quad {
    /// Takes all bytes of `mask`, or none.
    fn take(&self, mask: u32) -> bool {
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            if held & mask != 0 {
                return false;
            }
            // Acquire pairs with the Release in `give_back`: the previous patch's stores to these
            // bytes are complete.
            match self.held.compare_exchange_weak(
                held,
                held | mask,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(found) => held = found,
            }
        }
    }

    fn give_back(&self, mask: u32) {
        self.held.fetch_and(!mask, Ordering::Release);
    }

    /// Releases all bytes. Only where no other thread exists.
    pub(crate) fn free_all(&self) {
        self.held.store(0, Ordering::Relaxed);
    }

    /// Locks all bytes. Only where no other thread exists.
    pub(crate) fn hold_all(&self) {
        self.held.store(u32::MAX, Ordering::Relaxed);
    }

    /// Its address.
    pub(crate) fn address(&self) -> CodeAddr {
        CodeAddr::new(self.key.load(Ordering::Relaxed))
    }

    /// Whether any byte of `mask` is locked.
    fn holds(&self, mask: u32) -> bool {
        self.held.load(Ordering::Acquire) & mask != 0
    }
}

/// The lock on the bytes of one word: the quads that contain them, and their bits there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeLock {
    low: (&'static Quad, u32),
    high: Option<(&'static Quad, u32)>,
}

impl RangeLock {
    /// The lock on `[start, end)`, at most eight bytes, with the quads that `quad_of` finds.
    pub(crate) fn new(
        word: &Range<CodeAddr>,
        mut quad_of: impl FnMut(CodeAddr) -> &'static Quad,
    ) -> Self {
        let len = word.end.distance_from(word.start) as usize;
        let bits = ((1u32 << len) - 1) << word.start.within(8);
        let low = (quad_of(word.start), bits & 0xff);
        let above = bits >> 8;
        let high = (above != 0).then(|| (quad_of(word.end.offset(-1)), above));
        Self { low, high }
    }

    /// Locks the bytes if none of them is locked.
    pub(crate) fn take(&self) -> bool {
        let (low, bits) = self.low;
        if !low.take(bits) {
            return false;
        }
        match self.high {
            Some((high, above)) if !high.take(above) => {
                low.give_back(bits);
                false
            }
            _ => true,
        }
    }

    /// Releases the bytes. Only for the code that locked them.
    pub(crate) fn give_back(&self) {
        if let Some((high, above)) = self.high {
            high.give_back(above);
        }
        let (low, bits) = self.low;
        low.give_back(bits);
    }

    /// Whether any of the bytes is locked.
    pub(crate) fn is_held(&self) -> bool {
        self.low.0.holds(self.low.1) || self.high.is_some_and(|(high, above)| high.holds(above))
    }
}
