//! A store: the objects that instances of one embedder own, the data that their machine code
//! receives, and the embedder's data.
//!
//! # Safety
//!
//! This module exists to hand out pointers that stay valid: a store's parts are boxed, and none is
//! freed before the store is.
#![allow(unsafe_code)]

use super::activation::Failure;
use super::code::Code;
use super::dump::Taken;
use super::elements::Elements;
use super::function::HostFunction;
use super::heap::Heap;
use super::instance::InstanceData;
use super::interruption::{InterruptHandle, Interruption};
use super::linear::Linear;
use super::module::ModuleInner;
use super::source::Sources;
use super::tasks::{CounterReader, TaskHandle, TaskQueue};
use crate::engine::Engine;
use crate::error::{Backtrace, Error, FrameInfo};
use crate::exception::StoreId;
use crate::registry::TypeId;
use crate::types::{FuncType, GlobalType};
use crate::vm::{self, StoreCell};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// The limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one linear memory.
    pub memory: usize,
    /// Elements of one table.
    pub table: usize,
    /// Bytes of stack for one call into Wasm.
    pub stack: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 1 << 46, table: 10_000_000, stack: 1 << 20 }
    }
}

/// A request of a program to grow something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The resource.
    pub of: Demanded,
    /// The current amount; 0 while an instance is made.
    pub current: u64,
    /// The amount after the growth.
    pub wanted: u64,
    /// The maximum that its type allows, if it has one.
    pub maximum: Option<u64>,
}

/// The resources that can grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demanded {
    /// Pages of a linear memory.
    Pages,
    /// Elements of a table.
    Elements,
}

/// The callback that allows or refuses growth.
struct Limiter(Box<dyn FnMut(Demand) -> bool + Send>);

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Limiter")
    }
}

/// A global, and where machine code finds its value.
#[derive(Debug)]
pub(crate) struct GlobalData {
    pub(crate) ty: GlobalType,
    pub(crate) value: *mut u128,
    pub(crate) _own: Option<Box<u128>>,
}

/// A tag, whose address is its identity.
#[derive(Debug)]
pub(crate) struct TagData {
    pub(crate) ty: FuncType,
    pub(crate) tag: Box<vm::Tag>,
}

/// Code of the store's modules, sorted by address, as signal handlers look it up.
#[derive(Debug, Default)]
struct Codes(Vec<(usize, usize, Arc<ModuleInner>)>);

/// The callback for memories that grow.
pub trait Growth: std::fmt::Debug + Send + Sync {
    /// A memory of the program has grown; its machine code waits.
    fn grown(&self, store: StoreContextMut<'_, ()>, told: [i64; 3]);
}

/// The callback for instances that are made.
pub trait Beginning: std::fmt::Debug + Send + Sync {
    /// An instance of a module is ready to run: its memories hold their active data, and its start
    /// function was not called. It does not begin if this fails.
    fn begun(&self, store: StoreContextMut<'_, ()>, module: &ModuleInner) -> Result<(), Error>;
}

/// The part of the store that does not depend on the embedder's data.
#[derive(Debug)]
pub struct StoreCore {
    /// What distinguishes it from others.
    pub id: StoreId,
    /// The engine that it runs code of.
    pub engine: Engine,
    cell: Box<StoreCell>,
    limits: Limits,
    codes: AtomicPtr<Codes>,
    interruption: Arc<Interruption>,
    tasks: Arc<TaskQueue>,
    /// The callbacks for memories of the program that grow. They receive which memory has grown,
    /// and its numbers of pages before and after.
    pub growth: Vec<Arc<dyn Growth>>,
    /// The callbacks for instances that are made from now on.
    pub beginnings: Vec<Arc<dyn Beginning>>,
    /// Its instances.
    #[allow(clippy::vec_box, reason = "machine code knows where they are")]
    pub instances: Vec<Box<InstanceData>>,
    /// Its memories.
    pub memories: Vec<Linear>,
    pub(crate) tables: Vec<Elements>,
    pub(crate) globals: Vec<GlobalData>,
    pub(crate) tags: Vec<TagData>,
    /// Its instances.
    #[allow(clippy::vec_box, reason = "machine code knows where they are")]
    pub(crate) hosts: Vec<Box<HostFunction>>,
    pub(crate) heap: Heap,
    /// The trampoline that enters functions of a type.
    enter: HashMap<TypeId, *const u8>,
    /// Why a host function has failed, until the failure is handled.
    pub(crate) pending: Option<Failure>,
    /// Where the exception that has left machine code was thrown.
    pub(crate) thrown_at: Backtrace,
    /// Where the host function that has failed last was called, and the address of its error, which
    /// identifies it.
    pub(crate) failed_at: (usize, Backtrace),
    /// The callback that allows or refuses growth.
    limiter: Option<Limiter>,
    /// The observer that is notified of what crosses the boundary between programs and the host.
    pub(super) boundary: Option<Box<dyn super::boundary::Boundary>>,
    /// Whether frames of any code can be read, and the frames that the last trap has unwound.
    pub(super) reads_frames: bool,
    pub(super) trapped: Mutex<Vec<Taken>>,
    /// Whether code has a budget of instructions.
    pub(super) is_limited: bool,
    /// Whether words of instances are saved while machine code runs, see
    /// [`keep_words`](Self::keep_words).
    pub(super) restores: bool,
    /// The embedder's data, for host functions.
    pub(crate) data: *mut (),
}

impl StoreCore {
    /// Notifies receivers of an instance of a module that is ready to run.
    pub(super) fn tell_beginning(&mut self, module: &ModuleInner) -> Result<(), Error> {
        for receiver in self.beginnings.clone() {
            // SAFETY: (1) code that is given this context has no use for data of type `()`, of
            // which there is nothing to read; host functions make their own from the store.
            receiver.begun(unsafe { StoreContextMut::from_core(self) }, module)?;
        }
        Ok(())
    }

