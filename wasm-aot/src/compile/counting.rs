//! Counters on edges.
//!
//! A counter is a word of the vmctx, which only one thread at a time executes with: adding to it is one instruction, and asks for no register.

use super::function::Translator;
use crate::error::CompileError;
use crate::flow::{Graph, Places, Way};
use crate::module::Body;
use crate::trap::{Access, Trap};
use crate::vm::Layout;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, TrapCode, types};
use rayon::prelude::*;

/// The most counters of a module: their offsets in the vmctx have 32 bits.
const COUNTERS: u64 = 1 << 26;

/// Which edges of a module are counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    functions: Vec<Places>,
    /// The first counter of each function, and how many there are altogether.
    first: Vec<u32>,
}

impl Counting {
    /// Chooses counters for all functions.
    pub(super) fn of(bodies: &[Body<'_>]) -> Result<Self, CompileError> {
        let functions: Vec<Places> = bodies
            .par_iter()
            .map(|body| Graph::of(&body.body).map_or_else(Places::default, |graph| Places::of(&graph)))
            .collect();
        let mut first = vec![0];
        let mut total = 0u64;
        for places in &functions {
            total += u64::from(places.len());
            first.push(total as u32);
        }
        super::too_large(total as usize, COUNTERS as usize, "what is counted of the module")?;
        Ok(Self { functions, first })
    }

    /// How many counters there are.
    pub(crate) fn len(&self) -> u32 {
        self.first.last().copied().unwrap_or_default()
    }

    /// Where the counter of an edge is in the vmctx, if the edge is counted.
    fn counter(&self, defined: usize, layout: &Layout, at: usize, way: Way) -> Option<i32> {
        let counter = self.functions.get(defined)?.counter(at as u32, way)?;
        Some(layout.counter(self.first[defined] + counter))
    }
}

impl Translator<'_> {
    /// What the table of traps says of an access of the present instruction. Who counts has to know which one it was.
    pub(super) fn access_code(&self, stores: bool) -> TrapCode {
        match self.target.options.counts {
            true => Access::at(self.offset, stores).code(),
            false => Trap::MemoryOutOfBounds.code(),
        }
    }

    /// Where the counter of an edge is, if the edge is counted.
    pub(super) fn counter(&self, at: usize, way: Way) -> Option<i32> {
        let defined = self.index - self.info.imported.functions;
        self.counting.counter(defined as usize, self.layout, at, way)
    }

    /// Counts an edge that the present instruction goes.
    pub(super) fn count(&mut self, way: Way) {
        self.count_at(self.offset, way);
    }

    /// Counts an edge that the instruction at `at` goes.
    pub(super) fn count_at(&mut self, at: usize, way: Way) {
        if let Some(counter) = self.counter(at, way) {
            self.add_to_counter(counter);
        }
    }

    pub(super) fn add_to_counter(&mut self, counter: i32) {
        // Nothing else ever touches it: nothing is kept from being remembered by the store.
        let flags = MemFlagsData::trusted().with_alias_region(Some(self.regions.counters));
        let count = self.builder.ins().load(types::I64, flags, self.vmctx, counter);
        let count = self.builder.ins().iadd_imm_s(count, 1);
        self.builder.ins().store(flags, count, self.vmctx, counter);
    }
}
