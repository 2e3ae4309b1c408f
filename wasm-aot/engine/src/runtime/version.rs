//! Versions of a module's code, and the switches that lead from one into the other.
//!
//! Before each function, and at its loops, there is an instruction that does nothing, or, by its
//! first byte, a jump to the same place in the version that is current. The current version of a
//! function has them off, all others have them on; so a thread goes over with its next call, or
//! with the next turn of the loop that it is in. Every mixture that a thread may meet on its way
//! leads to one of the versions, and all do the same.
//!
//! ```text
//!   function   A9/E9 ──→ stub: jmp [slot] ──→ the function in the current version
//!   loop       A9/E9 ──→ cold block: return_call entries[loop] ──→ the loop's entry in the current version
//! ```
//!
//! A switch of one function: its instructions in the new version off, slot and entries to the new
//! version, its instructions in the others on.
//!
//! What everything is to be observed for is the same for all functions, and has one version of all
//! of them. A function in which some hooks are left out has *trims* beside it: versions of its own.
//! All are kept: attaching again, and detaching, are a few stores for each function.
//!
//! While no thread has executed anything, a function need not be in the version that is current: it
//! is *late*. Its slot leads to a stub then that has it compiled, see [`late`](super::late).

use super::code::Shelf;
use super::module::ModuleInner;
use super::sides::{self, Side, Sides};
use super::stubs::Stubs;
use crate::compile::{HookId, Plan, Recompilation};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// What is counted of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counted {
    /// Nothing.
    #[default]
    Nothing,
    /// How often everything is executed.
    Edges,
    /// That, and where calls through tables and references go.
    Targets,
}

impl Counted {
    /// Whether anything is.
    pub(super) fn is_on(self) -> bool {
        self != Self::Nothing
    }
}

/// What a version observes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Observed {
    pub(super) counts: Counted,
    /// Attached plans, by their numbers, in the order in which their hooks fire.
    pub(super) parts: Vec<usize>,
}

/// Whose hook it is: of an attached plan, or of the one that the module was compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The module's own.
    Own,
    /// The one with that number.
    Part(usize),
}

/// Hooks that are not there.
pub(super) type LeftOut = BTreeSet<(Origin, HookId)>;

/// A version of all functions, as far as they are compiled.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) observed: Observed,
    /// Functions that are nothing special in it are not there.
    pub(super) sides: Sides,
    /// Which functions are there, or need not be.
    pub(super) made: Vec<bool>,
    /// Those of them whose loops have entries.
    pub(super) entered: Vec<bool>,
    /// Whether all of them are there, and none is another version's too.
    pub(super) is_whole: bool,
    /// Whether it has functions in common with other versions.
    pub(super) shares: bool,
}

/// Versions of single functions.
#[derive(Debug, Default)]
pub(super) struct Trims {
    known: HashMap<(usize, Trim), usize>,
    pub(super) sides: Sides,
    /// Those whose loops have entries.
    pub(super) entered: Vec<bool>,
}

/// When threads come into a version at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// With their next call of the function, by which it is compiled if no thread has executed
    /// anything so far.
    FirstCall,
    /// With their next call of the function.
    NextCall,
    /// With the next turn of the loop that they are in.
    NextTurn,
}

/// What is special in a version of a single function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Trim {
    pub(super) observed: Observed,
    pub(super) left_out: Vec<(Origin, HookId)>,
}

/// Where calls and loops of a function lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Current {
    /// To what the module was made with.
    #[default]
    Plain,
    /// To a version of all functions, or to the plain one if that has nothing of this one.
    Version(usize),
    /// To a version of this function alone.
    Trim(usize),
    /// To a stub that has it compiled for what is observed: it was not called so far.
    Late,
}

/// The versions of a module that there are.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// What the module was made with; filled when something is attached for the first time.
    pub(super) plain: Sides,
    /// The functions of it whose loops have entries.
    pub(super) entered: Vec<bool>,
    /// Those of the others that are plain again for callers, though threads may still
    /// be in loops of another version.
    pub(super) recalled: HashSet<usize>,
    pub(super) others: Vec<Version>,
    pub(super) trims: Trims,
    pub(super) current: Vec<Current>,
    /// Where all functions lead, if they lead to the same.
    all: Option<Current>,
    /// What is to be observed.
    pub(super) observed: Observed,
    /// Which hooks are not to be there, of all plans that there are.
    pub(super) left_out: BTreeMap<usize, LeftOut>,
    /// What monitors that come and go want counted, and how many others want everything counted.
    pub(super) counts: Counted,
    pub(super) also_counting: usize,
    /// How often counting has begun.
    pub(super) count_turns: u64,
    /// Plans that others want observed, whatever monitors come and go: they come last.
    pub(super) also: Vec<usize>,
    pub(super) stubs: Option<Stubs>,
    /// Where small pieces of code lie.
    pub(super) shelf: Shelf,
    /// What the latest version is compiled by.
    pub(super) latest: Option<(Observed, Arc<Recompilation>)>,
    /// Functions that could not be compiled when they were called, and why.
    pub(super) unmade: Vec<(u32, String)>,
    /// How many words of instances are given out to plans, and those plans, by their numbers.
    pub(super) words: u32,
    pub(super) plans: Vec<Plan>,
    /// How many functions come before those that are defined.
    pub(super) imported: u32,
}

