//! Execution counts of everything in a module, by all its instances, derived from edge counters.

use super::code::Code;
use super::module::ModuleInner;
use super::source::Sources;
use super::spelling;
use super::targets::Targets;
use super::tasks::{self, WaitingFrames};
use crate::module::Space;
use crate::trap::Access;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use wasm_aot_body::{self as flow, ExitPlace, Flow, Graph, Way, Ways};
use wasmparser::{BinaryReader, FunctionBody, Operator};

/// How often everything of a module was executed. Counts are exact to the instruction, also where a
/// trap, an exception or the program's exit has left a block in its middle: an instruction counts
/// when it begins.
#[derive(Debug)]
pub struct Counts {
    module: Arc<ModuleInner>,
    functions: Vec<(Graph, Flow)>,
    /// The number of each function's first call through a table or a reference, and the targets of
    /// all such calls.
    first_calls: Vec<u32>,
    targets: Targets,
}

/// The counts of one function.
pub struct FunctionCounts<'a> {
    module: &'a ModuleInner,
    index: u32,
    graph: &'a Graph,
    flow: &'a Flow,
    first_call: u32,
    targets: &'a Targets,
    sources: Rc<RefCell<Sources<'a>>>,
}

/// An instruction, and how often it was executed.
#[derive(Clone, Debug)]
pub struct InstructionCount<'a> {
    /// Where it is, from the beginning of the function's body.
    pub offset: u32,
    /// What it is.
    pub operator: Operator<'a>,
    /// What it is called.
    pub mnemonic: &'static str,
    /// How often it was begun.
    pub count: u64,
}

impl InstructionCount<'_> {
    /// As the text format spells it, with the immediates that one line has room for.
    pub fn text(&self) -> String {
        format!("{}{}", self.mnemonic, spelling::immediates(&self.operator))
    }
}

/// A branch, and how often each of its ways was taken.
#[derive(Clone, Debug)]
pub struct BranchCount<'a> {
    /// Where it is, from the beginning of the function's body.
    pub offset: u32,
    /// What it is.
    pub operator: Operator<'a>,
    /// What it is called.
    pub mnemonic: &'static str,
    /// Of a condition: how often it was false, how often it was true. Of a table: the entries in
    /// order, the default last; of a table of more than a thousand entries, the labels in order.
    pub ways: Vec<u64>,
}

impl BranchCount<'_> {
    /// How often it was executed.
    pub fn count(&self) -> u64 {
        self.ways.iter().sum()
    }

    /// As the text format spells it, with the immediates that one line has room for.
    pub fn text(&self) -> String {
        format!("{}{}", self.mnemonic, spelling::immediates(&self.operator))
    }
}

/// A call, its target, and how often it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// Where it is, from the beginning of the function's body.
    pub offset: u32,
    /// Whether it is `direct`, calls an import (`imported`), or is `indirect`.
    pub kind: &'static str,
    /// The function that was called.
    pub callee: String,
    /// Its index, if it is one of the module's.
    pub callee_index: Option<u32>,
    /// How often.
    pub count: u64,
}

/// A loop, and how often it was entered and repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopCount {
    /// Where it is, from the beginning of the function's body.
    pub offset: u32,
    /// How often control reached its beginning.
    pub iterations: u64,
    /// How often control reached it from outside.
    pub entries: u64,
}

/// An edge from one block to another, and how often it was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeCount {
    /// Where the block begins that it leaves, from the beginning of the function's body; none if it
    /// starts outside.
    pub from: Option<u32>,
    /// Where the block begins that it leads to; none if it leads outside.
    pub to: Option<u32>,
    /// The kind of edge.
    pub way: &'static str,
    /// How often it was executed.
    pub count: u64,
}

/// A sequence of instructions that are executed together, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCount {
    /// Where it is, from the beginning of the function's body.
    pub range: Range<u32>,
    /// How often it was entered.
    pub count: u64,
}

/// Where a frame is in the middle of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FramePlace {
    /// Inside of a machine instruction.
    Machine(usize),
    /// At an instruction of a function, by the function's place among the defined ones.
    Wasm { defined: usize, place: ExitPlace },
}

