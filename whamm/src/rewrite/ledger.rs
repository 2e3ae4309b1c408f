//! What sites leave to be done for all of them together: before the program starts, and when the
//! report is due.

use super::region::{Constant, Increments, Part, Sum, Summed};
use super::rows::Rows;
use crate::emit::storage::Storage;
use crate::hir::Expr;
use crate::types::Ty;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What sites have left to be done.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Global variables to which sites only add.
    pub(crate) added_only: HashSet<u32>,
    /// Rows of the report.
    pub(crate) rows: Rows,
    /// Elements of maps with constant keys that are summed in Wasm globals.
    pub(crate) elements: BTreeMap<(u32, Vec<Constant>), Summed>,
    /// What the runs of regions add to sums.
    pub(crate) parts: BTreeMap<Sum, Vec<Part>>,
    /// Counters of choices that fall otherwise, as global variables, by what each undoes and what
    /// it does.
    pub(crate) otherwise: HashMap<[Increments; 2], u32>,
    /// What happens for sites before the program starts.
    pub(crate) first: Vec<(Option<(Storage, Ty)>, Expr)>,
    /// Sites at which frames' variables are reported: function, variable, where it is added up.
    pub(crate) framed: BTreeMap<(u32, u32), u32>,
}
