//! Virtual probes: monitor functions whose effect follows from execution counts are never called.
//! Their cells are computed when they are read.
//!
//! | what a function does | what it follows from |
//! |---|---|
//! | adds constants to cells, or sets them | how often it would have been called: counters, see [`Counts`](wasm_aot_engine::Counts) |
//! | the same, and removes its own probe | whether the program has come there: one-shot probes, see `monitor/one_shot.rs` |
//!
//! That holds if all that a monitor does while the program runs is of this kind, and no cell
//! depends on the order of calls. What belongs to the cells is given them before anybody looks.

use super::Program;
use super::binding::{Binding, BoundMode};
use super::effects::{self, CellEffects, EffectSummary};
use super::rule::Rule;
use crate::lower;
use crate::monitor::OneShotProbes;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wasm_aot_body::{CounterPlacement, Graph, often};
use wasm_aot_engine::Counts;
use wasm_aot_engine::Engine;
use wasm_aot_engine::Error;
use wasm_aot_engine::FunctionCounts;
use wasm_aot_engine::Instance;
use wasm_aot_engine::Module;
use wasm_aot_engine::instrument::compile::{Draft, Guest};
use wasm_aot_engine::instrument::runtime::{Origin, StoreCore, waiting};
use wasm_aot_engine::instrument::vm::Cell;
use wasmparser::{BinaryReader, FunctionBody};

/// What follows from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallSign {
    /// How often the instruction was executed, or went one way, of the order in which they are
    /// counted.
    Count(Option<usize>),
    /// Whether it was executed.
    Note,
}

/// A virtual probe: calls at one place that are not made.
#[derive(Debug)]
pub(super) struct VirtualProbe {
    observer: usize,
    function: u32,
    /// Where the instruction is in the module, or 0 for the function's entry.
    offset: u32,
    sign: CallSign,
    effects: CellEffects,
    /// The identity of the probe, and whether it would be called.
    pub(super) id: u32,
    pub(super) is_on: bool,
    calls: VirtualCalls,
}

/// Calls that are derived from what counters said from time to time.
///
/// What is read while the program runs may be too much: a way out of a loop that a thread is in
/// follows from the way in, and is there before the thread goes it. It is less again when the
/// thread has left the code that counts. So what is read later may be less, and takes back what was
/// reported; otherwise the next calls would be missing.
#[derive(Clone, Copy, Debug, Default)]
struct VirtualCalls {
    /// How often control has come there, as far as that was read.
    seen: u64,
    /// How many calls the cells know of, and how many they do not, or should not, know of.
    told: u64,
    due: i64,
}

impl VirtualCalls {
    /// Control has come there so often altogether, and calls are made meanwhile or not.
    fn read(&mut self, count: u64, is_on: bool) -> i64 {
        let more = count.cast_signed().wrapping_sub(self.seen.cast_signed());
        self.seen = count;
        if !is_on {
            return 0;
        }
        let before = self.due;
        // What was not reported is not taken back.
        self.due = (self.due + more).max(-self.told.cast_signed());
        self.due - before
    }

    /// What cells have not been given.
    fn take(&mut self) -> i64 {
        let due = std::mem::take(&mut self.due);
        self.told = self.told.saturating_add_signed(due);
        due
    }
}

impl VirtualProbe {
    /// All calls of a monitor, if all of them can be derived, and what they do in sum.
    pub(super) fn of_all(
        observer: usize,
        guest: &Guest,
        (bindings, rules): (&[(u32, Binding)], &[Rule]),
        sizes: &[usize],
        program: &[u8],
    ) -> (Vec<Self>, lower::Effects) {
        let mut all = Vec::new();
        for (function, binding) in bindings {
            let offset = if binding.bound_mode == BoundMode::ENTRY { 0 } else { binding.offset };
            let (function, id, is_on, calls) =
                (*function, binding.id, true, VirtualCalls::default());
            let one = |sign, effects| Self {
                observer,
                function,
                offset,
                sign,
                effects,
                id,
                is_on,
                calls,
            };
            let Some(followed) = effects::summary(guest, binding, program) else {
                let export = &rules[usize::from(binding.rule)].export;
                return (Vec::new(), lower::Effects::More(export.clone()));
            };
            match followed {
                EffectSummary::Always(effects) => all.push(one(CallSign::Count(None), effects)),
                EffectSummary::Once(effects) => all.push(one(CallSign::Note, effects)),
                EffectSummary::ByWay(ways) => {
                    all.extend(
                        (0..)
                            .zip(ways)
                            .map(|(way, effects)| one(CallSign::Count(Some(way)), effects)),
                    );
                }
            }
        }
        if !are_in_any_order(&all)
            || !effects::are_apart(all.iter().flat_map(|one| one.effects.cells()), sizes)
        {
            return (Vec::new(), lower::Effects::Ordered);
        }
        let effects = match (all.iter().any(Self::is_sum), all.iter().all(Self::is_sum)) {
            (false, true) => lower::Effects::Nothing,
            (true, true) => lower::Effects::Sums,
            (true, false) => lower::Effects::SumsAndOnce,
            (false, false) => lower::Effects::Once,
        };
        (all, effects)
    }

