//! Machine code in memory, and what is known about its addresses.
//!
//! # Safety
//!
//! This module exists to own executable memory.
#![allow(unsafe_code)]

use crate::compile::{AddressMap, Handler, Text, TrampolineKind, TrapSite};
use crate::error::Error;
use crate::trap::Trap;
use std::ops::Range;
use wordpatch::CodeMemory;

/// Tables of a module's code. They may lie in a file that is mapped.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) functions: Vec<Range<u32>>,
    pub(crate) trampolines: Vec<(TrampolineKind, Range<u32>)>,
    pub(crate) traps: Vec<TrapSite>,
    pub(crate) addresses: Vec<AddressMap>,
    pub(crate) handlers: Vec<Handler>,
}

/// The code of a module, mapped to be executed.
#[derive(Debug)]
pub(crate) struct Code {
    memory: CodeMemory,
    len: usize,
    pub(crate) tables: Tables,
}

impl Code {
    /// Maps code that was compiled just now.
    pub(crate) fn new(text: Text) -> Result<Self, Error> {
        let Text { code, functions, trampolines, traps, addresses, handlers } = text;
        Self::map(&code, Tables { functions, trampolines, traps, addresses, handlers })
    }

    /// Maps code.
    pub(crate) fn map(code: &[u8], tables: Tables) -> Result<Self, Error> {
        let mut memory = CodeMemory::new(code.len()).map_err(Error::system)?;
        memory.write(0, code);
        Ok(Self { memory, len: code.len(), tables })
    }

    /// Where it begins.
    pub(crate) fn base(&self) -> usize {
        self.memory.base().get()
    }

    /// Where it lies.
    pub(crate) fn range(&self) -> Range<usize> {
        self.base()..self.base() + self.len
    }

    /// The address of an offset.
    pub(crate) fn at(&self, offset: u32) -> *const u8 {
        (self.base() + offset as usize) as *const u8
    }

    /// Why the instruction at `offset` traps. Usable in a signal handler.
    pub(crate) fn trap_at(&self, offset: u32) -> Option<Trap> {
        let at = self.tables.traps.binary_search_by_key(&offset, |site| site.offset).ok()?;
        Trap::from_raw(self.tables.traps[at].code as u8)
    }

    /// Where an exception goes that comes out of the call that returns to `offset`.
    pub(crate) fn handler_at(&self, offset: u32) -> Option<Handler> {
        let at = self.tables.handlers.binary_search_by_key(&offset, |handler| handler.offset).ok()?;
        Some(self.tables.handlers[at])
    }

    /// Which defined function holds the instruction at `offset`.
    pub(crate) fn function_at(&self, offset: u32) -> Option<usize> {
        let after = self.tables.functions.partition_point(|range| range.start <= offset);
        let index = after.checked_sub(1)?;
        self.tables.functions[index].contains(&offset).then_some(index)
    }

    /// Which Wasm instruction the machine instruction at `offset` belongs to.
    pub(crate) fn wasm_offset(&self, offset: u32) -> Option<u32> {
        let after = self.tables.addresses.partition_point(|entry| entry.offset <= offset);
        let entry = self.tables.addresses[after.checked_sub(1)?];
        (entry.wasm != u32::MAX).then_some(entry.wasm)
    }
}
