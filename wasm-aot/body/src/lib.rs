//! Analysis of WebAssembly function bodies, before anything is compiled: basic blocks, loops, the
//! edges that need a counter, and the events that can be observed; and the format of monitors'
//! reports.
//!
//! # How often each instruction was executed, with the minimum number of counters
//!
//! Control flow is conserved: a block is left as often as it is entered. So it is sufficient to
//! count the edges of a function's [`Graph`] that are outside of a spanning tree
//! ([`CounterPlacement`]); the other counts are computed ([`solve`]). The tree contains the edges
//! that are executed most often; the counted edges are executed seldom.
//!
//! If control leaves a block in its middle (by a trap, an exception, an exit from a call), the code
//! that unwinds the frame counts a partial exit at the frame's instruction; so the counts are exact
//! to the instruction.

#![forbid(unsafe_code)]

mod counter_placement;
pub mod data;
pub mod events;
mod graph;
mod loops;
pub mod replacement;
pub mod report;
pub mod segments;
mod site;
mod solution;
pub mod types;

pub use counter_placement::{CounterPlacement, often};
pub use graph::{Block, Edge, Graph, OUTSIDE, Way, Ways};
pub use loops::{Loop, Loops, OSR_LOCALS};
pub use site::{Access, Site, closings, sites};
pub use solution::{ExitPlace, Flow, PartialExits, solve};
