//! Counting by regions instead of by instructions.
//!
//! An addition to a variable that is not read while the program runs need not be made at each
//! instruction: it is enough to count, at the beginning of a region of code, how often control runs
//! through it. The sums are computed from these counts when the report is due, so two regions never
//! depend on each other's sums. A region ends before an instruction that control can reach from
//! elsewhere, and after one that may not continue: a branch, a call, a certain trap. Sites whose
//! counters would always be equal share one.

use crate::emit::counters::Reach;
use crate::events::Event;
use crate::hir::{Body, Expr, ExprKind, Place, Program, Stmt, Var};
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use wasm_encoder::{InstructionSink, ValType};
use whamm_rewrite::Spot;

/// A counter, and whether it is an i64.
pub(crate) type Sum = (u32, bool);

/// Amounts added to sums.
pub(crate) type Increments = Vec<(Sum, i64)>;

/// An element of a map that is summed in a Wasm global until the report.
#[derive(Clone, Debug)]
pub(crate) struct Summed {
    pub(crate) map: Expr,
    pub(crate) key: Expr,
    pub(crate) sum: Sum,
}

/// A constant part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Constant {
    Int(i64),
    Bool(bool),
    Str(Rc<str>),
}

/// The parts of a key, if all of them are constant.
pub(crate) fn constants(key: &Expr) -> Option<Vec<Constant>> {
    Some(match &key.kind {
        ExprKind::Int(n) => vec![Constant::Int(i64::try_from(*n).ok()?)],
        ExprKind::Bool(truth) => vec![Constant::Bool(*truth)],
        ExprKind::Str(text) => vec![Constant::Str(Rc::clone(text))],
        ExprKind::Tuple(parts) => parts.iter().map(constants).collect::<Option<Vec<_>>>()?.concat(),
        _ => return None,
    })
}

/// The contribution of a region's runs to a sum: a counter of the runs, and an amount for each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// How often the region was run.
    pub(crate) runs: Sum,
    /// The amount that each run adds.
    pub(crate) amount: i64,
}

/// A region.
#[derive(Debug, Default)]
pub(crate) struct Region {
    /// Where in the code it is counted.
    pub(crate) at: Spot,
    /// The sums that its runs add to, and the amounts.
    pub(crate) sums: BTreeMap<Sum, i64>,
    /// Counters that each run increments: their amounts, types and numbers.
    counters: BTreeMap<(i64, bool), u32>,
}

impl Region {
    /// A region that begins at a place in the code.
    pub(crate) fn new(at: Spot) -> Self {
        Self { at, ..Self::default() }
    }

    /// Adds an amount to a sum.
    pub(crate) fn add(&mut self, sum: Sum, amount: i64) {
        let entry = self.sums.entry(sum).or_default();
        *entry = entry.wrapping_add(amount);
    }

    /// A counter that grows by an amount: an existing one of another site, or a new one.
    pub(crate) fn counter(&mut self, amount: i64, wide: bool, new: impl FnOnce() -> u32) -> u32 {
        *self.counters.entry((amount, wide)).or_insert_with(new)
    }

    /// Whether its runs only add to sums, without counters of their own.
    pub(crate) fn is_plain(&self) -> bool {
        self.counters.is_empty()
    }

    /// The code that counts.
    pub(crate) fn code(&self, reach: Reach) -> Vec<u8> {
        self.counters
            .iter()
            .flat_map(|(&(amount, wide), &counter)| increase((counter, wide), amount, reach))
            .collect()
    }
}

/// The type of a sum.
pub(crate) fn slot(wide: bool) -> ValType {
    if wide { ValType::I64 } else { ValType::I32 }
}

/// The code that adds to a sum.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what an i32 keeps")]
pub(crate) fn increase((counter, wide): Sum, amount: i64, reach: Reach) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = InstructionSink::new(&mut bytes);
    let slot = slot(wide);
    reach.ready(&mut put, counter);
    reach.get(&mut put, counter, slot);
    if wide {
        put.i64_const(amount).i64_add();
    } else {
        put.i32_const(amount as i32).i32_add();
    }
    reach.set(&mut put, counter, slot);
    bytes
}

/// The code of a function that returns what runs have added to a sum; `parts` is not empty.
pub(crate) fn total(parts: &[Part], wide: bool, reach: Reach) -> wasm_encoder::Function {
    let mut body = wasm_encoder::Function::new([]);
    let mut put = body.instructions();
    push(&mut put, parts, wide, reach);
    put.end();
    body
}

