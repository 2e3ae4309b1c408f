//! The null: the measured time of an empty call, in place of a call that is timed.
//!
//! Back to back it is shorter than in a program, where the stub's cache lines are cold and its
//! branches are seldom taken. The difference depends on how many calls are skipped between two that
//! are timed. So the stubs occasionally time an empty call in place of a selected call, on the
//! program's own threads. The median of these readings is subtracted from each call that was timed
//! in this way; half of their interquartile range is added to the interval of means.
//!
//! Readings have two levels: about one in four is longer than the others by a hundred nanoseconds
//! and more, and their share differs between functions. So a percentile counts as no longer than an
//! empty call unless nine readings in ten are shorter.

use crate::Costs;
use crate::histogram::{Histogram, bucket};

/// The least number of readings that have a reliable median: one in four is 300 ticks longer than
/// the others.
const ENOUGH: u32 = 9;
/// The number of readings from which on a mean number of skipped calls has its own null.
const MANY: u32 = 25;

/// The difference of a null in place from one that is timed back to back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Null {
    /// The excess, in ticks.
    pub(crate) excess: f64,
    /// The uncertainty of the excess.
    pub(crate) spread: f64,
    /// The distance from the median that one reading in ten exceeds.
    tail: f64,
}

/// Readings: all, and by the mean number of calls that are skipped before one is timed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nulls {
    all: Readings,
    kinds: Vec<(f64, Readings)>,
}

#[derive(Clone, Debug, Default)]
struct Readings {
    count: u32,
    readings: Histogram,
    null: Null,
}

impl Nulls {
    /// Adds a null that was timed where `skip` calls are skipped on average.
    pub(crate) fn add(&mut self, skip: f64, ticks: u64, costs: &Costs) {
        let skip = alike(skip);
        let at = self.kinds.iter().position(|kind| kind.0 == skip).unwrap_or_else(|| {
            self.kinds.push((skip, Readings::default()));
            self.kinds.len() - 1
        });
        self.kinds[at].1.add(ticks, costs);
        self.all.add(ticks, costs);
    }

    /// The null of calls that are timed with `skip` skipped ones: from the nearest number that has
    /// enough readings, otherwise from all readings.
    pub(crate) fn at(&self, skip: f64) -> Null {
        let distance = |kind: &&(f64, Readings)| (kind.0.ln_1p() - skip.ln_1p()).abs();
        let known = self.kinds.iter().filter(|kind| kind.1.count >= MANY);
        match known.min_by(|a, b| distance(a).total_cmp(&distance(b))) {
            Some((_, readings)) => readings.null,
            None if self.all.count >= ENOUGH => self.all.null,
            None => Null::default(),
        }
    }

    /// The largest time that is measured for an empty call: the median, or half of the tail if that
    /// is more. `None` if there are too few readings.
    pub(crate) fn most(&self, costs: &Costs) -> Option<f64> {
        let most = |Null { excess, tail, .. }: Null| (costs.bias + excess).max(tail / 2.0);
        let known = self.kinds.iter().filter(|kind| kind.1.count >= MANY);
        known
            .map(|kind| most(kind.1.null))
            .max_by(f64::total_cmp)
            .or_else(|| (self.all.count >= ENOUGH).then(|| most(self.all.null)))
    }
}

impl Readings {
    fn add(&mut self, ticks: u64, costs: &Costs) {
        self.count = self.count.saturating_add(1);
        self.readings.add(bucket(ticks), 1.0);
        let quantile = |share| self.readings.quantile(share).unwrap_or(costs.bias);
        self.null = Null {
            excess: (quantile(0.5) - costs.bias).max(0.0),
            spread: (quantile(0.75) - quantile(0.25)) / 2.0,
            tail: quantile(0.9) - quantile(0.5),
        };
    }
}

/// One number for all skips that differ by less than about a factor of three.
fn alike(skip: f64) -> f64 {
    10f64.powf((2.0 * skip.max(0.0).ln_1p() / std::f64::consts::LN_10).round() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };

    #[test]
    fn the_median_counts_and_only_if_enough_was_read() {
        let mut nulls = Nulls::default();
        for ticks in [60, 64, 62, 1_000_000, 61, 65, 63, 64, 61, 62] {
            assert!(nulls.all.count >= ENOUGH || nulls.most(&COSTS).is_none());
            nulls.add(100.0, ticks, &COSTS);
        }

        nulls.add(3.0, 63, &COSTS);
        let null = nulls.at(100.0);
        assert!((22.0..=24.0).contains(&null.excess) && null.spread < 5.0, "{null:?}");
        assert_eq!((nulls.at(3.0), nulls.most(&COSTS)), (null, Some(COSTS.bias + null.excess)));
    }

    #[test]
    fn what_one_reading_in_four_has_more_is_no_time_of_a_call() {
        let mut nulls = Nulls::default();
        for number in 0..MANY {
            nulls.add(100.0, if number % 4 == 3 { 365 } else { 60 }, &COSTS);
        }
        assert!(nulls.most(&COSTS).is_some_and(|most| 2.0 * most >= 300.0), "{nulls:?}");
        assert_eq!(nulls.at(100.0).excess, 20.0);
    }

    #[test]
    fn what_is_left_out_less_often_has_the_null_of_its_like() {
        let mut nulls = Nulls::default();
        for _ in 0..MANY {
            nulls.add(10.0, 45, &COSTS);
            nulls.add(1_000.0, 80, &COSTS);
        }
        assert_eq!(
            (nulls.at(3.0).excess, nulls.at(3_000.0).excess, nulls.most(&COSTS)),
            (5.0, 40.0, Some(80.0))
        );
        // A null that is shorter than one timed back to back adds nothing.
        (0..MANY).for_each(|_| nulls.add(0.0, 30, &COSTS));
        assert_eq!(nulls.at(0.0).excess, 0.0);
    }
}
