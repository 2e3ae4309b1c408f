//! Histograms of durations, in buckets less than two per cent wide.
//!
//! ```text
//!   0 … 127      one bucket for each tick
//!   128 … 255    64 buckets of 2
//!   256 … 511    64 buckets of 4, and so on: 64 to every doubling
//! ```
//!
//! A bucket holds a weight: the number of calls that it represents. Only non-empty buckets are
//! stored.

use serde::{Deserialize, Serialize};

/// The number of buckets per power of two.
const PARTS: u64 = 64;
/// Below this value, every value has its own bucket.
const EXACT: u64 = 2 * PARTS;

/// The bucket of a value.
pub fn bucket(ticks: u64) -> u16 {
    if ticks < EXACT {
        return ticks as u16;
    }
    let doubling = u64::from(63 - ticks.leading_zeros()) - 6;
    (doubling * PARTS + (ticks >> doubling)) as u16
}

/// The first and the last value of a bucket.
pub fn bounds(bucket: u16) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < EXACT {
        return (bucket, bucket);
    }
    let doubling = bucket / PARTS - 1;
    let first = (bucket - doubling * PARTS) << doubling;
    (first, first + ((1 << doubling) - 1))
}

/// The bucket of `u64::MAX`, which is the last.
pub const LAST_BUCKET: u16 = (57 * PARTS + 127) as u16;

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram(Vec<(u16, f64)>);

impl Histogram {
    /// A histogram of these buckets, in order, with their weights.
    pub(crate) const fn of(buckets: Vec<(u16, f64)>) -> Self {
        Self(buckets)
    }

    /// Adds a value that represents `weight` calls.
    pub fn add(&mut self, bucket: u16, weight: f64) {
        match self.0.binary_search_by_key(&bucket, |(known, _)| *known) {
            Ok(at) => self.0[at].1 += weight,
            Err(at) => self.0.insert(at, (bucket, weight)),
        }
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, weight) in &other.0 {
            self.add(bucket, weight);
        }
    }

    /// The difference from an earlier histogram of the same calls. Weights are estimates and may
    /// have decreased: such a bucket is empty.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.0.iter().peekable();
        let new = self.0.iter().filter_map(|&(bucket, weight)| {
            while before.next_if(|(known, _)| *known < bucket).is_some() {}
            let known = before.next_if(|(known, _)| *known == bucket).map_or(0.0, |known| known.1);
            (weight > known).then_some((bucket, weight - known))
        });
        Self(new.collect())
    }

    /// The number of calls that it represents.
    pub fn weight(&self) -> f64 {
        self.0.iter().map(|(_, weight)| weight).sum()
    }

    /// The percentile at this share; `None` if the histogram is empty. Within a bucket calls are
    /// assumed to be distributed evenly.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut left = share.clamp(0.0, 1.0) * self.weight();
        for &(bucket, weight) in &self.0 {
            if left <= weight {
                let (first, last) = bounds(bucket);
                let width = (last - first) as f64;
                return Some(first as f64 + width * (left / weight).clamp(0.0, 1.0));
            }
            left -= weight;
        }
        self.0.last().map(|(bucket, _)| bounds(*bucket).1 as f64)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The non-empty buckets, in order, with their weights.
    pub fn buckets(&self) -> &[(u16, f64)] {
        &self.0
    }

    /// Whether buckets are in order, exist, and have valid weights: a file may contain anything.
    pub fn is_sound(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0].0 < pair[1].0)
            && self.0.iter().all(|(bucket, weight)| {
                *bucket <= LAST_BUCKET && weight.is_finite() && *weight > 0.0
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        arbtest::arbtest(|u| {
            let ticks: u64 = u.arbitrary::<u64>()? >> u.int_in_range(0..=63)?;
            let (first, last) = bounds(bucket(ticks));
            assert!((first..=last).contains(&ticks), "{ticks} in {first}..={last}");
            assert!((last - first) as f64 <= 0.016 * first as f64, "{first}..={last}");
            Ok(())
        });
        assert_eq!((bucket(u64::MAX), bounds(LAST_BUCKET).1), (LAST_BUCKET, u64::MAX));
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for number in 0..LAST_BUCKET {
            assert_eq!(bounds(number).1 + 1, bounds(number + 1).0, "{number}");
        }
    }

    #[test]
    fn what_has_come_since_is_the_difference() {
        let of = |buckets: &[(u16, f64)]| Histogram::of(buckets.to_vec());
        let now = of(&[(1, 5.0), (3, 2.0), (7, 1.0)]);
        assert_eq!(now.since(&of(&[(1, 5.0), (2, 1.0), (3, 1.5)])), of(&[(3, 0.5), (7, 1.0)]));
        assert_eq!(
            (now.since(&Histogram::default()), now.since(&now).is_empty()),
            (now.clone(), true)
        );
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        arbtest::arbtest(|u| {
            let mut values: Vec<u64> = (0..u.int_in_range(1..=500)?)
                .map(|_| u.int_in_range(0..=100_000))
                .collect::<Result<_, _>>()?;
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(bucket(value), 1.0));
            values.sort_unstable();
            for share in [0.5, 0.9, 0.99] {
                let exact = values
                    [((share * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1]
                    as f64;
                let found = histogram.quantile(share).unwrap();
                assert!((found - exact).abs() <= 0.02 * exact + 1.0, "{found} for {exact}");
            }
            Ok(())
        });
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn merging_adds_the_weights() {
        let mut one = Histogram::default();
        (0..1000).for_each(|value| one.add(bucket(value * 7), 0.5));
        let mut both = one.clone();
        both.merge(&one);
        assert_eq!((both.weight(), one.weight()), (1000.0, 500.0));
        assert!(both.is_sound() && both.buckets().len() == one.buckets().len());
    }
}
