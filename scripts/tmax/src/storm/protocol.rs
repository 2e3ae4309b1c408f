//! Protocols: protocols written out step by step, so that any step can be left out.
//!
//! [`wordpatch::PatchSite`](wordpatch) follows a correct plan. Protocols show the results of
//! incorrect protocols: the unprotected store, the literature's waits, a missing barrier.

use super::shape::Face;
use super::target::Target;
use wordpatch::live::{self, Width};
use wordpatch::protocol::{Plan, Step, TRAP};
use wordpatch::{Barrier, BarrierError, CodeAddr, FetchOrder, Granule};

/// One step of a patching thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes the stores of a step.
    Store(Step),
    /// Waits until all cores can see the stores.
    Fence,
    /// Passes a barrier.
    Wait(Barrier),
}

/// The actions of one toggle, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(Vec<Action>);

impl Protocol {
    /// A protocol of these steps.
    pub fn new(actions: impl IntoIterator<Item = Action>) -> Self {
        Self(actions.into_iter().collect())
    }

    /// Stores the whole word with one store, even across a boundary.
    pub fn unprotected() -> Self {
        Self::new([Action::Store(Step::Whole)])
    }

    /// The literature's protocol: trap, wait, back, wait, front.
    pub fn two_waits(barrier: Barrier) -> Self {
        use Step::{Back, Front, Trap};
        let wait = Action::Wait(barrier);
        Self::new([Action::Store(Trap), wait, Action::Store(Back), wait, Action::Store(Front)])
    }

    /// The same, but each wait begins when all cores can see the stores, as after a
    /// compare-and-swap.
    pub fn two_fenced_waits(barrier: Barrier) -> Self {
        let fenced = |action| {
            if action == Action::Wait(barrier) { vec![Action::Fence, action] } else { vec![action] }
        };
        Self::new(Self::two_waits(barrier).0.into_iter().flat_map(fenced))
    }

    /// Trap, wait, back, front.
    pub fn one_wait(barrier: Barrier) -> Self {
        use Step::{Back, Front, Trap};
        Self::new([
            Action::Store(Trap),
            Action::Wait(barrier),
            Action::Store(Back),
            Action::Store(Front),
        ])
    }

    /// Trap, back, front, without a wait.
    pub fn no_wait() -> Self {
        use Step::{Back, Front, Trap};
        Self::new([Trap, Back, Front].map(Action::Store))
    }

    /// Prepares it for `target`: computes all stores, and prepares the barriers of the first
    /// toggle.
    pub fn ready<'a>(&self, target: &'a Target) -> Result<PreparedProtocol<'a>, BarrierError> {
        let mut steps = Vec::new();
        for action in &self.0 {
            match *action {
                Action::Store(step) => steps.extend(stores(target, step)),
                Action::Fence => steps.push(Prepared::Fence),
                Action::Wait(barrier) => {
                    barrier.prepare()?;
                    steps.push(Prepared::Wait(barrier));
                }
            }
        }
        Ok(PreparedProtocol { target, steps })
    }
}

/// A protocol prepared for one target.
#[derive(Clone, Debug)]
pub struct PreparedProtocol<'a> {
    target: &'a Target,
    steps: Vec<Prepared>,
}

#[derive(Clone, Copy, Debug)]
enum Prepared {
    /// One machine store, with its values for both faces.
    Store(usize, Width, [u64; 2]),
    Fence,
    Wait(Barrier),
}

impl PreparedProtocol<'_> {
    /// Toggles the target to the face `to`.
    pub fn toggle(&self, to: Face) -> Result<(), BarrierError> {
        for step in &self.steps {
            match *step {
                Prepared::Store(at, width, values) => {
                    self.target.store(at, width, values[to as usize]);
                }
                Prepared::Fence => live::fence(),
                Prepared::Wait(barrier) => barrier.pass()?,
            }
        }
        Ok(())
    }
}

/// The stores of one step, split at the target's boundary.
fn stores(target: &Target, step: Step) -> Vec<Prepared> {
    let shape = target.shape();
    // Only the distance to the boundary matters, not its kind.
    let before = CodeAddr::new(Granule::LINE.bytes() - target.front());
    let plan = Plan::new(before, shape.len(), Granule::LINE, FetchOrder::Any, shape.layout());
    let image = |face, at| {
        if step == Step::Trap { u64::from_le_bytes([TRAP; 8]) } else { target.image(face, at) }
    };
    let store = |(at, width)| {
        Prepared::Store(at, width, [Face::Old, Face::New].map(|face| image(face, at)))
    };
    match plan.pieces(step) {
        Some(pieces) => pieces.map(store).collect(),
        // At once: the bytes after the word belong to the target, and stay unchanged.
        None => {
            let range = plan.range(step);
            vec![store((range.start, Width::at_least(range.len())))]
        }
    }
}
