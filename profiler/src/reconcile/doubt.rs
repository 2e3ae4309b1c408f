//! Doubt: the possible error of the time of timed calls, because hooks ran inside them.
//!
//! The cost of a pair of hooks is measured back to back and subtracted from each call and each call
//! around it. In a program the processor executes hooks while the program's own instructions wait
//! for each other or for memory. Then a part of the subtracted time was the program's, and calls
//! took longer than probes report, by at most one pair for each timed call: the call itself and
//! those inside. Hooks also prevent overlap of the program's own instructions (loads that would
//! have been in flight together), and the time lost stays in the enclosing calls: these took less
//! than reported, by at most one pair for each timed call inside. For a call of ten nanoseconds the
//! error may exceed its time; for one of a millisecond without calls inside it is negligible.
//!
//! The kernel's clock is no better evidence: it samples a hook that waits for the program's loads.

use super::callers::Places;
use crate::profile::{Arc, Function, Profile};
use crate::{Figure, Header, How};

/// A relative error that is not reported: times of calls count as exact within it.
pub(super) const TRIFLE: f64 = 0.01;
/// If hooks took a larger part of the program's time than this, the time that they hide is
/// reported.
const SLOWED: f64 = 0.1;

impl Header {
    /// The cost of a pair of hooks, in nanoseconds.
    pub(crate) fn pair_time(&self) -> f64 {
        let pair = self.pair.max(self.bias) / self.hz * 1e9;
        if pair.is_finite() { pair.max(0.0) } else { 0.0 }
    }
}

impl Profile {
    /// Whether every call was timed, and hooks took so large a part of the time that only a lower
    /// bound of the program's own time is known.
    pub(crate) fn is_slowed(&self) -> bool {
        let complete = self.functions.iter().filter(|function| function.timed.own().is_some());
        let calls: f64 = complete.map(|function| function.samples as f64).sum();
        calls * self.header.pair_time() > SLOWED * self.header.processor * 1e9
    }
}

/// Sets the intervals of completely timed functions' times. A time that has one keeps it.
pub(super) fn admit(profile: &mut Profile) {
    let pair = profile.header.pair_time();
    let in_doubt = |function: &Function| {
        let seen = function.timed.seen().max(0.0);
        function.samples > 0 && function.samples as f64 * pair > TRIFLE * seen
    };
    if !profile.functions.iter().any(in_doubt) {
        return;
    }
    let Inside { own, all, .. } = Inside::of(profile);
    for (at, function) in profile.functions.iter_mut().enumerate() {
        let calls = function.samples as f64;
        let timed = &mut function.timed;
        let doubt = |inside: f64| (inside * pair, (calls + inside) * pair);
        let (below, above) = doubt(all[at]);
        // A recursive call, and what is inside of it, is inside of every call around it.
        let depth = timed.total.map_or(1.0, |total| (timed.seen() / total.value).max(1.0));
        let depth = if depth.is_finite() { depth } else { 1.0 };
        let each = [below, above].map(|error| error * depth / calls.max(1.0));
        timed.mean = timed.mean.map(|mean| doubted(mean, each.into()));
        timed.total = timed.total.map(|total| doubted(total, (below, above)));
        timed.own = timed.own.map(|time| doubted(time, doubt(own[at])));
    }
}

/// An exact time with its possible errors, downwards and upwards.
fn doubted(time: Figure, (below, above): (f64, f64)) -> Figure {
    if !time.is_exact() || above <= TRIFLE * time.value {
        return time;
    }
    let lo = (time.value * (1.0 - TRIFLE) - below).max(0.0).min(time.value);
    Figure { how: How::Estimated { lo, hi: time.value + above }, ..time }
}

/// The clock's figure of a function whose every call was timed, extended by the time that hooks
/// hide from the clock, too.
pub(super) fn beside(clock: Option<Figure>, timed: Option<Figure>, most: f64) -> Option<Figure> {
    let hidden = timed.filter(|_| most.is_finite()).map(|time| time.interval().1 - time.value);
    match hidden {
        Some(hidden) if hidden > 0.0 => {
            clock.map(|figure| figure.widened(hidden).clipped(0.0, most))
        }
        _ => clock,
    }
}

