//! Analysis of WebAssembly function bodies, before anything is compiled: basic blocks, loops, which
//! edges need a counter, and which events can be observed; and the format of monitors' reports.
//!
//! # How often each instruction was executed, from as few counters as there can be
//!
//! Control flows through a function as water does: what comes into a block leaves it. So of the
//! [`Graph`] of a function's blocks it is enough to count the edges outside of a spanning tree
//! ([`CounterPlacement`]); the others follow ([`solve`]). The tree takes the edges that are
//! executed most often, and leaves those for counting that are executed seldom.
//!
//! What leaves a block in its middle (a trap, an exception, an exit from a call) is counted by the
//! code that takes the frame away, as a partial exit from the instruction that it was at; so the
//! counts are exact to the instruction.

#![forbid(unsafe_code)]

mod counter_placement;
pub mod events;
mod graph;
mod loops;
pub mod replacement;
pub mod report;
mod site;
mod solution;
pub mod types;

pub use counter_placement::{CounterPlacement, often};
pub use graph::{Block, Edge, Graph, OUTSIDE, Way, Ways};
pub use loops::{Loop, Loops, OSR_LOCALS};
pub use site::{Access, Site, closings, sites};
pub use solution::{Flow, PartialExits, solve};
