//! Handles of embedders: names of a store's memories, tables, globals and tags.
//!
//! # Safety
//!
//! This module exists to copy bytes into and out of linear memories, whose lengths it compares
//! first.
#![allow(unsafe_code)]

use super::boundary::Crossing;
use super::elements::Elements;
use super::function::Func;
use super::linear::{Linear, SharedMemory, Style};
use super::store::{AsContextMut, GlobalData, StoreCore, TagData};
use super::value::Val;
use crate::error::Error;
use crate::exception::StoreId;
use crate::registry::{self, TypeId};
use crate::types::{ExternType, FuncType, GlobalType, MemoryType, TableType, ValType};
use crate::vm;

/// An item that can be imported or exported.
#[derive(Clone, Copy, Debug)]
pub enum Extern {
    /// A function.
    Func(Func),
    /// A table.
    Table(Table),
    /// A linear memory.
    Memory(Memory),
    /// A global.
    Global(Global),
    /// A tag of exceptions.
    Tag(Tag),
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident in $list:ident : $data:ty, $into:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                pub(crate) index: usize,
                pub(crate) store: StoreId,
            }

            impl $name {
                fn data<'a>(&self, core: &'a mut StoreCore) -> Result<&'a mut $data, Error> {
                    match self.store == core.id {
                        true => Ok(&mut core.$list[self.index]),
                        false => Err(Error::Type("a handle of another store".into())),
                    }
                }
            }

            impl From<$name> for Extern {
                fn from(handle: $name) -> Self {
                    Self::$name(handle)
                }
            }

            impl Extern {
                /// The handle, if it is one of these.
                pub fn $into(self) -> Option<$name> {
                    if let Self::$name(handle) = self { Some(handle) } else { None }
                }
            }
        )*
    };
}

handles! {
    /// A table of a store.
    Table in tables: Elements, into_table;
    /// A linear memory of a store.
    Memory in memories: Linear, into_memory;
    /// A global of a store.
    Global in globals: GlobalData, into_global;
    /// A tag of a store.
    Tag in tags: TagData, into_tag;
}

impl From<Func> for Extern {
    fn from(function: Func) -> Self {
        Self::Func(function)
    }
}

impl Extern {
    /// The function, if it is one.
    pub fn into_func(self) -> Option<Func> {
        if let Self::Func(function) = self { Some(function) } else { None }
    }

    /// Its type.
    pub fn ty(&self, mut store: impl AsContextMut) -> Result<ExternType, Error> {
        self.ty_in(store.as_context_mut().core())
    }

    pub(crate) fn ty_in(&self, core: &mut StoreCore) -> Result<ExternType, Error> {
        Ok(match self {
            Self::Func(function) => ExternType::Func(registry::look_up(function.type_id(core)?)),
            Self::Table(table) => {
                let table = table.data(core)?;
                ExternType::Table(TableType { minimum: table.len() as u64, ..table.ty })
            }
            Self::Memory(memory) => {
                let memory = memory.data(core)?;
                ExternType::Memory(MemoryType { minimum: memory.pages(), ..memory.ty })
            }
            Self::Global(global) => ExternType::Global(global.data(core)?.ty),
            Self::Tag(tag) => ExternType::Tag(tag.data(core)?.ty.clone()),
        })
    }
}

impl Extern {
    /// The number of the type of a function or of a tag.
    pub(crate) fn type_number(&self, core: &mut StoreCore) -> Result<Option<TypeId>, Error> {
        Ok(match self {
            Self::Func(function) => Some(function.type_id(core)?),
            Self::Tag(tag) => Some(TypeId(tag.data(core)?.tag.ty)),
            _ => None,
        })
    }
}

