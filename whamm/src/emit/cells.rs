//! Scalar-replaced map entries: elements that are only added to, at keys from a small range, each
//! have a cell of their own until the report.
//!
//! Looking up an element takes a hundred instructions, adding to a cell a dozen. Before the report,
//! the amounts in cells are added to the map. Only positive amounts are added to cells, so that a
//! cell is zero exactly if its element has not been touched.

use super::code::{Emitter, written};
use super::storage::{Storage, WORD, word};
use super::support::{Support, index};
use crate::events::Bound;
use crate::hir::{Expr, ExprKind, Place, Program, Stmt, Var};
use crate::range;
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, HashSet};

/// The maximum number of cells in a row of a global map: one for each page of a memory of 32 bits.
const MOST: u64 = 1 << 16;

/// The maximum for a site's map, of which there are many: in a program, and after a record.
const MOST_OF_SITE: u64 = 1 << 12;
const MOST_OF_RECORD: u64 = 1 << 8;

/// The size of a row's head after a record: the next row, its map, the first cell, the number of
/// cells.
const HEAD: u32 = 16;

/// The row of cells that follows a site's record.
#[derive(Clone, Debug)]
pub(crate) struct SiteRow {
    /// The variable of the site that holds the map.
    pub variable: u32,
    /// The offset of the row in the record.
    pub at: u32,
    /// The largest key, which is known when the site is matched.
    pub largest: Expr,
}

/// Maps that may have cells, and the rows of cells that they have.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// The handles of maps that are not read until the report, and the maximum number of cells in
    /// each of their rows.
    maps: BTreeMap<u32, u64>,
    /// The address of the first cell, by map and number of cells.
    rows: BTreeMap<(u32, u32), u32>,
}

/// The amount that an update adds, if a cell can hold it: a positive amount that cannot wrap to
/// zero.
pub(crate) fn rise(op: BinOp, value: &Expr) -> Option<i64> {
    match value.kind {
        ExprKind::Int(n) if op == BinOp::Add && value.ty.bits()?.0 >= 32 => {
            i32::try_from(n).ok().filter(|&n| n > 0).map(i64::from)
        }
        _ => None,
    }
}

/// The largest value of a key, if it is known when a site is matched: a small constant, or the
/// default label of a `br_table`.
fn largest(key: &Expr) -> Option<Expr> {
    if let Some(most) = range::most(key) {
        return (most < MOST_OF_RECORD).then(|| Expr {
            kind: ExprKind::Int(most.into()),
            ty: Ty::U32,
            span: key.span,
        });
    }
    let ExprKind::Choice(three) = &key.kind else { return None };
    let [cond, yes, no] = &**three;
    let ExprKind::Binary(BinOp::Lt, number, end) = &cond.kind else { return None };
    let is_cut_off = !number.ty.signed() && number.same(yes) && end.same(no);
    (is_cut_off && end.kind == ExprKind::Bound(Bound::NumTargets)).then(|| (**end).clone())
}

/// The row that follows a site's record, which ends at `at`. It belongs to the first map in `free`
/// that is added to at suitable keys.
pub(crate) fn site_row(stmts: &[Stmt], at: u32, free: impl Fn(u32) -> bool) -> Option<SiteRow> {
    let mut found = None;
    for stmt in stmts {
        stmt.visit(&mut |stmt| {
            let Stmt::Update(Place::Element(map, key), op, value) = stmt else { return };
            let ExprKind::Var(Var::Site(variable)) = map.kind else { return };
            if found.is_none() && rise(*op, value).is_some() && free(variable) {
                found = largest(key).map(|largest| SiteRow { variable, at, largest });
            }
        });
    }
    found
}

impl Support {
    /// Allows cells for the map of a site: it is not read until the report.
    pub(crate) fn defer(&mut self, map: u32, ty: &Ty) {
        self.defer_up_to(map, ty, MOST_OF_SITE);
    }

    fn defer_up_to(&mut self, map: u32, ty: &Ty, most: u64) {
        if self.core_pair(ty).is_none() {
            self.cells.maps.insert(map, most);
        }
    }

