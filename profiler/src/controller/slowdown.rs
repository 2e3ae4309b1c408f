//! The cost of counting an entry, measured in the program.
//!
//! Back to back, each addition waits for the one before. In a program it overlaps with other work,
//! or competes with it: its cost was a third of the back-to-back cost in one program, and three
//! quarters in another. The *yardstick* is the set of functions whose entries are counted all the
//! time. Its rate of calls while windows are open is compared with its rate while none is open. The
//! difference is the time that the entries counted in the windows took (a ratio estimate; Cochran
//! 1977, *Sampling Techniques*, chapter 6).
//!
//! A few windows are weak evidence, since programs have phases. So the measured cost and the usual
//! cost of other programs are averaged, each weighted by its inverse variance.
//!
//! Sums are kept for as long as the yardstick stays the same. When it changes, only the time that
//! was lost in its windows is kept and added up.

/// The uncertainty of the cost in a program in which nothing was measured: a standard deviation,
/// relative to the cost.
const UNKNOWN: f64 = 0.25;
/// The bounds of the result, as multiples of the usual cost.
const POSSIBLE: (f64, f64) = (0.2, 2.5);
/// A comparison with fewer stretches (uninterrupted spans with or without windows) of a kind is
/// ignored.
const FEW: f64 = 4.0;
/// So is one in which the yardstick was called fewer times while no window was open.
const RARE: f64 = 100.0;

/// The state of the time since the controller's previous look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A window was open.
    Open,
    /// No window was open.
    Closed,
    /// The span cannot be used: calls of frequent functions were timed, whose cost is not known
    /// well enough; or a window was opened because its function was found to be frequent, and not
    /// at a random time.
    Unfit,
}

/// The cost of counting an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Its mean, in ticks.
    pub(super) mean: f64,
    /// Its standard deviation.
    pub(super) deviation: f64,
}

/// The comparison.
#[derive(Debug)]
pub(super) struct Slowdown {
    usual: f64,
    /// The length of a stretch without windows, in ticks of work.
    stretch: f64,
    now: Comparison,
    before: Lost,
}

impl Slowdown {
    pub(super) fn new(usual: f64, stretch: f64) -> Self {
        Self { usual, stretch, now: Comparison::default(), before: Lost::default() }
    }

    /// Records the time since the last look: the ticks of work in it, the calls of the yardstick,
    /// and the entries that were counted in windows.
    pub(super) fn look(&mut self, look: Look, work: f64, called: f64, entries: f64) {
        let Comparison { open, closed, entries: all } = &mut self.now;
        match look {
            Look::Open => {
                closed.end();
                open.add(work, called);
                *all += entries;
            }
            Look::Closed => {
                open.end();
                closed.add(work, called);
                if closed.stretch.0 >= self.stretch {
                    closed.end();
                }
            }
            Look::Unfit => {
                open.end();
                closed.end();
            }
        }
    }

    /// Starts a new comparison, as the yardstick has changed.
    pub(super) fn restart(&mut self) {
        self.before = self.before.plus(std::mem::take(&mut self.now).lost());
    }

    /// The best estimate of the cost of counting.
    pub(super) fn cost(&self) -> Cost {
        let known = self.before.plus(self.now.clone().lost());
        let usual = (self.usual, (UNKNOWN * self.usual).powi(2));
        let (mean, variance) = match known.entries > 0.0 && known.variance > 0.0 && usual.1 > 0.0 {
            true => {
                let seen =
                    (known.work / known.entries, known.variance / (known.entries * known.entries));
                let (of_usual, of_seen) = (1.0 / usual.1, 1.0 / seen.1);
                let both = of_usual + of_seen;
                ((usual.0 * of_usual + seen.0 * of_seen) / both, 1.0 / both)
            }
            false => usual,
        };
        let (least, most) = POSSIBLE;
        let mean = mean.clamp(least * self.usual, most * self.usual);
        Cost { mean, deviation: variance.sqrt() }
    }
}

/// The time that windows lost, compared with the time around them.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    work: f64,
    variance: f64,
    entries: f64,
}

impl Lost {
    fn plus(self, other: Self) -> Self {
        Self {
            work: self.work + other.work,
            variance: self.variance + other.variance,
            entries: self.entries + other.entries,
        }
    }
}

/// The sums for one yardstick.
#[derive(Clone, Debug, Default)]
struct Comparison {
    open: Stretches,
    closed: Stretches,
    entries: f64,
}

impl Comparison {
    fn lost(mut self) -> Lost {
        self.open.end();
        self.closed.end();
        let (open, closed) = (&self.open, &self.closed);
        if open.number < FEW || closed.number < FEW || closed.called < RARE || open.called <= 0.0 {
            return Lost::default();
        }
        let pace = closed.called / closed.work;
        let expected = open.called / pace;
        let relative2 = open.relative_variance() + closed.relative_variance();
        Lost {
            work: open.work - expected,
            variance: expected * expected * relative2,
            entries: self.entries,
        }
    }
}

