//! Variants of a module's functions, and the switches between them.
//!
//! Before each function, and at its loops, there is an instruction that does nothing, or, by its
//! first byte, a jump to the same place in the variant that is current. The current variant of a
//! function has them off, all others have them on; so a thread enters the current one with its next
//! call, or with the next iteration of the loop that it is in. A switch stores several bytes, so a
//! thread may see some old and some new; every such state leads to one of the variants, and all
//! compute the same.
//!
//! ```text
//!   function   A9/E9 ──→ stub: jmp [slot] ──→ the function in the current variant
//!   loop       A9/E9 ──→ cold block: return_call entries[loop] ──→ its entry in that variant
//! ```
//!
//! A switch of one function: its gates in the new variant off, slot and entries to the new variant,
//! its gates in the others on.
//!
//! A variant is known by its [`VariantKey`]: what observes its function, less the hooks that are
//! left out there. What does not concern a function is not in its key, so that sets of monitors
//! share the variants in which they do not differ. A function whose key is empty leads to its
//! *baseline*, as the module was made. All variants are kept: attaching again, and detaching, are a
//! few stores for each function.
//!
//! While no thread has executed anything, a function need not be in the variant that it should be
//! in: it is *late*. Its slot leads to a stub then that has it compiled, see [`late`](super::late).

use super::code::Shelf;
use super::module::ModuleInner;
use super::points::{self, Points, VariantPoints};
use super::stubs::Stubs;
use crate::compile::{HookId, Plan, Recompilation};
use callpatch::Switch;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// What is counted in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counted {
    /// Nothing.
    #[default]
    Nothing,
    /// How often each edge is executed.
    Edges,
    /// That, and the targets of calls through tables and references.
    Targets,
}

impl Counted {
    /// Whether anything is.
    pub(super) fn is_on(self) -> bool {
        self != Self::Nothing
    }
}

/// What is observed for one client, in addition to what the module was compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObservedLayer {
    /// Everything that is executed is counted.
    Counts(Counted),
    /// The hooks of an attached plan, by its number.
    Plan(usize),
}

/// What is observed for all clients together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Observed {
    pub(super) counts: Counted,
    /// Attached plans, by their numbers; their hooks fire in that order.
    pub(super) plans: Vec<usize>,
}

impl Observed {
    /// The union of these layers, which are in order.
    pub(super) fn of(layers: &[ObservedLayer]) -> Self {
        let mut observed = Self::default();
        for layer in layers {
            match layer {
                ObservedLayer::Counts(counts) => observed.counts = observed.counts.max(*counts),
                ObservedLayer::Plan(plan) => observed.plans.push(*plan),
            }
        }
        observed.plans.dedup();
        observed
    }
}

/// The plan that a hook belongs to: an attached one, or the one that the module was compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The module's own.
    Own,
    /// The one with that number.
    Plan(usize),
}

/// Hooks that are left out.
pub(super) type LeftOut = BTreeSet<(Origin, HookId)>;

/// When threads enter a variant at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// With their next call of the function, by which it is compiled if no thread has executed
    /// anything so far.
    FirstCall,
    /// With their next call of the function.
    NextCall,
    /// With the next iteration of the loop that they are in.
    NextIteration,
}

/// The key of a variant of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VariantKey {
    observed: Observed,
    left_out: Vec<(Origin, HookId)>,
}

/// The target of a function's calls and loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Current {
    /// A variant of the function, by its number.
    Variant(usize),
    /// A stub that has the function compiled for what is observed: it has not been called yet.
    Late,
}

/// The existing variants of a module's functions.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    /// The patch points of all variants, once something is attached for the first time: first the
    /// baselines, in the order of functions.
    pub(super) points: Points,
    /// Which of them have OSR entries.
    pub(super) entered: Vec<bool>,
    /// Each function's variants except its baseline.
    known: HashMap<usize, Vec<(VariantKey, usize)>>,
    /// The variants of functions for each set of observed layers, where nothing is left out.
    rows: Vec<(Observed, Vec<usize>)>,
    /// Functions whose callers enter the baseline again, while threads may still be in loops of
    /// another variant.
    pub(super) recalled: HashSet<usize>,
    pub(super) current: Vec<Current>,
    /// The layers that clients observe, in order, and their union.
    pub(super) layers: Vec<ObservedLayer>,
    pub(super) observed: Observed,
    /// The layer that an embedder has attached, see [`Module::attach_counts`](super::Module).
    pub(super) embedder: Option<ObservedLayer>,
    /// The hooks that are to be left out, of all plans.
    pub(super) left_out: BTreeMap<usize, LeftOut>,
    /// How often counting has begun.
    pub(super) count_turns: u64,
    pub(super) stubs: Option<Stubs>,
    /// Memory for small chunks of code.
    pub(super) shelf: Shelf,
    /// The compiler of the latest variants in which nothing is left out.
    pub(super) latest: Option<(Observed, Arc<Recompilation>)>,
    /// Functions that could not be compiled when they were called, and why.
    pub(super) unmade: Vec<(u32, String)>,
    /// How many words of instances are assigned to plans, and those plans, by their numbers.
    pub(super) words: u32,
    pub(super) plans: Vec<Plan>,
    /// How many functions are imported: they are numbered before the defined ones.
    pub(super) imported: u32,
}

