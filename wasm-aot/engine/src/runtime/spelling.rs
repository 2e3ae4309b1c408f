//! Prints instructions as the text format spells them, shortened to a line.

use wasmparser::Operator;

/// The mnemonic of the instruction that the bytes begin with.
pub(super) fn mnemonic(bytes: &[u8]) -> &'static str {
    let instruction =
        wasm_aot_body::events::code_of(bytes).and_then(wasm_aot_body::events::by_code);
    instruction.map_or("?", |instruction| instruction.opname())
}

/// An instruction of a module whose bytes are given, at a place in it: mnemonic and immediates.
pub fn spelled(operator: &Operator<'_>, bytes: &[u8], at: u32) -> String {
    format!("{}{}", mnemonic(&bytes[at as usize..]), immediates(operator))
}

/// The immediates that distinguish instructions of a kind.
pub(super) fn immediates(operator: &Operator<'_>) -> String {
    match operator {
        Operator::LocalGet { local_index }
        | Operator::LocalSet { local_index }
        | Operator::LocalTee { local_index } => {
            format!(" {local_index}")
        }
        Operator::GlobalGet { global_index } | Operator::GlobalSet { global_index } => {
            format!(" {global_index}")
        }
        Operator::Call { function_index }
        | Operator::ReturnCall { function_index }
        | Operator::RefFunc { function_index } => {
            format!(" {function_index}")
        }
        Operator::Br { relative_depth }
        | Operator::BrIf { relative_depth }
        | Operator::BrOnNull { relative_depth }
        | Operator::BrOnNonNull { relative_depth }
        | Operator::BrOnCast { relative_depth, .. }
        | Operator::BrOnCastFail { relative_depth, .. }
        | Operator::Rethrow { relative_depth }
        | Operator::Delegate { relative_depth } => format!(" {relative_depth}"),
        Operator::I32Const { value } => format!(" {value}"),
        Operator::I64Const { value } => format!(" {value}"),
        Operator::F32Const { value } => format!(" {}", f32::from_bits(value.bits())),
        Operator::F64Const { value } => format!(" {}", f64::from_bits(value.bits())),
        Operator::CallIndirect { type_index, table_index }
        | Operator::ReturnCallIndirect { type_index, table_index } => {
            format!(" {table_index} (type {type_index})")
        }
        Operator::BrTable { targets } => format!(" ({} labels)", targets.len() + 1),
        Operator::Throw { tag_index } | Operator::Catch { tag_index } => format!(" {tag_index}"),
        _ => String::new(),
    }
}
