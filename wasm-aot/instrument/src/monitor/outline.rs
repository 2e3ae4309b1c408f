//! A module before it is compiled, as monitors look at it that choose places for hooks.

use super::Choice;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::Features;
use wasm_aot_engine::instrument::module::{self, Body, ModuleInfo};
use wasmparser::{FuncValidator, FuncValidatorAllocations, Operator, ValidatorResources};

/// A module's declarations, and its functions.
pub(super) struct Outline<'a> {
    pub(super) info: &'a ModuleInfo,
    pub(super) bytes: &'a [u8],
    pub(super) functions: Vec<Function<'a>>,
}

/// A function that the module defines.
pub(super) struct Function<'a> {
    /// Its index, among all.
    pub(super) index: u32,
    /// Its name as people read it, or its number.
    pub(super) label: String,
    pub(super) instructions: Vec<Instruction<'a>>,
}

impl Function<'_> {
    /// Whether its calls are over before a clock could tell: it has fewer instructions than that,
    /// calls nothing, and has no loop, nor anything that works on ranges.
    pub(super) fn is_brief(&self, fewer_than: usize) -> bool {
        let goes_on = |op: &Operator<'_>| {
            matches!(
                op,
                Operator::Loop { .. }
                    | Operator::Call { .. }
                    | Operator::CallIndirect { .. }
                    | Operator::CallRef { .. }
                    | Operator::ReturnCall { .. }
                    | Operator::ReturnCallIndirect { .. }
                    | Operator::ReturnCallRef { .. }
                    | Operator::MemoryFill { .. }
                    | Operator::MemoryCopy { .. }
                    | Operator::MemoryInit { .. }
                    | Operator::MemoryGrow { .. }
                    | Operator::TableFill { .. }
                    | Operator::TableCopy { .. }
                    | Operator::TableInit { .. }
                    | Operator::TableGrow { .. }
                    | Operator::MemoryAtomicWait32 { .. }
                    | Operator::MemoryAtomicWait64 { .. }
            )
        };
        self.instructions.len() < fewer_than
            && !self.instructions.iter().any(|instruction| goes_on(&instruction.op))
    }
}

/// An instruction, and what it takes from the stack and puts there.
pub(super) struct Instruction<'a> {
    /// Where it is in the module.
    pub(super) at: u32,
    pub(super) op: Operator<'a>,
    /// The types of its operands, from the top of the stack.
    pub(super) operands: Vec<ValType>,
}

impl<'a> Outline<'a> {
    /// Reads a module's functions, and gives them to `look`.
    pub(super) fn with<T>(
        bytes: &'a [u8],
        features: Features,
        look: impl FnOnce(&Outline<'_>) -> T,
    ) -> Result<T, CompileError> {
        let module::Reading { info, bodies } = module::read(bytes, features)?;
        let functions =
            bodies.into_iter().map(|body| function(&info, body)).collect::<Result<_, _>>()?;
        Ok(look(&Outline { info: &info, bytes, functions }))
    }

    /// The functions that a monitor looks at.
    pub(super) fn chosen<'s>(
        &'s self,
        choice: &'s Choice,
    ) -> impl Iterator<Item = &'s Function<'a>> {
        self.functions.iter().filter(|function| choice.wants(&function.label))
    }
}

fn function<'a>(info: &ModuleInfo, body: Body<'a>) -> Result<Function<'a>, CompileError> {
    let Body { index, validate, body } = body;
    let mut validator = validate.into_validator(FuncValidatorAllocations::default());
    let mut locals = body.get_locals_reader()?;
    for _ in 0..locals.get_count() {
        let offset = locals.original_position();
        let (count, ty) = locals.read()?;
        validator.define_locals(offset, count, ty)?;
    }
    let mut reader = body.get_operators_reader()?;
    let mut instructions = Vec::new();
    while !reader.eof() {
        let (op, at) = reader.read_with_offset()?;
        let operands = operands(&op, &validator);
        validator.op(at, &op)?;
        instructions.push(Instruction { at: at as u32, op, operands });
    }
    Ok(Function { index, label: info.label(index), instructions })
}

/// The types of an instruction's operands, as far as code that is reached has them.
fn operands(op: &Operator<'_>, validator: &FuncValidator<ValidatorResources>) -> Vec<ValType> {
    let count = op.operator_arity(validator).map_or(0, |(operands, _)| operands as usize);
    let known = (0..count).map_while(|place| validator.get_operand_type(place).flatten());
    known.map(module::operand_type).collect()
}
