//! The machine that an instruction acts on: registers, flags, stack and memory of one thread.

use crate::addr::CodeAddr;
use crate::live::Width;

/// A general register, in the order of its number in an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names are their meaning")]
pub(crate) enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Register {
    /// All registers, by number.
    pub(crate) const ALL: [Self; 16] = [
        Self::Rax,
        Self::Rcx,
        Self::Rdx,
        Self::Rbx,
        Self::Rsp,
        Self::Rbp,
        Self::Rsi,
        Self::Rdi,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::R11,
        Self::R12,
        Self::R13,
        Self::R14,
        Self::R15,
    ];

    /// The register whose number is in the low four bits of `number`.
    pub(super) fn numbered(number: u8) -> Self {
        Self::ALL[usize::from(number & 15)]
    }
}

/// A register or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The low bytes of a register, of this width.
    Low(Register, Width),
    /// The second byte of one of the first four registers: AH, CH, DH, BH.
    High(Register),
}

impl Part {
    pub(super) fn read(self, machine: &impl Machine) -> u64 {
        match self {
            Self::Low(register, width) => truncate(machine.register(register), width),
            Self::High(register) => machine.register(register) >> 8 & 0xff,
        }
    }

    /// A write of four bytes clears the upper four; a write of one or two keeps the rest (Intel SDM
    /// volume 1, section "General-Purpose Registers in 64-Bit Mode").
    pub(super) fn write(self, machine: &mut impl Machine, value: u64) {
        let (register, written, value) = match self {
            Self::Low(register, Width::Eight | Width::Four) => (register, u64::MAX, value),
            Self::Low(register, Width::Two) => (register, 0xffff, value),
            Self::Low(register, Width::One) => (register, 0xff, value),
            Self::High(register) => (register, 0xff00, value << 8),
        };
        let kept = machine.register(register) & !written;
        machine.set_register(register, kept | value & written);
    }
}

/// The low bytes of `value`, of this width.
pub(super) fn truncate(value: u64, width: Width) -> u64 {
    value & u64::MAX >> (64 - 8 * width.bytes())
}

/// The registers and the memory of the thread that a trap interrupted.
pub(crate) trait Machine {
    /// The value of a register.
    fn register(&self, register: Register) -> u64;

    /// Changes a register.
    fn set_register(&mut self, register: Register, value: u64);

    /// RFLAGS.
    fn flags(&self) -> u64;

    /// Changes RFLAGS. Only the carry, parity, zero, sign and overflow flags differ from what
    /// [`flags`](Self::flags) returned.
    fn set_flags(&mut self, flags: u64);

    /// Sets the address at which the thread continues.
    fn set_instruction_pointer(&mut self, to: CodeAddr);

    /// The bytes at `address`, of this width, as a little-endian number. The interrupted
    /// instruction reads them: if they are not mapped, it would have faulted, too.
    fn load(&self, address: u64, width: Width) -> u64;

    /// Stores eight bytes at `address`: a slot of the thread's stack, which the interrupted
    /// instruction writes.
    fn store(&mut self, address: u64, value: u64);

    /// Pushes eight bytes on the thread's stack.
    fn push(&mut self, value: u64) {
        let top = self.register(Register::Rsp).wrapping_sub(8);
        self.store(top, value);
        self.set_register(Register::Rsp, top);
    }

    /// Pops eight bytes off the thread's stack.
    fn pop(&mut self) -> u64 {
        let top = self.register(Register::Rsp);
        let value = self.load(top, Width::Eight);
        self.set_register(Register::Rsp, top.wrapping_add(8));
        value
    }
}
