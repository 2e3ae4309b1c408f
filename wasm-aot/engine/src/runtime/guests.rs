//! Instances whose functions are compiled into other modules' code: all their addresses are known
//! when they are compiled.
//!
//! # Safety
//!
//! This module exists to read an instance's imports from its vmctx, and the contents of tables and
//! references.
#![allow(unsafe_code)]

use super::function::Func;
use super::instance::{Instance, InstanceData};
use super::module::ModuleInner;
use super::store::StoreCore;
use crate::compile::{Calls, Guest, Import, Linked};
use crate::module::Space;
use crate::vm::{self, Cell};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wasmparser::Operator;

/// The module that activations' slots are imported from.
const SLOTS: &str = "wasm-aot:ext";

/// Makes guests of instances; each once.
#[derive(Debug)]
pub struct Guests {
    known: HashMap<usize, Arc<Guest>>,
    calls: Calls,
    /// Whether each thread has instances of its own.
    are_several: bool,
}

impl Guests {
    /// Makes guests that are called in this way, with one instance each, or several.
    pub fn new(calls: Calls, are_several: bool) -> Self {
        Self { known: HashMap::new(), calls, are_several }
    }

    /// An instance of the store as a guest, and those that it imports functions from.
    pub fn of(&mut self, core: &StoreCore, instance: &Instance, number: u32) -> Option<Arc<Guest>> {
        Some(self.made(core, instance.data(core)?, number))
    }

    fn made(&mut self, core: &StoreCore, data: &InstanceData, number: u32) -> Arc<Guest> {
        if let Some(known) = self.known.get(&data.base()) {
            return Arc::clone(known);
        }
        data.looks_on.set(true);
        let info = &data.module.info;
        let is_one = !self.are_several;
        let base = |memory: &usize| {
            let memory = &core.memories[*memory];
            (memory.is_reserved() && is_one).then(|| memory.extent().0 as usize)
        };
        let functions = info.imports.iter().filter(|import| import.space == Space::Func);
        let imports =
            functions.map(|import| self.import(core, data, import, number)).collect::<Vec<_>>();
        let guest = Arc::new(Guest {
            module: Arc::clone(&data.module) as Arc<dyn Linked>,
            vmctx: is_one.then(|| data.base()),
            bases: data.memories.iter().map(base).collect(),
            framed: framed(data, &imports),
            imports,
            calls: self.calls,
            number,
        });
        self.known.insert(data.base(), Arc::clone(&guest));
        guest
    }

    fn import(
        &mut self,
        core: &StoreCore,
        data: &InstanceData,
        import: &crate::module::Import,
        number: u32,
    ) -> Import {
        if import.module == SLOTS {
            return match import.name.as_str() {
                name if name.starts_with("frame_get_") => Import::ReadSlot,
                name if name.starts_with("frame_set_") => Import::WriteSlot,
                _ => Import::Other,
            };
        }
        let at = data.base() + data.module.layout.function(import.index) as usize;
        // SAFETY: (1) an instance that was made has its imports in its vmctx, at the layout's
        // offsets.
        let given = unsafe { *(at as *const vm::FuncImport) };
        let Some(owner) = core.instances.iter().find(|other| other.base() == given.vmctx as usize)
        else {
            return Import::Other;
        };
        match owner.module.function_of_code(given.code as usize) {
            Some(function) => Import::Guest(self.made(core, owner, number), function),
            None => Import::Other,
        }
    }
}

impl Instance {
    /// How many bytes each of its memories has.
    pub fn sizes(&self, core: &StoreCore) -> Vec<usize> {
        let memories = self.data(core).map(|data| data.memories.as_slice()).unwrap_or_default();
        memories.iter().map(|memory| core.memories[*memory].extent().1).collect()
    }

    /// The ranges of its vmctx and of its memories.
    pub fn extents(&self, core: &StoreCore) -> Option<(Range<usize>, Vec<Range<usize>>)> {
        let data = self.data(core)?;
        let memory = |memory: &usize| {
            let (base, len) = core.memories[*memory].extent();
            base as usize..base as usize + len
        };
        Some((
            data.base()..data.base() + data.module.layout.size(),
            data.memories.iter().map(memory).collect(),
        ))
    }

    /// Adds to one of its cells, which exists.
    pub fn add(&self, core: &StoreCore, cell: Cell, by: u64) {
        self.change(core, cell, |value| value.wrapping_add(by));
    }

