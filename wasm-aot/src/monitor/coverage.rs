//! `coverage`: which instructions and blocks were executed.
//!
//! The last instruction of each block sets the block's mark, a byte of the instance, when it begins: then all of the block has been executed. Who leaves a
//! block in its middle is noted by whoever takes the frame away. So marks say all there is to say, to the instruction.
//!
//! A mark that is set has nothing more to tell. It is taken out of functions that are executed often, and what is covered runs as if nobody looked.

use super::hooked::{Hooked, fingerprint};
use super::outline::Outline;
use super::{Cell, Choice, MonitorError, Report};
use crate::compile::{Action, Draft, Emitter, Firing, HookId, Inline, Moment, Receiver, Room, Sequence, Word};
use crate::error::CompileError;
use crate::flow::{Block, Graph};
use crate::runtime::{Module, Origin, Places, Spent};
use cranelift_codegen::ir::{InstBuilder, types};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};

/// How many marks a word has.
const MARKS: u32 = 8;

/// The monitor.
#[derive(Debug)]
pub(super) struct Coverage {
    choice: Choice,
    marked: OnceLock<Marked>,
    state: Mutex<State>,
}

/// Where marks are.
#[derive(Debug)]
struct Marked {
    words: Word,
    /// By their indices.
    functions: Vec<Function>,
}

#[derive(Debug)]
struct Function {
    index: u32,
    label: String,
    /// Where the body begins in the module.
    start: u32,
    /// Where instructions are.
    instructions: Vec<u32>,
    /// Blocks that are not empty, in order, and the hooks that set their marks; the first one's mark.
    blocks: Vec<(Block, HookId)>,
    first: u32,
}

#[derive(Debug, Default)]
struct State {
    rooms: Vec<Room>,
    /// The marks of instances that have ended.
    ended: Vec<u64>,
}

/// Makes the monitor.
pub(super) fn begin(choice: &Choice) -> Result<Arc<dyn Hooked>, MonitorError> {
    let (marked, state) = Default::default();
    Ok(Arc::new(Coverage { choice: choice.clone(), marked, state }))
}

impl Hooked for Coverage {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        draft.tell(Arc::<Self>::clone(&self));
        draft.note_departures();
        let mut functions: Vec<Function> = Vec::new();
        let mut first = 0;
        let graphs: Vec<Vec<Block>> = outline.chosen(&self.choice).map(|function| blocks(outline, function.index)).collect();
        let words = draft.words(graphs.iter().map(Vec::len).sum::<usize>().div_ceil(MARKS as usize) as u32);
        for (function, blocks) in outline.chosen(&self.choice).zip(graphs) {
            let instructions: Vec<u32> = function.instructions.iter().map(|instruction| instruction.at).collect();
            let set = |(number, block): (u32, Block)| {
                let last = instructions[instructions.partition_point(|at| *at < block.end) - 1];
                let mark = Mark { words, number: first + number };
                (block, draft.hook(function.index, last, Moment::Before, Action::Inline(Sequence(Arc::new(mark)))))
            };
            let blocks: Vec<(Block, HookId)> = (0..).zip(blocks).map(set).collect();
            let count = blocks.len() as u32;
            let start = outline.info.body(function.index).start;
            functions.push(Function { index: function.index, label: function.label.clone(), start, instructions, blocks, first });
            first += count;
        }
        // Planned once.
        let _ = self.marked.set(Marked { words, functions });
    }

    fn compiled(self: Arc<Self>, module: &Module, origin: Origin) {
        // Without a thread for it marks stay where they are: that takes time, and nothing else.
        let whose: Weak<dyn Spent> = Arc::<Self>::downgrade(&self);
        let _ = module.retire(origin, whose);
    }

    fn counting(&self) -> &'static [&'static str] {
        &["covered"]
    }

    fn report(&self, module: &Module) -> Report {
        let is_detailed = self.choice.has("missed");
        let columns: &[&str] = match is_detailed {
            true => &["function", "from", "to", "instructions", "source"],
            false => &["function", "instructions", "covered", "share", "blocks", "reached", "of blocks"],
        };
        let mut report = Report::new("coverage", columns);
        let Some(Marked { functions, .. }) = self.marked.get() else { return report };
        let (marks, places) = (self.marks(), Places::of(module));
        let departed = module.inner.departed();
        let none = BTreeSet::new();
        let mut sums = [0; 4];
        for function in functions {
            let departed = departed.get(&function.index).unwrap_or(&none);
            let (covered, reached) = function.covered(&marks, departed);
            let counts = [covered.iter().filter(|covered| **covered).count(), covered.len(), reached, function.blocks.len()];
            sums.iter_mut().zip(counts).for_each(|(sum, own)| *sum += own);
            match is_detailed {
                true => function.missed(&covered, &places, &mut report),
                false => report.row(function.row(counts)),
            }
        }
        let percent = |part: usize, whole: usize| if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
        let [covered, all, reached, blocks] = sums;
        report.notes.push(format!("instructions: {covered} of {all} ({:.1}%)", percent(covered, all)));
        report.notes.push(format!("blocks: {reached} of {blocks} ({:.1}%)", percent(reached, blocks)));
        report
    }
}

