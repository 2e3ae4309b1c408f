//! Functions that only add constants to cells of their monitor's: what they add up to follows from how often they would have been called.
//!
//! If that is all that a monitor does while the program runs, nobody can tell whether its cells are added to at once or before somebody looks at them. So
//! its functions are not called at all: the program's code counts what has to be counted anyway ([`Counts`](crate::Counts)), and before the
//! report each cell is given its sum.

use super::binding::{Argument, Binding, Moment};
use crate::compile::Guest;
use std::collections::BTreeMap;
use wasmparser::{BinaryReader, FunctionBody, MemArg, MemArgTarget, Operator as O};

/// A number that a monitor keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Global {
        index: u32,
        wide: bool,
    },
    Memory {
        memory: u32,
        address: u64,
        /// Whether it has 64 bits.
        wide: bool,
    },
}

/// What is added to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    pub(crate) cell: Cell,
    pub(crate) by: i64,
}

/// A value while a function is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Number(i64),
    /// What a cell held at first, and something more.
    Sum(Cell, i64),
}

/// What a call adds, if that is all it does.
pub(crate) fn additions(guest: &Guest, binding: &Binding) -> Option<Vec<Addition>> {
    if !matches!(binding.moment, Moment::Entry | Moment::Before | Moment::Landed) {
        return None;
    }
    let info = &guest.module.info;
    let range = info.bodies.get(binding.function.checked_sub(info.imported.functions)? as usize)?;
    let bytes = guest.module.bytes.get(range.start as usize..range.end as usize)?;
    let body = FunctionBody::new(BinaryReader::new(bytes, u64::from(range.start)));
    let number = |argument: &Argument| match argument {
        Argument::I32(value) => Some(Value::Number(i64::from(*value))),
        Argument::I64(value) => Some(Value::Number(*value)),
        _ => None,
    };
    let locals = binding.arguments.iter().map(number).collect::<Option<Vec<_>>>()?;
    let mut follower = Follower { guest, locals, stack: Vec::new(), sums: BTreeMap::new() };
    if body.get_locals_reader().ok()?.get_count() > 0 {
        return None;
    }
    for operator in body.get_operators_reader().ok()?.into_iter() {
        follower.step(&operator.ok()?)?;
    }
    let sums = follower.sums.into_iter().map(|(cell, by)| Addition { cell, by });
    Some(sums.collect())
}

struct Follower<'g> {
    guest: &'g Guest,
    locals: Vec<Value>,
    stack: Vec<Value>,
    sums: BTreeMap<Cell, i64>,
}

impl Follower<'_> {
    /// Follows an instruction, if it can be.
    fn step(&mut self, operator: &O<'_>) -> Option<()> {
        let value = match operator {
            O::LocalGet { local_index } => *self.locals.get(*local_index as usize)?,
            O::I32Const { value } => Value::Number(i64::from(*value)),
            O::I64Const { value } => Value::Number(*value),
            O::I32Add | O::I64Add => self.sum(1)?,
            O::I32Sub | O::I64Sub => self.sum(-1)?,
            O::I32Load { memarg } => self.held(memarg, false)?,
            O::I64Load { memarg } => self.held(memarg, true)?,
            O::GlobalGet { global_index } => self.known(self.global(*global_index)?),
            O::I32Store { memarg } => return self.keep(Some(memarg), false, None),
            O::I64Store { memarg } => return self.keep(Some(memarg), true, None),
            O::GlobalSet { global_index } => return self.keep(None, false, Some(*global_index)),
            O::End => return self.stack.is_empty().then_some(()),
            _ => return None,
        };
        self.stack.push(value);
        Some(())
    }

    fn sum(&mut self, sign: i64) -> Option<Value> {
        let (right, left) = (self.stack.pop()?, self.stack.pop()?);
        Some(match (left, right) {
            (Value::Number(a), Value::Number(b)) => Value::Number(a.wrapping_add(sign.wrapping_mul(b))),
            (Value::Sum(cell, a), Value::Number(b)) => Value::Sum(cell, a.wrapping_add(sign.wrapping_mul(b))),
            (Value::Number(a), Value::Sum(cell, b)) if sign > 0 => Value::Sum(cell, a.wrapping_add(b)),
            _ => return None,
        })
    }

    fn held(&mut self, memarg: &MemArg, wide: bool) -> Option<Value> {
        let cell = self.memory(memarg, wide)?;
        Some(self.known(cell))
    }

    fn known(&self, cell: Cell) -> Value {
        Value::Sum(cell, self.sums.get(&cell).copied().unwrap_or_default())
    }

    /// The cell whose address is on the stack.
    fn memory(&mut self, memarg: &MemArg, wide: bool) -> Option<Cell> {
        let (Value::Number(base), MemArgTarget::Memory(memory)) = (self.stack.pop()?, memarg.target) else { return None };
        let address = match self.guest.module.info.memories.get(memory as usize)?.wide {
            true => base.cast_unsigned(),
            false => u64::from(base as u32),
        };
        Some(Cell::Memory { memory, address: address.checked_add(memarg.offset)?, wide })
    }

    fn global(&self, index: u32) -> Option<Cell> {
        use crate::types::ValType;
        let ty = self.guest.module.info.globals.get(index as usize)?;
        match ty.content {
            ValType::I32 => Some(Cell::Global { index, wide: false }),
            ValType::I64 => Some(Cell::Global { index, wide: true }),
            _ => None,
        }
    }

    /// A cell is given another value, which has to be its own and something more.
    fn keep(&mut self, memarg: Option<&MemArg>, wide: bool, global: Option<u32>) -> Option<()> {
        let value = self.stack.pop()?;
        let cell = match (memarg, global) {
            (Some(memarg), _) => self.memory(memarg, wide)?,
            (None, Some(index)) => self.global(index)?,
            (None, None) => return None,
        };
        match value {
            Value::Sum(of, by) if of == cell => {
                self.sums.insert(cell, by);
                Some(())
            }
            _ => None,
        }
    }
}

/// Whether cells are equal or lie beside each other, all of them in memories of these sizes.
pub(crate) fn are_apart(cells: &mut Vec<Cell>, sizes: &[usize]) -> bool {
    cells.sort_unstable();
    cells.dedup();
    let mut ends = vec![0; sizes.len()];
    let mut places: Vec<(u32, u64, u64)> = Vec::new();
    for cell in cells.iter() {
        if let Cell::Memory { memory, address, wide } = *cell {
            places.push((memory, address, if wide { 8 } else { 4 }));
        }
    }
    places.sort_unstable();
    places.into_iter().all(|(memory, address, size)| {
        let (Some(end), Some(len)) = (ends.get_mut(memory as usize), sizes.get(memory as usize)) else { return false };
        let is_apart = *end <= address;
        let Some(next) = address.checked_add(size) else { return false };
        *end = next;
        is_apart && next <= *len as u64
    })
}
