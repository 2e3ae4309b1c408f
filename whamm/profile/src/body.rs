//! What becomes of a body: code around its calls, and where it catches exceptions.
//!
//! ```text
//!     call f     ─▶  slot of the caller's node ─▶ node of f: count it, or `enter` if it is timed
//!                    call f
//!                    the caller's node is the current one again; `leave` if f was timed
//! ```
//!
//! Operands are on the stack by then, so that evaluating them belongs to the caller. A local holds
//! the node of the activation; whatever way a callee is left, the caller puts its own node back.

use crate::Error;
use crate::app::App;
use crate::runtime::Runtime;
use crate::shape::{Shape, Shapes, Telling};
use std::collections::BTreeMap;
use wasm_encoder::{BlockType, InstructionSink, MemArg, MemArgTarget, ValType};
use wasmparser::{Catch, Operator};
use whamm_rewrite::{Body, BodyPlan, Instruction, Spot};

/// Where a node has its calls, and whether it is timed: see `runtime/tree.wat`.
const CALLS: u64 = 16;
const STATE: u64 = 48;

/// What all bodies are planned with.
pub(crate) struct Bodies<'a> {
    pub(crate) app: &'a App,
    pub(crate) shapes: &'a Shapes,
    pub(crate) runtime: &'a Runtime,
    /// Functions that stand for others where the host or a reference calls these.
    pub(crate) gateways: &'a BTreeMap<u32, u32>,
    pub(crate) inlining: Inlining,
}

/// Where the usual case of a call, which is counted and not timed, is written out; elsewhere
/// functions of the run-time support do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inlining {
    Everywhere,
    InLoops,
    Nowhere,
}

/// A block that is open.
#[derive(Default)]
struct Block {
    /// Where a loop begins; nothing is put behind others before their end.
    begin: Option<Spot>,
    /// Whether an exception is caught there.
    is_caught: bool,
}

struct Planner<'a, 'p> {
    all: &'p Bodies<'a>,
    shape: &'p Shape,
    plan: BodyPlan,
    /// Locals: the node of this activation, and that of a callee.
    node: u32,
    callee: u32,
    blocks: Vec<Block>,
}

impl Bodies<'_> {
    /// What becomes of a body.
    pub(crate) fn plan(&self, body: &Body<'_>) -> Result<BodyPlan, Error> {
        let instructions = body.instructions()?;
        let is_leaf = self.shapes.tellings[body.function as usize] == Telling::Leaf;
        let ends = |i: &Instruction<'_>| {
            self.runtime.tells_ends && matches!(i.operator, Operator::Unreachable)
        };
        if is_leaf || !instructions.iter().any(|i| self.concerns(&i.operator)) {
            return match instructions.iter().any(ends) {
                true => self.plan_endings(body, instructions),
                false => Ok(BodyPlan::unchanged(body)?),
            };
        }
        let mut plan = BodyPlan::empty(body)?;
        let own: u32 = plan.locals.iter().map(|(count, _)| count).sum();
        let node = self.app.parameters(body.function) + own;
        plan.locals.push((2, ValType::I32));
        plan.put().global_get(self.runtime.cur).local_set(node);
        let shape = &self.shapes.shapes[body.function as usize];
        let blocks = vec![Block::default()];
        let mut planner = Planner { all: self, shape, plan, node, callee: node + 1, blocks };
        instructions.into_iter().for_each(|instruction| planner.instruction(instruction));
        Ok(planner.plan)
    }

    /// Whether something has to be done about an instruction.
    fn concerns(&self, operator: &Operator<'_>) -> bool {
        matches!(
            operator,
            Operator::Call { .. }
                | Operator::CallIndirect { .. }
                | Operator::CallRef { .. }
                | Operator::ReturnCall { .. }
                | Operator::ReturnCallIndirect { .. }
                | Operator::ReturnCallRef { .. }
        )
    }

    /// A body that calls nothing, and may end the program.
    fn plan_endings(
        &self,
        body: &Body<'_>,
        instructions: Vec<Instruction<'_>>,
    ) -> Result<BodyPlan, Error> {
        let mut plan = BodyPlan::empty(body)?;
        for instruction in instructions {
            if matches!(instruction.operator, Operator::Unreachable) {
                plan.put().call(self.runtime.ending);
            }
            plan.keep(instruction.place);
        }
        Ok(plan)
    }
}

impl Planner<'_, '_> {
    fn at(&self, offset: u64, align: u32) -> MemArg {
        let target = MemArgTarget::Memory(self.all.runtime.memory);
        MemArg { offset, align, target, ordering: None }
    }

