//! Globals: words of the vmctx, or of the instance that defined them; constants if nothing can
//! change them.

use super::function::{Translator, machine_type};
use crate::module::ConstOp;
use cranelift_codegen::ir::{InstBuilder, Value, types};

impl Translator<'_> {
    pub(super) fn global_get(&mut self, index: u32) {
        let value = match self.constant_global(index) {
            Some(value) => value,
            None => {
                let ty = self.info.globals[index as usize];
                let (base, offset) = self.global_at(index);
                let flags = if ty.mutable { self.changing() } else { self.fixed() };
                self.builder.ins().load(machine_type(ty.content), flags, base, offset)
            }
        };
        self.push(value);
    }

    pub(super) fn global_set(&mut self, index: u32) {
        let value = self.pop();
        let value = self.plain(value);
        let (base, offset) = self.global_at(index);
        let flags = self.changing();
        self.builder.ins().store(flags, value, base, offset);
    }

    fn global_at(&mut self, index: u32) -> (Value, i32) {
        match self.layout.global(index) {
            (offset, false) => (self.vmctx, offset),
            (offset, true) => (self.fixed_word(offset), 0),
        }
    }

    /// The value of a global that never changes.
    fn constant_global(&mut self, index: u32) -> Option<Value> {
        let defined = index.checked_sub(self.info.imported.globals)?;
        if self.info.globals[index as usize].mutable {
            return None;
        }
        let [op] = self.info.global_inits[defined as usize].as_slice() else { return None };
        Some(match *op {
            ConstOp::I32(value) => self.builder.ins().iconst(types::I32, i64::from(value as u32)),
            ConstOp::I64(value) => self.builder.ins().iconst(types::I64, value),
            _ => return None,
        })
    }
}
