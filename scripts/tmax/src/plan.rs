//! The plan: the measurements and their durations.

use std::time::Duration;

/// The longest step.
pub(crate) const STEP: Duration = Duration::from_millis(500);

/// The measurements and their durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `quick` or `full`.
    pub name: &'static str,
    /// The time for the granule: all offsets together.
    pub granule: Duration,
    /// The time for the waits: all cells together.
    pub waits: Duration,
    /// The time for the barrier: all cells together.
    pub barrier: Duration,
    /// The number of passes over all offsets and all cells, so that slow changes of the machine
    /// affect all of them.
    pub passes: u32,
    /// The waits, in ticks.
    pub waits_tried: Vec<u64>,
    /// The numbers of bytes before the boundary.
    pub positions: Vec<usize>,
    /// The numbers of executing threads.
    pub executers: Vec<usize>,
    /// The time for costs: all operations together.
    pub costs: Duration,
    /// The time for visibility: code and data together.
    pub latency: Duration,
    /// The time for inactive forms.
    pub latent: Duration,
}

impl Plan {
    /// A few cells, for a short measurement.
    pub fn quick(time: Duration) -> Self {
        Self {
            name: "quick",
            granule: time.mul_f64(0.28),
            waits: time.mul_f64(0.35),
            barrier: time.mul_f64(0.07),
            passes: 1,
            waits_tried: vec![0, 100, 200, 400, 800, 1500, 3000],
            positions: vec![1, 2, 3, 4],
            executers: vec![1],
            costs: time.mul_f64(0.14),
            latency: time.mul_f64(0.1),
            latent: time.mul_f64(0.06),
        }
    }

    /// Every cell of the literature's figure, and more.
    pub fn full(time: Duration) -> Self {
        let waits = (0..=30).map(|hundreds| hundreds * 100).chain([5_000, 10_000, 20_000]);
        Self {
            name: "full",
            granule: time.mul_f64(0.2),
            waits: time.mul_f64(0.6),
            barrier: time.mul_f64(0.1),
            passes: 4,
            waits_tried: waits.collect(),
            positions: vec![1, 2, 3, 4],
            executers: vec![1, 2, 3],
            costs: time.mul_f64(0.04),
            latency: time.mul_f64(0.04),
            latent: time.mul_f64(0.02),
        }
    }

    /// The number of passes if the longest cell gets `longest`, such that an interrupted
    /// measurement ends after at most one step.
    pub(crate) fn turns(&self, longest: Duration) -> u32 {
        self.passes.max((longest.as_secs_f64() / STEP.as_secs_f64()).ceil() as u32)
    }

    /// The total duration, without the set-up.
    pub fn total(&self) -> Duration {
        self.granule + self.waits + self.barrier + self.costs + self.latency + self.latent
    }
}
