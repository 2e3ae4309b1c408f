//! The plan: what is sampled, and for how long.

use std::time::Duration;

/// No step is longer.
pub(crate) const STEP: Duration = Duration::from_millis(500);

/// What is sampled, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `quick` or `full`.
    pub name: &'static str,
    /// For the granule: all offsets together.
    pub granule: Duration,
    /// For the waits: all cells together.
    pub waits: Duration,
    /// For the barrier: all cells together.
    pub barrier: Duration,
    /// How often all offsets, and all cells, are gone through; slow changes of the machine then
    /// spread over all of them.
    pub passes: u32,
    /// The waits, in ticks.
    pub waits_tried: Vec<u64>,
    /// How many bytes lie before the boundary.
    pub positions: Vec<usize>,
    /// How many threads execute.
    pub executers: Vec<usize>,
    /// For costs: all operations together.
    pub costs: Duration,
    /// For visibility: code and data together.
    pub latency: Duration,
    /// For inactive forms.
    pub latent: Duration,
}

impl Plan {
    /// A few cells, at about the time that it takes to read the help.
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

    /// Every cell of the literature's figure and beyond.
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

    /// How often cells are gone through if the longest of them gets `longest`: a user who
    /// interrupts waits for one step at most.
    pub(crate) fn turns(&self, longest: Duration) -> u32 {
        self.passes.max((longest.as_secs_f64() / STEP.as_secs_f64()).ceil() as u32)
    }

    /// How long all of it takes, setting up left out.
    pub fn total(&self) -> Duration {
        self.granule + self.waits + self.barrier + self.costs + self.latency + self.latent
    }
}
