//! Reports to an observer, as it happens, every call and value that crosses between programs and
//! their host.
//!
//! The observer sees calls in both directions with their values, and the host's changes of
//! memories, tables and globals by way of this crate. A memory that the host may write to through a
//! slice or a pointer is *lent*: the observer compares it when control returns to the program. A
//! store that is not observed pays one comparison for each call across the boundary.
//!
//! # Safety
//!
//! This module exists to read the values that cross, as values of their types.
#![allow(unsafe_code)]

use super::backtrace;
use super::function::Func;
use super::handle::{Extern, Global, Memory, Table};
use super::instance::{Instance, InstanceData};
use super::module::ModuleInner;
use super::store::{Demand, Store, StoreContextMut, StoreCore};
use super::value::Val;
use crate::error::Error;
use crate::module::Space;
use crate::registry;
use crate::types::{ExternType, MemoryType, TableType};
use std::fmt;

/// An event at the boundary between a program and its host.
#[derive(Debug)]
pub enum Crossing<'a> {
    /// An instance has been made; its start function, if it has one, is called next.
    Begins(Instance),
    /// The host calls a function.
    Enters(Callee, &'a [Val]),
    /// That call ends.
    Leaves(Callee, Result<&'a [Val], &'a Error>),
    /// An instance calls a function of the host.
    Calls(Call, &'a [Val]),
    /// That call ends.
    Returns(Call, Result<&'a [Val], &'a Error>),
    /// The host has written to a memory, from an address on.
    Writes(Memory, u64, &'a [u8]),
    /// The host receives a memory, to which it may write until control returns; its bytes at the
    /// moment.
    Lends(Memory, &'a [u8]),
    /// The host has grown a memory by this many pages.
    Grows(Memory, u64),
    /// The host has set a global.
    Sets(Global, Val),
    /// The host has replaced an element of a table.
    Replaces(Table, u64, Val),
    /// The host has grown a table by this many elements.
    GrowsTable(Table, u64, Val),
    /// The program cannot grow a memory or a table to this size, although its type allows that:
    /// because of a limit, or of what the machine has.
    CannotGrow(Extern, u64),
}

/// The function that the host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function of which the host has a handle.
    Function(Func),
    /// The start function of an instance.
    Start(Instance),
}

/// A call of the host: by which instance, and of which function.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The instance, if it imports the function.
    pub instance: Option<Instance>,
    /// The function's index there.
    pub import: u32,
    /// The function.
    pub function: Func,
}

/// An observer of the boundary. The program waits while it is notified; it changes nothing.
pub trait Boundary: fmt::Debug + Send {
    /// Receives an event at the boundary.
    fn crosses(&mut self, store: StoreContextMut<'_, ()>, crossing: Crossing<'_>);
}

impl StoreCore {
    /// Whether an observer is set.
    pub fn is_observed(&self) -> bool {
        self.boundary.is_some()
    }

    /// Notifies the observer of an event, if there is one.
    pub(crate) fn cross(&mut self, crossing: Crossing<'_>) {
        // The observer is not notified of its own actions.
        if let Some(mut boundary) = self.boundary.take() {
            // SAFETY: (1) what an observer is given has no data; (2) it exists until the observer
            // returns.
            boundary.crosses(unsafe { StoreContextMut::from_core(self) }, crossing);
            self.boundary.get_or_insert(boundary);
        }
    }

    /// Notifies the observer that an instance cannot grow an item of its own, unless the item's
    /// type is the reason.
    pub(super) fn cannot_grow(
        &mut self,
        instance: &InstanceData,
        (space, index): (Space, u32),
        demand: Demand,
    ) {
        if !self.is_observed() {
            return;
        }
        let item = instance.item(self, space, index);
        let most = match item.ty_in(self) {
            Ok(ExternType::Memory(MemoryType { wide: false, .. })) => 1 << 16,
            Ok(ExternType::Table(TableType { wide: false, .. })) => u64::from(u32::MAX),
            _ => u64::MAX,
        };
        if demand.wanted <= demand.maximum.unwrap_or(most).min(most) {
            self.cross(Crossing::CannotGrow(item, demand.wanted));
        }
    }

    /// Values as an observer sees them.
    ///
    /// # Safety
    /// They are of those types, and of this store.
    pub(crate) unsafe fn seen(&self, raw: &[u128], types: &[crate::types::ValType]) -> Vec<Val> {
        // SAFETY: (1) the caller, see # Safety.
        raw.iter().zip(types).map(|(raw, ty)| unsafe { Val::from_raw(*raw, *ty, self) }).collect()
    }

    /// The call instructions that wait for the host, innermost first, in the current activation:
    /// module, function and offset, each once. Nothing if some of them are not known.
    pub fn calls_that_wait(&self) -> Option<Vec<(&ModuleInner, u32, u32)>> {
        let mut calls: Vec<(&ModuleInner, u32, u32)> = Vec::new();
        for pc in backtrace::activation(self) {
            let frame = self.frame_info(pc - 1, &mut super::source::Sources::default());
            // Where the host enters machine code, the frame has no function.
            let (Some(frame), Some((module, ..))) = (frame, self.module_at(pc - 1)) else {
                continue;
            };
            let call = (module, frame.function, frame.offset?);
            let is_known = calls.iter().any(|(module, function, offset)| {
                std::ptr::eq(*module, call.0) && (*function, *offset) == (call.1, call.2)
            });
            if !frame.aside && !is_known {
                calls.push(call);
            }
        }
        Some(calls)
    }
}

impl<T> Store<T> {
    /// Sets the observer that is notified of all events between programs of this store and the
    /// host. A store has at most one.
    pub fn observe_boundary(&mut self, boundary: Option<Box<dyn Boundary>>) {
        self.core_mut().boundary = boundary;
    }
}

impl<T> StoreContextMut<'_, T> {
    /// The store as an observer of the boundary receives it, without its data.
    pub fn without_data(&mut self) -> StoreContextMut<'_, ()> {
        // SAFETY: (1) what is given out has no data; (2) it borrows this one.
        unsafe { StoreContextMut::from_core(self.core()) }
    }

    /// Notifies an observer of the boundary that the host has written to a memory whose bytes the
    /// host has by [`Memory::announced_extent`].
    pub fn wrote(&mut self, memory: Memory, address: u64, len: u64) {
        let core = self.core();
        if !core.is_observed() {
            return;
        }
        let Ok((base, whole)) = memory.extent_in(core) else { return };
        let Some(end) = address.checked_add(len).filter(|end| *end <= whole as u64) else { return };
        // SAFETY: (1) within the memory; (2) the program waits, and so does the host.
        let bytes = unsafe {
            std::slice::from_raw_parts(base.add(address as usize), (end - address) as usize)
        };
        core.cross(Crossing::Writes(memory, address, bytes));
    }
}

