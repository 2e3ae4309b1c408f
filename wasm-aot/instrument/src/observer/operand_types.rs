//! The types of operands and results at a site, as the validator knows them.

use super::name::Asked;
use super::site::{Nesting, Site};
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::module;
use wasmparser::{FuncValidator, ValidatorResources};

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
    validator.get_operand_type(depth).map(|ty| ty.map(module::operand_type))
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
