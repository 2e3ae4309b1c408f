//! The adaptive policy: observes as much as a budget allows.
//!
//! A function is observed in one of three ways. The choice is made anew several times a second, by
//! how often the function is called:
//!
//! | way | its calls are | its entries are | which functions |
//! |---|---|---|---|
//! | complete | all timed | counted | those with long calls, and those that are rarely called |
//! | counted | timed in terms (sampling windows) | counted | the more frequent ones |
//! | windowed | timed in terms | counted from a window before it to its end | the most frequent |
//!
//! In a *term* a limited number of calls is timed, selected at random. One part of the budget
//! limits complete timing, and another one counting. Each function is armed separately, at random
//! intervals. With a common beginning, callers would be timed while all of their callees are timed
//! too, and every first call after a pause would be sampled. For the same reason the calls of a
//! term are selected by their number, not by time.

use super::slowdown::{Cost, Look, Slowdown};
use super::{Controller, Life, Part};
use crate::mode::{Draw, Mode, Probes, Rest, Skip};
use crate::{Costs, FuncId, Ticks};

/// The first term, and every term of a function that is timed completely: a function that is called
/// fewer times than the quota is timed completely.
pub(super) const FIRST: Mode = Mode::Sample(COMPLETELY);
const COMPLETELY: Draw = Draw { quota: 64, skip: Skip::None, then: Rest::Count };

/// Parts of the budget: complete timing, counting, terms. The rest is for rates that change between
/// two choices.
const COMPLETE: f64 = 0.2;
const COUNTING: f64 = 0.48;
const TERMS: f64 = 0.25;
/// A term may last this many times as long as the function's rate predicts, if other functions
/// return through its exits.
const PATIENCE: f64 = 4.0;
/// The part of the budget that complete timing and counting leave over, and that terms and windows
/// get. The rest is a reserve for growing rates.
const UNSPENT: f64 = 0.9;
/// How much more windows may cost than terms, and how many windows there are for a term at most.
const WINDOWS: f64 = 6.0;
const MOST_WINDOWS: f64 = 16.0;
/// The part of the budget that may be spent on a function that was never called.
const WAITING: f64 = 0.01;
/// The part of complete timing that is reserved for long calls. They determine tail latencies, a
/// probe costs a few per cent of such a call, and complete timing needs no estimate.
const LONG: f64 = 0.6;
/// The duration from which on a call is long, in seconds.
const LONG_CALL: f64 = 1e-6;

/// The length of the term of a frequently called function, in seconds. More calls are skipped to
/// reach it, since successive calls are similar.
const TERM: f64 = 0.001;
/// The window in which the rate of a windowed function is measured, in seconds. Its length is
/// fixed: a window that ended after a number of calls would wait for the next busy time. It is
/// longer than the phases that many programs repeat; a shorter window would cover a single phase.
const WINDOW: f64 = 0.003;
/// A window may end when this part of it has passed: looks are not made at exact times.
const FULL: f64 = 0.9;
/// A function stays counted while its counting has cost less than this so far, in seconds, even if
/// it is called very often now: many functions are called often for a short time and never again.
/// At most, for one function; and for all functions together.
const TRIFLE: f64 = 20e-6;
const TRIFLES: f64 = 2e-3;
/// Calls skipped on average before one that is timed: at least, at most.
const SKIP: (f64, f64) = (10.0, 3000.0);
/// Calls to time in a term: the least number, and the number for functions whose calls differ much.
const QUOTA: (f64, f64) = (10.0, 64.0);
/// The time between two looks (controller ticks), in seconds.
const TICK: f64 = 0.010;
/// The time from one arming to the next, in seconds: at least, at most.
const CYCLE: (f64, f64) = (0.020, 5.0);
/// The time between two choices of ways, in seconds; and the time after the beginning in which a
/// choice is made at every tick, since hot functions must be found before they cost much.
const CHOOSE: f64 = 0.1;
const BEGINNING: f64 = 0.05;
/// The time for which choices are made at every tick after a function got its probes because it was
/// running.
const SURPRISE: f64 = 0.003;
/// The time over which the rates that decide about counting are averaged, in seconds: programs have
/// phases.
const AVERAGE: f64 = 1.0;
/// A shorter observation is weak evidence of a rate, in seconds: many functions are called often
/// for a short time and then never again, and those cost little. Functions that got their probes
/// because they were running have no exact counts to lose, so a tick is long enough for them.
const FIRM: f64 = 0.02;
/// A choice is made at once when counting has taken more than this many budgets since the last
/// look.
const SURGE: f64 = 1.0;
/// While hot functions are being found, probes may take more than this part of the time. They slow
/// the program down then, and a window shows too low a rate. Such a window is repeated soon, but at
/// most this many times in a row.
const CALM: f64 = 0.06;
const SPOILED: u32 = 4;
/// The time between two looks at the beginning, and the least while windows are open, in seconds.
const SHORT_TICK: f64 = 0.001;
/// The weight of the old rate when a choice updates the estimate.
const MEMORY: f64 = 0.5;

