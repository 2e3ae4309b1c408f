//! The order of stores and waits of a retarget, as a value.
//!
//! There is no unsafe code here, and no wait: the model reads the same steps.

use wordpatch::FetchOrder;

#[cfg(test)]
mod model;

/// One step, done for all sites before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Store the switching byte of the guard, which is off with any displacement.
    Off,
    /// Wait until no core runs on bytes it fetched before (assumption A2).
    Barrier,
    /// Store the displacement, by any number of stores; where the guard reads through it, by one.
    Displacement,
    /// Store the switching byte that belongs to the new displacement: that of the call or jump if
    /// the site was on, otherwise that of its off state.
    Encoding,
}

/// The steps, in order.
pub fn steps(order: FetchOrder) -> &'static [Step] {
    use Step::{Barrier, Displacement, Encoding, Off};
    match order {
        FetchOrder::Upwards => &[Off, Barrier, Displacement, Encoding],
        FetchOrder::Any => &[Off, Barrier, Displacement, Barrier, Encoding],
    }
}
