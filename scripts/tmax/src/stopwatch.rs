//! The stopwatch: times spans of a few ticks.
//!
//! # Safety
//!
//! This module exists because the instructions that order the counter's readings are available as
//! unsafe intrinsics only.
#![allow(unsafe_code)]

use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

/// The ticks that `act` takes, from its first instruction to the completion of the last one (but
/// not to the visibility of its stores), including the cost of reading the clock.
#[inline]
pub(crate) fn time(act: impl FnOnce()) -> u64 {
    // SAFETY: (1) RDTSC and LFENCE are part of x86-64, and every x86-64 processor of the last
    // fifteen years has RDTSCP; (2) they touch no memory, except the local `aux`.
    unsafe {
        let mut aux = 0;
        _mm_lfence();
        let start = _rdtsc();
        _mm_lfence();
        act();
        let end = __rdtscp(&mut aux);
        _mm_lfence();
        end.saturating_sub(start)
    }
}
