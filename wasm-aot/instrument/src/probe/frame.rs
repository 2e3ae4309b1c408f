//! A probe's view of an activation.

use super::inspected::Inspected;
use super::{Mode, Place};
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::compile::Firing;
use wasm_aot_engine::instrument::runtime::identity::{self, FrameId};
use wasm_aot_engine::instrument::runtime::{Module, Val, callers};

/// Called when control reaches a site: forgets identities of deeper activations, and of this
/// frame's earlier activation if the function has just been entered.
pub(super) fn arrive(inspected: &Inspected, site: usize, frame: usize) {
    let is_entered = inspected.sites[site].mode == Mode::Entry;
    identity::forget_below(if is_entered { frame + 1 } else { frame });
}

/// Called when probes have fired: at a function's end, its identity ends.
pub(super) fn depart(inspected: &Inspected, site: usize, frame: usize) {
    if let Mode::Exit | Mode::Unwind = inspected.sites[site].mode {
        identity::forget(frame);
    }
}

/// An access to memory that the instruction makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Which memory.
    pub memory: u32,
    /// The address, before it is compared with the memory's length.
    pub address: u64,
    /// How many bytes.
    pub size: u32,
    /// Whether it loads.
    pub reads: bool,
    /// Whether it stores.
    pub writes: bool,
}

/// An activation, while a probe fires.
#[derive(Debug)]
pub struct Frame<'a> {
    module: &'a Module,
    inspected: &'a Inspected,
    site: usize,
    vmctx: usize,
    frame: usize,
    values: &'a mut [[u64; 2]],
    has_identity: bool,
}

impl<'a> Frame<'a> {
    pub(super) fn new(
        module: &'a Module,
        inspected: &'a Inspected,
        site: usize,
        firing: &'a mut Firing<'_>,
    ) -> Self {
        let (vmctx, frame) = (firing.vmctx, firing.frame);
        Self { module, inspected, site, vmctx, frame, values: firing.values, has_identity: false }
    }

    pub(super) fn without_values(
        module: &'a Module,
        inspected: &'a Inspected,
        site: usize,
    ) -> Self {
        Self { module, inspected, site, vmctx: 0, frame: 0, values: &mut [], has_identity: false }
    }

    /// The address of the instance's vmctx; 0 after a trap.
    pub(crate) fn instance(&self) -> usize {
        self.vmctx
    }

    pub(super) fn has_identity(&self) -> bool {
        self.has_identity
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        let site = &self.inspected.sites[self.site];
        Place { function: self.inspected.function, offset: site.offset, mode: site.mode }
    }

    /// The function's name as people read it.
    pub fn function_name(&self) -> String {
        self.module.inner().label(self.inspected.function)
    }

    /// The activation's identity, made when it is first asked for.
    pub fn id(&mut self) -> FrameId {
        // After a trap, the activation no longer exists for other probes.
        if self.vmctx == 0 {
            return FrameId::fresh();
        }
        self.has_identity = true;
        FrameId::at(self.frame)
    }

    /// The activations that wait for this one, the nearest first: functions, and where they are,
    /// from the beginning of their bodies.
    pub fn callers(&self) -> Vec<(u32, u32)> {
        if self.vmctx == 0 {
            return Vec::new();
        }
        let info = &self.module.inner().info;
        let from_body = |(function, at): (u32, u32)| (function, at - info.body(function).start);
        callers(self.vmctx, self.frame, usize::MAX).into_iter().map(from_body).collect()
    }

    /// How many activations wait for this one.
    pub fn depth(&self) -> usize {
        self.callers().len()
    }

    /// How many locals there are, parameters among them.
    pub fn locals(&self) -> u32 {
        if self.values.is_empty() { 0 } else { self.inspected.locals.len() as u32 }
    }

