//! Modes: what the probes of a function shall do; and the one trait that everything is switched
//! through.

use crate::FuncId;

/// What the probes of one function do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Nothing.
    Off,
    /// Count its entries, all of them.
    Count,
    /// Count its entries, and time those calls that are drawn.
    Sample(Draw),
}

/// How calls are drawn that are to be timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// How many, on each thread, before the function retires by itself; `u32::MAX` for always.
    pub quota: u32,
    /// How many are left out before each, the first included.
    pub skip: Skip,
    /// What it does when it has retired.
    pub then: Rest,
}

impl Draw {
    /// A quota that lasts from one look to the next, unless a function is called much more often
    /// than anybody has foreseen: then what it costs ends without anybody's doing, also where the
    /// agent has to wait for a processor.
    pub const AMPLE: u32 = 1 << 14;

    /// Whether each thread gets its quota anew at every look.
    pub fn is_refilled(&self) -> bool {
        self.quota == Self::AMPLE
    }
}

/// Calls that are left out.
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

/// What a function does that has retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Off,
    /// Its entries are counted.
    Count,
}

/// Whoever has the probes.
pub trait Probes {
    /// Gives a function a mode. What is asked for within one call of the conductor is carried out
    /// together.
    fn set(&mut self, function: FuncId, mode: Mode);
}
