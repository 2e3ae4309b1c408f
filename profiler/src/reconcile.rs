//! Reconciliation: combines counts and latencies from probes with shares of CPU time from a
//! sampling clock, and yields figures that are consistent.
//!
//! Each kind of evidence has its own strength. Probes count, and time single calls by the wall
//! clock, waiting and preemption included. A mean of sampled calls times a count is not a total:
//! one call in ten thousand may contain the whole program. The clock measures CPU time, and samples
//! a function of two nanoseconds as well as one of two seconds, but it misses rare events. So:
//!
//! | figure | source | file |
//! |---|---|---|
//! | self | the clock only; what it charges to no function is `[system]` or `[unknown]` | `self_time.rs` |
//! | total | exact timing that fits the clock; the clock's stacks; samples clipped to the clock's interval | `total.rs` |
//! | wall | exact timing; samples unless a single call dominates; otherwise a lower bound | `wall.rs` |
//! | mean | the time of calls; below 50 ns total ÷ calls | `mean.rs` |
//!
//! A function's total is at least its self time, at most the CPU time, and at most the sum of its
//! callers' totals: `bounds.rs` finds totals that satisfy all of these at once, over the graph of
//! `callers.rs`, in two passes, each of which visits a function once.
//!
//! The evidence of probes stays in [`Timed`](crate::Timed), so that reconciling twice is the same
//! as reconciling once.

mod bounds;
mod callers;
mod doubt;
mod interval;
mod mean;
mod self_time;
mod total;
mod wall;

#[cfg(test)]
mod tests;

use crate::profile::{Function, Profile, Stack};
use crate::{ClockEvidence, ClockFunction, ClockSource, Figure, FuncId, How};
pub(crate) use callers::Callers;
pub(crate) use mean::{SHORT, quotient};
use std::collections::BTreeSet;

/// Where every call was timed, a clock with fewer samples is weaker evidence than the probes.
const MANY: u64 = 50;
/// If threads have waited for a smaller part of the time, the probes' times count as CPU time.
const WAITED: f64 = 0.1;

/// The clock's evidence, by position in the profile, without impossible values.
struct Seen {
    source: ClockSource,
    /// CPU time in nanoseconds; infinite if it is not known.
    processor: f64,
    system: f64,
    /// Time that may be any function's.
    unplaced: f64,
    samples: u64,
    stack_samples: u64,
    functions: Vec<ClockFunction>,
    /// Whether the clock sees the function at all.
    visible: Vec<bool>,
}

impl Seen {
    /// Whether a clock has sampled.
    fn is_sampled(&self) -> bool {
        matches!(self.source, ClockSource::Kernel { .. } | ClockSource::Frames { .. })
    }
}

impl Profile {
    /// Combines the evidence of probes with that of a clock, so that all figures are consistent.
    /// Callers must be labelled before. The CPU time is the evidence's, or the header's if the
    /// evidence has none; if both are zero, it is unknown.
    pub fn reconcile(&mut self, evidence: &ClockEvidence) {
        let seen = self.seen(evidence);
        self.adopt(evidence, &seen);
        doubt::admit(self);
        let callers = Callers::of(self);
        let own = self_time::own_times(self, &seen);
        let totals = total::totals(self, &seen, &own, &callers);
        let walls = wall::walls(self, &totals, &callers);
        for (at, function) in self.functions.iter_mut().enumerate() {
            function.cpu = total::cpu(&seen, at);
            function.own = own.functions[at];
            function.total = totals[at];
            function.wall = walls[at];
            function.nest();
            function.unseen = seen.is_sampled() && !seen.visible[at];
            function.mean = mean::mean(function, &self.header);
        }
        self.header.system = own.system / 1e9;
        self.header.unknown = own.unknown / 1e9;
        debug_assert!(self.impossible().is_empty(), "{:?}", self.impossible());
    }