    /// Whether it follows from how often something was executed.
    fn is_sum(&self) -> bool {
        self.sign != CallSign::Note
    }

    /// Control has come there so often altogether; gives how many calls are new.
    fn read(&mut self, count: u64) -> i64 {
        self.calls.read(count, self.is_on)
    }

    /// Gives cells what belongs to them.
    fn write_cells(&mut self, instance: Instance, core: &StoreCore) {
        let more = self.calls.take();
        if more != 0 {
            self.effects.additions.iter().for_each(|(cell, by)| {
                instance.add(core, *cell, by.wrapping_mul(more).cast_unsigned());
            });
        }
        if more > 0 {
            self.effects
                .settings
                .iter()
                .for_each(|(cell, value)| instance.set(core, *cell, value.cast_unsigned()));
        }
    }
}

/// What it takes to call a monitor's functions, which add to cells, and what to count whatever the
/// program does. They are in the order of functions.
pub(super) fn costs(all: &[VirtualProbe], program: &Program) -> lower::Costs {
    let (mut calls, mut counters) = (0, 0);
    for (function, range) in (program.info.imported.functions..).zip(&program.info.bodies) {
        let bytes = &program.bytes[range.start as usize..range.end as usize];
        let body = FunctionBody::new(BinaryReader::new(bytes, range.start.into()));
        let graph = Graph::of(&body).unwrap_or_default();
        let depths = graph.depths();
        let depth = |offset: u32| {
            depths[..depths.partition_point(|(start, _)| *start <= offset)]
                .last()
                .map_or(0, |last| last.1)
        };
        let from = all.partition_point(|one| one.function < function);
        let own = all[from..].iter().take_while(|one| one.function == function);
        calls += own
            .map(|one| one.effects.cells().count() as u64 * often(depth(one.offset)))
            .sum::<u64>();
        counters += CounterPlacement::of(&graph).cost(&graph);
    }
    lower::Costs { calls, counters }
}

/// Whether no cell is set to several values, nor set and added to.
fn are_in_any_order(all: &[VirtualProbe]) -> bool {
    let mut set: HashMap<Cell, i64> = HashMap::new();
    let mut settings = all.iter().flat_map(|one| &one.effects.settings);
    let mut additions = all.iter().flat_map(|one| &one.effects.additions);
    settings.all(|(cell, value)| *set.entry(*cell).or_insert(*value) == *value)
        && (set.is_empty() || additions.all(|(cell, _)| !set.contains_key(cell)))
}

/// Calls that are not made, by functions and places.
#[derive(Debug, Default)]
pub(super) struct VirtualProbeCells(Vec<VirtualProbe>);