    fn new(engine: &Engine) -> Self {
        Self {
            id: StoreId::fresh(),
            engine: engine.clone(),
            cell: Box::new(StoreCell::unlimited()),
            limits: Limits::default(),
            codes: AtomicPtr::new(Box::into_raw(Box::default())),
            interruption: Arc::default(),
            tasks: Arc::default(),
            growth: Vec::new(),
            beginnings: Vec::new(),
            instances: Vec::new(),
            memories: Vec::new(),
            tables: Vec::new(),
            globals: Vec::new(),
            tags: Vec::new(),
            hosts: Vec::new(),
            heap: Heap::default(),
            enter: HashMap::new(),
            pending: None,
            thrown_at: Backtrace::default(),
            failed_at: (0, Backtrace::default()),
            limiter: None,
            boundary: None,
            reads_frames: false,
            trapped: Mutex::default(),
            is_limited: false,
            restores: false,
            data: std::ptr::null_mut(),
        }
    }

    pub(crate) fn cell(&self) -> &StoreCell {
        &self.cell
    }

    /// Frees objects that no code holds, if it is time to. Called before values are passed in from
    /// the host, which make new objects.
    pub(crate) fn make_room(&mut self) {
        if self.heap.is_full() {
            super::heap::collect(self);
        }
    }

    /// The frame that called the host last, and where in its code.
    pub(crate) fn exit(&self) -> (usize, usize) {
        (self.cell.exit_frame.load(Ordering::Relaxed), self.cell.exit_pc.load(Ordering::Relaxed))
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether something may grow. A limiter that panics does not allow it.
    pub(crate) fn allows(&mut self, demand: Demand) -> bool {
        let Some(Limiter(limiter)) = &mut self.limiter else { return true };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| limiter(demand)))
            .unwrap_or_default()
    }

    /// The means by which other threads stop it.
    pub fn interruption(&self) -> &Arc<Interruption> {
        &self.interruption
    }

    pub(crate) fn tasks(&self) -> &Arc<TaskQueue> {
        &self.tasks
    }

    fn codes(&self) -> &Codes {
        // SAFETY: (1) never null; (2) the list is replaced and freed by this thread only, in
        // `know`, during which no code holds it: a signal handler that comes meanwhile sees the old
        // one before it is freed, or the new one.
        unsafe { &*self.codes.load(Ordering::Acquire) }
    }

    /// Registers the code of a module for signal handlers and backtraces.
    pub(crate) fn know(&mut self, module: &Arc<ModuleInner>) {
        self.restores |= !module.code.plan().restored().is_empty();
        self.reads_frames |= module.options.frames;
        let range = module.code.range();
        let known = self.codes();
        let Err(at) = known.0.binary_search_by_key(&range.start, |(start, ..)| *start) else {
            return;
        };
        let mut entries = known.0.clone();
        entries.insert(at, (range.start, range.end, Arc::clone(module)));
        let old = self.codes.swap(Box::into_raw(Box::new(Codes(entries))), Ordering::AcqRel);
        // SAFETY: (1) made by `Box::into_raw` and replaced above.
        drop(unsafe { Box::from_raw(old) });
        for (ty, offset) in module.types.iter().zip(&module.enter) {
            if let Some(offset) = offset {
                self.enter.entry(*ty).or_insert_with(|| module.code.at(*offset));
            }
        }
    }

