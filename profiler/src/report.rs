//! Reports of a profile: one file for each format.

mod base64;
mod call_graph;
mod callgrind;
mod column;
mod comparison;
mod csv;
mod cycles;
mod dot;
mod firefox;
mod folded;
mod foot;
mod gprof;
mod grid;
mod histogram;
mod html;
pub mod human;
mod json;
mod latency;
#[cfg(test)]
pub(crate) mod made_up;
pub(crate) mod mark;
pub(crate) mod name;
mod order;
mod pprof;
pub(crate) mod share;
mod speedscope;
mod stacks;
mod svg;
mod table;
mod trace;
mod tree;
mod values;

pub use base64::base64;
pub use grid::{Grid, GridColumn, GridRow, width_of};
pub use histogram::HistogramOptions;
pub use histogram::NoFunction;
pub use order::Sort;
pub use pprof::{StackFrame, StackSample};
pub use table::TableOptions;
