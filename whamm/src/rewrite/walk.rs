//! Properties of a program's instructions that the rewriter needs in addition to [`Op`].

pub(crate) use crate::events::Nesting;
use crate::events::leaves;
pub(crate) use wasm_aot_body::{Site as Op, closings, sites};
use wasmparser::Operator;

/// Whether control may not return, so that a count before the instruction must not include code
/// after it.
pub(crate) fn interrupts(op: &Operator<'_>) -> bool {
    use Operator as O;
    leaves(op)
        || matches!(
            op,
            O::Call { .. }
                | O::CallIndirect { .. }
                | O::CallRef { .. }
                | O::TryTable { .. }
                | O::Try { .. }
                | O::Delegate { .. }
        )
}

/// Whether an instruction refers to typed references.
pub(crate) fn is_typed(op: &Operator<'_>) -> bool {
    use Operator as O;
    match op {
        O::Block { blockty } | O::Loop { blockty } | O::If { blockty } | O::Try { blockty } => {
            matches!(blockty, wasmparser::BlockType::Type(ty) if crate::app::is_typed(ty))
        }
        O::TryTable { try_table } => {
            matches!(try_table.ty, wasmparser::BlockType::Type(ty) if crate::app::is_typed(&ty))
        }
        O::TypedSelect { ty } => crate::app::is_typed(ty),
        O::CallRef { .. }
        | O::ReturnCallRef { .. }
        | O::RefAsNonNull
        | O::BrOnNull { .. }
        | O::BrOnNonNull { .. }
        | O::BrOnCast { .. }
        | O::BrOnCastFail { .. }
        | O::RefCastNonNull { .. }
        | O::RefCastNullable { .. }
        | O::RefTestNonNull { .. }
        | O::RefTestNullable { .. } => true,
        _ => false,
    }
}
