//! Modes: what the probes of a function do; and the one trait through which all of them are
//! switched.

use crate::FuncId;

/// What the probes of one function do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Nothing.
    Off,
    /// Count its entries, all of them.
    Count,
    /// Count its entries, and time randomly drawn calls.
    Sample(Draw),
}

/// How the calls to time are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Number of calls on each thread before the function retires by itself; `u32::MAX` for no
    /// limit.
    pub quota: u32,
    /// Number of calls skipped before each timed one, the first included.
    pub skip: Skip,
    /// Its behaviour after retiring.
    pub then: Rest,
}

impl Draw {
    /// A quota that lasts from one poll of the agent to the next, unless a function is called much
    /// more often than expected: then its cost ends automatically, even if the agent has to wait
    /// for a processor.
    pub const AMPLE: u32 = 1 << 14;

    /// Whether each thread's quota is renewed at every poll.
    pub fn is_refilled(&self) -> bool {
        self.quota == Self::AMPLE
    }
}

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

/// The behaviour of a retired function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Off,
    /// Its entries are counted.
    Count,
}

/// The owner of the probes.
pub trait Probes {
    /// Gives a function a mode. The changes of one call of the controller are applied together.
    fn set(&mut self, function: FuncId, mode: Mode);
}
