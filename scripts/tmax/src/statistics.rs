//! Statistics: order statistics of samples, and their confidence.

use crate::storm::Chance;

/// Numbers in ascending order, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts the numbers; `None` if there are none, or one that is not a number.
    pub fn new(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        (!numbers.is_empty() && numbers.iter().all(|x| !x.is_nan())).then_some(Self(numbers))
    }

    /// The number of values.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The largest.
    pub fn max(&self) -> f64 {
        self.0[self.len() - 1]
    }

    /// The smallest number that at least `percent` of all numbers do not exceed (the nearest-rank
    /// definition).
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.len() as f64).ceil() as usize;
        self.0[rank.clamp(1, self.len()) - 1]
    }

    /// The middle number, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let n = self.len();
        f64::midpoint(self.0[(n - 1) / 2], self.0[n / 2])
    }

    /// The 95 % confidence interval of the median, by bootstrapping: percentiles of the medians of
    /// `times` samples drawn from this one.
    pub fn median_interval(&self, times: usize) -> (f64, f64) {
        let mut chance = Chance::new(self.len() as u64);
        let drawn = |chance: &mut Chance| {
            let again = (0..self.len()).map(|_| self.0[chance.below(self.len() as u64) as usize]);
            Self::new(again).map_or(f64::NAN, |sample| sample.median())
        };
        match Self::new((0..times.max(1)).map(|_| drawn(&mut chance))) {
            Some(medians) => (medians.percentile(2.5), medians.percentile(97.5)),
            None => (self.min(), self.max()),
        }
    }
}

/// The rate that `seen` events in `n` trials do not exclude, at 95 %: three in `n` if none was seen
/// (the rule of three), otherwise the upper end of the normal approximation to the Poisson
/// interval. One without trials.
pub fn rate_below(seen: u64, n: u64) -> f64 {
    let seen = seen as f64;
    let most = if seen == 0.0 { 3.0 } else { seen + 1.0 + 1.96 * (seen + 0.75).sqrt() };
    if n == 0 { 1.0 } else { (most / n as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numbers_of_the_sample() {
        let sample = Sample::new((1..=200).rev().map(f64::from)).unwrap();
        assert_eq!((sample.min(), sample.max(), sample.len()), (1.0, 200.0, 200));
        assert_eq!(sample.percentile(50.0), 100.0);
        assert_eq!(sample.percentile(99.0), 198.0);
        assert_eq!((sample.percentile(0.0), sample.percentile(100.0)), (1.0, 200.0));
        assert_eq!(sample.median(), 100.5);
    }

    #[test]
    fn no_numbers_are_no_sample() {
        assert_eq!(Sample::new([]), None);
        assert_eq!(Sample::new([1.0, f64::NAN]), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_narrows() {
        let narrow = |n: u32| {
            let sample =
                Sample::new((0..n).map(|i| f64::from(i * 7919 % n) / f64::from(n))).unwrap();
            let (low, high) = sample.median_interval(300);
            assert!(low <= sample.median() && sample.median() <= high);
            high - low
        };
        assert!(narrow(2000) < narrow(50));
    }

    #[test]
    fn nothing_seen_is_not_never() {
        assert_eq!(rate_below(0, 300), 0.01);
        assert_eq!(rate_below(0, 0), 1.0);
        assert!(rate_below(10, 1000) > 0.01 && rate_below(10, 1000) < 0.02);
    }
}
