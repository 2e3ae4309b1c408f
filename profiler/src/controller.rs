//! The sampling controller. It receives observations, and decides the modes of
//! probes.
//!
//! Nothing here uses threads, files or clocks: callers pass instants. The instants count the
//! program's CPU time, less the time of the probes: rates measured while the program runs do not
//! apply while it waits for a processor. Decisions depend on the policy; the sums do not.

mod adaptive;
mod slowdown;

use crate::account::{Account, Changes};
use crate::exemplars::Slow;
use crate::figure::Figure;
use crate::mode::{Draw, Mode, Probes, Rest, Skip};
use crate::null::{Null, Nulls};
use crate::profile::{Function, Profile};
use crate::{Clock, ClockEvidence, Costs, FuncId, Policy, Ticks};
use adaptive::Adaptive;
use slowdown::Slowdown;

/// Taking in a timed call costs at most this many times what timing it does.
const MOST_TAKING: f64 = 4.0;

/// A timed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The function.
    pub function: FuncId,
    /// The return address of the call; 0 if unknown.
    pub call_site: u64,
    /// Its measured duration.
    pub ticks: u64,
    /// Timed calls that ended inside it, on the same thread.
    pub nested: u32,
    /// The duration of those directly inside.
    pub children: u64,
    /// Whether it is outermost: no other timed call of the function was open around it.
    pub outermost: bool,
}

/// Timed calls of one function that were added up before they were reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummedCalls {
    /// The function.
    pub function: FuncId,
    /// Their number.
    pub calls: u64,
    /// Their total duration, as [`Sample::ticks`].
    pub ticks: u64,
    /// The outermost ones: their number and total duration.
    pub outermost: (u64, u64),
    /// The duration of the timed calls directly inside.
    pub children: u64,
    /// The shortest one so far.
    pub min: u64,
    /// The longest one so far.
    pub max: u64,
    /// Number of calls in each bucket.
    pub buckets: Vec<(u16, u64)>,
    /// Their callers: return addresses, calls, ticks.
    pub arcs: Vec<(u64, u64, u64)>,
}

/// The sampling controller.
#[derive(Debug)]
pub struct Controller {
    policy: Policy,
    clock: Clock,
    costs: Costs,
    functions: Vec<Part>,
    /// Functions that have no mode yet.
    fresh: Vec<FuncId>,
    /// Functions that were retired since the last tick.
    retired: Vec<(FuncId, Ticks, Ticks)>,
    /// The measured times of empty calls.
    nulls: Nulls,
    adaptive: Adaptive,
    epoch: Ticks,
    began: Ticks,
}

/// The state of a function. It is small: most functions of a program are never called.
#[derive(Clone, Debug)]
struct Part {
    known: bool,
    /// Whether not all of its exits have probes, so that it is never timed.
    only_counts: bool,
    counting: Counting,
    /// How long the program ran before the function had probes: it may have been called meanwhile.
    unseen: Ticks,
    /// Whether it got its probes because it was running.
    was_running: bool,
    sites: u32,
    /// Functions that return through its exits while it is timed: compilers merge the ends of
    /// functions.
    others: Box<[FuncId]>,
    mode: Mode,
    /// Whether its hook has retired it.
    resting: bool,
    /// With a policy that only counts: its entries, until another observation is made.
    counted: u64,
    /// Set from its first entry on; with a policy that only counts, from its first other
    /// observation on.
    life: Option<Box<Life>>,
}

/// The cost of counting an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counting {
    /// As a multiple of [`Costs::count`], on average.
    pub times: f32,
    /// Its relative standard deviation. That of the usual cost is measured.
    pub deviation: f32,
}

impl Counting {
    const USUAL: Self = Self { times: 1.0, deviation: 0.0 };
}

/// The observations of a function that is called, and its sampling plan.
#[derive(Clone, Debug)]
struct Life {
    account: Account,
    plan: adaptive::Plan,
}

impl Part {
    fn new() -> Self {
        Self {
            known: false,
            only_counts: false,
            counting: Counting::USUAL,
            unseen: Ticks(0),
            was_running: false,
            sites: 0,
            others: Box::new([]),
            mode: Mode::Count,
            resting: false,
            counted: 0,
            life: None,
        }
    }

    fn is_called(&self) -> bool {
        self.counted > 0 || self.life.as_ref().is_some_and(|life| life.account.entries > 0)
    }

