//! The table of events, modes and bound variables that scripts, monitors and the engine share.
//!
//! `table.tsv` lists every instruction of WebAssembly 3.0, of threads, wide arithmetic and the
//! older encoding of exceptions: name, opcode, category, its modes, and its variables. Rules, the
//! type checker, `info` and both targets derive from it and from the small lists in this module.
//! The opcode of a prefixed instruction is the prefix, then the number in eight bits, or in twelve
//! if eight are not sufficient.

pub mod explanation;
mod nesting;
mod variables;

pub use nesting::{Nesting, labels, leaves};
pub use variables::{Bound, Definition, FORMER, Function, Told};

use std::collections::HashMap;
use std::sync::OnceLock;

/// The categories, by the numbers that scripts compare with.
pub const CATEGORIES: [&str; 17] = [
    "arith", "atomic", "compare", "const", "control", "convert", "exn", "gc", "global", "load",
    "local", "memory", "misc", "ref", "simd", "store", "table",
];

/// The point in the execution of an instruction at which a probe acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Immediately before.
    Before,
    /// Immediately after, if control falls through.
    After,
    /// Instead of the instruction.
    Alt,
    /// At the beginning of a block; in each iteration of a loop.
    Entry,
    /// Right after the end of a block.
    Exit,
    /// Where control continues: after a block, or at the target of a taken branch.
    SemanticAfter,
    /// Instead of a whole block.
    BlockAlt,
    /// The event has no modes.
    None,
}

impl Mode {
    /// The name in the exports of a monitor; rules and reports use [`Event::mode_name`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Alt => "alt",
            Self::Entry => "entry",
            Self::Exit => "exit",
            Self::SemanticAfter => "semantic_after",
            Self::BlockAlt => "block_alt",
            Self::None => "<no-mode>",
        }
    }
}

/// The modes of an instruction, and their names in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modes {
    Plain,
    Block,
    Branch,
    End,
    Never,
}

impl Modes {
    fn list(self) -> &'static [(&'static str, Mode)] {
        match self {
            Self::Plain => &[("before", Mode::Before), ("after", Mode::After), ("alt", Mode::Alt)],
            Self::Block => &[
                ("before", Mode::Before),
                ("after", Mode::SemanticAfter),
                ("alt", Mode::BlockAlt),
                ("entry", Mode::Entry),
                ("exit", Mode::Exit),
            ],
            Self::Branch => &[
                ("before", Mode::Before),
                ("after", Mode::After),
                ("alt", Mode::Alt),
                ("at_target", Mode::SemanticAfter),
            ],
            Self::End => &[("before", Mode::Before), ("after", Mode::After)],
            Self::Never => &[("alt", Mode::Alt), ("before", Mode::Before)],
        }
    }
}

/// An instruction as an event.
#[derive(Debug)]
pub struct Instruction {
    /// Its name in rules.
    pub name: &'static str,
    /// Its opcode.
    pub code: u32,
    /// The number of its category.
    pub category: u8,
    /// Its index in the table.
    pub index: usize,
    modes: Modes,
    variables: &'static str,
}

impl Instruction {
    /// Whether version 2.0.1 does not have it: vectors, the older encoding of exceptions, and wide
    /// arithmetic.
    fn is_new(&self) -> bool {
        let is_listed = matches!(self.code, 0x06 | 0x07 | 0x09 | 0x18 | 0x19 | 0xfc13..=0xfc16);
        is_listed || CATEGORIES[usize::from(self.category)] == "simd"
    }

    /// Whether its operands, results and immediates are the listed ones in every program, which are
    /// numbers.
    pub fn has_one_signature(&self) -> bool {
        let category = CATEGORIES[usize::from(self.category)];
        let is_numeric = matches!(category, "arith" | "compare" | "const" | "convert");
        is_numeric && !self.variables.contains('*') || matches!(self.name, "nop" | "unreachable")
    }

    /// The mnemonic of the specification, where it differs from the event's name.
    pub fn opname(&self) -> &'static str {
        match self.name {
            "typed_select" => "select",
            "ref.test_null" => "ref.test null",
            "ref.cast_null" => "ref.cast null",
            name => name,
        }
    }
}

