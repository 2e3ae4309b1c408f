//! Chooses the one-shot probes of functions, and derives from them which instructions were
//! executed.
//!
//! When the last instruction of a block begins, the whole block has been executed. A one-shot probe
//! there records it, and does nothing afterwards. A frame that is unwound in the middle of a block
//! is recorded as a partial-block exit. Together they give exact coverage of instructions.
//!
//! A block needs no probe if all of its successors have no other predecessor: it was executed if
//! any of them was reached. This holds at any moment only where the block calls nothing.
//!
//! A probe that has fired is dead. The pruner removes dead probes from functions that are executed
//! often, which then run at full speed.

use super::outline::{self, Outline};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use wasm_aot_body::{Block, ExitPlace, Graph};
use wasm_aot_engine::instrument::Features;
use wasm_aot_engine::instrument::compile::{
    Action, Draft, HookId, Mode, OneShotClient, OneShotProbe,
};
use wasm_aot_engine::instrument::runtime::{Module, ModuleInner, Origin, Prunes, TakesEffect};
use wasm_aot_engine::{CompileError, Error};
use wasmparser::Operator;

/// The one-shot probes of a module's functions.
#[derive(Debug)]
pub(crate) struct OneShotProbes {
    client: OneShotClient,
    /// By their indices.
    functions: OnceLock<Vec<OneShotFunction>>,
    /// The module whose code the probes are in, and the plan.
    code: OnceLock<(Weak<ModuleInner>, Origin)>,
}

/// A function with one-shot probes.
#[derive(Debug)]
pub(crate) struct OneShotFunction {
    pub(crate) index: u32,
    pub(super) label: String,
    /// Where the body begins in the module.
    pub(super) start: u32,
    /// The offsets of the instructions.
    pub(crate) instructions: Vec<u32>,
    /// Blocks that are not empty, in order, and the sign that they were executed; the number of the
    /// first probe, and the number of probes.
    pub(super) blocks: Vec<(Block, BlockSign)>,
    /// The instructions that could be replaced when the blocks were determined.
    replaceable: Vec<u32>,
    first: u32,
    count: u32,
}

/// The sign that a block was executed.
#[derive(Debug)]
pub(super) enum BlockSign {
    /// A one-shot probe, by its number, and its hook.
    OneShot(u32, HookId),
    /// One of these blocks was reached. They are given by their places among the blocks, after its
    /// own.
    Implied(Vec<usize>),
}

/// The executed parts of a function.
#[derive(Debug)]
pub(crate) struct Executed {
    /// Each of its instructions.
    pub(crate) instructions: Vec<bool>,
    /// How many blocks.
    pub(super) blocks: usize,
}

impl OneShotProbes {
    /// Without functions so far.
    pub(crate) fn new() -> Arc<Self> {
        let (functions, code) = Default::default();
        Arc::new(Self { client: OneShotClient::fresh(), functions, code })
    }

    /// Plans probes for functions, in the order of their indices. This is done once.
    pub(super) fn plan<'o, 'a: 'o>(
        &self,
        outline: &Outline<'_>,
        chosen: impl Iterator<Item = &'o outline::Function<'a>>,
        draft: &mut Draft,
    ) {
        draft.note_partial_exits();
        let mut functions: Vec<OneShotFunction> = Vec::new();
        let mut first = 0;
        for function in chosen {
            let instructions: Vec<u32> =
                function.instructions.iter().map(|instruction| instruction.at).collect();
            let replaceable = draft.replaceable(function.index);
            let mut count = 0;
            let sign = |(block, followers): (Block, Vec<usize>)| {
                if !followers.is_empty() {
                    return (block, BlockSign::Implied(followers));
                }
                let last = instructions[instructions.partition_point(|at| *at < block.end) - 1];
                let number = first + count;
                count += 1;
                let probe = Action::OneShot(OneShotProbe { client: self.client, number });
                (
                    block,
                    BlockSign::OneShot(
                        number,
                        draft.hook(function.index, last, Mode::Before, probe),
                    ),
                )
            };
            let blocks: Vec<(Block, BlockSign)> =
                blocks(outline, function, &replaceable).into_iter().map(sign).collect();
            let start = outline.info.body(function.index).start;
            let (index, label) = (function.index, function.label.clone());
            functions.push(OneShotFunction {
                index,
                label,
                start,
                instructions,
                blocks,
                replaceable,
                first,
                count,
            });
            first += count;
        }
        // Planned once.
        let _ = self.functions.set(functions);
    }

    /// The same for some functions of a module that is to be compiled.
    pub(crate) fn plan_of(
        &self,
        bytes: &[u8],
        features: Features,
        wants: impl Fn(u32) -> bool,
        draft: &mut Draft,
    ) -> Result<(), CompileError> {
        Outline::with(bytes, features, false, |outline| {
            self.plan(
                outline,
                outline.functions.iter().filter(|function| wants(function.index)),
                draft,
            );
        })
    }

    /// Records that the probes are in a module's code, or will be when they are observed: in the
    /// module's own plan, or in an attached one.
    pub(crate) fn compiled(self: &Arc<Self>, module: &Module, origin: Origin) {
        let _ = self.code.set((Arc::downgrade(module.inner()), origin));
        let client: Weak<dyn Prunes> = Arc::<Self>::downgrade(self);
        module.prune(client);
    }

    /// Visits each function, with its executed parts so far; `waiting` are the addresses at which
    /// frames wait.
    pub(crate) fn each(
        &self,
        module: &Module,
        waiting: &[usize],
        mut visit: impl FnMut(&OneShotFunction, Executed),
    ) {
        let Some(functions) = self.functions.get() else { return };
        let (fired_one_shots, exited) =
            (self.fired_one_shots(module, functions), module.inner().exited(waiting));
        let none = BTreeSet::new();
        for function in functions {
            let exited = exited.get(&function.index).unwrap_or(&none);
            visit(function, function.executed(&fired_one_shots, exited));
        }
    }

    /// How many functions have blocks that are too large by now, because a monitor that was
    /// attached later replaces instructions in them.
    pub(super) fn outdated(&self, module: &Module) -> usize {
        let now = module.inner().draft();
        let functions = self.functions.get().into_iter().flatten();
        functions.filter(|function| now.replaceable(function.index) != function.replaceable).count()
    }

    /// Which of all probes have fired.
    fn fired_one_shots(&self, module: &Module, functions: &[OneShotFunction]) -> Vec<bool> {
        let all = functions.last().map_or(0, |last| last.first + last.count);
        let mut fired_one_shots = vec![false; all as usize];
        module
            .inner()
            .fired_one_shots(self.client, None)
            .for_each(|number| fired_one_shots[number as usize] = true);
        fired_one_shots
    }
}

