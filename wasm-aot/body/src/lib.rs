//! What the body of a WebAssembly function says by itself, before anything is compiled: its blocks,
//! its loops, where counters have to stand, and which events there are to observe; and what the
//! reports of monitors look like ([`report`]), on which compilers and engines agree.
//!
//! # How often each instruction was executed, from as few counters as there can be
//!
//! Control flows through a function as water does: what comes into a block leaves it. So of the
//! [`Graph`] of a function's blocks it is enough to count the edges outside of a spanning tree
//! ([`Places`]); the others follow ([`solve`]). The tree takes the edges that are executed most
//! often, and leaves those for counting that are executed seldom.
//!
//! What leaves a block in its middle (a trap, an exception, an exit from a call) is counted by the
//! code that takes the frame away, as a partial exit from the instruction that it was at; so the
//! counts are exact to the instruction.

#![forbid(unsafe_code)]

pub mod events;
mod graph;
mod loops;
mod places;
pub mod report;
mod site;
mod solution;
pub mod types;

pub use graph::{Block, Edge, Graph, OUTSIDE, Way, Ways};
pub use loops::{Loop, Loops, OSR_LOCALS};
pub use places::{Places, often};
pub use site::{Access, Site, closings, sites};
pub use solution::{Flow, PartialExits, solve};
