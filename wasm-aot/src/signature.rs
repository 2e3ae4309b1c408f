//! Types of host functions, in the engine's form and in that of traces.

use crate::instrument::module::operand_type;
use crate::{FuncType, ValType};
use wasm_aot_trace::Signature;
use wasmparser::ValType as Traced;

/// The types of values in traces.
const TYPES: [Traced; 7] = [
    Traced::I32,
    Traced::I64,
    Traced::F32,
    Traced::F64,
    Traced::V128,
    Traced::FUNCREF,
    Traced::EXTERNREF,
];

/// A type in the form of traces, unless it contains a type of which a trace has no values.
pub(crate) fn traced(ty: &FuncType) -> Option<Signature> {
    let same = |own: &ValType| TYPES.into_iter().find(|traced| operand_type(*traced) == *own);
    let all = |types: &[ValType]| types.iter().map(same).collect::<Option<Vec<_>>>();
    Signature::new(wasmparser::FuncType::new(all(ty.params())?, all(ty.results())?))
}

/// A type in the engine's form.
pub(crate) fn function_type(signature: &Signature) -> FuncType {
    let all = |types: &[Traced]| types.iter().copied().map(operand_type).collect::<Vec<_>>();
    FuncType::new(all(signature.ty().params()), all(signature.ty().results()))
}
