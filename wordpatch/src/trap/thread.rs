//! The registers and the stack of the thread that a signal interrupted.

use crate::addr::CodeAddr;
use crate::effect::{Machine, Register};
use crate::live::Width;
use std::arch::asm;

/// An interrupted thread, by the registers that the kernel saved and will restore.
pub(super) struct Interrupted<'a> {
    registers: &'a mut [libc::greg_t; 23],
    stack: Option<usize>,
}

impl<'a> Interrupted<'a> {
    /// The thread's memory is accessed with the stack pointer set to `stack`, if one is given. The
    /// access may fault, and then the kernel uses the stack pointer to find out whether the signal
    /// stack is in use.
    pub(super) fn new(context: &'a mut libc::ucontext_t, stack: Option<usize>) -> Self {
        Self { registers: &mut context.uc_mcontext.gregs, stack }
    }

    /// The address of the one-byte trap that the thread has just executed.
    pub(super) fn trap(&self) -> CodeAddr {
        CodeAddr::new(self.registers[libc::REG_RIP as usize] as usize).offset(-1)
    }

    /// Lets the thread continue at `address`.
    pub(super) fn resume_at(&mut self, address: CodeAddr) {
        self.registers[libc::REG_RIP as usize] = address.get() as libc::greg_t;
    }
}

/// The kernel's index of each register, by its number in an encoding.
const PLACES: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Executes one instruction on `value` and the memory at `address`, with the stack pointer set to
/// `$stack`, or unchanged. Returns the value.
macro_rules! on_stack {
    ($stack:expr, $instruction:literal, $address:expr) => {
        on_stack!($stack, $instruction, $address, 0u64)
    };
    ($stack:expr, $instruction:literal, $address:expr, $value:expr) => {{
        let (mut value, address): (u64, u64) = ($value, $address);
        match $stack {
            Some(stack) => asm!(
                "xchg rsp, {stack}",
                $instruction,
                "xchg rsp, {stack}",
                stack = inout(reg) stack => _,
                address = in(reg) address,
                value = inout(reg) value,
                options(preserves_flags),
            ),
            None => asm!($instruction, address = in(reg) address, value = inout(reg) value, options(preserves_flags)),
        }
        value
    }};
}

impl Machine for Interrupted<'_> {
    fn register(&self, register: Register) -> u64 {
        self.registers[PLACES[register as usize] as usize] as u64
    }

    fn set_register(&mut self, register: Register, value: u64) {
        self.registers[PLACES[register as usize] as usize] = value as libc::greg_t;
    }

    fn flags(&self) -> u64 {
        self.registers[libc::REG_EFL as usize] as u64
    }

    fn set_flags(&mut self, flags: u64) {
        self.registers[libc::REG_EFL as usize] = flags as libc::greg_t;
    }

    fn load(&self, address: u64, width: Width) -> u64 {
        // SAFETY: (1) the thread's own next instruction reads these bytes: if they cannot be read,
        // it faults here as it would have there.
        unsafe {
            match width {
                Width::One => {
                    on_stack!(self.stack, "movzx {value:e}, byte ptr [{address}]", address)
                }
                Width::Two => {
                    on_stack!(self.stack, "movzx {value:e}, word ptr [{address}]", address)
                }
                Width::Four => {
                    on_stack!(self.stack, "mov {value:e}, dword ptr [{address}]", address)
                }
                Width::Eight => {
                    on_stack!(self.stack, "mov {value}, qword ptr [{address}]", address)
                }
            }
        }
    }

    fn store(&mut self, address: u64, value: u64) {
        // SAFETY: (1) the thread's own next instruction writes these bytes; (2) they lie below its
        // stack pointer, and the kernel put the signal's frame below the red zone or on another
        // stack, so the handler does not use them.
        unsafe { on_stack!(self.stack, "mov qword ptr [{address}], {value}", address, value) };
    }

    fn set_instruction_pointer(&mut self, address: CodeAddr) {
        self.resume_at(address);
    }
}
