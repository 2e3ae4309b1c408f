//! Calls that need not be made, since what they would have done follows from what the program's code tells anyway.
//!
//! | what a function does | what it follows from |
//! |---|---|
//! | adds constants to cells, or sets them | how often it would have been called: counters, see [`Counts`](crate::Counts) |
//! | the same, and takes itself away | whether the program has come there: notes, see `monitor/noted.rs` |
//!
//! That holds if all that a monitor does while the program runs is of this kind, and no cell depends on the order of calls. What belongs to the cells is given
//! them before anybody looks.

use super::Program;
use super::binding::{Binding, Moment};
use super::tally::{self, Cell, Effects, Followed};
use crate::compile::{Draft, Guest};
use crate::engine::Engine;
use crate::error::Error;
use crate::monitor::Noted;
use crate::runtime::{Origin, StoreCore};
use crate::{FunctionCounts, Instance, Module};
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What follows from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// How often the instruction was executed, or went one way, of the order in which they are counted.
    Count(Option<usize>),
    /// Whether it was executed.
    Note,
}

/// A call that is not made.
#[derive(Debug)]
pub(super) struct Derivation {
    observer: usize,
    function: u32,
    /// Where the instruction is in the module, or 0 for the function's entry.
    offset: u32,
    sign: Sign,
    effects: Effects,
    /// How many calls are in the cells already.
    told: u64,
}

impl Derivation {
    /// All calls of a monitor, if all of them can be derived.
    pub(super) fn of_all(
        observer: usize,
        guest: &Guest,
        bindings: &[(u32, Binding)],
        sizes: &[usize],
        program: &[u8],
    ) -> Option<Vec<Self>> {
        let mut all = Vec::with_capacity(bindings.len());
        for (function, binding) in bindings {
            let offset = if binding.moment == Moment::Entry { 0 } else { binding.offset };
            let one = |sign, effects| Self { observer, function: *function, offset, sign, effects, told: 0 };
            match tally::followed(guest, binding, program)? {
                Followed::Always(effects) => all.push(one(Sign::Count(None), effects)),
                Followed::Once(effects) => all.push(one(Sign::Note, effects)),
                Followed::ByWay(ways) => {
                    all.extend((0..).zip(ways).map(|(way, effects)| one(Sign::Count(Some(way)), effects)));
                }
            }
        }
        (are_in_any_order(&all) && tally::are_apart(all.iter().flat_map(|one| one.effects.cells()), sizes)).then_some(all)
    }

    /// Whether it follows from how often something was executed.
    pub(super) fn needs_counts(&self) -> bool {
        self.sign != Sign::Note
    }

    fn tell(&mut self, count: u64, instance: Instance, core: &StoreCore) {
        let more = count.wrapping_sub(std::mem::replace(&mut self.told, count));
        if more != 0 {
            self.effects.additions.iter().for_each(|(cell, by)| instance.add(core, *cell, by.cast_unsigned().wrapping_mul(more)));
            self.effects.settings.iter().for_each(|(cell, value)| instance.set(core, *cell, value.cast_unsigned()));
        }
    }
}

/// Whether no cell is set to several values, nor set and added to.
fn are_in_any_order(all: &[Derivation]) -> bool {
    let mut set: HashMap<Cell, i64> = HashMap::new();
    let mut settings = all.iter().flat_map(|one| &one.effects.settings);
    let mut additions = all.iter().flat_map(|one| &one.effects.additions);
    settings.all(|(cell, value)| *set.entry(*cell).or_insert(*value) == *value)
        && (set.is_empty() || additions.all(|(cell, _)| !set.contains_key(cell)))
}

/// All calls that are not made.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// By functions and places, as soon as the program is compiled.
    counted: Vec<Derivation>,
    once: Vec<Derivation>,
    noted: Option<Arc<Noted>>,
}

impl Derived {
    /// Adds those of a monitor.
    pub(super) fn extend(&mut self, more: Vec<Derivation>) {
        let (counted, once): (Vec<_>, Vec<_>) = more.into_iter().partition(Derivation::needs_counts);
        self.counted.extend(counted);
        self.once.extend(once);
    }

    /// Whether the code has to count.
    pub(super) fn needs_counts(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Has the code note what it has to. There will be no more calls.
    pub(super) fn plan(&mut self, program: &Program, engine: &Engine, draft: &mut Draft) -> Result<(), Error> {
        self.counted.sort_by_key(|one| (one.function, one.offset));
        self.once.sort_by_key(|one| (one.function, one.offset));
        if !self.once.is_empty() {
            let functions: HashSet<u32> = self.once.iter().map(|one| one.function).collect();
            let noted = self.noted.insert(Noted::new());
            let features = engine.target().options.features;
            noted.plan_of(&program.bytes, features, |function| functions.contains(&function), draft)?;
        }
        Ok(())
    }

    /// The program was compiled so.
    pub(super) fn compiled(&self, module: &Module) {
        if let Some(noted) = &self.noted {
            noted.compiled(module, Origin::Own);
        }
    }

    /// Gives cells what belongs to them by now: those of monitors that have an instance in the store.
    pub(super) fn settle(&mut self, module: &Module, core: &StoreCore, instance: impl Fn(usize) -> Option<Instance>) {
        let tell = |one: &mut Derivation, count: u64| {
            if let Some(instance) = instance(one.observer) {
                one.tell(count, instance, core);
            }
        };
        if let Some(counts) = module.counts().filter(|_| !self.counted.is_empty()) {
            for function in counts.functions() {
                let base = module.inner.info.body(function.index()).start;
                settle_counted(of(&mut self.counted, function.index()), &function, base, tell);
            }
        }
        let Some(noted) = &self.noted else { return };
        noted.each(module, |function, executed| {
            for one in of(&mut self.once, function.index) {
                // A function has been called if its first instruction was executed.
                let place = function.instructions.partition_point(|at| *at < one.offset);
                tell(one, executed.instructions[place].into());
            }
        });
    }
}

/// Those of a function.
fn of(all: &mut [Derivation], function: u32) -> &mut [Derivation] {
    let from = all.partition_point(|one| one.function < function);
    let len = all[from..].partition_point(|one| one.function == function);
    &mut all[from..from + len]
}

/// Tells how often each instruction of a function was executed, whose body begins at `base`.
fn settle_counted(own: &mut [Derivation], function: &FunctionCounts<'_>, base: u32, tell: impl Fn(&mut Derivation, u64)) {
    let mut due = own.iter_mut().peekable();
    while let Some(entry) = due.next_if(|one| one.offset == 0) {
        tell(entry, function.calls());
    }
    if due.peek().is_none() {
        return;
    }
    let branches = LazyCell::new(|| function.branches());
    let gone = |offset: u32, way: usize| {
        let branch = branches.binary_search_by_key(&offset, |branch| branch.offset).ok();
        branch.and_then(|branch| branches[branch].ways.get(way)).copied().unwrap_or_default()
    };
    for instruction in function.instructions() {
        while let Some(one) = due.next_if(|one| one.offset <= base + instruction.offset) {
            let count = match one.sign {
                Sign::Count(Some(way)) => gone(instruction.offset, way),
                Sign::Count(None) | Sign::Note => instruction.count,
            };
            tell(one, count);
        }
    }
}
