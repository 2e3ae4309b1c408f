//! The adaptive policy: as much as a budget allows.
//!
//! A function is in one of three ways of life, chosen anew a few times a second by how often it is
//! called:
//!
//! | way | its calls are | its entries are | which functions |
//! |---|---|---|---|
//! | complete | all timed | counted | long calls, and what is called rarely, as long as a part of the budget pays for it |
//! | counted | timed in terms of some calls, drawn by chance | counted | those behind them, as long as another part pays |
//! | glimpsed | timed in terms | counted in a window before each term, and until that ends | the most frequent ones |
//!
//! Each function has armings of its own, at distances that vary by chance: at a common beginning
//! parents would be timed while all that they call is timed too, and every first call after a pause
//! would be taken. Within a term calls are drawn in the number of calls, not in time, for the same
//! reason.

use super::slowdown::{Cost, Look, Slowdown};
use super::{Conductor, Life, Part};
use crate::mode::{Draw, Mode, Probes, Rest, Skip};
use crate::{Costs, FuncId, Ticks};

/// The first term, and every term of a function that is timed completely: what is called fewer
/// times is.
pub(super) const FIRST: Mode = Mode::Sample(COMPLETELY);
const COMPLETELY: Draw = Draw { quota: 64, skip: Skip::None, then: Rest::Count };

/// Parts of the budget: complete timing, counting, terms. The rest is for rates that change between
/// two choices.
const COMPLETE: f64 = 0.2;
const COUNTING: f64 = 0.48;
const TERMS: f64 = 0.25;
/// A term that others pass may last so many times as long as the rate lets expect.
const PATIENCE: f64 = 4.0;
/// What complete timing and counting leave over goes to terms and windows, but for what rates may
/// grow by.
const UNSPENT: f64 = 0.9;
/// How much more windows may cost than terms, and how many windows there are for a term at most.
const WINDOWS: f64 = 6.0;
const GLIMPSES: f64 = 16.0;
/// What may be spent on a function that was never called.
const WAITING: f64 = 0.01;
/// Of complete timing, the part that goes to long calls first: there tails live, a probe is a few
/// per cent of the call, and what is timed completely needs no estimate.
const LONG: f64 = 0.6;
/// So long a call is long, in seconds.
const LONG_CALL: f64 = 1e-6;

/// How long the term of a function is that is called often, in seconds: so much more calls are left
/// out, since calls that follow each other are alike.
const TERM: f64 = 0.001;
/// The window that the rate of a glimpsed function is known by, in seconds. Its length is fixed:
/// one that waits for a number of calls waits for the next busy time. Longer than the phases that
/// many programs go through again and again, of which a shorter one meets a single one.
const WINDOW: f64 = 0.003;
/// Counting that has cost less than this so far, in seconds, goes on however often a function is
/// called at the moment: many are called often for a moment and never again.
const TRIFLE: f64 = 20e-6;
/// Calls left out on average before one that is timed: at least, at most.
const SKIP: (f64, f64) = (10.0, 3000.0);
/// Calls to time in a term: at least, and for functions whose calls differ much.
const QUOTA: (f64, f64) = (10.0, 64.0);
/// Between two looks, in seconds.
const TICK: f64 = 0.010;
/// From one arming to the next, in seconds: at least, at most.
const CYCLE: (f64, f64) = (0.020, 5.0);
/// Between two choices of ways of life; and for how long they are made anew at every tick at the
/// beginning, when what is hot has to be found before it costs.
const CHOOSE: f64 = 0.1;
const BEGINNING: f64 = 0.05;
/// So long they are made anew at every tick, too, when a function has got its probes because it was
/// running.
const SURPRISE: f64 = 0.003;
/// Over how long rates are averaged that counting is paid for, in seconds: programs have phases.
const AVERAGE: f64 = 1.0;
/// What was seen in a shorter time says little of a rate: many functions are called often for a
/// moment and then never again, and those cost little. Of functions that got their probes because
/// they were running there are no exact counts to be lost, and a tick is long enough.
const FIRM: f64 = 0.02;
/// A choice is made at once when counting has taken more than this many budgets since the last
/// look.
const SURGE: f64 = 1.0;
/// Where probes take more than this part of the time, as they do while what is hot is being found,
/// the program goes slower than else, and a window shows too low a rate: another follows soon, but
/// not more often than this.
const CALM: f64 = 0.06;
const SPOILED: u32 = 4;
/// Between two looks in the beginning and while a window is open, in seconds.
const SHORT_TICK: f64 = 0.001;
/// How much of what was known of a rate is kept at a choice.
const MEMORY: f64 = 0.5;

