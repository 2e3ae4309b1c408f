//! Translates table instructions: words are read and written in place; the runtime does the rest.

use super::function::Translator;
use crate::trap::Trap;
use crate::vm::{Builtin, at};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, condcodes::IntCC, types};

impl Translator<'_> {
    /// Where the [`Table`](crate::vm::Table) is.
    fn table_at(&mut self, table: u32) -> (Value, i32) {
        match self.layout.table(table) {
            (offset, false) => (self.vmctx, offset),
            (offset, true) => (self.fixed_word(offset), 0),
        }
    }

    fn table_len(&mut self, table: u32) -> Value {
        let (at, offset) = self.table_at(table);
        let flags = self.changing();
        self.builder.ins().load(types::I64, flags, at, offset + at::TABLE_LEN)
    }

    /// The address of an element, and whether the index lies outside.
    fn element_address(&mut self, table: u32, index: Value, trap: Trap) -> Value {
        let index = self.widened(index);
        let len = self.table_len(table);
        let outside = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, len);
        let (at, offset) = self.table_at(table);
        let flags = self.changing();
        let base = self.builder.ins().load(types::I64, flags, at, offset + at::TABLE_BASE);
        let place = self.builder.ins().ishl_imm_u(index, 3);
        let address = self.builder.ins().iadd(base, place);
        if !self.target.options.spectre {
            self.trap_if(outside, trap);
            return address;
        }
        let null = self.builder.ins().iconst(types::I64, 0);
        self.builder.ins().select_spectre_guard(outside, null, address)
    }

    /// The element at `index`; `trap` if there is none.
    pub(super) fn table_element(&mut self, table: u32, index: Value, trap: Trap) -> Value {
        let address = self.element_address(table, index, trap);
        let flags = self.element_flags(trap);
        self.builder.ins().load(types::I64, flags, address, 0)
    }

    fn element_flags(&self, trap: Trap) -> MemFlagsData {
        MemFlagsData::new()
            .with_aligned()
            .with_alias_region(Some(self.regions.table))
            .with_trap_code(Some(trap.code()))
    }

    pub(super) fn table_get(&mut self, table: u32) {
        let index = self.pop();
        let element = self.table_element(table, index, Trap::TableOutOfBounds);
        self.push(element);
    }

    pub(super) fn table_set(&mut self, table: u32) {
        let (index, element) = self.pop2();
        let address = self.element_address(table, index, Trap::TableOutOfBounds);
        let flags = self.element_flags(Trap::TableOutOfBounds);
        self.builder.ins().store(flags, element, address, 0);
    }

    pub(super) fn table_size(&mut self, table: u32) {
        let len = self.table_len(table);
        let len = self.narrowed(len, self.info.tables[table as usize].wide);
        self.push(len);
    }

    pub(super) fn table_grow(&mut self, table: u32) {
        let (element, count) = self.pop2();
        let (count, index) = (self.widened(count), self.number(table));
        let before = self.growth(Builtin::TableGrow, &[index, count, element]);
        let before = self.narrowed(before, self.info.tables[table as usize].wide);
        self.push(before);
    }

    pub(super) fn table_fill(&mut self, table: u32) {
        let (place, element, count) = self.pop3();
        let (place, count, table) = (self.widened(place), self.widened(count), self.number(table));
        self.checked_builtin(
            Builtin::TableFill,
            &[table, place, element, count],
            Trap::TableOutOfBounds,
        );
    }

    pub(super) fn table_copy(&mut self, to: u32, from: u32) {
        let (place, source, count) = self.pop3();
        let (place, source, count) =
            (self.widened(place), self.widened(source), self.widened(count));
        let (to, from) = (self.number(to), self.number(from));
        self.checked_builtin(
            Builtin::TableCopy,
            &[to, place, from, source, count],
            Trap::TableOutOfBounds,
        );
    }

    pub(super) fn table_init(&mut self, segment: u32, table: u32) {
        let (place, source, count) = self.pop3();
        let (place, source, count) =
            (self.widened(place), self.widened(source), self.widened(count));
        let (table, segment) = (self.number(table), self.number(segment));
        self.checked_builtin(
            Builtin::TableInit,
            &[table, segment, place, source, count],
            Trap::TableOutOfBounds,
        );
    }

    pub(super) fn element_drop(&mut self, segment: u32) {
        let segment = self.number(segment);
        self.builtin(Builtin::ElementDrop, &[segment]);
    }
}
