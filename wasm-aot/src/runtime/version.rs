//! Versions of a module's code, and the switches that lead from one into the other.
//!
//! Before each function, and at its loops, there is an instruction that does nothing, or, by its first byte, a jump to the same place in the version that
//! is current. The current version of a function has them off, all others have them on; so a thread goes over with its next call, or with the next
//! turn of the loop that it is in. Every mixture that a thread may meet on its way leads to one of the versions, and all do the same.
//!
//! ```text
//!   function   A9/E9 ──→ stub: jmp [slot] ──→ the function in the current version
//!   loop       A9/E9 ──→ cold block: return_call entries[loop] ──→ the loop's entry in the current version
//! ```
//!
//! A switch of one function: its instructions in the new version off, slot and entries to the new version, its instructions in the others on.
//!
//! Versions are compiled in pieces, so that what is compiled first is current while the rest is still being compiled, and kept: attaching again,
//! and detaching, are a few stores for each function.
//!
//! # Safety
//!
//! This module exists to modify code that may be running (assumptions A2, A3 and A5 of `wordpatch`): a place is switched by storing its first byte, a byte is
//! never torn, and flags are dead there. Distances are stored behind a first byte that makes nothing of them, and a barrier comes before the byte
//! that does.
#![allow(unsafe_code)]

use super::code::Code;
use super::context::WORDS;
use super::counts::Counts;
use super::module::{Module, ModuleInner};
use super::targets::Words;
use crate::compile::{Callee, OFF, ON, Options, Piece, Plan, Receiver, Recompilation, Room, Sites, Target, Wanted, Word};
use crate::error::Error;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release};
use wordpatch::{Barrier, CodeMemory};

/// How many bytes of Wasm are compiled at a time: little at first, so that something is current soon.
const FIRST: usize = 16 << 10;
const LARGEST: usize = 1 << 20;

/// What is switched of one function in one version.
#[derive(Debug)]
struct Side {
    /// The address where it begins.
    start: usize,
    /// The bytes that are switched.
    places: Vec<Place>,
    /// Entries of its loops: their numbers and addresses.
    entries: Vec<(u32, usize)>,
}

/// A byte that is switched: where it can be written, what it is while it is off, and while it is on.
type Place = (usize, [u8; 2]);

/// What a version observes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Observed {
    counts: bool,
    /// Attached plans, by their numbers, in the order in which their hooks fire.
    parts: Vec<usize>,
}

/// A version, as far as it is compiled: functions that are nothing special in it are not there.
#[derive(Debug)]
struct Version {
    observed: Observed,
    sides: Vec<Option<Side>>,
    is_complete: bool,
}

/// The versions of a module that there are.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// What the module was made with, by function; filled when somebody attaches for the first time.
    plain: Vec<Side>,
    /// The functions of it whose loops have entries.
    entered: Vec<bool>,
    others: Vec<Version>,
    /// The version that each function is switched to: 0 is the plain one, others follow.
    current: Vec<usize>,
    observed: Observed,
    /// Plans that somebody else wants observed, whatever monitors come and go: they come last.
    also: Vec<usize>,
    stubs: Option<Stubs>,
    /// How many words of instances are given out to plans.
    words: u32,
}

/// A plan that was attached once: where its words are in instances, and which of them its receivers were told of.
#[derive(Debug)]
pub(crate) struct Part {
    plan: Plan,
    base: u32,
    told: Mutex<HashSet<usize>>,
}

/// Whether any plan that was attached restores words.
static RESTORES: AtomicBool = AtomicBool::new(false);

/// Whether words of plans that were attached are kept while machine code runs.
pub(super) fn parts_restore() -> bool {
    RESTORES.load(Relaxed)
}

/// For each function a jump to wherever its slot says.
#[derive(Debug)]
struct Stubs {
    memory: CodeMemory,
    /// How many bytes there are before the slots.
    slots: usize,
}

/// `jmp [rip + disp32]`, and two bytes of nothing.
const STUB: usize = 8;

impl Stubs {
    fn near(code: &Code, count: usize) -> Result<Self, Error> {
        let slots = STUB * count;
        let mut memory = code.memory_near(slots + 8 * count)?;
        for function in 0..count {
            let at = STUB * function;
            let distance = (slots + 8 * function - (at + 6)) as u32;
            let mut stub = [0xFF, 0x25, 0, 0, 0, 0, 0xCC, 0xCC];
            stub[2..6].copy_from_slice(&distance.to_le_bytes());
            memory.write(at, &stub);
        }
        Ok(Self { memory, slots })
    }