/// Chance, and the state that all functions share.
#[derive(Debug)]
pub(super) struct Adaptive {
    random: u64,
    chosen: Ticks,
    last: Ticks,
    /// What counting, also in windows, and complete timing have cost since then, in ticks.
    pub(super) spent: f64,
    /// The same since the latest judgement, the part of what was foreseen that is spent since, and
    /// when that was: rates change, and those that had fallen for a moment are the first to be
    /// chosen.
    paid: f64,
    thrift: f64,
    thrifty: Ticks,
    /// Whether some window is open; and whether calls of a glimpsed function are timed, or a window
    /// was opened at no random time.
    is_open: bool,
    is_unfit: bool,
    /// What counting takes, and how far that is known.
    slowdown: Slowdown,
    deviation: f64,
    /// Entries that were counted of glimpsed functions, until now and until the latest look, each
    /// by what it takes; and those of the yardstick since then.
    pub(super) glimpsed: f64,
    seen: f64,
    pub(super) measured: f64,
    /// When the yardstick was chosen.
    yardstick: Ticks,
    /// When probes took more than [`CALM`] of the time for the last time.
    restless: Ticks,
    /// When a function got its probes because it was running, for the last time.
    pub(super) surprised: Ticks,
}

/// What a function does next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    way: Way,
    /// Entries a second, as far as is known.
    rate: f64,
    /// The same over [`AVERAGE`], the calls that it is made of, and when it was.
    average: f64,
    calls: f64,
    averaged: f64,
    /// Ends of others a second that pass its exits while it is timed.
    passing: f64,
    /// Calls are so rare, and others pass its exits so often, that no term is paid for.
    is_hopeless: bool,
    counted: u64,
    counted_at: Ticks,
    /// When it is armed again, and when it was.
    next: Ticks,
    armed: Ticks,
    quota: u32,
    span: f64,
    /// Windows for each term, and those since the latest.
    glimpses: u32,
    glimpsed: u32,
    /// Windows in a row that were repeated.
    spoiled: u32,
    /// Its window was opened because it was found to be frequent.
    is_prompt: bool,
    /// Whether it belongs to the yardstick of [`Slowdown`], and whether it has ceased to once.
    measures: bool,
    is_unsteady: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Complete,
    Counted,
    Glimpsed,
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
            is_open: false,
            is_unfit: false,
            deviation: slowdown.cost().deviation,
            slowdown,
            glimpsed: 0.0,
            seen: 0.0,
            measured: 0.0,
            yardstick: Ticks::default(),
            restless: now,
            surprised: Ticks::default(),
        }
    }

    /// Evenly between zero and one.
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
        (self.way == Way::Glimpsed, self.measures)
    }
}

impl Conductor {
    pub(super) fn adapt(&mut self, now: Ticks, budget: f64, probes: &mut impl Probes) -> Ticks {
        for (function, armed, at) in std::mem::take(&mut self.retired) {
            let counts = counts_at_rest(&self.part(function).mode);
            let account = self.account(function);
            account.stop_timing();
            if !counts {
                // In the window before it was armed it was counted, too.
                let from = account.window().map_or(armed, |_| account.cycle_began());
                account.stop_counting(from, at);
            }
        }
        let elapsed = now.since(std::mem::replace(&mut self.adaptive.last, now)).0 as f64;
        let beginning = now.since(self.began) < self.clock.ticks(BEGINNING)
            || now.since(self.adaptive.surprised) < self.clock.ticks(SURPRISE);
        // The program does something else than before: what is hot now must not be counted, or
        // timed, until the next choice.
        let spent = std::mem::take(&mut self.adaptive.spent);
        self.adaptive.paid += spent;
        // What windows take is taken off them. To repeat those that meet many calls would prefer
        // the others.
        if spent - self.compare(elapsed) > CALM * elapsed {
            self.adaptive.restless = now;
        }
        let surge = spent > SURGE * budget * elapsed;
        // Choosing looks at every function: not at each look while windows are open.
        let chosen = now.since(self.adaptive.chosen);
        let chooses = beginning
            || surge && chosen >= self.clock.ticks(TICK)
            || chosen >= self.clock.ticks(CHOOSE);
        if chooses {
            self.choose(now, budget);
            self.choose_yardstick(now, beginning);
        }
        (self.adaptive.is_open, self.adaptive.is_unfit) = (false, false);
        for at in 1..self.functions.len() {
            if self.functions[at].lives() {
                self.attend(at, now, probes);
            } else if chooses {
                self.spare(at, budget, probes);
            }
        }
        let pause = if beginning || self.adaptive.is_open { SHORT_TICK } else { TICK };
        Ticks(now.0 + self.clock.ticks(pause).0)
    }

