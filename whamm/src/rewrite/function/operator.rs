//! Operators: properties of an instruction that do not depend on its context.

use crate::emit::memories::{Bulk, Immediate};
use wasmparser::Operator as O;

/// Whether an instruction branches to labels, so that it has `at_target`.
pub(super) fn is_branch(op: &O<'_>) -> bool {
    matches!(op, O::Br { .. } | O::BrIf { .. } | O::BrTable { .. })
}

/// Whether an instruction leaves the function without a trap.
pub(super) fn ends_function(op: &O<'_>) -> bool {
    matches!(
        op,
        O::Return | O::ReturnCall { .. } | O::ReturnCallIndirect { .. } | O::ReturnCallRef { .. }
    )
}

/// Whether an instruction is sure not to trap.
pub(super) fn never_traps(event: &crate::events::Instruction) -> bool {
    let plain = matches!(event.category, 2 | 3 | 4 | 8 | 10 | 12 | 13);
    let arith = event.category == 0 && !event.name.contains("div") && !event.name.contains("rem_");
    let convert =
        event.category == 5 && (!event.name.contains("trunc_") || event.name.contains("sat"));
    let simd = event.category == 14 && event.accessed().is_none();
    plain || arith || convert || simd
}

/// The table whose entry an instruction uses.
pub(super) fn table_of(op: &O<'_>) -> Option<u32> {
    match op {
        O::CallIndirect { table_index, .. } | O::ReturnCallIndirect { table_index, .. } => {
            Some(*table_index)
        }
        O::TableGet { table } => Some(*table),
        _ => None,
    }
}

/// Which operation on a range of a memory an instruction is.
pub(super) fn bulk(op: &O<'_>) -> Option<Bulk> {
    match op {
        O::MemoryInit { data_index, .. } => Some(Bulk::Init(Immediate::Known(*data_index))),
        O::MemoryCopy { src_mem, .. } => Some(Bulk::Copy(Immediate::Known(*src_mem))),
        O::MemoryFill { .. } => Some(Bulk::Fill),
        _ => None,
    }
}