impl Memory {
    /// A new memory.
    pub fn new(mut store: impl AsContextMut, ty: MemoryType) -> Result<Self, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let style =
            Style { reservations: core.engine.has_reservations(), limit: core.limits().memory };
        // SAFETY: (1) no place is given.
        let linear = unsafe { Linear::new(ty, style, None)? };
        core.memories.push(linear);
        Ok(Self { index: core.memories.len() - 1, store: core.id })
    }

    /// A memory that other threads, with other stores, share.
    pub fn shared(mut store: impl AsContextMut, memory: &SharedMemory) -> Self {
        let mut context = store.as_context_mut();
        let core = context.core();
        core.memories.push(Linear::of_shared(memory));
        Self { index: core.memories.len() - 1, store: core.id }
    }

    /// The memory that threads share, if it is one.
    pub fn as_shared(&self, mut store: impl AsContextMut) -> Result<Option<SharedMemory>, Error> {
        Ok(self.data(store.as_context_mut().core())?.shared().cloned())
    }

    /// Its type.
    pub fn ty(&self, mut store: impl AsContextMut) -> Result<MemoryType, Error> {
        Ok(self.data(store.as_context_mut().core())?.ty)
    }

    /// How many pages of 64 KiB it has.
    pub fn size(&self, mut store: impl AsContextMut) -> Result<u64, Error> {
        Ok(self.data(store.as_context_mut().core())?.pages())
    }

    /// Grows it, and returns how many pages it had.
    pub fn grow(&self, mut store: impl AsContextMut, pages: u64) -> Result<u64, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let limit = core.limits().memory;
        let refused = || Error::Resource(format!("the memory cannot grow by {pages} pages"));
        let demand = self.data(core)?.demand(pages);
        let grown = if core.allows(demand) { self.data(core)?.grow(pages, limit) } else { None };
        let before = grown.ok_or_else(refused)?;
        core.cross(Crossing::Grows(*self, pages));
        Ok(before)
    }

    /// Its bytes: where they are and how many. Other threads may change those of a shared memory at
    /// any time.
    pub fn extent(&self, mut store: impl AsContextMut) -> Result<(*mut u8, usize), Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        self.lend(core);
        self.extent_in(core)
    }

    /// The same, for a host that itself reports to an observer of the boundary what it writes
    /// there, by [`StoreContextMut::wrote`](super::StoreContextMut::wrote).
    pub fn announced_extent(
        &self,
        mut store: impl AsContextMut,
    ) -> Result<(*mut u8, usize), Error> {
        self.extent_in(store.as_context_mut().core())
    }

    pub(super) fn extent_in(&self, core: &mut StoreCore) -> Result<(*mut u8, usize), Error> {
        Ok(self.data(core)?.extent())
    }

    /// Notifies an observer of the boundary that the host may write to it from now on.
    fn lend(&self, core: &mut StoreCore) {
        if !core.is_observed() {
            return;
        }
        if let Ok(memory) = self.data(core)
            && memory.shared().is_none()
        {
            let (base, len) = memory.extent();
            // SAFETY: (1) the memory's own bytes; (2) the program waits, and the host does not have
            // them yet.
            let bytes = unsafe { std::slice::from_raw_parts(base, len) };
            core.cross(Crossing::Lends(*self, bytes));
        }
    }

    /// Its bytes, for as long as nothing else is done with the store. None if threads share it:
    /// other threads may write to it at any time.
    pub fn bytes<'a>(
        &self,
        store: &'a mut impl AsContextMut,
    ) -> Result<Option<&'a mut [u8]>, Error> {
        let mut context = store.as_context_mut();
        self.lend(context.core());
        let memory = self.data(context.core())?;
        let (base, len) = memory.extent();
        // SAFETY: (1) the memory's own bytes; (2) the caller borrows the store for as long as the
        // slice keeps code of it, and others, from them.
        Ok(memory.shared().is_none().then(|| unsafe { std::slice::from_raw_parts_mut(base, len) }))
    }

    /// Copies bytes out of it.
    pub fn read(
        &self,
        mut store: impl AsContextMut,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        let from = self.range(&mut store, offset, bytes.len())?;
        // SAFETY: (1) the range is inside of the memory; (2) no slice of the host's overlaps a
        // linear memory.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes into it.
    pub fn write(
        &self,
        mut store: impl AsContextMut,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let to = self.range(&mut store, offset, bytes.len())?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        store.as_context_mut().core().cross(Crossing::Writes(*self, offset as u64, bytes));
        Ok(())
    }

    fn range(
        &self,
        store: &mut impl AsContextMut,
        offset: usize,
        count: usize,
    ) -> Result<*mut u8, Error> {
        let (base, len) = self.announced_extent(store)?;
        match offset.checked_add(count).is_some_and(|end| end <= len) {
            // SAFETY: (1) compared with the length.
            true => Ok(unsafe { base.add(offset) }),
            false => Err(Error::Resource(format!(
                "{count} bytes at {offset} are outside of a memory of {len} bytes"
            ))),
        }
    }
}

