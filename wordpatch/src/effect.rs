//! The effect of one instruction, for the instructions that a trap may replace.
//!
//! While a word is replaced, a thread that reaches it runs into `INT3`. Its trap handler has the
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
//! Wrong is worse than `None`. An encoding is decoded only where the manuals of both vendors and
//! the foreign decoder of the tests agree: a branch with an operand-size prefix, which AMD cuts to
//! 16 bits and Intel does not, is unknown here, as is every LOCK, every FS or GS, every second REX.
//! Memory is an operand only relative to the instruction pointer, and only to be read; what an
//! instruction reads is read when it is carried out, as the processor would.
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

/// An instruction whose effect is known.
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

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Skip,
    /// Go to the target.
    Jump(Target),
    /// Go there if the condition holds.
    Branch(Condition, CodeAddr),
    /// Push the address behind the instruction and go to the target.
    Call(Target),
    /// Pop an address, drop `release` more bytes off the stack, and go to the address.
    Return {
        /// Bytes of arguments.
        release: u16,
    },
    /// Set the flags by the bitwise and of two operands.
    Test {
        /// Of both operands.
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
    /// To this address.
    Code(CodeAddr),
    /// To the address in a register.
    Register(Register),
    /// To the address in the eight bytes at this one.
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
    /// The bytes at this address, as many as the test is wide.
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

/// The instruction cannot be carried out for this thread; nothing has been changed.
///
/// It is a call or a return and the thread has a shadow stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// Does to `machine` what `instruction`, which was decoded at `at`, does to the thread that runs
/// it.
///
/// `shadow_stack` says whether the processor keeps one for the thread: then a call and a return are
/// refused, before anything has been read or changed.
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
            // Before the push: the target may be in RSP, or in the very bytes that the push
            // overwrites.
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