/// The values of the counters at a moment, summed over all instances; also how many frames left
/// blocks in their middle. In a difference of two readings, the latter may be negative: a frame
/// that waited in a block at the earlier reading was counted as having left it, and then continued.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub(super) counters: Vec<u64>,
    /// The counters of detours, by their words.
    pub(super) detours: BTreeMap<u32, u64>,
    pub(super) partial_exits: HashMap<FramePlace, i64>,
    /// The targets of calls.
    pub(super) targets: Targets,
}

impl Reading {
    /// The same when frames have left at these places, too.
    pub(super) fn with_partial_exits(mut self, places: impl Iterator<Item = FramePlace>) -> Self {
        places.for_each(|place| *self.partial_exits.entry(place).or_default() += 1);
        self
    }

    /// What was counted since an earlier reading.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        let counters = self.counters.iter_mut().zip(&earlier.counters);
        counters.for_each(|(count, earlier)| *count = count.saturating_sub(*earlier));
        for (word, count) in &mut self.detours {
            *count = count.saturating_sub(earlier.detours.get(word).copied().unwrap_or_default());
        }
        for (place, earlier) in &earlier.partial_exits {
            *self.partial_exits.entry(*place).or_default() -= earlier;
        }
        self.targets.subtract(&earlier.targets);
        self
    }

    /// The sum of two readings.
    pub(crate) fn and(mut self, more: &Self) -> Self {
        self.counters.resize(self.counters.len().max(more.counters.len()), 0);
        self.counters.iter_mut().zip(&more.counters).for_each(|(count, more)| *count += more);
        more.detours
            .iter()
            .for_each(|(word, more)| *self.detours.entry(*word).or_default() += more);
        more.partial_exits
            .iter()
            .for_each(|(place, more)| *self.partial_exits.entry(*place).or_default() += more);
        self.targets.join(&more.targets);
        self
    }
}

impl Counts {
    /// Derives all counts from a reading of the counters.
    pub(crate) fn new(module: &Arc<ModuleInner>, reading: &Reading) -> Self {
        let partial_exits = module.partial_exits_by_function(&reading.partial_exits);
        let mut rest = &reading.counters[..];
        let none = flow::PartialExits::default();
        let detours = module.detours.read().clone();
        let (mut first_calls, mut calls) = (Vec::new(), 0);
        let functions = module.info.bodies.iter().enumerate().map(|(defined, range)| {
            let index = module.info.imported.functions + defined as u32;
            let counted = detours.counted(module.code.plan(), index, &body(module, range));
            let (own, others) = rest.split_at(counted.own as usize);
            rest = others;
            let of_detour = |word| reading.detours.get(word).copied().unwrap_or_default();
            let counters: Vec<u64> =
                own.iter().copied().chain(counted.words.iter().map(of_detour)).collect();
            first_calls.push(calls);
            calls += counted.calls.len() as u32;
            let graph = Graph { calls: counted.calls, ..counted.graph };
            let partial_exits = partial_exits.get(&defined).unwrap_or(&none);
            let flow = flow::solve(&graph, &counted.placement, &counters, partial_exits);
            (graph, flow)
        });
        let functions: Vec<(Graph, Flow)> = functions.collect();
        Self {
            first_calls,
            functions,
            module: Arc::clone(module),
            targets: reading.targets.clone(),
        }
    }
}

impl ModuleInner {
    /// How often frames of each defined function were unwound, and at which instructions.
    fn partial_exits_by_function(
        &self,
        all: &HashMap<FramePlace, i64>,
    ) -> HashMap<usize, flow::PartialExits> {
        let mut partial_exits = HashMap::<usize, flow::PartialExits>::new();
        for (place, count) in all.iter().filter(|(_, count)| **count != 0) {
            let instruction = match *place {
                FramePlace::Wasm { defined, place } => Some((defined, place)),
                FramePlace::Machine(pc) => self
                    .code_at(pc)
                    .and_then(|code| self.instruction_at(code, (pc - code.base()) as u32))
                    .map(|(defined, at)| (defined, ExitPlace::within(at))),
            };
            if let Some((function, place)) = instruction {
                *partial_exits.entry(function).or_default().entry(place).or_default() += count;
            }
        }
        partial_exits
    }

