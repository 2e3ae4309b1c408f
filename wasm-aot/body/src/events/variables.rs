//! The variables that a probe can use at each event.
//!
//! A variable is *static* if its value is known when a site is matched, *dynamic* if it is known
//! when the site is reached, or a *formula*: an expression of the language over other variables, so
//! that it works wherever they work, including predicates.

use super::{CATEGORIES, Event, Instruction};
use crate::types::Ty;

/// The meaning of a bound variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as in the language")]
pub enum Bound {
    // Static.
    Pc,
    Fid,
    OpIdx,
    AtFuncEnd,
    Fname,
    ProbeId,
    File,
    Line,
    AppMemId,
    Opname,
    CategoryId,
    CategoryName,
    Bytecode,
    InstrCount,
    Imm(u8),
    DataSize,
    Offset,
    Align,
    Memory,
    IsWrite,
    Targets,
    DefaultTarget,
    NumTargets,
    TargetFnName,
    TargetFnType,
    TargetImpModule,
    // Dynamic.
    Arg(u8),
    Res(u8),
    Local(u8),
    /// The function in the table entry that is about to be used.
    TargetFuncref,
    /// The index of that function, or -1.
    ResolvedFid,
    /// Whether a branch that tests a reference will be taken.
    RefTaken,
    /// The size of the memory that is accessed, in bytes.
    MemoryBytes,
    /// Whether the instruction is about to trap, where this does not follow from its operands
    /// alone.
    Trap,
    /// A value that an engine reports with an event.
    Told(Told),
    /// Derived.
    Formula(&'static str),
}

/// The values that engines report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as in the language")]
pub enum Told {
    Functions,
    Bytes,
    Fid,
    Memory,
    Before,
    After,
    Code,
    Pc,
    Thread,
}

impl Told {
    /// Its type in scripts; engines pass it with the same number of bits.
    pub fn ty(self) -> Ty {
        match self {
            Self::Bytes | Self::Before | Self::After => Ty::U64,
            // -1 means unknown.
            Self::Code | Self::Fid | Self::Pc => Ty::I32,
            Self::Functions | Self::Memory | Self::Thread => Ty::U32,
        }
    }
}

impl Bound {
    /// Whether the value is known when a site is matched.
    pub fn is_static(self) -> bool {
        self < Self::Arg(0)
    }

    /// Its name in diagnostics and export names.
    pub fn name(self) -> String {
        match self {
            Self::Imm(n) => format!("imm{n}"),
            Self::Arg(n) => format!("arg{n}"),
            Self::Res(n) => format!("res{n}"),
            Self::Local(n) => format!("local{n}"),
            Self::Formula(text) => text.into(),
            Self::Told(what) => format!("{what:?}").to_ascii_lowercase(),
            Self::OpIdx => "opidx".into(),
            Self::AppMemId => "APP_MEMID".into(),
            Self::ResolvedFid => "resolved_fid".into(),
            other => {
                let mut name = String::new();
                for c in format!("{other:?}").chars() {
                    if c.is_ascii_uppercase() && !name.is_empty() {
                        name.push('_');
                    }
                    name.push(c.to_ascii_lowercase());
                }
                name
            }
        }
    }
}

/// A variable of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its meaning.
    pub bound: Bound,
    /// Its type, [`Ty::Any`] if a bound has to specify it.
    pub ty: Ty,
}

/// A function that exists only at some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// Drops the operands.
    DropArgs,
    /// Calls another function with the operands, by its index.
    AltCallById,
    /// Calls another function with the operands, by its name.
    AltCallByName,
    /// Performs a bulk operation a second time at another address.
    DupAt,
}

fn def(bound: Bound, ty: Ty) -> Option<Definition> {
    Some(Definition { bound, ty })
}

/// Whether an access with an address of 64 bits traps.
const WIDE_ACCESS: &str = "offset > memory_bytes || (data_size as u64) > memory_bytes - offset \
    || addr > memory_bytes - offset - (data_size as u64)";