impl Variants {
    /// The baselines are compiled, and all functions lead there.
    pub(super) fn begin(&mut self, stubs: Stubs, baselines: Points, functions: usize) {
        (self.stubs, self.points) = (Some(stubs), baselines);
        self.current = (0..functions).map(Current::Variant).collect();
        self.entered = vec![false; functions];
    }

    /// Whether a variant is its function's baseline.
    pub(super) fn is_baseline(&self, variant: usize) -> bool {
        variant < self.current.len()
    }

    /// The patch points of a function's current target.
    fn points(&self, current: Current, function: usize) -> VariantPoints<'_> {
        match (current, &self.stubs) {
            // The stub has nothing that is switched.
            (Current::Late, Some(stubs)) => {
                VariantPoints { start: stubs.late(function), gates: &[], entries: &[] }
            }
            (Current::Late, None) => unreachable!("functions are late that lead to stubs"),
            (Current::Variant(variant), _) => {
                self.points.of(variant).expect("a function leads to what is compiled")
            }
        }
    }

    /// Where the current variant of a function begins, as soon as there are several.
    pub(super) fn start(&self, function: usize) -> Option<usize> {
        self.stubs.as_ref().map(|_| self.points(self.current[function], function).start)
    }

    /// Switches a function to a variant: its calls, and its loops if the variant has OSR entries.
    pub(super) fn switch(&mut self, module: &ModuleInner, function: usize, to: Current) {
        let Some(stubs) = &self.stubs else { return };
        let before = std::mem::replace(&mut self.current[function], to);
        let (was_entered, is_entered) = (self.is_entered(before), self.is_entered(to));
        let (from, to) = (self.points(before, function), self.points(to, function));
        if from.start == to.start {
            return;
        }
        points::switch(to.gates, Switch::Off);
        stubs.set(function, to.start);
        // Without OSR entries, loops are not left, because their exits would lead nowhere. The
        // first gate is the function's beginning.
        match (is_entered, was_entered) {
            (false, _) => points::switch(from.gates.get(..1).unwrap_or_default(), Switch::On),
            (true, true) => {
                lead(module, to.entries);
                points::switch(from.gates, Switch::On);
            }
            (true, false) => self.enter(module, function),
        }
    }

    /// Lets threads in loops of all other variants enter the current one, which has OSR entries.
    pub(super) fn enter(&self, module: &ModuleInner, function: usize) {
        let to = self.points(self.current[function], function);
        lead(module, to.entries);
        let others = self.known.get(&function).into_iter().flatten().map(|(_, variant)| *variant);
        let all = std::iter::once(function).chain(others).filter_map(|one| self.points.of(one));
        all.filter(|one| one.start != to.start)
            .for_each(|one| points::switch(one.gates, Switch::On));
    }

    /// Whether all loops of a function have OSR entries in its current target.
    fn is_entered(&self, current: Current) -> bool {
        matches!(current, Current::Variant(variant) if self.entered[variant])
    }

    /// Whether a function leads to its baseline.
    fn is_at_baseline(&self, function: usize) -> bool {
        self.current[function] == Current::Variant(function)
    }

    /// Whether a function is to lead to its baseline again, which has no OSR entries for threads in
    /// its loops.
    pub(super) fn leads_back(&self, function: usize, goal: Current) -> bool {
        let is_other = matches!(self.current[function], Current::Variant(it) if it != function);
        !self.entered[function]
            && is_other
            && matches!(goal, Current::Variant(it) if it == function)
    }

    /// Remembers functions whose callers enter the baseline again.
    pub(super) fn recall(&mut self, goals: &[(usize, Current)]) {
        let leads_back = |(function, goal): &&(usize, Current)| self.leads_back(*function, *goal);
        let recalled: Vec<usize> = goals.iter().filter(leads_back).map(|(it, _)| *it).collect();
        self.recalled.extend(recalled);
    }

    /// The functions whose baselines need entries for threads in other variants' loops.
    pub(super) fn to_enter(&self, goals: &[(usize, Current)]) -> Vec<usize> {
        let is_wanted = |(function, goal): &&(usize, Current)| {
            self.leads_back(*function, *goal)
                || (*goal == Current::Variant(*function) && self.recalled.contains(function))
        };
        goals.iter().filter(is_wanted).map(|(function, _)| *function).collect()
    }

    /// Lets threads in other variants' loops enter a baseline that callers enter already, if so.
    pub(super) fn enter_recalled(&mut self, module: &ModuleInner, function: usize) {
        if self.recalled.remove(&function) && self.is_at_baseline(function) {
            self.enter(module, function);
        }
    }

    /// Whether threads enter the current variant of a function with their next call only.
    pub(super) fn is_to_be_called(&self, function: usize) -> bool {
        match self.current.get(function) {
            Some(Current::Variant(variant)) if *variant == function => {
                self.recalled.contains(&function)
            }
            Some(Current::Variant(variant)) => !self.entered[*variant],
            Some(Current::Late) | None => false,
        }
    }

    /// The row of variants for the layers that are to be observed, where nothing is left out.
    pub(super) fn row(&mut self) -> usize {
        let known = self.rows.iter().position(|(observed, _)| *observed == self.observed);
        known.unwrap_or_else(|| {
            let functions = 0..self.current.len();
            let row = functions.map(|function| self.variant(function, Vec::new())).collect();
            self.rows.push((self.observed.clone(), row));
            self.rows.len() - 1
        })
    }

    /// Which variant a function should have for what is to be observed, and what is left out there.
    pub(super) fn goal(&mut self, row: usize, function: usize) -> usize {
        let is_there = |origin| match origin {
            Origin::Own => true,
            Origin::Plan(plan) => self.observed.plans.contains(&plan),
        };
        let left_out = self.left_out.get(&function).into_iter().flatten().copied();
        let left_out: Vec<_> = left_out.filter(|(origin, _)| is_there(*origin)).collect();
        match left_out.is_empty() {
            true => self.rows[row].1[function],
            false => self.variant(function, left_out),
        }
    }

    /// The variant of a function for the layers that are to be observed, without the hooks that are
    /// left out. If there is none, it is registered, but not compiled.
    fn variant(&mut self, function: usize, left_out: Vec<(Origin, HookId)>) -> usize {
        let index = self.imported + function as u32;
        let is_out = |plan: usize, hook: HookId| left_out.contains(&(Origin::Plan(plan), hook));
        let all_out =
            |plan: &usize| self.plans[*plan].hooks_of(index).all(|hook| is_out(*plan, hook));
        let is_own = |(origin, _): &(Origin, HookId)| *origin == Origin::Own;
        // If nothing that is observed concerns the function, the baseline is used.
        if !self.observed.counts.is_on()
            && !left_out.iter().any(is_own)
            && self.observed.plans.iter().all(all_out)
        {
            return function;
        }
        let concerns = |plan: &usize| self.plans[*plan].concerns(index);
        let plans = self.observed.plans.iter().copied().filter(concerns).collect();
        let key =
            VariantKey { observed: Observed { counts: self.observed.counts, plans }, left_out };
        let known = self.known.entry(function).or_default();
        if let Some((_, variant)) = known.iter().find(|(other, _)| *other == key) {
            return *variant;
        }
        let variant = self.points.add();
        self.entered.push(false);
        known.push((key, variant));
        variant
    }

    /// The key of a variant of a function; baselines have none.
    fn key(&self, function: usize, variant: usize) -> Option<&VariantKey> {
        let mut known = self.known.get(&function)?.iter();
        known.find(|(_, it)| *it == variant).map(|(key, _)| key)
    }

    /// What is left out in a variant of a function.
    pub(super) fn left_out_in(&self, function: usize, variant: usize) -> &[(Origin, HookId)] {
        self.key(function, variant).map_or(&[], |key| &key.left_out)
    }

    /// The attached plans whose hooks are in a variant of a function.
    pub(super) fn plans_in(&self, function: usize, variant: usize) -> &[usize] {
        self.key(function, variant).map_or(&[], |key| &key.observed.plans)
    }

    /// Records that a hook of a function is left out, or no longer left out; returns whether that
    /// is new.
    pub(super) fn leave_out(&mut self, function: usize, hook: (Origin, HookId), out: bool) -> bool {
        let left_out = self.left_out.entry(function).or_default();
        let is_new = if out { left_out.insert(hook) } else { left_out.remove(&hook) };
        if left_out.is_empty() {
            self.left_out.remove(&function);
        }
        is_new
    }
}

/// Stores the addresses of OSR entries in the table that OSR exits read.
fn lead(module: &ModuleInner, entries: &[(u32, usize)]) {
    for (number, address) in entries {
        module.entries[*number as usize].store(*address, Release);
    }
}