    /// The module whose code is at `pc`, the code, and how far in. Usable in a signal handler.
    pub(crate) fn module_at(&self, pc: usize) -> Option<(&ModuleInner, &Code, u32)> {
        let codes = &self.codes().0;
        let after = codes.partition_point(|(start, ..)| *start <= pc);
        if let Some((start, end, module)) = after.checked_sub(1).map(|at| &codes[at])
            && pc < *end
        {
            return Some((module, &module.code, (pc - start) as u32));
        }
        codes.iter().find_map(|(.., module)| {
            let code = &module.chunks.at(pc)?.code;
            Some((&**module, code, (pc - code.base()) as u32))
        })
    }

    /// The code at `pc`, and how far in. Usable in a signal handler.
    pub(crate) fn code_at(&self, pc: usize) -> Option<(&Code, u32)> {
        self.module_at(pc).map(|(_, code, offset)| (code, offset))
    }

    /// Whether frames of any module are recorded when they are unwound. Usable in a
    /// signal handler.
    pub(crate) fn notes_partial_exits(&self) -> bool {
        self.codes().0.iter().any(|(.., module)| module.may_exit_partially())
    }

    /// What is known of the Wasm instruction whose code is at `pc`.
    pub(crate) fn frame_info<'a>(
        &'a self,
        pc: usize,
        sources: &mut Sources<'a>,
    ) -> Option<FrameInfo> {
        let (module, code, offset) = self.module_at(pc)?;
        let function = module.info.imported.functions + code.function_at(offset)? as u32;
        let wasm = match code.has_not_begun(offset) {
            true => Some(module.info.body(function).start),
            false => code.wasm_offset(offset),
        };
        let name = module.info.known_name(function);
        let aside = code.is_aside(offset);
        let source = wasm.and_then(|wasm| sources.line(module, wasm));
        Some(FrameInfo {
            module: module.info.name.clone(),
            function,
            name,
            offset: wasm,
            aside,
            source,
        })
    }

    /// Whether machine code at `pc` belongs to a monitor in a program, or calls one. Usable in a
    /// signal handler.
    pub(crate) fn is_aside(&self, pc: usize) -> bool {
        self.module_at(pc).is_some_and(|(_, code, offset)| code.is_aside(offset))
    }

    /// The trampoline that enters functions of a type.
    pub(crate) fn enter(&mut self, ty: TypeId) -> Result<*const u8, Error> {
        if let Some(known) = self.enter.get(&ty) {
            return Ok(*known);
        }
        let pair = super::bridge::for_type(ty, self.engine.target())?;
        self.enter.insert(ty, pair.enter);
        Ok(pair.enter)
    }
}

impl Drop for StoreCore {
    fn drop(&mut self) {
        self.close_tasks();
        // This is done while all instances live: their callees may belong to other instances.
        self.instances.iter().for_each(|instance| instance.end());
        // SAFETY: (1) made by `Box::into_raw`, and no thread is in the store's code any more.
        drop(unsafe { Box::from_raw(*self.codes.get_mut()) });
    }
}

/// Instances, what they own, and the embedder's data.
#[derive(Debug)]
pub struct Store<T> {
    parts: Box<StoreParts<T>>,
}

#[derive(Debug)]
struct StoreParts<T> {
    core: StoreCore,
    data: T,
}

// SAFETY: (1) the pointers in a store lead into what the store owns, or to code that its modules
// keep; (2) it is used by one thread at a time, since everything needs a reference to it; (3)
// exceptions and references do not leave it.
unsafe impl<T: Send> Send for Store<T> {}

impl<T> Store<T> {
    /// An empty store.
    pub fn new(engine: &Engine, data: T) -> Self {
        Self { parts: Box::new(StoreParts { core: StoreCore::new(engine), data }) }
    }

    /// The embedder's data.
    pub fn data(&self) -> &T {
        &self.parts.data
    }

    /// The embedder's data.
    pub fn data_mut(&mut self) -> &mut T {
        &mut self.parts.data
    }

    /// Returns the embedder's data, and drops everything else.
    pub fn into_data(self) -> T {
        self.parts.data
    }

    pub(super) fn core(&self) -> &StoreCore {
        &self.parts.core
    }

    pub(super) fn core_mut(&mut self) -> &mut StoreCore {
        &mut self.parts.core
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.parts.core.engine
    }

