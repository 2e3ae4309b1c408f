//! A module that is compiled and in memory, ready to be instantiated.

use super::attached_plan::AttachedPlan;
use super::chunks::Chunks;
use super::code::Code;
use super::compile_events::Readers;
use super::context::Counters;
use super::introduction::Introduction;
use super::partial_exits::PartialExits;
use super::patchable_sites::PatchableSites;
use super::pruner::Pruner;
use super::tasks::{CounterReader, SafepointLayers};
use super::variant::Variants;
use crate::array::Array;
use crate::artifact;
use crate::compile::{self, Compilation, Detours, Draft, Options, Plan, TrampolineKind};
use crate::engine::Engine;
use crate::error::{CompileError, Error, Place};
use crate::exception::StoreId;
use crate::module::{ModuleInfo, Space};
use crate::registry::{self, TypeId};
use crate::types::{ExternType, FuncType, GlobalType, TableType};
use crate::vm::Layout;
use parking_lot::{Mutex, RwLock};
use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

/// A compiled module. Copies are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) inner: Arc<ModuleInner>,
}

/// A module, its code, and its variants.
#[derive(Debug)]
pub struct ModuleInner {
    /// What it declares.
    pub info: ModuleInfo,
    pub(crate) layout: Layout,
    /// Its code, as it was compiled at first.
    pub code: Code,
    /// The options that its code was compiled with.
    pub options: Options,
    /// How many counters its instances have.
    pub(crate) counters: u32,
    /// How many of their calls are counted by target.
    pub(crate) calls: u32,
    /// The module as it was given: segments of data are copied from it.
    pub bytes: Array<u8>,
    /// The monitors that are to observe it, if it comes from a file that names some.
    pub(crate) monitors: Array<u8>,
    /// The only stores that its code may be executed in, and the monitor that requires it: the
    /// instances that the code calls are there.
    pub(crate) bound: Mutex<Option<(Vec<StoreId>, String)>>,
    /// The number of each type.
    pub(crate) types: Vec<TypeId>,
    /// For each type, the trampolines that enter and leave functions of it, as far as the module
    /// has any.
    pub(crate) enter: Vec<Option<u32>>,
    pub(crate) leave: Vec<Option<u32>>,
    /// How many counters the counting variant of its code has, once it was requested.
    pub(crate) counting: OnceLock<u32>,
    /// How many of its calls are counted by target, once that was requested.
    pub(crate) counting_calls: OnceLock<u32>,
    /// Variants of its code, their code chunks, and the current OSR entry of each loop.
    pub(crate) variants: Mutex<Variants>,
    pub(super) patchable_sites: PatchableSites,
    /// Its loops with OSR exits, once they were computed.
    pub(super) osr_loops: OnceLock<compile::OsrLoops>,
    pub(crate) chunks: Chunks,
    /// Plans that were attached while instances ran.
    pub(crate) plans: RwLock<Vec<AttachedPlan>>,
    pub(super) detours: RwLock<Detours>,
    pub(super) safepoints: SafepointLayers,
    /// The readers of compile events.
    pub(super) readers: Readers,
    /// The thread that prunes dead probes from its code, if there is one.
    pub(super) pruner: Pruner,
    pub(crate) entries: Box<[AtomicUsize]>,
    /// The counters of its instances, and the partial-block exits.
    pub(crate) counted: Counters,
    pub(crate) partial_exits: PartialExits,
    /// Has the thread that executes its instances read the counters.
    pub(super) counter_reader: OnceLock<CounterReader>,
    /// Exports in the order of their names, once one was looked up.
    by_name: OnceLock<Vec<u32>>,
    /// Its title among the modules of the process, and whether it was introduced.
    pub(super) introduction: Introduction,
    /// The state that all users of probes in this module share.
    companion: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// An import of a module.
#[derive(Clone, Debug)]
pub struct ImportType<'a> {
    /// From which module.
    pub module: &'a str,
    /// Under which name.
    pub name: &'a str,
    /// What.
    pub ty: ExternType,
}

/// An export of a module.
#[derive(Clone, Debug)]
pub struct ExportType<'a> {
    /// Under which name.
    pub name: &'a str,
    /// What.
    pub ty: ExternType,
}

impl Module {
    /// Compiles a module, which may be binary or text.
    pub fn new(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        let bytes = binary(bytes.as_ref())?;
        Self::compiled(
            engine,
            compile::compile(&bytes, engine.target(), &Plan::default())?,
            bytes.into_owned(),
        )
    }