    /// Sets one of its cells, which exists.
    pub fn set(&self, core: &StoreCore, cell: Cell, value: u64) {
        self.change(core, cell, |_| value);
    }

    /// Replaces a cell's value by a function of it; of a cell of 32 bits, the lower ones are
    /// stored.
    fn change(&self, core: &StoreCore, cell: Cell, change: impl FnOnce(u64) -> u64) {
        let Some(data) = self.data(core) else { return };
        let (place, wide) = match cell {
            Cell::Global { index, wide } => {
                (core.globals[data.globals[index as usize]].value as usize, wide)
            }
            Cell::Memory { memory, address, wide } => {
                let (base, len) = core.memories[data.memories[memory as usize]].extent();
                assert!(address + 4 + 4 * u64::from(wide) <= len as u64, "memories do not shrink");
                (base as usize + address as usize, wide)
            }
        };
        // SAFETY: (1) a global of the type that the cell was found with, or inside of a memory; (2)
        // no other thread is in the store.
        unsafe {
            match wide {
                true => {
                    let place = place as *mut u64;
                    place.write_unaligned(change(place.read_unaligned()));
                }
                false => {
                    let place = place as *mut u32;
                    place.write_unaligned(change(place.read_unaligned().into()) as u32);
                }
            }
        }
    }
}

impl Func {
    /// The function's module, and its index there: nothing for a function of the host.
    pub fn owner(&self, core: &StoreCore) -> Option<(Arc<ModuleInner>, u32)> {
        // SAFETY: (1) a reference of this store.
        let reference = unsafe { *self.raw(core).ok()? };
        let owner =
            core.instances.iter().find(|instance| instance.base() == reference.vmctx as usize)?;
        Some((Arc::clone(&owner.module), owner.module.function_of_code(reference.code as usize)?))
    }
}

/// Which functions use slots of activations, themselves or through others of the module.
fn framed(data: &InstanceData, imports: &[Import]) -> Vec<bool> {
    let is_slot = |import: &Import| matches!(import, Import::ReadSlot | Import::WriteSlot);
    if !imports.iter().any(is_slot) {
        return Vec::new();
    }
    let mut framed: Vec<bool> = imports.iter().map(is_slot).collect();
    let mut calls = Vec::new();
    for (index, body) in (imports.len()..).zip(&data.module.info.bodies) {
        framed.push(false);
        let bytes = &data.module.bytes[body.start as usize..body.end as usize];
        let body = wasmparser::FunctionBody::new(wasmparser::BinaryReader::new(
            bytes,
            u64::from(body.start),
        ));
        let Ok(operators) = body.get_operators_reader() else { continue };
        for operator in operators.into_iter().flatten() {
            if let Operator::Call { function_index } | Operator::ReturnCall { function_index } =
                operator
            {
                calls.push((index, function_index as usize));
            }
        }
    }
    loop {
        let mut changed = false;
        for (caller, callee) in &calls {
            if framed[*callee] && !framed[*caller] {
                (framed[*caller], changed) = (true, true);
            }
        }
        if !changed {
            return framed;
        }
    }
}

impl InstanceData {
    /// The index, in this instance, of the function in a table's entry, or of the one that a
    /// reference leads to.
    pub(super) fn resolve(&mut self, table: u32, place: u64) -> Option<u32> {
        let reference = match table {
            u32::MAX => place as usize,
            // SAFETY: (1) the store owns this instance, and machine code of it waits.
            table => unsafe {
                (&mut (*self.store).tables)[self.tables[table as usize]].get(place)?
            },
        };
        if reference == 0 {
            return None;
        }
        // SAFETY: (1) references to functions lead to such.
        let function = unsafe { *(reference as *const vm::FuncRef) };
        let own = function.vmctx as usize == self.base();
        if let Some(index) =
            own.then(|| self.module.function_of_code(function.code as usize)).flatten()
        {
            return Some(index);
        }
        (0..self.module.info.imported.functions).find(|index| {
            let at = self.base() + self.module.layout.function(*index) as usize;
            // SAFETY: (1) written when the instance was made.
            let import = unsafe { *(at as *const vm::FuncImport) };
            (import.code, import.vmctx) == (function.code, function.vmctx)
        })
    }
}