    /// Allows cells for those global maps that are only added to.
    pub(crate) fn defer_all(
        &mut self,
        program: &Program,
        globals: &[Storage],
        added_only: &HashSet<u32>,
    ) {
        for (n, (storage, variable)) in (0..).zip(globals.iter().zip(&program.globals)) {
            if let (Storage::Constant(map), true) = (storage, added_only.contains(&n)) {
                self.defer_up_to(*map, &variable.ty, MOST);
            }
        }
    }

    /// The address of a map's row with a number of cells, which is created if there is none.
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
        let (key, amount) = (self.fold(key), rise(op, &self.fold(value)));
        let Some(amount) = amount else { return false };
        let Some((base, row)) = self.row_for(var, &key) else { return false };
        let cell = word(row, self.memory());
        let at = self.locals.take(wasm_encoder::ValType::I32);
        self.value(&key);
        if key.ty.wide() {
            self.put().i32_wrap_i64();
        }
        self.put().i32_const(3).i32_shl();
        if let Some(base) = base {
            self.put().local_get(base).i32_add();
        }
        self.put().local_tee(at).local_get(at).i64_load(cell);
        self.put().i64_const(amount).i64_add().i64_store(cell);
        true
    }

    /// The row of a map that has a cell for such a key: a local with a base address, if there is
    /// one, and an offset.
    fn row_for(&mut self, map: Var, key: &Expr) -> Option<(Option<u32>, u32)> {
        match (self.storage(map), &self.scope.row) {
            (Storage::Constant(handle), _) => {
                let most = *self.support.cells.maps.get(&handle)?;
                let count = range::most(key)
                    .filter(|&largest| largest < most)
                    .and_then(|largest| u32::try_from(largest + 1).ok())?;
                Some((None, self.support.row_of_cells(handle, count)))
            }
            (Storage::Memory(Some(record), _), Some(row)) if Var::Site(row.variable) == map => {
                largest(key)?.same(&row.largest).then_some((Some(record), row.at + HEAD))
            }
            _ => None,
        }
    }

    /// Initialises the row after a new record: its head refers to its map. Rows are chained from a
    /// global.
    pub(crate) fn begin_row(&mut self, row: &SiteRow, record: u32, map: u32, chain: u32) {
        let memory = self.memory();
        let at = |n: u32| word(row.at + n, memory);
        self.put().local_get(record).global_get(chain).i32_store(at(0));
        self.put().local_get(record).local_get(record).i32_load(word(map, memory)).i32_store(at(4));
        self.put()
            .local_get(record)
            .local_get(record)
            .i32_const((row.at + HEAD).cast_signed())
            .i32_add()
            .i32_store(at(8));
        self.put().local_get(record);
        self.count_of(row);
        self.put().i32_store(at(12));
        self.put().local_get(record).i32_const(row.at.cast_signed()).i32_add().global_set(chain);
    }

    /// Pushes the size of a record in bytes, including its row.
    pub(crate) fn size_with(&mut self, row: &SiteRow) {
        self.count_of(row);
        self.put().i32_const(3).i32_shl().i32_const((row.at + HEAD).cast_signed()).i32_add();
    }

    /// Pushes the number of cells in a row.
    fn count_of(&mut self, row: &SiteRow) {
        self.value(&row.largest);
        if row.largest.ty.wide() {
            self.put().i32_wrap_i64();
        }
        self.put().i32_const(1).i32_add();
    }

    /// Adds the amounts in cells to the maps; rows of sites are chained from a global, if there are
    /// any.
    pub(crate) fn settle_cells(&mut self, chain: Option<u32>) {
        if let Some(chain) = chain {
            let settle = self.support.runtime("settle_chain");
            self.put().global_get(chain).call(settle);
        }
        let rows = std::mem::take(&mut self.support.cells.rows);
        if rows.is_empty() {
            return;
        }
        let table: Vec<u8> = rows
            .iter()
            .flat_map(|(&(map, count), &at)| [map, at, count])
            .flat_map(u32::to_le_bytes)
            .collect();
        let (at, settle) = (self.support.bytes(&table, 4), self.support.runtime("settle"));
        written(
            self.put()
                .i32_const(at.cast_signed())
                .i32_const(index(rows.len()).cast_signed())
                .call(settle),
        );
    }
}