/// Stretches of one kind, between those of others.
#[derive(Clone, Debug, Default)]
struct Stretches {
    number: f64,
    work: f64,
    called: f64,
    /// The sums of squares and products.
    work2: f64,
    product: f64,
    called2: f64,
    /// The stretch that has not ended: its work, and the calls in it.
    stretch: (f64, f64),
}

impl Stretches {
    fn add(&mut self, work: f64, called: f64) {
        self.stretch.0 += work;
        self.stretch.1 += called;
    }

    fn end(&mut self) {
        let (work, called) = std::mem::take(&mut self.stretch);
        if work > 0.0 {
            self.number += 1.0;
            self.work += work;
            self.called += called;
            self.work2 += work * work;
            self.product += work * called;
            self.called2 += called * called;
        }
    }

    /// The relative variance of the ratio of calls to work.
    fn relative_variance(&self) -> f64 {
        let ratio = self.called / self.work;
        let squares = self.called2 - 2.0 * ratio * self.product + ratio * ratio * self.work2;
        let of_calls = squares.max(self.called) * self.number / (self.number - 1.0);
        of_calls / (self.called * self.called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: f64 = 2.0;

    /// A program whose yardstick is called every 100 ticks of its own work, and another function
    /// every 10, each counted entry of which takes `cost`. With phases, all functions are called
    /// half as often in some of them, and one and a half times as often in others.
    fn measured(cost: f64, windows: usize, phases: bool) -> Cost {
        let mut slowdown = Slowdown::new(USUAL, 50_000.0);
        let mut random = 1u64;
        let mut part = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 40) as f64 / (1u64 << 24) as f64
        };
        for _ in 0..windows {
            for (look, looks, speed) in
                [(Look::Open, 3, cost), (Look::Unfit, 1, 9.0), (Look::Closed, 20, 0.0)]
            {
                let busy = if phases { 0.5 + part() } else { 0.95 + 0.1 * part() };
                for _ in 0..looks {
                    let (own, entries) = (10_000.0, 1_000.0 * busy);
                    slowdown.look(look, own + entries * speed, own / 100.0 * busy, entries);
                }
            }
        }
        slowdown.cost()
    }

    #[test]
    fn without_windows_the_usual_cost_is_all_that_is_known() {
        let cost = measured(5.0, 0, false);
        assert_eq!((cost.mean, cost.deviation), (USUAL, UNKNOWN * USUAL));
        assert_eq!(measured(4.0, 3, false), cost, "three windows are too few");
    }

    #[test]
    fn many_windows_show_what_counting_takes() {
        for (truth, phases, windows) in [
            (0.5, false, 50),
            (2.0, false, 50),
            (4.0, false, 50),
            (4.0, true, 4_000),
            (1.0, true, 4_000),
        ] {
            let Cost { mean, deviation } = measured(truth, windows, phases);
            assert!((mean - truth).abs() < 3.0 * deviation, "{mean} ± {deviation} of {truth}");
            assert!(deviation < 0.25, "{deviation}");
        }
    }

    #[test]
    fn a_few_windows_that_meet_phases_hardly_move_it() {
        let cost = measured(3.0, 6, true);
        assert!(cost.deviation > 0.5 * UNKNOWN * USUAL, "{cost:?}");
        assert!((USUAL..3.0).contains(&cost.mean), "{cost:?}");
    }

    #[test]
    fn what_was_lost_stays_known_when_the_yardstick_changes() {
        let mut slowdown = Slowdown::new(USUAL, 50_000.0);
        for round in 0..60 {
            if round % 15 == 0 {
                slowdown.restart();
            }
            // Another yardstick is called half as often.
            let pace = if round < 30 { 100.0 } else { 200.0 };
            slowdown.look(Look::Open, 10_000.0 + 1_000.0 * 4.0, 10_000.0 / pace, 1_000.0);
            slowdown.look(Look::Closed, 60_000.0, 60_000.0 / pace, 0.0);
        }
        let Cost { mean, deviation } = slowdown.cost();
        assert!((mean - 4.0).abs() < 3.0 * deviation && deviation < 0.5, "{mean} ± {deviation}");
    }

    #[test]
    fn a_yardstick_that_is_never_called_says_nothing() {
        let mut slowdown = Slowdown::new(USUAL, 50_000.0);
        for _ in 0..100 {
            slowdown.look(Look::Open, 10_000.0, 0.0, 1_000.0);
            slowdown.look(Look::Closed, 60_000.0, 0.0, 0.0);
        }
        assert_eq!(slowdown.cost(), Cost { mean: USUAL, deviation: UNKNOWN * USUAL });
    }
}
