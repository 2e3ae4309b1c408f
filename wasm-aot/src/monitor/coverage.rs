//! `coverage`: which instructions and blocks were executed.
//!
//! When the last instruction of a block begins, all of the block has been executed. That is noted there, once: what is left of it is an instruction that
//! does nothing. Who leaves a block in its middle is noted by whoever takes the frame away. So notes say all there is to say, to the instruction.
//!
//! A block needs no note if all its ways lead to blocks that are come to from nowhere else: it was executed if any of them was reached. That is known at
//! once if nothing is called there.
//!
//! What was noted has nothing more to tell. Its places are taken out of functions that are executed often, and what is covered runs as if nobody looked.

use super::hooked::Hooked;
use super::outline::{self, Outline};
use super::{Cell, Choice, MonitorError, Report};
use crate::compile::{Action, Draft, HookId, Moment, Note, Noter};
use crate::flow::{Block, Graph};
use crate::runtime::{Module, ModuleInner, Origin, Places, Spent};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use wasmparser::Operator;

/// The monitor.
#[derive(Debug)]
pub(super) struct Coverage {
    choice: Choice,
    noter: Noter,
    /// By their indices.
    functions: OnceLock<Vec<Function>>,
    module: OnceLock<Weak<ModuleInner>>,
}

#[derive(Debug)]
struct Function {
    index: u32,
    label: String,
    /// Where the body begins in the module.
    start: u32,
    /// Where instructions are.
    instructions: Vec<u32>,
    /// Blocks that are not empty, in order, and what tells that they were executed; the first note, and how many there are.
    blocks: Vec<(Block, Sign)>,
    first: u32,
    notes: u32,
}

/// What tells that a block was executed.
#[derive(Debug)]
enum Sign {
    /// A note, by its number, and the hook that makes it.
    Note(u32, HookId),
    /// That one of these was reached, by their places among the blocks, which are behind its own.
    Followed(Vec<usize>),
}

/// Makes the monitor.
pub(super) fn begin(choice: &Choice) -> Result<Arc<dyn Hooked>, MonitorError> {
    let (functions, module) = Default::default();
    Ok(Arc::new(Coverage { choice: choice.clone(), noter: Noter::new(), functions, module }))
}

