//! Traps are detected before they happen: no code runs after one, so data that the program has not
//! written by then would be lost. Code before an instruction checks whether it will trap. If so, it
//! records the trap and writes the trace; then the instruction is executed.
//!
//! Not detected are instructions that change tables, and exhausted stacks; and unless types are
//! private, calls through tables with a wrong type, calls by null references, and failed casts: the
//! information comes too late, or costs too much.

use wasm_encoder::{InstructionSink, ValType};
use wasmparser::Operator;

/// Why a program traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Unreachable,
    Memory,
    DivisionByZero,
    Overflow,
    Conversion,
    UndefinedElement,
    UninitializedElement,
    Mismatch,
    NullReference,
    CastFailure,
}

impl Reason {
    pub(crate) const ALL: [Self; 10] = [
        Self::Unreachable,
        Self::Memory,
        Self::DivisionByZero,
        Self::Overflow,
        Self::Conversion,
        Self::UndefinedElement,
        Self::UninitializedElement,
        Self::Mismatch,
        Self::NullReference,
        Self::CastFailure,
    ];

    /// The engine's own text: the engine compares them.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Memory => "out of bounds memory access",
            Self::DivisionByZero => "integer divide by zero",
            Self::Overflow => "integer overflow",
            Self::Conversion => "invalid conversion to integer",
            Self::UndefinedElement => "undefined element",
            Self::UninitializedElement => "uninitialized element",
            Self::Mismatch => "indirect call type mismatch",
            Self::NullReference => "null function reference",
            Self::CastFailure => "cast failure",
        }
    }
}

/// A division of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    pub(crate) ty: ValType,
    /// Whether the least number divided by -1 traps.
    pub(crate) overflows: bool,
}

impl Division {
    /// Decodes a division, if it may trap with such a divisor; `divisor` is `None` if it is not a
    /// constant.
    pub(crate) fn read(operator: &Operator<'_>, divisor: Option<u64>) -> Option<Self> {
        let (ty, overflows) = match operator {
            Operator::I32DivS => (ValType::I32, true),
            Operator::I32DivU | Operator::I32RemS | Operator::I32RemU => (ValType::I32, false),
            Operator::I64DivS => (ValType::I64, true),
            Operator::I64DivU | Operator::I64RemS | Operator::I64RemU => (ValType::I64, false),
            _ => return None,
        };
        let minus_one = if ty == ValType::I64 { u64::MAX } else { u32::MAX.into() };
        let may_trap = match divisor {
            Some(divisor) => divisor == 0 || (overflows && divisor == minus_one),
            None => true,
        };
        may_trap.then_some(Self { ty, overflows })
    }
}

/// A conversion to an integer, and the range of its operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conversion {
    pub(crate) from: ValType,
    /// The least number, or the one below it.
    least: f64,
    is_below: bool,
    /// The number above the greatest.
    above: f64,
}

impl Conversion {
    pub(crate) fn read(operator: &Operator<'_>) -> Option<Self> {
        const WORD: f64 = 4_294_967_296.0;
        const LONG: f64 = WORD * WORD;
        let (from, bits_32, signed) = match operator {
            Operator::I32TruncF32S => (ValType::F32, true, true),
            Operator::I32TruncF32U => (ValType::F32, true, false),
            Operator::I32TruncF64S => (ValType::F64, true, true),
            Operator::I32TruncF64U => (ValType::F64, true, false),
            Operator::I64TruncF32S => (ValType::F32, false, true),
            Operator::I64TruncF32U => (ValType::F32, false, false),
            Operator::I64TruncF64S => (ValType::F64, false, true),
            Operator::I64TruncF64U => (ValType::F64, false, false),
            _ => return None,
        };
        let all = if bits_32 { WORD } else { LONG };
        // Only an f64 can hold a fraction between the least number and the one below it.
        let (least, is_below) = match (signed, from, bits_32) {
            (false, ..) => (-1.0, true),
            (true, ValType::F64, true) => (-WORD / 2.0 - 1.0, true),
            (true, ..) => (-all / 2.0, false),
        };
        Some(Self { from, least, is_below, above: if signed { all / 2.0 } else { all } })
    }

    /// Pushes whether a local is NaN.
    pub(crate) fn is_nan(&self, sink: &mut InstructionSink<'_>, local: u32) {
        sink.local_get(local).local_get(local);
        match self.from {
            ValType::F32 => sink.f32_ne(),
            _ => sink.f64_ne(),
        };
    }

    /// Pushes whether a local is out of range.
    pub(crate) fn overflows(&self, sink: &mut InstructionSink<'_>, local: u32) {
        sink.local_get(local);
        match (self.from, self.is_below) {
            (ValType::F32, true) => sink.f32_const((self.least as f32).into()).f32_le(),
            (ValType::F32, false) => sink.f32_const((self.least as f32).into()).f32_lt(),
            (_, true) => sink.f64_const(self.least.into()).f64_le(),
            (_, false) => sink.f64_const(self.least.into()).f64_lt(),
        };
        sink.local_get(local);
        match self.from {
            ValType::F32 => sink.f32_const((self.above as f32).into()).f32_ge(),
            _ => sink.f64_const(self.above.into()).f64_ge(),
        };
        sink.i32_or();
    }
}
