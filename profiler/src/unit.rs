//! Units: functions, instants, clocks, and what measuring costs.

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
    /// The time since `earlier`; none if that is later.
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
    /// Ticks in so many seconds.
    pub fn ticks(&self, seconds: f64) -> Ticks {
        Ticks((seconds * self.hz).max(0.0) as u64)
    }

    /// Nanoseconds in so many ticks.
    pub fn nanoseconds(&self, ticks: f64) -> f64 {
        ticks / self.hz * 1e9
    }
}

/// What measuring costs, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// What a timed call adds to the time of the one that it is inside of.
    pub pair: f64,
    /// What is measured of a call that does nothing.
    pub bias: f64,
    /// What counting an entry adds to a program that does something else as well.
    pub count: f64,
    /// What switching a function off and on again takes.
    pub toggle: f64,
    /// What a call takes that is left out.
    pub skip: f64,
}