    /// Sets the limits of instances from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.parts.core.limits = limits;
    }

    /// Sets the limiter that is called, from now on, before memories and tables grow, and before
    /// instances get theirs. A growth that it does not allow fails as if there were no memory. It
    /// is called while the program waits, and has no access to the store.
    pub fn set_limiter(&mut self, limiter: impl FnMut(Demand) -> bool + Send + 'static) {
        self.parts.core.limiter = Some(Limiter(Box::new(limiter)));
    }

    /// The Wasm frames from which the host function was called that has failed last, with an
    /// [`Error::Host`].
    pub fn host_failure(&self) -> &Backtrace {
        &self.parts.core.failed_at.1
    }

    /// Has code of this store trap when `time` is over, or never: a time that no clock reaches
    /// means never.
    pub fn set_deadline(&mut self, time: Option<Duration>) {
        self.parts
            .core
            .interruption
            .set_deadline(time.and_then(|time| Instant::now().checked_add(time)));
    }

    /// Withdraws the request of an [`InterruptHandle`], if no code has stopped for it yet.
    pub fn disregard_interruption(&mut self) {
        self.parts.core.interruption.take();
    }

    /// The handle that posts tasks to this store's thread while it executes a program.
    pub fn tasks(&self) -> TaskHandle<T> {
        TaskHandle::new(&self.parts.core.tasks)
    }

    /// Has the thread that executes the module's instances in this store read their counters, also
    /// for other threads: at a safepoint, so that what they read is exact, and what several
    /// monitors report adds up. Instances in other stores are not stopped for it. Only the first
    /// store of a module is used for this.
    ///
    /// `wake` is called before the thread is waited for: it wakes a program that waits in the host,
    /// and returns whether the program may be stopped for a moment wherever it is. If the thread
    /// does not reach a safepoint in time, counters are read while they change.
    pub fn read_counters_of(
        &self,
        module: &super::Module,
        wake: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let StoreCore { tasks, interruption, .. } = &self.parts.core;
        let reader = CounterReader::new(tasks, interruption, wake);
        // The first reader is kept.
        let _ = module.inner().counter_reader.set(reader);
    }

    /// Refuses further tasks; a thread that waits for one gets an error.
    pub fn close_tasks(&mut self) {
        self.parts.core.close_tasks();
    }

    /// The handle by which another thread stops code of this store.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.parts.core.interruption.handle()
    }
}

/// A mutable view of a store.
#[derive(Debug)]
pub struct StoreContextMut<'a, T> {
    core: &'a mut StoreCore,
    _data: std::marker::PhantomData<&'a mut T>,
}

/// Types that give access to a store: the store itself, and the contexts of host functions.
pub trait AsContextMut {
    /// The embedder's data.
    type Data;

    /// The store.
    fn as_context_mut(&mut self) -> StoreContextMut<'_, Self::Data>;
}

impl<T> AsContextMut for Store<T> {
    type Data = T;

    fn as_context_mut(&mut self) -> StoreContextMut<'_, T> {
        self.parts.core.data = (&raw mut self.parts.data).cast();
        StoreContextMut { core: &mut self.parts.core, _data: std::marker::PhantomData }
    }
}

impl<T> AsContextMut for StoreContextMut<'_, T> {
    type Data = T;

    fn as_context_mut(&mut self) -> StoreContextMut<'_, T> {
        StoreContextMut { core: self.core, _data: std::marker::PhantomData }
    }
}

impl<C: AsContextMut> AsContextMut for &mut C {
    type Data = C::Data;

    fn as_context_mut(&mut self) -> StoreContextMut<'_, C::Data> {
        (**self).as_context_mut()
    }
}

impl<'a, T> StoreContextMut<'a, T> {
    /// # Safety
    /// The store's data are a `T`.
    pub(crate) unsafe fn from_core(core: &'a mut StoreCore) -> Self {
        Self { core, _data: std::marker::PhantomData }
    }

    /// The part of the store that does not depend on the embedder's data.
    pub fn core(&mut self) -> &mut StoreCore {
        self.core
    }

    /// Has code of this store trap when `time` is over, or never, see [`Store::set_deadline`].
    pub fn set_deadline(&mut self, time: Option<Duration>) {
        self.core.interruption.set_deadline(time.and_then(|time| Instant::now().checked_add(time)));
    }

    /// Sets the limits of instances from now on; returns the old ones.
    pub fn set_limits(&mut self, limits: Limits) -> Limits {
        std::mem::replace(&mut self.core.limits, limits)
    }

    /// The embedder's data.
    pub fn data(&self) -> &T {
        // SAFETY: (1) set by `as_context_mut` of the store, which is borrowed for as long as this
        // is; (2) the type is that store's.
        unsafe { &*self.core.data.cast() }
    }

    /// The embedder's data.
    pub fn data_mut(&mut self) -> &mut T {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { &mut *self.core.data.cast() }
    }
}
