//! Measured at the beginning: how fast the counter runs, and what a stub costs.
//!
//! The counter is compared with the kernel's raw monotonic clock over the time that installing
//! takes, and again over the whole run for the report, so that no file of the system has to be read
//! for frequencies. Costs are those of the stubs themselves, on a function of the profiler.
//!
//! # Safety
//!
//! This module calls stubs as a trampoline does.
#![allow(unsafe_code)]

use super::drain;
use super::functions::Id;
use super::keeping;
use super::layout::Header;
use super::scope;
use super::skip;
use super::stub;
use super::threads::{self, Caller};
use profiler::{Clock, Costs};
use std::arch::asm;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wordpatch::Ticks;

/// The shortest time from which a clock's speed is computed.
const BASELINE: Duration = Duration::from_micros(300);

/// How many pairs are run in a round, and how many rounds.
const PAIRS: u32 = 64;
const ROUNDS: usize = 7;

/// A point on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instants {
    ticks: Ticks,
    raw: Duration,
}

impl Instants {
    /// Now: of several readings of the clock between two of the counter, the one where these lie
    /// closest together.
    pub(crate) fn now() -> Self {
        let read = || {
            let before = Ticks::now();
            let raw = raw_time();
            let after = Ticks::now();
            (
                after.since(before).0,
                Self { ticks: Ticks(before.0 + after.since(before).0 / 2), raw },
            )
        };
        (0..8)
            .map(|_| read())
            .min_by_key(|(width, _)| *width)
            .map_or_else(|| read().1, |(_, instants)| instants)
    }

    /// How long ago it was.
    pub(crate) fn elapsed(self) -> Duration {
        raw_time().saturating_sub(self.raw)
    }

    /// The counter's speed from here to now; waits until that is long enough to measure it.
    pub(crate) fn speed(self) -> f64 {
        let mut now = Self::now();
        while now.raw.saturating_sub(self.raw) < BASELINE {
            std::hint::spin_loop();
            now = Self::now();
        }
        now.ticks.since(self.ticks).0 as f64 / (now.raw - self.raw).as_secs_f64()
    }
}