    /// Its observations until `now`. The first cycle of a function without an account began with
    /// the epoch.
    fn account(&self, epoch: Ticks, now: Ticks) -> Account {
        let seen = self.life.as_ref().map(|life| life.account.clone());
        let mut account = seen.unwrap_or_else(|| Account::counted(epoch, self.counted));
        account.turn(now);
        account
    }
}

impl Controller {
    /// A controller for a policy, starting at `now`.
    pub fn new(policy: Policy, clock: Clock, costs: Costs, seed: u64, now: Ticks) -> Self {
        let slowdown = Slowdown::new(costs.count, clock.ticks(0.01).0 as f64);
        let adaptive = Adaptive::new(seed, now, slowdown);
        let (functions, fresh, retired, nulls) = Default::default();
        Self {
            policy,
            clock,
            costs,
            functions,
            fresh,
            retired,
            nulls,
            adaptive,
            epoch: now,
            began: now,
        }
    }

    /// Changes the budget of the policy.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    fn part(&mut self, function: FuncId) -> &mut Part {
        let at = function.0 as usize;
        if at >= self.functions.len() {
            self.functions.resize_with(at + 1, Part::new);
        }
        &mut self.functions[at]
    }

    /// The account of a function that was called.
    #[inline]
    fn account(&mut self, function: FuncId) -> &mut Account {
        // Until now its cycles were empty; the latest one began with the epoch, or with its probes.
        let (epoch, began) = (self.epoch, self.began);
        let Part { life, counted, unseen, .. } = self.part(function);
        let begin = || {
            let epoch = epoch.max(Ticks(began.0 + unseen.0));
            let account = Account::counted(epoch, std::mem::take(counted));
            Box::new(Life { account, plan: adaptive::Plan::default() })
        };
        &mut life.get_or_insert_with(begin).account
    }

    /// Records that a function was discovered, or has more sites than before.
    pub fn discovered(&mut self, function: FuncId, sites: u32) {
        let part = self.part(function);
        part.sites = sites;
        if !std::mem::replace(&mut part.known, true) {
            self.fresh.push(function);
        }
    }

    /// Records that a function shares exits with others: while it is timed, their returns run its
    /// hook in vain.
    pub fn ends_with(&mut self, function: FuncId, others: Vec<FuncId>) {
        self.part(function).others = others.into();
    }

    /// Records that a function has exits without probes: it can be counted but not timed.
    pub fn only_counts(&mut self, function: FuncId) {
        self.part(function).only_counts = true;
    }

    /// Records that other code counts the entries of a function, at this cost.
    pub fn counting_takes(&mut self, function: FuncId, counting: Counting) {
        self.part(function).counting = counting;
    }

    /// Records that a function gets probes now. It may have been called before; it certainly was if
    /// `was_running`.
    pub fn begins_late(&mut self, function: FuncId, now: Ticks, was_running: bool) {
        let unseen = now.since(self.began);
        if was_running {
            self.adaptive.surprised = now;
        }
        let part = self.part(function);
        (part.unseen, part.was_running) = (unseen, was_running);
    }

    /// Adds a timed call.
    #[inline]
    pub fn sample(&mut self, sample: &Sample) {
        let (costs, null) = (self.costs, self.null_of(sample.function));
        self.pay_for_timing(sample.function, 1);
        self.account(sample.function).sample(sample, &costs, null);
    }

    /// Charges the calls of a function that is timed completely, which cost more than counting.
    /// Terms (sampling windows) have their own part of the budget. The quota may have been used up
    /// meanwhile; the calls after that were only counted.
    #[inline]
    fn pay_for_timing(&mut self, function: FuncId, calls: u64) {
        let part = self.functions.get(function.0 as usize);
        if part.is_some_and(|part| matches!(part.mode, Mode::Sample(Draw { skip: Skip::None, .. })))
        {
            self.adaptive.spent += calls as f64 * (self.costs.pair - self.costs.count);
            self.adaptive.paid += calls as f64 * self.adaptive.taking;
        }
    }

    /// Adds a null that was measured instead of a call of that function.
    pub fn null(&mut self, function: FuncId, ticks: u64) {
        if let Some(skip) = self.skip_of(function) {
            self.nulls.add(skip, ticks, &self.costs);
        }
    }

    /// The null that is subtracted from calls of a function at its current sampling rate.
    fn null_of(&self, function: FuncId) -> Null {
        self.skip_of(function).map_or_else(Null::default, |skip| self.nulls.at(skip))
    }

    /// The mean number of calls of a function skipped before one is timed, if any are.
    fn skip_of(&self, function: FuncId) -> Option<f64> {
        match self.functions.get(function.0 as usize)?.mode {
            Mode::Sample(Draw { skip: Skip::Geometric { mean }, .. }) => Some(mean),
            _ => None,
        }
    }

    /// Whether a call of a function is one of its slowest so far.
    #[inline]
    pub fn is_slow(&mut self, function: FuncId, ticks: u64) -> bool {
        self.account(function).slowest.wants(ticks)
    }

    /// Keeps a call, if it is one of the slowest of its function.
    pub fn keep(&mut self, function: FuncId, slow: Slow) {
        self.account(function).slowest.keep(slow);
    }

    /// Adds calls that were timed and summed. If all calls are timed, each represents itself.
    pub fn add_summed(&mut self, summed: &SummedCalls) {
        let (exact, costs) = (self.policy == Policy::Exact, self.costs);
        self.pay_for_timing(summed.function, summed.calls);
        self.account(summed.function).add_summed(summed, &costs, exact);
    }

    /// Adds entries that were counted since the last tick.
    pub fn entered(&mut self, function: FuncId, calls: u64) {
        let weighed = calls as f64 * f64::from(self.part(function).counting.times);
        self.adaptive.spent += weighed * self.costs.count;
        if self.policy == Policy::Count {
            let part = self.part(function);
            if part.life.is_none() {
                // This policy has no cycles: most fields of an account would stay zero.
                part.counted += calls;
                return;
            }
        }
        self.account(function).entered(calls);
        let part = &self.functions[function.0 as usize];
        match part.life.as_ref().map(|life| life.plan.kind()) {
            Some((true, _)) => self.adaptive.windowed_entries += weighed,
            Some((false, true)) => self.adaptive.measured += calls as f64,
            _ => {}
        }
    }

    /// Records that a function's hook has used up its quota: the function was armed at one instant,
    /// and retired at another.
    pub fn retired(&mut self, function: FuncId, armed: Ticks, at: Ticks) {
        self.part(function).resting = true;
        self.retired.push((function, armed, at));
    }

    /// Adds timed calls that have not ended, or were lost for lack of space.
    pub fn lost(&mut self, function: FuncId, samples: u64) {
        self.account(function).lost += samples;
    }

    /// Gives new functions their first modes.
    pub fn first(&mut self, probes: &mut impl Probes) {
        for function in std::mem::take(&mut self.fresh) {
            let was_running = self.part(function).was_running;
            let mode = match &self.policy {
                // A function that was running when it got its probes is called often, or takes
                // long: it is counted first.
                Policy::Adaptive { .. } if was_running => Mode::Count,
                // A function that is called rarely is timed completely from the beginning.
                Policy::Adaptive { .. } => adaptive::FIRST,
                Policy::Paper { samples, .. } => first_calls(*samples),
                Policy::Exact => {
                    Mode::Sample(Draw { quota: u32::MAX, skip: Skip::None, then: Rest::Count })
                }
                Policy::Count => Mode::Count,
            };
            self.set(function, mode, probes);
        }
    }

    fn set(&mut self, function: FuncId, mode: Mode, probes: &mut impl Probes) {
        let part = self.part(function);
        let mode = if part.only_counts && mode != Mode::Off { Mode::Count } else { mode };
        part.mode = mode;
        part.resting = false;
        probes.set(function, mode);
    }

    /// The measured cost of switching a function with two sites off and on again.
    pub fn learn_toggle(&mut self, ticks: f64) {
        if ticks.is_finite() && ticks > 0.0 {
            self.costs.toggle = ticks;
        }
    }

    /// The measured time, in ticks, that the caller's own thread needs to take in a timed call. The
    /// budget pays for it, too.
    pub fn learn_taking(&mut self, ticks: f64) {
        if ticks.is_finite() && ticks > 0.0 {
            self.adaptive.taking = ticks.min(MOST_TAKING * self.costs.pair);
        }
    }

    /// Decides the modes of probes. Call it after passing all observations since the last call.
    /// Returns when to call it again.
    pub fn tick(&mut self, now: Ticks, probes: &mut impl Probes) -> Ticks {
        self.first(probes);
        match self.policy.clone() {
            Policy::Exact | Policy::Count => {
                self.retired.clear();
                // These policies have no cycles, so no cycle waits for samples.
                Ticks(now.0 + self.clock.ticks(0.05).0)
            }
            Policy::Paper { samples, epoch_ms } => {
                self.paper(now, samples, self.clock.ticks(epoch_ms / 1e3), probes)
            }
            Policy::Adaptive { budget } => self.adapt(now, budget, probes),
        }
    }

    /// The published policy: times the first calls after the beginning of an epoch, which all
    /// functions share.
    fn paper(&mut self, now: Ticks, samples: u32, epoch: Ticks, probes: &mut impl Probes) -> Ticks {
        for (function, armed, at) in std::mem::take(&mut self.retired) {
            self.account(function).stop_counting(armed, at);
        }
        if now.since(self.epoch) >= epoch {
            self.epoch = now;
            for at in 0..self.functions.len() {
                let part = &mut self.functions[at];
                if part.known {
                    if let Some(life) = &mut part.life {
                        life.account.turn(now);
                    }
                    if part.resting {
                        self.set(FuncId(at as u32), first_calls(samples), probes);
                    }
                }
            }
        }
        Ticks(self.epoch.0 + epoch.0)
    }

    /// The current profile.
    pub fn profile(&self, now: Ticks) -> Profile {
        let mut profile = self.draft(now);
        profile.reconcile(&ClockEvidence::default());
        profile
    }

    /// The profile before [`Profile::reconcile`]: for callers that have the evidence of a clock.
    pub fn draft(&self, now: Ticks) -> Profile {
        let parts = self.functions.iter().enumerate().skip(1);
        let called: Vec<_> = parts.filter(|(_, part)| part.is_called()).collect();
        let accounts =
            called.into_iter().map(|(at, part)| (FuncId(at as u32), part.account(self.epoch, now)));
        let nobody = self.functions.first().and_then(|part| part.life.as_ref());
        let lost = nobody.map_or(0, |life| life.account.lost);
        let watched = now.since(self.began);
        let changes = self.changes(now);
        let mut profile =
            Profile::of(&self.policy, self.clock, self.costs, watched, lost, &changes, accounts);
        profile.header.null = self.nulls.most(&self.costs).unwrap_or(0.0);
        self.own_up(&mut profile);
        profile
    }

    /// How much rates change from one window to the next, in all functions.
    fn changes(&self, now: Ticks) -> Changes {
        let lives = self.functions.iter().filter_map(|part| part.life.as_ref());
        let accounts = lives.map(|life| &life.account);
        Changes::of(accounts.filter(|account| account.is_estimated()), now)
    }

    /// Extends the intervals of functions that got their probes late: they may have been called
    /// before. Those that were running were called at least once.
    fn own_up(&self, profile: &mut Profile) {
        let running = self.functions.iter().enumerate().skip(1);
        let running = running.filter(|(_, part)| part.was_running && !part.is_called());
        let ids = running.map(|(at, _)| FuncId(at as u32));
        let once = Figure::exact(1.0);
        profile.functions.extend(ids.map(|id| Function { calls: once, ..Function::uncalled(id) }));
        for function in &mut profile.functions {
            let unseen = self.functions[function.id.0 as usize].unseen.0 as f64;
            if unseen > 0.0 {
                // A call takes a nanosecond at least.
                function.calls = function.calls.widened(unseen * 1e9 / self.clock.hz);
            }
        }
    }
}