    /// Compiles the same module for another engine.
    pub fn again(&self, engine: &Engine) -> Result<Self, Error> {
        Self::new(engine, &*self.inner.bytes)
    }

    /// Compiles a module, and the hooks of a plan into it. Such code is never put into a cache or a
    /// file, because it contains addresses.
    pub fn with_plan(engine: &Engine, bytes: impl AsRef<[u8]>, plan: &Plan) -> Result<Self, Error> {
        let bytes = binary(bytes.as_ref())?;
        Self::compiled(engine, compile::compile(&bytes, engine.target(), plan)?, bytes.into_owned())
    }

    /// The module of an inner part that an instrument has kept.
    pub fn of(inner: Arc<ModuleInner>) -> Self {
        Self { inner }
    }

    /// The view of it for instruments.
    pub fn inner(&self) -> &Arc<ModuleInner> {
        &self.inner
    }

    /// A module that was compiled just now.
    pub(crate) fn compiled(
        engine: &Engine,
        compilation: Compilation,
        bytes: Vec<u8>,
    ) -> Result<Self, Error> {
        let code = Code::new(compilation.text)?;
        Self::assemble(
            compilation.info,
            code,
            Array::Owned(bytes),
            engine.target().options,
            (compilation.counters, compilation.calls, compilation.loops),
        )
    }

    /// A module from a file.
    fn loaded(loaded: artifact::Loaded) -> Result<Self, Error> {
        let code = Code::of_file(&loaded.file, loaded.text, &loaded.code, loaded.tables)?;
        let numbers = (loaded.counters, loaded.calls, loaded.loops);
        let made = Self::assemble(loaded.info, code, loaded.module, loaded.options, numbers)?;
        Ok(made.watched_by(loaded.monitors))
    }

    fn assemble(
        info: ModuleInfo,
        code: Code,
        bytes: Array<u8>,
        options: Options,
        (counters, calls, loops): (u32, u32, u32),
    ) -> Result<Self, Error> {
        let types = registry::register(&info);
        let layout = Layout::new(&info, counters + 2 * calls + code.plan().words());
        let (enter, leave) = trampolines(&info, &code);
        Ok(Self {
            inner: Arc::new(ModuleInner {
                info,
                layout,
                code,
                options,
                counters,
                calls,
                bytes,
                monitors: Array::Owned(Vec::new()),
                bound: Mutex::default(),
                types,
                enter,
                leave,
                counting: OnceLock::new(),
                counting_calls: OnceLock::new(),
                variants: Mutex::default(),
                patchable_sites: PatchableSites::default(),
                osr_loops: OnceLock::new(),
                chunks: Chunks::default(),
                plans: RwLock::default(),
                detours: RwLock::default(),
                safepoints: SafepointLayers::default(),
                readers: Readers::default(),
                pruner: Pruner::default(),
                entries: (0..loops).map(|_| AtomicUsize::new(0)).collect(),
                counted: Counters::default(),
                partial_exits: PartialExits::default(),
                counter_reader: OnceLock::new(),
                by_name: OnceLock::new(),
                introduction: Introduction::default(),
                companion: OnceLock::new(),
            }),
        })
    }

    /// Compiles a module to the contents of a file that [`from_file`](Self::from_file) loads.
    pub fn precompile(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        Self::precompile_watched(engine, bytes, &[])
    }

    /// The same, with the monitors that are to observe the module when it runs: see
    /// [`monitors`](Self::monitors).
    pub fn precompile_watched(
        engine: &Engine,
        bytes: impl AsRef<[u8]>,
        monitors: &[u8],
    ) -> Result<Vec<u8>, Error> {
        if engine.target().options.frames {
            let why = "frames of code in a file cannot be read: compile for an engine without Config::readable_frames";
            return Err(Error::Artifact(why.into()));
        }
        let bytes = binary(bytes.as_ref())?;
        let compilation = compile::compile(&bytes, engine.target(), &Plan::default())?;
        Ok(artifact::write(&compilation, engine.target(), &bytes, monitors))
    }

    /// The description of the monitors that was put into the module's file, in the form of the code
    /// that wrote it.
    pub fn monitors(&self) -> &[u8] {
        &self.inner.monitors
    }

    /// Restricts its execution to one store from now on, for an observer. Fails if it is in other
    /// stores already.
    pub fn bind(&self, store: StoreId, who: &str) -> Result<(), Error> {
        let mut bound = self.inner.bound.lock();
        let is_elsewhere =
            bound.as_ref().is_some_and(|(stores, _)| stores.iter().any(|other| *other != store));
        if is_elsewhere || self.inner.counted.stores().iter().any(|other| *other != store) {
            return Err(several(who));
        }
        bound.get_or_insert_with(|| (vec![store], who.to_owned()));
        Ok(())
    }

