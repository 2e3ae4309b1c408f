//! Rewrites a body: adds code around its calls, and where it catches exceptions.
//!
//! ```text
//!     call f     ─▶  slot of the caller's node: the node of f, if that is known and not timed
//!                    ┬─ yes: count; it is the current node; call f
//!                    └─ no:  call what stands for f, which enters, calls f, and leaves
//! ```
//!
//! Beyond the size budget only the code of the `no` branch is written: see `budget.rs`. If a
//! function has few calls, the code of its stand-in is written at these calls instead.
//!
//! The code runs when the operands are on the stack already, so that evaluating them belongs to the
//! caller. A local holds the activation's node. After a call that was not timed the current node is
//! still the callee's: the next clock reading charges it, and a report gives that time to the
//! nearest timed node above, which is the same for both.

use crate::Error;
use crate::app::{App, is_call};
use crate::budget::Inlining;
use crate::runtime::Runtime;
use crate::shape::{Callee, Shape, Shapes};
use std::collections::BTreeMap;
use std::ops::Range;
use wasm_encoder::{BlockType, InstructionSink, MemArg, MemArgTarget, ValType};
use wasmparser::{Catch, Operator};
use whamm_rewrite::{Body, BodyPlan, Indices, Instruction, Spot};

/// The offsets in a node of its number of calls, and of the node that a tail call has put in place
/// of the active call: see `runtime/tree.wat`.
const CALLS: u64 = 16;
const TAIL: u64 = 72;

/// The data that is shared by the plans of all bodies.
pub(crate) struct Bodies<'a> {
    pub(crate) app: &'a App,
    pub(crate) shapes: &'a Shapes,
    pub(crate) runtime: &'a Runtime,
    /// Stand-ins, by the function that they replace in direct calls, if these are many.
    pub(crate) stand_ins: &'a BTreeMap<u32, u32>,
    /// The current indices of the program's functions.
    pub(crate) indices: &'a Indices,
    /// For each body, at which calls the usual case is inlined.
    pub(crate) inlining: &'a [Inlining],
}

/// Writes code into a function.
pub(crate) struct Sink<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) to: InstructionSink<'a>,
}

impl Sink<'_> {
    fn at(&self, offset: u64, align: u32) -> MemArg {
        let target = MemArgTarget::Memory(self.runtime.memory);
        MemArg { offset, align, target, ordering: None }
    }

    /// Loads a word of the profile's memory.
    pub(crate) fn word(&mut self, offset: u64) -> &mut Self {
        let at = self.at(offset, 2);
        self.to.i32_load(at);
        self
    }

    /// Adds one to a number in a node.
    pub(crate) fn count(&mut self, node: u32, offset: u64) -> &mut Self {
        let at = self.at(offset, 3);
        self.to.local_get(node).local_get(node).i64_load(at);
        self.to.i64_const(1).i64_add().i64_store(at);
        self
    }

    /// Begins a call that is not timed.
    pub(crate) fn begin(&mut self, node: u32, callee: Callee) {
        self.count(node, CALLS);
        if callee.has_children {
            self.to.local_get(node).global_set(self.runtime.cur);
        }
        if callee.tails {
            let at = self.at(TAIL, 2);
            self.to.local_get(node).i32_const(0).i32_store(at);
        }
    }

    /// Ends the call after the callee, or a function that it tail-called, has returned.
    pub(crate) fn end(&mut self, caller: u32, node: u32, callee: Callee) {
        if callee.tails {
            self.to.local_get(node);
            self.word(TAIL).to.if_(BlockType::Empty);
            self.to.local_get(caller).local_get(node).call(self.runtime.leave).end();
        }
    }
}

/// An open block.
#[derive(Default)]
struct Block {
    /// The beginning of a loop; in other blocks, code is inserted at their end.
    begin: Option<Spot>,
    /// Whether an exception is caught there.
    is_caught: bool,
}

struct Planner<'a, 'p> {
    all: &'p Bodies<'a>,
    shape: &'p Shape,
    function: u32,
    plan: BodyPlan,
    /// Locals: the node of this activation, and that of a callee.
    node: u32,
    callee: u32,
    blocks: Vec<Block>,
    inlining: Inlining,
}

