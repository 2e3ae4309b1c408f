//! Interleaved pairs, and their statistics.
//!
//! A subject and its baseline are measured in turn, block by block; slow changes do not affect the
//! ratio of a pair of blocks, and occasional disturbances do not affect the median over the pairs.
//! A block is the mean of its samples without the slowest twentieth: the counter's step is too
//! coarse for a median, and a preemption too long for a mean.

use tmax::statistics::Sample;

/// The samples of one kind, block by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    open: Vec<u64>,
    means: Vec<f64>,
}

impl Blocks {
    /// One block for each value.
    pub(crate) fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut blocks = Self::default();
        for value in values {
            blocks.push(value);
            blocks.close();
        }
        blocks
    }

    pub(crate) fn push(&mut self, sample: u64) {
        self.open.push(sample);
    }

    /// Ends a block. An empty block is ignored.
    pub(crate) fn close(&mut self) {
        self.open.sort_unstable();
        let kept = self.open.len() - self.open.len() / 20;
        if kept > 0 {
            self.means.push(self.open[..kept].iter().sum::<u64>() as f64 / kept as f64);
        }
        self.open.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.means.len()
    }

    /// The median of the blocks, less the cost of the clock.
    pub(crate) fn median(&self, overhead: f64) -> f64 {
        Sample::new(self.means.iter().map(|mean| mean - overhead))
            .map_or(f64::NAN, |means| means.median())
    }
}

/// A subject beside its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) baseline: f64,
    pub(crate) median: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) pairs: u64,
}

/// The number of bootstrap samples for the interval.
const DRAWS: usize = 2000;

impl Ratio {
    /// The ratio of blocks that were taken in turn, if there are any; `overhead` is the clock's
    /// cost in each sample.
    pub(crate) fn of(subject: &Blocks, baseline: &Blocks, overhead: f64) -> Option<Self> {
        let each =
            subject.means.iter().zip(&baseline.means).map(|(s, b)| (s - overhead) / (b - overhead));
        let pairs = Sample::new(each)?;
        let (lo, hi) = pairs.median_interval(DRAWS);
        Some(Self {
            value: subject.median(overhead),
            baseline: baseline.median(overhead),
            median: pairs.median(),
            lo,
            hi,
            pairs: pairs.len() as u64,
        })
    }

    /// The geometric mean of each round over several subjects, in millionths, beside 1. Each
    /// subject has its values and its baseline's, round by round.
    pub(crate) fn geometric<V: AsRef<[u64]>>(subjects: &[[V; 2]]) -> Option<Self> {
        let rounds = subjects.iter().flatten().map(|values| values.as_ref().len()).min()?;
        let (mut means, mut ones) = (Blocks::default(), Blocks::default());
        for round in 0..rounds {
            let logs = subjects.iter().map(|[subject, baseline]| {
                (subject.as_ref()[round] as f64 / baseline.as_ref()[round] as f64).ln()
            });
            means.push(((logs.sum::<f64>() / subjects.len() as f64).exp() * 1e6) as u64);
            ones.push(1_000_000);
            means.close();
            ones.close();
        }
        Self::of(&means, &ones, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_forgets_its_slowest_twentieth() {
        let mut blocks = Blocks::default();
        (0..19).for_each(|_| blocks.push(100));
        blocks.push(1_000_000);
        blocks.close();
        assert_eq!(blocks.median(26.0), 74.0);
    }

    #[test]
    fn a_geometric_mean_is_that_of_each_round() {
        let mean = Ratio::geometric(&[
            [vec![200, 100], vec![100, 100]],
            [vec![800, 900, 1], vec![100, 100]],
        ])
        .unwrap();
        assert_eq!((mean.value, mean.pairs), (3_500_000.0, 2));
        assert!(Ratio::geometric::<Vec<u64>>(&[]).is_none());
    }

    #[test]
    fn the_ratio_of_what_is_the_same_is_one_and_its_interval_holds_it() {
        let [mut a, mut b] = [Blocks::default(), Blocks::default()];
        for n in 0..40 {
            a.push(200 + n % 7);
            b.push(200 + n % 5);
            a.close();
            b.close();
        }
        let ratio = Ratio::of(&a, &b, 0.0).unwrap();
        assert!(
            (ratio.median - 1.0).abs() < 0.02
                && ratio.lo <= ratio.median
                && ratio.median <= ratio.hi,
            "{ratio:?}"
        );
    }
}