    /// Allows its execution in that store, too: the instances that its code calls exist there.
    pub fn bind_another_store(&self, store: StoreId) {
        if let Some((stores, _)) =
            self.inner.bound.lock().as_mut().filter(|(stores, _)| !stores.contains(&store))
        {
            stores.push(store);
        }
    }

    /// Withdraws that permission for a store that is about to be dropped.
    pub fn unbind(&self, store: StoreId) {
        if let Some((stores, _)) = self.inner.bound.lock().as_mut() {
            stores.retain(|other| *other != store);
        }
    }

    /// The same module, with the monitors that are to observe it.
    fn watched_by(mut self, monitors: Array<u8>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.monitors = monitors;
        }
        self
    }

    /// Whether a file is machine code that [`from_file`](Self::from_file) may load, by its first
    /// bytes.
    pub fn is_machine_code(path: impl AsRef<std::path::Path>) -> bool {
        artifact::is_machine_code(path.as_ref())
    }

    /// Loads a module that was compiled before. The file is executed: it is refused if other users
    /// may write it, if it is damaged, or if it was made by another version or on another CPU.
    pub fn from_file(engine: &Engine, path: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Self::loaded(artifact::load(path.as_ref(), engine.target())?)
    }

    /// Loads the contents of such a file, as [`precompile`](Self::precompile) has given them.
    ///
    /// # Safety
    /// The bytes were compiled by this version of the engine and not changed since: they are
    /// executed. A digest detects damage, but not hostility.
    #[allow(unsafe_code, reason = "whoever calls it vouches for what is executed")]
    pub unsafe fn from_machine_code(engine: &Engine, bytes: &[u8]) -> Result<Self, Error> {
        Self::loaded(artifact::load_bytes(bytes, engine.target())?)
    }

    /// Checks whether a module is valid, and supported, without keeping it.
    pub fn validate(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        let bytes = binary(bytes.as_ref())?;
        let crate::module::Reading { info, bodies } =
            crate::module::read(&bytes, engine.target().options.features)?;
        for body in bodies {
            let mut validator =
                body.validate.into_validator(wasmparser::FuncValidatorAllocations::default());
            let checked = validator.validate(&body.body).map_err(CompileError::from);
            checked.map_err(|error| error.within(body.index, info.function_name(body.index)))?;
        }
        Ok(())
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.inner.info.name.as_deref()
    }

    /// Whether it has a function that runs when it is instantiated.
    pub fn has_start(&self) -> bool {
        self.inner.info.start.is_some()
    }

    /// What it imports, in order.
    pub fn imports(&self) -> impl Iterator<Item = ImportType<'_>> {
        let ty =
            |import: &crate::module::Import| self.inner.extern_type(import.space, import.index);
        self.inner.info.imports.iter().map(move |import| ImportType {
            module: &import.module,
            name: &import.name,
            ty: ty(import),
        })
    }

    /// What it exports, in order.
    pub fn exports(&self) -> impl Iterator<Item = ExportType<'_>> {
        let ty =
            |export: &crate::module::Export| self.inner.extern_type(export.space, export.index);
        self.inner
            .info
            .exports
            .iter()
            .map(move |export| ExportType { name: &export.name, ty: ty(export) })
    }
}

/// The error if an observer cannot observe a module that is executed in several stores.
pub(super) fn several(who: &str) -> Error {
    let why = "it does more than add to cells of its own, and has no instance in this thread's store: what it would see there cannot be merged";
    Error::Link(format!("monitor {}: {why}", crate::error::Printable(who)))
}

