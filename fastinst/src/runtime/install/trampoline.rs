//! The code of a trampoline of compiled-in hooks.

use super::inlined::InlinedEnd;
use crate::runtime::functions::Id;
use crate::runtime::layout::{RECORDS, Record};
use crate::runtime::stub;
use callpatch::{Form, SlotPair, x86};
use profiler::INLINED;
use std::mem::offset_of;
use wordpatch::CodeAddr;

/// It.
pub(super) struct Trampoline {
    bytes: [u8; Self::LONGEST],
    len: usize,
}

/// What it begins with.
pub(super) enum Beginning {
    Plain,
    /// A counter of this function's calls.
    Counter(Id),
    /// The place of an exit instead of a call site, unless its container ends there: see
    /// [`INLINED`].
    End(InlinedEnd),
}

impl Trampoline {
    const PLAIN: usize = 7 + 6 + 6;
    pub(super) const COUNTED: usize = Self::PLAIN + 5 + x86::COUNTER;
    pub(super) const ENDING: usize = Self::PLAIN + x86::REPLACE_RSI;
    const LONGEST: usize = Self::COUNTED;

    pub(super) const fn len(beginning: &Beginning) -> usize {
        match beginning {
            Beginning::Plain => Self::PLAIN,
            Beginning::Counter(_) => Self::COUNTED,
            Beginning::End(_) => Self::ENDING,
        }
    }

    /// At an address.
    pub(super) fn at(at: CodeAddr, beginning: &Beginning, number: u32, slots: SlotPair) -> Self {
        let mut code = Self { bytes: [0; Self::LONGEST], len: 0 };
        match beginning {
            Beginning::Plain => {}
            Beginning::Counter(id) => {
                let field = |offset: usize| (RECORDS + id.record() as usize + offset) as i32;
                code.push(&Form::Jump.bytes(x86::COUNTER as i32));
                code.push(&x86::counter(
                    stub::thread_offset(),
                    field(offset_of!(Record, address)),
                    field(offset_of!(Record, count)),
                ));
            }
            Beginning::End(end) => {
                let mark = end.site.get() as u64 | INLINED;
                let replace = x86::replace_rsi_unless(at, end.own, mark);
                code.push(replace.as_ref().map_or(&[], |replace| &replace[..]));
            }
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
