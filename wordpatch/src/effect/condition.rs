//! The flags: how an instruction sets them and when a branch is taken.

use super::machine::{Machine, Register};
use crate::live::Width;

// Intel SDM volume 1, section "EFLAGS Register"; AMD64 APM volume 1, section "Flags Register".
pub(super) const CARRY: u64 = 1 << 0;
pub(super) const PARITY: u64 = 1 << 2;
pub(super) const ZERO: u64 = 1 << 6;
pub(super) const SIGN: u64 = 1 << 7;
pub(super) const OVERFLOW: u64 = 1 << 11;

/// `flags` after an and, or or xor with this `result`. The adjust flag is undefined then, and stays
/// as it was.
pub(super) fn after_logic(flags: u64, result: u64, width: Width) -> u64 {
    let sign = 1 << (width.bytes() * 8 - 1);
    let set = |flag, on| if on { flag } else { 0 };
    flags & !(CARRY | PARITY | ZERO | SIGN | OVERFLOW)
        | set(PARITY, (result as u8).count_ones().is_multiple_of(2))
        | set(ZERO, result == 0)
        | set(SIGN, result & sign != 0)
}

/// The condition of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The low four bits of the opcode: three select a combination of flags, the lowest negates it.
    Flags(u8),
    /// RCX is zero.
    CounterIsZero,
}

impl Condition {
    pub(super) fn holds(self, machine: &impl Machine) -> bool {
        let code = match self {
            Self::CounterIsZero => return machine.register(Register::Rcx) == 0,
            Self::Flags(code) => code,
        };
        let flags = machine.flags();
        let any = |wanted| flags & wanted != 0;
        let less = any(SIGN) != any(OVERFLOW);
        // Intel SDM volume 1, appendix B "EFLAGS Condition Codes".
        let positive = match code >> 1 & 7 {
            0 => any(OVERFLOW),
            1 => any(CARRY),
            2 => any(ZERO),
            3 => any(CARRY | ZERO),
            4 => any(SIGN),
            5 => any(PARITY),
            6 => less,
            _ => less || any(ZERO),
        };
        positive != (code & 1 != 0)
    }
}