    fn address(&self, function: usize) -> usize {
        self.memory.base().get() + STUB * function
    }

    fn set(&self, function: usize, target: usize) {
        let slot = self.memory.writable(self.slots + 8 * function).get() as *mut usize;
        // SAFETY: (1) an aligned word of memory that lives as long as `self`; (2) threads read it by one load.
        unsafe { AtomicUsize::from_ptr(slot) }.store(target, Release);
    }
}

/// Switches all places.
fn store_all(places: &[Place], on: bool) {
    for (at, values) in places {
        // SAFETY: (A3) one byte; (1) a place's, in memory that can be written and that its version keeps.
        unsafe { AtomicU8::from_ptr(*at as *mut u8) }.store(values[usize::from(on)], Release);
    }
}

impl Versions {
    /// A function in a version; in the plain one if that has nothing of its own.
    fn side(&self, version: usize, function: usize) -> &Side {
        let other = version.checked_sub(1).and_then(|other| self.others[other].sides[function].as_ref());
        other.unwrap_or(&self.plain[function])
    }

    /// Has calls and loops of a function lead to one version.
    fn switch(&mut self, module: &ModuleInner, function: usize, version: usize) {
        let Some(stubs) = &self.stubs else { return };
        let (from, to) = (self.side(self.current[function], function), self.side(version, function));
        if !std::ptr::eq(from, to) {
            store_all(&to.places, false);
            stubs.set(function, to.start);
            for (number, address) in &to.entries {
                module.entries[*number as usize].store(*address, Release);
            }
            // Without entries loops are not left: they would lead to themselves. The first place is the function's beginning.
            let complete = to.entries.len() >= from.entries.len();
            store_all(if complete { &from.places } else { &from.places[..1] }, true);
        }
        self.current[function] = version;
    }

    fn switch_all(&mut self, module: &ModuleInner, version: usize) {
        (0..self.plain.len()).for_each(|function| self.switch(module, function, version));
    }
}

impl Module {
    /// Has everything that is executed from now on counted, in all instances, whether they are running or not: a thread begins to count with its
    /// next call of a function, and with the next turn of the loop that it is in if the module has sites at loops. May be called from any thread; the first
    /// time compiles the module once more.
    ///
    /// # Errors
    /// If the module was compiled without sites ([`Config::sites`](crate::Config::sites)), or there is no memory for code near its code.
    pub fn attach_counts(&self) -> Result<(), Error> {
        if self.inner.options.counts {
            return Ok(());
        }
        let mut versions = self.inner.versions.lock();
        let observed = Observed { counts: true, ..versions.observed.clone() };
        self.inner.observe(&mut versions, observed)
    }

    /// Whether what is executed is counted at the moment.
    pub fn is_counting(&self) -> bool {
        self.inner.options.counts || self.inner.versions.lock().observed.counts
    }

    /// Gives a plan words in all instances, so that it can be [observed](Self::observe). They are never taken back.
    pub(crate) fn add_part(&self, plan: Plan) -> Result<usize, Error> {
        let module = &self.inner;
        let mut versions = module.versions.lock();
        module.prepare(&mut versions)?;
        let base = versions.words;
        if 8 * (base + plan.words()) as usize > WORDS {
            return Err(Error::Attach("instances have no room for what the monitors keep".into()));
        }
        versions.words += plan.words();
        if !plan.restored().is_empty() {
            RESTORES.store(true, Relaxed);
        }
        let part = Part { plan, base, told: Mutex::default() };
        // An instance that begins meanwhile is found here, or finds the part; or both, and is told of once.
        let mut parts = module.parts.write();
        module.counted.each(|vmctx| part.begin(module, vmctx));
        parts.push(part);
        Ok(parts.len() - 1)
    }

    /// Has everything counted, if that is wanted, and these plans observed from now on, and no others.
    pub(crate) fn observe(&self, counts: bool, parts: &[usize]) -> Result<(), Error> {
        let counts = counts && !self.inner.options.counts;
        let mut versions = self.inner.versions.lock();
        let parts = parts.iter().chain(&versions.also).copied().collect();
        self.inner.observe(&mut versions, Observed { counts, parts })
    }

    /// Has a plan observed from now on, whatever else is.
    pub(crate) fn observe_also(&self, part: usize) -> Result<(), Error> {
        let mut versions = self.inner.versions.lock();
        let mut observed = versions.observed.clone();
        observed.parts.push(part);
        self.inner.observe(&mut versions, observed)?;
        versions.also.push(part);
        Ok(())
    }

