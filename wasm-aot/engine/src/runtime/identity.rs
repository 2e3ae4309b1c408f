//! Identities of activations: given when one is asked for, and forgotten when the activation ends,
//! however it ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    /// The identities of this thread's activations that have one, by their frames. Stacks grow
    /// downwards: what is below is gone.
    static KNOWN: RefCell<BTreeMap<usize, FrameId>> = const { RefCell::new(BTreeMap::new()) };
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An activation. No two have the same, also when one comes where another was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId(u64);

impl FrameId {
    /// One that no activation has had.
    pub fn fresh() -> Self {
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// That of the activation with this frame.
    pub fn at(frame: usize) -> Self {
        KNOWN.with_borrow_mut(|known| *known.entry(frame).or_insert_with(Self::fresh))
    }

    /// Whether the activation is still there, as far as this thread knows: it has neither returned
    /// nor been taken away.
    pub fn is_alive(self) -> bool {
        KNOWN.with_borrow(|known| known.values().any(|id| *id == self))
    }
}

/// Activations are gone, though none of their ends may have come by: those whose frames are below
/// that place of the stack.
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
