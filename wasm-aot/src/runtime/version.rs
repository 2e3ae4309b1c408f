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

use super::code::Code;
use super::context::WORDS;
use super::counts::Counts;
use super::module::{Module, ModuleInner};
use super::part::Part;
use super::sides::{self, Side, Sides};
use super::stubs::Stubs;
use super::targets::Words;
use crate::compile::{self, Callee, OFF, ON, Options, Plan, Recompilation, Target, Wanted};
use crate::error::Error;
use std::sync::atomic::Ordering::Release;
use wordpatch::Barrier;

/// How many bytes of Wasm are compiled at a time: little at first, so that something is current soon.
const FIRST: usize = 16 << 10;
const LARGEST: usize = 1 << 20;

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
    sides: Sides,
    is_complete: bool,
}

/// The versions of a module that there are.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// What the module was made with; filled when somebody attaches for the first time.
    plain: Sides,
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

impl Versions {
    /// A function in a version, if the version has something of its own. The plain one has everything.
    fn own_side(&self, version: usize, function: usize) -> Option<Side<'_>> {
        match version.checked_sub(1) {
            None => self.plain.of(function),
            Some(other) => self.others[other].sides.of(function),
        }
    }

    /// A function in a version; in the plain one if that has nothing of its own.
    fn side(&self, version: usize, function: usize) -> Side<'_> {
        let side = self.own_side(version, function).or_else(|| self.plain.of(function));
        side.expect("the module has all functions")
    }

    /// Has calls and loops of a function lead to one version.
    fn switch(&mut self, module: &ModuleInner, function: usize, version: usize) {
        let Some(stubs) = &self.stubs else { return };
        let (from, to) = (self.side(self.current[function], function), self.side(version, function));
        if from.start != to.start {
            sides::switch(to.places, false);
            stubs.set(function, to.start);
            for (number, address) in to.entries {
                module.entries[*number as usize].store(*address, Release);
            }
            // Without entries loops are not left: they would lead to themselves. The first place is the function's beginning.
            let complete = to.entries.len() >= from.entries.len();
            sides::switch(if complete { from.places } else { &from.places[..1] }, true);
        }
        self.current[function] = version;
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
        let part = Part::new(plan, base);
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
            compile::Sites::None => 0,
            compile::Sites::Functions | compile::Sites::Loops => self.inner.info.bodies.len() + self.loop_sites(),
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
        if self.options.sites == compile::Sites::None {
            return Err(Error::Attach("the module was compiled without sites, so that nothing can be attached".into()));
        }
        if !self.has_room_for_counters() {
            let why = "the module was compiled without reservations, so that its instances have no room for counters";
            return Err(Error::Attach(why.into()));
        }
        let stubs = Stubs::near(&self.code, self.info.bodies.len())?;
        let functions = self.info.bodies.len();
        let beginnings: Vec<Wanted> = (0..functions).map(|function| Wanted { function, entered: None }).collect();
        let mut plain = Sides::new(functions);
        plain.take_in(&self.code, &stubs, &beginnings)?;
        (0..functions).filter_map(|function| Some((function, plain.of(function)?))).for_each(|(function, side)| {
            stubs.set(function, side.start);
        });
        Barrier::best().and_then(Barrier::pass).map_err(Error::system)?;
        (versions.stubs, versions.plain) = (Some(stubs), plain);
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
        (0..versions.current.len()).for_each(|function| versions.switch(self, function, version));
        versions.observed = observed;
        Ok(())
    }

    /// Compiles a version; what is compiled is current at once.
    fn make(&self, versions: &mut Versions, observed: &Observed) -> Result<usize, Error> {
        versions.others.retain(|other| other.is_complete);
        let sides = Sides::new(versions.current.len());
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
        let mut wanted: Vec<usize> = (0..versions.current.len()).filter(|function| concerns(*function)).collect();
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
        let is_own = |version: usize, function: usize| version > 0 && versions.own_side(version, function).is_some();
        let leads_back = |function: &usize| is_own(versions.current[*function], *function) && !is_own(version, *function);
        let wanted: Vec<usize> =
            (0..versions.current.len()).filter(|function| !versions.entered[*function]).filter(leads_back).collect();
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
    pub(super) fn attached_words(&self) -> u32 {
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
        // Code that counts from the beginning goes on to do so, with its own words.
        let always = self.options.counts;
        let target =
            Target::native(Options { counts: counts || always, targets: self.options.targets && always, ..self.options })?;
        let before = if always { 0 } else { self.own_words() };
        let recompilation = Recompilation::new(&self.bytes, &target, plan, [before, self.attached_words()])?;
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
            if !wanted.is_empty() {
                self.piece(versions, &recompilation, &wanted, counts, version)?;
            }
            for function in now {
                match version {
                    0 => versions.entered[*function] = true,
                    _ => versions.switch(self, *function, version),
                }
            }
        }
        Ok(())
    }

    /// Compiles one piece for a version, ready to be switched to.
    fn piece(
        &self,
        versions: &mut Versions,
        recompilation: &Recompilation<'_>,
        wanted: &[Wanted],
        counts: bool,
        version: usize,
    ) -> Result<(), Error> {
        let compile::Piece { text, parts, elsewhere } = recompilation.piece(wanted)?;
        let elsewhere: Vec<(u32, usize)> = elsewhere.into_iter().map(|(at, callee)| (at, self.address_of(callee))).collect();
        let owners = parts.iter().map(|part| part.function as u32).collect();
        let piece = self.pieces.add(Code::near(&self.code, text, owners, &elsewhere)?, counts);
        let Versions { plain, others, stubs: Some(stubs), .. } = versions else { return Ok(()) };
        let sides = match version.checked_sub(1) {
            None => plain,
            Some(other) => &mut others[other].sides,
        };
        sides.take_in(&piece.code, stubs, &parts)?;
        Barrier::best().and_then(Barrier::pass).map_err(Error::system)
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