/// The random generator, and the state that all functions share.
#[derive(Debug)]
pub(super) struct Adaptive {
    random: u64,
    chosen: Ticks,
    last: Ticks,
    /// The cost of counting, also in windows, and of complete timing since `last`, in ticks.
    pub(super) spent: f64,
    /// The same cost since the latest comparison with the plan; the factor by which the planned
    /// budget is reduced since then; and the time of that comparison. Rates change, and functions
    /// whose rates had just fallen are the first to be chosen.
    pub(super) paid: f64,
    thrift: f64,
    thrifty: Ticks,
    /// What taking in a timed call costs the caller.
    pub(super) taking: f64,
    /// When the first of the open windows is to be closed, if any is open; and whether calls of a
    /// windowed function are being timed, or a window was opened at a time that was not random.
    closes: Option<Ticks>,
    is_unfit: bool,
    /// The measured cost of counting, and its standard deviation.
    slowdown: Slowdown,
    deviation: f64,
    /// Counted entries of windowed functions, until now and until the latest look, each weighted by
    /// its cost; and the yardstick's entries since then.
    pub(super) windowed_entries: f64,
    seen: f64,
    pub(super) measured: f64,
    /// The time at which the yardstick was chosen.
    yardstick: Ticks,
    /// The last time at which probes took more than [`CALM`] of the time.
    restless: Ticks,
    /// The last time at which a function got its probes because it was running.
    pub(super) surprised: Ticks,
}

/// The plan for a function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    way: Way,
    /// The estimated entries per second.
    rate: f64,
    /// The same over [`AVERAGE`], the number of calls that it was computed from, and the time of
    /// that.
    average: f64,
    calls: f64,
    averaged: f64,
    /// Returns of other functions per second through its exits while it is timed.
    passing: f64,
    /// Whether its calls are so rare, and other functions return through its exits so often, that
    /// the budget pays for no term.
    is_hopeless: bool,
    counted: u64,
    counted_at: Ticks,
    /// The time of its next arming, and that of the latest.
    next: Ticks,
    armed: Ticks,
    quota: u32,
    span: f64,
    /// Windows for each term, and those since the latest.
    windows: u32,
    windows_done: u32,
    /// Windows in a row that were repeated.
    spoiled: u32,
    /// Whether its window was opened because it was found to be frequent.
    is_prompt: bool,
    /// Whether it belongs to the yardstick of [`Slowdown`], and whether it once ceased to.
    measures: bool,
    is_unsteady: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Complete,
    Counted,
    Windowed,
}

impl Adaptive {
    pub(super) fn new(seed: u64, now: Ticks, slowdown: Slowdown) -> Self {
        Self {
            random: seed ^ 0x9e37_79b9_7f4a_7c15,
            chosen: now,
            last: now,
            spent: 0.0,
            paid: 0.0,
            thrift: 1.0,
            thrifty: now,
            taking: 0.0,
            closes: None,
            is_unfit: false,
            deviation: slowdown.cost().deviation,
            slowdown,
            windowed_entries: 0.0,
            seen: 0.0,
            measured: 0.0,
            yardstick: Ticks::default(),
            restless: now,
            surprised: Ticks::default(),
        }
    }