/// Pushes the total of the parts.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what an i32 keeps")]
pub(crate) fn push(put: &mut InstructionSink<'_>, parts: &[Part], wide: bool, reach: Reach) {
    for (n, part) in parts.iter().enumerate() {
        reach.get(put, part.runs.0, slot(part.runs.1));
        match (part.runs.1, wide) {
            (true, false) => {
                put.i32_wrap_i64();
            }
            (false, true) => {
                put.i64_extend_i32_u();
            }
            _ => {}
        }
        match (wide, part.amount) {
            (true, -1) if n > 0 => {
                put.i64_sub();
            }
            (false, -1) if n > 0 => {
                put.i32_sub();
            }
            (_, amount) => {
                match (wide, amount) {
                    (_, 1) => {}
                    (true, amount) => {
                        put.i64_const(amount).i64_mul();
                    }
                    (false, amount) => {
                        put.i32_const(amount as i32).i32_mul();
                    }
                }
                match (n, wide) {
                    (0, _) => {}
                    (_, true) => {
                        put.i64_add();
                    }
                    (_, false) => {
                        put.i32_add();
                    }
                }
            }
        }
    }
}

/// The amount that a statement adds, if it only adds a constant to a number of at least 32 bits.
pub(crate) fn addition(stmt: &Stmt) -> Option<(&Place, i64)> {
    let Stmt::Update(place, op, Expr { kind: ExprKind::Int(n), ty, .. }) = stmt else {
        return None;
    };
    if ty.bits()?.0 < 32 {
        return None;
    }
    let amount = i64::try_from(ty.wrap(*n)).unwrap_or_else(|_| i128_low(*n));
    match op {
        BinOp::Add => Some((place, amount)),
        BinOp::Sub => Some((place, amount.wrapping_neg())),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are the value")]
fn i128_low(n: i128) -> i64 {
    n as i64
}

/// Whether a type is a number that is summed in an i64.
pub(crate) fn is_wide(ty: &Ty) -> bool {
    ty.slots() == [ValType::I64]
}

/// Global variables to which sites only add.
pub(crate) fn added_only(program: &Program) -> HashSet<u32> {
    let mut read = HashSet::new();
    let mut spot = |e: &Expr| {
        if let ExprKind::Var(Var::Global(n)) = e.kind {
            read.insert(n);
        }
    };
    for probe in
        program.probes.iter().filter(|p| !matches!(p.matched.event, Event::Report | Event::End))
    {
        reads(&probe.body, &mut spot);
    }
    for function in &program.functions {
        function.stmts.iter().for_each(|s| stmt_reads(s, &mut spot));
    }
    (0..u32::try_from(program.globals.len()).unwrap_or(0)).filter(|n| !read.contains(n)).collect()
}

/// Whether a body only adds to a variable of its sites.
pub(crate) fn is_added_only(body: &Body, variable: u32) -> bool {
    let mut read = false;
    reads(body, &mut |e| read |= e.kind == ExprKind::Var(Var::Site(variable)));
    !read
}

fn reads(body: &Body, spot: &mut dyn FnMut(&Expr)) {
    for e in body
        .predicate
        .iter()
        .chain(&body.inits)
        .chain(body.sites.iter().filter_map(|s| s.init.as_ref()))
    {
        e.walk(spot);
    }
    body.stmts.iter().for_each(|s| stmt_reads(s, spot));
}

/// Visits what a statement reads or sets, except for the place that it only adds to.
fn stmt_reads(stmt: &Stmt, spot: &mut dyn FnMut(&Expr)) {
    stmt.visit(&mut |s| match s {
        Stmt::Update(place, BinOp::Add | BinOp::Sub, value) => {
            value.walk(spot);
            match place {
                Place::Var(..) => {}
                Place::Element(map, key) if matches!(map.kind, ExprKind::Var(_)) => key.walk(spot),
                other => place_reads(other, spot),
            }
        }
        Stmt::Update(place, _, value) | Stmt::Assign(place, value) => {
            value.walk(spot);
            place_reads(place, spot);
        }
        Stmt::Declare(_, Some(e))
        | Stmt::Do(e)
        | Stmt::Return(Some(e))
        | Stmt::If(e, ..)
        | Stmt::Each(_, _, e, _)
        | Stmt::While(e, ..) => e.walk(spot),
        Stmt::Count(_, a, b, _) => {
            a.walk(spot);
            b.walk(spot);
        }
        _ => {}
    });
}

fn place_reads(place: &Place, spot: &mut dyn FnMut(&Expr)) {
    match place {
        Place::Var(var, ty) => spot(&Expr {
            kind: ExprKind::Var(*var),
            ty: ty.clone(),
            span: crate::source::Span::default(),
        }),
        Place::Bound(..) => {}
        Place::Field(inner, _) => place_reads(inner, spot),
        Place::Element(map, key) => {
            map.walk(spot);
            key.walk(spot);
        }
    }
}