    /// A local. None if there is none, or if it is a reference that has no value outside.
    pub fn local(&self, index: u32) -> Option<Val> {
        let ty = *self.inspected.locals.get(index as usize)?;
        value(ty, *self.values.get(index as usize)?)
    }

    /// Sets a local of the program.
    pub fn set_local(&mut self, index: u32, val: &Val) -> Result<(), String> {
        let ty = *self
            .inspected
            .locals
            .get(index as usize)
            .ok_or_else(|| format!("there is no local {index}"))?;
        let bits = bits(ty, val).ok_or_else(|| format!("local {index} is of type {ty}"))?;
        *self.values.get_mut(index as usize).ok_or("there are no values any more")? = bits;
        Ok(())
    }

    /// How many operands can be seen: sixty-four at most.
    pub fn operands(&self) -> u32 {
        if self.values.is_empty() {
            0
        } else {
            self.inspected.sites[self.site].operands.len() as u32
        }
    }

    /// An operand, counted from the top of the stack.
    pub fn operand(&self, place: u32) -> Option<Val> {
        let ty = *self.inspected.sites[self.site].operands.get(place as usize)?;
        value(ty, *self.values.get(self.inspected.locals.len() + place as usize)?)
    }

    /// Sets an operand of the program, of the innermost block.
    pub fn set_operand(&mut self, place: u32, val: &Val) -> Result<(), String> {
        let operands = &self.inspected.sites[self.site].operands;
        let ty =
            *operands.get(place as usize).ok_or_else(|| format!("there is no operand {place}"))?;
        if place as usize >= self.inspected.writable(self.site) {
            return Err(format!("operand {place} belongs to a block around this one"));
        }
        let bits = bits(ty, val).ok_or_else(|| format!("operand {place} is of type {ty}"))?;
        let at = self.inspected.locals.len() + place as usize;
        *self.values.get_mut(at).ok_or("there are no values any more")? = bits;
        Ok(())
    }

    /// The access that the instruction is about to make: before it.
    pub fn access(&self) -> Option<MemoryAccess> {
        let site = &self.inspected.sites[self.site];
        let access = site.access.filter(|_| site.mode == Mode::Before)?;
        let index = match self.operand(access.index)? {
            Val::I32(index) => u64::from(index as u32),
            Val::I64(index) => index as u64,
            _ => return None,
        };
        let wasm_aot_engine::instrument::compile::Access {
            memory,
            offset,
            size,
            reads,
            writes,
            ..
        } = access;
        Some(MemoryAccess { memory, address: index.checked_add(offset)?, size, reads, writes })
    }

    /// Bytes of a memory of the instance. Empty if the range is outside, or if there is no such
    /// memory.
    pub fn read_memory(&self, memory: u32, address: u64, len: usize) -> Vec<u8> {
        match self.vmctx {
            0 => Vec::new(),
            vmctx => wasm_aot_engine::instrument::runtime::memory_of(vmctx, memory, address, len),
        }
    }
}

pub(crate) fn value(ty: ValType, [low, high]: [u64; 2]) -> Option<Val> {
    Some(match ty {
        ValType::I32 => Val::I32(low as i32),
        ValType::I64 => Val::I64(low as i64),
        ValType::F32 => Val::F32(low as u32),
        ValType::F64 => Val::F64(low),
        ValType::V128 => Val::V128(u128::from(high) << 64 | u128::from(low)),
        ValType::Ref(_) => return None,
    })
}

pub(crate) fn bits(ty: ValType, val: &Val) -> Option<[u64; 2]> {
    Some(match (ty, val) {
        (ValType::I32, Val::I32(value)) => [u64::from(*value as u32), 0],
        (ValType::I64, Val::I64(value)) => [*value as u64, 0],
        (ValType::F32, Val::F32(value)) => [u64::from(*value), 0],
        (ValType::F64, Val::F64(value)) => [*value, 0],
        (ValType::V128, Val::V128(value)) => [*value as u64, (*value >> 64) as u64],
        _ => return None,
    })
}