    fn put(&mut self) -> InstructionSink<'_> {
        self.plan.put()
    }

    fn instruction(&mut self, instruction: Instruction<'_>) {
        let (node, runtime) = (self.node, self.all.runtime);
        let place = instruction.place;
        match instruction.operator {
            Operator::Call { function_index } => {
                let is_counted = self.before(function_index);
                self.plan.keep(place);
                if !is_counted {
                    self.leave();
                }
                return;
            }
            Operator::CallIndirect { .. } | Operator::CallRef { .. } => {
                self.put().local_get(node).global_set(runtime.via);
                self.plan.keep(place);
                self.put().global_get(runtime.via).if_(BlockType::Empty);
                self.put().local_get(node).call(runtime.foreign).end();
                return;
            }
            Operator::ReturnCall { function_index } => {
                if let Some(gateway) = self.all.gateways.get(&function_index).copied()
                    && function_index < self.all.app.imported()
                {
                    self.put().local_get(node).call(runtime.tail_via);
                    self.plan.leave_out(place);
                    self.put().return_call(gateway);
                    return;
                }
                let id = function_index + 1;
                self.put().local_get(node).i32_const(id.cast_signed()).call(runtime.tail);
            }
            Operator::ReturnCallIndirect { .. } | Operator::ReturnCallRef { .. } => {
                self.put().local_get(node).call(runtime.tail_via);
            }
            Operator::Unreachable if runtime.tells_ends => {
                self.put().call(runtime.ending);
            }
            Operator::Block { .. } | Operator::If { .. } | Operator::Try { .. } => {
                self.blocks.push(Block::default());
            }
            Operator::TryTable { try_table } => {
                for catch in &try_table.catches {
                    self.catches(catch);
                }
                self.blocks.push(Block::default());
            }
            Operator::Loop { .. } => {
                self.plan.keep(place);
                let begin = Some(self.plan.here());
                self.blocks.push(Block { begin, is_caught: false });
                return;
            }
            Operator::Catch { .. } | Operator::CatchAll => {
                self.plan.keep(place);
                self.put().local_get(node).call(runtime.caught);
                return;
            }
            Operator::Delegate { .. } => {
                self.blocks.pop();
            }
            Operator::End => {
                self.plan.keep(place);
                let block = self.blocks.pop().unwrap_or_default();
                // What is caught at the end of the function leaves it.
                if block.is_caught && !self.blocks.is_empty() {
                    let mut code = Vec::new();
                    InstructionSink::new(&mut code).local_get(node).call(runtime.caught);
                    match block.begin {
                        Some(begin) => self.plan.insert(begin, code),
                        None => self.plan.code.extend(code),
                    }
                }
                return;
            }
            _ => {}
        }
        self.plan.keep(place);
    }

    fn is_inline(&self) -> bool {
        match self.all.inlining {
            Inlining::Everywhere => true,
            Inlining::InLoops => self.blocks.iter().any(|block| block.begin.is_some()),
            Inlining::Nowhere => false,
        }
    }

    /// Exceptions arrive at the end of a block, or where a loop begins.
    fn catches(&mut self, catch: &Catch) {
        let (Catch::One { label, .. }
        | Catch::OneRef { label, .. }
        | Catch::All { label }
        | Catch::AllRef { label }) = catch;
        let at = self.blocks.len().checked_sub(1 + *label as usize);
        if let Some(block) = at.and_then(|at| self.blocks.get_mut(at)) {
            block.is_caught = true;
        }
    }

    /// Before a direct call. Whether it was counted and nothing else is to be done.
    fn before(&mut self, callee: u32) -> bool {
        let (node, runtime) = (self.node, self.all.runtime);
        if let Some(counter) = self.shape.counter(callee) {
            let at = self.at(counter, 3);
            self.put().local_get(node).local_get(node).i64_load(at);
            self.put().i64_const(1).i64_add().i64_store(at);
            return true;
        }
        let id = (callee + 1).cast_signed();
        match self.shape.slot(callee) {
            None => {
                self.put().local_get(node).i32_const(id).call(runtime.enter_child);
            }
            Some(slot) if self.is_inline() => self.enter(slot, id),
            Some(slot) => {
                let slot = slot as i32;
                self.put().local_get(node).i32_const(slot).i32_const(id).call(runtime.enter);
            }
        }
        if runtime.tells_ends && self.all.app.is_exit(callee) {
            self.put().call(runtime.exiting);
        }
        false
    }

    /// Counts a call of a node that is known and not timed.
    fn enter(&mut self, slot: u64, id: i32) {
        let (node, callee, runtime) = (self.node, self.callee, self.all.runtime);
        let (state, calls) = (self.at(STATE, 2), self.at(CALLS, 3));
        let known = self.at(slot, 2);
        self.put().local_get(node).i32_load(known).local_tee(callee).i32_load(state);
        self.put().if_(BlockType::Empty);
        self.put().local_get(node).i32_const(slot as i32).i32_const(id).call(runtime.enter);
        self.put().else_();
        self.put().local_get(callee).local_get(callee).i64_load(calls);
        self.put().i64_const(1).i64_add().i64_store(calls);
        self.put().local_get(callee).global_set(runtime.cur).end();
    }

    /// Behind a call.
    fn leave(&mut self) {
        let (node, runtime) = (self.node, self.all.runtime);
        if !runtime.has_clock {
            self.put().local_get(node).global_set(runtime.cur);
            return;
        }
        if !self.is_inline() {
            self.put().local_get(node).call(runtime.leave);
            return;
        }
        let state = self.at(STATE, 2);
        self.put().global_get(runtime.cur).i32_load(state).if_(BlockType::Empty);
        self.put().local_get(node).call(runtime.leave).else_();
        self.put().local_get(node).global_set(runtime.cur).end();
    }
}
