//! References: addresses, of which 0 is null.

use super::function::Translator;
use crate::error::CompileError;
use crate::trap::Trap;
use crate::types::HeapType;
use crate::vm::at;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, condcodes::IntCC, types};

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
        let place =
            self.info.reference_of(index).expect("every function that is referred to is declared");
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

    /// Branches if the reference on the stack, which stays there, is of a type; or if it is not.
    pub(super) fn branch_on_cast(
        &mut self,
        depth: u32,
        ty: wasmparser::RefType,
        when: bool,
    ) -> Result<(), CompileError> {
        let reference = *self.stack.last().expect("validated: a reference");
        let is = self.is_of(reference, ty.heap_type(), ty.is_nullable())?;
        let wanted = self.builder.ins().icmp_imm_s(IntCC::Equal, is, i64::from(when));
        self.branch_when(wanted, depth);
        Ok(())
    }

    /// Whether the reference on the stack is of a type.
    pub(super) fn ref_test(
        &mut self,
        heap: wasmparser::HeapType,
        nullable: bool,
    ) -> Result<(), CompileError> {
        let reference = self.pop();
        let is = self.is_of(reference, heap, nullable)?;
        self.push(is);
        Ok(())
    }

    /// Traps unless the reference on the stack is of a type.
    pub(super) fn ref_cast(
        &mut self,
        heap: wasmparser::HeapType,
        nullable: bool,
    ) -> Result<(), CompileError> {
        let reference = self.pop();
        let is = self.is_of(reference, heap, nullable)?;
        self.trap_unless(is, Trap::CastFailure);
        self.push(reference);
        Ok(())
    }

    /// 1 if a reference is of a type. Types have no subtypes, except for the abstract ones. Objects
    /// do not exist, so that a reference that could be to one is null.
    pub(super) fn is_of(
        &mut self,
        reference: Value,
        heap: wasmparser::HeapType,
        nullable: bool,
    ) -> Result<Value, CompileError> {
        let heap = crate::module::heap_type(heap, self.offset)?;
        let is_function =
            |index: u32| matches!(self.info.kinds[index as usize].as_str(), "" | "open ");
        let (of_null, of_others) = match heap {
            HeapType::Concrete(index) if is_function(index) => {
                return Ok(self.is_function_of(reference, index, nullable));
            }
            HeapType::Func | HeapType::Extern | HeapType::Exn | HeapType::Any => (nullable, true),
            _ => (nullable, false),
        };
        Ok(match (of_null, of_others) {
            (true, true) => self.builder.ins().iconst(types::I32, 1),
            (false, false) => self.builder.ins().iconst(types::I32, 0),
            (of_null, _) => {
                let condition = if of_null { IntCC::Equal } else { IntCC::NotEqual };
                let is = self.builder.ins().icmp_imm_s(condition, reference, 0);
                self.builder.ins().uextend(types::I32, is)
            }
        })
    }

    /// Types of functions are equal if their numbers are.
    fn is_function_of(&mut self, reference: Value, index: u32, nullable: bool) -> Value {
        let [of_function, behind] = [(); 2].map(|()| self.builder.create_block());
        let is = self.builder.append_block_param(behind, types::I32);
        let of_null = self.builder.ins().iconst(types::I32, i64::from(nullable));
        self.builder.ins().brif(reference, of_function, &[], behind, &[BlockArg::Value(of_null)]);
        self.builder.seal_block(of_function);
        self.builder.switch_to_block(of_function);
        let flags = MemFlagsData::trusted().with_readonly();
        let found = self.builder.ins().load(types::I32, flags, reference, at::FUNC_TYPE);
        let fixed = self.fixed();
        let wanted =
            self.builder.ins().load(types::I32, fixed, self.vmctx, self.layout.type_number(index));
        let equal = self.builder.ins().icmp(IntCC::Equal, found, wanted);
        let equal = self.builder.ins().uextend(types::I32, equal);
        self.builder.ins().jump(behind, &[BlockArg::Value(equal)]);
        self.builder.seal_block(behind);
        self.builder.switch_to_block(behind);
        is
    }
}
