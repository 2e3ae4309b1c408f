//! References: addresses, of which 0 is null.

use super::function::Translator;
use crate::trap::Trap;
use cranelift_codegen::ir::{InstBuilder, condcodes::IntCC, types};

impl Translator<'_> {
    pub(super) fn ref_null(&mut self) {
        let null = self.builder.ins().iconst(types::I64, 0);
        self.push(null);
    }

    pub(super) fn ref_is_null(&mut self) {
        let reference = self.pop();
        let is_null = self.builder.ins().icmp_imm_s(IntCC::Equal, reference, 0);
        let is_null = self.builder.ins().uextend(types::I32, is_null);
        self.push(is_null);
    }

    pub(super) fn ref_func(&mut self, index: u32) {
        let place = self.info.reference_of(index).expect("every function that is referred to is declared");
        let offset = self.layout.reference(place);
        let reference = self.builder.ins().iadd_imm_s(self.vmctx, i64::from(offset));
        self.push(reference);
    }

    pub(super) fn ref_as_non_null(&mut self) {
        let reference = self.pop();
        self.trap_unless(reference, Trap::NullReference);
        self.push(reference);
    }

    pub(super) fn branch_on_null(&mut self, depth: u32) {
        let reference = self.pop();
        let is_null = self.builder.ins().icmp_imm_s(IntCC::Equal, reference, 0);
        self.branch_when(is_null, depth);
        self.push(reference);
    }

    pub(super) fn branch_on_non_null(&mut self, depth: u32) {
        let reference = *self.stack.last().expect("validated: a reference");
        self.branch_when(reference, depth);
        self.pop();
    }
}