/// The number of timed calls inside of those of each function: directly, and in all.
struct Inside {
    own: Vec<f64>,
    all: Vec<f64>,
    /// The time of the calls that are known to be directly inside.
    known: Vec<f64>,
}

impl Inside {
    fn of(profile: &Profile) -> Self {
        let functions = &profile.functions;
        let places = Places::of(profile);
        let mut order: Vec<usize> = (0..functions.len()).collect();
        // A callee took no longer than its caller, except where several functions call each other.
        let seen = |at: usize| functions[at].timed.seen();
        let outermost =
            |at: usize| functions[at].timed.total().map_or(seen(at), |total| total.value);
        order.sort_by(|a, b| outermost(*a).total_cmp(&outermost(*b)));
        let zeroes = || vec![0.0; functions.len()];
        let mut inside = Self { own: zeroes(), all: zeroes(), known: zeroes() };
        // Calls from code without probes, such as callbacks from a library.
        let mut foreign = 0.0;
        for at in order {
            let caller = |arc: &Arc| arc.caller.as_ref().and_then(|label| places.find(label));
            let (recursive, others): (Vec<_>, Vec<_>) =
                functions[at].arcs.iter().partition(|arc| caller(arc) == Some(at));
            let parts = |arcs: &[&Arc]| arcs.iter().map(|arc| arc.samples as f64).sum::<f64>();
            inside.own[at] += parts(&recursive);
            inside.all[at] += parts(&recursive);
            let outermost = (functions[at].samples as f64 - parts(&recursive)).max(1.0);
            for arc in others {
                let part = arc.samples as f64;
                let Some(caller) = caller(arc) else {
                    foreign += part;
                    continue;
                };
                inside.own[caller] += part;
                inside.all[caller] += part * (1.0 + inside.all[at] / outermost);
                inside.known[caller] += arc.share * seen(at);
            }
            inside.known[at] += recursive.iter().map(|arc| arc.share).sum::<f64>() * seen(at);
        }
        inside.give(foreign, profile);
        inside
    }

