//! How often each instruction was executed, from as few counters as there can be.
//!
//! Control flows through a function as water does: what comes into a block leaves it. So of the
//! [`Graph`] of a function's blocks it is enough to count the edges outside of a spanning tree
//! ([`Places`]); the others follow ([`solve`]). The tree takes the edges that are gone most often,
//! and leaves those for counting that are gone seldom.
//!
//! What leaves a block in its middle (a trap, an exception, an exit from a call) is counted by
//! whoever takes the frame away, as a departure from the instruction that it was at; so the counts
//! are exact to the instruction.

mod graph;
mod loops;
mod places;
mod solution;

pub(crate) use graph::{Block, Edge, Graph, Way, Ways};
pub(crate) use loops::{CARRIED, Loop, Loops};
pub(crate) use places::{Places, often};
pub(crate) use solution::{Departures, Flow, solve};