impl Bodies<'_> {
    /// Plans a body.
    pub(crate) fn plan(&self, body: &Body<'_>) -> Result<BodyPlan, Error> {
        let instructions = body.instructions()?;
        let is_leaf = self.shapes.is_leaf(body.function);
        let inlining = self.inlining[(body.function - self.app.imported()) as usize];
        let ends = |i: &Instruction<'_>| {
            self.runtime.tells_ends && matches!(i.operator, Operator::Unreachable)
        };
        if is_leaf || !instructions.iter().any(|i| is_call(&i.operator)) {
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
        let callee = node + 1;
        let function = body.function;
        let mut planner =
            Planner { all: self, shape, function, plan, node, callee, blocks, inlining };
        instructions.into_iter().for_each(|instruction| planner.instruction(instruction));
        Ok(planner.plan)
    }

    /// Plans a body that calls nothing, and may end the program.
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
    fn put(&mut self) -> InstructionSink<'_> {
        self.plan.put()
    }

    fn sink(&mut self) -> Sink<'_> {
        Sink { runtime: self.all.runtime, to: self.plan.put() }
    }

    fn instruction(&mut self, instruction: Instruction<'_>) {
        let (node, runtime) = (self.node, self.all.runtime);
        let place = instruction.place;
        match instruction.operator {
            Operator::Call { function_index } => return self.call(function_index, place),
            Operator::CallIndirect { .. } | Operator::CallRef { .. } => {
                self.put().local_get(node).global_set(runtime.via);
                self.plan.keep(place);
                // Functions of other modules may have called back.
                self.put().local_get(node).global_set(runtime.cur);
                self.put().global_get(runtime.via).if_(BlockType::Empty);
                self.put().local_get(node).call(runtime.foreign).end();
                return;
            }
            Operator::ReturnCall { function_index } => {
                let id = function_index + 1;
                self.put().local_get(node).i32_const(id.cast_signed()).call(runtime.tail);
                if self.all.runtime.ends(self.all.app, function_index) {
                    self.put().call(runtime.exiting);
                }
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
                // An exception that is caught at the end of the function leaves it.
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

    fn is_inline(&self, callee: u32) -> bool {
        let is_in_loop = self.blocks.iter().any(|block| block.begin.is_some());
        let recurs = callee == self.function;
        if is_in_loop || recurs { self.inlining.in_loops } else { self.inlining.elsewhere }
    }

    /// Exceptions arrive at the end of a block, or at the beginning of a loop.
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

    /// A direct call.
    fn call(&mut self, callee: u32, place: Range<u64>) {
        if let Some(counter) = self.shape.counter(callee) {
            let node = self.node;
            self.sink().count(node, counter);
            return self.plan.keep(place);
        }
        let id = (callee + 1).cast_signed();
        match self.shape.slot(callee) {
            None => {
                self.put_enter_child(id);
                self.plan.keep(place);
                self.leave();
            }
            Some(_) if self.all.runtime.ends(self.all.app, callee) => {
                self.put_enter_child(id);
                let exiting = self.all.runtime.exiting;
                self.put().call(exiting);
                self.plan.keep(place);
                self.leave();
            }
            Some(slot) if self.is_inline(callee) => self.written_out(callee, slot, place),
            Some(slot) => {
                self.plan.leave_out(place);
                self.put_slow(callee, slot);
            }
        }
    }

    fn put_enter_child(&mut self, id: i32) {
        let (node, callee, enter) = (self.node, self.callee, self.all.runtime.enter_child);
        self.put().local_get(node).i32_const(id).call(enter).local_set(callee);
    }

    fn leave(&mut self) {
        let (node, callee, leave) = (self.node, self.callee, self.all.runtime.leave);
        self.put().local_get(node).local_get(callee).call(leave);
    }

    /// Writes the call twice: for a callee that is known and not timed, and for all others.
    fn written_out(&mut self, function: u32, slot: u64, place: Range<u64>) {
        let (node, callee, runtime) = (self.node, self.callee, self.all.runtime);
        let ty = BlockType::FunctionType(self.all.app.functions[function as usize]);
        let how = self.all.shapes.callee(self.all.app, function);
        self.put().local_get(node);
        self.sink().word(slot).to.local_tee(callee).if_(ty);
        self.sink().begin(callee, how);
        self.plan.keep(place);
        self.sink().end(node, callee, how);
        if how.is_host {
            self.put().local_get(node).global_set(runtime.cur);
        }
        self.put().else_();
        self.put_slow(function, slot);
        self.put().end();
    }

    /// Writes the call for any node of the callee.
    fn put_slow(&mut self, function: u32, slot: u64) {
        match self.all.shapes.has_few_calls(function) {
            true => self.put_entered(function, slot),
            false => self.put_stand_in(function, slot),
        }
    }

    /// Writes the call between code that enters and leaves the callee's node.
    fn put_entered(&mut self, function: u32, slot: u64) {
        let (node, callee, enter) = (self.node, self.callee, self.all.runtime.enter);
        let id = (function + 1).cast_signed();
        let function = self.all.indices.function(function);
        self.put().local_get(node).i32_const(slot as i32).i32_const(id).call(enter);
        self.put().local_set(callee).call(function);
        self.leave();
    }

    /// Writes a call of the callee's stand-in.
    fn put_stand_in(&mut self, function: u32, slot: u64) {
        let (node, runtime) = (self.node, self.all.runtime);
        let stand_in = self.all.stand_ins[&function];
        self.put().local_get(node).global_set(runtime.from);
        self.put().i32_const(slot as i32).global_set(runtime.slot).call(stand_in);
    }
}
