//! Work that sites leave to be done for all of them together: before the program starts, and when
//! the report is due.

use super::region::{Constant, Increments, Part, Sum, Summed};
use super::rows::Rows;
use crate::emit::storage::Storage;
use crate::hir::Expr;
use crate::types::Ty;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The work that sites have left.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Global variables to which sites only add.
    pub(crate) added_only: HashSet<u32>,
    /// Rows of the report.
    pub(crate) rows: Rows,
    /// Elements of maps with constant keys that are summed in Wasm globals.
    pub(crate) elements: BTreeMap<(u32, Vec<Constant>), Summed>,
    /// The amounts that runs of regions add to sums.
    pub(crate) parts: BTreeMap<Sum, Vec<Part>>,
    /// Counters of the unusual arm of choices, as global variables, by the increments that each
    /// undoes and those that it makes.
    pub(crate) otherwise: HashMap<[Increments; 2], u32>,
    /// Expressions evaluated for sites before the program starts, and where their values are
    /// stored.
    pub(crate) first: Vec<(Option<(Storage, Ty)>, Expr)>,
    /// Sites at which variables of frames are reported: function, variable, where it is added up.
    pub(crate) framed: BTreeMap<(u32, u32), u32>,
}