    /// Compares how often the yardstick is called with and without windows. Returns what counting
    /// has taken in windows since the last look.
    fn compare(&mut self, elapsed: f64) -> f64 {
        let Adaptive { slowdown, is_open, is_unfit, glimpsed, seen, measured, .. } =
            &mut self.adaptive;
        let entries = *glimpsed - std::mem::replace(seen, *glimpsed);
        let look = match (*is_unfit, *is_open) {
            (true, _) => Look::Unfit,
            (false, true) => Look::Open,
            (false, false) => Look::Closed,
        };
        slowdown.look(look, elapsed, std::mem::take(measured), entries);
        entries * self.costs.count
    }

    /// The yardstick is chosen when what is hot has been found, again when it has been in use for as
    /// long as the program had run before, and when one of its functions is not counted all the
    /// time any more.
    fn choose_yardstick(&mut self, now: Ticks, beginning: bool) {
        let Adaptive { slowdown, yardstick, deviation, .. } = &mut self.adaptive;
        let Cost { mean, deviation: known } = slowdown.cost();
        (self.costs.count, *deviation) = (mean, known);
        let mut is_other = now.since(*yardstick) >= yardstick.since(self.began);
        for life in self.functions.iter_mut().filter_map(|part| part.life.as_deref_mut()) {
            let plan = &mut life.plan;
            if plan.measures && plan.way == Way::Glimpsed {
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
            life.plan.measures = !life.plan.is_unsteady && life.plan.way != Way::Glimpsed;
        }
    }

    /// A function that was never called waits for its first call, to time it; not where others pass
    /// its exits meanwhile.
    fn spare(&mut self, at: usize, budget: f64, probes: &mut impl Probes) {
        let part = &self.functions[at];
        let waits =
            part.known && !part.resting && is_complete(&part.mode) && !part.others.is_empty();
        if waits && self.passing(at) * self.costs.skip > budget * WAITING * self.clock.hz {
            self.set(FuncId(at as u32), Mode::Count, probes);
        }
    }

    /// Looks after one function that is called: arms it when its time has come, and stops counting
    /// what has become too frequent for that.
    fn attend(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let span = self.clock.ticks(CYCLE.0);
        let part = &mut self.functions[at];
        let Some(life) = &mut part.life else { return };
        if life.plan.next == Ticks::default() {
            // Seen for the first time: its own phase.
            life.plan.span = CYCLE.0;
            let wait = (span.0 as f64 * (0.2 + self.adaptive.chance())) as u64;
            life.plan.next = Ticks(now.0 + wait);
        }
        let is_timed = !part.resting && matches!(part.mode, Mode::Sample(_));
        self.adaptive.is_unfit |= is_timed && life.plan.way == Way::Glimpsed;
        if life.plan.way == Way::Complete && !is_timed {
            life.plan.next = now;
        }
        if life.plan.way != Way::Complete && is_timed && is_complete(&part.mode) {
            // It is called too often for that by now. Calls that are open are lost.
            life.account.stop_timing();
            self.set(FuncId(at as u32), Mode::Count, probes);
            return self.attend(at, now, probes);
        }
        if is_timed && life.plan.way == Way::Counted && life.plan.is_overdue(now, self.clock.hz) {
            life.account.stop_timing();
            self.set(FuncId(at as u32), Mode::Count, probes);
            return;
        }
        if life.plan.way == Way::Glimpsed && !is_timed && counts_at_rest(&part.mode) {
            return self.glimpse(at, now, probes);
        }
        if now >= life.plan.next {
            self.arm(at, now, probes);
        }
    }

    /// Nothing is done to a glimpsed function but counting: that is its window. When it has ended a
    /// term begins, or nothing for some windows: how often a function is called changes more than
    /// how long its calls take, which the clock knows as well.
    fn glimpse(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let (span, window) = (self.clock.ticks(CYCLE.0), self.clock.ticks(WINDOW * 0.9));
        let (glimpsed, count) = (self.adaptive.glimpsed, self.costs.count);
        let Part { only_counts, counting, life, .. } = &mut self.functions[at];
        let deviation = self.adaptive.deviation.max(f64::from(counting.deviation) * count);
        let Some(Life { account, plan }) = life.as_deref_mut() else { return };
        let Some(began) = account.window() else {
            // It has just become frequent, and may be rare again soon.
            let soon = (span.0 as f64 * (0.5 + self.adaptive.chance())) as u64;
            plan.next = plan.next.min(Ticks(now.0 + soon));
            account.open_window(now, glimpsed);
            plan.is_prompt = true;
            (self.adaptive.is_open, self.adaptive.is_unfit) = (true, true);
            return;
        };
        if now.since(began) < window {
            self.adaptive.is_open = true;
            self.adaptive.is_unfit |= plan.is_prompt;
            return;
        }
        plan.is_prompt = false;
        account.close_window(now, glimpsed, count, deviation);
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
        plan.glimpsed += 1;
        if plan.glimpsed < plan.glimpses || *only_counts {
            let began = account.cycle_began();
            account.stop_counting(began, now);
            self.set(FuncId(at as u32), Mode::Off, probes);
            return;
        }
        plan.glimpsed = 0;
        self.adaptive.is_unfit = true;
        let draw = plan.draw(Rest::Off);
        self.set(FuncId(at as u32), Mode::Sample(draw), probes);
    }

    /// A function was switched, at this instant: as late as its agent had come to it.
    pub fn switched(&mut self, function: FuncId, at: Ticks) {
        let part = self.part(function);
        match (part.mode, &mut part.life) {
            (Mode::Count, Some(life)) => life.account.delay_window(at),
            (Mode::Off, Some(life)) => life.account.count_until(at),
            _ => {}
        }
    }

    /// A new cycle.
    fn arm(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let jitter = 0.5 + self.adaptive.chance();
        let clock = self.clock;
        let part = &mut self.functions[at];
        let goes_on = !part.resting && matches!(part.mode, Mode::Sample(_));
        let Some(Life { account, plan }) = part.life.as_deref_mut() else { return };
        plan.next = Ticks(now.0 + clock.ticks(plan.span * jitter).0);
        if goes_on && plan.way == Way::Glimpsed {
            // So does its cycle: without a window of its own the next would have no evidence
            // its rate by.
            return;
        }
        if plan.way == Way::Glimpsed {
            plan.learn(account.rate(now) * clock.hz);
        }
        account.turn(now);
        plan.armed = now;
        let mode = match plan.way {
            Way::Complete => Mode::Sample(Draw { quota: Draw::AMPLE, ..COMPLETELY }),
            Way::Counted if plan.is_hopeless => Mode::Count,
            Way::Counted => Mode::Sample(plan.draw(Rest::Count)),
            Way::Glimpsed => Mode::Count,
        };
        // One that still samples goes on: a new term would lose the calls that are open, and the
        // longest first.
        if !goes_on {
            match plan.way {
                Way::Complete => account.time_completely(),
                Way::Counted => {}
                Way::Glimpsed => {
                    account.open_window(now, self.adaptive.glimpsed);
                    self.adaptive.is_open = true;
                }
            }
            self.set(FuncId(at as u32), mode, probes);
        }
    }

    /// Gives every function a way of life, by what it costs.
    fn choose(&mut self, now: Ticks, budget: f64) {
        let hz = self.clock.hz;
        self.adaptive.chosen = now;
        let thrift = self.thrift(now, budget);
        let (ticks, costs) = (budget * hz, self.costs);
        let trifle = self.clock.ticks(TRIFLE).0 as f64;
        let mut order: Vec<Candidate> = Vec::new();
        for (at, part) in self.functions.iter_mut().enumerate().skip(1) {
            // What was seen of it before it had probes is nothing.
            let began = Ticks(self.began.0 + part.unseen.0);
            let firm = if part.was_running { SHORT_TICK } else { FIRM };
            if part.lives()
                && let Some(Life { account, plan }) = part.life.as_deref_mut()
            {
                plan.count(account.entries, began, now, hz, firm);
                let is_long = account.mean(&costs).is_some_and(|mean| mean.value >= LONG_CALL * hz);
                // What is not seen at the moment becomes part of the calls when the cycle ends.
                let unseen = if plan.way == Way::Glimpsed {
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
        let (complete, left) = self.time_completely(&order, ticks * COMPLETE * thrift);
        order.sort_by(|a, b| a.counting().total_cmp(&b.counting()));
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
                Way::Glimpsed
            };
        }
        let unspent = (left + counting) * UNSPENT;
        self.pace(&sampled, ticks * TERMS + unspent);
    }

    /// The part of what may be spent that is given out: less, if more was spent than was foreseen.
    fn thrift(&mut self, now: Ticks, budget: f64) -> f64 {
        let Adaptive { thrift, thrifty, paid, .. } = &mut self.adaptive;
        if now.since(self.began) < self.clock.ticks(BEGINNING) {
            // What is hot has to be found first.
            (*thrifty, *paid) = (now, 0.0);
        }
        let elapsed = now.since(*thrifty);
        // Choices that a surge has brought about come too soon to count.
        if elapsed >= self.clock.ticks(CHOOSE) {
            let foreseen = budget * (COMPLETE + COUNTING + TERMS) * elapsed.0 as f64;
            *thrift = (*thrift * if *paid > foreseen { 0.85 } else { 1.15 }).clamp(0.3, 1.0);
            (*thrifty, *paid) = (now, 0.0);
        }
        *thrift
    }

    /// Which functions are timed completely, of those in the order of what it costs: first long
    /// ones, then all, the cheapest first, as long as it is paid for; and what is left.
    fn time_completely(&self, order: &[Candidate], ticks: f64) -> (Vec<bool>, f64) {
        let mut chosen = vec![false; self.functions.len()];
        let mut left = ticks;
        for (only_long, kept) in [(true, ticks * (1.0 - LONG)), (false, 0.0)] {
            let can_be = |at: usize| !self.functions[at].only_counts;
            let order = order.iter().filter(|candidate| can_be(candidate.at));
            for candidate in order.filter(|candidate| candidate.is_long || !only_long) {
                let cost = candidate.cost(&self.costs);
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

    /// How often a second ends of other functions pass the exits of this one.
    fn passing(&self, at: usize) -> f64 {
        let rate = |other: &FuncId| {
            self.functions.get(other.0 as usize)?.life.as_ref().map(|life| life.plan.rate)
        };
        self.functions[at].others.iter().filter_map(rate).sum()
    }

    /// How long cycles are, so that terms and windows are paid for.
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
            // Calls that differ much need more; but not at the price of longer cycles.
            let cost = plan.term_cost(&costs);
            let affordable = (share * CYCLE.0 - costs.toggle).max(0.0) / cost.max(1.0);
            let least = if plan.is_passed() { 1.0 } else { least };
            let quota = (QUOTA.0 * variation).min(affordable).clamp(least, most);
            plan.quota = quota as u32;
            let window = if plan.way == Way::Glimpsed {
                plan.rate * WINDOW * weight * costs.count
            } else {
                0.0
            };
            let term = if part.only_counts { 0.0 } else { quota * cost };
            let window = window + costs.toggle * sites_factor(part.sites);
            let glimpses = (WINDOWS * term / window).clamp(1.0, GLIMPSES).floor();
            plan.glimpses = if plan.way == Way::Glimpsed { glimpses as u32 } else { 1 };
            let by_terms = (term / f64::from(plan.glimpses) + window) / share;
            plan.span = by_terms.clamp(CYCLE.0, CYCLE.1);
            plan.is_hopeless = plan.is_passed() && by_terms > CYCLE.1;
        }
    }
}

impl Part {
    /// Whether it is ours to look after: it was discovered, and entered.
    fn lives(&self) -> bool {
        self.known && self.life.as_ref().is_some_and(|life| life.account.entries > 0)
    }
}

/// Whether a function that rests in this mode is counted.
fn counts_at_rest(mode: &Mode) -> bool {
    matches!(mode, Mode::Count | Mode::Sample(Draw { then: Rest::Count, .. }))
}

/// Whether all calls are timed in this mode.
fn is_complete(mode: &Mode) -> bool {
    matches!(mode, Mode::Sample(Draw { skip: Skip::None, .. }))
}

/// A function that a way of life is to be chosen for.
struct Candidate {
    at: usize,
    rate: f64,
    average: f64,
    /// What counting an entry takes, in times of what it usually takes.
    weight: f64,
    /// Ends of others a second that pass its exits while it is timed.
    passing: f64,
    is_long: bool,
}

impl Candidate {
    /// What counting costs a second, in entries of the usual cost: what comes in bursts costs no
    /// more than it does on average.
    fn counting(&self) -> f64 {
        self.rate.min(self.average) * self.weight
    }

    /// What it costs a second to time it completely.
    fn cost(&self, costs: &Costs) -> f64 {
        self.rate * (costs.pair + 2.0) + self.passing * costs.skip
    }
}

/// A function with many sites costs more to switch.
fn sites_factor(sites: u32) -> f64 {
    (f64::from(sites) / 2.0).clamp(1.0, 50.0)
}

impl Plan {
    /// A term of this function.
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

    /// Whether a term costs less the shorter it is: others that are more frequent pass its exits
    /// all the while.
    fn is_passed(&self) -> bool {
        self.passing > self.rate
    }

    /// Whether a term that others pass lasts longer than it may: the function has ceased to be
    /// called.
    fn is_overdue(&self, now: Ticks, hz: f64) -> bool {
        let expected = f64::from(self.quota) / self.rate * hz;
        self.is_passed()
            && (self.is_hopeless || now.since(self.armed).0 as f64 > PATIENCE * expected)
    }

    /// How many calls are left out before one that is timed.
    fn skip(&self) -> f64 {
        (self.rate * TERM / QUOTA.0).clamp(SKIP.0, SKIP.1)
    }

    /// What timing a call costs, with those that are left out before it, and with the others that
    /// pass meanwhile.
    fn term_cost(&self, costs: &Costs) -> f64 {
        let skip = if self.is_passed() { 0.0 } else { self.skip() };
        let passing = (skip + 1.0) * self.passing / self.rate.max(1.0);
        costs.pair + (skip + passing) * costs.skip
    }

    /// Learns how often it was called on average, `seconds` after the beginning.
    fn average_over(&mut self, calls: f64, seconds: f64, firm: f64) {
        let span = seconds - self.averaged;
        if span < firm {
            // At the beginning a burst cannot be distinguished from what lasts.
            self.average = if self.averaged > 0.0 { self.average } else { f64::INFINITY };
            return;
        }
        let recent = (calls - self.calls).max(0.0) / span;
        let known = if self.averaged > 0.0 { self.average } else { recent };
        let part = (span / seconds.min(AVERAGE)).min(1.0);
        (self.average, self.calls, self.averaged) =
            (known + (recent - known) * part, calls, seconds);
    }

    /// Learns the rate of a function whose entries are counted all the time, from `began` on. What
    /// was seen in a time shorter than `firm` says little.
    fn count(&mut self, entries: u64, began: Ticks, now: Ticks, hz: f64, firm: f64) {
        let age = now.since(began).0 as f64 / hz;
        if self.way != Way::Glimpsed && age < BEGINNING {
            self.rate = entries as f64 / (age + firm);
        } else if self.way != Way::Glimpsed {
            let span = now.since(self.counted_at.max(began)).0 as f64 / hz;
            self.learn((entries - self.counted) as f64 / span.max(firm));
        }
        (self.counted, self.counted_at) = (entries, now);
    }

    /// A rate that has grown much is believed at once.
    fn learn(&mut self, rate: f64) {
        let jumps = self.rate == 0.0 || rate > 4.0 * self.rate;
        self.rate = if jumps { rate } else { MEMORY * self.rate + (1.0 - MEMORY) * rate };
    }
}
