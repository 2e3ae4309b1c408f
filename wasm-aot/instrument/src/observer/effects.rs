//! Effect summaries: finds monitor functions that only add constants to cells of their memory, or
//! set them, so that their effect follows from how often they would have been called.
//!
//! If all of a monitor's functions are of this kind, no reader can distinguish whether its cells
//! change at once or just before they are read. So its functions are not called at all, see
//! `virtual_probes.rs`.
//!
//! A function that is given the operand of a branch may do something else for each way of the
//! branch, as each way is counted, too. It is evaluated once for each way, with what is known of
//! the operand there.

use super::binding::{Argument, Binding, BoundMode};
use std::collections::BTreeMap;
use wasm_aot_body::Ways;
use wasm_aot_engine::instrument::compile::Guest;
use wasm_aot_engine::instrument::module::Space;
use wasm_aot_engine::instrument::vm::Cell;
use wasmparser::{
    BinaryReader, FunctionBody, MemArg, MemArgTarget, Operator as O, OperatorsReader,
};

/// What a call does to cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellEffects {
    pub(crate) additions: Vec<(Cell, i64)>,
    /// The constants that cells are set to, whatever they held.
    pub(crate) settings: Vec<(Cell, i64)>,
}

impl CellEffects {
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> {
        self.additions.iter().chain(&self.settings).map(|(cell, _)| *cell)
    }
}

/// A value during the symbolic evaluation of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Number(i64),
    /// A cell's initial value plus a constant.
    Sum(Cell, i64),
    /// Some number of 32 bits except zero.
    NotZero,
    /// Some unsigned number of 32 bits that is at least this large.
    AtLeast(u32),
}

/// What is known of the operand for each way of a branch, in the order of
/// [`BranchCount`](wasm_aot_engine::BranchCount).
fn ways(operator: &O<'_>) -> Option<Vec<Value>> {
    match operator {
        O::If { .. } | O::BrIf { .. } => Some(vec![Value::Number(0), Value::NotZero]),
        O::BrTable { targets } if Ways::of(targets) == Ways::ByEntry => {
            let entries = (0..targets.len()).map(|entry| Value::Number(entry.into()));
            Some(entries.chain([Value::AtLeast(targets.len())]).collect())
        }
        _ => None,
    }
}

/// The effect of calls that only add constants to cells and set cells.
#[derive(Debug, PartialEq)]
pub(crate) enum EffectSummary {
    /// The same each time.
    Always(CellEffects),
    /// The first call removes the probe.
    Once(CellEffects),
    /// An effect for each way of the instruction, which is a branch whose operand is passed.
    ByWay(Vec<CellEffects>),
}

/// The effect of calls, if they have no other. `program` is the module in which the instruction is.
pub(crate) fn summary(guest: &Guest, binding: &Binding, program: &[u8]) -> Option<EffectSummary> {
    if ![BoundMode::ENTRY, BoundMode::BEFORE].contains(&binding.bound_mode) {
        return None;
    }
    if !binding.arguments.contains(&Argument::Operand(0)) {
        let (effects, goes) = follow(guest, binding, None)?;
        return Some(if goes {
            EffectSummary::Once(effects)
        } else {
            EffectSummary::Always(effects)
        });
    }
    let instruction =
        BinaryReader::new(program.get(binding.offset as usize..)?, binding.offset.into());
    let operator = OperatorsReader::new(instruction)
        .read()
        .ok()
        .filter(|_| binding.bound_mode == BoundMode::BEFORE)?;
    let way = |operand| {
        follow(guest, binding, Some(operand)).filter(|(_, goes)| !goes).map(|(effects, _)| effects)
    };
    ways(&operator)?.into_iter().map(way).collect::<Option<_>>().map(EffectSummary::ByWay)
}

/// Evaluates a function that is called with an operand of which this much is known; also returns
/// whether it removes its probe.
fn follow(guest: &Guest, binding: &Binding, operand: Option<Value>) -> Option<(CellEffects, bool)> {
    let info = &guest.info();
    let range = info.bodies.get(binding.function.checked_sub(info.imported.functions)? as usize)?;
    let bytes = guest.module.bytes().get(range.start as usize..range.end as usize)?;
    let body = FunctionBody::new(BinaryReader::new(bytes, u64::from(range.start)));
    let value = |argument: &Argument| match argument {
        Argument::I32(value) => Some(Value::Number(i64::from(*value))),
        Argument::I64(value) => Some(Value::Number(*value)),
        Argument::Operand(0) => operand,
        _ => None,
    };
    let mut locals = binding.arguments.iter().map(value).collect::<Option<Vec<_>>>()?;
    for declared in body.get_locals_reader().ok()? {
        let (count, ty) = declared.ok()?;
        if !matches!(ty, wasmparser::ValType::I32 | wasmparser::ValType::I64) || count > LOCALS {
            return None;
        }
        locals.extend((0..count).map(|_| Value::Number(0)));
    }
    let (stack, sums, settings) = Default::default();
    let mut follower = Follower {
        guest,
        probe: binding.id,
        locals,
        stack,
        sums,
        settings,
        goes: false,
        open: 0,
        passed: None,
    };
    for operator in body.get_operators_reader().ok()? {
        follower.step(&operator.ok()?)?;
    }
    let Follower { sums, settings, goes, .. } = follower;
    Some((
        CellEffects {
            additions: sums.into_iter().collect(),
            settings: settings.into_iter().collect(),
        },
        goes,
    ))
}