    /// Has nothing counted any more: a thread ceases with its next call of a function, and with the next turn of its loop. What was counted stays.
    pub fn detach_counts(&self) {
        let mut versions = self.inner.versions.lock();
        let observed = Observed { counts: false, ..versions.observed.clone() };
        // What cannot be compiled any more goes on as it is.
        let _ = self.inner.observe(&mut versions, observed);
    }

    /// How many places there are where something can be switched on while instances run.
    pub fn sites(&self) -> usize {
        match self.inner.options.sites {
            Sites::None => 0,
            Sites::Functions | Sites::Loops => self.inner.info.bodies.len() + self.loop_sites(),
        }
    }

    /// How many of them are at loops.
    pub fn loop_sites(&self) -> usize {
        self.inner.code.tables.crossings.iter().filter(|crossing| crossing.values() == [OFF, ON]).count()
    }

    /// How often everything was executed by the module's instances while it was counted: always, if the engine's code counts
    /// ([`Config::counts`](crate::Config::counts)); otherwise while counts were [attached](Self::attach_counts). None if they never were. While
    /// instances run, what is on its way may be missing.
    pub fn counts(&self) -> Option<Counts> {
        let module = &self.inner;
        let words = module.words();
        if !module.options.counts && module.counting.get().is_none() {
            return None;
        }
        let sums = module.counted.sums(&module.layout, words);
        Some(Counts::new(module, &sums, module.counted.targets(module)))
    }
}

impl Part {
    /// Its words in an instance.
    pub(super) fn room(&self, module: &ModuleInner, vmctx: usize) -> Room {
        // Behind all counters that there may be.
        let first = module.layout.counter(module.attached_words() + self.base);
        Room { vmctx, words: vmctx + first as usize }
    }

    /// Who is told of instances.
    pub(super) fn receivers(&self) -> &[Arc<dyn Receiver>] {
        self.plan.receivers()
    }

    /// Words that become again what they were when machine code was entered.
    pub(super) fn restored(&self) -> &[Word] {
        self.plan.restored()
    }

    /// Tells its receivers of an instance.
    pub(super) fn begin(&self, module: &ModuleInner, vmctx: usize) {
        if !self.told.lock().insert(vmctx) {
            return;
        }
        self.plan.receivers().iter().for_each(|receiver| receiver.begin(self.room(module, vmctx)));
    }

    /// Tells its receivers that an instance ends.
    pub(super) fn end(&self, module: &ModuleInner, vmctx: usize) {
        self.told.lock().remove(&vmctx);
        self.plan.receivers().iter().for_each(|receiver| receiver.end(self.room(module, vmctx)));
    }
}

impl ModuleInner {
    /// Whether this code of the module counts. Usable in a signal handler.
    pub(crate) fn counts_at(&self, pc: usize) -> bool {
        self.options.counts || self.pieces.at(pc).is_some_and(|piece| piece.counts)
    }

    /// Whether any of its code counts. Usable in a signal handler.
    pub(crate) fn may_count(&self) -> bool {
        self.options.counts || self.counting.get().is_some()
    }

    /// The code at `pc`, if it is the module's. Usable in a signal handler.
    pub(crate) fn code_at(&self, pc: usize) -> Option<&Code> {
        if self.code.range().contains(&pc) {
            return Some(&self.code);
        }
        self.pieces.at(pc).map(|piece| &piece.code)
    }

    /// The words that instances count with at the moment.
    pub(super) fn words(&self) -> Words {
        match self.counting.get() {
            Some(counters) => Words { first: self.own_words(), counters: *counters, places: 0 },
            None => Words { first: 0, counters: self.counters, places: self.calls },
        }
    }

    /// Makes the module's own code ready to be left.
    fn prepare(&self, versions: &mut Versions) -> Result<(), Error> {
        if versions.stubs.is_some() {
            return Ok(());
        }
        if self.options.sites == Sites::None {
            return Err(Error::Attach("the module was compiled without sites, so that nothing can be attached".into()));
        }
        if !self.has_room_for_counters() {
            let why = "the module was compiled without reservations, so that its instances have no room for counters";
            return Err(Error::Attach(why.into()));
        }
        let stubs = Stubs::near(&self.code, self.info.bodies.len())?;
        let functions = self.info.bodies.len();
        let beginnings: Vec<Wanted> = (0..functions).map(|function| Wanted { function, entered: None }).collect();
        versions.plain = sides(&self.code, &stubs, &beginnings)?.into_iter().map(|(_, side)| side).collect();
        (0..functions).for_each(|function| stubs.set(function, versions.plain[function].start));
        Barrier::best().and_then(Barrier::pass).map_err(Error::system)?;
        versions.stubs = Some(stubs);
        (versions.current, versions.entered) = (vec![0; functions], vec![false; functions]);
        Ok(())
    }