impl PartialEq for Instruction {
    /// The table has one of each.
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An instruction is executed.
    Opcode(&'static Instruction),
    /// A function begins.
    FuncEntry,
    /// A function ends: by return, falling through, branching out, or a tail call.
    FuncExit,
    /// A function ends by an exception.
    FuncUnwind,
    /// A basic block begins.
    BlockStart,
    /// A basic block ends.
    BlockEnd,
    /// The report is requested.
    Report,
    /// Before the program's first instruction.
    Begin,
    /// When the program has ended, before the report.
    End,
    /// An event of the engine, not of an instruction: it is reported to monitors only.
    Engine(Occurrence),
}

/// An event of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The program is compiled, and about to begin.
    ModuleLoaded,
    /// After that, once for each function.
    FunctionCompiled,
    /// An instance of the program is ready to run.
    Instantiated,
    /// A memory has grown.
    MemoryGrown,
    /// The program has ended by a trap.
    Trap,
    /// A thread begins to execute the program.
    ThreadStart,
    /// A thread has ended.
    ThreadEnd,
}

/// An occurrence, its name, and its bound variables, by name.
type Row = (Occurrence, &'static str, &'static [(&'static str, Told)]);

/// The values that engines report, in the order in which they pass them.
const OCCURRENCES: [Row; 7] = [
    (
        Occurrence::ModuleLoaded,
        "module_loaded",
        &[("functions", Told::Functions), ("bytes", Told::Bytes)],
    ),
    (
        Occurrence::FunctionCompiled,
        "function_compiled",
        &[("fid", Told::Fid), ("bytes", Told::Bytes)],
    ),
    (Occurrence::Instantiated, "instantiated", &[]),
    (
        Occurrence::MemoryGrown,
        "memory_grown",
        &[("memory", Told::Memory), ("before", Told::Before), ("after", Told::After)],
    ),
    (Occurrence::Trap, "trap", &[("code", Told::Code), ("fid", Told::Fid), ("pc", Told::Pc)]),
    (Occurrence::ThreadStart, "thread_start", &[("thread", Told::Thread)]),
    (Occurrence::ThreadEnd, "thread_end", &[("thread", Told::Thread)]),
];

impl Occurrence {
    fn row(self) -> &'static Row {
        OCCURRENCES.iter().find(|row| row.0 == self).unwrap_or(&OCCURRENCES[0])
    }

    /// All occurrences.
    pub fn all() -> impl Iterator<Item = Self> {
        OCCURRENCES.iter().map(|row| row.0)
    }

    /// Its name in rules and in exports of monitors, after `engine:`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its bound variables, by name.
    pub fn told(self) -> &'static [(&'static str, Told)] {
        self.row().2
    }
}

/// Events that are not instructions: package, name, the event.
const STRUCTURAL: [(&str, &str, Event); 8] = [
    ("func", "entry", Event::FuncEntry),
    ("func", "exit", Event::FuncExit),
    ("func", "unwind", Event::FuncUnwind),
    ("block", "start", Event::BlockStart),
    ("block", "end", Event::BlockEnd),
    ("report", "", Event::Report),
    ("begin", "", Event::Begin),
    ("end", "", Event::End),
];

impl Event {
    /// `package:event`, or only the package.
    pub fn path(self) -> String {
        match self {
            Self::Opcode(op) => return format!("opcode:{}", op.name),
            Self::Engine(what) => return what.name().into(),
            _ => {}
        }
        let found = STRUCTURAL.iter().find(|s| s.2 == self);
        found.map_or_else(String::new, |(package, name, _)| {
            if name.is_empty() { (*package).into() } else { format!("{package}:{name}") }
        })
    }

