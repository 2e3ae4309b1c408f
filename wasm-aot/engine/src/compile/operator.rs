//! Dispatches each operator to the file that translates it.

use super::function::Translator;
use crate::error::CompileError;
use crate::trap::Trap;
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use wasm_aot_body::Way;
use wasmparser::Operator;

impl Translator<'_> {
    pub(super) fn operator(&mut self, op: &Operator<'_>) -> Result<(), CompileError> {
        if !self.reachable && !self.structural(op) {
            return Ok(());
        }
        match op {
            Operator::Block { blockty } => self.begin_block(*blockty)?,
            Operator::Loop { blockty } => self.begin_loop(*blockty)?,
            Operator::If { blockty } => self.begin_if(*blockty)?,
            Operator::Else => self.begin_else(),
            Operator::Try { blockty } => self.begin_try(*blockty)?,
            Operator::TryTable { try_table } => self.begin_try_table(try_table)?,
            Operator::Catch { tag_index } => self.catch(*tag_index),
            Operator::CatchAll => self.catch_all(),
            Operator::Delegate { relative_depth } => self.delegate(*relative_depth),
            Operator::End => self.end(),
            Operator::Nop => {}
            Operator::Unreachable => {
                self.count(Way::Thrown);
                self.trap_here(Trap::Unreachable);
            }
            Operator::Drop => drop(self.pop()),
            Operator::Select | Operator::TypedSelect { .. } => self.select(),
            Operator::Br { relative_depth } => self.branch(*relative_depth),
            Operator::BrIf { relative_depth } => self.branch_if(*relative_depth),
            Operator::BrTable { targets } => self.branch_table(targets)?,
            Operator::BrOnNull { relative_depth } => self.branch_on_null(*relative_depth),
            Operator::BrOnNonNull { relative_depth } => self.branch_on_non_null(*relative_depth),
            Operator::BrOnCast { relative_depth, to_ref_type, .. } => {
                self.branch_on_cast(*relative_depth, *to_ref_type, true)?;
            }
            Operator::BrOnCastFail { relative_depth, to_ref_type, .. } => {
                self.branch_on_cast(*relative_depth, *to_ref_type, false)?;
            }
            Operator::Return => self.return_(),
            Operator::Throw { tag_index } => self.throw(*tag_index),
            Operator::ThrowRef => self.throw_ref(),
            Operator::Rethrow { relative_depth } => self.rethrow(*relative_depth),
            _ => return self.straight(op),
        }
        Ok(())
    }

    /// Operators that do not transfer control.
    fn straight(&mut self, op: &Operator<'_>) -> Result<(), CompileError> {
        match op {
            Operator::LocalGet { local_index } => self.local_get(*local_index),
            Operator::LocalSet { local_index } => self.local_set(*local_index),
            Operator::LocalTee { local_index } => {
                let value = *self.stack.last().expect("validated: an operand");
                self.local_set(*local_index);
                self.push(value);
            }
            Operator::GlobalGet { global_index } => self.global_get(*global_index),
            Operator::GlobalSet { global_index } => self.global_set(*global_index),
            Operator::Call { function_index } => self.call(*function_index)?,
            Operator::CallIndirect { type_index, table_index } => {
                self.call_indirect(*type_index, *table_index);
            }
            Operator::CallRef { type_index } => self.call_ref(*type_index),
            Operator::ReturnCall { function_index } => self.return_call(*function_index)?,
            Operator::ReturnCallIndirect { type_index, table_index } => {
                self.return_call_indirect(*type_index, *table_index);
            }
            Operator::ReturnCallRef { type_index } => self.return_call_ref(*type_index),
            Operator::RefNull { .. } => self.ref_null(),
            Operator::RefIsNull => self.ref_is_null(),
            Operator::RefFunc { function_index } => self.ref_func(*function_index),
            Operator::RefAsNonNull => self.ref_as_non_null(),
            Operator::RefTestNonNull { hty } => self.ref_test(*hty, false)?,
            Operator::RefTestNullable { hty } => self.ref_test(*hty, true)?,
            Operator::RefCastNonNull { hty } => self.ref_cast(*hty, false)?,
            Operator::RefCastNullable { hty } => self.ref_cast(*hty, true)?,
            Operator::TableGet { table } => self.table_get(*table),
            Operator::TableSet { table } => self.table_set(*table),
            Operator::TableSize { table } => self.table_size(*table),
            Operator::TableGrow { table } => self.table_grow(*table),
            Operator::TableFill { table } => self.table_fill(*table),
            Operator::TableCopy { dst_table, src_table } => self.table_copy(*dst_table, *src_table),
            Operator::TableInit { elem_index, table } => self.table_init(*elem_index, *table),
            Operator::ElemDrop { elem_index } => self.element_drop(*elem_index),
            Operator::MemorySize { mem } => self.memory_size(*mem),
            Operator::MemoryGrow { mem } => self.memory_grow(*mem),
            Operator::MemoryFill { mem } => self.memory_fill(*mem),
            Operator::MemoryCopy { dst_mem, src_mem } => self.memory_copy(*dst_mem, *src_mem),
            Operator::MemoryInit { data_index, mem } => self.memory_init(*data_index, *mem),
            Operator::DataDrop { data_index } => self.data_drop(*data_index),
            _ if self.access(op) || self.numeric(op) => {}
            _ if self.vector(op)? || self.atomic(op)? => {}
            other => return Err(self.unsupported(crate::module::instruction_name(other))),
        }
        Ok(())
    }

    /// Loads and stores of numbers; returns whether it was one.
    fn access(&mut self, op: &Operator<'_>) -> bool {
        match op {
            Operator::I32Load { memarg } => self.load(memarg, I32),
            Operator::I64Load { memarg } => self.load(memarg, I64),
            Operator::F32Load { memarg } => self.load(memarg, F32),
            Operator::F64Load { memarg } => self.load(memarg, F64),
            Operator::I32Load8S { memarg } => self.load_extended(memarg, I8, I32, true),
            Operator::I32Load8U { memarg } => self.load_extended(memarg, I8, I32, false),
            Operator::I32Load16S { memarg } => self.load_extended(memarg, I16, I32, true),
            Operator::I32Load16U { memarg } => self.load_extended(memarg, I16, I32, false),
            Operator::I64Load8S { memarg } => self.load_extended(memarg, I8, I64, true),
            Operator::I64Load8U { memarg } => self.load_extended(memarg, I8, I64, false),
            Operator::I64Load16S { memarg } => self.load_extended(memarg, I16, I64, true),
            Operator::I64Load16U { memarg } => self.load_extended(memarg, I16, I64, false),
            Operator::I64Load32S { memarg } => self.load_extended(memarg, I32, I64, true),
            Operator::I64Load32U { memarg } => self.load_extended(memarg, I32, I64, false),
            Operator::I32Store { memarg } => self.store(memarg, I32),
            Operator::I64Store { memarg } => self.store(memarg, I64),
            Operator::F32Store { memarg } => self.store(memarg, F32),
            Operator::F64Store { memarg } => self.store(memarg, F64),
            Operator::I32Store8 { memarg } | Operator::I64Store8 { memarg } => {
                self.store(memarg, I8);
            }
            Operator::I32Store16 { memarg } | Operator::I64Store16 { memarg } => {
                self.store(memarg, I16);
            }
            Operator::I64Store32 { memarg } => self.store(memarg, I32),
            _ => return false,
        }
        true
    }

    /// Keeps count of frames in code that is not reached; returns whether the operator still has to
    /// be translated.
    fn structural(&mut self, op: &Operator<'_>) -> bool {
        match op {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => {
                self.push_dead();
                false
            }
            Operator::Else
            | Operator::Catch { .. }
            | Operator::CatchAll
            | Operator::Delegate { .. }
            | Operator::End => true,
            _ => false,
        }
    }
}
