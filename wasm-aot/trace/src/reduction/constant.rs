//! Constant expressions of numbers.

use crate::value::Value;
use std::collections::HashMap;
use wasmparser::{ConstExpr, Operator};

/// Computes a constant. `None` if it depends on an unknown value.
pub(super) fn constant(expression: &ConstExpr<'_>, globals: &HashMap<u32, Value>) -> Option<Value> {
    let mut stack: Vec<Value> = Vec::new();
    for operator in expression.get_operators_reader() {
        let value = match operator.ok()? {
            Operator::I32Const { value } => Value::I32(value.cast_unsigned()),
            Operator::I64Const { value } => Value::I64(value.cast_unsigned()),
            Operator::F32Const { value } => Value::F32(value.bits()),
            Operator::F64Const { value } => Value::F64(value.bits()),
            Operator::V128Const { value } => Value::V128(u128::from_le_bytes(*value.bytes())),
            Operator::RefFunc { function_index } => Value::Func(Some(function_index)),
            Operator::RefNull { .. } => Value::Func(None),
            Operator::GlobalGet { global_index } => *globals.get(&global_index)?,
            Operator::End => break,
            operator => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                match (operator, a, b) {
                    (Operator::I32Add, Value::I32(a), Value::I32(b)) => {
                        Value::I32(a.wrapping_add(b))
                    }
                    (Operator::I32Sub, Value::I32(a), Value::I32(b)) => {
                        Value::I32(a.wrapping_sub(b))
                    }
                    (Operator::I32Mul, Value::I32(a), Value::I32(b)) => {
                        Value::I32(a.wrapping_mul(b))
                    }
                    (Operator::I64Add, Value::I64(a), Value::I64(b)) => {
                        Value::I64(a.wrapping_add(b))
                    }
                    (Operator::I64Sub, Value::I64(a), Value::I64(b)) => {
                        Value::I64(a.wrapping_sub(b))
                    }
                    (Operator::I64Mul, Value::I64(a), Value::I64(b)) => {
                        Value::I64(a.wrapping_mul(b))
                    }
                    _ => return None,
                }
            }
        };
        stack.push(value);
    }
    stack.pop()
}