fn first_calls(samples: u32) -> Mode {
    Mode::Sample(Draw { quota: samples, skip: Skip::None, then: Rest::Off })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Mark;

    struct Nothing;

    impl Probes for Nothing {
        fn set(&mut self, _: FuncId, _: Mode) {}
    }

    #[test]
    fn what_was_called_before_it_had_probes_is_counted_from_then_on() {
        let costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        let clock = Clock { hz: 1e9, step: 1 };
        let mut controller = Controller::new(Policy::Count, clock, costs, 1, Ticks(1));
        for (function, late) in [(1, None), (2, Some(Ticks(1_001)))] {
            let function = FuncId(function);
            controller.discovered(function, 1);
            late.into_iter().for_each(|now| controller.begins_late(function, now, true));
            controller.entered(function, 10);
        }
        // One was on a stack, and was not called since; the other one may have been called before.
        controller.begins_late(FuncId(3), Ticks(1_001), true);
        controller.begins_late(FuncId(4), Ticks(1_001), false);
        let profile = controller.draft(Ticks(5_000));
        let calls: Vec<_> = profile.functions.iter().map(|function| function.calls).collect();
        assert_eq!((calls[0].mark(), calls[0].value), (Mark::Exact, 10.0));
        assert_eq!((calls[1].mark(), calls[1].value), (Mark::AtLeast, 10.0));
        assert_eq!(calls[1].interval(), (10.0, 1_010.0));
        assert_eq!(calls.len(), 3);
        assert_eq!((calls[2].mark(), calls[2].interval()), (Mark::AtLeast, (1.0, 1_001.0)));
    }

    #[test]
    fn a_function_whose_ends_are_not_seen_is_never_timed() {
        struct Modes(Vec<Mode>);
        impl Probes for Modes {
            fn set(&mut self, _: FuncId, mode: Mode) {
                self.0.push(mode);
            }
        }
        let costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        for policy in [Policy::Exact, Policy::Adaptive { budget: 0.01 }] {
            let mut controller =
                Controller::new(policy.clone(), Clock { hz: 1e9, step: 1 }, costs, 1, Ticks(1));
            controller.discovered(FuncId(1), 1);
            controller.only_counts(FuncId(1));
            let mut modes = Modes(Vec::new());
            let mut counted = 0;
            for turn in 1..2_000 {
                // A sixth of the time, if it is counted all the time: a call takes ten ticks, and
                // twelve if it is counted.
                if modes.0.last() != Some(&Mode::Off) {
                    controller.entered(FuncId(1), 83_333);
                    counted += 1;
                }
                controller.tick(Ticks(turn * 1_000_000), &mut modes);
            }
            let is_exact = policy == Policy::Exact;
            assert!(modes.0.contains(&Mode::Count));
            assert!(modes.0.iter().all(|mode| *mode == Mode::Count || !is_exact));
            assert!(modes.0.iter().all(|mode| !matches!(mode, Mode::Sample(_))));
            assert!(is_exact || counted < 200, "it was counted for {counted} ms of 2,000");
            let calls = controller.draft(Ticks(2_000_000_000)).functions[0].calls;
            let (low, high) = calls.interval();
            let truth = f64::from(1_999 - counted) * 100_000.0 + f64::from(counted) * 83_333.0;
            assert!(low <= truth && truth <= high, "{calls:?} of {truth}");
        }
    }

    #[test]
    fn a_function_that_is_only_counted_has_an_account_as_soon_as_something_else_is_seen() {
        let costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        let clock = Clock { hz: 1e9, step: 1 };
        let mut controller = Controller::new(Policy::Count, clock, costs, 1, Ticks(1));
        for function in [FuncId(1), FuncId(2), FuncId(3)] {
            controller.discovered(function, 2);
        }
        controller.first(&mut Nothing);
        for _ in 0..5 {
            controller.entered(FuncId(1), 3);
            controller.entered(FuncId(2), 4);
        }
        controller.lost(FuncId(2), 1);
        controller.entered(FuncId(2), 1);
        controller.tick(Ticks(1_000_000), &mut Nothing);
        let functions = controller.draft(Ticks(2_000_000)).functions;
        let told: Vec<_> = functions
            .iter()
            .map(|function| (function.id, function.calls, function.lost, function.samples))
            .collect();
        let exact = Figure::exact;
        assert_eq!(told, [(FuncId(1), exact(15.0), 0, 0), (FuncId(2), exact(21.0), 1, 0)]);
        assert!(controller.functions[1].life.is_none());
    }

    #[test]
    fn calls_behind_a_quota_are_paid_for_as_counted() {
        let costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        let policy = Policy::Adaptive { budget: 0.01 };
        let clock = Clock { hz: 1e9, step: 1 };
        let mut controller = Controller::new(policy, clock, costs, 1, Ticks(1));
        controller.discovered(FuncId(1), 2);
        controller.first(&mut Nothing);
        let call = Sample {
            function: FuncId(1),
            call_site: 0,
            ticks: 60,
            nested: 0,
            children: 0,
            outermost: true,
        };
        (0..64).for_each(|_| controller.sample(&call));
        controller.entered(FuncId(1), 1_000_000);
        assert_eq!(controller.adaptive.spent, 1_000_000.0 * 2.0 + 64.0 * 48.0);
    }

    #[test]
    fn entries_that_other_code_counts_are_paid_for_as_what_they_take() {
        let costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        let policy = Policy::Adaptive { budget: 0.01 };
        let clock = Clock { hz: 1e9, step: 1 };
        let mut controller = Controller::new(policy, clock, costs, 1, Ticks(1));
        for function in [FuncId(1), FuncId(2)] {
            controller.discovered(function, 2);
        }
        controller.counting_takes(FuncId(2), Counting { times: 60.0, deviation: 0.5 });
        controller.first(&mut Nothing);
        controller.entered(FuncId(1), 100);
        controller.entered(FuncId(2), 10);
        assert_eq!(controller.adaptive.spent, 100.0 * 2.0 + 10.0 * 60.0 * 2.0);
    }
}
