//! How a monitor that can be switched is present in a program: by probes in its code, or by
//! counters that say what probes would have done.

use super::counting::{Counting, Place};
use super::standing::Standing;
use super::switches::Switches;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wasm_aot_engine::Error;

/// One of the two.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    Probes(Arc<Standing>),
    Counts(Arc<Counting>),
}

impl Presence {
    pub(super) fn switches(&self) -> &Switches {
        match self {
            Self::Probes(standing) => &standing.switches,
            Self::Counts(counting) => &counting.switches,
        }
    }

    /// Visits each probe.
    pub(super) fn each(&self, mut visit: impl FnMut(Place)) {
        match self {
            Self::Probes(standing) => standing.each(|probe| {
                let (function, rule, id, offset) =
                    (probe.function, probe.rule, probe.id, probe.offset);
                visit(Place { function, rule, id, offset });
            }),
            Self::Counts(counting) => counting.places.iter().copied().for_each(visit),
        }
    }

    /// Whether it observes.
    pub(super) fn is_wanted(&self) -> bool {
        match self {
            Self::Probes(standing) => standing.is_wanted(),
            Self::Counts(counting) => counting.is_wanted(),
        }
    }

    /// Has it observe, or rest. Which probes are on stays as it is.
    pub(super) fn attach(&self, on: bool) -> Result<(), Error> {
        self.switches().resting().store(!on, Relaxed);
        match self {
            Self::Probes(standing) => {
                standing.want(on);
                standing.settle()
            }
            Self::Counts(counting) => {
                counting.want(on);
                counting.settle()
            }
        }
    }

    /// Has its calls counted; tells whether they are.
    pub(super) fn count(&self) -> Result<bool, Error> {
        match self {
            Self::Probes(standing) => standing.count(),
            Self::Counts(_) => Ok(true),
        }
    }

    /// How many of its calls were counted.
    pub(super) fn events(&self) -> u64 {
        match self {
            Self::Probes(standing) => standing.events(),
            Self::Counts(counting) => counting.events(),
        }
    }
}
