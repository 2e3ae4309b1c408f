//! Detours: the ways around instructions that a monitor replaces, and how they are counted if the
//! monitor comes while the program runs.
//!
//! The module's code has counters for the detours that its own plan may need. A plan that is
//! attached later may need more; their counters are words of attached plans. Variants of the code
//! with them and without them add to the same counters otherwise, see
//! [`CounterPlacement::extended`].

use super::plan::Plan;
use std::collections::BTreeMap;
use std::ops::Range;
use wasm_aot_body::{CounterPlacement, Graph};
use wasmparser::FunctionBody;

/// The detours that attached plans have needed so far, and the module's own code does not have, by
/// function, in the order of the plans.
#[derive(Clone, Debug, Default)]
pub struct Detours(BTreeMap<u32, Vec<Detour>>);

/// Instructions of a function that a plan may replace, in order, and the words of the counters for
/// that.
#[derive(Clone, Debug)]
struct Detour {
    offsets: Vec<u32>,
    words: Range<u32>,
}

/// How a function is counted.
#[derive(Debug)]
pub(crate) struct CountedFunction {
    pub(crate) graph: Graph,
    pub(crate) placement: CounterPlacement,
    /// How many of the counters belong to the module's own code: the first ones.
    pub(crate) own: u32,
    /// The words of the others.
    pub(crate) words: Vec<u32>,
    /// The calls through tables and references in the module's own code.
    pub(crate) calls: Vec<u32>,
}

impl CountedFunction {
    /// Has further instructions replaceable.
    fn extend(&mut self, body: &FunctionBody<'_>, replaceable: &[u32]) {
        let graph = Graph::replaceable(body, replaceable).unwrap_or_default();
        self.placement = self.placement.extended(&self.graph, &graph);
        self.graph = graph;
    }
}

impl Detours {
    /// How a function is counted by code that has them, in a module whose own plan is `own`.
    pub(crate) fn counted(
        &self,
        own: &Plan,
        function: u32,
        body: &FunctionBody<'_>,
    ) -> CountedFunction {
        let mut known = own.replaceable(function);
        let graph = Graph::replaceable(body, &known).unwrap_or_default();
        let placement = CounterPlacement::of(&graph);
        let (own, words, calls) = (placement.counters(), Vec::new(), graph.calls.clone());
        let mut counted = CountedFunction { graph, placement, own, words, calls };
        for detour in self.of(function) {
            known.extend(&detour.offsets);
            known.sort_unstable();
            counted.extend(body, &known);
            counted.words.extend(detour.words.clone());
        }
        counted
    }

    fn of(&self, function: u32) -> &[Detour] {
        self.0.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The instructions that may be replaced, with their functions.
    pub(crate) fn replaceable(&self) -> impl Iterator<Item = (u32, u32)> {
        let each = |(function, detours): (&u32, &Vec<Detour>)| {
            let offsets = detours.iter().flat_map(|detour| &detour.offsets);
            offsets.map(|at| (*function, *at)).collect::<Vec<(u32, u32)>>()
        };
        self.0.iter().flat_map(each)
    }

    /// The words of all their counters.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> {
        self.0.values().flatten().flat_map(|detour| detour.words.clone())
    }

    /// Adds those that a plan needs in addition, in a module whose own plan is `own`. `first` is
    /// the first free word; returns the next.
    pub(crate) fn add<'a>(
        &mut self,
        [own, plan]: [&Plan; 2],
        body: impl Fn(u32) -> FunctionBody<'a>,
        mut first: u32,
    ) -> u32 {
        for function in plan.functions_with_replaceable() {
            let mut offsets = plan.replaceable(function);
            let known = own.replaceable(function);
            let has = |known: &[u32], at: &u32| known.binary_search(at).is_ok();
            let other = self.of(function);
            offsets.retain(|at| {
                !has(&known, at) && !other.iter().any(|detour| has(&detour.offsets, at))
            });
            if offsets.is_empty() {
                continue;
            }
            let body = body(function);
            let counters =
                |detours: &Self| detours.counted(own, function, &body).placement.counters();
            let before = counters(self);
            self.0.entry(function).or_default().push(Detour { offsets, words: first..first });
            let next = first + counters(self) - before;
            if let Some(detour) = self.0.get_mut(&function).and_then(|detours| detours.last_mut()) {
                detour.words.end = next;
            }
            first = next;
        }
        first
    }
}
