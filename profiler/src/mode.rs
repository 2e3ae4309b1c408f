//! Modes: the behaviour of a function's probes; and the trait through which all probes are
//! switched.

use crate::FuncId;

/// The behaviour of the probes of one function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// They do nothing.
    Off,
    /// They count all entries.
    Count,
    /// They count all entries, and time randomly selected calls.
    Sample(Draw),
}

/// The sampling plan: how the calls to time are selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Number of calls on each thread before the function retires by itself; `u32::MAX` for no
    /// limit.
    pub quota: u32,
    /// Number of calls skipped before each timed one, the first included.
    pub skip: Skip,
    /// Its behaviour after retiring (idle mode).
    pub then: Rest,
}

impl Draw {
    /// The least and the greatest quota that is renewed at every poll.
    const RENEWED: (u32, u32) = (1 << 10, 1 << 14);

    /// A plan that times every call: the quota lasts from one poll of the agent to the next, unless
    /// a function is called much more often than the number of calls that is expected between two
    /// polls. Then its timing ends by itself, even if the agent has to wait for a processor.
    pub fn all(expected: f64) -> Self {
        let (least, most) = Self::RENEWED;
        let quota = (PATIENCE * expected).clamp(f64::from(least), f64::from(most)) as u32;
        Self { quota, skip: Skip::None, then: Rest::Count }
    }

    /// Whether each thread's quota is renewed at every poll.
    pub fn is_refilled(&self) -> bool {
        let (least, most) = Self::RENEWED;
        self.skip == Skip::None && self.then == Rest::Count && (least..=most).contains(&self.quota)
    }
}

/// How many times as often as expected a function may be called until its timing ends.
const PATIENCE: f64 = 8.0;

/// Skipped calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skip {
    /// None.
    None,
    /// A geometric number.
    Geometric {
        /// Its mean.
        mean: f64,
    },
}

/// The behaviour of a retired function (idle mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// No probe runs.
    Off,
    /// Its entries are counted.
    Count,
}

/// The owner of the probes.
pub trait Probes {
    /// Sets the mode of a function. The changes of one call of the controller are applied together.
    fn set(&mut self, function: FuncId, mode: Mode);
}
