//! What bare sites call: for each site that somebody wants something of, a few instructions that count, or set a flag and switch the site off.
//!
//! ```text
//!     counter    push rax; mov rax, counter; lock inc qword [rax]; pop rax; ret
//!     flag       push rax; mov rax, counter; mov qword [rax], 1; mov rax, site; mov byte [rax], A9; pop rax; ret
//! ```
//!
//! An instruction may have several sites: one in each version of its function. All of them lead to the same counter, and are switched together.
//!
//! # Safety
//!
//! This module exists to write code that may be running (assumptions A2, A3 and A5 of `wordpatch`): a site is switched by one byte, and its distance is stored
//! while that byte makes nothing of it, with a barrier before it may.
#![allow(unsafe_code)]

use super::code::Code;
use super::module::ModuleInner;
use crate::compile::{CALL, LENGTH, OFF};
use crate::error::Error;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use wordpatch::{Barrier, CodeMemory};

/// What a bare site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bareness {
    /// Counts.
    Counter,
    /// Is noted once, and off from then on.
    Flag,
}

/// How long what a site calls may be.
const STUB: usize = 40;
/// How much memory is taken for such code: little at first, then more at a time.
const SMALLEST: usize = 1 << 12;
const LARGEST: usize = 1 << 20;

/// The bare sites of a module, as far as somebody has asked for any.
#[derive(Debug, Default)]
pub(crate) struct Bares(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Instructions that have sites, in the order of their places in the module; filled when somebody asks for the first time.
    all: Vec<Instruction>,
    memory: Vec<(CodeMemory, usize)>,
}

/// An instruction, its sites, and what is wanted of them.
#[derive(Debug)]
struct Instruction {
    offset: u32,
    sites: Vec<Site>,
    standing: Option<Standing>,
}

/// A site, where it is executed and where it can be written.
#[derive(Clone, Copy, Debug)]
struct Site {
    at: usize,
    writable: usize,
}

/// What is wanted of an instruction's sites.
#[derive(Debug)]
struct Standing {
    does: Bareness,
    /// How many want it to.
    users: u32,
    counter: Box<AtomicU64>,
    /// What each site calls in either case, as far as that is written.
    stubs: HashMap<(usize, Bareness), usize>,
}

impl Site {
    /// What its first byte is.
    fn switch(self, on: bool) {
        // SAFETY: (A3) one byte; (1) a site's, in writable memory that its code keeps.
        unsafe { AtomicU8::from_ptr(self.writable as *mut u8) }.store(if on { CALL } else { OFF }, Release);
    }

    /// Has it call a stub as soon as it is on. It is off, and nobody knows it as on any more.
    fn lead_to(self, stub: usize) {
        let distance = stub.wrapping_sub(self.at + LENGTH as usize) as u32;
        let place = (self.writable + 1) as *mut u32;
        if place.is_aligned() {
            // SAFETY: (1) the four bytes of a site behind its first, in writable memory; (2) the first makes nothing of them.
            unsafe { AtomicU32::from_ptr(place) }.store(distance, Relaxed);
        } else {
            // SAFETY: as above; nobody else writes them, and whoever executes them makes nothing of them, whole or not.
            unsafe { place.write_unaligned(distance) };
        }
    }
}

impl ModuleInner {
    /// The number of the instruction at a place in the module, if there is a bare site before it.
    pub(crate) fn bare(&self, offset: u32) -> Result<Option<usize>, Error> {
        let mut state = self.bares.0.lock();
        if state.all.is_empty() {
            add(&mut state.all, &self.code)?;
            self.pieces.iter().try_for_each(|piece| add(&mut state.all, &piece.code))?;
        }
        Ok(state.all.binary_search_by_key(&offset, |instruction| instruction.offset).ok())
    }

    /// Has the sites of an instruction do something, at once. What they have counted before stays. Not if they do something else for somebody, or are a
    /// flag already.
    pub(crate) fn stand_bare(&self, number: usize, does: Bareness) -> Result<bool, Error> {
        let mut state = self.bares.0.lock();
        let State { all, memory } = &mut *state;
        let Instruction { sites, standing, .. } = &mut all[number];
        let barrier = || Barrier::best().and_then(Barrier::pass).map_err(Error::system);
        let known = standing.get_or_insert_with(|| Standing::new(does));
        if known.users > 0 && (known.does, does) != (Bareness::Counter, Bareness::Counter) {
            return Ok(false);
        }
        if known.users == 0 {
            // Who did something else was off, but may be known as on somewhere.
            barrier()?;
            known.does = does;
            if does == Bareness::Flag {
                known.counter.store(0, Relaxed);
            }
            sites.iter().try_for_each(|site| known.connect(memory, &self.code, *site))?;
            barrier()?;
        }
        all[number].switch(true);
        Ok(true)
    }

