//! A lock that survives a fork.
//!
//! The standard library's, without poison: what our locks protect is whole between any two statements. A lock with a queue of
//! waiters in memory would not do: the child of a fork would find the queue of threads that it does not have.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
