//! Budgets of instructions: how much a store's code may still execute, and the instructions that a
//! trap has left uncharged.

use super::instance::InstanceData;
use super::store::{Store, StoreContextMut, StoreCore};
use crate::compile::BudgetRow;
use crate::error::Error;
use crate::trap::Trap;
use std::sync::atomic::Ordering::Relaxed;

impl StoreCore {
    /// The remaining budget, if there is one.
    fn instruction_budget(&self) -> Option<u64> {
        self.is_limited.then(|| self.cell().budget.load(Relaxed).max(0) as u64)
    }

    fn set_instruction_budget(&mut self, instructions: Option<u64>) -> Result<(), Error> {
        let is_limited = instructions.is_some();
        if let Some(instance) =
            self.instances.iter().find(|instance| is_limited && !instance.keeps_to_budgets())
        {
            return Err(instance.has_no_budget());
        }
        self.is_limited = is_limited;
        let most = instructions
            .and_then(|instructions| i64::try_from(instructions).ok())
            .unwrap_or(i64::MAX);
        self.cell().budget.store(most, Relaxed);
        Ok(())
    }

    /// Charges the instructions that a trap at `pc` has left uncharged. If the budget does not
    /// suffice, or was the trap's reason, returns the first instruction that it did not suffice
    /// for.
    pub(super) fn settle_budget(&self, trap: Trap, pc: usize) -> Option<u32> {
        let budget = &self.cell().budget;
        let (module, code, offset) = self.module_at(pc).filter(|_| self.is_limited)?;
        if code.has_not_begun(offset) || code.is_aside(offset) {
            return None;
        }
        let (defined, at) = module.instruction_at(code, offset)?;
        let function = module.info.imported.functions + defined as u32;
        let is_hooked = |offset| code.plan().has_hook_at(function, offset);
        let unpaid = BudgetRow::of(&module.body(defined), at, module.options.frames, is_hooked)?;
        if trap != Trap::Budget && !unpaid.is_due {
            budget.fetch_sub(unpaid.row.len() as i64, Relaxed);
        }
        let missing = budget.load(Relaxed).checked_neg().filter(|missing| *missing > 0)?;
        budget.store(0, Relaxed);
        let first = unpaid.row.len().saturating_sub(missing as usize);
        let first = unpaid.row.get(first).copied()?;
        module.partial_exits.correct(pc, defined, first);
        Some(first)
    }
}

impl InstanceData {
    /// The error for code that does not keep to a budget.
    pub(super) fn has_no_budget(&self) -> Error {
        no_budget(self.module.info.name.as_deref())
    }
}

/// Why a module is not executed in a store that has a budget.
pub(super) fn no_budget(name: Option<&str>) -> Error {
    let name = crate::error::Printable(name.unwrap_or("<module>"));
    Error::Link(format!(
        "the store has a budget of instructions, and {name} was compiled to keep to none (see Config::instruction_budgets)"
    ))
}

impl<T> Store<T> {
    /// Has code of this store trap with [`Trap::Budget`] when it has executed this many more
    /// instructions, or never. An instruction counts when it begins, as in
    /// [`Counts`](crate::Counts); the instruction after the last does not begin. Code has to be
    /// compiled for that, see [`Config::instruction_budgets`](crate::Config::instruction_budgets).
    pub fn set_instruction_budget(&mut self, instructions: Option<u64>) -> Result<(), Error> {
        self.core_mut().set_instruction_budget(instructions)
    }

    /// How many more instructions code of this store may execute, if there is a budget.
    pub fn instruction_budget(&self) -> Option<u64> {
        self.core().instruction_budget()
    }
}

impl<T> StoreContextMut<'_, T> {
    /// Sets another budget for code of this store, see [`Store::set_instruction_budget`].
    pub fn set_instruction_budget(&mut self, instructions: Option<u64>) -> Result<(), Error> {
        self.core().set_instruction_budget(instructions)
    }

    /// How many more instructions code of this store may execute, if there is a budget.
    pub fn instruction_budget(&mut self) -> Option<u64> {
        self.core().instruction_budget()
    }
}