    /// Makes what is to be observed current.
    fn observe(&self, versions: &mut Versions, observed: Observed) -> Result<(), Error> {
        if versions.observed == observed {
            return Ok(());
        }
        self.prepare(versions)?;
        let version = match observed == Observed::default() {
            true => 0,
            false => match versions.others.iter().position(|other| other.observed == observed && other.is_complete) {
                Some(known) => known + 1,
                None => self.make(versions, &observed)?,
            },
        };
        self.enter_plain(versions, version)?;
        versions.switch_all(self, version);
        versions.observed = observed;
        Ok(())
    }

    /// Compiles a version; what is compiled is current at once.
    fn make(&self, versions: &mut Versions, observed: &Observed) -> Result<usize, Error> {
        versions.others.retain(|other| other.is_complete);
        let sides = (0..versions.plain.len()).map(|_| None).collect();
        versions.others.push(Version { observed: observed.clone(), sides, is_complete: false });
        let version = versions.others.len();
        let before = versions.current.clone();
        let parts: Vec<(Plan, u32)> = {
            let parts = self.parts.read();
            observed.parts.iter().map(|part| (parts[*part].plan.clone(), parts[*part].base)).collect()
        };
        let concerns = |function: usize| {
            let index = self.info.imported.functions + function as u32;
            observed.counts || parts.iter().any(|(plan, _)| plan.concerns(index))
        };
        let mut wanted: Vec<usize> = (0..versions.plain.len()).filter(|function| concerns(*function)).collect();
        // What is executed at this moment comes first, and the rest in order.
        let running = self.running();
        wanted.sort_by_key(|function| running.iter().position(|other| other == function).unwrap_or(usize::MAX));
        let plan: Vec<_> = std::iter::once(self.own_plan()).chain(parts).collect();
        let made = self.compile(versions, observed.counts, &Plan::joined(&plan), &wanted, version);
        match made {
            Ok(()) => versions.others[version - 1].is_complete = true,
            Err(error) => {
                // What is current of it leads back to what was.
                before.iter().enumerate().for_each(|(function, before)| versions.switch(self, function, *before));
                return Err(error);
            }
        }
        Ok(version)
    }

    /// The functions that threads are in, as far as they say so.
    fn running(&self) -> Vec<usize> {
        let mut functions = Vec::new();
        for pc in self.counted.stacks() {
            let found = self.code_at(pc).and_then(|code| code.function_at((pc - code.base()) as u32));
            functions.extend(found.filter(|function| !functions.contains(function)));
        }
        functions
    }

    /// Before functions become plain again, their loops have to have entries.
    fn enter_plain(&self, versions: &mut Versions, version: usize) -> Result<(), Error> {
        let leads_back = |function: &usize| {
            let is_left =
                !std::ptr::eq(versions.side(versions.current[*function], *function), &raw const versions.plain[*function]);
            is_left && std::ptr::eq(versions.side(version, *function), &raw const versions.plain[*function])
        };
        let wanted: Vec<usize> =
            (0..versions.plain.len()).filter(|function| !versions.entered[*function]).filter(leads_back).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        self.compile(versions, false, &Plan::joined(&[self.own_plan()]), &wanted, 0)
    }

    /// How many words of instances the module's own code uses.
    fn own_words(&self) -> u32 {
        self.counters + 2 * self.calls + self.code.plan().words()
    }

    /// How many come before those of plans that are attached: its own, and all counters that there may be.
    fn attached_words(&self) -> u32 {
        self.own_words() + self.most_counters() as u32
    }

    /// What is compiled into the module's own code stands in every version, with the words that it has.
    fn own_plan(&self) -> (Plan, u32) {
        let first = self.counters + 2 * self.calls;
        (self.code.plan().clone(), first.wrapping_sub(self.attached_words()))
    }