/// The blocks of a function that have instructions, in order; and all successors of each, if those
/// have no other predecessor.
fn blocks(
    outline: &Outline<'_>,
    function: &outline::Function<'_>,
    replaceable: &[u32],
) -> Vec<(Block, Vec<usize>)> {
    let range = outline.info.body(function.index);
    let bytes = &outline.bytes[range.start as usize..range.end as usize];
    let body =
        wasmparser::FunctionBody::new(wasmparser::BinaryReader::new(bytes, range.start.into()));
    let graph = Graph::replaceable(&body, replaceable).unwrap_or_default();
    let Graph { blocks: all, edges, loops, .. } = graph;
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
    let calls: Vec<u32> = function
        .instructions
        .iter()
        .filter(|instruction| calls(&instruction.op))
        .map(|call| call.at)
        .collect();
    let waits = |block: Block| {
        calls.partition_point(|at| *at < block.start) < calls.partition_point(|at| *at < block.end)
    };
    // Loops are entered from other variants of the code, too.
    let follows = |from: usize, to: usize| {
        let place = places[to].filter(|place| Some(*place) > places[from])?;
        (comes[to] == 1 && loops.binary_search(&all[to].start).is_err() && !waits(all[to]))
            .then_some(place)
    };
    let followers = |block: usize| {
        ways[block].iter().map(|to| follows(block, *to)).collect::<Option<Vec<usize>>>()
    };
    order.iter().map(|block| (all[*block], followers(*block).unwrap_or_default())).collect()
}

/// Whether an instruction calls, and so may take any time.
fn calls(op: &Operator<'_>) -> bool {
    matches!(op, Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. })
}

impl OneShotFunction {
    /// Its executed parts.
    fn executed(&self, fired_one_shots: &[bool], exited: &BTreeSet<ExitPlace>) -> Executed {
        let mut executed = vec![false; self.instructions.len()];
        let mut reached = vec![false; self.blocks.len()];
        // In reverse order: later blocks are known first.
        for (at, (block, sign)) in self.blocks.iter().enumerate().rev() {
            let is_whole = match sign {
                BlockSign::OneShot(number, _) => fired_one_shots[*number as usize],
                BlockSign::Implied(followers) => {
                    followers.iter().any(|follower| reached[*follower])
                }
            };
            let end = match is_whole {
                true => Some(block.end),
                false => {
                    let last = exited.range(ExitPlace::of_block(block)).next_back();
                    last.map(|place| place.end())
                }
            };
            let Some(end) = end else { continue };
            reached[at] = true;
            let place = |at: u32| self.instructions.partition_point(|other| *other < at);
            executed[place(block.start)..place(end)].fill(true);
        }
        Executed {
            instructions: executed,
            blocks: reached.into_iter().filter(|reached| *reached).count(),
        }
    }
}

impl Prunes for OneShotProbes {
    fn has_dead(&self, function: u32) -> bool {
        self.dead(function).is_some_and(|dead| !dead.is_empty())
    }

    fn prune(&self, functions: &[u32]) -> Result<(), Error> {
        let mut dead = Vec::new();
        for function in functions {
            let hooks = self.dead(*function).unwrap_or_default();
            dead.extend(hooks.into_iter().map(|hook| (*function, hook)));
        }
        let Some((module, origin)) = self.code().filter(|_| !dead.is_empty()) else {
            return Ok(());
        };
        Module::of(module).leave_out(origin, &dead, true, TakesEffect::NextCall).map(drop)
    }
}

impl OneShotProbes {
    fn code(&self) -> Option<(Arc<ModuleInner>, Origin)> {
        let (module, origin) = self.code.get()?;
        Some((module.upgrade()?, *origin))
    }

    /// The hooks of a function's probes that have fired, as far as they are still in its code.
    fn dead(&self, function: u32) -> Option<Vec<HookId>> {
        let (functions, (module, origin)) = (self.functions.get()?, self.code()?);
        let place = functions.binary_search_by_key(&function, |function| function.index).ok()?;
        let defined = (function - module.info.imported.functions) as usize;
        let fired_one_shots: BTreeSet<u32> =
            module.fired_one_shots(self.client, Some(defined)).collect();
        let dead = |(_, sign): &(Block, BlockSign)| match sign {
            BlockSign::OneShot(number, hook) if fired_one_shots.contains(number) => Some(*hook),
            BlockSign::OneShot(..) | BlockSign::Implied(_) => None,
        };
        let dead = functions[place].blocks.iter().filter_map(dead).collect();
        Some(module.still_there(origin, function, dead))
    }
}