fn raw_time() -> Duration {
    // SAFETY: (1) a time to write to.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The clock: its speed since `start`, and its step.
pub(crate) fn clock(start: Instants) -> Clock {
    Clock { hz: start.speed(), step: step() }
}

/// The most frequent difference: counters may increase in steps of many ticks, and between two
/// steps randomly by less.
fn step() -> u64 {
    const READINGS: usize = 256;
    let mut seen: Vec<u64> =
        (0..READINGS).map(|_| difference()).filter(|&difference| difference > 0).collect();
    seen.sort_unstable();
    let often = seen.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
    often.map_or(1, |same| same[0])
}

/// The difference of two consecutive readings.
fn difference() -> u64 {
    let first = Ticks::now();
    Ticks::now().since(first).0
}

static COSTS: OnceLock<Costs> = OnceLock::new();

/// What the stubs cost, measured once, on a thread that is observed; with puns, the cost of their
/// stubs.
pub(crate) fn costs(behind_puns: bool, hz: f64) -> Costs {
    let costs = *COSTS.get_or_init(|| measure_costs(behind_puns, hz));
    stub::PAIR.store(costs.pair as u64, Relaxed);
    stub::BIAS.store(costs.bias as u64, Relaxed);
    costs
}

/// The same, as far as it is known. Usable in a signal handler.
pub(super) fn known_costs() -> Costs {
    COSTS.get().copied().unwrap_or(GUESS)
}

const GUESS: Costs = Costs { pair: 45.0, bias: 24.0, count: 2.0, toggle: 450.0, skip: 4.0 };

/// The share of the back-to-back cost of counting by which a program is usually slowed down that
/// does other work as well. Back to back, each addition waits for the one before; in a program it
/// overlaps with the program's own work, or takes its place. Of 8 ticks back to back, 57 million
/// counted calls of the demo added 2.7 each (AMD of family 25, model 1); of 5 ticks, 108 million
/// calls of a function of three instructions added 3.7 (model 17). The sampling controller corrects
/// it by what it sees in the program.
const VISIBLE: f64 = 0.45;

/// What a pass of a pun costs a program besides its stub, in seconds: three jumps between pages
/// that are not used otherwise, and registers that are saved. It cannot be measured back to back,
/// where branch predictors and caches know the way. Counting every call of a database's work takes
/// 2.2 to 2.9 ns a call in all (AMD of family 25), 3.0 to 3.3 ns (AMD of family 26), 1.8 to 3.0 ns
/// (Intel of family 6, model 207); its stub 0.4 to 1 ns of it.
const PUN: f64 = 2.2e-9;

fn measure_costs(behind_puns: bool, hz: f64) -> Costs {
    let Caller::Observed(block) = threads::caller() else { return GUESS };
    let function = Id(0).function();
    let Some(record) = block.record(0) else { return GUESS };
    function.quota.store(i32::MAX, Relaxed);
    function.skips.store(skip::table_for(0.0), Relaxed);
    record.term.store(function.term.load(Relaxed), Relaxed);
    record.left.store(i32::MAX, Relaxed);
    record.address.store(1, Relaxed);
    let (enter, exit): (extern "C" fn(), extern "C" fn()) = match (behind_puns, scope::is_used()) {
        (true, false) => (keeping::time_enter, keeping::time_exit),
        (false, false) => (stub::time_enter, stub::time_exit),
        (true, true) => (keeping::follow_and_time, keeping::unfollow_and_time),
        (false, true) => (scope::stubs::follow_and_time, scope::stubs::unfollow_and_time),
    };
    let mut bias = Vec::new();
    let pair = best(|| {
        let ticks = run(enter, Some(exit));
        bias.extend(drained(block));
        ticks
    });
    record.skip.store(i32::MAX, Relaxed);
    let skip = best(|| run(enter, Some(exit)));
    let count = VISIBLE * best(|| run(stub::count, None));
    record.address.store(0, Relaxed);
    record.count.store(0, Relaxed);
    bias.sort_unstable();
    let bias = bias.get(bias.len() / 2).map_or(GUESS.bias, |&ticks| ticks as f64);
    let pass = if behind_puns { PUN * hz } else { 0.0 };
    Costs {
        pair: pair + 2.0 * pass,
        bias,
        count: count + pass,
        toggle: GUESS.toggle,
        skip: skip + 2.0 * pass,
    }
}

/// The minimum of some rounds: no disturbance makes a stub faster than it is.
fn best(mut round: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}

/// Ticks that one enter, and exit, of the profiler's own function takes.
fn run(enter: extern "C" fn(), exit: Option<extern "C" fn()>) -> f64 {
    let start = Ticks::now();
    for _ in 0..PAIRS {
        call(enter);
        if let Some(exit) = exit {
            call(exit);
        }
    }
    Ticks::now().since(start).0 as f64 / f64::from(PAIRS)
}

/// Calls a stub as the trampoline of a site of function 0 does.
#[inline]
fn call(stub: extern "C" fn()) {
    // SAFETY: (1) a stub changes what a call may change, and reads these four registers; (2) site
    // `NO_SITE` is none.
    unsafe {
        asm!("call {stub}", stub = in(reg) stub as usize, in("rdi") 1u64, in("rsi") 0u64, in("r10") u64::from(stub::NO_SITE),
            in("r11") 0u64, clobber_abi("C"));
    }
}

/// Takes what is in the ring.
fn drained(block: &Header) -> Vec<u64> {
    let mut ticks = Vec::new();
    let mut batch = [drain::Done::default(); drain::BATCH];
    loop {
        match drain::take_entries(block, &mut batch) {
            0 => return ticks,
            taken => ticks.extend(batch[..taken].iter().map(|done| done.ticks)),
        }
    }
}

/// The clock over a whole run, for the report.
pub(crate) fn clock_since(start: Instants, known: Clock) -> Clock {
    Clock { hz: start.speed(), ..known }
}
