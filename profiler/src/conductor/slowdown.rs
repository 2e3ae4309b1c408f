//! What counting an entry takes, measured in the program.
//!
//! Back to back, each addition waits for the one before. In a program it hides behind other work,
//! or takes its place: of what it takes back to back a third was seen in one program, and three
//! quarters in another. So it is compared how often the *yardstick*, functions whose entries are
//! counted all the time, is called while windows are open, and while none is: what is missing, the
//! entries in the windows have taken (a ratio estimate; Cochran 1977, *Sampling Techniques*,
//! chapter 6).
//!
//! A few windows say little, since programs have phases. So they are weighed against what is known
//! of other programs, each by its variance.
//!
//! Sums are kept for as long as the yardstick stays the same. Of each such time remains how much
//! its windows have lost, which adds up.

/// How far the cost is known of a program that nothing was measured in: a standard deviation, as a
/// part of the cost.
const UNKNOWN: f64 = 0.25;
/// The cost that may come out, as multiples of the usual one.
const POSSIBLE: (f64, f64) = (0.2, 2.5);
/// A time with fewer stretches of a kind says nothing.
const FEW: f64 = 4.0;
/// Nor one in which the yardstick was called less often while no window was open.
const RARE: f64 = 100.0;

/// What a look of the controller looks back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A window was open.
    Open,
    /// None was.
    Closed,
    /// Calls of frequent functions were timed, and what that takes is not known well enough; or a
    /// window was opened because its function was found to be frequent, and not by chance.
    Unfit,
}

/// What counting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// In ticks.
    pub(super) mean: f64,
    /// Its standard deviation.
    pub(super) deviation: f64,
}

/// The comparison.
#[derive(Debug)]
pub(super) struct Slowdown {
    usual: f64,
    /// How long a stretch without windows is, in ticks of work.
    stretch: f64,
    now: Comparison,
    before: Lost,
}

impl Slowdown {
    pub(super) fn new(usual: f64, stretch: f64) -> Self {
        Self { usual, stretch, now: Comparison::default(), before: Lost::default() }
    }

    /// So much work was done since the last look, in which the yardstick was called so often, and
    /// so many entries were counted in windows.
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

    /// The yardstick is another from now on.
    pub(super) fn restart(&mut self) {
        self.before = self.before.plus(std::mem::take(&mut self.now).lost());
    }

    /// What counting takes, as far as is known.
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

/// What windows have lost against the time around them.
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

/// With one yardstick.
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
    /// Sums of squares and products.
    work2: f64,
    product: f64,
    called2: f64,
    /// The one that has not ended: its work, and the calls in it.
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

    /// Of the ratio of calls to work, relative to it.
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
    /// every 10, each counted entry of which takes so much; with phases, in which everything is
    /// called half as often, or one and a half times.
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
