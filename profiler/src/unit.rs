//! Units: functions, instants, clocks, and the costs of measuring.

use serde::{Deserialize, Serialize};

/// A function, by its dense number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FuncId(pub u32);

/// An instant or a duration of the clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The time since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Ticks in a second.
    pub hz: f64,
    /// Its resolution: smaller differences cannot be measured.
    pub step: u64,
}

impl Clock {
    /// The ticks in this many seconds.
    pub fn ticks(&self, seconds: f64) -> Ticks {
        Ticks((seconds * self.hz).max(0.0) as u64)
    }

    /// The nanoseconds in this many ticks.
    pub fn nanoseconds(&self, ticks: f64) -> f64 {
        ticks / self.hz * 1e9
    }
}

/// The costs of measuring, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// The time that a timed call adds to the enclosing one.
    pub pair: f64,
    /// The measured time of an empty call.
    pub bias: f64,
    /// The time that counting an entry adds to a program that also does other work.
    pub count: f64,
    /// The cost of switching a function off and on again.
    pub toggle: f64,
    /// The cost of a skipped call.
    pub skip: f64,
}
