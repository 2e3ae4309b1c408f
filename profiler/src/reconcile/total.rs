//! Totals: CPU time of a function and of its callees, counted once in recursion.
//!
//! If every call was timed and the total lies in the clock's interval, the timed total is used. It
//! is wall time: if it is above the interval, calls have waited or were preempted; if it is below,
//! a call is still running. Then the clock decides, as for all sampled functions: with twenty
//! stacks and more alone, otherwise if the sampled time is outside the clock's interval. Samples of
//! short calls are mostly the cost of sampling, and give no total.
//!
//! If every call of every function was timed and threads have waited, self times by the wall clock
//! add up to more than the CPU time: the amount of waiting is known, but not in which calls. A
//! thread that yields its CPU gets it back after at least two context switches, so the waiting is
//! in calls that took longer than [`WAIT`], and the time of shorter calls was CPU time.
//!
//! If only some functions were timed completely, all of the threads' off-CPU time may have been in
//! any of their long calls. A total in the clock's interval keeps its value, and its own interval
//! is extended downwards by that time, but not below the clock's.

use super::self_time::OwnTimes;
use super::{Callers, Seen, bounds, doubt, estimate, interval};
use crate::histogram;
use crate::profile::{Function, Header, Profile};
use crate::{ClockSource, Figure};

/// The number of stacks that suffice for a total.
const ENOUGH: u64 = 20;
/// Sampled times of shorter calls are not evidence of CPU time, in nanoseconds: they are mostly the
/// cost of sampling.
const TOO_SHORT: f64 = 200.0;
/// The shortest wait, in nanoseconds: no thread waits for much less, as a context switch takes a
/// microsecond or two.
const WAIT: f64 = 5_000.0;

/// CPU time with it on the stack, from the clock alone.
pub(super) fn cpu(seen: &Seen, at: usize) -> Option<Figure> {
    if !seen.visible[at] || seen.stack_samples == 0 {
        return None;
    }
    let function = &seen.functions[at];
    let interval = interval::of_samples(
        function.on_stack,
        function.stack_samples,
        seen.stack_samples,
        seen.processor,
    );
    Some(estimate(function.on_stack, interval, 0.0, seen.processor))
}

/// Consistent totals, by position.
pub(super) fn totals(
    profile: &Profile,
    seen: &Seen,
    own: &OwnTimes,
    callers: &Callers,
) -> Vec<Option<Figure>> {
    let functions = || profile.functions.iter().enumerate();
    let waiting = Waiting::of(profile, seen.processor);
    let idle = (profile.watched() - seen.processor).max(0.0);
    let timed = |function: &Function| {
        let total = function.timed.total()?;
        let long = function.timed.own().map_or(0.0, |_| function.long(&profile.header));
        Some(waiting.without(total, long))
    };
    let proposed: Vec<Option<Figure>> = functions()
        .map(|(at, function)| {
            // If every call of every function was timed, waiting has already been subtracted.
            let idle = match function.timed.own() {
                Some(_) => 0.0,
                None => idle.min(function.long(&profile.header)),
            };
            propose(function, timed(function), seen, at, own.functions[at], idle)
        })
        .collect();
    let own: Vec<f64> = (0..proposed.len()).map(|at| own.value(at)).collect();
    settled(proposed, &own, callers, seen.processor)
}

/// Consistent totals, from each function's own total; none is below the function's self time.
pub(super) fn settled(
    proposed: Vec<Option<Figure>>,
    own: &[f64],
    callers: &Callers,
    processor: f64,
) -> Vec<Option<Figure>> {
    let callers = callers.among(|at| proposed[at].is_some());
    let pinned: Vec<bool> =
        proposed.iter().map(|total| total.is_some_and(|total| total.is_exact())).collect();
    let mut values: Vec<f64> = proposed
        .iter()
        .zip(own)
        .map(|(total, own)| total.map_or(0.0, |total| total.value).max(*own))
        .collect();
    let floors: Vec<f64> =
        (0..values.len()).map(|at| if pinned[at] { values[at] } else { own[at] }).collect();
    bounds::cut(&mut values, &floors, &callers);
    bounds::raise(&mut values, &pinned, &callers);
    let settle = |(proposed, value): (Option<Figure>, f64)| {
        proposed.map(|total| moved(total, value, processor))
    };
    proposed.into_iter().zip(values).map(settle).collect()
}

