//! Times of the time-stamp counter.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time or a span of it, in cycles of the time-stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The counter now. Not ordered against the loads and stores around it.
    #[inline]
    #[allow(unsafe_code)]
    pub fn now() -> Self {
        // SAFETY: (1) `rdtsc` exists on every x86-64 processor; (2) user code may execute it unless
        // the process has set PR_TSC_SIGSEGV, and then the fault is intended.
        Self(unsafe { core::arch::x86_64::_rdtsc() })
    }

    /// The time since `earlier`; zero if the counters of two cores differ by more than that.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Spins until `span` has passed. Never sleeps, since the exact length matters.
    pub fn spin(span: Self) {
        let start = Self::now();
        while Self::now().since(start) < span {
            std::hint::spin_loop();
        }
    }
}

impl Add for Ticks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Ticks {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ticks", self.0)
    }
}
