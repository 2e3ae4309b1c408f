//! A patch that was started and is not finished, as a value.
//!
//! ```text
//!   start ──→ Trapped ── barrier, back ──→ (Backed ── barrier) ── front ──→ Idle
//! ```
//!
//! [`Pending::poll`] advances the patch if that needs no waiting, [`Pending::finish`] completes it,
//! and [`Pending::finish_in_background`] leaves that to the completion thread. Dropping a `Pending`
//! finishes the patch, so no trap is left behind.

use crate::completion;
use crate::error::PatchError;
use crate::ledger::Phase;
use crate::os::threads;
use crate::patch_in_progress::{Pace, PatchInProgress};
use crate::sync::Ordering;
use std::marker::PhantomData;

/// A patch in progress. The trap handler emulates the old bytes for executing threads until it is
/// finished.
#[must_use = "a patch under way costs every executer a trap until it is finished"]
#[derive(Debug)]
pub struct Pending<'site> {
    /// The patch and its number; `None` if the patch finished at once.
    under_way: Option<(&'static PatchInProgress, u64)>,
    site: PhantomData<&'site crate::PatchSite>,
}

impl Pending<'_> {
    pub(crate) fn new(patch: &'static PatchInProgress, number: u64) -> Self {
        Self { under_way: Some((patch, number)), site: PhantomData }
    }

    /// A patch that one store has finished.
    pub(crate) fn complete() -> Self {
        Self { under_way: None, site: PhantomData }
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        match self.under_way {
            Some((patch, number)) if patch.number() == number => patch.phase(),
            _ => Phase::Idle,
        }
    }

    /// Advances as far as possible without spinning, and returns the phase then. [`Phase::Idle`] is
    /// the end.
    pub fn poll(&mut self) -> Result<Phase, PatchError> {
        self.go_on(Pace::Poll)
    }

    /// Completes the patch.
    pub fn finish(mut self) -> Result<(), PatchError> {
        self.finish_by_ref()
    }

    /// Leaves the rest to the completion thread. The site's code stays mapped until then, as the
    /// caller of [`PatchSite::start`](crate::PatchSite::start) has promised.
    pub fn finish_in_background(mut self) {
        if let Some((patch, _)) = self.under_way.take() {
            completion::enqueue(patch);
        }
    }

    /// Returns its number, with which the site can find it again; `None` if the patch finished at
    /// once.
    pub(crate) fn into_number(mut self) -> Option<u64> {
        self.under_way.take().map(|(_, number)| number)
    }

    fn go_on(&mut self, pace: Pace) -> Result<Phase, PatchError> {
        let Some((patch, number)) = self.under_way else { return Ok(Phase::Idle) };
        let outcome = if patch.number() == number { patch.proceed(pace) } else { Ok(Phase::Idle) };
        let over = patch.number() != number || patch.phase() == Phase::Idle;
        if over {
            self.under_way = None;
        }
        match outcome {
            Err(error) => Err(error),
            Ok(_) if over && patch.taken_back.load(Ordering::Relaxed) == number => {
                Err(PatchError::TakenBack { address: patch.word.start })
            }
            Ok(phase) => Ok(if over { Phase::Idle } else { phase }),
        }
    }

    fn finish_by_ref(&mut self) -> Result<(), PatchError> {
        while self.go_on(Pace::Finish)? != Phase::Idle {
            // Another thread is performing a step.
            threads::give_way();
        }
        Ok(())
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // The completion thread retries a patch that cannot be finished now.
        let failed = self.finish_by_ref().is_err();
        if let (true, Some((patch, _))) = (failed, self.under_way.take()) {
            completion::enqueue(patch);
        }
    }
}
