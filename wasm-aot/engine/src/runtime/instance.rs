//! Instances: a module, its imports, and the vmctx that its code works on.
//!
//! # Safety
//!
//! This module exists to fill the vmctx: each word of it is written before machine code runs, at
//! the place that [`Layout`](crate::vm::Layout) says.
#![allow(unsafe_code)]

use super::boundary::{self, Callee, Crossing};
use super::context::Context;
use super::elements::Elements;
use super::function::Func;
use super::handle::{Extern, Global, Memory, Table, Tag};
use super::linear::{Linear, Style};
use super::linker::shortened;
use super::module::{Module, ModuleInner};
use super::store::{AsContextMut, Demand, Demanded, GlobalData, StoreCore, TagData};
use crate::compile::Budget;
use crate::error::{Error, Printable};
use crate::exception::StoreId;
use crate::module::{ConstOp, Elements as Items, SegmentMode, Space};
use crate::trap::Trap;
use crate::types::ExternType;
use crate::vm::{self, HOST_MAGIC, INSTANCE_MAGIC, MemoryAt};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// An instance of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    data: NonNull<InstanceData>,
    store: StoreId,
}

// SAFETY: (1) what it leads to is only touched with the store at hand.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

/// An instance, as its store owns it. Numbers are positions in the store's lists.
#[derive(Debug)]
pub struct InstanceData {
    pub(crate) store: *mut StoreCore,
    pub(crate) module: Arc<ModuleInner>,
    vmctx: Context,
    pub memories: Vec<usize>,
    pub(crate) tables: Vec<usize>,
    pub(crate) globals: Vec<usize>,
    pub(crate) tags: Vec<usize>,
    /// Segments that are used up.
    pub(crate) dropped_data: Vec<bool>,
    pub(crate) dropped_elements: Vec<bool>,
    /// Whether it belongs to a monitor and not to the program.
    pub looks_on: Cell<bool>,
}

impl Instance {
    /// Makes an instance of a module, giving it `imports` in the order in which the module names
    /// them.
    pub fn new(
        store: impl AsContextMut,
        module: &Module,
        imports: &[Extern],
    ) -> Result<Self, Error> {
        Self::make(store, module, imports, true)
    }

    /// The same, except that its start function is not called: for an instance that continues
    /// another one, whose start function was called before.
    pub fn without_start(
        store: impl AsContextMut,
        module: &Module,
        imports: &[Extern],
    ) -> Result<Self, Error> {
        Self::make(store, module, imports, false)
    }

    fn make(
        mut store: impl AsContextMut,
        module: &Module,
        imports: &[Extern],
        starts: bool,
    ) -> Result<Self, Error> {
        module.introduce();
        let mut context = store.as_context_mut();
        let core = context.core();
        let inner = &module.inner;
        if imports.len() != inner.info.imports.len() {
            let (wanted, given) = (inner.info.imports.len(), imports.len());
            return Err(Error::Link(format!(
                "the module has {wanted} imports, and {given} are given"
            )));
        }
        check_imports(core, inner, imports)?;
        // Held until the instance is known to its module.
        let bound = inner.bound.lock();
        if let Some((_, who)) = bound.as_ref().filter(|(stores, _)| !stores.contains(&core.id)) {
            return Err(super::module::several(who));
        }
        core.know(inner);
        let data = NonNull::from(&mut **InstanceData::place(core, inner)?);
        // SAFETY: (1) owned by the store in a box, and never removed.
        let instance = unsafe { &mut *data.as_ptr() };
        instance.know_store();
        drop(bound);
        instance.begin_hooks();
        instance.take_imports(core, imports)?;
        instance.define(core)?;
        instance.copy_segments()?;
        let this = Self { data, store: core.id };
        core.cross(Crossing::Begins(this));
        core.tell_beginning(inner)?;
        if let Some(start) = inner.info.start.filter(|_| starts) {
            instance.start(core, start)?;
        }
        Ok(this)
    }