    /// The evidence of probes in place of the kernel's clock, where it is stronger: every call of
    /// every function was timed, and threads hardly waited. `watched` is the time for which threads
    /// were observed, and `waited` that for which they were off the processors. `worked` is the
    /// program's CPU time without that of hooks. All in nanoseconds.
    pub fn evidence_of_probes(
        &self,
        evidence: &ClockEvidence,
        [watched, waited]: [f64; 2],
        worked: f64,
    ) -> Option<ClockEvidence> {
        // A function that has not returned so far has no self time.
        let told = self.functions.iter().filter_map(|function| function.timed.own());
        let all: f64 = told.map(|own| own.value).sum();
        if all <= 0.0 || !matches!(evidence.source, ClockSource::Kernel { .. }) {
            return None;
        }
        if evidence.samples < MANY || evidence.processor <= 0.0 {
            return Some(ClockEvidence { processor: worked, ..ClockEvidence::default() });
        }
        // The clock's value is the program's own time, without that of hooks. Timed calls took more
        // if threads waited in them, or if hooks took less than was subtracted.
        let processor = evidence.processor.max(all - waited.max(0.0));
        let by_probes = || ClockEvidence { processor, ..ClockEvidence::default() };
        (waited <= WAITED * watched).then(by_probes)
    }

    /// Makes figures consistent again after profiles were reconciled separately and added up.
    pub(crate) fn restore_consistency(&mut self) {
        let callers = Callers::of(self);
        let processor =
            if self.header.processor > 0.0 { self.header.processor * 1e9 } else { f64::INFINITY };
        let own: Vec<f64> = self
            .functions
            .iter()
            .map(|function| function.own.map_or(0.0, |own| own.value))
            .collect();
        let totals = total::settled(
            self.functions.iter().map(|function| function.total).collect(),
            &own,
            &callers,
            processor,
        );
        for (function, total) in self.functions.iter_mut().zip(totals) {
            function.total = total;
            function.nest();
            function.wall = function
                .wall
                .map(|wall| wall.clipped(total.map_or(0.0, |total| total.value), f64::MAX));
            // A lower bound and a known mean, merged, yield a lower bound.
            let mean = function.mean.filter(|mean| mean.value >= SHORT);
            if let Some(mean) = mean {
                function.mean = Some(mean::at_least_if_shorter(mean, function, &self.header));
            }
        }
    }

    /// The evidence by position in the profile. Numbers that are not a time become zero, and no
    /// function gets more than the CPU time.
    fn seen(&self, evidence: &ClockEvidence) -> Seen {
        let known = [evidence.processor, self.header.processor * 1e9]
            .map(time)
            .into_iter()
            .find(|time| *time > 0.0);
        let sampled =
            matches!(evidence.source, ClockSource::Kernel { .. } | ClockSource::Frames { .. });
        // A clock that sampled no CPU time observed a program that did nothing.
        let processor = known.unwrap_or(if sampled { 0.0 } else { f64::INFINITY });
        let positions = self.positions();
        let mut functions = vec![ClockFunction::default(); self.functions.len()];
        for told in evidence.functions.iter().filter(|_| sampled) {
            if let Some(at) = positions.get(told.function) {
                let innermost = time(told.innermost).min(processor);
                let on_stack = time(told.on_stack).min(processor);
                let deviation = time(told.deviation).min(processor);
                functions[at] = ClockFunction { innermost, deviation, on_stack, ..*told };
            }
        }
        let mut visible = vec![sampled; self.functions.len()];
        for at in evidence.invisible.iter().filter_map(|id| positions.get(*id)) {
            visible[at] = false;
        }
        if matches!(evidence.source, ClockSource::Frames { .. }) {
            // The agent samples frames of timed calls: of sampled functions it sees only some.
            self.functions
                .iter()
                .zip(&mut visible)
                .for_each(|(function, visible)| *visible &= function.is_timed_completely());
        }
        Seen {
            source: evidence.source.clone(),
            processor,
            system: time(evidence.system),
            unplaced: time(evidence.unplaced),
            samples: if sampled { evidence.samples } else { 0 },
            stack_samples: if sampled { evidence.stack_samples } else { 0 },
            functions,
            visible,
        }
    }

