//! Entries that were not counted: estimated from the rates of a function's cycles, with the
//! variance that the changes of these rates show.

use super::{Account, Cycle};
use crate::Ticks;

/// Entries that no probe counted: estimated from the rate in the window of their cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Unseen {
    pub(super) entries: f64,
    pub(super) cycles: usize,
    /// The rate of the latest cycle, and the time for which entries were not counted in it.
    pub(super) latest: Option<(f64, f64)>,
    pub(super) rates: f64,
    /// The sum of the squared differences between a cycle's entries at its own rate and at the next
    /// cycle's; and the same sum for the rates alone.
    pub(super) steps2: f64,
    pub(super) changes2: f64,
    /// The sum of the squares of the uncounted times of the cycles in `steps2`.
    pub(super) hidden2: f64,
    /// The time for which entries were counted, in all cycles, and the time for which they were
    /// not.
    pub(super) watched: f64,
    pub(super) hidden: f64,
}

impl Unseen {
    /// The rate of the latest cycle, or the mean of all.
    pub(super) fn usual_rate(&self) -> f64 {
        self.latest.map_or_else(|| self.rates / self.cycles.max(1) as f64, |(rate, _)| rate)
    }

    /// Ends a cycle with this rate of calls. Returns the number of calls that were not counted.
    pub(super) fn end_cycle(&mut self, cycle: &Cycle, rate: f64, now: Ticks) -> f64 {
        // Between two windows the rate is assumed to change linearly.
        if let Some((before, hidden)) = self.latest.take() {
            self.entries += (rate - before) / 2.0 * hidden;
            self.changes2 += (rate - before).powi(2);
            self.steps2 += ((rate - before) * hidden).powi(2);
            self.hidden2 += hidden * hidden;
        }
        let whole = now.since(cycle.began).0 as f64;
        let Some((from, until)) = cycle.counted else {
            self.watched += whole;
            return 0.0;
        };
        let watched = (until.since(from).0 as f64).min(whole);
        let hidden = whole - watched;
        self.watched += watched;
        self.hidden += hidden;
        self.entries += rate * hidden;
        self.latest = Some((rate, hidden));
        self.cycles += 1;
        self.rates += rate;
        rate * hidden
    }

    /// How much its rate has changed from one window to the next.
    pub(super) fn changes(&self) -> Changes {
        let mean = self.rates / self.cycles.max(1) as f64;
        if self.cycles < 2 || mean <= 0.0 {
            return Changes::default();
        }
        Changes { squares: self.changes2 / (mean * mean), count: (self.cycles - 1) as f64 }
    }

    /// The variance of the entries that were not counted, from the differences between the rates of
    /// successive windows (Wolter 2007, *Introduction to Variance Estimation*, chapter 8): windows
    /// are spread over a program's phases, and a phase that lasts for many windows is known except
    /// for its two ends. Also returns the number of differences that it is based on.
    pub(super) fn variance(&self, all: &Changes) -> (f64, f64) {
        let (rate, hidden) = self.latest.unwrap_or_default();
        let own = self.changes();
        if own.count == 0.0 {
            return (self.steps2 / 2.0 + (rate * hidden).powi(2), 1.0);
        }
        // Two or three windows of a function are weak evidence of how much its rate changes.
        let (expected, weight) = all.without(&own).expected();
        let expected2 = expected * (self.rates / self.cycles as f64).powi(2);
        let known = own.count + weight;
        let change2 = (self.changes2 + weight * expected2) / known;
        let steps2 = (own.count * self.steps2 + weight * expected2 * self.hidden2) / known;
        // The rate after the last window may have changed as it did between the others.
        (steps2 / 2.0 + change2 * hidden * hidden, known)
    }
}

/// How much the rates of functions change from one window to the next, relative to their means.
///
/// A variance from few values is moderated by those of the program's other functions (Smyth 2004,
/// *Linear models and empirical Bayes methods*): phases are the whole program's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    /// The sum of their squares, and their number.
    pub(super) squares: f64,
    pub(super) count: f64,
}

impl Changes {
    /// The evidence of other functions weighs as much as this many changes of the function itself,
    /// at most.
    const MOST: f64 = 4.0;

    /// The changes of all functions, until now.
    pub(crate) fn of<'a>(accounts: impl Iterator<Item = &'a Account>, now: Ticks) -> Self {
        accounts.map(|account| account.changes(now)).sum()
    }

    fn without(&self, one: &Self) -> Self {
        let count = (self.count - one.count).max(0.0);
        Self { squares: (self.squares - one.squares).max(0.0), count }
    }

    /// The mean square, and its weight in changes of the function itself.
    fn expected(&self) -> (f64, f64) {
        (self.squares / self.count.max(1.0), self.count.min(Self::MOST))
    }
}

impl std::iter::Sum for Changes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            squares: sum.squares + one.squares,
            count: sum.count + one.count,
        })
    }
}
