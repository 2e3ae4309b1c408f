//! Translates instructions, blocks and branches that a monitor's hook may replace (mode `alt`): the
//! hook gives their results, or has them executed.
//!
//! The instruction is translated in a block of its own, beside the hook's code; both lead to what
//! follows it. Code that counts has counters on the edges that lead around it.

use super::control::arguments;
use super::function::{Translator, machine_type};
use super::plan::{Hook, Mode};
use crate::error::CompileError;
use crate::types::ValType;
use cranelift_codegen::ir::{Block, InstBuilder};
use wasm_aot_body::Way;
use wasm_aot_body::replacement::{FallThrough, never_falls_through};
use wasmparser::{BlockType, FuncValidator, Operator, ValidatorResources};

/// A block of the program that is replaced.
#[derive(Debug)]
pub(super) struct Over {
    /// The number of open frames inside of it, including its own.
    pub(super) depth: usize,
    /// The block in which control continues after all hooks at its end.
    pub(super) block: Block,
    /// How many operands are below its parameters.
    pub(super) height: usize,
}

impl<'a> Translator<'a> {
    /// Translates an instruction that may be replaced: the hook gives its results, or has it
    /// executed.
    pub(super) fn replaceable(
        &mut self,
        op: &Operator<'_>,
        validator: &FuncValidator<ValidatorResources>,
    ) -> Result<(), CompileError> {
        if let Operator::Else = op {
            self.operator(op)?;
            self.know_operands(validator);
            return if self.reachable { self.replaceable_arm() } else { Ok(()) };
        }
        if !self.reachable {
            return self.operator(op);
        }
        match op {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => {
                let frame = validator.get_control_frame(0).expect("validated: it has opened one");
                self.replaceable_block(op, frame.block_type)
            }
            _ => self.replaceable_plain(op, validator),
        }
    }