impl Hooked for Coverage {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        draft.note_departures();
        let mut functions: Vec<Function> = Vec::new();
        let mut first = 0;
        for function in outline.chosen(&self.choice) {
            let instructions: Vec<u32> = function.instructions.iter().map(|instruction| instruction.at).collect();
            let mut notes = 0;
            let sign = |(block, followers): (Block, Vec<usize>)| {
                if !followers.is_empty() {
                    return (block, Sign::Followed(followers));
                }
                let last = instructions[instructions.partition_point(|at| *at < block.end) - 1];
                let number = first + notes;
                notes += 1;
                let note = Action::Note(Note { noter: self.noter, number });
                (block, Sign::Note(number, draft.hook(function.index, last, Moment::Before, note)))
            };
            let blocks: Vec<(Block, Sign)> = blocks(outline, function).into_iter().map(sign).collect();
            let start = outline.info.body(function.index).start;
            let (index, label) = (function.index, function.label.clone());
            functions.push(Function { index, label, start, instructions, blocks, first, notes });
            first += notes;
        }
        // Planned once.
        let _ = self.functions.set(functions);
    }

    fn compiled(self: Arc<Self>, module: &Module, origin: Origin) {
        let _ = self.module.set(Arc::downgrade(&module.inner));
        // Without a thread for it sites stay where they are: that takes time, and nothing else.
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
        let Some(functions) = self.functions.get() else { return report };
        let (noted, places) = (self.noted(module, functions), Places::of(module));
        let departed = module.inner.departed();
        let none = BTreeSet::new();
        let mut sums = [0; 4];
        for function in functions {
            let departed = departed.get(&function.index).unwrap_or(&none);
            let (covered, reached) = function.covered(&noted, departed);
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

/// The blocks of a function that have instructions, in order; and where all ways lead that one has, if nobody else comes there.
fn blocks(outline: &Outline<'_>, function: &outline::Function<'_>) -> Vec<(Block, Vec<usize>)> {
    let range = outline.info.body(function.index);
    let bytes = &outline.bytes[range.start as usize..range.end as usize];
    let body = wasmparser::FunctionBody::new(wasmparser::BinaryReader::new(bytes, range.start.into()));
    let Graph { blocks: all, edges, loops, .. } = Graph::of(&body).unwrap_or_default();
    let is_there = |block: &Block| block.start < block.end;
    let mut order: Vec<usize> = (1..all.len()).filter(|block| is_there(&all[*block])).collect();
    order.sort_unstable_by_key(|block| all[*block].start);
    let mut places = vec![None; all.len()];
    (0..).zip(&order).for_each(|(place, block)| places[*block] = Some(place));
    let (mut ways, mut comes) = (vec![Vec::new(); all.len()], vec![0; all.len()]);
    for edge in &edges {
        ways[edge.from as usize].push(edge.to as usize);
        comes[edge.to as usize] += 1;
    }
    let calls: Vec<u32> = function.instructions.iter().filter(|instruction| calls(&instruction.op)).map(|call| call.at).collect();
    let waits = |block: Block| calls.partition_point(|at| *at < block.start) < calls.partition_point(|at| *at < block.end);
    // Loops are come to from other versions of the code, too.
    let follows = |from: usize, to: usize| {
        let place = places[to].filter(|place| Some(*place) > places[from])?;
        (comes[to] == 1 && loops.binary_search(&all[to].start).is_err() && !waits(all[to])).then_some(place)
    };
    let followers = |block: usize| ways[block].iter().map(|to| follows(block, *to)).collect::<Option<Vec<usize>>>();
    order.iter().map(|block| (all[*block], followers(*block).unwrap_or_default())).collect()
}

/// Whether it may take as long as the program likes.
fn calls(op: &Operator<'_>) -> bool {
    matches!(op, Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. })
}

impl Function {
    /// Which instructions were executed, and how many blocks were reached.
    fn covered(&self, noted: &[bool], departed: &BTreeSet<u32>) -> (Vec<bool>, usize) {
        let mut covered = vec![false; self.instructions.len()];
        let mut reached = vec![false; self.blocks.len()];
        // From behind: what follows is known first.
        for (at, (block, sign)) in self.blocks.iter().enumerate().rev() {
            let is_whole = match sign {
                Sign::Note(number, _) => noted[*number as usize],
                Sign::Followed(followers) => followers.iter().any(|follower| reached[*follower]),
            };
            let end = match is_whole {
                true => Some(block.end),
                false => departed.range(block.start..block.end).next_back().map(|last| last + 1),
            };
            let Some(end) = end else { continue };
            reached[at] = true;
            let place = |at: u32| self.instructions.partition_point(|other| *other < at);
            covered[place(block.start)..place(end)].fill(true);
        }
        (covered, reached.into_iter().filter(|reached| *reached).count())
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

impl Coverage {
    /// Which of all notes were made.
    fn noted(&self, module: &Module, functions: &[Function]) -> Vec<bool> {
        let all = functions.last().map_or(0, |last| last.first + last.notes);
        let mut noted = vec![false; all as usize];
        module.inner.noted(self.noter, None).for_each(|number| noted[number as usize] = true);
        noted
    }
}

impl Spent for Coverage {
    fn spent(&self, function: u32) -> Vec<HookId> {
        let (Some(functions), Some(module)) = (self.functions.get(), self.module.get().and_then(Weak::upgrade)) else {
            return Vec::new();
        };
        let Ok(place) = functions.binary_search_by_key(&function, |function| function.index) else { return Vec::new() };
        let defined = (function - module.info.imported.functions) as usize;
        let noted: BTreeSet<u32> = module.noted(self.noter, Some(defined)).collect();
        let spent = |(_, sign): &(Block, Sign)| match sign {
            Sign::Note(number, hook) if noted.contains(number) => Some(*hook),
            Sign::Note(..) | Sign::Followed(_) => None,
        };
        functions[place].blocks.iter().filter_map(spent).collect()
    }
}
