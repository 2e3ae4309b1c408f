//! Labels of the program's branches, which cross labels of the rewriter's own.
//!
//! A block that a probe replaces under a condition is written in an arm of an `if`, as is a branch.
//! Branches that leave the arm count its label, too.

use super::*;
use std::borrow::Cow;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{Encode, Instruction as I};

/// An arm that contains a block of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    /// How many frames of the program are around the block, with the function's own.
    around: u32,
    /// The instruction that ends the block.
    end: usize,
}

impl Walker<'_, '_> {
    /// Begins an arm that contains the block that begins here.
    pub(super) fn enter_arm(&mut self, i: usize) {
        let around = self.validator.control_stack_height();
        self.arms.push(Arm { around, end: self.end_of(i) });
    }

    /// Ends the arms that contain the block that has just ended. The code after them is executed
    /// whether the block was or not.
    pub(super) fn leave_arms(&mut self, i: usize) {
        while self.arms.pop_if(|arm| arm.end == i).is_some() {
            self.make_calls();
            self.end_region();
            self.put().end();
            self.got = None;
        }
    }

    /// The instruction that ends the block or arm that begins here.
    pub(super) fn end_of(&self, i: usize) -> usize {
        let partner = self.ops[i].partner;
        match self.ops[i].nesting {
            Nesting::Else => self.ops[partner].partner,
            _ => partner,
        }
    }

    /// The code of an instruction of the program that has labels, if they change: `own` labels of
    /// the rewriter are around the instruction itself.
    pub(super) fn relabelled(&self, i: usize, own: u32) -> Option<Vec<u8>> {
        if own == 0 && self.arms.is_empty() {
            return None;
        }
        let operator = &self.ops[i].operator;
        let frames = self.validator.control_stack_height();
        // A label of `delegate` is counted from outside of its own block.
        let frames = frames - u32::from(matches!(operator, O::Delegate { .. }));
        let leaves = |label: u32, arm: &&Arm| label + arm.around >= frames;
        let crossed = |label: u32| self.arms.iter().filter(|arm| leaves(label, arm)).count();
        let new = |label: u32| label + own + u32::try_from(crossed(label)).unwrap_or(0);
        let instruction = RoundtripReencoder.instruction(operator.clone()).ok()?;
        let mut code = Vec::new();
        with_labels(instruction, new)?.encode(&mut code);
        Some(code)
    }
}

/// An instruction with other labels, if it has some.
fn with_labels<'o>(instruction: I<'o>, new: impl Fn(u32) -> u32) -> Option<I<'o>> {
    let catch = |catch: &Catch| match *catch {
        Catch::One { tag, label } => Catch::One { tag, label: new(label) },
        Catch::OneRef { tag, label } => Catch::OneRef { tag, label: new(label) },
        Catch::All { label } => Catch::All { label: new(label) },
        Catch::AllRef { label } => Catch::AllRef { label: new(label) },
    };
    Some(match instruction {
        I::Br(label) => I::Br(new(label)),
        I::BrIf(label) => I::BrIf(new(label)),
        I::BrTable(labels, default) => {
            I::BrTable(Cow::Owned(labels.iter().map(|&label| new(label)).collect()), new(default))
        }
        I::BrOnNull(label) => I::BrOnNull(new(label)),
        I::BrOnNonNull(label) => I::BrOnNonNull(new(label)),
        I::BrOnCast { relative_depth, from_ref_type, to_ref_type } => {
            I::BrOnCast { relative_depth: new(relative_depth), from_ref_type, to_ref_type }
        }
        I::BrOnCastFail { relative_depth, from_ref_type, to_ref_type } => {
            I::BrOnCastFail { relative_depth: new(relative_depth), from_ref_type, to_ref_type }
        }
        I::TryTable(ty, catches) => {
            I::TryTable(ty, Cow::Owned(catches.iter().map(catch).collect()))
        }
        I::Delegate(label) => I::Delegate(new(label)),
        I::Rethrow(label) => I::Rethrow(new(label)),
        _ => return None,
    })
}
