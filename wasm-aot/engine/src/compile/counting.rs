//! Emits edge counters, on the edges that [`CounterPlacement`] chooses.
//!
//! A counter is a word of the vmctx. One thread at a time executes an instance, so counting is one
//! `add` without a lock, and needs no register.

use super::budget::Budget;
use super::detours::{CountedFunction, Detours};
use super::function::Translator;
use super::plan::Plan;
use crate::error::CompileError;
use crate::module::Body;
use crate::trap::{Access, Trap};
use crate::vm::{Builtin, Layout};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, TrapCode, Value, condcodes::IntCC, types};
use rayon::prelude::*;
use std::collections::BTreeMap;
use wasm_aot_body::{CounterPlacement, Graph, Way};

/// The most counters of a module: their offsets in the vmctx have 32 bits.
pub(super) const COUNTERS: usize = 1 << 26;

/// Which edges of a module are counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// How many words of instances come before the counters.
    pub(super) before: u32,
    functions: Vec<CounterPlacement>,
    /// The first counter of each function, and how many there are altogether, without those of
    /// detours.
    first: Vec<u32>,
    /// How many words of instances come before those of attached plans.
    pub(super) before_attached: u32,
    /// The words among these of the counters of detours, by defined function.
    detours: BTreeMap<usize, Vec<u32>>,
    /// The calls of each function through tables and references, and the number of the first.
    calls: Vec<Vec<u32>>,
    first_call: Vec<u32>,
}

impl Counting {
    /// Nothing is counted.
    pub(super) const NONE: Self = Self {
        before: 0,
        functions: Vec::new(),
        first: Vec::new(),
        before_attached: 0,
        detours: BTreeMap::new(),
        calls: Vec::new(),
        first_call: Vec::new(),
    };

    /// Whether anything is counted.
    pub(super) fn counts(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Chooses counters for all functions of a module whose own plan is `own`, with these detours.
    pub(super) fn of(
        bodies: &[Body<'_>],
        targets: bool,
        own: &Plan,
        detours: &Detours,
    ) -> Result<Self, CompileError> {
        // A large module's graphs are not kept.
        let each = |body: &Body<'_>| CountedFunction {
            graph: Graph::default(),
            ..detours.counted(own, body.index, &body.body)
        };
        let counted: Vec<CountedFunction> = bodies.par_iter().map(each).collect();
        let first = sums(counted.iter().map(|function| function.own as usize))?;
        let mut all = Self { first, ..Self::default() };
        for (defined, function) in counted.into_iter().enumerate() {
            if !function.words.is_empty() {
                all.detours.insert(defined, function.words);
            }
            all.functions.push(function.placement);
            all.calls.push(if targets { function.calls } else { Vec::new() });
        }
        all.first_call = sums(all.calls.iter().map(Vec::len))?;
        Ok(all)
    }

    /// How many calls through tables and references there are.
    pub(crate) fn calls(&self) -> u32 {
        self.first_call.last().copied().unwrap_or_default()
    }

    /// The number of a call through a table or a reference, if calls are counted.
    fn call(&self, defined: usize, at: usize) -> Option<u32> {
        let place = self.calls.get(defined)?.binary_search(&(at as u32)).ok()?;
        Some(self.first_call[defined] + place as u32)
    }

    /// How many counters there are.
    pub(crate) fn len(&self) -> u32 {
        self.first.last().copied().unwrap_or_default()
    }

    /// Where a counter of a function is in the vmctx.
    fn place(&self, defined: usize, layout: &Layout, counter: u32) -> i32 {
        let (first, next) = (self.first[defined], self.first[defined + 1]);
        layout.counter(match counter.checked_sub(next - first) {
            None => self.before + first + counter,
            Some(number) => self.before_attached + self.detours[&defined][number as usize],
        })
    }

    /// Where the counter of an edge is in the vmctx, if the edge is counted.
    fn counter(&self, defined: usize, layout: &Layout, at: usize, way: Way) -> Option<i32> {
        let counter = self.functions.get(defined)?.counter(at as u32, way)?;
        Some(self.place(defined, layout, counter))
    }

    /// Where the counter of a loop's first block is, if it is counted.
    fn turn(&self, defined: usize, layout: &Layout, at: usize) -> Option<i32> {
        let counter = self.functions.get(defined)?.turn(at as u32)?;
        Some(self.place(defined, layout, counter))
    }

    /// The counter of activations that enter a loop of a function from another variant, or leave it
    /// for one.
    fn osr_exit(&self, defined: usize, layout: &Layout, at: usize, comes: bool) -> Option<i32> {
        let places = self.functions.get(defined)?;
        let counter = if comes { places.coming(at as u32) } else { places.going(at as u32) }?;
        Some(self.place(defined, layout, counter))
    }
}

/// The sums before each number, and of all.
fn sums(numbers: impl Iterator<Item = usize>) -> Result<Vec<u32>, CompileError> {
    let mut total = 0;
    let mut sums = vec![0];
    for number in numbers {
        total += number;
        super::too_large(total, COUNTERS, "what is counted of the module")?;
        sums.push(total as u32);
    }
    Ok(sums)
}

impl Translator<'_> {
    /// Counts which function the present instruction calls through a table or a reference.
    pub(super) fn count_target(&mut self, function: Value) {
        let defined = (self.index - self.info.imported.functions) as usize;
        let Some(place) = self.counting.call(defined, self.offset) else { return };
        let before = self.counting.before + self.counting.len();
        let words = self.layout.counter(before + 2 * place);
        let flags = MemFlagsData::trusted().with_alias_region(Some(self.regions.counters));
        let known = self.builder.ins().load(types::I64, flags, self.vmctx, words);
        let same = self.builder.ins().icmp(IntCC::Equal, known, function);
        let (other, next) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(other);
        self.builder.ins().brif(same, next, &[], other, &[]);
        self.builder.seal_block(other);
        self.builder.switch_to_block(other);
        let place = self.number(place);
        self.builtin(Builtin::CallTarget, &[place, function]);
        self.builder.ins().jump(next, &[]);
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
        self.add_to_counter(words + 8);
    }