    /// Has one more, or one less, want the sites of each instruction to do what they do.
    pub(crate) fn switch_bare(&self, numbers: impl Iterator<Item = usize>, on: bool) {
        let mut state = self.bares.0.lock();
        numbers.for_each(|number| state.all[number].switch(on));
    }

    /// How often the sites of an instruction were come by while they counted; whether they were, if they are flags.
    pub(crate) fn counted_bare(&self, number: usize) -> u64 {
        self.bares.0.lock().all[number].standing.as_ref().map_or(0, |standing| standing.counter.load(Relaxed))
    }

    /// Has sites of new code do what those do that are there. It is not executed yet.
    pub(super) fn take_in_bares(&self, code: &Code) -> Result<(), Error> {
        let mut state = self.bares.0.lock();
        let State { all, memory } = &mut *state;
        if all.is_empty() {
            return Ok(());
        }
        let writable = code.writable()? as usize;
        for bare in code.tables.bares.iter() {
            // Every version has the same instructions.
            let Ok(number) = all.binary_search_by_key(&bare.offset, |instruction| instruction.offset) else { continue };
            let Instruction { sites, standing, .. } = &mut all[number];
            let site = Site { at: code.at(bare.at) as usize, writable: writable + bare.at as usize };
            if let Some(known) = standing {
                known.connect(memory, &self.code, site)?;
                site.switch(known.is_on());
            }
            sites.push(site);
        }
        Ok(())
    }
}

/// Adds the sites of some code, nobody of which does anything yet.
fn add(all: &mut Vec<Instruction>, code: &Code) -> Result<(), Error> {
    if code.tables.bares.is_empty() {
        return Ok(());
    }
    let writable = code.writable()? as usize;
    for bare in code.tables.bares.iter() {
        let site = Site { at: code.at(bare.at) as usize, writable: writable + bare.at as usize };
        all.push(Instruction { offset: bare.offset, sites: vec![site], standing: None });
    }
    all.sort_by_key(|instruction| instruction.offset);
    all.dedup_by(|one, before| {
        let is_same = one.offset == before.offset;
        if is_same {
            before.sites.append(&mut one.sites);
        }
        is_same
    });
    Ok(())
}

impl Instruction {
    fn switch(&mut self, on: bool) {
        let Some(known) = &mut self.standing else { return };
        known.users = if on { known.users + 1 } else { known.users.saturating_sub(1) };
        let is_on = known.is_on();
        self.sites.iter().for_each(|site| site.switch(is_on));
    }
}

impl Standing {
    fn new(does: Bareness) -> Self {
        Self { does, users: 0, counter: Box::default(), stubs: HashMap::new() }
    }

    fn is_on(&self) -> bool {
        self.users > 0 && !(self.does == Bareness::Flag && self.counter.load(Relaxed) > 0)
    }

    /// Has a site, which is off, call what it is to do.
    fn connect(&mut self, memory: &mut Vec<(CodeMemory, usize)>, code: &Code, site: Site) -> Result<(), Error> {
        let stub = match self.stubs.get(&(site.at, self.does)) {
            Some(known) => *known,
            None => {
                let stub = write(memory, code, &self.stub(site))?;
                self.stubs.insert((site.at, self.does), stub);
                stub
            }
        };
        site.lead_to(stub);
        Ok(())
    }

    /// The code of what a site calls.
    fn stub(&self, site: Site) -> Vec<u8> {
        let counter = std::ptr::from_ref::<AtomicU64>(&self.counter) as u64;
        let mut code = vec![0x50, 0x48, 0xB8];
        code.extend(counter.to_le_bytes());
        match self.does {
            Bareness::Counter => code.extend([0xF0, 0x48, 0xFF, 0x00]),
            Bareness::Flag => {
                code.extend([0x48, 0xC7, 0x00, 1, 0, 0, 0, 0x48, 0xB8]);
                code.extend((site.writable as u64).to_le_bytes());
                code.extend([0xC6, 0x00, OFF]);
            }
        }
        code.extend([0x58, 0xC3]);
        code
    }
}

/// Writes code where sites of the module reach it; gives its address.
fn write(memory: &mut Vec<(CodeMemory, usize)>, code: &Code, bytes: &[u8]) -> Result<usize, Error> {
    let has_room = |(chunk, used): &(CodeMemory, usize)| used + STUB <= chunk.len();
    if !memory.last().is_some_and(has_room) {
        let len = memory.last().map_or(SMALLEST, |(chunk, _)| LARGEST.min(4 * chunk.len()));
        memory.push((code.memory_near(len)?, 0));
    }
    let (chunk, used) = memory.last_mut().expect("there is one now");
    let at = *used;
    chunk.write(at, bytes);
    *used += STUB;
    Ok(chunk.base().get() + at)
}
