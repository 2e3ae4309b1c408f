//! Elements of maps that are only added to, at keys from a small range: each has a cell of its own until the report.
//!
//! To look an element up takes a hundred instructions, to add to a cell a dozen. Before the report, what has come together is added to the
//! map. Only what is larger than zero goes to cells, so that a cell is zero exactly if its element has not been touched.

use super::code::{Emitter, written};
use super::storage::{Storage, WORD, word};
use super::support::{Support, index};
use crate::hir::{Expr, ExprKind, Place};
use crate::range;
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, BTreeSet};

/// So many cells a row has at most.
const MOST: u64 = 4096;

/// Maps that may have cells, and the rows of cells that they have.
#[derive(Debug, Default)]
pub struct Cells {
    /// The handles of maps that nothing looks at until the report.
    maps: BTreeSet<u32>,
    /// The address of the first cell, by map and number of cells.
    rows: BTreeMap<(u32, u32), u32>,
}

/// The amount that an update adds, if it is sure to be seen in a sum of such.
pub(crate) fn rise(op: BinOp, value: &Expr) -> Option<i64> {
    match value.kind {
        ExprKind::Int(n) if op == BinOp::Add && value.ty.bits()?.0 >= 32 => {
            i32::try_from(n).ok().filter(|&n| n > 0).map(i64::from)
        }
        _ => None,
    }
}

impl Support {
    /// Lets a map have cells: nothing looks at it until the report.
    pub fn defer(&mut self, map: u32, ty: &Ty) {
        if self.core_pair(ty).is_none() {
            self.cells.maps.insert(map);
        }
    }

    /// A row of cells of a map.
    fn row_of_cells(&mut self, map: u32, count: u32) -> u32 {
        if let Some(&at) = self.cells.rows.get(&(map, count)) {
            return at;
        }
        let at = self.bytes(&vec![0; (count * WORD) as usize], WORD as usize);
        self.cells.rows.insert((map, count), at);
        at
    }
}

impl Emitter<'_> {
    /// Adds to the cell of an element, if it can have one.
    pub(super) fn add_to_cell(&mut self, place: &Place, op: BinOp, value: &Expr) -> bool {
        let (Place::Element(map, key), true) = (place, self.scope.running) else { return false };
        let ExprKind::Var(var) = map.kind else { return false };
        let Storage::Constant(handle) = self.storage(var) else { return false };
        let (key, amount) = (self.fold(key), rise(op, &self.fold(value)));
        let count = range::most(&key).filter(|&most| most < MOST).and_then(|most| u32::try_from(most + 1).ok());
        let (Some(amount), Some(count), true) = (amount, count, self.support.cells.maps.contains(&handle)) else { return false };
        let cell = word(self.support.row_of_cells(handle, count), self.memory());
        let at = self.locals.take(wasm_encoder::ValType::I32);
        self.value(&key);
        if key.ty.wide() {
            self.put().i32_wrap_i64();
        }
        self.put().i32_const(3).i32_shl().local_tee(at).local_get(at).i64_load(cell);
        self.put().i64_const(amount).i64_add().i64_store(cell);
        true
    }

    /// Adds what has come together in cells to the maps.
    pub fn settle_cells(&mut self) {
        let rows = std::mem::take(&mut self.support.cells.rows);
        if rows.is_empty() {
            return;
        }
        let table: Vec<u8> = rows.iter().flat_map(|(&(map, count), &at)| [map, at, count]).flat_map(u32::to_le_bytes).collect();
        let (at, settle) = (self.support.bytes(&table, 4), self.support.runtime("settle"));
        written(self.put().i32_const(at.cast_signed()).i32_const(index(rows.len()).cast_signed()).call(settle));
    }
}