    /// If calls inside took time that no known callee took, any of the foreign calls may have been
    /// there.
    fn give(&mut self, foreign: f64, profile: &Profile) {
        for (at, function) in profile.functions.iter().enumerate() {
            let children = function.timed.own().map(|own| function.timed.seen() - own.value);
            if children.is_some_and(|time| time - self.known[at] > TRIFLE * time) {
                self.own[at] += foreign;
                self.all[at] += foreign;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Mark;
    use crate::{FuncId, Label, Timed};

    fn function(id: u32, calls: u64, time: f64, own: f64, caller: Option<u32>) -> Function {
        let label = |id: u32| Label { module: Some(0), offset: u64::from(id), ..Label::default() };
        let mut function = Function::counted(FuncId(id), label(id), calls);
        function.samples = calls;
        function.timed = Timed {
            seen: time,
            mean: Some(Figure::exact(time / calls as f64)),
            total: Some(Figure::exact(time)),
            own: Some(Figure::exact(own)),
        };
        let arc = |caller| Arc { site: 1, samples: calls, share: 1.0, caller: Some(label(caller)) };
        function.arcs = caller.map(arc).into_iter().collect();
        function
    }

    /// `main` calls `sorts` ten times, which call `compares` a thousand times each; and a function
    /// of a millisecond.
    fn profile() -> Profile {
        let costs = crate::Costs { pair: 30.0, bias: 10.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        let clock = crate::Clock { hz: 1e9, step: 1 };
        let controller =
            crate::Controller::new(crate::Policy::Exact, clock, costs, 1, crate::Ticks(1));
        let mut profile = controller.profile(crate::Ticks(2));
        profile.functions = vec![
            function(1, 1, 4e6, 0.9e6, None),
            function(2, 10, 2e6, 1.9e6, Some(1)),
            function(3, 10_000, 1e5, 1e5, Some(2)),
            function(4, 1, 1e6, 1e6, Some(1)),
        ];
        profile
    }

    #[test]
    fn calls_with_many_hooks_inside_are_in_doubt_and_long_ones_without_are_exact() {
        let mut profile = profile();
        admit(&mut profile);
        let timed = |at: usize| profile.functions[at].timed;
        let interval = |time: Option<Figure>| {
            let (lo, hi) = time.unwrap().interval();
            (lo.round(), hi.round())
        };
        assert!(timed(3).total.unwrap().is_exact());
        // Ten nanoseconds between hooks of thirty: the figure is very uncertain.
        assert_eq!(interval(timed(2).total), (0.99e5, 4e5));
        assert_eq!(timed(2).mean.unwrap().mark(), Mark::Unsure);
        let inside = 10_000.0 * 30.0;
        assert_eq!(interval(timed(1).total), (1.98e6 - inside, 2.0003e6 + inside));
        assert_eq!(interval(timed(1).own), (1.881e6 - inside, 1.9003e6 + inside));
        let all = (11.0 + 10_000.0) * 30.0;
        assert_eq!(interval(timed(0).total), (3.96e6 - all, 4.00003e6 + all));
        // Only calls that it has made itself make its self time uncertain.
        assert!(timed(0).own.unwrap().is_exact());
        let once = profile.clone();
        admit(&mut profile);
        assert_eq!(profile, once);
    }

    #[test]
    fn what_a_library_calls_back_is_inside_of_the_function_that_had_calls_inside() {
        let mut profile = profile();
        profile.functions[2].arcs[0].caller = None;
        admit(&mut profile);
        let total = |at: usize| profile.functions[at].timed.total.unwrap();
        assert!(total(1).interval().1 >= 2e6 + 10_010.0 * 30.0, "{:?}", total(1));
        assert!(total(3).is_exact());
    }

    #[test]
    fn recursive_calls_are_inside_of_the_first_one_and_of_its_caller() {
        let mut profile = profile();
        // Called once by `main`, and by itself otherwise: ten calls are open on average.
        let compares = &mut profile.functions[2];
        compares.timed.seen = 1e6;
        compares.timed.mean = Some(Figure::exact(100.0));
        let (itself, main) = (compares.label.clone(), profile.functions[0].label.clone());
        let arc = |caller, samples, share| Arc { site: 1, samples, share, caller: Some(caller) };
        profile.functions[2].arcs = vec![arc(itself, 9_999, 0.9), arc(main, 1, 0.1)];
        admit(&mut profile);
        let timed = |at: usize| profile.functions[at].timed;
        let end = |time: Option<Figure>| time.unwrap().interval().1.round();
        assert_eq!(end(timed(2).total), 1e5 + 19_999.0 * 30.0);
        assert_eq!(end(timed(2).own), 1e5 + 19_999.0 * 30.0);
        assert_eq!(end(timed(2).mean), (100.0f64 + 19_999.0 * 30.0 * 10.0 / 1e4).round());
        assert!(end(timed(0).total) >= 4e6 + 10_000.0 * 30.0, "{:?}", timed(0).total);
    }

    #[test]
    fn a_recursion_comes_to_an_end() {
        let mut profile = profile();
        let back = profile.functions[0].label.clone();
        profile.functions[0].arcs = vec![Arc {
            site: 2,
            samples: 1,
            share: 1.0,
            caller: Some(profile.functions[2].label.clone()),
        }];
        profile.functions[1].arcs.push(Arc { site: 3, samples: 5, share: 0.5, caller: Some(back) });
        admit(&mut profile);
        let times = profile.functions.iter().map(|function| function.timed.total.unwrap());
        assert!(times.into_iter().all(|time| time.interval().1.is_finite()));
    }
}