/// The same for an access that also has to be aligned.
const WIDE_ATOMIC: &str = "offset > memory_bytes || (data_size as u64) > memory_bytes - offset \
    || addr > memory_bytes - offset - (data_size as u64) || (addr + offset) % (data_size as u64) != 0";

/// Instructions that trap depending on tables, segments or references.
const LOOKED_UP: [&str; 36] = [
    "call_indirect",
    "return_call_indirect",
    "call_ref",
    "return_call_ref",
    "table.get",
    "table.set",
    "table.fill",
    "table.copy",
    "table.init",
    "memory.fill",
    "memory.copy",
    "memory.init",
    "memory.atomic.notify",
    "memory.atomic.wait32",
    "memory.atomic.wait64",
    "ref.as_non_null",
    "throw_ref",
    "ref.cast",
    "ref.cast_null",
    "i31.get_s",
    "i31.get_u",
    "struct.get",
    "struct.get_s",
    "struct.get_u",
    "struct.set",
    "array.len",
    "array.get",
    "array.get_s",
    "array.get_u",
    "array.set",
    "array.fill",
    "array.copy",
    "array.init_data",
    "array.init_elem",
    "array.new_data",
    "array.new_elem",
];

/// Names of earlier versions, and their present names.
pub const FORMER: [(&str, &str); 3] =
    [("is_func_end", "at_func_end"), ("op_name", "opname"), ("func_name", "fname")];

fn numbered(name: &str, prefix: &str) -> Option<u8> {
    let digits = name.strip_prefix(prefix)?;
    let plain =
        digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| digits.parse().ok()).flatten()
}

impl Event {
    /// The meaning of a name at this event.
    pub fn variable(self, name: &str) -> Option<Definition> {
        match name {
            "APP_MEMID" => return def(Bound::AppMemId, Ty::U32),
            _ if !self.has_sites() => {
                let Self::Engine(what) = self else { return None };
                let told = what.told().iter().find(|told| told.0 == name)?.1;
                return def(Bound::Told(told), told.ty());
            }
            "pc" => return def(Bound::Pc, Ty::U32),
            "fid" => return def(Bound::Fid, Ty::U32),
            "opidx" => return def(Bound::OpIdx, Ty::U32),
            "at_func_end" => return def(Bound::AtFuncEnd, Ty::Bool),
            "fname" => return def(Bound::Fname, Ty::Str),
            "probe_id" => return def(Bound::ProbeId, Ty::I32),
            "file" => return def(Bound::File, Ty::Str),
            "line" => return def(Bound::Line, Ty::U32),
            _ => {}
        }
        if let Some(n) = numbered(name, "local") {
            return def(Bound::Local(n), Ty::Any);
        }
        match self {
            Self::BlockEnd if name == "instr_count" => def(Bound::InstrCount, Ty::U32),
            Self::Opcode(op) => op.variable(name),
            _ => None,
        }
    }