    /// Counts the edges into and out of a block that may be replaced, if they are counted.
    pub(super) fn count_beside_replacements(&mut self, op: &Operator<'_>) {
        match op {
            _ if !self.reachable => {}
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. }
            | Operator::Else => self.count(Way::Inside),
            Operator::End | Operator::Delegate { .. } => self.count(Way::Past),
            _ => {}
        }
    }

    /// Translates an instruction that takes operands, gives results and falls through.
    fn replaceable_plain(
        &mut self,
        op: &Operator<'_>,
        validator: &FuncValidator<ValidatorResources>,
    ) -> Result<(), CompileError> {
        let results = op.operator_arity(validator).map_or(0, |(_, results)| results as usize);
        let types: Vec<ValType> = (0..results)
            .rev()
            .filter_map(|depth| validator.get_operand_type(depth)?.map(crate::module::operand_type))
            .collect();
        let (itself, behind) = (self.block(&[]), self.block(&types));
        // A conditional branch that is replaced is not taken; other branches have a way around.
        let leaves = super::patchable_site::is_branch(op) || never_falls_through(op);
        let ways: &[Way] = if leaves { &[Way::Next, Way::Around] } else { &[] };
        self.fire_instead(itself, behind, ways)?;
        self.fire(Mode::Itself);
        self.operator(op)?;
        let given = self.pop_many(results);
        self.builder.ins().jump(behind, &arguments(&given));
        self.builder.seal_block(behind);
        self.builder.switch_to_block(behind);
        self.stack.extend(self.builder.block_params(behind).to_vec());
        Ok(())
    }

    /// The fall-through of a hook that replaces an instruction that never falls through by itself.
    pub(super) fn replaced_fall_through(&mut self, op: &Operator<'_>) -> Option<&'a FallThrough> {
        if !self.reachable || !never_falls_through(op) {
            return None;
        }
        let mut all = self.hooking.at(self.offset as u32, Some(Mode::Alt)).iter();
        let left = all.find_map(Hook::fall_through);
        self.hooking.falls_through |= left.is_some();
        left
    }

    /// Translates a branch, a return or a trap after which control continues with the results of
    /// its replacement.
    pub(super) fn fall_through_instead(
        &mut self,
        op: &Operator<'_>,
        left: &FallThrough,
    ) -> Result<(), CompileError> {
        let stack = self.stack[..self.stack.len() - left.dropped].to_vec();
        let (itself, behind) = (self.block(&[]), self.builder.create_block());
        for ty in &left.given {
            let ty = machine_type(crate::module::operand_type(*ty));
            self.builder.append_block_param(behind, ty);
        }
        self.fire_instead(itself, behind, &[Way::Around])?;
        self.fire(Mode::Itself);
        self.operator(op)?;
        self.stack = stack;
        self.go_on_in(behind);
        self.builder.seal_block(behind);
        Ok(())
    }

    /// The second arm of an `if`, which has been entered: its replacement continues at the end of
    /// the `if`.
    fn replaceable_arm(&mut self) -> Result<(), CompileError> {
        let (itself, behind) = (self.block(&[]), self.top().behind);
        self.fire_instead(itself, behind, &[Way::Around])?;
        self.frames.last_mut().expect("validated: a frame").reached = true;
        Ok(())
    }

    /// A block: its replacement continues after its end, and after all hooks there.
    fn replaceable_block(
        &mut self,
        op: &Operator<'_>,
        block: BlockType,
    ) -> Result<(), CompileError> {
        let ty = self.block_type(block)?;
        let takes = ty.params().len() + usize::from(matches!(op, Operator::If { .. }));
        let (itself, over) = (self.block(&[]), self.block(ty.results()));
        let height = self.stack.len() - takes;
        if matches!(op, Operator::Loop { .. }) {
            // Control has reached the loop, although it does not enter it.
            self.write_instead(itself, over, &[Way::Next, Way::Around], Some(Mode::Before))?;
            self.go_on_itself(itself);
        } else {
            self.fire_instead(itself, over, &[Way::Around])?;
        }
        self.operator(op)?;
        self.hooking.over.push(Over { depth: self.frames.len(), block: over, height });
        Ok(())
    }

    /// Continues after a replaced block.
    pub(super) fn go_on_over(&mut self, over: &Over) {
        if self.reachable {
            let results = self.pop_many(self.stack.len() - over.height);
            self.builder.ins().jump(over.block, &arguments(&results));
        }
        self.builder.seal_block(over.block);
        self.builder.switch_to_block(over.block);
        self.stack.truncate(over.height);
        self.stack.extend(self.builder.block_params(over.block).to_vec());
        self.reachable = true;
    }

    /// Emits the replacement of an instruction, which leads to `behind` by these edges. The code
    /// that is emitted next is the instruction itself.
    fn fire_instead(
        &mut self,
        itself: Block,
        behind: Block,
        ways: &[Way],
    ) -> Result<(), CompileError> {
        self.write_instead(itself, behind, ways, None)?;
        self.go_on_itself(itself);
        Ok(())
    }

    /// The same, with the hooks of another mode on the way.
    fn write_instead(
        &mut self,
        itself: Block,
        behind: Block,
        ways: &[Way],
        mode: Option<Mode>,
    ) -> Result<(), CompileError> {
        let mode = mode.filter(|mode| self.is_hooked(*mode));
        let is_direct = mode.is_none() && (ways.is_empty() || !self.counting.counts());
        let given = if is_direct { behind } else { self.builder.create_block() };
        if !is_direct {
            for param in self.builder.block_params(behind).to_vec() {
                let ty = self.builder.func.dfg.value_type(param);
                self.builder.append_block_param(given, ty);
            }
        }
        self.hooking.replacing = Some((itself, given));
        self.fire(Mode::Alt);
        self.hooking.replacing = None;
        if !is_direct {
            self.builder.seal_block(given);
            self.builder.switch_to_block(given);
            mode.into_iter().for_each(|mode| self.fire(mode));
            for way in ways {
                if *way == Way::Around {
                    // Control has reached the loop, if it is one.
                    self.count_turn();
                }
                self.count(*way);
            }
            let results = self.builder.block_params(given).to_vec();
            self.builder.ins().jump(behind, &arguments(&results));
        }
        self.hooking.failure.take().map_or(Ok(()), Err)
    }

    fn go_on_itself(&mut self, itself: Block) {
        self.builder.seal_block(itself);
        self.builder.switch_to_block(itself);
    }
}
