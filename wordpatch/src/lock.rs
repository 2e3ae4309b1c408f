//! A lock that survives a fork.
//!
//! The standard library's lock, without poisoning: the data that these locks protect is consistent
//! between any two statements. A lock with a queue of waiters in memory would not do: the child of
//! a fork would inherit a queue of threads that it does not have.
//!
//! The program's signals are blocked on the thread that holds one: a handler that forks takes all
//! locks, and must not have interrupted a thread that holds one.

use crate::os::signals::Blocked;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

/// The value, for the thread that holds the lock.
#[derive(Debug)]
pub(crate) struct Guard<'l, T> {
    // Released before signals are unblocked: fields are dropped in this order.
    value: MutexGuard<'l, T>,
    _undisturbed: Blocked,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let undisturbed = Blocked::all();
        Guard { value: self.lock_for_fork(), _undisturbed: undisturbed }
    }

    /// The same for a thread that takes several locks, and blocks its signals itself.
    pub(crate) fn lock_for_fork(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::*;
    use crate::os::{signals, threads};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn no_handler_interrupts_the_holder() {
        static HANDLED: AtomicBool = AtomicBool::new(false);
        extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            HANDLED.store(true, Ordering::Relaxed);
        }
        // SAFETY: (1) the handler stores a flag.
        unsafe { signals::install(libc::SIGWINCH, handle, 0) }.unwrap();
        let lock = Lock::new(5);
        let held = lock.lock();
        signals::send(threads::current(), libc::SIGWINCH).unwrap();
        assert_eq!((*held, HANDLED.load(Ordering::Relaxed)), (5, false));
        drop(held);
        assert!(HANDLED.load(Ordering::Relaxed) && lock.0.try_lock().is_ok());
    }

    #[test]
    fn signals_that_are_blocked_at_length_stay_blocked_between_locks() {
        static HANDLED: AtomicBool = AtomicBool::new(false);
        extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            HANDLED.store(true, Ordering::Relaxed);
        }
        // SAFETY: (1) the handler stores a flag.
        unsafe { signals::install(libc::SIGURG, handle, 0) }.unwrap();
        let lock = Lock::new(5);
        let undisturbed = Blocked::all();
        let at_length = undisturbed.at_length();
        drop(lock.lock());
        signals::send(threads::current(), libc::SIGURG).unwrap();
        drop(lock.lock());
        // Signals are blocked on this thread only.
        let on_another = std::thread::spawn(move || {
            let mask = signals::set_mask(&signals::empty());
            let held = lock.lock();
            let blocked = signals::word(&signals::block(&signals::empty()));
            drop(held);
            signals::set_mask(&mask);
            blocked & signals::bit(libc::SIGURG) != 0
        });
        assert!(on_another.join().unwrap() && !HANDLED.load(Ordering::Relaxed));
        drop(at_length);
        drop(undisturbed);
        assert!(HANDLED.load(Ordering::Relaxed));
    }
}