    /// The trap code of an access of the present instruction. Code that counts, records
    /// partial-block exits or charges a budget has to identify the access.
    pub(super) fn access_code(&self, stores: bool) -> TrapCode {
        let is_wanted = self.target.options.counts
            || self.target.options.budget == Budget::Pays
            || self.hooking.notes_partial_exits;
        match is_wanted && !self.is_nested() {
            true => Access::at(self.offset, stores).code(),
            false => Trap::MemoryOutOfBounds.code(),
        }
    }

    /// Where the counter of an edge is, if the edge is counted.
    pub(super) fn counter(&self, at: usize, way: Way) -> Option<i32> {
        let defined = self.index - self.info.imported.functions;
        self.counting.counter(defined as usize, self.layout, at, way)
    }

    /// Counts that an activation enters the loop at `at` from another variant, or leaves it for
    /// one.
    pub(super) fn count_osr(&mut self, at: usize, comes: bool) {
        let defined = self.index - self.info.imported.functions;
        if let Some(counter) = self.counting.osr_exit(defined as usize, self.layout, at, comes) {
            self.add_to_counter(counter);
        }
    }

    /// Counts an iteration of the loop that begins here, if its first block is counted.
    pub(super) fn count_turn(&mut self) {
        let defined = (self.index - self.info.imported.functions) as usize;
        if let Some(counter) = self.counting.turn(defined, self.layout, self.offset) {
            self.add_to_counter(counter);
        }
    }

    /// Counts an edge that leaves the present instruction.
    pub(super) fn count(&mut self, way: Way) {
        self.count_at(self.offset, way);
    }

    /// Counts an edge that leaves the instruction at `at`.
    pub(super) fn count_at(&mut self, at: usize, way: Way) {
        if let Some(counter) = self.counter(at, way) {
            self.add_to_counter(counter);
        }
    }

    pub(super) fn add_to_counter(&mut self, counter: i32) {
        // No other code accesses the counter: the store invalidates no values that were loaded
        // before.
        let flags = MemFlagsData::trusted().with_alias_region(Some(self.regions.counters));
        let count = self.builder.ins().load(types::I64, flags, self.vmctx, counter);
        let count = self.builder.ins().iadd_imm_s(count, 1);
        self.builder.ins().store(flags, count, self.vmctx, counter);
    }
}
