//! Parameters of patching, as a value.

use crate::access::Access;
use crate::barrier::{Barrier, BarrierError};
use crate::calibration::Calibration;
use crate::granule::Granule;
use crate::vendor::FetchOrder;

/// Parameters of patching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The block that instruction fetch is trusted to read atomically.
    pub granule: Granule,
    /// The order in which fetch may see two granules.
    pub order: FetchOrder,
    /// How other cores are synchronised.
    pub barrier: Barrier,
    /// How a program's text is made writable.
    pub access: Access,
}

impl Policy {
    /// Aligned quadwords, this processor's fetch order, the best available barrier, and writable
    /// text.
    pub fn new() -> Result<Self, BarrierError> {
        Ok(Self {
            granule: Granule::QUADWORD,
            order: FetchOrder::of_this_processor(),
            barrier: Barrier::best()?,
            access: Access::default(),
        })
    }

    /// The literature's protocol: whole cache lines are trusted, and both waits last the calibrated
    /// T_max. It is known to tear; for comparison only. `None` if the calibration found no T_max at
    /// all.
    pub fn paper(calibration: &Calibration) -> Option<Self> {
        Some(Self {
            granule: Granule::LINE,
            order: FetchOrder::Any,
            barrier: Barrier::Wait(calibration.tmax?),
            access: Access::default(),
        })
    }
}
