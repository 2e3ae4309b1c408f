//! A gate: a byte in the crate's code memory that has two values and sends threads one way or the
//! other. It is always writable, and no other code uses it. So a gate is represented by two words,
//! and switching it cannot fail.
//!
//! ```text
//!   a site      A9/E8 rel32, A9/E9 rel32    its first byte; rel32 is stored while that is off
//!   a branch    0F 8x rel32, E9 rel32       the lowest byte of its distance, where both fit
//! ```
//!
//! It is the simplest kind of [call site](crate::CallSite): it need not be found, decoded or made
//! writable, because this crate writes the code around it, too.
//!
//! # Safety
//!
//! This module exists to store one of two bytes, both of which are valid there.
#![allow(unsafe_code)]

use crate::x86::{Form, Role, Switch};
use wordpatch::CodeAddr;
use wordpatch::live::{self, Width};

/// A byte of this crate's code that is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its writable address.
    at: CodeAddr,
    /// Its value while it is off, and while it is on.
    encodings: [u8; 2],
}

/// The bytes of a jump out of line, off and on.
const DETOUR: [u8; 2] = match Form::Jump.off(Role::Detour) {
    Some(off) => [off, Form::Jump.on()],
    None => unreachable!(),
};

impl Gate {
    /// The gate at the beginning of a stub that is executed at `address` and written at a distance
    /// of `alias`; `None` if the stub does not begin with such a jump.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(crate) unsafe fn at(address: CodeAddr, alias: isize) -> Option<Self> {
        // SAFETY: (1) the caller.
        let found = unsafe { live::load_byte(address) };
        (found == Form::Jump.on()).then_some(Self { at: address.offset(alias), encodings: DETOUR })
    }

    /// The gate of the byte that is written at `at`, with its values while it is off and while it
    /// is on.
    ///
    /// # Safety
    /// 1. It is mapped and writable, and stays so while the gate is used. 2. Both paths are valid
    ///    whenever it is switched, and flags are dead at its instruction. 3. No other code writes
    ///    there.
    pub const unsafe fn new(at: CodeAddr, encodings: [u8; 2]) -> Self {
        Self { at, encodings }
    }

    /// Switches it: one byte, which is never torn (A3). Usable in a signal handler.
    #[inline]
    pub fn set(self, to: Switch) {
        let encoding = self.encodings[to as usize];
        // SAFETY: (1) mapped and writable, by construction; (2) either byte is valid there, as the
        // caller of `new` has promised.
        unsafe {
            if live::load_byte(self.at) != encoding {
                live::store(self.at, Width::One, encoding.into());
            }
        }
    }

    /// Stores the displacement of a gate that is off. The off instruction ignores it, so a
    /// half-written one is harmless. A barrier must come before the gate is switched on for the
    /// first time.
    ///
    /// # Safety
    /// The gate is the first byte of an instruction whose last four are its displacement, and is
    /// off.
    pub unsafe fn lead(self, distance: u32) {
        // SAFETY: (1) the four bytes after it belong to its instruction, by the caller; (2) no
        // other code writes them; (3) its off instruction ignores them.
        unsafe { live::store(self.at.offset(1), Width::Four, distance.into()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordpatch::CodeMemory;

    #[test]
    fn a_gate_of_code_of_our_own_leads_where_it_was_led_while_it_is_on() {
        // A9 imm32; mov eax, 1; ret; then: mov eax, 2; ret.
        let mut memory = CodeMemory::new(64).unwrap();
        memory.write(0, &[DETOUR[0], 0, 0, 0, 0, 0xb8, 1, 0, 0, 0, 0xc3]);
        memory.write(16, &[0xb8, 2, 0, 0, 0, 0xc3]);
        // SAFETY: the bytes just written are a function of that type.
        let function: extern "C" fn() -> u32 =
            unsafe { std::mem::transmute(memory.base().as_ptr()) };
        // SAFETY: the test owns the memory, and both paths lead to the end of a function.
        let gate = unsafe { Gate::new(memory.writable(0), DETOUR) };
        assert_eq!(function(), 1);
        // SAFETY: the first byte of a jump of five bytes that is off.
        unsafe { gate.lead(16 - 5) };
        assert_eq!(function(), 1);
        gate.set(Switch::On);
        assert_eq!(function(), 2);
        gate.set(Switch::Off);
        assert_eq!(function(), 1);
    }
}
