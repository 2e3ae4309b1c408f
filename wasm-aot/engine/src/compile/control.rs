//! Translates blocks, loops, conditions and branches.
//!
//! A frame records the target of branches to it and the height of the operand stack. Code that
//! cannot be reached is not translated: only its frames are counted, as [`FrameKind::Dead`]. At the
//! end of a frame, translation continues if a branch led there or control fell through.

use super::function::{Translator, machine_type};
use super::plan::Mode;
use crate::error::CompileError;
use crate::types::{FuncType, ValType};
use cranelift_codegen::ir::{Block, BlockArg, BlockCall, InstBuilder, JumpTableData, Value};
use std::collections::BTreeMap;
use wasm_aot_body::{Way, Ways};
use wasmparser::{BlockType, BrTable};

/// The kind of a frame.
pub(super) enum FrameKind {
    /// A frame in code that is not reached.
    Dead,
    /// A block, or the function itself.
    Block,
    /// A loop: branches go to its start.
    Loop { start: Block },
    /// A loop around the one that the code begins in: branches to it leave the code.
    Outer { start: Block, at: usize, below: Vec<Value> },
    /// An `if` whose other side follows.
    If { otherwise: Block, params: Vec<Value>, at: usize },
    /// An `if` whose other side has begun, or cannot be reached.
    Else,
    /// A block whose exceptions go to `landing`.
    Try(super::exception::Try),
}

/// What is known of a frame.
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// The block in which translation continues after it. Its parameters are the results.
    pub(super) behind: Block,
    /// How many operands a branch passes.
    pub(super) arity: usize,
    /// How many operands it leaves.
    pub(super) results: usize,
    /// How many operands were below its parameters.
    pub(super) height: usize,
    /// Whether control reaches its end.
    pub(super) reached: bool,
}

/// Block arguments.
pub(super) fn arguments(values: &[Value]) -> Vec<BlockArg> {
    values.iter().map(|value| BlockArg::Value(*value)).collect()
}

