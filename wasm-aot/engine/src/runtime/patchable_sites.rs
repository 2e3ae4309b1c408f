//! Counters and flags at patchable sites: the stubs that sites call, and when each site is on.
//!
//! ```text
//!          push rax; mov rax, cell; lock inc qword [rax]
//!          cmp qword [rax + until], -1; jne last          a flag stands, and no counter
//!     out: pop rax; ret
//!    last: if the cell can be locked at once: switch the site off, if it has counted further than `until`; unlock
//!          jmp out
//! ```
//!
//! A site serves all instructions that are executed together, and does not distinguish the probes
//! at each. It has one counter for all its probes. The value of an instruction's counter is how far
//! its sites have counted since it was inserted; a flag is set if they have counted at all since
//! then. A site is on while one of its instructions has a counter, or a flag that is not set yet.
//! If a site has only flags, the first thread that reaches it switches it off.
//!
//! An instruction may have several sites, one in each variant of its function. All of them are
//! switched together.
//!
//! # Safety
//!
//! This module exists to write code that may be running (assumptions A2, A3 and A5 of `wordpatch`):
//! a site is switched by one byte. Its distance is stored once, while that byte makes it
//! ineffective, and a barrier comes before the byte changes.
#![allow(unsafe_code)]

use super::barrier;
use super::code::Code;
use super::module::ModuleInner;
use crate::compile::{CALL, LENGTH, OFF, PatchableSite};
use crate::error::Error;
use callpatch::x86::stubs::{COUNTING, counting};
use callpatch::{Gate, Switch};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use wordpatch::{CodeAddr, CodeMemory};

/// A probe at an instruction's sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteProbe {
    /// A counter: the instruction.
    Counter(usize),
    /// Whether the instruction was reached: the instruction, and the number of the flag.
    Flag(usize, u64),
}

/// The kinds of probes at sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteProbeKind {
    /// A counter.
    Counter,
    /// A flag.
    Flag,
}

/// The size of the stub that a site calls.
const STUB: usize = COUNTING.next_multiple_of(16);
/// How much memory is allocated for stubs: little at first, then more at a time.
const SMALLEST: usize = 1 << 12;
const LARGEST: usize = 1 << 20;

/// The patchable sites of a module, once any has a probe.
#[derive(Debug, Default)]
pub(crate) struct PatchableSites(Mutex<PatchableSitesState>);

#[derive(Debug, Default)]
struct PatchableSitesState {
    /// Instructions that have sites, in the order of their places in the module; filled at the
    /// first query.
    instructions: Vec<Instruction>,
    sites: Vec<Site>,
    flags: HashMap<u64, Flag>,
    next_flag: u64,
    /// The code whose sites are known, by where it begins.
    known: HashSet<usize>,
    memory: Vec<(CodeMemory, usize)>,
}

/// An instruction, its sites, its counter and its flags.
#[derive(Debug)]
struct Instruction {
    offset: u32,
    sites: Vec<u32>,
    counter: Option<SiteCounter>,
    /// Flags that are on.
    flags: Vec<u64>,
    /// Whether it ever had a probe: then its sites have stubs, also in code that is compiled later.
    is_used: bool,
}

/// The count of an instruction: what was counted until the counter was last switched off, and what
/// its sites have counted since they had these counts.
#[derive(Debug, Default)]
struct SiteCounter {
    users: u32,
    before: u64,
    since: Vec<u64>,
}

/// Whether the instruction was reached since an instruction's sites had these counts; or before.
#[derive(Debug, Default)]
struct Flag {
    is_set: bool,
    since: Vec<u64>,
}

/// A site: where it is executed and where it can be written, and its probes.
#[derive(Debug)]
struct Site {
    at: usize,
    writable: usize,
    gate: Gate,
    /// Set as soon as it has a stub.
    cell: Option<Box<SiteCell>>,
    /// How many of its instructions have counters and flags.
    counters: u32,
    flags: u32,
    /// The count when the latest flag was inserted.
    latest: u64,
}

/// The data that the stub of a site changes, at addresses that are in its code.
#[derive(Debug, Default)]
#[repr(C)]
struct SiteCell {
    /// How often the site was reached while it was on.
    count: AtomicU64,
    /// The count at which the next thread switches the site off.
    until: AtomicU64,
    /// Not 0 while a thread switches the site.
    lock: AtomicU32,
}

impl SiteCell {
    fn locked(&self, act: impl FnOnce()) {
        while self.lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
        act();
        self.lock.store(0, Release);
    }
}

impl Site {
    fn new(at: usize, writable: usize) -> Self {
        // SAFETY: (1) a site's byte, in writable memory that its code keeps; (2) either way is
        // right, see the module; (3) a thread that writes it has the cell's lock.
        let gate = unsafe { Gate::new(CodeAddr::new(writable), [OFF, CALL]) };
        Self { at, writable, gate, cell: None, counters: 0, flags: 0, latest: 0 }
    }