/// A function's total from its own evidence alone.
fn propose(
    function: &Function,
    timed: Option<Figure>,
    seen: &Seen,
    at: usize,
    own: Option<Figure>,
    idle: f64,
) -> Option<Figure> {
    let waited = timed.is_some_and(|total| total.value > seen.processor);
    let timed = timed.map(|total| within(total, seen.processor));
    let complete = function.is_timed_completely();
    let is_evidence = complete || function.timed.mean().is_some_and(|mean| mean.value >= TOO_SHORT);
    let hidden = timed.filter(|_| function.timed.own().is_some());
    let cpu = doubt::beside(cpu(seen, at), hidden, seen.processor);
    match (&seen.source, cpu) {
        (ClockSource::Kernel { .. }, Some(cpu)) => Some(by_stacks(
            timed.filter(|_| is_evidence && !waited),
            cpu,
            seen.functions[at].stack_samples,
            seen.processor,
            idle,
        )),
        // Frames are those of timed calls, and contain the same waiting.
        (ClockSource::Frames { .. }, Some(cpu)) => {
            Some(timed.map_or(cpu, |timed| clipped(timed, cpu)))
        }
        (ClockSource::Probes, _) => timed,
        (ClockSource::Kernel { .. }, None) if seen.visible[at] => {
            Some(timed.unwrap_or_else(|| own.unwrap_or(Figure::exact(0.0))))
        }
        _ => timed.filter(|_| is_evidence),
    }
}

/// The total from the clock's stacks. If a timed total is outside the clock's interval, calls have
/// waited, or one has not ended, or few of them took most of the time: then the clock decides,
/// however few stacks it has.
fn by_stacks(timed: Option<Figure>, cpu: Figure, stacks: u64, processor: f64, idle: f64) -> Figure {
    let (lo, hi) = cpu.interval();
    match timed {
        Some(timed) if timed.is_exact() && (lo..=hi).contains(&timed.value) => {
            perhaps_less(timed, idle, lo)
        }
        Some(timed) if stacks < ENOUGH && (lo..=hi).contains(&timed.value) => {
            estimate(timed.value, (lo, hi), 0.0, processor)
        }
        _ => cpu,
    }
}

/// A complete total by the wall clock, of which up to `idle` may have been off-CPU time.
fn perhaps_less(timed: Figure, idle: f64, least: f64) -> Figure {
    if idle <= doubt::TRIFLE * timed.value {
        return timed;
    }
    estimate(timed.value, (timed.value - idle, timed.value), least, timed.value)
}

/// A timed total, clipped to the clock's interval.
fn clipped(timed: Figure, cpu: Figure) -> Figure {
    let (lo, hi) = cpu.interval();
    if timed.is_exact() && (lo..=hi).contains(&timed.value) {
        timed
    } else {
        estimate(timed.value.clamp(lo, hi), (lo, hi), 0.0, hi)
    }
}

/// The time for which threads have waited in timed calls, and its share of these calls' time; zero
/// if unknown.
struct Waiting {
    time: f64,
    part: f64,
}

impl Waiting {
    fn of(profile: &Profile, processor: f64) -> Self {
        let own = profile.functions.iter().map(|function| function.timed.own());
        let all: f64 = own.flatten().map(|own| own.value).sum();
        let time = if processor.is_finite() { (all - processor).max(0.0) } else { 0.0 };
        Self { time, part: if all > 0.0 { time / all } else { 0.0 } }
    }

    /// The CPU time of calls that took `wall` by the wall clock, of which `long` is the part of
    /// calls that may have waited.
    fn without(&self, wall: Figure, long: f64) -> Figure {
        let most = self.time.min(long).min(wall.value);
        if most <= 0.0 {
            return wall;
        }
        let (lo, hi) = wall.interval();
        estimate(wall.value - most.min(long * self.part), (lo - most, hi), 0.0, hi)
    }
}

impl Function {
    /// The time of calls that may have waited, if every call was timed.
    pub(super) fn long(&self, header: &Header) -> f64 {
        let ns = |ticks: u64| (ticks as f64 - header.bias).max(0.0) / header.hz * 1e9;
        let long = self
            .histogram
            .buckets()
            .iter()
            .map(|&(bucket, calls)| (ns(histogram::bounds(bucket).1), calls));
        long.filter(|(time, _)| *time >= WAIT).map(|(time, calls)| time * calls).sum()
    }
}

/// A wall-clock time as CPU time: the excess over all CPU time was waiting, and perhaps all of it
/// was.
fn within(wall: Figure, processor: f64) -> Figure {
    match wall.value <= processor {
        true => wall.clipped(0.0, processor),
        false => estimate(processor, (0.0, processor), 0.0, processor),
    }
}

/// The same figure if bounds changed its value: it is no longer exact, and its interval includes
/// the new value.
fn moved(total: Figure, value: f64, processor: f64) -> Figure {
    match total.is_exact() && total.value == value {
        true => total,
        false => estimate(value, total.interval(), 0.0, processor),
    }
}