impl Translator<'_> {
    pub(super) fn push_function_frame(&mut self, entry: Block) {
        let results = self.info.function_type(self.index).results().to_vec();
        let behind = self.block(&results);
        debug_assert!(self.builder.current_block() == Some(entry));
        let count = results.len();
        self.frames.push(Frame {
            kind: FrameKind::Block,
            behind,
            arity: count,
            results: count,
            height: 0,
            reached: false,
        });
    }

    /// A new block with parameters of these types.
    pub(super) fn block(&mut self, params: &[ValType]) -> Block {
        let block = self.builder.create_block();
        for ty in params {
            self.builder.append_block_param(block, machine_type(*ty));
        }
        block
    }

    /// The parameters and results of a block.
    pub(super) fn block_type(&self, ty: BlockType) -> Result<FuncType, CompileError> {
        Ok(match ty {
            BlockType::Empty => FuncType::new([], []),
            BlockType::Type(ty) => FuncType::new([], [crate::module::value_type(ty, self.offset)?]),
            BlockType::FuncType(index) => self.info.types[index as usize].clone(),
        })
    }

    pub(super) fn push_dead(&mut self) {
        let height = self.stack.len();
        let behind = Block::from_u32(0);
        self.frames.push(Frame {
            kind: FrameKind::Dead,
            behind,
            arity: 0,
            results: 0,
            height,
            reached: false,
        });
    }

    /// Enters a frame whose parameters are on the stack.
    pub(super) fn push_frame(&mut self, kind: FrameKind, ty: &FuncType) {
        let behind = self.block(ty.results());
        let arity = if matches!(kind, FrameKind::Loop { .. } | FrameKind::Outer { .. }) {
            ty.params().len()
        } else {
            ty.results().len()
        };
        let height = self.stack.len() - ty.params().len();
        self.frames.push(Frame {
            kind,
            behind,
            arity,
            results: ty.results().len(),
            height,
            reached: false,
        });
    }

    pub(super) fn begin_block(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let ty = self.block_type(ty)?;
        self.push_frame(FrameKind::Block, &ty);
        Ok(())
    }

    pub(super) fn begin_loop(&mut self, ty: BlockType) -> Result<(), CompileError> {
        if self.leaves_through_osr_exit() {
            return Ok(());
        }
        let ty = self.block_type(ty)?;
        let start = self.block(ty.params());
        self.push_frame(FrameKind::Loop { start }, &ty);
        let params = self.pop_many(ty.params().len());
        self.count(Way::Next);
        self.builder.ins().jump(start, &arguments(&params));
        self.go_on_in(start);
        self.osr_point();
        self.count_turn();
        Ok(())
    }

    pub(super) fn begin_if(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let ty = self.block_type(ty)?;
        let condition = self.pop();
        // Before the branch: the casts that give vectors their common shape belong to this block.
        let params = self.peek_many(ty.params().len());
        let (then, otherwise) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(condition, then, &[], otherwise, &[]);
        self.push_frame(FrameKind::If { otherwise, params, at: self.offset }, &ty);
        self.builder.seal_block(then);
        self.builder.seal_block(otherwise);
        self.builder.switch_to_block(then);
        self.count(Way::Next);
        Ok(())
    }

    pub(super) fn begin_else(&mut self) {
        if matches!(self.top().kind, FrameKind::Dead) {
            return;
        }
        self.fall_through();
        let frame = self.frames.last_mut().expect("validated: a frame");
        self.stack.truncate(frame.height);
        let FrameKind::If { otherwise, params, at } =
            std::mem::replace(&mut frame.kind, FrameKind::Else)
        else {
            // Code that begins on one side never reaches the other one.
            self.reachable = false;
            return;
        };
        self.stack.extend(params);
        self.builder.switch_to_block(otherwise);
        self.count_at(at, Way::Taken);
        self.reachable = true;
    }

    pub(super) fn end(&mut self) {
        if matches!(self.top().kind, FrameKind::Dead) {
            let frame = self.frames.pop().expect("validated: a frame");
            self.stack.truncate(frame.height);
            return;
        }
        let falls_through = self.reachable && !self.top().reached && self.is_together();
        self.fall_through();
        let mut frame = self.frames.pop().expect("validated: a frame");
        let is_plain =
            matches!(frame.kind, FrameKind::Block | FrameKind::Else | FrameKind::Loop { .. });
        match std::mem::replace(&mut frame.kind, FrameKind::Block) {
            FrameKind::If { otherwise, params, at } => {
                // Without another side, the parameters are the results.
                self.builder.switch_to_block(otherwise);
                self.count_at(at, Way::Taken);
                self.builder.ins().jump(frame.behind, &arguments(&params));
                frame.reached = true;
            }
            FrameKind::Loop { start } => self.builder.seal_block(start),
            FrameKind::Outer { start, at, below } => self.end_outer_loop(start, at, below),
            FrameKind::Try(attempt) => self.end_try(attempt, &mut frame),
            FrameKind::Block | FrameKind::Else | FrameKind::Dead => {}
        }
        self.stack.truncate(frame.height);
        self.reachable = frame.reached;
        if !frame.reached {
            return;
        }
        self.go_on_in(frame.behind);
        self.builder.seal_block(frame.behind);
        if falls_through && is_plain {
            self.go_on_together(frame.behind);
        }
        if self.frames.is_empty() && !self.is_nested() {
            self.fire_end();
            let results = self.pop_many(frame.results);
            self.builder.ins().return_(&results);
            self.reachable = false;
        }
    }

    /// Continues in `block`, whose parameters become operands.
    pub(super) fn go_on_in(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.stack.extend_from_slice(self.builder.block_params(block));
        self.reachable = true;
    }

    /// Leaves the innermost frame at its end, if it is reached.
    pub(super) fn fall_through(&mut self) {
        if !self.reachable {
            return;
        }
        let (behind, results) = (self.top().behind, self.top().results);
        let values = self.pop_many(results);
        self.count(Way::Next);
        self.builder.ins().jump(behind, &arguments(&values));
        self.frames.last_mut().expect("a frame").reached = true;
        self.reachable = false;
    }

    pub(super) fn top(&self) -> &Frame {
        self.frames.last().expect("validated: a frame")
    }

    /// The target of a branch, and how many operands it passes.
    pub(super) fn branch_target(&mut self, depth: u32) -> (Block, usize) {
        let index = self.frames.len() - 1 - depth as usize;
        let frame = &mut self.frames[index];
        match frame.kind {
            FrameKind::Loop { start } | FrameKind::Outer { start, .. } => (start, frame.arity),
            _ => {
                frame.reached = true;
                (frame.behind, frame.arity)
            }
        }
    }

    pub(super) fn branch(&mut self, depth: u32) {
        let (target, arity) = self.branch_target(depth);
        self.count(Way::Taken);
        let values = match self.goes_back(depth) {
            true => self.fire_aside(arity),
            false => self.peek_many(arity),
        };
        self.builder.ins().jump(target, &arguments(&values));
        self.reachable = false;
    }

    pub(super) fn branch_if(&mut self, depth: u32) {
        let condition = self.pop();
        self.branch_when(condition, depth);
    }

    /// Branches if `condition` is not zero, and continues otherwise.
    pub(super) fn branch_when(&mut self, condition: Value, depth: u32) {
        let (target, arity) = self.branch_target(depth);
        let values = arguments(&self.peek_many(arity));
        let next = self.builder.create_block();
        let is_hooked = self.goes_back(depth) && self.is_hooked(Mode::BackEdge);
        match self.counter(self.offset, Way::Taken) {
            None if !is_hooked => {
                self.builder.ins().brif(condition, target, &values, next, &[]);
            }
            counter => {
                // A block on this edge only: other edges lead to the target, too.
                let between = self.builder.create_block();
                self.builder.ins().brif(condition, between, &[], next, &[]);
                self.builder.seal_block(between);
                self.builder.switch_to_block(between);
                self.observe_way(counter, is_hooked, arity, target, &values);
            }
        }
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
        self.count(Way::Next);
    }

    pub(super) fn branch_table(&mut self, table: &BrTable<'_>) -> Result<(), CompileError> {
        let index = self.pop();
        let (_, arity) = self.branch_target(table.default());
        let values = arguments(&self.peek_many(arity));
        // Operands are passed once for each target, however many entries lead there; but entries
        // may be counted.
        let mut edges = BTreeMap::new();
        let ways = Ways::of(table);
        let default = self.edge(
            table.default(),
            ways.of_entry(table.len(), table.default()),
            arity,
            &mut edges,
        );
        let mut targets = Vec::with_capacity(table.len() as usize);
        for (i, depth) in table.targets().enumerate() {
            let depth = depth?;
            targets.push(self.edge(depth, ways.of_entry(i as u32, depth), arity, &mut edges));
        }
        let table = self.builder.create_jump_table(JumpTableData::new(default, &targets));
        self.builder.ins().br_table(index, table);
        for ((depth, counter), edge) in edges {
            self.builder.seal_block(edge);
            self.builder.switch_to_block(edge);
            let (target, _) = self.branch_target(depth);
            let is_hooked = self.goes_back(depth) && self.is_hooked(Mode::BackEdge);
            self.observe_way(counter, is_hooked, arity, target, &values);
        }
        self.reachable = false;
        Ok(())
    }

    /// Whether a branch goes to the beginning of a loop.
    fn goes_back(&self, depth: u32) -> bool {
        matches!(self.frames[self.frames.len() - 1 - depth as usize].kind, FrameKind::Loop { .. })
    }

    /// Jumps to a branch's target, observing the edge.
    fn observe_way(
        &mut self,
        counter: Option<i32>,
        is_hooked: bool,
        arity: usize,
        target: Block,
        values: &[BlockArg],
    ) {
        if let Some(counter) = counter {
            self.add_to_counter(counter);
        }
        match is_hooked {
            true => {
                let values = arguments(&self.fire_aside(arity));
                self.builder.ins().jump(target, &values)
            }
            false => self.builder.ins().jump(target, values),
        };
    }

    /// The block that an entry of a table leads to: its target if no operands are passed and it is
    /// not counted; otherwise a block of its own, which passes them.
    fn edge(
        &mut self,
        depth: u32,
        way: Way,
        arity: usize,
        edges: &mut BTreeMap<(u32, Option<i32>), Block>,
    ) -> BlockCall {
        let counter = self.counter(self.offset, way);
        let is_hooked = self.goes_back(depth) && self.is_hooked(Mode::BackEdge);
        let block = match (arity, counter) {
            (0, None) if !is_hooked => self.branch_target(depth).0,
            _ => *edges.entry((depth, counter)).or_insert_with(|| self.builder.create_block()),
        };
        BlockCall::new(block, [], &mut self.builder.func.dfg.value_lists)
    }

    pub(super) fn return_(&mut self) {
        if self.is_nested() {
            return self.branch(self.frames.len() as u32 - 1);
        }
        let count = self.frames[0].results;
        self.fire_exit(self.info.function_type(self.index).results());
        let values = self.pop_many(count);
        self.builder.ins().return_(&values);
        self.reachable = false;
    }

    pub(super) fn select(&mut self) {
        let (yes, no, condition) = self.pop3();
        let (yes, no) = (self.plain(yes), self.plain(no));
        let value = self.builder.ins().select(condition, yes, no);
        self.push(value);
    }
}
