//! How often everything of a module was executed, by all its instances in a store.

use super::module::{Module, ModuleInner};
use super::store::AsContextMut;
use crate::flow::{self, Flow, Graph, Way, Ways};
use crate::trap::Access;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wasmparser::{BinaryReader, FunctionBody, Operator};

/// How often everything of a module was executed. Counts are exact to the instruction, also where a trap, an exception or the program's exit has
/// left a block in its middle: an instruction counts when it begins.
#[derive(Debug)]
pub struct Counts {
    module: Arc<ModuleInner>,
    functions: Vec<(Graph, Flow)>,
}

/// The counts of one function.
#[derive(Debug)]
pub struct FunctionCounts<'a> {
    module: &'a ModuleInner,
    index: u32,
    graph: &'a Graph,
    flow: &'a Flow,
}

/// An instruction, and how often it was executed.
#[derive(Clone, Debug)]
pub struct InstructionCount<'a> {
    /// Where it is, from the beginning of the function's body.
    pub offset: u32,
    /// What it is.
    pub operator: Operator<'a>,
    /// How often it was begun.
    pub count: u64,
}

/// A branch, and how often each of its ways was gone.
#[derive(Clone, Debug)]
pub struct BranchCount<'a> {
    /// Where it is, from the beginning of the function's body.
    pub offset: u32,
    /// What it is.
    pub operator: Operator<'a>,
    /// Of a condition: how often it was false, how often it was true. Of a table: the entries in order, the default last; of a table of more than a
    /// thousand entries, the labels in order.
    pub ways: Vec<u64>,
}

/// A row of instructions that are executed together, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCount {
    /// Where it is, from the beginning of the function's body.
    pub range: Range<u32>,
    /// How often it was entered.
    pub count: u64,
}

impl Module {
    /// How often everything was executed by the module's instances in `store`; nothing if the engine's code does not
    /// count, see [`Config::counts`](crate::Config::counts).
    pub fn counts(&self, mut store: impl AsContextMut) -> Option<Counts> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let module = &self.inner;
        if !module.options.counts {
            return None;
        }
        let mut counters = vec![0u64; module.counters as usize];
        for instance in core.instances.iter().filter(|instance| Arc::ptr_eq(&instance.module, module)) {
            counters.iter_mut().zip(instance.counters()).for_each(|(sum, counter)| *sum += counter);
        }
        let mut departures = HashMap::<usize, flow::Departures>::new();
        for (pc, count) in core.departures.within(module.code.range()) {
            if let Some((function, at)) = module.instruction_at((pc - module.code.base()) as u32) {
                *departures.entry(function).or_default().entry(at).or_default() += count;
            }
        }
        let mut rest = &counters[..];
        let none = flow::Departures::default();
        let functions = module.info.bodies.iter().enumerate().map(|(defined, range)| {
            let graph = Graph::of(&body(module, range)).unwrap_or_default();
            let (own, others) = rest.split_at(flow::Places::of(&graph).len() as usize);
            rest = others;
            let flow = flow::solve(&graph, own, departures.get(&defined).unwrap_or(&none));
            (graph, flow)
        });
        Some(Counts { functions: functions.collect(), module: Arc::clone(module) })
    }
}

impl ModuleInner {
    /// The defined function and the Wasm instruction that were left by the machine instruction at `offset`.
    fn instruction_at(&self, offset: u32) -> Option<(usize, u32)> {
        let function = self.code.function_at(offset)?;
        let at = self.code.wasm_offset(offset)?;
        let Some(access) = self.code.trap_number_at(offset).and_then(Access::from_raw) else { return Some((function, at)) };
        let accesses = accesses(self, function).into_iter().filter(|place| access.may_be_at(*place));
        Some((function, accesses.min_by_key(|place| place.abs_diff(at))?))
    }
}

/// Where a function's accesses to memory are.
fn accesses(module: &ModuleInner, defined: usize) -> Vec<u32> {
    let mut accesses = Vec::new();
    let Ok(mut reader) = body(module, &module.info.bodies[defined]).get_operators_reader() else { return accesses };
    while !reader.eof() {
        let Ok((operator, at)) = reader.read_with_offset() else { break };
        if format!("{operator:?}").contains("MemArg") {
            accesses.push(at as u32);
        }
    }
    accesses
}