    fn counted(&self) -> u64 {
        self.cell.as_ref().map_or(0, |cell| cell.count.load(Relaxed))
    }

    /// Switches the site as its probes need.
    fn update_gate(&self) {
        let Some(cell) = &self.cell else { return };
        cell.locked(|| {
            cell.until.store(if self.counters > 0 { u64::MAX } else { self.latest }, Relaxed);
            let is_on =
                self.counters > 0 || (self.flags > 0 && cell.count.load(Relaxed) <= self.latest);
            self.gate.set(if is_on { Switch::On } else { Switch::Off });
        });
    }

    /// Gives it a stub to call as soon as it is on. Returns whether it had none.
    fn connect(
        &mut self,
        memory: &mut Vec<(CodeMemory, usize)>,
        code: &Code,
    ) -> Result<bool, Error> {
        if self.cell.is_some() {
            return Ok(false);
        }
        let cell = Box::<SiteCell>::default();
        let stub = write(
            memory,
            code,
            &counting(std::ptr::from_ref(&*cell) as u64, self.writable as u64),
        )?;
        let distance = stub.wrapping_sub(self.at + LENGTH as usize) as u32;
        // SAFETY: (1) the five bytes of a site, which is off while it has no cell.
        unsafe { self.gate.lead(distance) };
        self.cell = Some(cell);
        Ok(true)
    }
}

/// Writes code within reach of the module's sites; returns its address.
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

impl ModuleInner {
    /// The number of the instruction at a place in the module, if it has a patchable site.
    pub fn patchable_instruction(&self, offset: u32) -> Result<Option<usize>, Error> {
        let mut state = self.patchable_sites.0.lock();
        if state.instructions.is_empty() {
            state.fill(
                std::iter::once(&self.code).chain(self.chunks.iter().map(|piece| &piece.code)),
            )?;
        }
        Ok(state.find(offset))
    }

    /// Adds a probe to an instruction's sites, on at once. It does not include earlier counts of
    /// the sites.
    pub fn insert_site_probe(
        &self,
        number: usize,
        what: SiteProbeKind,
    ) -> Result<SiteProbe, Error> {
        let mut state = self.patchable_sites.0.lock();
        if state.connect(number, &self.code)? {
            barrier::pass()?;
        }
        let want = match what {
            SiteProbeKind::Counter => SiteProbe::Counter(number),
            SiteProbeKind::Flag => {
                state.next_flag += 1;
                let id = state.next_flag;
                state.flags.insert(id, Flag::default());
                SiteProbe::Flag(number, id)
            }
        };
        state.switch(want, true);
        Ok(want)
    }

    /// Switches probes off, or on again.
    pub fn switch_site_probes(&self, wants: impl Iterator<Item = SiteProbe>, on: bool) {
        let mut state = self.patchable_sites.0.lock();
        wants.for_each(|want| state.switch(want, on));
    }

    /// Removes a probe.
    pub fn remove_site_probe(&self, want: SiteProbe) {
        if let SiteProbe::Flag(_, id) = want {
            self.patchable_sites.0.lock().flags.remove(&id);
        }
    }

    /// How often an instruction was reached while it was to be counted.
    pub fn counted_at_site(&self, number: usize) -> u64 {
        let state = self.patchable_sites.0.lock();
        let Instruction { sites, counter: Some(counter), .. } = &state.instructions[number] else {
            return 0;
        };
        counter.before + state.since(sites, &counter.since)
    }

    /// Whether the place was reached while a flag was there.
    pub fn is_site_flag_set(&self, want: SiteProbe) -> bool {
        let state = self.patchable_sites.0.lock();
        match want {
            SiteProbe::Counter(_) => false,
            SiteProbe::Flag(number, id) => state.is_set(number, id),
        }
    }

    /// Gives the sites of new code the probes of their instructions. The code is not executed yet,
    /// and a barrier comes before it is.
    pub(super) fn take_in_patchable_sites(&self, code: &Code) -> Result<(), Error> {
        let mut state = self.patchable_sites.0.lock();
        match state.instructions.is_empty() {
            true => Ok(()),
            false => state.take_in(code, &self.code),
        }
    }
}

impl PatchableSitesState {
    fn find(&self, offset: u32) -> Option<usize> {
        self.instructions.binary_search_by_key(&offset, |instruction| instruction.offset).ok()
    }

