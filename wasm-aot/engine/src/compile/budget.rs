//! Emits the code that charges budgets of instructions.
//!
//! An instruction whose effect is visible outside of its activation, such as a store, a call or a
//! branch, is charged before it is executed, together with those before it in its *row*, which only
//! compute. Code stops there if the budget does not suffice: no effect is visible of an instruction
//! that the budget did not suffice for, as if the code had stopped at the first of those.
//!
//! ```text
//!    local.get 0     ┐
//!    i32.const 8     │  a row of three: paid for before the store
//!    i32.store       ┘
//!    local.get 1     ┐  a row of one: paid for where control joins others
//!    end             ┘  the first of the next row
//! ```
//!
//! Hooks see an instruction, so it ends a row where it has any. Otherwise the ends of rows depend
//! on the instructions alone. So a function is read once more to find the instructions that a trap
//! has left uncharged in the middle of a row, and the first instruction of a row that the budget
//! did not suffice for.

use super::access::Access;
use super::function::Translator;
use super::patchable_site;
use crate::trap::Trap;
use crate::vm::at;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, condcodes::IntCC, types};
use serde::{Deserialize, Serialize};
use wasmparser::{FunctionBody, Operator};

/// Whether code charges its instructions to a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Budget {
    /// It does not charge: it is not executed in a store that has a budget.
    #[default]
    Unknown,
    /// It charges its store's budget.
    Pays,
    /// It is not a program, and is executed also in stores that have a budget.
    Exempt,
}

/// The offsets in the module of the instructions that are not charged yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetRow {
    unpaid: Vec<u32>,
    /// Whether locals are visible because frames can be read.
    shows_locals: bool,
}

/// The row that an instruction is in.
#[derive(Clone, Debug)]
pub(crate) struct Unpaid {
    /// The instructions up to that one.
    pub(crate) row: Vec<u32>,
    /// Whether they are charged before it is executed.
    pub(crate) is_due: bool,
}

impl BudgetRow {
    pub(super) fn new(shows_locals: bool) -> Self {
        Self { unpaid: Vec::new(), shows_locals }
    }

    /// Control reaches `op`: how many instructions have to be charged before it joins control from
    /// other blocks.
    fn join(&mut self, op: &Operator<'_>) -> usize {
        if joins(op) { std::mem::take(&mut self.unpaid).len() } else { 0 }
    }

    /// `op` is executed next: how many instructions have to be charged before, including itself.
    fn take(&mut self, op: &Operator<'_>, at: u32, is_hooked: bool) -> usize {
        self.unpaid.push(at);
        let is_due = is_hooked || self.is_seen(op);
        if is_due { std::mem::take(&mut self.unpaid).len() } else { 0 }
    }

    /// The row of the instruction at `at`, if the function has it.
    pub(crate) fn of(
        body: &FunctionBody<'_>,
        at: u32,
        shows_locals: bool,
        is_hooked: impl Fn(u32) -> bool,
    ) -> Option<Unpaid> {
        let mut reader = body.get_operators_reader().ok()?;
        let mut row = Self::new(shows_locals);
        while !reader.eof() {
            let (op, offset) = reader.read_with_offset().ok()?;
            let here = offset as u32;
            row.join(&op);
            if here == at {
                row.unpaid.push(here);
                let is_due = is_hooked(here) || row.is_seen(&op);
                return Some(Unpaid { is_due, row: row.unpaid });
            }
            row.take(&op, here, is_hooked(here));
        }
        None
    }

    fn is_seen(&self, op: &Operator<'_>) -> bool {
        is_seen(op)
            || self.shows_locals
                && matches!(op, Operator::LocalSet { .. } | Operator::LocalTee { .. })
    }
}

/// Whether control may reach an instruction from other blocks.
fn joins(op: &Operator<'_>) -> bool {
    matches!(op, Operator::Loop { .. } | Operator::End | Operator::Delegate { .. })
}

