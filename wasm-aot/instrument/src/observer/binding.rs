//! The result of matching: which function of a monitor is called where, with which arguments.

use super::texts::Text;
use std::collections::BTreeMap;
use wasm_aot_body::replacement::FallThrough;
use wasm_aot_engine::instrument::compile::Mode;

/// When a function is called: the mode of its hook, and what it sees there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BoundMode {
    pub(crate) mode: Mode,
    pub(crate) sees: Sees,
}

/// What a hook sees at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sees {
    /// What is on the stack.
    Stack,
    /// The same, and only if the instruction is going to branch.
    Branch,
    /// The operands that the instruction took.
    Taken,
}

impl BoundMode {
    const fn new(mode: Mode, sees: Sees) -> Self {
        Self { mode, sees }
    }

    /// Before the function's first instruction.
    pub(crate) const ENTRY: Self = Self::new(Mode::Entry, Sees::Stack);
    /// Before the instruction; at a loop or an end, at the target of branches to it.
    pub(crate) const BEFORE: Self = Self::new(Mode::Before, Sees::Stack);
    /// Before it, if it is not replaced.
    pub(crate) const ITSELF: Self = Self::new(Mode::Itself, Sees::Stack);
    /// Before it, if it is going to branch and is not replaced.
    pub(crate) const TAKEN: Self = Self::new(Mode::Itself, Sees::Branch);
    /// In its place. Results are those of the call.
    pub(crate) const ALT: Self = Self::new(Mode::Alt, Sees::Stack);
    /// At the beginning of the block that the instruction opens.
    pub(crate) const INSIDE: Self = Self::new(Mode::After, Sees::Stack);
    /// After it, where control continues.
    pub(crate) const AFTER: Self = Self::new(Mode::After, Sees::Taken);
    /// After it, where control falls out of the enclosing block.
    pub(crate) const FALLS: Self = Self::new(Mode::Falls, Sees::Taken);
    /// Where an exception leaves the function.
    pub(crate) const UNWIND: Self = Self::new(Mode::Unwind, Sees::Stack);
}

/// An argument of the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Argument {
    I32(i32),
    I64(i64),
    F32(u32),
    F64(u64),
    V128(u128),
    /// The null reference.
    Null,
    /// A reference that must not be null, and that the monitor's function does not give: a trap.
    NoReference,
    /// An operand, counted from the top of the stack.
    Operand(u32),
    /// A result, counted from the top of the stack.
    Result(u32),
    Local(u32),
    /// The size of a memory in bytes.
    MemoryBytes(u32),
    /// Whether the reference on the stack is null, or is not.
    IsNull(bool),
    /// Whether the reference on the stack is of a type, or is not.
    IsOf(wasmparser::RefType, bool),
    /// The index of the function that is about to be used, or -1: from a table's entry, or from the
    /// reference at a depth of the stack.
    Entry(u32),
    Reference(u32),
}

/// A call of a monitor's function at a site.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    /// Which of the monitor's rules.
    pub(crate) rule: u16,
    /// The function that is called.
    pub(crate) function: u32,
    pub(crate) arguments: Vec<Argument>,
    /// What has to be in the monitor's buffer when it is called.
    pub(crate) texts: Vec<Text>,
    pub(crate) bound_mode: BoundMode,
    /// Where the instruction is in the module.
    pub(crate) offset: u32,
    /// The identity of the probe, by which its monitor may remove it.
    pub(crate) id: u32,
    /// What it leaves in place of the instruction, if it replaces it.
    pub(crate) replacement: Replacement,
}

/// What is left in place of an instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Replacement {
    /// The operands that stay on the stack, below the function's results.
    pub(crate) below: Vec<Argument>,
    /// Whether its last result decides what happens.
    pub(crate) decides: bool,
    /// What it may have called instead, in the order of its numbers.
    pub(crate) calls: Vec<Instead>,
    /// How control continues after an instruction that never falls through by itself.
    pub(crate) fall_through: Option<FallThrough>,
}

/// A call of a function of the program instead of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instead {
    pub(crate) function: u32,
    /// The operands that are passed to it.
    pub(crate) passed: Vec<Argument>,
    /// How many of its results are kept: all or none. The results that are still missing after them
    /// are taken from the monitor's function.
    pub(crate) kept: usize,
    /// How many results of the monitor's function are kept, from the last.
    pub(crate) returned: usize,
}

/// All calls in a program, by its functions, in the order in which they are made.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    functions: BTreeMap<u32, Vec<Binding>>,
}

impl Bindings {
    pub(crate) fn insert(&mut self, function: u32, bindings: Vec<Binding>) {
        if !bindings.is_empty() {
            self.functions.entry(function).or_default().extend(bindings);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.values().map(Vec::len).sum()
    }

    /// Each of them, with its function.
    pub(crate) fn take(self) -> impl Iterator<Item = (u32, Binding)> {
        self.functions
            .into_iter()
            .flat_map(|(function, list)| list.into_iter().map(move |binding| (function, binding)))
    }
}