    pub(crate) fn from_data(data: NonNull<InstanceData>) -> Self {
        // SAFETY: (1) owned by its store in a box, and never removed.
        let store = unsafe { (*data.as_ref().store).id };
        Self { data, store }
    }

    /// Whether it is in a store.
    pub fn is_of(&self, store: StoreId) -> bool {
        self.store == store
    }

    /// The address of its vmctx: 0 if it is of another store.
    pub fn base(&self, core: &StoreCore) -> usize {
        self.data(core).map_or(0, InstanceData::base)
    }

    pub(super) fn data(&self, core: &StoreCore) -> Option<&InstanceData> {
        match self.store == core.id {
            // SAFETY: (1) of this store, which owns it.
            true => Some(unsafe { self.data.as_ref() }),
            false => None,
        }
    }

    /// The item that it exports under a name.
    pub fn get_export(&self, mut store: impl AsContextMut, name: &str) -> Option<Extern> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let data = self.data(core)?;
        let export = &data.module.info.exports[data.module.export(name)?];
        Some(data.item(core, export.space, export.index))
    }

    /// Everything it exports.
    pub fn exports(&self, mut store: impl AsContextMut) -> Vec<(String, Extern)> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let Some(data) = self.data(core) else { return Vec::new() };
        let exports = data.module.info.exports.iter();
        exports
            .map(|export| (export.name.clone(), data.item(core, export.space, export.index)))
            .collect()
    }

    /// The function that it exports under a name.
    pub fn get_func(&self, store: impl AsContextMut, name: &str) -> Option<Func> {
        self.get_export(store, name)?.into_func()
    }

    /// The function that it exports under a name, if it is of that type.
    pub fn get_typed_func<P: super::typed::Params, R: super::typed::Results>(
        &self,
        mut store: impl AsContextMut,
        name: &str,
    ) -> Result<super::typed::TypedFunc<P, R>, Error> {
        let Some(function) = self.get_func(&mut store, name) else {
            return Err(Error::Link(format!("the instance exports no function \"{name}\"")));
        };
        function.typed(store)
    }

    /// The memory that it exports under a name.
    pub fn get_memory(&self, store: impl AsContextMut, name: &str) -> Option<Memory> {
        self.get_export(store, name)?.into_memory()
    }

    /// The global that it exports under a name.
    pub fn get_global(&self, store: impl AsContextMut, name: &str) -> Option<Global> {
        self.get_export(store, name)?.into_global()
    }

    /// The table that it exports under a name.
    pub fn get_table(&self, store: impl AsContextMut, name: &str) -> Option<Table> {
        self.get_export(store, name)?.into_table()
    }
}

fn check_imports(
    core: &mut StoreCore,
    module: &ModuleInner,
    imports: &[Extern],
) -> Result<(), Error> {
    if let Some(lacking) = module.options.cpu.lacking() {
        return Err(Error::Link(format!(
            "the module was compiled for a processor with {lacking}, which this one lacks"
        )));
    }
    if core.is_limited && module.options.budget == Budget::Unknown {
        return Err(super::budget::no_budget(module.info.name.as_deref()));
    }
    let defined = &module.info.memories[module.info.imported.memories as usize..];
    if module.options.reservations
        && !core.engine.has_reservations()
        && defined.iter().any(|memory| !memory.wide)
    {
        return Err(Error::Link(
            "the module was compiled for memories with reservations, and the store's engine makes none".into(),
        ));
    }
    for (import, given) in module.info.imports.iter().zip(imports) {
        let wanted = module.extern_type(import.space, import.index);
        let found = given.ty_in(core)?;
        let number = match import.space {
            Space::Func => Some(module.function_type(import.index)),
            Space::Tag => Some(module.types[module.info.tags[import.index as usize] as usize]),
            _ => None,
        };
        if !satisfies(&found, &wanted) || given.type_number(core)? != number {
            let (from, name) = (shortened(&import.module), shortened(&import.name));
            return Err(Error::Link(format!(
                "incompatible import type: \"{}\" \"{}\" has to be {wanted}, and is {found}",
                Printable(&from),
                Printable(&name)
            )));
        }
        // Machine code without bounds checks could access bytes outside of a memory that another
        // engine has made.
        if let (Extern::Memory(memory), ExternType::Memory(ty)) = (given, &wanted)
            && module.options.reservations
            && !ty.wide
            && !core.memories[memory.index].is_reserved()
        {
            let (from, name) = (Printable(&import.module), Printable(&import.name));
            return Err(Error::Link(format!(
                "\"{from}\" \"{name}\" is a memory without a reservation, and the module was compiled for one that has it"
            )));
        }
    }
    Ok(())
}