    /// A random number, evenly distributed between zero and one.
    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Plan {
    /// Whether its entries are counted in windows only; and whether it belongs to the yardstick.
    pub(super) fn kind(&self) -> (bool, bool) {
        (self.way == Way::Windowed, self.measures)
    }
}

impl Controller {
    pub(super) fn adapt(&mut self, now: Ticks, budget: f64, probes: &mut impl Probes) -> Ticks {
        for (function, armed, at) in std::mem::take(&mut self.retired) {
            let counts = counts_at_rest(&self.part(function).mode);
            let account = self.account(function);
            account.stop_timing();
            if !counts {
                // It was also counted in the window before it was armed.
                let from = account.window().map_or(armed, |_| account.cycle_began());
                account.stop_counting(from, at);
            }
        }
        let elapsed = now.since(std::mem::replace(&mut self.adaptive.last, now)).0 as f64;
        let beginning = now.since(self.began) < self.clock.ticks(BEGINNING)
            || now.since(self.adaptive.surprised) < self.clock.ticks(SURPRISE);
        // The program has changed its behaviour: functions that are hot now must not stay counted
        // or timed until the next regular choice.
        let spent = std::mem::take(&mut self.adaptive.spent);
        self.adaptive.paid += spent;
        // The cost of windows is subtracted from them anyway. Repeating windows in which many calls
        // are counted would favour windows with few.
        if spent - self.compare(elapsed) > CALM * elapsed {
            self.adaptive.restless = now;
        }
        let surge = spent > SURGE * budget * elapsed;
        // A choice visits every function, so it is not made at each look while windows are open.
        let chosen = now.since(self.adaptive.chosen);
        let chooses = beginning
            || surge && chosen >= self.clock.ticks(TICK)
            || chosen >= self.clock.ticks(CHOOSE);
        if chooses {
            self.choose(now, budget);
            self.choose_yardstick(now, beginning);
        }
        (self.adaptive.closes, self.adaptive.is_unfit) = (None, false);
        for at in 1..self.functions.len() {
            if self.functions[at].lives() {
                self.attend(at, now, probes);
            } else if chooses {
                self.spare(at, budget, probes);
            }
        }
        let pause = self.clock.ticks(if beginning { SHORT_TICK } else { TICK });
        let next = Ticks(now.0 + pause.0);
        // Nothing is to be decided while windows are open, until the first of them ends.
        self.adaptive.closes.map_or(next, |closes| {
            let soonest = Ticks(now.0 + self.clock.ticks(SHORT_TICK).0);
            closes.clamp(soonest, next)
        })
    }

    /// Notes that a window is open, and when it began.
    fn note_window(&mut self, began: Ticks) {
        let closes = Ticks(began.0 + self.clock.ticks(WINDOW * FULL).0);
        let first = self.adaptive.closes.map_or(closes, |other| other.min(closes));
        self.adaptive.closes = Some(first);
    }

    /// Compares how often the yardstick is called with and without windows. Returns the cost of
    /// counting in windows since the last look.
    fn compare(&mut self, elapsed: f64) -> f64 {
        let Adaptive { slowdown, closes, is_unfit, windowed_entries, seen, measured, .. } =
            &mut self.adaptive;
        let entries = *windowed_entries - std::mem::replace(seen, *windowed_entries);
        let look = match (*is_unfit, closes.is_some()) {
            (true, _) => Look::Unfit,
            (false, true) => Look::Open,
            (false, false) => Look::Closed,
        };
        slowdown.look(look, elapsed, std::mem::take(measured), entries);
        entries * self.costs.count
    }

    /// The yardstick is chosen when the hot functions have been found. It is chosen again when it
    /// has been in use for as long as the program had run before, and when one of its functions is
    /// no longer counted all the time.
    fn choose_yardstick(&mut self, now: Ticks, beginning: bool) {
        let Adaptive { slowdown, yardstick, deviation, .. } = &mut self.adaptive;
        let Cost { mean, deviation: known } = slowdown.cost();
        (self.costs.count, *deviation) = (mean, known);
        let mut is_other = now.since(*yardstick) >= yardstick.since(self.began);
        for life in self.functions.iter_mut().filter_map(|part| part.life.as_deref_mut()) {
            let plan = &mut life.plan;
            if plan.measures && plan.way == Way::Windowed {
                plan.is_unsteady = true;
                is_other = true;
            }
        }
        if beginning || !is_other {
            return;
        }
        slowdown.restart();
        *yardstick = now;
        for life in self.functions.iter_mut().filter_map(|part| part.life.as_deref_mut()) {
            life.plan.measures = !life.plan.is_unsteady && life.plan.way != Way::Windowed;
        }
    }

    /// A function that was never called stays armed so that its first call is timed. If other
    /// functions return through its exits too often meanwhile, it is only counted.
    fn spare(&mut self, at: usize, budget: f64, probes: &mut impl Probes) {
        let part = &self.functions[at];
        let waits =
            part.known && !part.resting && is_complete(&part.mode) && !part.others.is_empty();
        if waits && self.passing(at) * self.costs.skip > budget * WAITING * self.clock.hz {
            self.set(FuncId(at as u32), Mode::Count, probes);
        }
    }

