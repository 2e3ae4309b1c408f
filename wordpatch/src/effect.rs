//! The effect of one instruction, for the instructions that a trap may replace.
//!
//! While a word is replaced, a thread that reaches it executes `INT3`. Its trap handler has the
//! word's instruction, old or new, but not in executable form. A patch site mostly holds a nop, a
//! jump or a call, and next to it instructions that compilers emit at the start of a function or at
//! a return. For those the handler need not wait until the replacement is done: it emulates the
//! instruction's effect on the thread's registers, flags and stack, and lets the thread continue
//! after it.
//!
//! ```text
//!   bytes ── decode ──→ Instruction { len, effect } ── carry_out ──→ registers, flags, stack, instruction pointer
//!              │                                           │
//!            None: not known exactly                     Refused: not possible here; nothing was changed
//! ```
//!
//! A wrong result is worse than `None`. An encoding is decoded only where the manuals of both
//! vendors and the independent decoder of the tests agree. A branch with an operand-size prefix,
//! which AMD truncates to 16 bits and Intel does not, is unknown here, as is every LOCK, every FS
//! or GS, and every second REX. A memory operand is relative to the instruction pointer, and only
//! read. It is read when the instruction is emulated, as the processor would.
//!
//! A call and a return also move the shadow stack (Intel SDM volume 1, "Control-flow Enforcement
//! Technology"). A handler cannot do that for the thread, so it has to know whether the thread has
//! one.
//!
//! All of this runs inside a signal handler: it is pure and total, it allocates nothing, takes no
//! lock and cannot panic.

use crate::addr::CodeAddr;
use crate::live::Width;

mod condition;
mod decoder;
mod machine;
#[cfg(test)]
mod tests;

pub(crate) use condition::Condition;
pub(crate) use decoder::{LONGEST, decode};
pub(crate) use machine::{Machine, Part, Register};

/// An instruction with a known effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    len: u8,
    effect: Effect,
}

impl Instruction {
    /// Its size in bytes: one to fifteen.
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }
}

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Skip,
    /// Jump to the target.
    Jump(Target),
    /// Jump to the address if the condition holds.
    Branch(Condition, CodeAddr),
    /// Push the address after the instruction and jump to the target.
    Call(Target),
    /// Pop an address, remove `release` more bytes from the stack, and jump to the address.
    Return {
        /// The size of the arguments in bytes.
        release: u16,
    },
    /// Set the flags by the bitwise and of two operands.
    Test {
        /// The width of both operands.
        width: Width,
        /// One of them.
        left: Operand,
        /// The other.
        right: Operand,
    },
    /// Write a constant to a register.
    Move {
        /// The destination.
        to: Part,
        /// The constant, zero beyond the width of `to`.
        value: u64,
    },
}

/// The target of a jump or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An address.
    Code(CodeAddr),
    /// The address in a register.
    Register(Register),
    /// The address in the eight bytes at this address.
    Memory(u64),
}

impl Target {
    fn address(self, machine: &impl Machine) -> CodeAddr {
        match self {
            Self::Code(address) => address,
            Self::Register(register) => CodeAddr::new(machine.register(register) as usize),
            Self::Memory(address) => CodeAddr::new(machine.load(address, Width::Eight) as usize),
        }
    }
}

/// An operand of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A register, or a part of it as wide as the test.
    Part(Part),
    /// The bytes at this address, as many as the width of the test.
    Memory(u64),
    /// A constant, zero beyond the width of the test.
    Constant(u64),
}

impl Operand {
    fn value(self, width: Width, machine: &impl Machine) -> u64 {
        match self {
            Self::Part(part) => part.read(machine),
            Self::Memory(address) => machine::truncate(machine.load(address, width), width),
            Self::Constant(value) => value,
        }
    }
}

/// The instruction cannot be emulated for this thread; nothing has been changed.
///
/// It is a call or a return and the thread has a shadow stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// Emulates `instruction`, which was decoded at `at`: changes `machine` as the instruction changes
/// the thread that runs it.
///
/// `shadow_stack` is set if the thread has a shadow stack. Then a call or a return is refused,
/// before anything is read or changed.
pub(crate) fn carry_out(
    instruction: Instruction,
    at: CodeAddr,
    machine: &mut impl Machine,
    shadow_stack: bool,
) -> Result<(), Refused> {
    let behind = at.offset(instruction.len as isize);
    let next = match instruction.effect {
        Effect::Call(_) | Effect::Return { .. } if shadow_stack => return Err(Refused),
        Effect::Skip => behind,
        Effect::Jump(target) => target.address(machine),
        Effect::Branch(condition, target) => {
            if condition.holds(machine) {
                target
            } else {
                behind
            }
        }
        Effect::Call(target) => {
            // Before the push: the target may be in RSP, or in the bytes that the push overwrites.
            let target = target.address(machine);
            machine.push(behind.get() as u64);
            target
        }
        Effect::Return { release } => {
            let target = machine.pop();
            let top = machine.register(Register::Rsp).wrapping_add(release.into());
            machine.set_register(Register::Rsp, top);
            CodeAddr::new(target as usize)
        }
        Effect::Test { width, left, right } => {
            let result = left.value(width, machine) & right.value(width, machine);
            machine.set_flags(condition::after_logic(machine.flags(), result, width));
            behind
        }
        Effect::Move { to, value } => {
            to.write(machine, value);
            behind
        }
    };
    machine.set_instruction_pointer(next);
    Ok(())
}