/// The blocks of a function that have instructions, in order.
fn blocks(outline: &Outline<'_>, function: u32) -> Vec<Block> {
    let range = outline.info.body(function);
    let bytes = &outline.bytes[range.start as usize..range.end as usize];
    let body = wasmparser::FunctionBody::new(wasmparser::BinaryReader::new(bytes, range.start.into()));
    let graph = Graph::of(&body).unwrap_or_default();
    let mut blocks: Vec<Block> = graph.blocks.into_iter().skip(1).filter(|block| block.start < block.end).collect();
    blocks.sort_unstable_by_key(|block| block.start);
    blocks
}

impl Function {
    /// Which instructions were executed, and how many blocks were reached.
    fn covered(&self, marks: &[u64], departed: &BTreeSet<u32>) -> (Vec<bool>, usize) {
        let mut covered = vec![false; self.instructions.len()];
        let mut reached = 0;
        for (number, (block, _)) in (self.first..).zip(&self.blocks) {
            let end = match is_set(marks, number) {
                true => Some(block.end),
                false => departed.range(block.start..block.end).next_back().map(|last| last + 1),
            };
            let Some(end) = end else { continue };
            reached += 1;
            let place = |at: u32| self.instructions.partition_point(|other| *other < at);
            covered[place(block.start)..place(end)].fill(true);
        }
        (covered, reached)
    }

    fn row(&self, [covered, all, reached, blocks]: [usize; 4]) -> [Cell; 7] {
        let share = |part: usize, whole: usize| Cell::share(part as u64, whole as u64);
        let label = self.label.clone().into();
        [label, all.into(), covered.into(), share(covered, all), blocks.into(), reached.into(), share(reached, blocks)]
    }

    /// Where what was not executed begins and ends.
    fn missed(&self, covered: &[bool], places: &Places<'_>, report: &mut Report) {
        let mut at = 0;
        for gap in covered.chunk_by(|a, b| a == b) {
            let own = &self.instructions[at..at + gap.len()];
            at += gap.len();
            if gap[0] {
                continue;
            }
            let place = |at: u32| Cell::from(format!("+{}", at - self.start));
            let source = places.source(own[0]).unwrap_or_default();
            report.row([self.label.clone().into(), place(own[0]), place(own[own.len() - 1]), own.len().into(), source.into()]);
        }
    }
}

fn is_set(marks: &[u64], number: u32) -> bool {
    marks[(number / MARKS) as usize].to_le_bytes()[(number % MARKS) as usize] != 0
}

impl Coverage {
    /// The marks that any instance has set.
    fn marks(&self) -> Vec<u64> {
        let state = self.state.lock();
        let mut marks = state.ended.clone();
        state.rooms.iter().for_each(|room| self.add(&mut marks, *room));
        marks
    }

    fn add(&self, marks: &mut Vec<u64>, room: Room) {
        let Some(Marked { words, functions }) = self.marked.get() else { return };
        let all = functions.last().map_or(0, |last| last.first + last.blocks.len() as u32);
        marks.resize(all.div_ceil(MARKS) as usize, 0);
        for (number, sum) in (0..).zip(marks) {
            *sum |= room.word(words.plus(number)).load(Relaxed);
        }
    }
}

impl Receiver for Coverage {
    fn fire(&self, _firing: &mut Firing<'_>) {}

    fn begin(&self, room: Room) {
        self.state.lock().rooms.push(room);
    }

    fn end(&self, room: Room) {
        let mut state = self.state.lock();
        let mut ended = std::mem::take(&mut state.ended);
        self.add(&mut ended, room);
        state.ended = ended;
        state.rooms.retain(|other| *other != room);
    }
}

impl Spent for Coverage {
    fn spent(&self, function: u32) -> Vec<HookId> {
        let Some(Marked { words, functions }) = self.marked.get() else { return Vec::new() };
        let Ok(place) = functions.binary_search_by_key(&function, |function| function.index) else { return Vec::new() };
        let state = self.state.lock();
        let is_set = |number: u32| {
            let word = words.plus(number / MARKS);
            let set = |room: &Room| room.word(word).load(Relaxed).to_le_bytes()[(number % MARKS) as usize] != 0;
            state.rooms.iter().any(set)
        };
        let Function { blocks, first, .. } = &functions[place];
        (*first..).zip(blocks).filter(|(number, _)| is_set(*number)).map(|(_, (_, hook))| *hook).collect()
    }
}

/// Sets a mark.
#[derive(Debug)]
struct Mark {
    words: Word,
    number: u32,
}

impl Inline for Mark {
    fn fingerprint(&self) -> u64 {
        fingerprint("coverage", &(self.words, self.number))
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let place = at.word(self.words.plus(self.number / MARKS)) + (self.number % MARKS) as i32;
        let (flags, vmctx) = (at.flags(), at.vmctx());
        let one = at.builder().ins().iconst(types::I8, 1);
        at.builder().ins().store(flags, one, vmctx, place);
        Ok(())
    }
}
