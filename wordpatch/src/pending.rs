//! A patch that has been started and not finished, as a value.
//!
//! ```text
//!   start ──→ Trapped ── barrier, back ──→ (Backed ── barrier) ── front ──→ Idle
//! ```
//!
//! [`Pending::poll`] goes on if that needs no waiting, [`Pending::finish`] goes to the end, and
//! [`Pending::finish_in_background`] lets the completion thread do it. Dropping one finishes it: no
//! trap is ever forgotten.

use crate::completion;
use crate::error::PatchError;
use crate::flight::{Flight, Pace};
use crate::ledger::Phase;
use crate::os::threads;
use crate::sync::Ordering;
use std::marker::PhantomData;

/// A patch under way. Executers of the old bytes are served by the trap handler until it is
/// finished.
#[must_use = "a patch under way costs every executer a trap until it is finished"]
#[derive(Debug)]
pub struct Pending<'site> {
    /// The flight and its number; nothing if the patch was over at once.
    under_way: Option<(&'static Flight, u64)>,
    site: PhantomData<&'site crate::PatchSite>,
}

impl Pending<'_> {
    pub(crate) fn new(flight: &'static Flight, number: u64) -> Self {
        Self { under_way: Some((flight, number)), site: PhantomData }
    }

    /// A patch that one store has finished.
    pub(crate) fn landed() -> Self {
        Self { under_way: None, site: PhantomData }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        match self.under_way {
            Some((flight, number)) if flight.number() == number => flight.phase(),
            _ => Phase::Idle,
        }
    }

    /// Goes on as far as is possible without spinning, and says where the patch stands then.
    /// [`Phase::Idle`] is its end.
    pub fn poll(&mut self) -> Result<Phase, PatchError> {
        self.go_on(Pace::Poll)
    }

    /// Goes on to the end.
    pub fn finish(mut self) -> Result<(), PatchError> {
        self.finish_by_ref()
    }

    /// Leaves the rest to the completion thread. The site's code stays mapped until then, as was
    /// promised to [`PatchSite::start`](crate::PatchSite::start).
    pub fn finish_in_background(mut self) {
        if let Some((flight, _)) = self.under_way.take() {
            completion::enqueue(flight);
        }
    }

    /// Gives it up for its number, by which a site can stand for it again; none if it was over at
    /// once.
    pub(crate) fn into_number(mut self) -> Option<u64> {
        self.under_way.take().map(|(_, number)| number)
    }

    fn go_on(&mut self, pace: Pace) -> Result<Phase, PatchError> {
        let Some((flight, number)) = self.under_way else { return Ok(Phase::Idle) };
        let outcome =
            if flight.number() == number { flight.proceed(pace) } else { Ok(Phase::Idle) };
        let over = flight.number() != number || flight.phase() == Phase::Idle;
        if over {
            self.under_way = None;
        }
        match outcome {
            Err(error) => Err(error),
            Ok(_) if over && flight.taken_back.load(Ordering::Relaxed) == number => {
                Err(PatchError::TakenBack { address: flight.word.start })
            }
            Ok(phase) => Ok(if over { Phase::Idle } else { phase }),
        }
    }

    fn finish_by_ref(&mut self) -> Result<(), PatchError> {
        while self.go_on(Pace::Finish)? != Phase::Idle {
            // Another thread is carrying out a step.
            threads::give_way();
        }
        Ok(())
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // What cannot be finished now is tried again by the completion thread.
        let failed = self.finish_by_ref().is_err();
        if let (true, Some((flight, _))) = (failed, self.under_way.take()) {
            completion::enqueue(flight);
        }
    }
}
