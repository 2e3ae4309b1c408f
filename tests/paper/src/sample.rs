//! Interleaved pairs, and what they say.
//!
//! A subject and its baseline are measured in turn, block by block; the ratio of a pair of blocks is free of whatever changes slowly,
//! and the median over the pairs of whatever comes now and then. A block is the mean of its samples without the slowest twentieth:
//! the counter's step is too coarse for a median, and a preemption too long for a mean.

/// The samples of one kind, block by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    open: Vec<u64>,
    means: Vec<f64>,
}

impl Blocks {
    pub(crate) fn push(&mut self, sample: u64) {
        self.open.push(sample);
    }

    /// Ends a block. An empty one counts for nothing.
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

    /// The median of the blocks, less what taking the time costs.
    pub(crate) fn median(&self, overhead: f64) -> f64 {
        median(self.means.iter().map(|mean| mean - overhead).collect())
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

/// How often the pairs are drawn anew for the interval.
const DRAWS: usize = 2000;

impl Ratio {
    /// Of blocks that were taken in turn; `overhead` is what taking the time costs each sample.
    pub(crate) fn of(subject: &Blocks, baseline: &Blocks, overhead: f64) -> Self {
        let pairs: Vec<f64> = subject.means.iter().zip(&baseline.means).map(|(s, b)| (s - overhead) / (b - overhead)).collect();
        let mut chance = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = || {
            // xorshift: any sequence that is not periodic in the pairs does.
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            pairs[(chance % pairs.len() as u64) as usize]
        };
        let mut medians: Vec<f64> = (0..DRAWS).map(|_| median((0..pairs.len()).map(|_| draw()).collect())).collect();
        medians.sort_by(f64::total_cmp);
        Self {
            value: subject.median(overhead),
            baseline: baseline.median(overhead),
            median: median(pairs.clone()),
            lo: medians[DRAWS / 40],
            hi: medians[DRAWS - 1 - DRAWS / 40],
            pairs: pairs.len() as u64,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
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
    fn the_ratio_of_what_is_the_same_is_one_and_its_interval_holds_it() {
        let [mut a, mut b] = [Blocks::default(), Blocks::default()];
        for n in 0..40 {
            a.push(200 + n % 7);
            b.push(200 + n % 5);
            a.close();
            b.close();
        }
        let ratio = Ratio::of(&a, &b, 0.0);
        assert!((ratio.median - 1.0).abs() < 0.02 && ratio.lo <= ratio.median && ratio.median <= ratio.hi, "{ratio:?}");
    }
}