    /// Handles one function that is called: arms it when it is due, and stops timing it completely
    /// if it has become too frequent for that.
    fn attend(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let span = self.clock.ticks(CYCLE.0);
        let part = &mut self.functions[at];
        let Some(life) = &mut part.life else { return };
        if life.plan.next == Ticks::default() {
            // Its first call: it gets a random phase.
            life.plan.span = CYCLE.0;
            let wait = (span.0 as f64 * (0.2 + self.adaptive.chance())) as u64;
            life.plan.next = Ticks(now.0 + wait);
        }
        let is_timed = !part.resting && matches!(part.mode, Mode::Sample(_));
        self.adaptive.is_unfit |= is_timed && life.plan.way == Way::Windowed;
        if life.plan.way == Way::Complete && !is_timed {
            life.plan.next = now;
        }
        if life.plan.way != Way::Complete && is_timed && is_complete(&part.mode) {
            // It is called too often for complete timing now. Calls that are open are lost.
            life.account.stop_timing();
            self.set(FuncId(at as u32), Mode::Count, probes);
            return self.attend(at, now, probes);
        }
        if is_timed && life.plan.way == Way::Counted && life.plan.is_overdue(now, self.clock.hz) {
            life.account.stop_timing();
            self.set(FuncId(at as u32), Mode::Count, probes);
            return;
        }
        if life.plan.way == Way::Windowed && !is_timed && counts_at_rest(&part.mode) {
            return self.advance_window(at, now, probes);
        }
        if now >= life.plan.next {
            self.arm(at, now, probes);
        }
    }

    /// Handles a windowed function that is only counted, which is its window. When the window has
    /// ended, a term begins, or the function is switched off until its next window. Windows are
    /// more frequent than terms: the rate of calls changes more than their duration, which the
    /// clock also measures.
    fn advance_window(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let (span, window) = (self.clock.ticks(CYCLE.0), self.clock.ticks(WINDOW * FULL));
        let (windowed_entries, count) = (self.adaptive.windowed_entries, self.costs.count);
        let Part { only_counts, counting, life, .. } = &mut self.functions[at];
        let deviation = self.adaptive.deviation.max(f64::from(counting.deviation) * count);
        let Some(Life { account, plan }) = life.as_deref_mut() else { return };
        let Some(began) = account.window() else {
            // It has just become frequent, and may be rare again soon.
            let soon = (span.0 as f64 * (0.5 + self.adaptive.chance())) as u64;
            plan.next = plan.next.min(Ticks(now.0 + soon));
            account.open_window(now, windowed_entries);
            plan.is_prompt = true;
            self.adaptive.is_unfit = true;
            return self.note_window(now);
        };
        if now.since(began) < window {
            self.adaptive.is_unfit |= plan.is_prompt;
            return self.note_window(began);
        }
        plan.is_prompt = false;
        account.close_window(now, windowed_entries, count, deviation);
        if self.adaptive.restless > began && plan.spoiled < SPOILED {
            plan.spoiled += 1;
            let soon = (span.0 as f64 * (0.5 + self.adaptive.chance())) as u64;
            plan.next = plan.next.min(Ticks(now.0 + soon));
            let began = account.cycle_began();
            account.stop_counting(began, now);
            self.set(FuncId(at as u32), Mode::Off, probes);
            return;
        }
        plan.spoiled = 0;
        plan.windows_done += 1;
        if plan.windows_done < plan.windows || *only_counts {
            let began = account.cycle_began();
            account.stop_counting(began, now);
            self.set(FuncId(at as u32), Mode::Off, probes);
            return;
        }
        plan.windows_done = 0;
        self.adaptive.is_unfit = true;
        let draw = plan.draw(Rest::Off);
        self.set(FuncId(at as u32), Mode::Sample(draw), probes);
    }

    /// Records that a function was switched at this instant, which may be later than the decision:
    /// the agent applies decisions one after the other.
    pub fn switched(&mut self, function: FuncId, at: Ticks) {
        let part = self.part(function);
        match (part.mode, &mut part.life) {
            (Mode::Count, Some(life)) => life.account.delay_window(at),
            (Mode::Off, Some(life)) => life.account.count_until(at),
            _ => {}
        }
    }

