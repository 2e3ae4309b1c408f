//! Reports of a profile: one file for each form.

mod csv;
mod folded;
mod gprof;
pub(crate) mod human;
mod json;
mod pprof;
mod table;

pub use table::{Sort, TableOptions};