/// Whether an item of type `found` may be imported as `wanted`.
fn satisfies(found: &ExternType, wanted: &ExternType) -> bool {
    let fits = |minimum: u64, maximum: Option<u64>, least: u64, most: Option<u64>| {
        minimum >= least && most.is_none_or(|most| maximum.is_some_and(|maximum| maximum <= most))
    };
    match (found, wanted) {
        // The types' numbers in this process are compared separately.
        (ExternType::Func(_), ExternType::Func(_)) | (ExternType::Tag(_), ExternType::Tag(_)) => {
            true
        }
        (ExternType::Global(found), ExternType::Global(wanted)) => {
            found.mutable == wanted.mutable
                && if wanted.mutable {
                    found.content == wanted.content
                } else {
                    found.content.matches(wanted.content)
                }
        }
        (ExternType::Table(found), ExternType::Table(wanted)) => {
            (found.element, found.wide) == (wanted.element, wanted.wide)
                && fits(found.minimum, found.maximum, wanted.minimum, wanted.maximum)
        }
        (ExternType::Memory(found), ExternType::Memory(wanted)) => {
            (found.shared, found.wide) == (wanted.shared, wanted.wide)
                && fits(found.minimum, found.maximum, wanted.minimum, wanted.maximum)
        }
        _ => false,
    }
}

/// Checks whether an instance may have a memory or a table.
fn allow(core: &mut StoreCore, demand: Demand) -> Result<(), Error> {
    let refused = || match demand.of {
        Demanded::Pages => format!("the embedder allows no memory of {} pages", demand.wanted),
        Demanded::Elements => format!("the embedder allows no table of {} elements", demand.wanted),
    };
    core.allows(demand).then_some(()).ok_or_else(|| Error::Resource(refused()))
}

impl InstanceData {
    /// Stores the instance's address in its vmctx: code that finds the vmctx through the module
    /// finds the store.
    fn know_store(&mut self) {
        let me: *mut Self = self;
        self.put(vm::at::INSTANCE as i32, me);
    }

    /// Ends the instance with its store: its counts stay with its module.
    pub(crate) fn end(&self) {
        // Plans that are attached from now on do not find it; those that were attached before are
        // notified.
        self.module.counted.end(&self.vmctx, &self.module);
        self.end_hooks();
    }

    /// Whether its code keeps to the store's budget of instructions, or does not need to.
    pub(super) fn keeps_to_budgets(&self) -> bool {
        self.module.options.budget != Budget::Unknown
    }

    /// The address of its vmctx.
    pub(crate) fn base(&self) -> usize {
        self.vmctx.address()
    }