impl Memory {
    /// Its bytes, for an observer; none if threads share it.
    pub fn contents<'a>(&self, core: &'a mut StoreCore) -> Option<&'a [u8]> {
        let (base, len) = self.extent_in(core).ok()?;
        // SAFETY: (1) the memory's own bytes; (2) the store is borrowed, and with it code of it.
        core.memories[self.index]
            .shared()
            .is_none()
            .then(|| unsafe { std::slice::from_raw_parts(base, len) })
    }
}

impl Instance {
    /// The index of an item in this instance.
    pub fn index_of(&self, core: &StoreCore, item: Extern) -> Option<u32> {
        let data = self.data(core)?;
        let position = |list: &[usize], own: usize| list.iter().position(|id| *id == own);
        let index = match item {
            Extern::Func(function) => {
                let info = &data.module.info;
                let first = data.base() + data.module.layout.reference(0) as usize;
                let place =
                    function.address().checked_sub(first)? / size_of::<crate::vm::FuncRef>();
                return info.referenced.get(place).copied();
            }
            Extern::Memory(memory) => position(&data.memories, memory.index),
            Extern::Table(table) => position(&data.tables, table.index),
            Extern::Global(global) => position(&data.globals, global.index),
            Extern::Tag(tag) => position(&data.tags, tag.index),
        };
        index.map(|index| index as u32)
    }

    /// An item of this instance by its index. Of functions, only those with references.
    pub fn item_at(&self, core: &StoreCore, space: Space, index: u32) -> Option<Extern> {
        let data = self.data(core)?;
        let at = index as usize;
        let is_there = match space {
            Space::Func => data.module.info.reference_of(index).is_some(),
            Space::Memory => at < data.memories.len(),
            Space::Table => at < data.tables.len(),
            Space::Global => at < data.globals.len(),
            Space::Tag => at < data.tags.len(),
        };
        is_there.then(|| data.item(core, space, index))
    }

    /// The functions that it imports from other instances: calls of them do not cross.
    pub fn imports_from_instances(&self, core: &StoreCore) -> Vec<u32> {
        let Some(data) = self.data(core) else { return Vec::new() };
        (0..data.module.info.imported.functions)
            .filter(|index| !data.imports_host(*index))
            .collect()
    }

    /// Whether it is one of that module.
    pub fn is_of_module(&self, core: &StoreCore, module: &super::module::Module) -> bool {
        self.data(core).is_some_and(|data| std::sync::Arc::ptr_eq(&data.module, &module.inner))
    }
}

/// Notifies the observer of a call into machine code, and of its end.
///
/// # Safety
/// `values` are of the function's type and there is room for its results; `enter` calls it.
pub(super) unsafe fn entered(
    store: &mut StoreCore,
    callee: Callee,
    ty: registry::TypeId,
    values: *mut u128,
    enter: impl FnOnce(&mut StoreCore) -> Result<(), Error>,
) -> Result<(), Error> {
    let ty = registry::look_up(ty);
    let seen = |store: &StoreCore, types: &[crate::types::ValType]| {
        // SAFETY: (1) the caller, see # Safety.
        unsafe { store.seen(std::slice::from_raw_parts(values, types.len()), types) }
    };
    let args = seen(store, ty.params());
    store.cross(Crossing::Enters(callee, &args));
    let done = enter(store);
    let results = if done.is_ok() { seen(store, ty.results()) } else { Vec::new() };
    store.cross(Crossing::Leaves(callee, done.as_ref().map(|()| &results[..])));
    done
}