    /// All variables, with their names; families are represented by their first member.
    pub fn variables(self) -> Vec<(String, Definition)> {
        let mut names: Vec<String> = [
            "APP_MEMID",
            "fid",
            "pc",
            "opidx",
            "at_func_end",
            "fname",
            "file",
            "line",
            "probe_id",
            "local0",
            "instr_count",
        ]
        .map(String::from)
        .into();
        if let Self::Engine(what) = self {
            names.extend(what.told().iter().map(|told| told.0.to_string()));
        }
        if let Self::Opcode(op) = self {
            names.extend(
                ["opname", "category_id", "category_name", "bytecode", "taken", "trap"]
                    .map(String::from),
            );
            for word in op.variables.split(' ') {
                let name = word.split(':').next().unwrap_or("");
                match name.strip_suffix('*') {
                    Some(family) => names.push(format!("{family}0")),
                    None if name == "access" => {
                        names.extend(
                            [
                                "data_size",
                                "addr",
                                "offset",
                                "align",
                                "memory",
                                "effective_addr",
                                "is_write",
                            ]
                            .map(String::from),
                        );
                    }
                    None => names.push(name.into()),
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        names
            .into_iter()
            .filter(|n| seen.insert(n.clone()))
            .filter_map(|n| self.variable(&n).map(|d| (n, d)))
            .collect()
    }

    /// The meaning of a name at this event with 64-bit addresses: bit 0 of the width is set if the
    /// memory or table that is accessed or written to has them, bit 1 for the one that is read
    /// from.
    pub fn variable_in(self, name: &str, width: u8) -> Option<Definition> {
        let mut found = self
            .variable(name)
            .or_else(|| Instruction::hidden(name).filter(|_| name.contains('_')))?;
        if let (Self::Opcode(op), true) = (self, width > 0) {
            if name == "effective_addr" {
                return def(Bound::Formula("addr + offset"), Ty::U64);
            }
            // With 64 bits a sum may wrap, so sizes are subtracted from the end instead.
            if let (true, Bound::Formula(text)) =
                (name == "trap" && op.accessed().is_some(), found.bound)
            {
                return def(
                    Bound::Formula(if text.contains('%') { WIDE_ATOMIC } else { WIDE_ACCESS }),
                    Ty::Bool,
                );
            }
            if op.is_widened(name, width) {
                found.ty = match found.ty {
                    Ty::U32 => Ty::U64,
                    Ty::I32 => Ty::I64,
                    other => other,
                };
            }
        }
        Some(found)
    }

    /// The meaning of a name in a mode: results are known only after an instruction.
    pub fn variable_at(self, name: &str, mode: super::Mode, width: u8) -> Option<Definition> {
        let asks_results = |bound: Bound| match bound {
            Bound::Res(_) => true,
            Bound::Formula(text) => text.starts_with("res"),
            _ => false,
        };
        let found = self.variable_in(name, width)?;
        (mode == super::Mode::After || !asks_results(found.bound)).then_some(found)
    }

    /// Whether a mode uses operands that a block has consumed by then: where the block ends, and
    /// the condition of an `if` within its first arm. Only rewritten programs keep them.
    pub fn has_kept_operands(self, mode: super::Mode) -> bool {
        let Self::Opcode(op) = self else { return false };
        let is_left = matches!(mode, super::Mode::Exit | super::Mode::SemanticAfter);
        op.modes == super::Modes::Block
            && (is_left || (op.name == "if" && mode == super::Mode::Entry))
    }

    /// Functions that exist at this event and mode, with the types of their parameters.
    pub fn function(self, mode: super::Mode, name: &str) -> Option<(Function, Vec<Ty>)> {
        let alt = matches!(mode, super::Mode::Alt | super::Mode::BlockAlt);
        Some(match (name, self) {
            ("drop_args", Self::Opcode(_)) if alt => (Function::DropArgs, vec![]),
            ("alt_call_by_id", Self::Opcode(_)) if alt => (Function::AltCallById, vec![Ty::I32]),
            ("alt_call_by_name", Self::Opcode(_)) if alt => {
                (Function::AltCallByName, vec![Ty::Str])
            }
            ("dup_at", Self::Opcode(op))
                if matches!(op.name, "memory.init" | "memory.copy" | "memory.fill") =>
            {
                (Function::DupAt, vec![Ty::U32, Ty::U32])
            }
            _ => return None,
        })
    }
}

impl Instruction {
    fn variable(&self, name: &str) -> Option<Definition> {
        match name {
            "opname" => return def(Bound::Opname, Ty::Str),
            "category_id" => return def(Bound::CategoryId, Ty::U32),
            "category_name" => return def(Bound::CategoryName, Ty::Str),
            "bytecode" if self.code <= 0xffff => return def(Bound::Bytecode, Ty::U16),
            "taken" => return self.taken(),
            "trap" => return self.trap(),
            _ => {}
        }
        let mut family = None;
        for word in self.variables.split(' ') {
            let (head, tail) = word.split_once(':').unwrap_or((word, ""));
            if head == "access" {
                if let Some(found) = Self::access(tail, name) {
                    return Some(found);
                }
            } else if let Some(prefix) = head.strip_suffix('*') {
                if let Some(n) = numbered(name, prefix) {
                    let ty = if tail.is_empty() { Ty::Any } else { Ty::named(tail)? };
                    family = family.or_else(|| def(operand(prefix, n)?, ty));
                }
            } else if head == name {
                return self.listed(name, tail);
            }
        }
        family
    }

    /// Names whose types depend on the address types: of the destination, of the source, and of the
    /// count, whose type must fit both.
    fn addresses(&self) -> [&'static [&'static str]; 3] {
        match self.name {
            "memory.size" | "table.size" => [&["res0"], &[], &[]],
            "memory.grow" | "table.grow" => [&["arg0", "res0"], &[], &[]],
            "memory.fill" | "table.fill" => [&["arg0", "arg2"], &[], &[]],
            "memory.copy" | "table.copy" => [&["arg2"], &["arg1"], &["arg0"]],
            "memory.init" | "table.init" => [&["arg2"], &[], &[]],
            "table.get" | "call_indirect" | "return_call_indirect" => {
                [&["arg0", "table_entry_idx"], &[], &[]]
            }
            "table.set" => [&["arg1"], &[], &[]],
            _ => match self
                .variables
                .split(' ')
                .find_map(|w| w.strip_prefix("access:")?.split_once(':'))
                .map(|a| a.1)
            {
                Some("arg0") => [&["addr", "arg0"], &[], &[]],
                Some("arg1") => [&["addr", "arg1"], &[], &[]],
                Some("arg2") => [&["addr", "arg2"], &[], &[]],
                _ => [&[], &[], &[]],
            },
        }
    }

    pub(super) fn widths(&self) -> u8 {
        let [to, from, _] = self.addresses();
        match (to.is_empty(), from.is_empty()) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 3,
        }
    }

    fn is_widened(&self, name: &str, width: u8) -> bool {
        let [to, from, count] = self.addresses();
        (width & 1 != 0 && to.contains(&name))
            || (width & 2 != 0 && from.contains(&name))
            || (width == 3 && count.contains(&name))
    }

    fn listed(&self, name: &str, ty: &str) -> Option<Definition> {
        for prefix in ["arg", "res", "imm"] {
            if let Some(n) = numbered(name, prefix) {
                return def(operand(prefix, n)?, Ty::named(ty)?);
            }
        }
        match name {
            "targets" => def(Bound::Targets, Ty::Map((Ty::U32, Ty::U32).into())),
            "default_target" => def(Bound::DefaultTarget, Ty::U32),
            "num_targets" => def(Bound::NumTargets, Ty::U32),
            "target" => def(Bound::Formula("arg0 < num_targets ? arg0 : num_targets"), Ty::U32),
            "target_fn_name" => def(Bound::TargetFnName, Ty::Str),
            "target_fn_type" => def(Bound::TargetFnType, Ty::Str),
            "target_imp_module" => def(Bound::TargetImpModule, Ty::Str),
            "tid" => def(Bound::Formula("imm0"), Ty::U32),
            "field_idx" => def(Bound::Formula("imm1"), Ty::U32),
            "table_entry_idx" => def(Bound::Formula("arg0"), Ty::I32),
            "target_funcref" => def(Bound::TargetFuncref, Ty::FuncRef),
            "failed" => def(Bound::Formula("res0 == -1"), Ty::Bool),
            "resolved_fid" if self.name == "ref.func" => {
                def(Bound::Formula("imm0 as i32"), Ty::I32)
            }
            "resolved_fid" => def(Bound::ResolvedFid, Ty::I32),
            _ => None,
        }
    }

    /// Variables of instructions that access memory; `shape` is the size, the direction and the
    /// operand with the address, as in `4r:arg0`.
    fn access(shape: &'static str, name: &str) -> Option<Definition> {
        let (size, addr) = shape.split_once(':')?;
        match name {
            "data_size" if !size.starts_with('0') => def(Bound::DataSize, Ty::U32),
            "addr" => def(Bound::Formula(addr), Ty::U32),
            "offset" => def(Bound::Offset, Ty::U64),
            "align" => def(Bound::Align, Ty::U32),
            "memory" => def(Bound::Memory, Ty::U32),
            "effective_addr" => def(Bound::Formula("addr + offset as u32"), Ty::U32),
            "is_write" => def(Bound::IsWrite, Ty::Bool),
            _ => operand("arg", numbered(name, "arg")?)
                .filter(|_| addr == name)
                .and_then(|b| def(b, Ty::U32)),
        }
    }

    /// Size in bytes and direction of an access to memory.
    pub fn accessed(&self) -> Option<(u32, bool)> {
        let shape = self.variables.split(' ').find_map(|w| w.strip_prefix("access:"))?;
        let (size, _) = shape.split_once(':')?;
        Some((size[..size.len() - 1].parse().ok()?, size.ends_with('w')))
    }

    /// How many operands it takes from the stack and how many results it leaves there, if each is
    /// listed.
    pub fn operands(&self) -> Option<(usize, usize)> {
        let count = |prefix: &str| {
            let words = self.variables.split(' ').filter_map(|word| word.strip_prefix(prefix));
            let numbers = words.map(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            numbers.map(|is_number| is_number.then_some(1)).sum::<Option<usize>>()
        };
        Some((count("arg")?, count("res")?))
    }

    /// Whether a branch will be taken.
    fn taken(&self) -> Option<Definition> {
        match self.name {
            "if" | "br_if" => def(Bound::Formula("arg0 != 0"), Ty::Bool),
            "br" | "br_table" | "return" => def(Bound::Formula("true"), Ty::Bool),
            "br_on_null" | "br_on_non_null" | "br_on_cast" | "br_on_cast_fail" => {
                def(Bound::RefTaken, Ty::Bool)
            }
            _ => None,
        }
    }

    /// Whether the instruction will trap. Stack overflows and lack of memory are not predicted.
    fn trap(&self) -> Option<Definition> {
        let formula = match self.name {
            "unreachable" => "true",
            "i32.div_s" => "arg0 == 0 || (arg0 == -1 && arg1 == -2147483648)",
            "i64.div_s" => "arg0 == 0 || (arg0 == -1 && arg1 == -9223372036854775808)",
            "i32.div_u" | "i32.rem_s" | "i32.rem_u" | "i64.div_u" | "i64.rem_s" | "i64.rem_u" => {
                "arg0 == 0"
            }
            "i32.trunc_f32_s" => "!(arg0 >= -2147483648.0 && arg0 < 2147483648.0)",
            "i32.trunc_f64_s" => "!(arg0 > -2147483649.0 && arg0 < 2147483648.0)",
            "i32.trunc_f32_u" | "i32.trunc_f64_u" => "!(arg0 > -1.0 && arg0 < 4294967296.0)",
            "i64.trunc_f32_s" | "i64.trunc_f64_s" => {
                "!(arg0 >= -9223372036854775808.0 && arg0 < 9223372036854775808.0)"
            }
            "i64.trunc_f32_u" | "i64.trunc_f64_u" => {
                "!(arg0 > -1.0 && arg0 < 18446744073709551616.0)"
            }
            name if LOOKED_UP.contains(&name) => return def(Bound::Trap, Ty::Bool),
            _ if self.accessed().is_some()
                && CATEGORIES[usize::from(self.category)] == "atomic" =>
            {
                "(addr as u64) + offset + (data_size as u64) > memory_bytes || ((addr as u64) + offset) % (data_size as u64) != 0"
            }
            _ if self.accessed().is_some() => {
                "(addr as u64) + offset + (data_size as u64) > memory_bytes"
            }
            _ => "false",
        };
        def(Bound::Formula(formula), Ty::Bool)
    }

    /// Variables that only formulas use.
    pub fn hidden(name: &str) -> Option<Definition> {
        match name {
            "memory_bytes" => def(Bound::MemoryBytes, Ty::U64),
            _ => None,
        }
    }
}

fn operand(prefix: &str, n: u8) -> Option<Bound> {
    match prefix {
        "arg" => Some(Bound::Arg(n)),
        "res" => Some(Bound::Res(n)),
        "imm" => Some(Bound::Imm(n)),
        _ => None,
    }
}