    /// Arms a function, which begins a new cycle.
    fn arm(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let jitter = 0.5 + self.adaptive.chance();
        let clock = self.clock;
        let part = &mut self.functions[at];
        let goes_on = !part.resting && matches!(part.mode, Mode::Sample(_));
        let Some(Life { account, plan }) = part.life.as_deref_mut() else { return };
        plan.next = Ticks(now.0 + clock.ticks(plan.span * jitter).0);
        if goes_on && plan.way == Way::Windowed {
            // Its cycle continues, too: the next one would have no window, and so no evidence of
            // its rate.
            return;
        }
        if plan.way == Way::Windowed {
            plan.learn(account.rate(now) * clock.hz);
        }
        account.turn(now);
        plan.armed = now;
        let mode = match plan.way {
            Way::Complete => Mode::Sample(Draw::all(plan.rate * TICK)),
            Way::Counted if plan.is_hopeless => Mode::Count,
            Way::Counted => Mode::Sample(plan.draw(Rest::Count)),
            Way::Windowed => Mode::Count,
        };
        // A term that still samples continues: a new one would lose the open calls, in particular
        // the longest ones.
        if !goes_on {
            match plan.way {
                Way::Complete => account.time_completely(),
                Way::Counted => {}
                Way::Windowed => {
                    account.open_window(now, self.adaptive.windowed_entries);
                    self.note_window(now);
                }
            }
            self.set(FuncId(at as u32), mode, probes);
        }
    }

    /// Chooses a way for every function, by its cost.
    fn choose(&mut self, now: Ticks, budget: f64) {
        let hz = self.clock.hz;
        self.adaptive.chosen = now;
        let thrift = self.thrift(now, budget);
        // Calls that are timed completely are so many that taking them in counts, too.
        let pair = self.costs.pair + self.adaptive.taking;
        let (ticks, costs) = (budget * hz, Costs { pair, ..self.costs });
        let mut order: Vec<Candidate> = Vec::new();
        for (at, part) in self.functions.iter_mut().enumerate().skip(1) {
            // It was not observed before it had probes.
            let began = Ticks(self.began.0 + part.unseen.0);
            let firm = if part.was_running { SHORT_TICK } else { FIRM };
            if part.lives()
                && let Some(Life { account, plan }) = part.life.as_deref_mut()
            {
                plan.count(account.entries, began, now, hz, firm);
                let is_long =
                    account.mean(&self.costs).is_some_and(|mean| mean.value >= LONG_CALL * hz);
                // Calls that are not being counted become part of the estimate at the end of the
                // cycle.
                let unseen = if plan.way == Way::Windowed {
                    plan.rate * now.since(account.cycle_began()).0 as f64 / hz
                } else {
                    0.0
                };
                plan.average_over(
                    account.estimate() + unseen,
                    now.since(began).0 as f64 / hz,
                    firm,
                );
                order.push(Candidate {
                    at,
                    rate: plan.rate,
                    average: plan.average,
                    weight: f64::from(part.counting.times),
                    passing: 0.0,
                    is_long,
                });
            }
        }
        for candidate in &mut order {
            candidate.passing = self.passing(candidate.at);
        }
        order.sort_by(|a, b| a.cost(&costs).total_cmp(&b.cost(&costs)));
        let (complete, left) = self.time_completely(&order, &costs, ticks * COMPLETE * thrift);
        order.sort_by(|a, b| a.counting().total_cmp(&b.counting()));
        let trifle = hz * TRIFLE.min(TRIFLES / order.len().max(1) as f64);
        let mut counting = ticks * COUNTING * thrift;
        let mut sampled = Vec::new();
        for candidate in order {
            let Candidate { at, weight, passing, .. } = candidate;
            let complete = complete[at];
            let Part { was_running, life, .. } = &mut self.functions[at];
            let Some(life) = life else { continue };
            life.plan.passing = passing;
            let so_far = life.account.entries as f64 * weight * costs.count;
            let counted = candidate.counting() * costs.count;
            life.plan.way = if complete {
                Way::Complete
            } else if counted <= counting || so_far <= trifle && !*was_running {
                counting -= counted.min(counting);
                sampled.push(at);
                Way::Counted
            } else {
                counting = 0.0;
                sampled.push(at);
                Way::Windowed
            };
        }
        let unspent = (left + counting) * UNSPENT;
        self.pace(&sampled, ticks * TERMS + unspent);
    }

