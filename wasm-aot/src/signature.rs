//! Types of host functions, in the engine's form and in that of traces.

use crate::{FuncType, ValType};
use wasm_aot_trace::Signature;
use wasmparser::ValType as Traced;

/// The types that a signature can contain.
const TYPES: [(ValType, Traced); 7] = [
    (ValType::I32, Traced::I32),
    (ValType::I64, Traced::I64),
    (ValType::F32, Traced::F32),
    (ValType::F64, Traced::F64),
    (ValType::V128, Traced::V128),
    (ValType::FUNCREF, Traced::FUNCREF),
    (ValType::EXTERNREF, Traced::EXTERNREF),
];

/// A type in the form of traces, unless it contains a type of which a trace has no values.
pub(crate) fn traced(ty: &FuncType) -> Option<Signature> {
    let row = |own: &ValType| TYPES.iter().find(|(ty, _)| ty == own).map(|(_, traced)| *traced);
    let all = |types: &[ValType]| types.iter().map(row).collect::<Option<Vec<_>>>();
    Signature::new(wasmparser::FuncType::new(all(ty.params())?, all(ty.results())?))
}

/// A type in the engine's form.
pub(crate) fn function_type(signature: &Signature) -> FuncType {
    let own = |ty: &Traced| TYPES.iter().find(|(_, traced)| traced == ty).map(|(own, _)| *own);
    let all = |types: &[Traced]| types.iter().filter_map(own).collect::<Vec<_>>();
    FuncType::new(all(signature.ty().params()), all(signature.ty().results()))
}
