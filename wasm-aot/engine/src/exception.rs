//! Identities of stores, and exceptions that the host holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// Identifies a store in handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId(u64);

impl StoreId {
    /// Returns an identity that no store has had.
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// An exception of a store. The store keeps the exception as long as this exists.
#[derive(Debug)]
pub struct ExnRef {
    address: usize,
    store: StoreId,
    held: Arc<Held>,
}

/// How many references to an exception the host holds.
#[derive(Debug, Default)]
pub(crate) struct Held(AtomicUsize);

impl Held {
    /// Whether the host holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(SeqCst) > 0
    }
}

impl ExnRef {
    /// Holds the exception at an address of a store.
    pub(crate) fn hold(address: usize, store: StoreId, held: &Arc<Held>) -> Self {
        held.0.fetch_add(1, SeqCst);
        Self { address, store, held: Arc::clone(held) }
    }

    /// Its address, if it is of that store.
    pub(crate) fn address_in(&self, store: StoreId) -> Option<usize> {
        (self.store == store).then_some(self.address)
    }
}

impl Clone for ExnRef {
    fn clone(&self) -> Self {
        Self::hold(self.address, self.store, &self.held)
    }
}

impl Drop for ExnRef {
    fn drop(&mut self) {
        self.held.0.fetch_sub(1, SeqCst);
    }
}
