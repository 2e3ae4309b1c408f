//! The adaptive policy: as much as a budget allows.
//!
//! A function is in one of three ways of life, chosen anew a few times a second by how often it is called:
//!
//! | way | its calls are | its entries are | who |
//! |---|---|---|---|
//! | complete | all timed | counted | those that are called rarely, as long as a part of the budget pays for it |
//! | counted | timed in terms of some calls, drawn by chance | counted | those behind them, as long as another part pays |
//! | glimpsed | timed in terms | counted until a term's end | the most frequent ones |
//!
//! Each function has armings of its own, at distances that vary by chance: at a common beginning parents would be timed while
//! all that they call is timed too, and every first call after a pause would be taken. Within a term calls are drawn in the number of
//! calls, not in time, for the same reason.

use super::{Conductor, Life, Part};
use crate::mode::{Draw, Mode, Probes, Rest, Skip};
use crate::{Costs, FuncId, Ticks};

/// The first term, and every term of a function that is timed completely: what is called fewer times is.
pub(super) const FIRST: Mode = Mode::Sample(COMPLETELY);
const COMPLETELY: Draw = Draw { quota: 64, skip: Skip::None, then: Rest::Count };

/// Parts of the budget: complete timing, counting, terms.
const COMPLETE: f64 = 0.2;
const COUNTING: f64 = 0.45;
const TERMS: f64 = 0.35;

/// How long the term of a function is that is called often, in seconds: so much more calls are left out. It is also the window that the
/// rate of a glimpsed function is known by, and calls that follow each other are alike.
const TERM: f64 = 0.001;
/// Calls left out on average before one that is timed: at least, at most.
const SKIP: (f64, f64) = (10.0, 3000.0);
/// Calls to time in a term: at least, and for functions whose calls differ much.
const QUOTA: (f64, f64) = (10.0, 64.0);
/// Between two looks, in seconds.
const TICK: f64 = 0.010;
/// From one arming to the next, in seconds: at least, at most.
const CYCLE: (f64, f64) = (0.020, 5.0);
/// Between two choices of ways of life; and for how long they are made anew at every tick at the beginning, when what is hot has
/// to be found before it costs.
const CHOOSE: f64 = 0.1;
const BEGINNING: f64 = 0.05;
/// What was seen in a shorter time says little of a rate: many functions are called often for a moment and then never again, and those
/// cost little.
const FIRM: f64 = 0.02;
/// A choice is made at once when counting has taken more than this many budgets since the last look.
const SURGE: f64 = 1.0;
/// Between two looks in the beginning, in seconds.
const SHORT_TICK: f64 = 0.001;
/// Who is called more often than this in a cycle is not timed completely: its quota would be used up in each.
const COMPLETE_CALLS: f64 = 48.0;
/// How much of what was known of a rate is kept at a choice.
const MEMORY: f64 = 0.5;

/// Chance, and the state that all functions share.
#[derive(Debug)]
pub(super) struct Adaptive {
    random: u64,
    chosen: Ticks,
    last: Ticks,
    /// Entries that were counted since then.
    pub(super) recent: u64,
    /// Processors that the program keeps busy.
    processors: f64,
}

/// What a function does next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    way: Way,
    /// Entries a second, as far as is known.
    rate: f64,
    counted: u64,
    counted_at: Ticks,
    /// When it is armed again.
    next: Ticks,
    quota: u32,
    span: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Complete,
    Counted,
    Glimpsed,
}

impl Adaptive {
    pub(super) fn new(seed: u64, now: Ticks) -> Self {
        Self { random: seed ^ 0x9e37_79b9_7f4a_7c15, chosen: now, last: now, recent: 0, processors: 1.0 }
    }

