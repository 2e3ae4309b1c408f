//! Machine code in memory, and the tables that describe its addresses.
//!
//! # Safety
//!
//! This module exists to own executable memory.
#![allow(unsafe_code)]

use crate::compile::{
    Handler, OFF, OneShotProbe, OneShotSite, Plan, Span, Tables, Text, TrampolineKind,
};
use crate::error::Error;
use crate::offsets::{ASIDE, NOTHING};
use crate::trap::Trap;
use callpatch::Reach;
use callpatch::x86::stubs::{SELF_DISARMING as NOTING, self_disarming};
use parking_lot::Mutex;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use wordpatch::os::pages::{self, Protection};
use wordpatch::{CodeAddr, CodeMemory};

/// The code of a module, mapped to be executed.
#[derive(Debug)]
pub struct Code {
    place: CodePlace,
    len: usize,
    pub tables: Tables,
    /// The plan that is compiled in.
    plan: Plan,
}

/// Writes code that was just compiled to an offset, followed by the routine of its one-shot probes.
fn write(
    memory: &mut CodeMemory,
    offset: usize,
    mut code: Vec<u8>,
    one_shot_sites: &[OneShotSite],
) {
    let len = code.len() as u32;
    for site in one_shot_sites {
        let (from, to) = (site.at as usize + 1, site.at as usize + 5);
        code[from..to].copy_from_slice(&(len - to as u32).to_le_bytes());
    }
    if !one_shot_sites.is_empty() {
        code.extend(self_disarming(memory.writable(0).get().wrapping_sub(memory.base().get())));
    }
    memory.write(offset, &code);
}

/// Memory near a module's code that small pieces of other code share.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    memory: Option<Arc<Mutex<CodeMemory>>>,
    used: usize,
}

/// The size of a shelf, and the size above which code has memory of its own. Pieces on a shelf
/// begin at multiples of a cache line.
const SHELF: usize = 256 << 10;
const LARGE: usize = SHELF / 4;
const LINE: usize = 64;

impl Shelf {
    /// Room for this many bytes, and its offset.
    fn take(&mut self, near: &Code, len: usize) -> Result<(Arc<Mutex<CodeMemory>>, usize), Error> {
        if len > LARGE {
            return Ok((Arc::new(Mutex::new(near.memory_near(len)?)), 0));
        }
        let memory = match &self.memory {
            Some(memory) if self.used + len <= SHELF => memory,
            _ => {
                self.used = 0;
                self.memory.insert(Arc::new(Mutex::new(near.memory_near(SHELF)?)))
            }
        };
        let at = self.used;
        self.used = (at + len).next_multiple_of(LINE);
        Ok((Arc::clone(memory), at))
    }
}

/// The memory that code is in.
#[derive(Debug)]
enum CodePlace {
    /// Memory of its own, which can be written through a second mapping.
    Memory(CodeMemory),
    /// Shared memory: the address at which the code is executed, and the one at which it is
    /// written.
    Shelf { base: CodeAddr, writable: CodeAddr, _memory: Arc<Mutex<CodeMemory>> },
    /// A file that is mapped to be executed; once it is to be written to, memory of its own at the
    /// same address.
    File(CodeAddr, OnceLock<CodeMemory>),
}

impl Drop for Code {
    fn drop(&mut self) {
        if let CodePlace::File(base, replaced) = &self.place
            && replaced.get().is_none()
        {
            // SAFETY: (1) mapped in `of_file`; (2) a thread that executes code keeps its module.
            let _ = unsafe { pages::unmap(*base, self.len) };
        }
    }
}

impl Code {
    /// Maps code that was compiled just now.
    pub(crate) fn new(text: Text) -> Result<Self, Error> {
        let mut text = text;
        let (code, plan) = (std::mem::take(&mut text.code), std::mem::take(&mut text.plan));
        Self::copied(code, Tables::owned(text), plan)
    }