    /// The part of the budget that may be planned: less, if more was spent than planned before.
    fn thrift(&mut self, now: Ticks, budget: f64) -> f64 {
        let Adaptive { thrift, thrifty, paid, .. } = &mut self.adaptive;
        if now.since(self.began) < self.clock.ticks(BEGINNING) {
            // Hot functions have to be found first.
            (*thrifty, *paid) = (now, 0.0);
        }
        let elapsed = now.since(*thrifty);
        // Choices that a surge triggered follow too soon for the comparison.
        if elapsed >= self.clock.ticks(CHOOSE) {
            let foreseen = budget * (COMPLETE + COUNTING + TERMS) * elapsed.0 as f64;
            *thrift = (*thrift * if *paid > foreseen { 0.85 } else { 1.15 }).clamp(0.3, 1.0);
            (*thrifty, *paid) = (now, 0.0);
        }
        *thrift
    }

    /// Selects the functions that are timed completely: first those with long calls, then all, the
    /// cheapest first, as long as the budget pays for it. Also returns the rest of that budget.
    /// `order` is by cost.
    fn time_completely(&self, order: &[Candidate], costs: &Costs, ticks: f64) -> (Vec<bool>, f64) {
        let mut chosen = vec![false; self.functions.len()];
        let mut left = ticks;
        for (only_long, kept) in [(true, ticks * (1.0 - LONG)), (false, 0.0)] {
            let can_be = |at: usize| !self.functions[at].only_counts;
            let order = order.iter().filter(|candidate| can_be(candidate.at));
            for candidate in order.filter(|candidate| candidate.is_long || !only_long) {
                let cost = candidate.cost(costs);
                if chosen[candidate.at] {
                    continue;
                }
                if left - cost < kept {
                    break;
                }
                left -= cost;
                chosen[candidate.at] = true;
            }
        }
        (chosen, left)
    }

    /// The returns of other functions per second through the exits of this one.
    fn passing(&self, at: usize) -> f64 {
        let rate = |other: &FuncId| {
            self.functions.get(other.0 as usize)?.life.as_ref().map(|life| life.plan.rate)
        };
        self.functions[at].others.iter().filter_map(rate).sum()
    }

    /// Sets the lengths of cycles so that the budget pays for terms and windows.
    fn pace(&mut self, sampled: &[usize], ticks: f64) {
        if sampled.is_empty() {
            return;
        }
        let costs = self.costs;
        let share = ticks / sampled.len() as f64;
        for &at in sampled {
            let part = &mut self.functions[at];
            let weight = f64::from(part.counting.times);
            let Some(Life { account, plan }) = part.life.as_deref_mut() else { continue };
            let variation = account.variation().clamp(0.25, 16.0);
            let (least, most) = QUOTA;
            // Functions whose calls differ much need more samples, but not if that makes cycles
            // longer.
            let cost = plan.term_cost(&costs);
            let affordable = (share * CYCLE.0 - costs.toggle).max(0.0) / cost.max(1.0);
            let least = if plan.is_passed() { 1.0 } else { least };
            let quota = (QUOTA.0 * variation).min(affordable).clamp(least, most);
            plan.quota = quota as u32;
            let window = if plan.way == Way::Windowed {
                plan.rate * WINDOW * weight * costs.count
            } else {
                0.0
            };
            let term = if part.only_counts { 0.0 } else { quota * cost };
            let window = window + costs.toggle * sites_factor(part.sites);
            let windows = (WINDOWS * term / window).clamp(1.0, MOST_WINDOWS).floor();
            plan.windows = if plan.way == Way::Windowed { windows as u32 } else { 1 };
            let by_terms = (term / f64::from(plan.windows) + window) / share;
            plan.span = by_terms.clamp(CYCLE.0, CYCLE.1);
            plan.is_hopeless = plan.is_passed() && by_terms > CYCLE.1;
        }
    }
}

impl Part {
    /// Whether the controller handles it: it was discovered and entered.
    fn lives(&self) -> bool {
        self.known && self.life.as_ref().is_some_and(|life| life.account.entries > 0)
    }
}

/// Whether entries are counted in this mode once its quota is used up.
fn counts_at_rest(mode: &Mode) -> bool {
    matches!(mode, Mode::Count | Mode::Sample(Draw { then: Rest::Count, .. }))
}

/// Whether all calls are timed in this mode.
fn is_complete(mode: &Mode) -> bool {
    matches!(mode, Mode::Sample(Draw { skip: Skip::None, .. }))
}

/// A function for which a way is being chosen.
struct Candidate {
    at: usize,
    rate: f64,
    average: f64,
    /// The cost of counting an entry, as a multiple of the usual one.
    weight: f64,
    /// Returns of other functions per second through its exits while it is timed.
    passing: f64,
    is_long: bool,
}

impl Candidate {
    /// The cost of counting per second, in entries of the usual cost: calls that come in bursts
    /// cost no more than their average.
    fn counting(&self) -> f64 {
        self.rate.min(self.average) * self.weight
    }

