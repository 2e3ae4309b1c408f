//! Constant expressions: the initial values of tables, globals and segments.

use crate::error::{CompileError, Place};
use crate::types::HeapType;
use serde::{Deserialize, Serialize};
use wasmparser::Operator;

/// One operator of a constant expression, in postfix order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ConstOp {
    /// A constant of 32 bits.
    I32(i32),
    /// A constant of 64 bits.
    I64(i64),
    /// The bits of a 32-bit float.
    F32(u32),
    /// The bits of a 64-bit float.
    F64(u64),
    /// A vector.
    V128(u128),
    /// The value of a global.
    Global(u32),
    /// A reference to a function.
    Func(u32),
    /// A null reference.
    Null(HeapType),
    /// Sum of the two operands before.
    I32Add,
    /// Difference of the two operands before.
    I32Sub,
    /// Product of the two operands before.
    I32Mul,
    /// Sum of the two operands before.
    I64Add,
    /// Difference of the two operands before.
    I64Sub,
    /// Product of the two operands before.
    I64Mul,
}

/// Reads a constant expression that has been validated.
pub(crate) fn read(expression: &wasmparser::ConstExpr<'_>) -> Result<Vec<ConstOp>, CompileError> {
    let mut ops = Vec::new();
    for item in expression.get_operators_reader().into_iter_with_offsets() {
        let (op, offset) = item?;
        ops.push(match op {
            Operator::I32Const { value } => ConstOp::I32(value),
            Operator::I64Const { value } => ConstOp::I64(value),
            Operator::F32Const { value } => ConstOp::F32(value.bits()),
            Operator::F64Const { value } => ConstOp::F64(value.bits()),
            Operator::V128Const { value } => ConstOp::V128(u128::from_le_bytes(*value.bytes())),
            Operator::GlobalGet { global_index } => ConstOp::Global(global_index),
            Operator::RefFunc { function_index } => ConstOp::Func(function_index),
            Operator::RefNull { hty } => {
                ConstOp::Null(super::read::heap_type(hty, offset as usize)?)
            }
            Operator::I32Add => ConstOp::I32Add,
            Operator::I32Sub => ConstOp::I32Sub,
            Operator::I32Mul => ConstOp::I32Mul,
            Operator::I64Add => ConstOp::I64Add,
            Operator::I64Sub => ConstOp::I64Sub,
            Operator::I64Mul => ConstOp::I64Mul,
            Operator::End => continue,
            other => {
                return Err(CompileError::unsupported(
                    format!("{} in a constant expression", super::instruction_name(&other)),
                    Place::module(offset as usize),
                ));
            }
        });
    }
    Ok(ops)
}
