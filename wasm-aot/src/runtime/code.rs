//! Machine code in memory, and what is known about its addresses.
//!
//! # Safety
//!
//! This module exists to own executable memory.
#![allow(unsafe_code)]

use crate::artifact::Array;
use crate::compile::{Handler, Span, Text, TrampolineKind};
use crate::error::Error;
use crate::offsets::{NOTHING, Offsets};
use crate::trap::Trap;
use std::fs::File;
use std::ops::Range;
use wordpatch::os::pages::{self, Protection};
use wordpatch::{CodeAddr, CodeMemory};

/// Tables of a module's code. They may lie in a file that is mapped.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) functions: Array<Span>,
    pub(crate) trampolines: Vec<(TrampolineKind, Span)>,
    pub(crate) traps: Offsets,
    pub(crate) addresses: Offsets,
    pub(crate) handlers: Array<Handler>,
}

/// The code of a module, mapped to be executed.
#[derive(Debug)]
pub(crate) struct Code {
    place: Place,
    len: usize,
    pub(crate) tables: Tables,
}

/// Where code lies.
#[derive(Debug)]
enum Place {
    /// In memory of our own, which can be written through a second mapping.
    Memory(CodeMemory),
    /// In a file that is mapped to be executed.
    File(CodeAddr),
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Place::File(base) = self.place {
            // SAFETY: (1) mapped in `of_file`; (2) whoever executes code keeps its module.
            let _ = unsafe { pages::unmap(base, self.len) };
        }
    }
}

impl Code {
    /// Maps code that was compiled just now.
    pub(crate) fn new(text: Text) -> Result<Self, Error> {
        let Text { code, functions, trampolines, traps, addresses, handlers } = text;
        let tables =
            Tables { functions: Array::Owned(functions), trampolines, traps, addresses, handlers: Array::Owned(handlers) };
        Self::copied(&code, tables)
    }

    /// Maps a copy of code.
    fn copied(code: &[u8], tables: Tables) -> Result<Self, Error> {
        let mut memory = CodeMemory::new(code.len()).map_err(Error::system)?;
        memory.write(0, code);
        Ok(Self { place: Place::Memory(memory), len: code.len(), tables })
    }

    /// Maps code that is in a file, at whole pages; a copy of it where files may not be executed.
    pub(crate) fn of_file(file: &File, range: Range<usize>, code: &[u8], tables: Tables) -> Result<Self, Error> {
        // SAFETY: (1) a mapping at a place that the kernel chooses overlaps nothing.
        let mapped =
            unsafe { pages::map_file_private(pages::Place::Anywhere, range.len(), Protection::ReadExecute, file, range.start) };
        match mapped {
            Ok(base) => Ok(Self { place: Place::File(base), len: range.len(), tables }),
            Err(_) => Self::copied(code, tables),
        }
    }

    /// Where it begins.
    pub(crate) fn base(&self) -> usize {
        match &self.place {
            Place::Memory(memory) => memory.base().get(),
            Place::File(base) => base.get(),
        }
    }

    /// Where it lies.
    pub(crate) fn range(&self) -> Range<usize> {
        self.base()..self.base() + self.len
    }

    /// Its bytes. For people to look at: where probes are switched, they change.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: (1) mapped and readable for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.base() as *const u8, self.len) }
    }

    /// The address of an offset.
    pub(crate) fn at(&self, offset: u32) -> *const u8 {
        (self.base() + offset as usize) as *const u8
    }

    /// Why the instruction at `offset` traps. Usable in a signal handler.
    pub(crate) fn trap_at(&self, offset: u32) -> Option<Trap> {
        Trap::from_raw(self.trap_number_at(offset)?)
    }

    /// The number of the trap of the instruction at `offset`.
    pub(crate) fn trap_number_at(&self, offset: u32) -> Option<u8> {
        self.tables.traps.at(offset).map(|number| number as u8)
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
        (offset < self.tables.functions[index].end).then_some(index)
    }

    /// Which Wasm instruction the machine instruction at `offset` belongs to.
    pub(crate) fn wasm_offset(&self, offset: u32) -> Option<u32> {
        let entry = self.tables.addresses.at_or_before(offset)?;
        (entry.number != NOTHING).then_some(entry.number)
    }
}
