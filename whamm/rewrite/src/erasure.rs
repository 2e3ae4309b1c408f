//! References to functions without their types.
//!
//! A plan may give functions other types than those with which the program refers to them. Then
//! `(ref $type)` becomes `(ref func)` in everything that is the program's own: its bodies, tables,
//! globals, segments, and the types of its functions and tags. The types themselves remain, and
//! what is imported has its own. Instructions that need the type of a function (`call_ref`, casts)
//! have to be replaced by the plan.

use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{HeapType, Operator};

/// Which types are erased.
#[derive(Clone, Debug, Default)]
pub struct Erasure {
    /// The types of functions.
    pub functions: BTreeSet<u32>,
    /// The types among them whose parameters or results are references to functions of a type; and
    /// the types that have none, which replace them.
    pub signatures: BTreeMap<u32, u32>,
}

impl Erasure {
    /// The type that replaces this one.
    pub fn signature(&self, ty: u32) -> u32 {
        self.signatures.get(&ty).copied().unwrap_or(ty)
    }

    /// Whether references to objects of a type have no type in the output.
    pub fn erases(&self, ty: HeapType) -> bool {
        let index = match ty {
            HeapType::Concrete(index) | HeapType::Exact(index) => index.as_module_index(),
            HeapType::Abstract { .. } => None,
        };
        index.is_some_and(|index| self.functions.contains(&index))
    }
}

/// Whether an instruction may name the type of a value or of a block.
pub(crate) fn names_type(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. }
            | Operator::TypedSelect { .. }
            | Operator::TypedSelectMulti { .. }
            | Operator::RefNull { .. }
            | Operator::RefTestNonNull { .. }
            | Operator::RefTestNullable { .. }
            | Operator::RefCastNonNull { .. }
            | Operator::RefCastNullable { .. }
            | Operator::BrOnCast { .. }
            | Operator::BrOnCastFail { .. }
    )
}
