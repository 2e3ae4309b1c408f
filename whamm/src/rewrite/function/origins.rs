//! Origins of operands: some operands are known to be the value of one of the program's locals
//! still.
//!
//! Such an operand need not be saved for a probe that reads it later: the local is read again,
//! until it is set. The instructions between the push of a value and its use also lie between them
//! in the code, so one pass in order sees every change.

use super::*;

/// The origins of the operands on the stack.
#[derive(Default)]
pub(super) struct Origins {
    /// Whether operands are tracked: only if no probe changes values.
    pub(super) followed: bool,
    /// The local whose value each operand is.
    pub(super) stack: Vec<Option<u32>>,
}

impl Origins {
    pub(super) fn of(probes: &[Probe]) -> Self {
        let followed = probes.iter().all(|probe| {
            probe.body.assigned.is_empty() && !probe.matched.mode.name().contains("alt")
        });
        Self { followed, stack: vec![] }
    }
}

impl Walker<'_, '_> {
    /// The local of which an operand is the value, by its number from the top.
    pub(super) fn origin(&self, operand: u8) -> Option<u32> {
        let below_top = self.origins.stack.len().checked_sub(1 + usize::from(operand))?;
        self.origins.stack[below_top]
    }

    /// Validates an instruction, and updates the origins.
    pub(super) fn validated(&mut self, i: usize) -> Result<(), wasmparser::Error> {
        let operator = self.ops[i].operator.clone();
        let taken = operator.operator_arity(&self.validator).map(|arity| arity.0 as usize);
        self.validator.op(self.ops[i].offset.into(), &operator)?;
        if self.origins.followed {
            self.follow(&operator, taken);
        }
        Ok(())
    }

    fn follow(&mut self, operator: &O<'_>, taken: Option<usize>) {
        if let O::LocalSet { local_index } | O::LocalTee { local_index } = operator {
            self.origins
                .stack
                .iter_mut()
                .filter(|origin| **origin == Some(*local_index))
                .for_each(|origin| *origin = None);
        }
        let height = self.validator.operand_stack_height() as usize;
        let left = taken.map_or(0, |taken| self.origins.stack.len().saturating_sub(taken));
        self.origins.stack.truncate(left.min(height));
        self.origins.stack.resize(height, None);
        if let (O::LocalGet { local_index } | O::LocalTee { local_index }, Some(top)) =
            (operator, self.origins.stack.last_mut())
        {
            *top = Some(*local_index);
        }
    }
}