    /// Compiles functions for a version, or entries of their loops for the plain one, piece by piece.
    fn compile(
        &self,
        versions: &mut Versions,
        counts: bool,
        plan: &Plan,
        functions: &[usize],
        version: usize,
    ) -> Result<(), Error> {
        let target = Target::native(Options { counts, targets: false, ..self.options })?;
        let recompilation = Recompilation::new(&self.bytes, &target, plan, [self.own_words(), self.attached_words()])?;
        if recompilation.counters() as usize > self.most_counters() {
            return Err(Error::Attach("instances have no room for so many counters".into()));
        }
        if counts {
            self.counting.get_or_init(|| recompilation.counters());
        }
        let (mut rest, mut size) = (functions, FIRST);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.reach(rest, size));
            (rest, size) = (later, LARGEST.min(size * 4));
            let wanted: Vec<Wanted> = now.iter().flat_map(|function| recompilation.parts(*function, version > 0)).collect();
            let made = if wanted.is_empty() { Vec::new() } else { self.piece(versions, &recompilation, &wanted, counts)? };
            for (function, side) in made {
                if version > 0 {
                    versions.others[version - 1].sides[function] = Some(side);
                    versions.switch(self, function, version);
                } else {
                    versions.plain[function].places.extend(side.places);
                    versions.plain[function].entries.extend(side.entries);
                }
            }
            if version == 0 {
                now.iter().for_each(|function| versions.entered[*function] = true);
            }
        }
        Ok(())
    }

    /// Compiles one piece, ready to be switched to.
    fn piece(
        &self,
        versions: &Versions,
        recompilation: &Recompilation<'_>,
        wanted: &[Wanted],
        counts: bool,
    ) -> Result<Vec<(usize, Side)>, Error> {
        let Piece { text, parts, elsewhere } = recompilation.piece(wanted)?;
        let elsewhere: Vec<(u32, usize)> = elsewhere.into_iter().map(|(at, callee)| (at, self.address_of(callee))).collect();
        let owners = parts.iter().map(|part| part.function as u32).collect();
        let piece = self.pieces.add(Code::near(&self.code, text, owners, &elsewhere)?, counts);
        let stubs = versions.stubs.as_ref().expect("prepared before");
        let made = sides(&piece.code, stubs, &parts)?;
        Barrier::best().and_then(Barrier::pass).map_err(Error::system)?;
        Ok(made)
    }

    /// How many of the functions have so many bytes of Wasm together; one at least.
    fn reach(&self, functions: &[usize], bytes: usize) -> usize {
        let mut sum = 0;
        let within = functions.iter().take_while(|function| {
            let body = &self.info.bodies[**function];
            sum += (body.end - body.start) as usize;
            sum <= bytes
        });
        within.count().max(1)
    }

    /// Where code of this module is that other code calls.
    fn address_of(&self, callee: Callee) -> usize {
        match callee {
            Callee::Function(index) => self.function_code(index) as usize,
            Callee::Throw => self.code.throw().expect("a module with exceptions has the trampoline") as usize,
        }
    }
}

/// What is switched of each function in new code, and where it leads as soon as it is switched on.
fn sides(code: &Code, stubs: &Stubs, parts: &[Wanted]) -> Result<Vec<(usize, Side)>, Error> {
    let writable = code.writable()? as usize;
    let mut crossings = code.tables.crossings.iter().peekable();
    let mut sides: Vec<(usize, Side)> = Vec::new();
    for (part, span) in parts.iter().zip(code.tables.functions.iter()) {
        if sides.last().is_none_or(|(function, _)| *function != part.function) {
            sides.push((part.function, Side { start: 0, places: Vec::new(), entries: Vec::new() }));
        }
        let (_, side) = sides.last_mut().expect("just now");
        let address = code.at(span.start) as usize;
        match part.entered {
            Some((_, number)) => side.entries.push((number, address)),
            None => {
                side.start = address;
                let site = writable + (span.start - Sites::Functions.prefix()) as usize;
                // A jump counts from its end, where the function begins.
                let distance = stubs.address(part.function).wrapping_sub(address) as u32;
                // SAFETY: (1) the four bytes before a function are its site's, in writable memory, and aligned as functions are; (2) the site's first byte
                // makes nothing of them.
                unsafe { AtomicU32::from_ptr((site + 1) as *mut u32) }.store(distance, Relaxed);
                side.places.push((site, [OFF, ON]));
            }
        }
        while let Some(crossing) = crossings.next_if(|crossing| crossing.at < span.end) {
            side.places.push((writable + crossing.at as usize, crossing.values()));
        }
    }
    Ok(sides)
}
