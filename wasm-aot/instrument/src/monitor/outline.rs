//! The view of a module that monitors use to choose places for hooks, before the module is
//! compiled.

use super::Choice;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
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
    /// Whether some of its code may be executed already.
    runs: bool,
    /// The summary of its calls, once it was computed.
    calls: OnceCell<CallSummary>,
}

/// How functions affect their callers, and callers affect them.
struct CallSummary {
    /// Functions that an exception may leave.
    throwing: HashSet<u32>,
    /// Whether an exception may be caught.
    is_caught: bool,
    /// Functions that are called in place of their callers.
    tail_called: HashSet<u32>,
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
    /// Whether its calls end before a clock has advanced: it has fewer instructions than that,
    /// calls nothing, and has no loop, nor instructions on ranges.
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

/// An instruction, and its operands.
pub(super) struct Instruction<'a> {
    /// Where it is in the module.
    pub(super) at: u32,
    pub(super) op: Operator<'a>,
    /// The types of its operands, from the top of the stack.
    pub(super) operands: Vec<ValType>,
}

impl<'a> Outline<'a> {
    /// Reads a module's functions, and passes them to `look`.
    pub(super) fn with<T>(
        bytes: &'a [u8],
        features: Features,
        runs: bool,
        look: impl FnOnce(&Outline<'_>) -> T,
    ) -> Result<T, CompileError> {
        let module::Reading { info, bodies } = module::read(bytes, features)?;
        let functions = bodies
            .into_iter()
            .map(|body| {
                let (index, name) = (body.index, info.function_name(body.index));
                function(&info, body).map_err(|error| error.within(index, name))
            })
            .collect::<Result<_, _>>()?;
        Ok(look(&Outline { info: &info, bytes, functions, runs, calls: OnceCell::new() }))
    }

    fn calls(&self) -> &CallSummary {
        self.calls.get_or_init(|| CallSummary::of(&self.functions))
    }

    /// Whether an exception may be caught in the module, or it may be executed already, so that
    /// each activation has to detect when an exception unwinds it. Otherwise it suffices that the
    /// outermost activation of a call from outside does.
    pub(super) fn catches(&self) -> bool {
        self.runs || self.calls().is_caught
    }

    /// Whether a function has to detect an exception that leaves it.
    pub(super) fn needs_unwinding(&self, function: u32) -> bool {
        (self.catches() || self.info.is_called_from_elsewhere(function))
            && self.calls().throwing.contains(&function)
    }

    /// Whether an exception that is caught in the module may leave a function.
    pub(super) fn may_be_caught_from(&self, function: u32) -> bool {
        self.calls().is_caught && self.calls().throwing.contains(&function)
    }

    /// Whether all calls of a function are instructions that name it and return, none of which is
    /// being executed.
    pub(super) fn is_called_by_name(&self, function: u32) -> bool {
        !self.runs
            && !self.info.is_called_from_elsewhere(function)
            && !self.calls().tail_called.contains(&function)
    }

    /// Calls that name the function: their callers, places and callees.
    pub(super) fn direct_calls(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.functions.iter().flat_map(|function| {
            function.instructions.iter().filter_map(|instruction| match instruction.op {
                Operator::Call { function_index } => {
                    Some((function.index, instruction.at, function_index))
                }
                _ => None,
            })
        })
    }

    /// The functions that a monitor observes.
    pub(super) fn chosen<'s>(
        &'s self,
        choice: &'s Choice,
    ) -> impl Iterator<Item = &'s Function<'a>> {
        self.functions.iter().filter(|function| choice.wants(&function.label))
    }
}

impl CallSummary {
    fn of(functions: &[Function<'_>]) -> Self {
        let defined: HashSet<u32> = functions.iter().map(|function| function.index).collect();
        let (mut throwing, mut tail_called) = (HashSet::new(), HashSet::new());
        let (mut is_caught, mut new) = (false, Vec::new());
        let mut callers: HashMap<u32, Vec<u32>> = HashMap::new();
        for function in functions {
            for instruction in &function.instructions {
                let throws = match &instruction.op {
                    Operator::Call { function_index } => {
                        callers.entry(*function_index).or_default().push(function.index);
                        !defined.contains(function_index)
                    }
                    Operator::ReturnCall { function_index } => {
                        tail_called.insert(*function_index);
                        callers.entry(*function_index).or_default().push(function.index);
                        !defined.contains(function_index)
                    }
                    Operator::Throw { .. }
                    | Operator::ThrowRef
                    | Operator::Rethrow { .. }
                    | Operator::CallIndirect { .. }
                    | Operator::CallRef { .. }
                    | Operator::ReturnCallIndirect { .. }
                    | Operator::ReturnCallRef { .. } => true,
                    Operator::TryTable { try_table } => {
                        is_caught |= !try_table.catches.is_empty();
                        false
                    }
                    Operator::Catch { .. } | Operator::CatchAll => {
                        is_caught = true;
                        false
                    }
                    _ => false,
                };
                if throws && throwing.insert(function.index) {
                    new.push(function.index);
                }
            }
        }
        while let Some(function) = new.pop() {
            let callers = callers.remove(&function).unwrap_or_default();
            new.extend(callers.into_iter().filter(|caller| throwing.insert(*caller)));
        }
        Self { throwing, is_caught, tail_called }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each of a module's functions, whether it needs to know of exceptions, and whether it is
    /// called by name.
    fn each(text: &str, runs: bool) -> [Vec<bool>; 2] {
        let bytes = wat::parse_str(text).expect("a module");
        let look = |outline: &Outline<'_>| {
            let own = || outline.functions.iter().map(|function| function.index);
            [
                own().map(|function| outline.needs_unwinding(function)).collect(),
                own().map(|function| outline.is_called_by_name(function)).collect(),
            ]
        };
        Outline::with(&bytes, Features::default(), runs, look).expect("valid")
    }

    const THROWING: &str = r#"
        (import "host" "f" (func $host))
        (tag $tag)
        (table 1 funcref)
        (func $recursive (param i32) (call $recursive (local.get 0)))
        (func $calls_it (export "e") (call $recursive (i32.const 1)))
        (func $throws (throw $tag))
        (func $calls_host (return_call $host))
        (func $indirect (call_indirect (i32.const 0)))
        (func $above (export "f") (call $calls_it) (call $between))
        (func $between (call $throws))"#;

    #[test]
    fn exceptions_leave_what_throws_or_calls_the_unknown_and_all_that_call_it() {
        let catches = "(func (block $b (try_table (catch_all $b) (call $throws))))";
        let text = format!("(module {THROWING} {catches})");
        let expected = [false, false, true, true, true, true, true, true];
        assert_eq!(each(&text, false)[0], expected);
    }

    #[test]
    fn where_nothing_is_caught_the_outermost_activation_knows_of_exceptions() {
        let text = format!("(module {THROWING})");
        let expected = [false, false, false, false, false, true, false];
        assert_eq!(each(&text, false)[0], expected);
        let expected = [false, false, true, true, true, true, true];
        assert_eq!(each(&text, true)[0], expected, "it runs");
    }

    #[test]
    fn functions_are_called_by_name_that_nothing_refers_to_and_no_tail_calls() {
        let text = r#"(module
            (table 1 funcref)
            (elem (i32.const 0) $in_table)
            (start $start)
            (func $named) (func $exported (export "e")) (func $in_table) (func $start)
            (func $replaces) (func $calls (call $named) (return_call $replaces)))"#;
        let expected = [true, false, false, false, false, true];
        assert_eq!(each(text, false)[1], expected);
        assert_eq!(each(text, true)[1], [false; 6], "it runs");
    }
}