    /// Adopts the profile-wide figures of the clock.
    fn adopt(&mut self, evidence: &ClockEvidence, seen: &Seen) {
        let positions = self.positions();
        let header = &mut self.header;
        header.clock = evidence.source.clone();
        header.clock_samples = seen.samples;
        let null = match &header.clock {
            _ if header.null > 0.0 => header.null,
            // A call that is timed alone has costs that overlap when many are timed in a row. The
            // cost of a whole pair, back to back, is about the largest that it has.
            _ => header.bias.max(header.pair),
        };
        header.floor = (2.0 * null / header.hz * 1e9).max(0.0);
        if seen.processor.is_finite() {
            header.processor = seen.processor / 1e9;
        }
        let mut stacks: Vec<Stack> = Vec::new();
        for stack in &evidence.stacks {
            // If probes never saw an entry of a function, its frame is left out, and the stack is
            // kept.
            let frames: Vec<u32> = stack
                .frames
                .iter()
                .filter_map(|id| positions.get(*id))
                .map(|at| at as u32)
                .collect();
            if !frames.is_empty() {
                stacks.push(Stack { frames, time: time(stack.time), samples: stack.samples });
            }
        }
        self.stacks = stacks;
        self.adopt_callers();
    }

    /// Adds callers that appear in stacks but made no timed call. The function at the base of a
    /// stack was called from code without probes.
    fn adopt_callers(&mut self) {
        let mut seen: BTreeSet<(usize, Option<usize>)> = BTreeSet::new();
        for stack in &self.stacks {
            let outer =
                [None].into_iter().chain(stack.frames.iter().map(|frame| Some(*frame as usize)));
            seen.extend(stack.frames.iter().map(|frame| *frame as usize).zip(outer));
        }
        for (at, outer) in seen {
            let caller = outer.map(|outer| self.functions[outer].label.clone());
            let arcs = &mut self.functions[at].arcs;
            let place = |label: &Option<crate::Label>| {
                label.as_ref().map(|label| (label.module, label.offset))
            };
            if !arcs.is_empty() && !arcs.iter().any(|arc| place(&arc.caller) == place(&caller)) {
                arcs.push(crate::Arc { site: 0, samples: 0, share: 0.0, caller });
            }
        }
    }

    fn positions(&self) -> Positions {
        let all = self.functions.iter().enumerate().map(|(at, function)| (function.id, at));
        let mut all: Vec<_> = all.collect();
        // Real profiles are in order already; synthetic ones may not be.
        all.sort_unstable();
        Positions(all)
    }

    /// Adds functions that the clock saw and probes did not, such as one that was already running
    /// when profiling began: they were called at least once. Call this before functions are
    /// labelled.
    pub fn admit(&mut self, evidence: &ClockEvidence) {
        let known = self.positions();
        let mut more: Vec<FuncId> = evidence
            .functions
            .iter()
            .map(|seen| seen.function)
            .filter(|id| known.get(*id).is_none())
            .collect();
        more.sort_unstable();
        more.dedup();
        // No call takes less than a nanosecond.
        let most = time(evidence.processor).max(1.0);
        let calls = Figure { value: 1.0, how: How::Estimated { lo: 1.0, hi: most } };
        self.functions
            .extend(more.into_iter().map(|id| Function { calls, ..Function::uncalled(id) }));
        self.functions.sort_by_key(|function| function.id);
    }
}

impl Function {
    /// Nests the intervals of self time and total: the one is a part of the other. An exact total
    /// ends the self time's interval; otherwise the total may be all that the self time may be.
    fn nest(&mut self) {
        let (Some(own), Some(total)) = (self.own, self.total) else { return };
        if total.is_exact() {
            self.own = Some(own.clipped(0.0, total.value));
            return;
        }
        let ((least, most), (lo, hi)) = (own.interval(), total.interval());
        self.total = Some(estimate(total.value, (lo.max(least), hi.max(most)), 0.0, f64::MAX));
    }
}

/// Positions of functions in a profile, in the order of their IDs.
struct Positions(Vec<(FuncId, usize)>);

impl Positions {
    fn get(&self, id: FuncId) -> Option<usize> {
        let found = self.0.binary_search_by_key(&id, |(known, _)| *known);
        found.ok().map(|at| self.0[at].1)
    }
}

/// A time, or zero if the value is not a number or negative.
fn time(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}

/// A figure from a value and an interval, each within bounds; the interval always contains the
/// value.
fn estimate(value: f64, (lo, hi): (f64, f64), least: f64, most: f64) -> Figure {
    let (lo, hi) = (lo.max(least).min(value), hi.min(most).max(value));
    Figure { value, how: How::Estimated { lo, hi } }
}
