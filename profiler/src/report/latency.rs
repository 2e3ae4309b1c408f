//! The printed times of single calls: no percentile is above the longest call, and none is below
//! the measurable time.

use crate::figure::Mark;
use crate::profile::{Function, Header};

/// A function's tail is heavy if its longest call took more than this many times its 99th
/// percentile.
const HEAVY: f64 = 100.0;

/// The measured time of an empty call that a runtime reports, as a multiple of one between hooks:
/// entry and exit go through the library's functions and through tables of the runtime, which are
/// cold.
const BY_RUNTIME: f64 = 4.0;

/// A time of single calls as it is printed: the number with a mark in front.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) sign: &'static str,
    /// Nanoseconds; with `<`, the shortest time that can be measured.
    pub(crate) time: f64,
    /// Nanoseconds as they were measured.
    pub(crate) measured: f64,
}

impl Function {
    /// A percentile as it is printed.
    pub(crate) fn shown_percentile(&self, share: f64, header: &Header) -> Option<Shown> {
        let measured = self.latency(share, header)?;
        let floor = self.floor(header);
        let (sign, time) = match (measured < floor, self.is_complete()) {
            (true, true) => ("<", floor.ceil()),
            (true, false) => ("~<", floor.ceil()),
            (false, true) => (self.doubt().unwrap_or(""), measured),
            (false, false) => ("~", measured),
        };
        Some(Shown { sign, time, measured })
    }

    /// Its longest call as it is printed. Where not every call was timed, another one may have been
    /// longer: a short one is no evidence.
    pub(crate) fn shown_longest(&self, header: &Header) -> Option<Shown> {
        let measured = self.max.filter(|max| max.is_finite())?;
        let floor = self.floor(header);
        let heavy = self.has_heavy_tail(header);
        let (sign, time) = match (measured < floor, self.is_complete()) {
            (true, true) => ("<", floor.ceil()),
            (true, false) => return None,
            (false, true) if heavy => ("!", measured),
            (false, true) => (self.doubt().unwrap_or(""), measured),
            (false, false) if heavy => ("!≥", measured),
            (false, false) => ("≥", measured),
        };
        Some(Shown { sign, time, measured })
    }

    /// Whether every call was timed.
    pub(crate) fn is_complete(&self) -> bool {
        self.calls.is_exact() && self.samples as f64 >= self.calls.value
    }

    /// A percentile of its calls' times, in nanoseconds, never below the shortest or above the
    /// longest call.
    pub(crate) fn latency(&self, share: f64, header: &Header) -> Option<f64> {
        self.percentile(share, header).filter(|value| value.is_finite())
    }

    /// The shortest time of a call that can be measured: the clock's step, and the cost of a pair
    /// of hooks; for sampled calls, twice the measured time of an empty call.
    pub(crate) fn floor(&self, header: &Header) -> f64 {
        let step = (header.step as f64 / header.hz * 1e9).max(header.pair_time());
        let times = if self.by_runtime { BY_RUNTIME } else { 1.0 };
        let floor = if self.is_complete() { step } else { step.max(header.floor * times) };
        if floor.is_finite() { floor } else { 0.0 }
    }

    /// The mark of its calls' times if all calls were timed: none, unless hooks inside of them make
    /// the times uncertain.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        let mean = self.timed.mean().filter(|mean| self.is_complete() && !mean.is_exact())?;
        Some(if mean.mark() == Mark::About { "~" } else { "?" })
    }

    /// Whether single calls took far longer than almost all others.
    pub(crate) fn has_heavy_tail(&self, header: &Header) -> bool {
        matches!((self.max, self.latency(0.99, header)), (Some(max), Some(p99)) if p99 > 0.0 && max > HEAVY * p99)
    }
}
