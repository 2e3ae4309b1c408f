//! Calling contexts and the clock that charges them: the layout that machine code and the runtime
//! share.
//!
//! An *account* begins with two words: ticks, and how often it was opened. A [`ContextNode`] is an
//! account that also holds its function and its callees' contexts. Contexts whose calls are too
//! short for the clock are only counted, and entered without the runtime.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// How many buckets a context has for its callees' contexts; a power of two.
pub const PLACES: u32 = 16;
/// How many callees a context counts itself.
pub const COUNTS: u32 = 4;

/// A calling context.
#[derive(Debug)]
#[repr(C)]
pub struct ContextNode {
    /// Ticks that were charged.
    pub ticks: AtomicU64,
    /// How often it was entered.
    pub calls: AtomicU64,
    /// The number of its function.
    pub function: AtomicU32,
    /// Whether its calls are timed: 1, or 0. Machine code compares this and the number at once.
    pub timed: AtomicU32,
    /// The next context in the same bucket of its caller.
    pub next: AtomicUsize,
    /// When the call that is being timed began.
    pub entered: AtomicU64,
    /// Ticks of timed calls, including their callees. It only serves to decide whether calls are
    /// short: a call adds at most [`MOST`] times the least.
    pub spent: AtomicU64,
    /// How many calls were timed.
    pub samples: AtomicU64,
    /// The calls of callees that have no contexts of their own.
    pub counts: [AtomicU64; COUNTS as usize],
    /// The contexts of functions called from here, by the numbers of their functions.
    pub places: [AtomicUsize; PLACES as usize],
}

/// The words of an instance that describe the account that it charges.
#[derive(Debug)]
#[repr(C)]
pub struct AccountClock {
    /// The address of the account that is charged.
    pub current: u64,
    /// When the clock was read last.
    pub last: u64,
    /// The duration of a reading: no account is charged with it.
    pub reading: u64,
    /// Contexts whose calls take less than this on average are no longer timed, only counted, once
    /// this is known.
    pub least: u64,
}

/// The number of no function.
pub const NO_FUNCTION: u32 = u32::MAX;
/// How many times as much as the least one call may have taken: a longer one may have waited for a
/// processor. A power of two.
pub const MOST: u64 = 64;
/// After how many timed calls a context may be found too short.
pub const ENOUGH: u64 = 8;