impl Versions {
    /// A function in a version, if that has something of its own.
    pub(super) fn own_side(&self, current: Current, function: usize) -> Option<Side<'_>> {
        match current {
            Current::Plain | Current::Late => None,
            Current::Version(version) => self.others[version].sides.of(function),
            Current::Trim(trim) => self.trims.sides.of(trim),
        }
    }

    /// A function in a version; in the plain one if that has nothing of its own.
    fn side(&self, current: Current, function: usize) -> Side<'_> {
        if let (Current::Late, Some(stubs)) = (current, &self.stubs) {
            // Nothing of it is switched.
            return Side { start: stubs.late(function), places: &[], entries: &[] };
        }
        let side = self.own_side(current, function).or_else(|| self.plain.of(function));
        side.expect("the module has all functions")
    }

    /// Where the current version of a function begins, as soon as there are several.
    pub(super) fn start(&self, function: usize) -> Option<usize> {
        self.stubs.as_ref().map(|_| self.side(self.current[function], function).start)
    }

    /// Has calls and loops of all functions lead to one version, in one go, if that can be done: if
    /// all lead from one version to another, and both have everything, and nothing in common: what
    /// is current must not lead to itself. Tells whether it was.
    pub(super) fn switch_all(&mut self, module: &ModuleInner, to: Current) -> bool {
        let (Some(stubs), Some(from)) = (&self.stubs, self.all) else { return false };
        if from != to {
            let (Some(before), Some(after)) = (self.whole_sides(from), self.whole_sides(to)) else {
                return false;
            };
            sides::switch(after.places(), false);
            after.starts().enumerate().for_each(|(function, start)| stubs.set(function, start));
            lead(module, after.entries());
            sides::switch(before.places(), true);
            self.current.fill(to);
            self.all = Some(to);
        }
        true
    }

    /// A version that has all functions, with entries into all loops.
    fn whole_sides(&self, version: Current) -> Option<&Sides> {
        match version {
            Current::Plain => self.entered.iter().all(|entered| *entered).then_some(&self.plain),
            Current::Version(version) => {
                self.others[version].is_whole.then(|| &self.others[version].sides)
            }
            Current::Trim(_) | Current::Late => None,
        }
    }

    /// Notes that all functions lead to one version.
    pub(super) fn all_lead_to(&mut self, version: Current) {
        self.all = Some(version);
        if let Current::Version(version) = version {
            let Version { sides, made, entered, is_whole, shares, .. } = &mut self.others[version];
            *is_whole = !*shares
                && made.iter().chain(&*entered).all(|is_there| *is_there)
                && sides.are_all_there();
        }
    }

    /// Has calls and loops of a function lead to one version.
    pub(super) fn switch(&mut self, module: &ModuleInner, function: usize, to: Current) {
        let Some(stubs) = &self.stubs else { return };
        let before = std::mem::replace(&mut self.current[function], to);
        self.all = None;
        let (was_entered, is_entered) =
            (self.is_entered(before, function), self.is_entered(to, function));
        let (from, to) = (self.side(before, function), self.side(to, function));
        if from.start == to.start {
            return;
        }
        sides::switch(to.places, false);
        stubs.set(function, to.start);
        // Without entries loops are not left: they would lead nowhere. The first place is the
        // function's beginning.
        match (is_entered, was_entered) {
            (false, _) => sides::switch(from.places.get(..1).unwrap_or_default(), true),
            (true, true) => {
                lead(module, to.entries);
                sides::switch(from.places, true);
            }
            (true, false) => self.enter(module, function),
        }
    }

    /// Has loops of a function lead to the current version, which has entries, from wherever
    /// threads were left behind.
    pub(super) fn enter(&self, module: &ModuleInner, function: usize) {
        let to = self.side(self.current[function], function);
        lead(module, to.entries);
        let others = self.others.iter().filter_map(|other| other.sides.of(function));
        let all = self.plain.of(function).into_iter().chain(others).chain(self.trims.of(function));
        all.filter(|side| side.start != to.start).for_each(|side| sides::switch(side.places, true));
    }

    /// Whether all loops of a function have entries in a version.
    fn is_entered(&self, version: Current, function: usize) -> bool {
        match version {
            Current::Trim(place) => self.trims.entered[place],
            Current::Version(version)
                if self.own_side(Current::Version(version), function).is_some() =>
            {
                self.others[version].entered[function]
            }
            Current::Late => false,
            Current::Version(_) | Current::Plain => self.entered[function],
        }
    }

    /// Whether a function is in a version of all, but without entries for threads in its loops.
    pub(super) fn lacks_entries(&self, version: usize, function: usize) -> bool {
        self.own_side(Current::Version(version), function).is_some()
            && !self.others[version].entered[function]
    }

    /// Whether a function is to be plain again that has no entries for threads in its loops.
    pub(super) fn leads_back(&self, function: usize, goal: Current) -> bool {
        let own = |current| self.own_side(current, function).is_some();
        !self.entered[function] && own(self.current[function]) && !own(goal)
    }

    /// Notes which functions are to be plain again for callers.
    pub(super) fn recall(&mut self, functions: &[usize], goal: &dyn Fn(usize) -> Current) {
        let recalled: Vec<usize> = functions
            .iter()
            .copied()
            .filter(|function| self.leads_back(*function, goal(*function)))
            .collect();
        self.recalled.extend(recalled);
    }

    /// Whether threads come into the current version of a function with their next call only.
    pub(super) fn is_to_be_called(&self, function: usize) -> bool {
        match self.current.get(function) {
            Some(Current::Trim(place)) => !self.trims.entered[*place],
            Some(Current::Plain) => self.recalled.contains(&function),
            Some(Current::Version(version)) => self.lacks_entries(*version, function),
            Some(Current::Late) | None => false,
        }
    }

    /// The version of all functions that observes what is to be observed; made, with nothing in it,
    /// if there is none.
    pub(super) fn whole(&mut self) -> Current {
        if self.observed == Observed::default() {
            return Current::Plain;
        }
        let known = self.others.iter().position(|other| other.observed == self.observed);
        Current::Version(known.unwrap_or_else(|| {
            let functions = self.current.len();
            let (sides, made, entered) =
                (Sides::new(functions), vec![false; functions], vec![false; functions]);
            self.others.push(Version {
                observed: self.observed.clone(),
                sides,
                made,
                entered,
                is_whole: false,
                shares: false,
            });
            self.others.len() - 1
        }))
    }

    /// Notes that a hook of a function is left out, or is not any more; tells whether that is new.
    pub(super) fn leave_out(&mut self, function: usize, hook: (Origin, HookId), out: bool) -> bool {
        let left_out = self.left_out.entry(function).or_default();
        let is_new = if out { left_out.insert(hook) } else { left_out.remove(&hook) };
        // Where nothing is left out any more, all functions are switched in one go again.
        if left_out.is_empty() {
            self.left_out.remove(&function);
        }
        is_new
    }

    /// What is special in a function at the moment, if anything is.
    pub(super) fn trim(&self, function: usize) -> Option<Trim> {
        let index = self.imported + function as u32;
        let is_there = |origin| match origin {
            Origin::Own => true,
            Origin::Part(part) => self.observed.parts.contains(&part),
        };
        let left_out: Vec<_> = self
            .left_out
            .get(&function)?
            .iter()
            .copied()
            .filter(|(origin, _)| is_there(*origin))
            .collect();
        (!left_out.is_empty())
            .then(|| Trim { observed: self.observed.in_function(self, index), left_out })
    }

    /// Whether nothing of what is observed in a function is left, so that what the module was made
    /// with will do.
    pub(super) fn is_plain(&self, function: usize, trim: &Trim) -> bool {
        let index = self.imported + function as u32;
        let is_out =
            |part: usize, hook: HookId| trim.left_out.contains(&(Origin::Part(part), hook));
        let is_own = |(origin, _): &(Origin, HookId)| *origin == Origin::Own;
        let all_out =
            |part: &usize| self.plans[*part].hooks_of(index).all(|hook| is_out(*part, hook));
        !self.observed.counts.is_on()
            && !trim.left_out.iter().any(is_own)
            && self.observed.parts.iter().all(all_out)
    }
}

/// Has loops lead to their entries.
fn lead(module: &ModuleInner, entries: &[(u32, usize)]) {
    for (number, address) in entries {
        module.entries[*number as usize].store(*address, Release);
    }
}

impl Trims {
    /// Where the version of a function is; made, with nothing in it, if there is none.
    pub(super) fn place(&mut self, function: usize, trim: Trim) -> usize {
        let Self { known, sides, entered } = self;
        *known.entry((function, trim)).or_insert_with(|| {
            entered.push(false);
            sides.add()
        })
    }

    /// All versions of a function.
    fn of(&self, function: usize) -> impl Iterator<Item = Side<'_>> {
        let own = self.known.iter().filter(move |((of, _), _)| *of == function);
        own.filter_map(|(_, place)| self.sides.of(*place))
    }
}