fn body<'a>(module: &'a ModuleInner, range: &Range<u32>) -> FunctionBody<'a> {
    let bytes = &module.bytes[range.start as usize..range.end as usize];
    let mut reader = BinaryReader::new(bytes, range.start.into());
    reader.set_features(wasmparser::WasmFeatures::all());
    FunctionBody::new(reader)
}

impl Counts {
    /// Each function that the module defines.
    pub fn functions(&self) -> impl Iterator<Item = FunctionCounts<'_>> {
        let imported = self.module.info.imported.functions;
        self.functions.iter().enumerate().map(move |(defined, (graph, flow))| FunctionCounts {
            module: &self.module,
            index: imported + defined as u32,
            graph,
            flow,
        })
    }
}

impl<'a> FunctionCounts<'a> {
    /// Its index in the module.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&'a str> {
        self.module.info.function_name(self.index)
    }

    /// How often it was called.
    pub fn calls(&self) -> u64 {
        self.edge(0, Way::Entry)
    }

    fn range(&self) -> Range<u32> {
        self.module.info.bodies[(self.index - self.module.info.imported.functions) as usize].clone()
    }

    fn edge(&self, at: u32, way: Way) -> u64 {
        let edges = self.graph.edges.iter().zip(&self.flow.edges);
        edges.filter(|(edge, _)| edge.at == at && edge.way == way).map(|(_, count)| count).sum()
    }

    /// Every instruction, in order; what can never be reached has the count 0.
    pub fn instructions(&self) -> Vec<InstructionCount<'a>> {
        let range = self.range();
        let mut blocks: Vec<usize> = (1..self.graph.blocks.len()).filter(|block| !self.is_empty(*block)).collect();
        blocks.sort_by_key(|block| self.graph.blocks[*block].start);
        let mut blocks = blocks.into_iter().peekable();
        let mut current = None;
        let mut instructions = Vec::new();
        let Ok(mut reader) = body(self.module, &range).get_operators_reader() else { return instructions };
        while let Ok((operator, at)) = reader.read_with_offset() {
            let at = at as u32;
            while let Some(block) = blocks.next_if(|block| self.graph.blocks[*block].start <= at) {
                current = Some(block);
            }
            let count = match current {
                Some(block) if at < self.graph.blocks[block].end => self.flow.executed(self.graph, block, at),
                _ => 0,
            };
            instructions.push(InstructionCount { offset: at - range.start, operator, count });
            if reader.eof() {
                break;
            }
        }
        instructions
    }

    fn is_empty(&self, block: usize) -> bool {
        let block = self.graph.blocks[block];
        block.start >= block.end
    }

    /// Every branch that has a choice, in order.
    pub fn branches(&self) -> Vec<BranchCount<'a>> {
        let start = self.range().start;
        let ways = |instruction: &InstructionCount<'a>| {
            let at = instruction.offset + start;
            Some(match &instruction.operator {
                Operator::BrTable { targets } if Ways::of(targets) == Ways::ByEntry => {
                    (0..=targets.len()).map(|entry| self.edge(at, Way::Case(entry))).collect()
                }
                Operator::BrTable { .. } => {
                    let edges = self.graph.edges.iter().zip(&self.flow.edges);
                    edges.filter(|(edge, _)| edge.at == at).map(|(_, count)| *count).collect()
                }
                // A condition's label is its other side: it goes on behind itself where it is true.
                Operator::If { .. } => vec![self.edge(at, Way::Taken), self.edge(at, Way::Next)],
                Operator::BrIf { .. }
                | Operator::BrOnNull { .. }
                | Operator::BrOnNonNull { .. }
                | Operator::BrOnCast { .. }
                | Operator::BrOnCastFail { .. } => vec![self.edge(at, Way::Next), self.edge(at, Way::Taken)],
                _ => return None,
            })
        };
        let each = |instruction: InstructionCount<'a>| {
            let ways = ways(&instruction)?;
            Some(BranchCount { offset: instruction.offset, operator: instruction.operator, ways })
        };
        self.instructions().into_iter().filter_map(each).collect()
    }

    /// Every block, in the order of the code.
    pub fn blocks(&self) -> Vec<BlockCount> {
        let start = self.range().start;
        let each = |block: usize| {
            let range = self.graph.blocks[block];
            BlockCount { range: range.start - start..range.end - start, count: self.flow.blocks[block] }
        };
        let mut blocks: Vec<_> = (1..self.graph.blocks.len()).filter(|block| !self.is_empty(*block)).map(each).collect();
        blocks.sort_by_key(|block| block.range.start);
        blocks
    }
}