    /// Evenly between zero and one.
    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Conductor {
    pub(super) fn adapt(&mut self, now: Ticks, cpu: Ticks, budget: f64, probes: &mut impl Probes) -> Ticks {
        for (function, armed, at) in std::mem::take(&mut self.retired) {
            if matches!(self.part(function).mode, Mode::Sample(Draw { then: Rest::Off, .. })) {
                self.account(function).stop_counting(armed, at);
            }
        }
        let wall = now.since(self.adaptive.last).0 as f64;
        self.adaptive.last = now;
        if wall > 0.0 {
            let busy = cpu.0 as f64 / wall;
            self.adaptive.processors += 0.3 * (busy - self.adaptive.processors);
        }
        let beginning = now.since(self.began) < self.clock.ticks(BEGINNING);
        // The program does something else than before: what is hot now must not be counted until the next choice.
        let counting = std::mem::take(&mut self.adaptive.recent) as f64 * self.costs.count;
        let surge = counting > SURGE * budget * self.adaptive.processors.max(0.05) * wall;
        if beginning || surge || now.since(self.adaptive.chosen) >= self.clock.ticks(CHOOSE) {
            self.choose(now, budget);
        }
        let next = Ticks(now.0 + self.clock.ticks(if beginning { SHORT_TICK } else { TICK }).0);
        for at in 1..self.functions.len() {
            if self.functions[at].lives() {
                self.attend(at, now, probes);
            }
        }
        next
    }

    /// Looks after one function that is called: arms it when its time has come, and stops counting what has become too frequent for that.
    fn attend(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let (span, half_a_tick) = (self.clock.ticks(CYCLE.0), self.clock.ticks(TICK / 2.0));
        let part = &mut self.functions[at];
        let Some(life) = &mut part.life else { return };
        if life.plan.next == Ticks::default() {
            // Seen for the first time: its own phase.
            life.plan.span = CYCLE.0;
            let wait = (span.0 as f64 * (0.2 + self.adaptive.chance())) as u64;
            life.plan.next = Ticks(now.0 + wait);
        }
        if life.plan.way == Way::Glimpsed && part.resting && counts_at_rest(&part.mode) {
            let began = life.account.cycle_began();
            life.account.stop_counting(began, now);
            // What has just become frequent may be over soon.
            let soon = (span.0 as f64 * (0.5 + self.adaptive.chance())) as u64;
            life.plan.next = Ticks(now.0 + soon);
            self.set(FuncId(at as u32), Mode::Off, probes);
            return;
        }
        if life.plan.way == Way::Glimpsed && !part.resting && now.since(life.account.cycle_began()) >= half_a_tick {
            life.account.end_window(now);
        }
        if now >= life.plan.next {
            self.arm(at, now, probes);
        }
    }

    /// A new cycle.
    fn arm(&mut self, at: usize, now: Ticks, probes: &mut impl Probes) {
        let jitter = 0.5 + self.adaptive.chance();
        let (clock, costs) = (self.clock, self.costs);
        let part = &mut self.functions[at];
        let Some(Life { account, plan }) = part.life.as_deref_mut() else { return };
        if plan.way == Way::Glimpsed {
            plan.learn(account.rate(now, &costs) * clock.hz);
        }
        account.turn(now, &costs);
        plan.next = Ticks(now.0 + clock.ticks(plan.span * jitter).0);
        let draw = match plan.way {
            Way::Complete => COMPLETELY,
            Way::Counted | Way::Glimpsed => {
                let then = if plan.way == Way::Glimpsed { Rest::Off } else { Rest::Count };
                let skip = Skip::Geometric { mean: skip(plan.rate) };
                Draw { quota: plan.quota.max(QUOTA.0 as u32), skip, then }
            }
        };
        // One that still samples goes on: a new term would lose the calls that are open, and the longest first.
        if part.resting || !matches!(part.mode, Mode::Sample(_)) {
            self.set(FuncId(at as u32), Mode::Sample(draw), probes);
        }
    }

    /// Gives every function a way of life, by what it costs.
    fn choose(&mut self, now: Ticks, budget: f64) {
        self.adaptive.chosen = now;
        let hz = self.clock.hz;
        let ticks = budget * self.adaptive.processors.clamp(0.05, 1024.0) * hz;
        let began = self.began;
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (at, part) in self.functions.iter_mut().enumerate().skip(1) {
            if part.lives()
                && let Some(Life { account, plan }) = part.life.as_deref_mut()
            {
                plan.count(account.entries, began, now, hz);
                order.push((plan.rate, at));
            }
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut complete, mut counting) = (ticks * COMPLETE, ticks * COUNTING);
        let mut sampled = Vec::new();
        for (rate, at) in order {
            let Some(life) = &mut self.functions[at].life else { continue };
            let (timing, counted) = (rate * (self.costs.pair + 2.0), rate * self.costs.count);
            life.plan.way = if timing <= complete && rate * CYCLE.0 <= COMPLETE_CALLS {
                complete -= timing;
                Way::Complete
            } else if counted <= counting {
                complete = 0.0;
                counting -= counted;
                sampled.push(at);
                Way::Counted
            } else {
                (complete, counting) = (0.0, 0.0);
                sampled.push(at);
                Way::Glimpsed
            };
        }
        self.pace(&sampled, ticks);
    }

    /// How long cycles are, so that terms are paid for.
    fn pace(&mut self, sampled: &[usize], ticks: f64) {
        if sampled.is_empty() {
            return;
        }
        let costs = self.costs;
        let share = ticks * TERMS / sampled.len() as f64;
        for &at in sampled {
            let part = &mut self.functions[at];
            let Some(Life { account, plan }) = part.life.as_deref_mut() else { continue };
            let variation = account.variation().clamp(0.25, 16.0);
            let (least, most) = QUOTA;
            // Calls that differ much need more; but not at the price of longer cycles.
            let affordable = (share * CYCLE.0 - costs.toggle).max(0.0) / term_cost(&costs, plan.rate).max(1.0);
            let quota = (least * variation).min(affordable).clamp(least, most);
            plan.quota = quota as u32;
            let by_terms = (quota * term_cost(&costs, plan.rate) + costs.toggle * sites_factor(part.sites)) / share;
            plan.span = by_terms.clamp(CYCLE.0, CYCLE.1);
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

/// How many calls are left out before one that is timed.
fn skip(rate: f64) -> f64 {
    (rate * TERM / QUOTA.0).clamp(SKIP.0, SKIP.1)
}

/// What timing a call costs, with those that are left out before it.
fn term_cost(costs: &Costs, rate: f64) -> f64 {
    costs.pair + skip(rate) * costs.skip
}

/// A function with many sites costs more to switch.
fn sites_factor(sites: u32) -> f64 {
    (f64::from(sites) / 2.0).clamp(1.0, 50.0)
}

impl Plan {
    /// Learns the rate of a function whose entries are counted all the time.
    fn count(&mut self, entries: u64, began: Ticks, now: Ticks, hz: f64) {
        let age = now.since(began).0 as f64 / hz;
        if self.way != Way::Glimpsed && age < BEGINNING {
            self.rate = entries as f64 / (age + FIRM);
        } else if self.way != Way::Glimpsed {
            let span = now.since(self.counted_at.max(began)).0 as f64 / hz;
            self.learn((entries - self.counted) as f64 / span.max(FIRM));
        }
        (self.counted, self.counted_at) = (entries, now);
    }

    /// A rate that has grown much is believed at once.
    fn learn(&mut self, rate: f64) {
        let jumps = self.rate == 0.0 || rate > 4.0 * self.rate;
        self.rate = if jumps { rate } else { MEMORY * self.rate + (1.0 - MEMORY) * rate };
    }
}
