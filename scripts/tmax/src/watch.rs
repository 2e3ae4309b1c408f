//! The watch over a long measurement: its progress, the time that is left, and whether to continue.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wordpatch::BarrierError;
use wordpatch::os::OsError;

use crate::storm::AssignmentError;

/// Why a measurement ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A signal has requested a stop.
    #[error("interrupted")]
    Interrupted,
    /// There are fewer than two processors.
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// The kernel refused a necessary call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A barrier that worked before has failed.
    #[error(transparent)]
    Barrier(#[from] BarrierError),
}

/// The callback at the end of a step: the name of the measurement, and the planned duration of the
/// step.
type Tell<'a> = dyn Fn(&str, Duration) + 'a;

/// Records finished steps, limits the time of the next step, and decides whether to stop.
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    keeps: bool,
    tell: Box<Tell<'a>>,
    part: Cell<Part>,
}

/// The current measurement.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: Instant,
    time: Duration,
    /// The planned time of its finished steps.
    done: Duration,
}

impl<'a> Watch<'a> {
    /// Stops when `stop` is set; calls `tell` with each finished step and its planned duration.
    pub fn new(stop: &'a AtomicBool, tell: impl Fn(&str, Duration) + 'a) -> Self {
        let part = Part { start: Instant::now(), time: Duration::ZERO, done: Duration::ZERO };
        Self { stop, keeps: false, tell: Box::new(tell), part: Cell::new(part) }
    }

    /// Continues when `stop` is set, but gives no step any time: the report contains the
    /// measurements made before.
    #[must_use]
    pub fn keeping(self) -> Self {
        Self { keeps: true, ..self }
    }

    /// Whether a stop was requested.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins a measurement that takes `time`.
    pub(crate) fn begin(&self, time: Duration) {
        self.part.set(Part { start: Instant::now(), time, done: Duration::ZERO });
    }

    /// The time of a step with the planned duration `planned`: less, if earlier steps took longer
    /// than planned because threads had to wait for a processor. So the measurement keeps its total
    /// time, and results with fewer observations have less weight.
    pub(crate) fn share(&self, planned: Duration) -> Duration {
        let Part { start, time, done } = self.part.get();
        if self.is_stopped() {
            return Duration::ZERO;
        }
        share(planned, time.saturating_sub(done), time.saturating_sub(start.elapsed()))
    }

    /// Call this between steps of at most a second.
    pub fn passed(&self, what: &str, planned: Duration) -> Result<(), Failure> {
        (self.tell)(what, planned);
        let part = self.part.get();
        self.part.set(Part { done: part.done + planned, ..part });
        if self.is_stopped() && !self.keeps { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// The part of `planned` that corresponds to the share of `left` in `to_do`.
fn share(planned: Duration, to_do: Duration, left: Duration) -> Duration {
    if to_do.is_zero() {
        planned.min(left)
    } else {
        planned.mul_f64((left.as_secs_f64() / to_do.as_secs_f64()).min(1.0))
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_keeps_gives_no_more_time_and_no_failure() {
        let stop = AtomicBool::new(false);
        let (watch, keeping) =
            (Watch::new(&stop, |_, _| ()), Watch::new(&stop, |_, _| ()).keeping());
        let second = Duration::from_secs(1);
        for watch in [&watch, &keeping] {
            watch.begin(second);
            assert!(!watch.share(second).is_zero() && watch.passed("", Duration::ZERO).is_ok());
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(
            (watch.passed("", second), keeping.passed("", second)),
            (Err(Failure::Interrupted), Ok(()))
        );
        assert!(keeping.share(second).is_zero());
    }

    #[test]
    fn what_took_too_long_is_taken_off_what_follows() {
        let seconds = Duration::from_secs;
        assert_eq!(share(seconds(2), seconds(10), seconds(10)), seconds(2));
        assert_eq!(share(seconds(2), seconds(10), seconds(5)), seconds(1));
        assert_eq!(
            share(seconds(2), seconds(10), seconds(20)),
            seconds(2),
            "never longer than planned"
        );
        assert_eq!(share(seconds(2), seconds(10), Duration::ZERO), Duration::ZERO);
        assert_eq!(share(seconds(2), Duration::ZERO, seconds(1)), seconds(1));
    }
}