impl VirtualProbeCells {
    pub(super) fn new(mut all: Vec<VirtualProbe>) -> Self {
        all.sort_by_key(|one| (one.function, one.offset));
        Self(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut VirtualProbe> {
        self.0.iter_mut()
    }

    /// Reads how often control has come to each place; gives how many calls are new.
    pub(super) fn read(&mut self, module: &Module, counts: &Counts) -> i64 {
        let mut calls = 0;
        for function in counts.functions() {
            let base = module.inner().info.body(function.index()).start;
            read_function(self.of(function.index()), &function, base, |one, count| {
                calls += one.read(count);
            });
        }
        calls
    }

    /// Reads to which places control has come.
    fn read_one_shots(
        &mut self,
        module: &Module,
        one_shot_probes: &OneShotProbes,
        waiting: &[usize],
    ) {
        one_shot_probes.each(module, waiting, |function, executed| {
            for one in self.of(function.index) {
                // A function has been called if its first instruction was executed.
                let place = function.instructions.partition_point(|at| *at < one.offset);
                one.read(executed.instructions[place].into());
            }
        });
    }

    /// Gives cells what belongs to them: those of monitors that have an instance in the store.
    pub(super) fn write_cells(
        &mut self,
        core: &StoreCore,
        instance: impl Fn(usize) -> Option<Instance>,
    ) {
        for one in &mut self.0 {
            if let Some(instance) = instance(one.observer) {
                one.write_cells(instance, core);
            }
        }
    }

    /// Those of a function.
    fn of(&mut self, function: u32) -> &mut [VirtualProbe] {
        let from = self.0.partition_point(|one| one.function < function);
        let len = self.0[from..].partition_point(|one| one.function == function);
        &mut self.0[from..from + len]
    }
}

/// Reads how often each instruction of a function was executed, whose body begins at `base`.
fn read_function(
    own: &mut [VirtualProbe],
    function: &FunctionCounts<'_>,
    base: u32,
    mut read: impl FnMut(&mut VirtualProbe, u64),
) {
    let mut due = own.iter_mut().peekable();
    while let Some(entry) = due.next_if(|one| one.offset == 0) {
        read(entry, function.calls());
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
                CallSign::Count(Some(way)) => gone(instruction.offset, way),
                CallSign::Count(None) | CallSign::Note => instruction.count,
            };
            read(one, count);
        }
    }
}

/// All calls that are not made, of monitors that are not switched.
#[derive(Debug, Default)]
pub(super) struct VirtualProbes {
    counted: VirtualProbeCells,
    once: VirtualProbeCells,
    one_shot_probes: Option<Arc<OneShotProbes>>,
}

impl VirtualProbes {
    /// Those of all monitors. What the program has to note is drafted.
    pub(super) fn plan(
        all: Vec<VirtualProbe>,
        program: &Program,
        engine: &Engine,
        draft: &mut Draft,
    ) -> Result<Self, Error> {
        let (counted, once): (Vec<_>, Vec<_>) = all.into_iter().partition(VirtualProbe::is_sum);
        let one_shot_probes = (!once.is_empty()).then(OneShotProbes::new);
        if let Some(one_shot_probes) = &one_shot_probes {
            let functions: HashSet<u32> = once.iter().map(|one| one.function).collect();
            let features = engine.target().options.features;
            one_shot_probes.plan_of(
                &program.bytes,
                features,
                |function| functions.contains(&function),
                draft,
            )?;
        }
        Ok(Self {
            counted: VirtualProbeCells::new(counted),
            once: VirtualProbeCells::new(once),
            one_shot_probes,
        })
    }

    /// Whether the code has to count.
    pub(super) fn counts(&self) -> bool {
        !self.counted.is_empty()
    }

    /// The program was compiled so.
    pub(super) fn compiled(&self, module: &Module) {
        if let Some(one_shot_probes) = &self.one_shot_probes {
            one_shot_probes.compiled(module, Origin::Own);
        }
    }

    /// Gives cells what belongs to them by now: those of monitors that have an instance in the
    /// store.
    pub(super) fn write_cells_of_all(
        &mut self,
        module: &Module,
        core: &StoreCore,
        instance: impl Fn(usize) -> Option<Instance>,
    ) {
        let waiting = waiting(core);
        let reading = if self.counts() { module.reading_at(&waiting) } else { None };
        if let Some(counts) = reading.and_then(|reading| module.counts_of(&reading)) {
            self.counted.read(module, &counts);
        }
        if let Some(one_shot_probes) = &self.one_shot_probes {
            self.once.read_one_shots(module, one_shot_probes, &waiting);
        }
        self.counted.write_cells(core, &instance);
        self.once.write_cells(core, &instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_too_early_is_taken_back_and_the_next_calls_are_not_missing() {
        let mut calls = VirtualCalls::default();
        let mut cell = 0;
        // A thread is in two loops, whose ways out follow already.
        calls.read(3, true);
        cell += calls.take();
        // It has gone on in code that does not count.
        calls.read(1, true);
        cell += calls.take();
        assert_eq!(cell, 1);
        calls.read(12, true);
        cell += calls.take();
        assert_eq!(cell, 12);
    }

    #[test]
    fn what_comes_by_while_it_is_off_is_no_call() {
        let mut calls = VirtualCalls::default();
        assert_eq!(calls.read(5, false), 0);
        assert_eq!(calls.read(7, true), 2);
        assert_eq!(calls.take(), 2);
        // No more is taken back than was reported.
        assert_eq!(calls.read(1, true), -2);
        assert_eq!(calls.take(), -2);
        assert_eq!(calls.read(2, true), 1);
    }
}