/// The binary form of a module that may be text.
pub fn binary(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CompileError> {
    if bytes.starts_with(b"\0asm\x0d\0\x01\0") {
        return Err(CompileError::unsupported("components: only modules are", Place::module(0)));
    }
    if bytes.starts_with(b"\0asm") {
        return Ok(Cow::Borrowed(bytes));
    }
    if bytes.is_empty() {
        return Err(CompileError::Text("neither a module nor the text of one: it is empty".into()));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Err(CompileError::Text(
            "neither a module nor the text of one, but machine code: compile what it was made from"
                .into(),
        ));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(CompileError::Text(
            "neither a module, which begins with \\0asm, nor the text of one".into(),
        ));
    };
    let located = |error: wast::Error| CompileError::text(&error, text);
    let buffer = wast::parser::ParseBuffer::new(text).map_err(located)?;
    let mut module = wast::parser::parse::<wast::Wat<'_>>(&buffer).map_err(located)?;
    module.encode().map(Cow::Owned).map_err(located)
}

/// For each type, the offsets of its trampolines.
fn trampolines(info: &ModuleInfo, code: &Code) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
    let mut enter = vec![None; info.types.len()];
    let mut leave = vec![None; info.types.len()];
    let (mut entries, mut exits) = (HashMap::new(), HashMap::new());
    for (kind, range) in &code.tables.trampolines {
        match kind {
            TrampolineKind::Enter(ty) => {
                entries.insert(compile::shape(&info.types[*ty as usize]), range.start)
            }
            TrampolineKind::Leave(ty) => {
                exits.insert(compile::shape(&info.types[*ty as usize]), range.start)
            }
            TrampolineKind::Throw => continue,
        };
    }
    for (index, ty) in info.types.iter().enumerate() {
        let shape = compile::shape(ty);
        (enter[index], leave[index]) = (entries.get(&shape).copied(), exits.get(&shape).copied());
    }
    (enter, leave)
}

impl ModuleInner {
    /// The state that all users of probes in this module share; the first of them makes it. It
    /// always has the same type.
    pub fn companion<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let common = Arc::clone(self.companion.get_or_init(|| make()));
        common.downcast().expect("one type")
    }
}

impl ModuleInner {
    /// The export with that name. Host functions look up memories by name at every call.
    pub(crate) fn export(&self, name: &str) -> Option<usize> {
        let exports = &self.info.exports;
        let named = self.by_name.get_or_init(|| {
            let mut order: Vec<u32> = (0..exports.len() as u32).collect();
            order.sort_by_key(|index| &exports[*index as usize].name);
            order
        });
        let at = named
            .binary_search_by(|index| exports[*index as usize].name.as_str().cmp(name))
            .ok()?;
        Some(named[at] as usize)
    }

    /// The number of the type of function `index`.
    pub(crate) fn function_type(&self, index: u32) -> TypeId {
        self.types[self.info.functions[index as usize] as usize]
    }

    /// The type of an item, with the numbers of this process.
    pub(crate) fn extern_type(&self, space: Space, index: u32) -> ExternType {
        let index = index as usize;
        match space {
            Space::Func => ExternType::Func(registry::look_up(self.function_type(index as u32))),
            Space::Table => ExternType::Table(self.table_type(index)),
            Space::Memory => ExternType::Memory(self.info.memories[index]),
            Space::Global => ExternType::Global(self.global_type(index)),
            Space::Tag => ExternType::Tag(self.tag_type(index)),
        }
    }

    fn number(&self, index: u32) -> u32 {
        self.types[index as usize].0
    }

    pub(crate) fn table_type(&self, index: usize) -> TableType {
        let ty = self.info.tables[index];
        TableType { element: ty.element.renamed(&|index| self.number(index)), ..ty }
    }

    pub(crate) fn global_type(&self, index: usize) -> GlobalType {
        let ty = self.info.globals[index];
        GlobalType { content: ty.content.renamed(&|index| self.number(index)), ..ty }
    }

    pub(crate) fn tag_type(&self, index: usize) -> FuncType {
        registry::look_up(self.types[self.info.tags[index] as usize])
    }

    /// The function that is entered at an address, if it is one of the module's own code.
    pub(crate) fn function_of_code(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.code.base())? as u32 + self.options.sites.prefix();
        let defined =
            self.code.tables.functions.binary_search_by_key(&offset, |span| span.start).ok()?;
        Some(self.info.imported.functions + defined as u32)
    }

    /// A draft of a plan that is attached to it.
    pub fn draft(&self) -> Draft {
        Draft::beside(self.code.plan(), &self.detours.read())
    }

    /// A function's name as people read it: its own, the one it is imported by, or its number.
    pub fn label(&self, index: u32) -> String {
        self.info.label(index)
    }

    /// The code of defined function `index`, counted with the imported ones.
    pub(crate) fn function_code(&self, index: u32) -> *const u8 {
        let function = self.code.tables.functions[(index - self.info.imported.functions) as usize];
        self.code.at(function.start - self.options.sites.prefix())
    }
}

impl compile::Linked for ModuleInner {
    fn info(&self) -> &ModuleInfo {
        &self.info
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn function_code(&self, index: u32) -> *const u8 {
        self.function_code(index)
    }
}