impl Table {
    /// A new table, full of `item`.
    pub fn new(mut store: impl AsContextMut, ty: TableType, item: Val) -> Result<Self, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        core.make_room();
        let item = item.into_raw(ValType::Ref(ty.element), core)? as usize;
        let limit = core.limits().table;
        // SAFETY: (1) no place is given.
        let elements = unsafe { Elements::new(ty, item, limit, None)? };
        core.tables.push(elements);
        Ok(Self { index: core.tables.len() - 1, store: core.id })
    }

    /// Its type.
    pub fn ty(&self, mut store: impl AsContextMut) -> Result<TableType, Error> {
        Ok(self.data(store.as_context_mut().core())?.ty)
    }

    /// How many elements it has.
    pub fn size(&self, mut store: impl AsContextMut) -> Result<u64, Error> {
        Ok(self.data(store.as_context_mut().core())?.len() as u64)
    }

    /// An element, if there is one.
    pub fn get(&self, mut store: impl AsContextMut, index: u64) -> Result<Option<Val>, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let table = self.data(core)?;
        let (ty, raw) = (table.ty.element, table.get(index));
        // SAFETY: (1) elements of a table are of its type.
        Ok(raw.map(|raw| unsafe { Val::from_raw(raw as u128, ValType::Ref(ty), core) }))
    }

    /// Replaces an element.
    pub fn set(&self, mut store: impl AsContextMut, index: u64, item: Val) -> Result<(), Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let ty = self.data(core)?.ty.element;
        core.make_room();
        let raw = item.clone().into_raw(ValType::Ref(ty), core)? as usize;
        self.data(core)?
            .set(index, raw)
            .ok_or_else(|| Error::Resource(format!("the table has no element {index}")))?;
        core.cross(Crossing::Replaces(*self, index, item));
        Ok(())
    }

    /// Grows it, and returns how many elements it had.
    pub fn grow(&self, mut store: impl AsContextMut, count: u64, item: Val) -> Result<u64, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let ty = self.data(core)?.ty.element;
        core.make_room();
        let raw = item.clone().into_raw(ValType::Ref(ty), core)? as usize;
        let limit = core.limits().table;
        let refused = || Error::Resource(format!("the table cannot grow by {count} elements"));
        let demand = self.data(core)?.demand(count);
        let grown = if core.allows(demand) {
            self.data(core)?.grow(count, raw, limit, || false)
        } else {
            None
        };
        let before = grown.ok_or_else(refused)?;
        core.cross(Crossing::GrowsTable(*self, count, item));
        Ok(before)
    }
}

impl Global {
    /// A new global.
    pub fn new(mut store: impl AsContextMut, ty: GlobalType, value: Val) -> Result<Self, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        core.make_room();
        let mut own = Box::new(value.into_raw(ty.content, core)?);
        core.globals.push(GlobalData { ty, value: &raw mut *own, _own: Some(own) });
        Ok(Self { index: core.globals.len() - 1, store: core.id })
    }

    /// Its type.
    pub fn ty(&self, mut store: impl AsContextMut) -> Result<GlobalType, Error> {
        Ok(self.data(store.as_context_mut().core())?.ty)
    }

    /// Its value.
    pub fn get(&self, mut store: impl AsContextMut) -> Result<Val, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let global = self.data(core)?;
        // SAFETY: (1) a global's value lives as long as the store, and is of its type.
        let (ty, raw) = (global.ty.content, unsafe { global.value.read() });
        // SAFETY: as above.
        Ok(unsafe { Val::from_raw(raw, ty, core) })
    }

    /// Sets its value, if it is mutable.
    pub fn set(&self, mut store: impl AsContextMut, value: Val) -> Result<(), Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let ty = self.data(core)?.ty;
        if !ty.mutable {
            return Err(Error::Type("the global never changes".into()));
        }
        core.make_room();
        let raw = value.clone().into_raw(ty.content, core)?;
        // SAFETY: (1) a global's value lives as long as the store.
        unsafe { self.data(core)?.value.write(raw) };
        core.cross(Crossing::Sets(*self, value));
        Ok(())
    }
}

impl Tag {
    /// Its type, and the address by which machine code knows it.
    pub(super) fn in_store(
        &self,
        core: &mut StoreCore,
    ) -> Result<(FuncType, *const vm::Tag), Error> {
        let data = self.data(core)?;
        Ok((data.ty.clone(), &raw const *data.tag))
    }

    /// The tag that machine code knows by an address.
    pub(super) fn at(kind: *const vm::Tag, core: &StoreCore) -> Option<Self> {
        let index = core.tags.iter().position(|data| std::ptr::eq(&raw const *data.tag, kind))?;
        Some(Self { index, store: core.id })
    }

    /// A new tag, for exceptions that carry the type's parameters.
    pub fn new(mut store: impl AsContextMut, ty: FuncType) -> Self {
        let mut context = store.as_context_mut();
        let core = context.core();
        let number = registry::number(&ty).0;
        core.tags.push(TagData { ty, tag: Box::new(vm::Tag { ty: number }) });
        Self { index: core.tags.len() - 1, store: core.id }
    }
}
