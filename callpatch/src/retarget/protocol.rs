//! The order of stores and waits of a retarget, as a value.
//!
//! There is no unsafe code here, and nothing that waits: the model reads the same steps.

use wordpatch::FetchOrder;

#[cfg(test)]
mod model;

/// One step, done for all sites before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Store the switching byte of the guard: off, with any displacement.
    Off,
    /// Wait until no core runs on bytes it fetched before (assumption A2).
    Barrier,
    /// Store the displacement, in any pieces; where the guard reads through it, whole.
    Displacement,
    /// Store the switching byte that belongs to the displacement: of the transfer, where it was there
    /// before; of what remains of it when it is off, elsewhere.
    Face,
}

/// The steps, in order.
pub fn steps(order: FetchOrder) -> &'static [Step] {
    use Step::{Barrier, Displacement, Face, Off};
    match order {
        FetchOrder::Upwards => &[Off, Barrier, Displacement, Face],
        FetchOrder::Any => &[Off, Barrier, Displacement, Barrier, Face],
    }
}
