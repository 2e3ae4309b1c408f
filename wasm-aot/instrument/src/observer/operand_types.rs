//! The types of operands and results at a site, as the validator knows them.

use super::name::Asked;
use super::site::{Nesting, Site};
use wasm_aot_engine::instrument::module;
use wasm_aot_engine::{HeapType, RefType, ValType};
use wasmparser::{FuncValidator, UnpackedIndex, ValidatorResources, WasmModuleResources};

/// Of the function that is looked at.
pub(super) type Validator = FuncValidator<ValidatorResources>;

/// Whether the table of events says of which type something is, wherever the instruction stands.
pub(super) fn is_natural(
    event: &'static wasm_aot_body::events::Instruction,
    asked: &Asked,
) -> bool {
    let name = match asked {
        Asked::Arg(n) => format!("arg{n}"),
        Asked::Res(n) => format!("res{n}"),
        _ => return false,
    };
    natural(Some(event), &name).is_some_and(|ty| ty != wasm_aot_body::types::Ty::Any)
}

fn natural(
    event: Option<&'static wasm_aot_body::events::Instruction>,
    name: &str,
) -> Option<wasm_aot_body::types::Ty> {
    wasm_aot_body::events::Event::Opcode(event?).variable(name).map(|definition| definition.ty)
}

pub(super) fn is_reachable(validator: &Validator) -> bool {
    validator.get_control_frame(0).is_some_and(|frame| !frame.unreachable)
}

/// The type of an operand, from the top; an unknown one where code is not reached.
fn operand(validator: &Validator, depth: usize) -> Option<Option<ValType>> {
    validator.get_operand_type(depth).map(|ty| ty.map(|ty| spelled(validator, ty)))
}

/// A type as the module spells it: the validator has its own numbers for the module's types. Of
/// equal types of a module, the first counts. What replaces an instruction has to be of this type,
/// since the program calls such references without looking at them.
fn spelled(validator: &Validator, ty: wasmparser::ValType) -> ValType {
    let own = match ty {
        wasmparser::ValType::Ref(own) if own.is_concrete_type_ref() => own,
        _ => return module::operand_type(ty),
    };
    let resources = validator.resources();
    let is_own = |index: &u32| {
        let mut declared = wasmparser::HeapType::Concrete(UnpackedIndex::Module(*index));
        resources.check_heap_type(&mut declared, 0).is_ok() && declared == own.heap_type()
    };
    let mut declared = (0..).take_while(|index| resources.sub_type_at(*index).is_some());
    match declared.find(is_own) {
        Some(index) => {
            ValType::Ref(RefType { nullable: own.is_nullable(), heap: HeapType::Concrete(index) })
        }
        None => module::operand_type(ty),
    }
}

/// Types on the operand stack, from the top: of the innermost block, which sees nothing of what
/// lies below.
pub(super) fn stack(validator: &Validator, most: usize) -> Vec<Option<ValType>> {
    let below = validator.get_control_frame(0).map_or(0, |frame| frame.height);
    let own = (validator.operand_stack_height() as usize).saturating_sub(below);
    (0..most.min(own)).map_while(|depth| operand(validator, depth)).collect()
}

/// Types of the operands that an instruction takes, from the top. Where control never comes,
/// it takes operands of any type when those of its block are used up.
pub(super) fn operands(validator: &Validator, site: &Site<'_>) -> Vec<Option<ValType>> {
    let count = site.operator.operator_arity(validator).map_or(0, |(taken, _)| taken as usize);
    let mut types = stack(validator, count);
    types.resize(count, None);
    types
}

/// Types of what an instruction has given, from the top; what lies below was there before.
pub(super) fn results(validator: &Validator, site: &Site<'_>) -> Vec<Option<ValType>> {
    let given = match site.nesting {
        Nesting::Plain => site.operator.operator_arity(validator),
        _ => None,
    };
    stack(validator, given.map_or(8, |(_, given)| (given as usize).min(8)))
}