    /// Where frames of its counting code wait for this thread: as recorded by the task that the
    /// thread executes, or at these addresses if it executes none.
    pub(super) fn waiting_frames(&self, otherwise: &[usize]) -> Vec<FramePlace> {
        let (waiting, safepoint) = match tasks::waiting_frames() {
            Some(WaitingFrames { addresses, safepoint }) => (addresses, safepoint),
            None => (otherwise.to_vec(), None),
        };
        let own = waiting.into_iter().filter(|pc| self.notes_exits_at(*pc));
        let at_safepoint = safepoint.filter(|safepoint| safepoint.counts_in(self));
        let at_safepoint = at_safepoint.map(|safepoint| FramePlace::Wasm {
            defined: safepoint.defined,
            place: ExitPlace::within(safepoint.at),
        });
        own.map(FramePlace::Machine).chain(at_safepoint).collect()
    }

    /// The places in functions, by their indices, at which frames were unwound, or wait.
    pub fn exited(&self, waiting: &[usize]) -> HashMap<u32, BTreeSet<ExitPlace>> {
        let first = self.info.imported.functions;
        let mut all = self.partial_exits.all();
        all.extend(self.waiting_frames(waiting).into_iter().map(|place| (place, 1)));
        let each = self.partial_exits_by_function(&all).into_iter();
        each.map(|(function, at)| (first + function as u32, at.into_keys().collect())).collect()
    }

    /// The defined function and the Wasm instruction that were left by the machine instruction at
    /// `offset`.
    pub(super) fn instruction_at(&self, code: &Code, offset: u32) -> Option<(usize, u32)> {
        let function = code.function_at(offset)?;
        let at = code.wasm_offset(offset)?;
        let Some(access) = code.trap_number_at(offset).and_then(Access::from_raw) else {
            return Some((function, at));
        };
        let accesses =
            accesses(self, function).into_iter().filter(|place| access.may_be_at(*place));
        Some((function, accesses.min_by_key(|place| place.abs_diff(at))?))
    }
}

impl ModuleInner {
    /// The body of a defined function.
    pub(super) fn body(&self, defined: usize) -> FunctionBody<'_> {
        body(self, &self.info.bodies[defined])
    }
}

/// The places of a function's accesses to memory.
fn accesses(module: &ModuleInner, defined: usize) -> Vec<u32> {
    let mut accesses = Vec::new();
    let Ok(mut reader) = body(module, &module.info.bodies[defined]).get_operators_reader() else {
        return accesses;
    };
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
        let sources = Rc::new(RefCell::new(Sources::default()));
        self.functions.iter().enumerate().map(move |(defined, (graph, flow))| FunctionCounts {
            module: &self.module,
            index: imported + defined as u32,
            graph,
            flow,
            first_call: self.first_calls[defined],
            targets: &self.targets,
            sources: Rc::clone(&sources),
        })
    }

    /// The name of a global that is imported or exported.
    pub fn global_name(&self, index: u32) -> String {
        let info = &self.module.info;
        let import = info
            .imports
            .iter()
            .find(|import| import.space == Space::Global && import.index == index);
        let export = info
            .exports
            .iter()
            .find(|export| export.space == Space::Global && export.index == index);
        match (import, export) {
            (Some(import), _) => format!("{}.{}", import.module, import.name),
            (None, Some(export)) => export.name.clone(),
            (None, None) => String::new(),
        }
    }
}

/// How often one of an instruction's ways was taken.
fn count_of(ways: Option<&Vec<(Way, u64)>>, way: Way) -> u64 {
    ways.into_iter().flatten().find(|(other, _)| *other == way).map_or(0, |(_, count)| *count)
}