    /// Memory for code that reaches this code, and is reached by it.
    pub(crate) fn memory_near(&self, len: usize) -> Result<CodeMemory, Error> {
        let nowhere = || Error::Attach("there is no room for code near the module's code".into());
        let range = self.range();
        let reach =
            Reach::of(CodeAddr::new(range.start)..CodeAddr::new(range.end)).ok_or_else(nowhere)?;
        let len = len.max(1).next_multiple_of(pages::PAGE);
        reach.map(len).map_err(Error::system)?.ok_or_else(nowhere)
    }

    /// Maps a chunk of variants of this code's functions, on a shelf if it is small, and connects
    /// its calls to other code.
    pub(super) fn near(
        other: &Self,
        text: Text,
        owners: Vec<u32>,
        elsewhere: &[(u32, usize)],
        shelf: &mut Shelf,
    ) -> Result<Self, Error> {
        let mut text = text;
        let (memory, offset) = shelf.take(other, text.code.len() + NOTING)?;
        let mut shared = memory.lock();
        let base = shared.base().offset(offset as isize);
        for (at, target) in elsewhere {
            let distance = target.wrapping_sub(base.get() + *at as usize + 4) as u32;
            text.code[*at as usize..*at as usize + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let (len, plan) = (text.code.len(), text.plan.clone());
        let code = std::mem::take(&mut text.code);
        let tables = Tables { owners: Some(owners), ..Tables::owned(text) };
        write(&mut shared, offset, code, &tables.one_shot_sites);
        let writable = shared.writable(offset);
        drop(shared);
        Ok(Self { place: CodePlace::Shelf { base, writable, _memory: memory }, len, tables, plan })
    }

    /// The routine that throws exceptions, if the code throws any.
    pub(crate) fn throw(&self) -> Option<*const u8> {
        let (_, span) =
            self.tables.trampolines.iter().find(|(kind, _)| *kind == TrampolineKind::Throw)?;
        Some(self.at(span.start))
    }

    /// The address at which its bytes can be written while they are executed.
    pub(crate) fn writable(&self) -> Result<*mut u8, Error> {
        let memory = match &self.place {
            CodePlace::Memory(memory) => memory,
            CodePlace::Shelf { writable, .. } => return Ok(writable.get() as *mut u8),
            CodePlace::File(base, replaced) => match replaced.get() {
                Some(memory) => memory,
                None => {
                    // SAFETY: (1) the mapping is ours, in whole pages, and only unmapped by `drop`;
                    // (2) no code writes to it; a thread that is about to waits for this one, since
                    // modules are changed under a lock.
                    let memory =
                        unsafe { CodeMemory::over(*base, self.len) }.map_err(Error::system)?;
                    replaced.get_or_init(|| memory)
                }
            },
        };
        Ok(memory.writable(0).get() as *mut u8)
    }

    /// Maps a copy of code.
    fn copied(code: Vec<u8>, tables: Tables, plan: Plan) -> Result<Self, Error> {
        let len = code.len();
        let mut memory = CodeMemory::new(len + NOTING).map_err(Error::system)?;
        write(&mut memory, 0, code, &tables.one_shot_sites);
        Ok(Self { place: CodePlace::Memory(memory), len, tables, plan })
    }

    /// Maps code that is in a file, at whole pages; a copy of it where files may not be executed.
    pub(crate) fn of_file(
        file: &File,
        range: Range<usize>,
        code: &[u8],
        tables: Tables,
    ) -> Result<Self, Error> {
        // SAFETY: (1) a mapping at a place that the kernel chooses overlaps nothing.
        let mapped = unsafe {
            pages::map_file_private(
                pages::Place::Anywhere,
                range.len(),
                Protection::ReadExecute,
                file,
                range.start,
            )
        };
        match mapped {
            Ok(base) => Ok(Self {
                place: CodePlace::File(base, OnceLock::new()),
                len: range.len(),
                tables,
                plan: Plan::default(),
            }),
            Err(_) => Self::copied(code.to_vec(), tables, Plan::default()),
        }
    }

    /// The plan that is compiled in.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where the hooks of its plan are in memory, for display: code names them by their addresses.
    pub fn hooks(&self) -> Range<usize> {
        self.plan.place()
    }

    /// Where it begins.
    pub(crate) fn base(&self) -> usize {
        match &self.place {
            CodePlace::Memory(memory) => memory.base().get(),
            CodePlace::Shelf { base, .. } => base.get(),
            CodePlace::File(base, _) => base.get(),
        }
    }

    /// Where it lies.
    pub fn range(&self) -> Range<usize> {
        self.base()..self.base() + self.len
    }

    /// Its bytes, for display: they change where probes are switched.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: (1) mapped and readable for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.base() as *const u8, self.len) }
    }

    /// The one-shot probes in it that have fired, of a defined function, or of all.
    pub(crate) fn fired_one_shots(
        &self,
        function: Option<usize>,
    ) -> impl Iterator<Item = OneShotProbe> {
        let Tables { functions, owners, one_shot_sites, .. } = &self.tables;
        let spans: Vec<Span> = match (function, owners) {
            _ if one_shot_sites.is_empty() => Vec::new(),
            (None, _) => vec![Span { start: 0, end: u32::MAX }],
            (Some(function), None) => vec![functions[function]],
            (Some(function), Some(owners)) => {
                let owned = owners
                    .iter()
                    .zip(functions.iter())
                    .filter(|(owner, _)| **owner as usize == function);
                owned.map(|(_, span)| *span).collect()
            }
        };
        let place = |at: u32| one_shot_sites.partition_point(|site| site.at < at);
        let sites = spans
            .into_iter()
            .flat_map(move |span| &one_shot_sites[place(span.start)..place(span.end)]);
        let is_off = |site: &&OneShotSite| {
            // SAFETY: (1) a byte of our code, which is mapped for as long as `self` lives; (A3) it
            // is one byte.
            unsafe { self.at(site.at).cast::<AtomicU8>().as_ref_unchecked() }.load(Relaxed) == OFF
        };
        sites.filter(is_off).map(|site| site.probe)
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

    /// Whether the instruction at `offset` ends a function that has found too little stack for
    /// itself. It belongs to no Wasm instruction, whatever precedes it. Usable in a signal handler.
    pub(crate) fn has_not_begun(&self, offset: u32) -> bool {
        self.trap_at(offset) == Some(Trap::StackOverflow)
    }

    /// The handler of exceptions that leave the call that returns to `offset`.
    pub(crate) fn handler_at(&self, offset: u32) -> Option<Handler> {
        let at =
            self.tables.handlers.binary_search_by_key(&offset, |handler| handler.offset).ok()?;
        Some(self.tables.handlers[at])
    }

    /// Which defined function holds the instruction at `offset`.
    pub(crate) fn function_at(&self, offset: u32) -> Option<usize> {
        let after = self.tables.functions.partition_point(|range| range.start <= offset);
        let index = after.checked_sub(1)?;
        let owner = self.tables.owners.as_ref().map_or(index, |owners| owners[index] as usize);
        (offset < self.tables.functions[index].end).then_some(owner)
    }

    /// How far below its frame pointer the frame of the function at `offset` keeps its readable
    /// values. Usable in a signal handler.
    pub(crate) fn frame_at(&self, offset: u32) -> Option<usize> {
        let index =
            self.tables.functions.partition_point(|range| range.start <= offset).checked_sub(1)?;
        let distance = *self.tables.frames.get(index).filter(|distance| **distance > 0)?;
        (offset < self.tables.functions[index].end).then_some(distance as usize)
    }

    /// Which Wasm instruction the machine instruction at `offset` belongs to.
    pub(crate) fn wasm_offset(&self, offset: u32) -> Option<u32> {
        let entry = self.tables.addresses.at_or_before(offset)?;
        (entry.number != NOTHING).then_some(entry.number & !ASIDE)
    }

    /// Whether the code at `offset` belongs to a monitor. Usable in a signal handler.
    pub(crate) fn is_aside(&self, offset: u32) -> bool {
        let entry = self.tables.addresses.at_or_before(offset);
        entry.is_some_and(|entry| entry.number != NOTHING && entry.number & ASIDE != 0)
    }
}
