//! A lock that survives a fork.
//!
//! The standard library's, without poison: what our locks protect is whole between any two statements. A lock with a queue of
//! waiters in memory would not do: the child of a fork would find the queue of threads that it does not have.
//!
//! # Safety
//!
//! This module exists because the child of a fork has to free locks whose holders it does not have.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(UnsafeCell<Mutex<T>>);

// SAFETY: (1) as for the mutex: only `renew` goes past it, whose caller is alone.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(Mutex::new(value)))
    }

    fn mutex(&self) -> &Mutex<T> {
        // SAFETY: (1) the only exclusive access is in `renew`, whose caller is alone.
        unsafe { &*self.0.get() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.mutex().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it a new lock that holds `value`, if somebody held it.
    ///
    /// # Safety
    /// No other thread exists: whoever held it is gone and may have left the value half written.
    pub(crate) unsafe fn renew(&self, value: T) {
        if matches!(self.mutex().try_lock(), Err(TryLockError::WouldBlock)) {
            // SAFETY: (1) the caller; (2) what was there is not dropped, since it may be half a value.
            unsafe { self.0.get().write(Mutex::new(value)) };
        }
    }
}
