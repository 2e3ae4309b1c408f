//! The code of a trampoline of compiled-in hooks.

use crate::runtime::functions::Id;
use crate::runtime::layout::{RECORDS, Record};
use crate::runtime::stub;
use callpatch::{Form, SlotPair, x86};
use std::mem::offset_of;
use wordpatch::CodeAddr;

/// It.
pub(super) struct Trampoline {
    bytes: [u8; Self::LONGEST],
    len: usize,
}

impl Trampoline {
    const COUNTER: usize = 5 + x86::COUNTER;
    const LONGEST: usize = Self::len(true);

    pub(super) const fn len(counts: bool) -> usize {
        7 + 6 + 6 + if counts { Self::COUNTER } else { 0 }
    }

    /// At an address; with a counter in line, if it is `counted`.
    pub(super) fn at(at: CodeAddr, counted: Option<Id>, number: u32, slots: SlotPair) -> Self {
        let mut code = Self { bytes: [0; Self::LONGEST], len: 0 };
        if let Some(id) = counted {
            let field = |offset: usize| (RECORDS + id.record() as usize + offset) as i32;
            code.push(&Form::Jump.bytes(x86::COUNTER as i32));
            code.push(&x86::counter(
                stub::thread_offset(),
                field(offset_of!(Record, address)),
                field(offset_of!(Record, count)),
            ));
        }
        let load = x86::load_r11d(at.offset(code.len as isize), slots.second().address());
        code.push(load.as_ref().map_or(&[], |load| &load[..]));
        code.push(&x86::mov_r10d(number));
        let jump = x86::jump_through(at.offset(code.len as isize), slots.first().address());
        code.push(jump.as_ref().map_or(&[], |jump| &jump[..]));
        // All lie within reach of one module, and so of each other.
        assert!(load.is_some() && jump.is_some(), "islands of one module reach each other");
        code
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl AsRef<[u8]> for Trampoline {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