/// Functions that have more variables than that are not evaluated.
const LOCALS: u32 = 16;

struct Follower<'g> {
    guest: &'g Guest,
    /// The identity of the probe.
    probe: u32,
    locals: Vec<Value>,
    stack: Vec<Value>,
    /// By how much cells exceed their initial values, and what others were set to.
    sums: BTreeMap<Cell, i64>,
    settings: BTreeMap<Cell, i64>,
    /// Whether the probe was removed.
    goes: bool,
    /// How many blocks and conditions are open.
    open: u32,
    /// While a side of a condition is skipped: how many blocks are open in it.
    passed: Option<u32>,
}

impl Follower<'_> {
    /// Evaluates an instruction, if possible.
    fn step(&mut self, operator: &O<'_>) -> Option<()> {
        if let Some(within) = self.passed {
            self.passed = match (operator, within) {
                (O::If { .. } | O::Block { .. } | O::Loop { .. }, _) => Some(within + 1),
                (O::Else | O::End, 0) => None,
                (O::End, _) => Some(within - 1),
                _ => Some(within),
            };
            // The end of the side is the end of the condition.
            self.open -= u32::from(self.passed.is_none() && matches!(operator, O::End));
            return Some(());
        }
        let value = match operator {
            O::LocalGet { local_index } => *self.locals.get(*local_index as usize)?,
            O::LocalSet { local_index } => return self.assign(*local_index),
            O::LocalTee { local_index } => {
                let value = *self.stack.last()?;
                self.assign(*local_index)?;
                value
            }
            O::I32Const { value } => Value::Number(i64::from(*value)),
            O::I64Const { value } => Value::Number(*value),
            O::I32Add | O::I64Add => self.sum(1)?,
            O::I32Sub | O::I64Sub => self.sum(-1)?,
            O::I32Shl => self.shifted()?,
            O::I32Eqz => Value::Number((!self.truth()?).into()),
            O::I32Eq => Value::Number(self.equal()?.into()),
            O::I32Ne => Value::Number((!self.equal()?).into()),
            O::I32LtU => Value::Number(self.less()?.into()),
            O::Select => {
                let (condition, no, yes) = (self.truth()?, self.stack.pop()?, self.stack.pop()?);
                if condition { yes } else { no }
            }
            O::I32Load { memarg } => self.held(memarg, false)?,
            O::I64Load { memarg } => self.held(memarg, true)?,
            O::GlobalGet { global_index } => self.known(self.global(*global_index)?),
            O::I32Store { memarg } => return self.keep(Some(memarg), false, None),
            O::I64Store { memarg } => return self.keep(Some(memarg), true, None),
            O::GlobalSet { global_index } => return self.keep(None, false, Some(*global_index)),
            O::Call { function_index } => return self.call(*function_index),
            O::Block { .. } => {
                self.open += 1;
                return Some(());
            }
            O::If { .. } => {
                let is_true = self.truth()?;
                self.open += 1;
                self.passed = (!is_true).then_some(0);
                return Some(());
            }
            O::Else => {
                self.passed = Some(0);
                return Some(());
            }
            O::End if self.open > 0 => {
                self.open -= 1;
                return Some(());
            }
            O::End => return self.stack.is_empty().then_some(()),
            _ => return None,
        };
        self.stack.push(value);
        Some(())
    }

    fn assign(&mut self, local: u32) -> Option<()> {
        *self.locals.get_mut(local as usize)? = self.stack.pop()?;
        Some(())
    }

    /// Whether the number on the stack, which has 32 bits, is not zero.
    fn truth(&mut self) -> Option<bool> {
        match self.stack.pop()? {
            Value::Number(number) => Some(number as i32 != 0),
            Value::NotZero => Some(true),
            Value::AtLeast(least) => (least > 0).then_some(true),
            Value::Sum(..) => None,
        }
    }

    fn equal(&mut self) -> Option<bool> {
        match (self.stack.pop()?, self.stack.pop()?) {
            (Value::Number(a), Value::Number(b)) => Some(a as i32 == b as i32),
            (Value::NotZero, Value::Number(b)) | (Value::Number(b), Value::NotZero)
                if b as i32 == 0 =>
            {
                Some(false)
            }
            (Value::AtLeast(a), Value::Number(b)) | (Value::Number(b), Value::AtLeast(a))
                if (b as u32) < a =>
            {
                Some(false)
            }
            _ => None,
        }
    }

    fn less(&mut self) -> Option<bool> {
        let (right, left) = (self.stack.pop()?, self.stack.pop()?);
        match (left, right) {
            (Value::Number(a), Value::Number(b)) => Some((a as u32) < b as u32),
            (Value::AtLeast(a), Value::Number(b)) if b as u32 <= a => Some(false),
            _ => None,
        }
    }

    fn shifted(&mut self) -> Option<Value> {
        match (self.stack.pop()?, self.stack.pop()?) {
            (Value::Number(by), Value::Number(number)) => {
                Some(Value::Number(i64::from((number as i32).wrapping_shl(by as u32))))
            }
            _ => None,
        }
    }

    fn sum(&mut self, sign: i64) -> Option<Value> {
        let (right, left) = (self.stack.pop()?, self.stack.pop()?);
        Some(match (left, right) {
            (Value::Number(a), Value::Number(b)) => {
                Value::Number(a.wrapping_add(sign.wrapping_mul(b)))
            }
            (Value::Sum(cell, a), Value::Number(b)) => {
                Value::Sum(cell, a.wrapping_add(sign.wrapping_mul(b)))
            }
            (Value::Number(a), Value::Sum(cell, b)) if sign > 0 => {
                Value::Sum(cell, a.wrapping_add(b))
            }
            _ => return None,
        })
    }

    fn held(&mut self, memarg: &MemArg, wide: bool) -> Option<Value> {
        let cell = self.memory(memarg, wide)?;
        Some(self.known(cell))
    }

    fn known(&self, cell: Cell) -> Value {
        match self.settings.get(&cell) {
            Some(value) => Value::Number(*value),
            None => Value::Sum(cell, self.sums.get(&cell).copied().unwrap_or_default()),
        }
    }

    /// The host's function that removes a probe, if the probe is the calling one.
    fn call(&mut self, function: u32) -> Option<()> {
        let imports = &self.guest.info().imports;
        let import = imports
            .iter()
            .find(|import| import.space == Space::Func && import.index == function)?;
        let is_own =
            matches!(self.stack.pop()?, Value::Number(probe) if probe as u32 == self.probe);
        self.goes = true;
        ((import.module.as_str(), import.name.as_str()) == ("whamm:dyninstr", "remove_probe")
            && is_own)
            .then_some(())
    }

    /// The cell whose address is on the stack.
    fn memory(&mut self, memarg: &MemArg, wide: bool) -> Option<Cell> {
        let (Value::Number(base), MemArgTarget::Memory(memory)) =
            (self.stack.pop()?, memarg.target)
        else {
            return None;
        };
        let address = match self.guest.info().memories.get(memory as usize)?.wide {
            true => base.cast_unsigned(),
            false => u64::from(base as u32),
        };
        Some(Cell::Memory { memory, address: address.checked_add(memarg.offset)?, wide })
    }

    fn global(&self, index: u32) -> Option<Cell> {
        use wasm_aot_engine::ValType;
        let ty = self.guest.info().globals.get(index as usize)?;
        match ty.content {
            ValType::I32 => Some(Cell::Global { index, wide: false }),
            ValType::I64 => Some(Cell::Global { index, wide: true }),
            _ => None,
        }
    }

    /// Assigns to a cell: its initial value plus a constant, or a constant.
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
            Value::Number(value) => {
                self.sums.remove(&cell);
                self.settings.insert(cell, value);
                Some(())
            }
            _ => None,
        }
    }
}

/// Whether cells are equal or lie beside each other, all of them in memories of these sizes.
pub(crate) fn are_apart(cells: impl Iterator<Item = Cell>, sizes: &[usize]) -> bool {
    let mut cells: Vec<Cell> = cells.collect();
    cells.sort_unstable();
    cells.dedup();
    let mut ends = vec![0; sizes.len()];
    let mut places: Vec<(u32, u64, u64)> = Vec::new();
    for cell in cells {
        if let Cell::Memory { memory, address, wide } = cell {
            places.push((memory, address, if wide { 8 } else { 4 }));
        }
    }
    places.sort_unstable();
    places.into_iter().all(|(memory, address, size)| {
        let (Some(end), Some(len)) = (ends.get_mut(memory as usize), sizes.get(memory as usize))
        else {
            return false;
        };
        let is_apart = *end <= address;
        let Some(next) = address.checked_add(size) else { return false };
        *end = next;
        is_apart && next <= *len as u64
    })
}
