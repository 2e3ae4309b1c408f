//! Identities of activations: assigned at the first query, and forgotten when the activation ends,
//! however it ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    /// The identities of this thread's activations that have one, by their frames. Stacks grow
    /// downwards: activations below the current one have ended.
    static KNOWN: RefCell<BTreeMap<usize, FrameId>> = const { RefCell::new(BTreeMap::new()) };
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An activation's identity. No two activations have the same, even if one uses the stack space of
/// an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId(u64);

impl FrameId {
    /// An identity that no activation has had.
    pub fn fresh() -> Self {
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// The identity of the activation with this frame.
    pub fn at(frame: usize) -> Self {
        KNOWN.with_borrow_mut(|known| *known.entry(frame).or_insert_with(Self::fresh))
    }

    /// Whether the activation still exists, as far as this thread knows: it has neither returned
    /// nor been unwound.
    pub fn is_alive(self) -> bool {
        KNOWN.with_borrow(|known| known.values().any(|id| *id == self))
    }
}

/// Forgets the activations whose frames are below that place of the stack. They have ended,
/// although their ends may not have been reported.
pub fn forget_below(place: usize) {
    KNOWN.with_borrow_mut(|known| {
        if known.first_key_value().is_some_and(|(lowest, _)| *lowest < place) {
            *known = known.split_off(&place);
        }
    });
}

/// The activation with this frame ends.
pub fn forget(frame: usize) {
    KNOWN.with_borrow_mut(|known| known.remove(&frame));
}