impl std::fmt::Debug for FunctionCounts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionCounts").field("index", &self.index).finish_non_exhaustive()
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
        // The edge into a function is its graph's first one.
        self.flow.edges.first().copied().unwrap_or_default()
    }

    /// Its name as people read it, or its number.
    pub fn label(&self) -> String {
        self.module.label(self.index)
    }

    /// Where its body begins in the module: offsets of instructions are counted from there.
    pub fn start(&self) -> u32 {
        self.module.info.body(self.index).start
    }

    /// File and line of the instruction at `offset`, if the module has debug information.
    pub fn source(&self, offset: u32) -> Option<String> {
        let (file, line) =
            self.sources.borrow_mut().line(self.module, self.range().start + offset)?;
        Some(format!("{file}:{line}"))
    }

    /// Every call that was made, by place and target.
    pub fn calls_made(&self) -> Vec<CallCount> {
        let start = self.range().start;
        let mut made = Vec::new();
        for instruction in
            self.instructions().into_iter().filter(|instruction| instruction.count > 0)
        {
            let place = |kind, callee, callee_index, count| CallCount {
                offset: instruction.offset,
                kind,
                callee,
                callee_index,
                count,
            };
            match instruction.operator {
                Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                    let is_imported = function_index < self.module.info.imported.functions;
                    let kind = if is_imported { "imported" } else { "direct" };
                    let name = self.module.label(function_index);
                    made.push(place(kind, name, Some(function_index), instruction.count));
                }
                _ => {
                    let Ok(number) = self.graph.calls.binary_search(&(instruction.offset + start))
                    else {
                        continue;
                    };
                    let went = self.targets.of(self.module, self.first_call + number as u32);
                    if !self.targets.are_told() {
                        made.push(place("indirect", "(not told)".into(), None, instruction.count));
                    }
                    made.extend(
                        went.into_iter()
                            .map(|(callee, index, count)| place("indirect", callee, index, count)),
                    );
                }
            }
        }
        made
    }

    /// Every loop, in order.
    pub fn loops(&self) -> Vec<LoopCount> {
        let (start, gone) = (self.range().start, self.ways());
        let each = |instruction: InstructionCount<'_>| {
            matches!(instruction.operator, Operator::Loop { .. }).then(|| {
                let gone = gone.get(&(instruction.offset + start));
                // A replacement reaches the loop, and does not enter it.
                let around = count_of(gone, Way::Around);
                LoopCount {
                    offset: instruction.offset,
                    iterations: instruction.count.saturating_sub(around),
                    entries: count_of(gone, Way::Next).saturating_sub(around),
                }
            })
        };
        self.instructions().into_iter().filter_map(each).collect()
    }

    /// Every edge between blocks, in the order of the code.
    pub fn edges(&self) -> Vec<EdgeCount> {
        let start = self.range().start;
        let place =
            |block: u32| (block != 0).then(|| self.graph.blocks[block as usize].start - start);
        let passed_by = self.passed_by();
        let each = |(edge, count): (&flow::Edge, &u64)| {
            (!passed_by.contains_key(&edge.from)).then(|| EdgeCount {
                from: place(edge.from),
                to: place(passed_by.get(&edge.to).copied().unwrap_or(edge.to)),
                way: edge.way.name(),
                count: *count,
            })
        };
        self.graph.edges.iter().zip(&self.flow.edges).filter_map(each).collect()
    }

    /// Blocks without instructions, which have no place, and where control continues after them.
    fn passed_by(&self) -> HashMap<u32, u32> {
        let mut ways = HashMap::<u32, Vec<u32>>::new();
        for edge in self
            .graph
            .edges
            .iter()
            .filter(|edge| edge.from != 0 && self.is_empty(edge.from as usize))
        {
            ways.entry(edge.from).or_default().push(edge.to);
        }
        let mut next: HashMap<u32, u32> = ways
            .into_iter()
            .filter(|(from, to)| to.len() == 1 && to[0] != *from)
            .map(|(from, to)| (from, to[0]))
            .collect();
        let blocks: Vec<u32> = next.keys().copied().collect();
        for block in blocks {
            let (mut passed, mut at) = (vec![block], next[&block]);
            // Such blocks may form a cycle.
            while let Some(further) = next.get(&at).copied().filter(|_| passed.len() <= next.len())
            {
                passed.push(at);
                at = further;
            }
            // The targets of the blocks on the way are known from now on.
            next.extend(passed.into_iter().map(|block| (block, at)));
        }
        next
    }

    fn range(&self) -> Range<u32> {
        self.module.info.bodies[(self.index - self.module.info.imported.functions) as usize].clone()
    }

    /// How often each way of each instruction that leaves its block was taken; a table's ways in
    /// their order.
    fn ways(&self) -> HashMap<u32, Vec<(Way, u64)>> {
        let mut ways: HashMap<u32, Vec<(Way, u64)>> = HashMap::new();
        for (edge, count) in self.graph.edges.iter().zip(&self.flow.edges) {
            ways.entry(edge.at).or_default().push((edge.way, *count));
        }
        ways
    }

    /// Every instruction, in order; unreachable ones have the count 0.
    pub fn instructions(&self) -> Vec<InstructionCount<'a>> {
        let range = self.range();
        let mut blocks: Vec<usize> =
            (1..self.graph.blocks.len()).filter(|block| !self.is_empty(*block)).collect();
        blocks.sort_by_key(|block| self.graph.blocks[*block].start);
        let mut blocks = blocks.into_iter().peekable();
        let mut current = None;
        let mut instructions = Vec::new();
        let Ok(mut reader) = body(self.module, &range).get_operators_reader() else {
            return instructions;
        };
        while let Ok((operator, at)) = reader.read_with_offset() {
            let at = at as u32;
            while let Some(block) = blocks.next_if(|block| self.graph.blocks[*block].start <= at) {
                current = Some(block);
            }
            let count = match current {
                Some(block) if at < self.graph.blocks[block].end => {
                    self.flow.executed(self.graph, block, at)
                }
                _ => 0,
            };
            let mnemonic = spelling::mnemonic(&self.module.bytes[at as usize..]);
            instructions.push(InstructionCount {
                offset: at - range.start,
                operator,
                mnemonic,
                count,
            });
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
        let (start, gone) = (self.range().start, self.ways());
        let ways = |instruction: &InstructionCount<'a>| {
            let gone = gone.get(&(instruction.offset + start));
            Some(match &instruction.operator {
                Operator::BrTable { targets } => {
                    let mut ways: Vec<u64> =
                        gone.into_iter().flatten().map(|(_, count)| *count).collect();
                    if Ways::of(targets) == Ways::ByEntry {
                        // A table that is never reached has no ways.
                        ways.resize(targets.len() as usize + 1, 0);
                    }
                    ways
                }
                // The label of an `if` is its other side: control continues after the `if` where
                // the condition is true.
                Operator::If { .. } => {
                    [Way::Taken, Way::Next].map(|way| count_of(gone, way)).into()
                }
                Operator::BrIf { .. }
                | Operator::BrOnNull { .. }
                | Operator::BrOnNonNull { .. }
                | Operator::BrOnCast { .. }
                | Operator::BrOnCastFail { .. } => {
                    [Way::Next, Way::Taken].map(|way| count_of(gone, way)).into()
                }
                _ => return None,
            })
        };
        let each = |instruction: InstructionCount<'a>| {
            let ways = ways(&instruction)?;
            Some(BranchCount {
                offset: instruction.offset,
                operator: instruction.operator,
                mnemonic: instruction.mnemonic,
                ways,
            })
        };
        self.instructions().into_iter().filter_map(each).collect()
    }

    /// Every block, in the order of the code.
    pub fn blocks(&self) -> Vec<BlockCount> {
        let start = self.range().start;
        let each = |block: usize| {
            let range = self.graph.blocks[block];
            BlockCount {
                range: range.start - start..range.end - start,
                count: self.flow.blocks[block],
            }
        };
        let mut blocks: Vec<_> =
            (1..self.graph.blocks.len()).filter(|block| !self.is_empty(*block)).map(each).collect();
        blocks.sort_by_key(|block| block.range.start);
        blocks
    }
}
