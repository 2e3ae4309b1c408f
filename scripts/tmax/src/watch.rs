//! The watch over a long measurement: how far it is, and whether it shall go on.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wordpatch::BarrierError;
use wordpatch::os::OsError;

use crate::storm::SeatingError;

/// Why a measurement ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Somebody asked it to.
    #[error("interrupted")]
    Interrupted,
    /// There are not two processors.
    #[error(transparent)]
    Seating(#[from] SeatingError),
    /// The kernel refused something that cannot be done without.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A barrier that worked before does not work any more.
    #[error(transparent)]
    Barrier(#[from] BarrierError),
}

/// What to do when a step is done: which measurement it belongs to, and how long it was planned to take.
type Tell<'a> = dyn Fn(&str, Duration) + 'a;

/// Told what is done, asked whether to stop.
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    tell: Box<Tell<'a>>,
}

impl<'a> Watch<'a> {
    /// Stops when `stop` is set; tells `tell` what was done and how long that was planned to take.
    pub fn new(stop: &'a AtomicBool, tell: impl Fn(&str, Duration) + 'a) -> Self {
        Self { stop, tell: Box::new(tell) }
    }

    /// To be called between steps of at most a second.
    pub fn passed(&self, what: &str, planned: Duration) -> Result<(), Failure> {
        (self.tell)(what, planned);
        if self.stop.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