    /// The package and the name.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Opcode(op) => ("opcode", op.name),
            Self::Engine(what) => (what.name(), ""),
            _ => STRUCTURAL.iter().find(|s| s.2 == self).map_or(("", ""), |s| (s.0, s.1)),
        }
    }

    /// The modes, under their names in rules.
    pub fn modes(self) -> &'static [(&'static str, Mode)] {
        match self {
            Self::Opcode(op) => op.modes.list(),
            _ => &[],
        }
    }

    /// The name of a mode in rules and reports.
    pub fn mode_name(self, mode: Mode) -> &'static str {
        self.modes().iter().find(|m| m.1 == mode).map_or_else(|| mode.name(), |m| m.0)
    }

    /// Whether it happens at places in the program.
    pub fn has_sites(self) -> bool {
        !matches!(self, Self::Report | Self::Begin | Self::End | Self::Engine(_))
    }

    /// The number of combinations in which its memories or tables can have 64-bit addresses,
    /// without the one in which none has.
    pub fn widths(self) -> u8 {
        match self {
            Self::Opcode(op) => op.widths(),
            _ => 0,
        }
    }

    /// Whether version 2.0.1 does not have it: such events are left out of the numbering of probes.
    pub fn is_new(self) -> bool {
        match self {
            Self::Opcode(op) => op.is_new(),
            other => other == Self::FuncUnwind || other.provider() == "engine",
        }
    }

    /// Its provider: the first part of a rule.
    pub fn provider(self) -> &'static str {
        if let Self::Engine(_) = self { "engine" } else { "wasm" }
    }

    /// All events of engines.
    pub fn of_engines() -> impl Iterator<Item = Self> {
        Occurrence::all().map(Self::Engine)
    }

    /// All events of programs.
    pub fn all() -> impl Iterator<Item = Self> {
        instructions().iter().map(Self::Opcode).chain(STRUCTURAL.iter().map(|s| s.2))
    }
}

fn line(index: usize, text: &'static str) -> Instruction {
    let mut columns = text.split('\t');
    let mut next = || columns.next().unwrap_or("");
    let (name, code, category, modes, variables) = (next(), next(), next(), next(), next());
    let modes = match modes {
        "block" => Modes::Block,
        "branch" => Modes::Branch,
        "end" => Modes::End,
        "never" => Modes::Never,
        _ => Modes::Plain,
    };
    let number = CATEGORIES.iter().position(|c| *c == category).unwrap_or(0);
    let code = u32::from_str_radix(code.trim_start_matches("0x"), 16).unwrap_or(0);
    Instruction { name, code, category: u8::try_from(number).unwrap_or(0), index, modes, variables }
}

/// All instructions, in the order in which rules are expanded.
pub fn instructions() -> &'static [Instruction] {
    static TABLE: OnceLock<Vec<Instruction>> = OnceLock::new();
    TABLE.get_or_init(|| {
        include_str!("table.tsv").lines().skip(1).enumerate().map(|(i, l)| line(i, l)).collect()
    })
}

/// The instruction with an opcode.
pub fn by_code(code: u32) -> Option<&'static Instruction> {
    static CODES: OnceLock<HashMap<u32, usize>> = OnceLock::new();
    let codes = CODES.get_or_init(|| instructions().iter().map(|i| (i.code, i.index)).collect());
    codes.get(&code).map(|&i| &instructions()[i])
}

/// The opcode at the beginning of these bytes, in the table's encoding.
pub fn code_of(bytes: &[u8]) -> Option<u32> {
    let first = u32::from(*bytes.first()?);
    if !(0xfb..=0xfe).contains(&first) {
        return Some(first);
    }
    let mut number = 0;
    for (i, &b) in bytes[1..].iter().take(5).enumerate() {
        number |= u32::from(b & 0x7f).checked_shl(7 * u32::try_from(i).ok()?)?;
        if b < 0x80 {
            return Some(if number < 256 { first << 8 | number } else { first << 12 | number });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_opcode_and_no_name_is_listed_twice() {
        let names: HashSet<_> = instructions().iter().map(|i| i.name).collect();
        let codes: HashSet<_> = instructions().iter().map(|i| i.code).collect();
        assert_eq!((names.len(), codes.len()), (instructions().len(), instructions().len()));
        assert!(instructions().len() > 560);
    }

    #[test]
    fn opcodes_are_read_with_their_prefixes() {
        let name = |bytes: &[u8]| code_of(bytes).and_then(by_code).map(|i| i.name);
        assert_eq!(name(&[0x6a]), Some("i32.add"));
        assert_eq!(name(&[0xfc, 0x0a, 0, 0]), Some("memory.copy"));
        assert_eq!(name(&[0xfd, 0x80, 0x02]), Some("i8x16.relaxed_swizzle"));
        assert_eq!(name(&[0xfe, 0x10, 2, 0]), Some("i32.atomic.load"));
        assert_eq!((name(&[]), name(&[0xfd]), name(&[0xe0])), (None, None, None));
    }
}