    /// Lists the sites of all existing code, none of which has a stub yet.
    fn fill<'a>(&mut self, all: impl Iterator<Item = &'a Code>) -> Result<(), Error> {
        let mut found: Vec<(u32, u32)> = Vec::new();
        for code in all {
            self.known.insert(code.base());
            each_site(code, |site, instructions| {
                let number = self.sites.len() as u32;
                self.sites.push(site);
                found.extend(instructions.iter().map(|compiled| (compiled.offset, number)));
            })?;
        }
        found.sort_unstable();
        let one = |of: &[(u32, u32)]| {
            let sites = of.iter().map(|(_, site)| *site).collect();
            Instruction { offset: of[0].0, sites, counter: None, flags: Vec::new(), is_used: false }
        };
        self.instructions = found.chunk_by(|a, b| a.0 == b.0).map(one).collect();
        Ok(())
    }

    fn take_in(&mut self, code: &Code, near: &Code) -> Result<(), Error> {
        if !self.known.insert(code.base()) {
            return Ok(());
        }
        let mut used = Vec::new();
        each_site(code, |mut site, instructions| {
            let (number, mut is_used) = (self.sites.len() as u32, false);
            for compiled in instructions {
                // Every variant has the same instructions.
                let Some(at) =
                    self.instructions.binary_search_by_key(&compiled.offset, |one| one.offset).ok()
                else {
                    continue;
                };
                let instruction = &mut self.instructions[at];
                instruction.sites.push(number);
                is_used |= instruction.is_used;
                if let Some(counter) =
                    instruction.counter.as_mut().filter(|counter| counter.users > 0)
                {
                    counter.since.push(0);
                    site.counters += 1;
                }
                for id in &instruction.flags {
                    if let Some(flag) = self.flags.get_mut(id) {
                        flag.since.push(0);
                        site.flags += 1;
                    }
                }
            }
            used.extend(is_used.then_some(self.sites.len()));
            self.sites.push(site);
        })?;
        for site in used {
            self.sites[site].connect(&mut self.memory, near)?;
            self.sites[site].update_gate();
        }
        Ok(())
    }

    /// Gives all sites of an instruction stubs; returns whether any of them had none.
    fn connect(&mut self, number: usize, near: &Code) -> Result<bool, Error> {
        let Self { instructions, sites, memory, .. } = self;
        let mut is_new = false;
        for site in &instructions[number].sites {
            is_new |= sites[*site as usize].connect(memory, near)?;
        }
        instructions[number].is_used = true;
        Ok(is_new)
    }

    /// How far sites have counted since they had these counts.
    fn since(&self, sites: &[u32], since: &[u64]) -> u64 {
        let by = |(site, since): (&u32, &u64)| self.sites[*site as usize].counted() - since;
        sites.iter().zip(since).map(by).sum()
    }

    fn is_set(&self, number: usize, id: u64) -> bool {
        let sites = &self.instructions[number].sites;
        self.flags.get(&id).is_some_and(|flag| flag.is_set || self.since(sites, &flag.since) > 0)
    }

    fn switch(&mut self, want: SiteProbe, on: bool) {
        match want {
            SiteProbe::Counter(number) => self.switch_counter(number, on),
            SiteProbe::Flag(number, id) => self.switch_flag(number, id, on),
        }
    }

    fn switch_counter(&mut self, number: usize, on: bool) {
        let mut counter = self.instructions[number].counter.take().unwrap_or_default();
        let was_on = counter.users > 0;
        counter.users = if on { counter.users + 1 } else { counter.users.saturating_sub(1) };
        let (is_on, sites) = (counter.users > 0, &self.instructions[number].sites);
        if was_on && !is_on {
            counter.before += self.since(sites, &counter.since);
            counter.since.clear();
        }
        if was_on != is_on {
            for site in sites {
                let site = &mut self.sites[*site as usize];
                site.counters = if is_on { site.counters + 1 } else { site.counters - 1 };
                if is_on {
                    counter.since.push(site.counted());
                }
                site.update_gate();
            }
        }
        self.instructions[number].counter = Some(counter);
    }

    fn switch_flag(&mut self, number: usize, id: u64, on: bool) {
        let is_set = self.is_set(number, id);
        let Self { instructions, sites, flags, .. } = self;
        let (Instruction { sites: own, flags: set, .. }, Some(flag)) =
            (&mut instructions[number], flags.get_mut(&id))
        else {
            return;
        };
        let was_on = set.contains(&id);
        flag.is_set = is_set;
        flag.since.clear();
        // A flag that is set stays set.
        let is_on = on && !is_set;
        set.retain(|other| *other != id);
        set.extend(is_on.then_some(id));
        for site in own {
            let site = &mut sites[*site as usize];
            site.flags = site.flags + u32::from(is_on) - u32::from(was_on);
            if is_on {
                site.latest = site.counted();
                flag.since.push(site.latest);
            }
            site.update_gate();
        }
    }
}

/// Each site of some code, and its instructions.
fn each_site(code: &Code, mut with: impl FnMut(Site, &[PatchableSite])) -> Result<(), Error> {
    if code.tables.patchable_sites.is_empty() {
        return Ok(());
    }
    let writable = code.writable()? as usize;
    for instructions in code.tables.patchable_sites.chunk_by(|a, b| a.at == b.at) {
        let at = instructions[0].at;
        with(Site::new(code.at(at) as usize, writable + at as usize), instructions);
    }
    Ok(())
}