/// Whether an instruction's effect is visible outside of its activation, or it transfers control.
/// All others compute, load or trap.
fn is_seen(op: &Operator<'_>) -> bool {
    match op {
        Operator::Else
        | Operator::Catch { .. }
        | Operator::CatchAll
        | Operator::BrOnCast { .. }
        | Operator::BrOnCastFail { .. }
        | Operator::Return
        | Operator::Throw { .. }
        | Operator::ThrowRef
        | Operator::Rethrow { .. }
        | Operator::Unreachable
        | Operator::GlobalSet { .. }
        | Operator::TableSet { .. }
        | Operator::TableGrow { .. }
        | Operator::TableFill { .. }
        | Operator::TableCopy { .. }
        | Operator::TableInit { .. }
        | Operator::ElemDrop { .. }
        | Operator::MemoryGrow { .. }
        | Operator::DataDrop { .. }
        | Operator::AtomicFence { .. }
        | Operator::MemoryAtomicNotify { .. }
        | Operator::MemoryAtomicWait32 { .. }
        | Operator::MemoryAtomicWait64 { .. } => true,
        _ => {
            patchable_site::is_call(op)
                || patchable_site::is_branch(op)
                || patchable_site::is_bulk(op)
                || Access::of(op).is_some_and(|access| access.writes)
        }
    }
}

impl Translator<'_> {
    /// Charges before `op`, at which control may join that from other blocks.
    pub(super) fn pay_before_joining(&mut self, op: &Operator<'_>) {
        if self.target.options.budget == Budget::Pays {
            let due = self.row.join(op);
            self.pay(due);
        }
    }

    /// Charges for `op`, which is executed next, or, if control joins there, was begun just now.
    pub(super) fn pay_for(&mut self, op: &Operator<'_>) {
        if self.target.options.budget == Budget::Pays {
            let at = self.offset as u32;
            let due = self.row.take(op, at, self.hooking.has_any_at(at));
            self.pay(due);
        }
    }

    /// Charges for the function's own end, which nothing follows.
    pub(super) fn pay_for_the_end(&mut self) {
        if self.target.options.budget == Budget::Pays {
            self.pay(1);
        }
    }

    /// Subtracts this many instructions from the budget, or stops.
    fn pay(&mut self, due: usize) {
        if due == 0 || !self.reachable {
            return;
        }
        let store = self.fixed_word(at::STORE);
        let flags = MemFlagsData::trusted().with_alias_region(Some(self.regions.counters));
        let left = self.builder.ins().load(types::I64, flags, store, at::BUDGET);
        let left = self.builder.ins().iadd_imm_s(left, -(due as i64));
        self.builder.ins().store(flags, left, store, at::BUDGET);
        let is_spent = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, left, 0);
        self.trap_if(is_spent, Trap::Budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each instruction of a function, how many are in its row up to it, and whether they are
    /// paid for before it.
    fn rows(body: &str) -> Vec<(usize, bool)> {
        let bytes = wat::parse_str(format!("(module (memory 1) (func $f (param i32) {body}))"))
            .expect("text");
        let mut found = Vec::new();
        for payload in wasmparser::Parser::new(0).parse_all(&bytes) {
            let wasmparser::Payload::CodeSectionEntry(body) = payload.expect("valid") else {
                continue;
            };
            for op in body.get_operators_reader().expect("a body").into_iter_with_offsets() {
                let (_, at) = op.expect("an instruction");
                let unpaid =
                    BudgetRow::of(&body, at as u32, false, |_| false).expect("it is there");
                assert_eq!(unpaid.row.last(), Some(&(at as u32)));
                found.push((unpaid.row.len(), unpaid.is_due));
            }
        }
        found
    }

    #[test]
    fn rows_end_with_what_is_seen_and_where_control_joins() {
        let straight = rows("local.get 0 i32.const 8 i32.store local.get 0 drop");
        assert_eq!(
            straight,
            [(1, false), (2, false), (3, true), (1, false), (2, false), (1, false)]
        );
        let looped = rows("loop local.get 0 br_if 0 nop end call $f");
        assert_eq!(
            looped,
            [(1, false), (2, false), (3, true), (1, false), (1, false), (2, true), (1, false)]
        );
        let condition = rows("local.get 0 if nop else nop end");
        assert_eq!(
            condition,
            [(1, false), (2, true), (1, false), (2, true), (1, false), (1, false), (1, false)]
        );
    }
}
