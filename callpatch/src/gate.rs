//! A gate: the jump that a stub of ours begins with, as a switch. On it leads past the stub's first
//! part, off it falls into it.
//!
//! It is a [call site](crate::CallSite) of the simplest kind: in code memory of our own, which is
//! always writable, and no other code's. So it is two words, and switching it cannot fail.
//!
//! # Safety
//!
//! This module exists to store one of two bytes, each of which is right there.
#![allow(unsafe_code)]

use crate::x86::{Form, Role, Switch};
use wordpatch::CodeAddr;
use wordpatch::live::{self, Width};

/// The first instruction of a stub, as a switch. Made by [`Islands::gate`](crate::Islands::gate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    address: CodeAddr,
    alias: isize,
}

const FORM: Form = Form::Jump;

/// The bytes of its states, off and on.
const FACES: [u8; 2] = match FORM.off(Role::Detour) {
    Some(off) => [off, FORM.on()],
    None => unreachable!(),
};

impl Gate {
    /// At the beginning of a stub that is executed at `address` and written at a distance of
    /// `alias`; `None` if there is no such jump.
    ///
    /// # Safety
    /// 1. Both are mapped, and stay so while it lives. 2. Either way is right to go whenever it is
    ///    switched, and flags are dead at the stub's beginning. 3. No other code writes there.
    pub(crate) unsafe fn at(address: CodeAddr, alias: isize) -> Option<Self> {
        // SAFETY: (1) the caller.
        let found = unsafe { live::load_byte(address) };
        (found == FORM.on()).then_some(Self { address, alias })
    }

    /// Switches it: one byte, of which no thread sees half (A3). Usable in a signal handler.
    #[inline]
    pub fn set(self, to: Switch) {
        let at = self.address.offset(self.alias + FORM.switch_at() as isize);
        let face = FACES[to as usize];
        // SAFETY: (1) mapped and writable, by construction in `at`; (2) either byte is right there,
        // as its maker has promised.
        unsafe {
            if live::load_byte(at) != face {
                live::store(at, Width::One, face.into());
            }
        }
    }
}