    /// The cost of timing it completely, per second. A function that is called rarely now may soon
    /// be called as often as before: programs have phases.
    fn cost(&self, costs: &Costs) -> f64 {
        let average = if self.average.is_finite() { self.average } else { 0.0 };
        self.rate.max(average) * (costs.pair + 2.0) + self.passing * costs.skip
    }
}

/// The factor by which a function with many sites costs more to switch.
fn sites_factor(sites: u32) -> f64 {
    (f64::from(sites) / 2.0).clamp(1.0, 50.0)
}

impl Plan {
    /// The sampling plan of a term of this function.
    fn draw(&self, then: Rest) -> Draw {
        match self.is_passed() {
            true => Draw { quota: self.quota.max(1), skip: Skip::Geometric { mean: 0.0 }, then },
            false => Draw {
                quota: self.quota.max(QUOTA.0 as u32),
                skip: Skip::Geometric { mean: self.skip() },
                then,
            },
        }
    }

    /// Whether a shorter term costs less, because more frequent functions return through its exits
    /// all the time.
    fn is_passed(&self) -> bool {
        self.passing > self.rate
    }

    /// Whether a term during which other functions return through its exits has exceeded its time
    /// limit, because the function is no longer called.
    fn is_overdue(&self, now: Ticks, hz: f64) -> bool {
        let expected = f64::from(self.quota) / self.rate * hz;
        self.is_passed()
            && (self.is_hopeless || now.since(self.armed).0 as f64 > PATIENCE * expected)
    }

    /// The mean number of calls that are skipped before one is timed.
    fn skip(&self) -> f64 {
        (self.rate * TERM / QUOTA.0).clamp(SKIP.0, SKIP.1)
    }

    /// The cost of timing a call, including the calls that are skipped before it, and the returns
    /// of other functions through its exits meanwhile.
    fn term_cost(&self, costs: &Costs) -> f64 {
        let skip = if self.is_passed() { 0.0 } else { self.skip() };
        let passing = (skip + 1.0) * self.passing / self.rate.max(1.0);
        costs.pair + (skip + passing) * costs.skip
    }

    /// Updates the average rate of calls, `seconds` after the beginning.
    fn average_over(&mut self, calls: f64, seconds: f64, firm: f64) {
        let span = seconds - self.averaged;
        if span < firm {
            // At the beginning a burst cannot be distinguished from a lasting rate.
            self.average = if self.averaged > 0.0 { self.average } else { f64::INFINITY };
            return;
        }
        let recent = (calls - self.calls).max(0.0) / span;
        let known = if self.averaged > 0.0 { self.average } else { recent };
        let part = (span / seconds.min(AVERAGE)).min(1.0);
        (self.average, self.calls, self.averaged) =
            (known + (recent - known) * part, calls, seconds);
    }

    /// Updates the rate of a function whose entries are counted all the time, from `began` on. An
    /// observation shorter than `firm` is weak evidence.
    fn count(&mut self, entries: u64, began: Ticks, now: Ticks, hz: f64, firm: f64) {
        let age = now.since(began).0 as f64 / hz;
        if self.way != Way::Windowed && age < BEGINNING {
            self.rate = entries as f64 / (age + firm);
        } else if self.way != Way::Windowed {
            let span = now.since(self.counted_at.max(began)).0 as f64 / hz;
            self.learn((entries - self.counted) as f64 / span.max(firm));
        }
        (self.counted, self.counted_at) = (entries, now);
    }

    /// Updates the estimated rate. A rate that has grown much is adopted at once.
    fn learn(&mut self, rate: f64) {
        let jumps = self.rate == 0.0 || rate > 4.0 * self.rate;
        self.rate = if jumps { rate } else { MEMORY * self.rate + (1.0 - MEMORY) * rate };
    }
}
