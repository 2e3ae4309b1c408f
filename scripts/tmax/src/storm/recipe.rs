//! Recipes: protocols written out step by step, so that any step can be left out.
//!
//! [`wordpatch::PatchSite`](wordpatch) follows the plan that it knows to be right. What is measured here is what happens to
//! those who do not: the unprotected store, the literature's waits, a barrier forgotten.

use super::shape::Face;
use super::target::Target;
use wordpatch::live::Width;
use wordpatch::protocol::{Plan, Step, TRAP};
use wordpatch::{Barrier, BarrierError, CodeAddr, FetchOrder, Granule};

/// One act of a patcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Stores something.
    Store(Step),
    /// Waits for something.
    Wait(Barrier),
}

/// The acts of one toggle, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe(Vec<Act>);

impl Recipe {
    /// These acts.
    pub fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self(acts.into_iter().collect())
    }

    /// The whole word with one store, whatever boundary it lies astride.
    pub fn unprotected() -> Self {
        Self::new([Act::Store(Step::Whole)])
    }

    /// The literature's protocol: trap, wait, back, wait, front.
    pub fn two_waits(barrier: Barrier) -> Self {
        use Step::{Back, Front, Trap};
        let wait = Act::Wait(barrier);
        Self::new([Act::Store(Trap), wait, Act::Store(Back), wait, Act::Store(Front)])
    }

    /// Trap, wait, back, front.
    pub fn one_wait(barrier: Barrier) -> Self {
        use Step::{Back, Front, Trap};
        Self::new([Act::Store(Trap), Act::Wait(barrier), Act::Store(Back), Act::Store(Front)])
    }

    /// Trap, back, front, and nobody is waited for.
    pub fn no_wait() -> Self {
        use Step::{Back, Front, Trap};
        Self::new([Trap, Back, Front].map(Act::Store))
    }

    /// Does beforehand what the first toggle would have to do.
    pub fn prepare(&self) -> Result<(), BarrierError> {
        self.0.iter().try_for_each(|act| match act {
            Act::Wait(barrier) => barrier.prepare(),
            Act::Store(_) => Ok(()),
        })
    }

    /// Gives `target` the face `to`.
    #[inline]
    pub fn follow(&self, target: &Target, to: Face) -> Result<(), BarrierError> {
        for act in &self.0 {
            match *act {
                Act::Store(step) => store(target, step, to),
                Act::Wait(barrier) => barrier.pass()?,
            }
        }
        Ok(())
    }
}

/// One step of storing, cut where the target is cut.
#[inline]
fn store(target: &Target, step: Step, to: Face) {
    let shape = target.shape();
    let before = CodeAddr::new(Granule::LINE.bytes() - target.front());
    let plan = Plan::new(before, shape.len(), Granule::LINE, FetchOrder::Any, shape.layout());
    let image = |at| if step == Step::Trap { u64::from_le_bytes([TRAP; 8]) } else { target.image(to, at) };
    match plan.pieces(step) {
        Some(pieces) => pieces.for_each(|(at, width)| target.store(at, width, image(at))),
        // At once: the bytes behind the word are the target's own, and stay what they are.
        None => {
            let range = plan.range(step);
            target.store(range.start, Width::at_least(range.len()), image(range.start));
        }
    }
}