    /// An instance in its store, with a vmctx of zeroes.
    fn place<'a>(
        core: &'a mut StoreCore,
        module: &Arc<ModuleInner>,
    ) -> Result<&'a mut Box<Self>, Error> {
        let vmctx = Context::new(module)?;
        module.counted.begin(&vmctx);
        let info = &module.info;
        let store: *mut StoreCore = core;
        core.instances.push(Box::new(Self {
            store,
            module: Arc::clone(module),
            vmctx,
            memories: Vec::with_capacity(info.memories.len()),
            tables: Vec::with_capacity(info.tables.len()),
            globals: Vec::with_capacity(info.globals.len()),
            tags: Vec::with_capacity(info.tags.len()),
            dropped_data: vec![false; info.data.len()],
            dropped_elements: vec![false; info.elements.len()],
            looks_on: Cell::new(false),
        }));
        Ok(core.instances.last_mut().expect("pushed just now"))
    }

    fn vmctx(&mut self) -> *mut u8 {
        self.vmctx.as_mut_ptr()
    }

    /// The place in the vmctx at an offset.
    fn at<T>(&mut self, offset: i32) -> *mut T {
        debug_assert!(offset as usize + size_of::<T>() <= self.vmctx.len());
        // SAFETY: (1) offsets of the layout are inside of the vmctx, which has its size.
        unsafe { self.vmctx().add(offset as usize).cast() }
    }

    fn put<T>(&mut self, offset: i32, value: T) {
        // SAFETY: (1) inside of the vmctx, see `at`; (2) the layout keeps what it places aligned.
        unsafe { self.at::<T>(offset).write(value) };
    }

    fn take_imports(&mut self, core: &mut StoreCore, imports: &[Extern]) -> Result<(), Error> {
        let module = Arc::clone(&self.module);
        let me = NonNull::from(&mut *self);
        for (import, given) in module.info.imports.iter().zip(imports) {
            match given {
                Extern::Func(function) => {
                    let leave = module.leave[module.info.functions[import.index as usize] as usize];
                    let import_of = function.import(
                        core,
                        (me, import.index),
                        leave.map(|offset| module.code.at(offset)),
                    )?;
                    self.put(module.layout.function(import.index), import_of);
                }
                Extern::Table(table) => {
                    let definition = core.tables[table.index].definition;
                    self.put(module.layout.table(import.index).0, definition);
                    self.tables.push(table.index);
                }
                Extern::Memory(memory) => {
                    let (MemoryAt::Pointer(offset) | MemoryAt::Inline(offset)) =
                        module.layout.memory(import.index);
                    let definition = core.memories[memory.index].definition;
                    self.put(offset as i32, definition);
                    self.memories.push(memory.index);
                }
                Extern::Global(global) => {
                    let value = core.globals[global.index].value;
                    self.put(module.layout.global(import.index).0, value);
                    self.globals.push(global.index);
                }
                Extern::Tag(tag) => self.tags.push(tag.index),
            }
        }
        Ok(())
    }

    /// Makes all items that the module defines.
    fn define(&mut self, core: &mut StoreCore) -> Result<(), Error> {
        let module = Arc::clone(&self.module);
        self.put(0, INSTANCE_MAGIC);
        self.put(vm::at::STORE, std::ptr::from_ref(core.cell()));
        self.put(vm::at::BUILTINS, &raw const super::builtin::TABLE);
        self.put(vm::at::BUFFER, self.vmctx.buffer());
        self.put(vm::at::ENTRIES, module.entries.as_ptr());
        let me: *mut Self = self;
        self.put(vm::at::INSTANCE as i32, me);
        for (index, ty) in module.types.iter().enumerate() {
            self.put(module.layout.type_number(index as u32), ty.0);
        }
        self.define_references(&module);
        for index in module.info.imported.tags as usize..module.info.tags.len() {
            let ty = module.tag_type(index);
            let number = module.types[module.info.tags[index] as usize].0;
            self.tags.push(core.tags.len());
            core.tags.push(TagData { ty, tag: Box::new(vm::Tag { ty: number }) });
        }
        for (index, tag) in self.tags.clone().into_iter().enumerate() {
            let address = &raw const *core.tags[tag].tag;
            self.put(module.layout.tag(index as u32), address);
        }
        self.define_memories(core, &module)?;
        self.define_globals(core, &module);
        self.define_tables(core, &module)
    }

    fn define_references(&mut self, module: &ModuleInner) {
        for (place, index) in module.info.referenced.iter().enumerate() {
            let ty = module.function_type(*index).0;
            let reference = match *index < module.info.imported.functions {
                true => {
                    // SAFETY: (1) written by `take_imports`.
                    let import =
                        unsafe { self.at::<vm::FuncImport>(module.layout.function(*index)).read() };
                    vm::FuncRef { code: import.code, vmctx: import.vmctx, ty }
                }
                false => {
                    vm::FuncRef { code: module.function_code(*index), vmctx: self.vmctx(), ty }
                }
            };
            self.put(module.layout.reference(place), reference);
        }
    }

    fn define_memories(&mut self, core: &mut StoreCore, module: &ModuleInner) -> Result<(), Error> {
        let style =
            Style { reservations: core.engine.has_reservations(), limit: core.limits().memory };
        for index in module.info.imported.memories as usize..module.info.memories.len() {
            let place = module.layout.memory(index as u32);
            let inline = match place {
                MemoryAt::Inline(offset) => Some(self.at(offset as i32)),
                MemoryAt::Pointer(_) => None,
            };
            let ty = &module.info.memories[index];
            allow(
                core,
                Demand { of: Demanded::Pages, current: 0, wanted: ty.minimum, maximum: ty.maximum },
            )?;
            // SAFETY: (1) the vmctx lives as long as the store, which owns the memory.
            let linear = unsafe { Linear::new(module.info.memories[index], style, inline)? };
            if let MemoryAt::Pointer(offset) = place {
                self.put(offset as i32, linear.definition);
            }
            self.memories.push(core.memories.len());
            core.memories.push(linear);
        }
        Ok(())
    }

    fn define_globals(&mut self, core: &mut StoreCore, module: &ModuleInner) {
        for (defined, init) in module.info.global_inits.iter().enumerate() {
            let index = module.info.imported.globals as usize + defined;
            let value = self.evaluate(core, init);
            let place: *mut u128 = self.at(module.layout.global(index as u32).0);
            // SAFETY: (1) inside of the vmctx, at a multiple of 16.
            unsafe { place.write(value) };
            self.globals.push(core.globals.len());
            core.globals.push(GlobalData {
                ty: module.global_type(index),
                value: place,
                _own: None,
            });
        }
    }

    fn define_tables(&mut self, core: &mut StoreCore, module: &ModuleInner) -> Result<(), Error> {
        for (defined, init) in module.info.table_inits.iter().enumerate() {
            let index = module.info.imported.tables as usize + defined;
            let item = init.as_ref().map_or(0, |init| self.evaluate(core, init) as usize);
            let place = self.at(module.layout.table(index as u32).0);
            let (limit, ty) = (core.limits().table, &module.info.tables[index]);
            allow(
                core,
                Demand {
                    of: Demanded::Elements,
                    current: 0,
                    wanted: ty.minimum,
                    maximum: ty.maximum,
                },
            )?;
            // SAFETY: (1) the vmctx lives as long as the store, which owns the table.
            let elements =
                unsafe { Elements::new(module.table_type(index), item, limit, Some(place))? };
            self.tables.push(core.tables.len());
            core.tables.push(elements);
        }
        Ok(())
    }

    /// The value of a constant expression.
    fn evaluate(&mut self, core: &StoreCore, ops: &[ConstOp]) -> u128 {
        let mut stack: Vec<u128> = Vec::new();
        for op in ops {
            let mut binary = |combine: fn(u64, u64) -> u128| {
                let (second, first) =
                    (stack.pop().expect("validated"), stack.pop().expect("validated"));
                combine(first as u64, second as u64)
            };
            let value = match op {
                ConstOp::I32(value) => u128::from(*value as u32),
                ConstOp::I64(value) => u128::from(*value as u64),
                ConstOp::F32(bits) => u128::from(*bits),
                ConstOp::F64(bits) => u128::from(*bits),
                ConstOp::V128(value) => *value,
                // SAFETY: (1) a global's value lives as long as the store.
                ConstOp::Global(index) => unsafe {
                    core.globals[self.globals[*index as usize]].value.read()
                },
                ConstOp::Func(index) => self.reference(*index) as u128,
                ConstOp::Null(_) => 0,
                ConstOp::I32Add => binary(|x, y| u128::from((x as u32).wrapping_add(y as u32))),
                ConstOp::I32Sub => binary(|x, y| u128::from((x as u32).wrapping_sub(y as u32))),
                ConstOp::I32Mul => binary(|x, y| u128::from((x as u32).wrapping_mul(y as u32))),
                ConstOp::I64Add => binary(|x, y| u128::from(x.wrapping_add(y))),
                ConstOp::I64Sub => binary(|x, y| u128::from(x.wrapping_sub(y))),
                ConstOp::I64Mul => binary(|x, y| u128::from(x.wrapping_mul(y))),
            };
            stack.push(value);
        }
        stack.pop().expect("validated: a value")
    }

    /// The address of a function's reference.
    fn reference(&mut self, index: u32) -> usize {
        let module = Arc::clone(&self.module);
        let place = module
            .info
            .reference_of(index)
            .expect("every function that is referred to is declared");
        self.at::<vm::FuncRef>(module.layout.reference(place)) as usize
    }

    /// Copies the active segments, in order; segments before one that does not fit stay copied.
    fn copy_segments(&mut self) -> Result<(), Error> {
        let module = Arc::clone(&self.module);
        // SAFETY: (1) the store owns this instance.
        let core = unsafe { &mut *self.store };
        for (index, segment) in module.info.elements.iter().enumerate() {
            if let SegmentMode::Active { target, offset } = &segment.mode {
                let at = self.index_of(core, offset, module.info.tables[*target as usize].wide);
                let count = segment.items.len() as u64;
                self.init_table(*target, index as u32, at, 0, count)
                    .ok_or(Trap::TableOutOfBounds)?;
            }
            if !matches!(segment.mode, SegmentMode::Passive) {
                self.dropped_elements[index] = true;
            }
        }
        for (index, segment) in module.info.data.iter().enumerate() {
            if let SegmentMode::Active { target, offset } = &segment.mode {
                let at = self.index_of(core, offset, module.info.memories[*target as usize].wide);
                let bytes = self.data(index as u32);
                let memory = &core.memories[self.memories[*target as usize]];
                let (base, len) = memory.extent();
                let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= len as u64);
                end.ok_or(Trap::MemoryOutOfBounds)?;
                // SAFETY: (1) compared with the length.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        base.add(at as usize),
                        bytes.len(),
                    );
                };
                self.dropped_data[index] = true;
            }
        }
        Ok(())
    }

    fn index_of(&mut self, core: &StoreCore, offset: &[ConstOp], wide: bool) -> u64 {
        let value = self.evaluate(core, offset);
        if wide { value as u64 } else { u64::from(value as u32) }
    }

    /// The bytes of a data segment; none if it is used up.
    pub(crate) fn data(&self, segment: u32) -> &[u8] {
        let range = &self.module.info.data[segment as usize].range;
        match self.dropped_data[segment as usize] {
            true => &[],
            false => &self.module.bytes[range.start as usize..range.end as usize],
        }
    }

    /// Copies elements of a segment into a table, if both have that many.
    pub(crate) fn init_table(
        &mut self,
        table: u32,
        segment: u32,
        at: u64,
        source: u64,
        count: u64,
    ) -> Option<()> {
        let items = self.segment_items(table, segment, at, source, count)?;
        self.set_elements(table, segment, at, items);
        Some(())
    }

    /// The items of a segment that are copied into a table, if segment and table have that many.
    pub(crate) fn segment_items(
        &mut self,
        table: u32,
        segment: u32,
        at: u64,
        source: u64,
        count: u64,
    ) -> Option<Range<u64>> {
        let items = &self.module.info.elements[segment as usize].items;
        let len = if self.dropped_elements[segment as usize] { 0 } else { items.len() as u64 };
        let end = source.checked_add(count).filter(|end| *end <= len)?;
        // SAFETY: (1) the store owns this instance.
        unsafe { &mut *self.store }.tables[self.tables[table as usize]].range(at, count)?;
        Some(source..end)
    }

    /// Puts items of a segment into a table, from `at` on.
    pub(crate) fn set_elements(&mut self, table: u32, segment: u32, at: u64, range: Range<u64>) {
        let module = Arc::clone(&self.module);
        let items = &module.info.elements[segment as usize].items;
        // SAFETY: (1) the store owns this instance.
        let core = unsafe { &mut *self.store };
        let id = self.tables[table as usize];
        for (i, item) in range.enumerate() {
            let value = match items {
                Items::Functions(functions) => self.reference(functions[item as usize]),
                Items::Expressions(expressions) => {
                    self.evaluate(core, &expressions[item as usize]) as usize
                }
            };
            core.tables[id].set(at + i as u64, value);
        }
    }

    fn start(&mut self, core: &mut StoreCore, index: u32) -> Result<(), Error> {
        let module = Arc::clone(&self.module);
        let ty = module.function_type(index).0;
        let mut reference = match index < module.info.imported.functions {
            true => {
                // SAFETY: (1) written by `take_imports`.
                let import =
                    unsafe { self.at::<vm::FuncImport>(module.layout.function(index)).read() };
                vm::FuncRef { code: import.code, vmctx: import.vmctx, ty }
            }
            false => vm::FuncRef { code: module.function_code(index), vmctx: self.vmctx(), ty },
        };
        let function = Func::from_raw(&raw mut reference, core).expect("not null");
        let (callee, mut values) = (Callee::Start(Instance::from_data(self.into())), [0u128; 1]);
        let values = values.as_mut_ptr();
        // SAFETY: (1) a start function takes and gives nothing.
        unsafe {
            let id = module.function_type(index);
            boundary::entered(core, callee, id, values, |core| function.enter(core, values))
        }
    }

    /// Whether a function that it imports belongs to the host.
    pub(super) fn imports_host(&self, index: u32) -> bool {
        let offset = self.module.layout.function(index) as usize;
        // SAFETY: (1) inside of the vmctx, written by `take_imports`; (2) every vmctx begins with a
        // word that says what it is.
        unsafe {
            let import = (self.vmctx.as_mut_ptr().add(offset)).cast::<vm::FuncImport>().read();
            *import.vmctx.cast::<u64>() == HOST_MAGIC
        }
    }

    /// An item of one of its spaces.
    pub(super) fn item(&self, core: &StoreCore, space: Space, index: u32) -> Extern {
        let (store, at) = (core.id, index as usize);
        match space {
            Space::Func => {
                let place = self
                    .module
                    .info
                    .reference_of(index)
                    .expect("exported functions can be referred to");
                let offset = self.module.layout.reference(place) as usize;
                let reference = (self.vmctx.as_mut_ptr() as usize + offset) as *const vm::FuncRef;
                Extern::Func(Func::from_raw(reference, core).expect("not null"))
            }
            Space::Table => Extern::Table(Table { index: self.tables[at], store }),
            Space::Memory => Extern::Memory(Memory { index: self.memories[at], store }),
            Space::Global => Extern::Global(Global { index: self.globals[at], store }),
            Space::Tag => Extern::Tag(Tag { index: self.tags[at], store }),
        }
    }
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Self::Functions(functions) => functions.len(),
            Self::Expressions(expressions) => expressions.len(),
        }
    }
}
