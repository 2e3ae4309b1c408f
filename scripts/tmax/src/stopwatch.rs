//! The stopwatch: spans of a few ticks, with what reading the clock costs taken off.
//!
//! # Safety
//!
//! This module exists because the instructions that order the counter's readings are only reachable
//! as unsafe intrinsics.
#![allow(unsafe_code)]

use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

/// How many ticks `act` takes, from the first of its instructions to the last one done (but not to
/// the visibility of its stores), reading the clock included.
#[inline]
pub(crate) fn time(act: impl FnOnce()) -> u64 {
    // SAFETY: (1) RDTSC and LFENCE are part of x86-64, and every x86-64 processor that has run
    // Linux these fifteen years has RDTSCP; (2) they touch no memory, except `aux`, which is ours.
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
