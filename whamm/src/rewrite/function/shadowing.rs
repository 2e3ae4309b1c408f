//! Keeps shadows of tables up to date with the program's instructions, and looks up which function
//! an entry holds.

use super::super::shadow::{self, Reference};
use super::*;

/// Operands of an instruction that changes a table, kept until it is done.
pub(super) struct Change {
    operands: Vec<(u32, ValType)>,
    reference: Reference,
}

impl<'a> Walker<'_, 'a> {
    /// What is known of the reference that an instruction uses.
    pub(super) fn reference(&self, i: usize) -> Reference {
        if let (O::TableSet { .. }, Some((at, local))) = (&self.ops[i].operator, self.got)
            && at + 1 == i
        {
            return Reference::Entry(local);
        }
        shadow::reference(&self.ops[i].operator, self.ops[..i].iter().rev().map(|op| &op.operator))
    }

    /// Pushes a function's index as probes see it: -1 if it is not known.
    pub(super) fn put_reference(&mut self, reference: Reference) {
        match reference {
            Reference::Function(function) => self.put().i32_const(function.cast_signed()),
            Reference::Entry(local) => self.put().local_get(local),
            Reference::Null | Reference::Unknown => self.put().i32_const(-1),
        };
    }

    /// Pushes an operand as 32 bits: a larger value becomes an entry that no table has.
    pub(super) fn put_index(&mut self, (local, ty): (u32, ValType)) {
        if ty != ValType::I64 {
            self.put().local_get(local);
            return;
        }
        self.put().local_get(local).i32_wrap_i64().i32_const(-1);
        self.put().local_get(local).i64_const(0xffff_ffff).i64_lt_u().select();
    }

    /// Saves the operands of an instruction that changes a table or uses up a segment, if a probe
    /// depends on it.
    pub(super) fn before_change(&mut self, i: usize) -> Option<Change> {
        if !self.r.tables.shadows.changing {
            return None;
        }
        let operator = self.ops[i].operator.clone();
        let copies = matches!(operator, O::TableGet { .. })
            && matches!(self.ops.get(i + 1).map(|op| &op.operator), Some(O::TableSet { .. }));
        let changes = matches!(
            operator,
            O::TableSet { .. }
                | O::TableGrow { .. }
                | O::TableFill { .. }
                | O::TableCopy { .. }
                | O::TableInit { .. }
        );
        if !copies && !changes {
            return None;
        }
        let reference = if copies { Reference::Unknown } else { self.reference(i) };
        let types = self.stack(self.takes(i));
        let types: Vec<ValType> = types.iter().map(|&t| self.val(t)).collect();
        let operands: Vec<(u32, ValType)> =
            types.into_iter().map(|t| (self.locals.take(t), t)).collect();
        for &(local, _) in &operands {
            self.put().local_set(local);
        }
        for &(local, _) in operands.iter().rev() {
            self.put().local_get(local);
        }
        Some(Change { operands, reference })
    }

    /// After the instruction, updates the shadow of its table.
    pub(super) fn after_change(&mut self, i: usize, change: Option<Change>) {
        let Some(Change { operands, reference }) = change else { return };
        match self.ops[i].operator {
            O::TableGet { table } => {
                let local = self.locals.keep(ValType::I32);
                self.put_shadow(table);
                self.put_index(operands[0]);
                self.shadow_call("fid_get");
                self.put().local_set(local);
                self.got = Some((i, local));
            }
            O::TableSet { table } => {
                self.put_shadow(table);
                self.put_index(operands[1]);
                self.put_reference(reference);
                self.put().i32_const(1);
                self.shadow_call("fid_fill");
            }
            O::TableFill { table } => {
                self.put_shadow(table);
                self.put_index(operands[2]);
                self.put_reference(reference);
                self.put_index(operands[0]);
                self.shadow_call("fid_fill");
            }
            O::TableGrow { table } => self.grown(table, operands[0], reference),
            O::TableCopy { dst_table, src_table } => {
                self.put_shadow(dst_table);
                self.put_index(operands[2]);
                self.put_shadow(src_table);
                self.put_index(operands[1]);
                self.put_index(operands[0]);
                self.shadow_call("fid_copy");
            }
            O::TableInit { elem_index, table } => {
                let (at, len) = self.r.segment_entries(elem_index);
                self.put_shadow(table);
                self.put_index(operands[2]);
                self.put().i32_const(at.cast_signed()).i32_const(len.cast_signed());
                self.put_index(operands[1]);
                self.put_index(operands[0]);
                self.shadow_call("fid_init");
            }
            _ => {}
        }
    }

    fn put_shadow(&mut self, table: u32) {
        let shadow = self.r.shadow(table);
        self.put().i32_const(shadow.cast_signed());
    }

    fn shadow_call(&mut self, name: &str) {
        let callee = self.r.support.runtime(name);
        self.put().call(callee);
    }

    /// The old size is on the stack, and stays there. A table that could not grow is unchanged.
    fn grown(&mut self, table: u32, count: (u32, ValType), reference: Reference) {
        let size = (self.locals.take(count.1), count.1);
        self.put().local_tee(size.0).local_get(size.0);
        if size.1 == ValType::I64 {
            self.put().i64_const(-1).i64_ne().if_(BlockType::Empty);
        } else {
            self.put().i32_const(-1).i32_ne().if_(BlockType::Empty);
        }
        self.put_shadow(table);
        self.put_index(size);
        self.put_reference(reference);
        self.put_index(count);
        self.shadow_call("fid_fill");
        self.put().end();
    }

    /// Writes an instruction of the program, and updates the shadows and the lengths of segments.
    pub(super) fn write_op(&mut self, i: usize) {
        let change = if self.reachable() { self.before_change(i) } else { None };
        match self.relabelled(i, 0) {
            Some(code) => {
                self.plan.leave_out(self.ops[i].place());
                self.plan.code.extend(code);
            }
            None => self.plan.keep(self.ops[i].place()),
        }
        self.after_change(i, change);
        self.dropped(i);
    }

    /// The index of the function that an instruction is about to use, or -1 if it is not known.
    pub(super) fn resolved(
        &mut self,
        i: usize,
        operand: Option<(u32, ValType)>,
    ) -> Option<Storage> {
        let local = self.locals.take(ValType::I32);
        let Some(table) = table_of(&self.ops[i].operator) else {
            let reference = self.reference(i);
            self.put_reference(reference);
            self.put().local_set(local);
            return Some(Storage::Locals(local));
        };
        self.entry(table, operand?);
        self.put().local_set(local);
        Some(Storage::Locals(local))
    }

    /// Pushes the function that an entry of a table holds, or -1.
    pub(super) fn entry(&mut self, table: u32, operand: (u32, ValType)) {
        let (memory, imported) =
            (self.r.support.layout().memory, table < self.r.app.imported_tables);
        if self.r.tables.shadows.changing || imported {
            let (shadow, get) = (self.r.shadow(table), self.r.support.runtime("fid_get"));
            self.put().i32_const(shadow.cast_signed());
            self.put_index(operand);
            self.put().call(get);
            return;
        }
        // A table that never changes is looked up inline.
        let (at, len) = *self.r.tables.fixed.get(&table).unwrap_or(&(0, 0));
        let (at, len) = if self.r.tables.fixed.contains_key(&table) {
            (at, len)
        } else {
            self.r.first_entries(table)
        };
        self.r.tables.fixed.insert(table, (at, len));
        self.put_index(operand);
        self.put().i32_const(len.cast_signed()).i32_lt_u().if_(BlockType::Result(ValType::I32));
        self.put_index(operand);
        self.put()
            .i32_const(2)
            .i32_shl()
            .i32_load(crate::emit::storage::word(at, memory))
            .i32_const(1)
            .i32_sub();
        self.put().else_().i32_const(-1).end();
    }
}
