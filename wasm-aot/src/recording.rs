//! Recording: events at the boundary between a program and its host become a trace.
//!
//! The program's code is not changed: the engine reports calls across the boundary, and writes by
//! the host. A program that computes runs at full speed.

mod host_functions;
mod host_time;
mod quiet;
mod requests;

use crate::instrument::module::Space;
use crate::instrument::runtime::{Boundary, Callee, Crossing, ModuleInner};
use crate::{
    Error, Extern, ExternRef, Instance, Memory, Module, Store, StoreContextMut, Trap, Val,
};
use host_functions::HostFunctions;
use host_time::HostTime;
pub use requests::Requests;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use wasm_aot_body::report::several;
use wasm_aot_trace::{
    Change, Declared, Door, End, Event, Frame, Linked, PartIndices, Program, Sink, Value, Writer,
    is_canonical,
};

/// A recorder of one program: of the first instance of its module that is made in a store, or of
/// the first instances of several modules that import from each other.
#[derive(Debug)]
pub struct Recorder<S: Sink>(Arc<Mutex<State<S>>>);

/// The result of a recording.
#[derive(Debug)]
pub struct Recorded<S> {
    /// How many events the trace has.
    pub events: u64,
    /// The sink that it was written to.
    pub sink: S,
    /// Why it ends before the program ends, if it does.
    pub failure: Option<io::Error>,
}

impl<S> Recorded<S> {
    /// Returns one line about a trace of this name: the number of its events, and why it ends
    /// early.
    pub fn summary(&self, path: &Path) -> String {
        let (path, events) = (path.display(), several(self.events, "event"));
        match &self.failure {
            None => format!("{path}: {events} recorded"),
            Some(why) => format!("{path}: the trace ends after {events}: {why}"),
        }
    }
}

impl<S: Sink + Send + std::fmt::Debug + 'static> Recorder<S> {
    /// Records a module from the creation of its instance in the store.
    pub fn new<T>(
        store: &mut Store<T>,
        module: &Module,
        program: &Program,
        sink: S,
    ) -> Result<Self, Error> {
        Self::begin(store, vec![module.clone()], None, program, sink)
    }

    /// Records modules that import from each other as one program, each from the creation of its
    /// first instance, in that order. `program` describes the module of `linked`.
    ///
    /// Events before the last of them is instantiated are kept in memory until then.
    pub fn linked<T>(
        store: &mut Store<T>,
        modules: &[&Module],
        linked: Linked,
        program: &Program,
        sink: S,
    ) -> Result<Self, Error> {
        let modules = modules.iter().map(|module| (*module).clone()).collect();
        Self::begin(store, modules, Some(linked), program, sink)
    }

    fn begin<T>(
        store: &mut Store<T>,
        modules: Vec<Module>,
        linked: Option<Linked>,
        program: &Program,
        sink: S,
    ) -> Result<Self, Error> {
        let declared = match &linked {
            Some(linked) => Declared::read(&linked.module),
            None => Declared::read(&modules[0].inner().bytes),
        };
        let declared = declared.map_err(Error::host)?;
        if let Some(what) = declared.refusal() {
            return Err(Error::Link(format!("it cannot be recorded: it has {what}")));
        }
        modules.iter().try_for_each(refuse_relaxed)?;
        let state = State {
            writer: Some(Writer::new(sink, program).map_err(Error::host)?),
            instances: vec![None; modules.len()],
            modules,
            linked,
            declared,
            first: Vec::new(),
            held: Some(Vec::new()),
            externs: Vec::new(),
            host_functions: HostFunctions::default(),
            is_programs_turn: false,
            lent: Vec::new(),
            host_time: HostTime::default(),
            goes_on: None,
        };
        Ok(Self::observe(store, state))
    }

    /// Starts to record.
    fn observe<T>(store: &mut Store<T>, state: State<S>) -> Self {
        let (goes_on, ended) = channel();
        let state = Arc::new(Mutex::new(State { goes_on: Some(goes_on), ..state }));
        let flushed = Arc::downgrade(&state);
        let flusher = std::thread::Builder::new().name("recorder".into());
        // Without it, less is on the disk when the process is killed.
        let _ = flusher.spawn(move || flush(&flushed, &ended));
        store.observe_boundary(Some(Box::new(Observer(Arc::clone(&state)))));
        Self(state)
    }

    /// Ends the recording.
    pub fn finish<T>(self, store: &mut Store<T>) -> Recorded<S> {
        let (mut writer, host_time) = self.end(store);
        writer.tell_host_time(host_time);
        let (events, sink, failure) = writer.finish();
        Recorded { events, sink, failure }
    }

    /// Ends the recording of a program that could not start: nothing is written to the sink.
    pub fn abandon<T>(self, store: &mut Store<T>) {
        self.end(store);
    }

    fn end<T>(self, store: &mut Store<T>) -> (Writer<S>, Duration) {
        store.observe_boundary(None);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.release();
        state.goes_on = None;
        let writer = state.writer.take().expect("it ends once");
        (writer, state.host_time.total())
    }
}

/// Refuses a module whose results depend on the processor.
fn refuse_relaxed(module: &Module) -> Result<(), Error> {
    if is_canonical(&module.inner().bytes).map_err(Error::host)? {
        return Ok(());
    }
    let why = "it cannot be recorded: it has relaxed vector instructions, whose results depend on \
               the processor: record its .wasm file with wasm-aot record, or in an embedder the \
               module that trace::canonical makes of it";
    Err(Error::Link(why.into()))
}

/// The maximum age of an event that is not on the disk yet.
const LATEST: Duration = Duration::from_millis(200);

/// Writes recorded events to the disk while the program runs, until the recording is finished or
/// dropped.
fn flush<S: Sink>(state: &Weak<Mutex<State<S>>>, ended: &Receiver<()>) {
    while ended.recv_timeout(LATEST) == Err(RecvTimeoutError::Timeout) {
        let Some(state) = state.upgrade() else { return };
        if let Some(writer) = &mut state.lock().unwrap_or_else(PoisonError::into_inner).writer {
            writer.flush();
        }
    }
}

#[derive(Debug)]
struct Observer<S: Sink>(Arc<Mutex<State<S>>>);

#[derive(Debug)]
struct State<S: Sink> {
    /// `None` when it is finished.
    writer: Option<Writer<S>>,
    /// The modules, and the recorded instance of each.
    modules: Vec<Module>,
    instances: Vec<Option<Instance>>,
    /// The linked module, if there are several.
    linked: Option<Linked>,
    /// What the program declares: the module, or the linked one.
    declared: Declared,
    /// The values that the program gets before any of its code is executed; and until all modules
    /// have instances, the events since then.
    first: Vec<Event>,
    held: Option<Vec<Event>>,
    /// The host values that the program has seen, in that order.
    externs: Vec<ExternRef>,
    host_functions: HostFunctions,
    /// Whether the program has control, by the last event that transferred it.
    is_programs_turn: bool,
    /// Memories that the host may have written to, with their contents before.
    lent: Vec<(u32, Memory, Vec<u8>)>,
    host_time: HostTime,
    /// Dropped at the end, which the thread that flushes notices at once.
    goes_on: Option<Sender<()>>,
}

impl<S: Sink + Send + std::fmt::Debug> Boundary for Observer<S> {
    fn crosses(&mut self, mut store: StoreContextMut<'_, ()>, crossing: Crossing<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_going = state.writer.as_ref().is_some_and(|writer| writer.failure().is_none());
        if !is_going {
            return;
        }
        if let Err(why) = state.take(&mut store, crossing) {
            state.release();
            if let Some(writer) = &mut state.writer {
                writer.stop(why);
            }
        }
    }
}

/// Why recording stops.
type Refusal = String;

impl<S: Sink> State<S> {
    fn take(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal> {
        if let Crossing::Begins(instance) = crossing {
            let is_new = |(module, known): (&Module, &Option<Instance>)| {
                known.is_none() && instance.is_of_module(store.core(), module)
            };
            let Some(part) = self.modules.iter().zip(&self.instances).position(is_new) else {
                return Ok(());
            };
            self.instances[part] = Some(instance);
            return self.begin(store, part, instance);
        }
        if self.instances.iter().all(Option::is_none) {
            return Ok(());
        }
        self.take_control(store, &crossing)?;
        self.take_change(store, crossing)
    }

    /// Records a transfer of control between the program and its host.
    fn take_control(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        crossing: &Crossing<'_>,
    ) -> Result<(), Refusal> {
        match *crossing {
            Crossing::Enters(callee, args) => {
                if let Some((function, door)) = self.callee(store, callee) {
                    self.host_time.pause();
                    self.compare(store)?;
                    let args = self.values(store, args)?;
                    self.push(Event::Enter { function, door, args });
                }
            }
            Crossing::Leaves(callee, done) if self.callee(store, callee).is_some() => {
                let end = self.end(store, done, false)?;
                self.push(Event::Leave(end));
                self.host_time.resume();
            }
            Crossing::Calls(call, args) => {
                if let Some(function) = self.called(call)? {
                    let args = self.values(store, args)?;
                    self.push(Event::Call { function, args });
                    self.host_time.begin();
                }
            }
            Crossing::Returns(call, done) if self.has_called(call) => {
                self.host_time.end();
                self.compare(store)?;
                let end = self.end(store, done, true)?;
                self.push(Event::Return(end));
            }
            _ => {}
        }
        Ok(())
    }

    /// Records a change by the host.
    fn take_change(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal> {
        match crossing {
            Crossing::Begins(_)
            | Crossing::Enters(..)
            | Crossing::Leaves(..)
            | Crossing::Calls(..)
            | Crossing::Returns(..) => {}
            Crossing::Writes(memory, address, bytes) => {
                // Memories that are lent to the host are compared anyway.
                if let Some(memory) = self.index_of(store, memory.into())
                    && !self.lent.iter().any(|(lent, ..)| *lent == memory)
                {
                    let bytes = bytes.to_vec();
                    self.push(Event::Host(Change::Write { memory, address, bytes }));
                }
            }
            Crossing::Lends(memory, bytes) => {
                if let Some(index) = self.index_of(store, memory.into())
                    && !self.lent.iter().any(|(lent, ..)| *lent == index)
                {
                    self.lent.push((index, memory, bytes.to_vec()));
                }
            }
            Crossing::Grows(memory, pages) => {
                if let Some(memory) = self.index_of(store, memory.into()) {
                    self.push(Event::Host(Change::Grow { memory, pages }));
                }
            }
            Crossing::Sets(global, value) => {
                if let Some(global) = self.index_of(store, global.into()) {
                    let value = self.value(store, &value)?;
                    self.push(Event::Host(Change::Global { global, value }));
                }
            }
            Crossing::Replaces(table, index, value) => {
                if let Some(table) = self.index_of(store, table.into()) {
                    let value = self.value(store, &value)?;
                    self.push(Event::Host(Change::Element { table, index, value }));
                }
            }
            Crossing::CannotGrow(item, wanted) => {
                if self.index_of(store, item).is_some() {
                    let what = match item {
                        Extern::Table(_) => "a table to {wanted} elements",
                        _ => "a memory to {wanted} pages",
                    };
                    let what = what.replace("{wanted}", &wanted.to_string());
                    return Err(format!(
                        "the program cannot grow {what}, which its type allows: other machines may"
                    ));
                }
            }
            Crossing::GrowsTable(table, count, value) => {
                if let Some(table) = self.index_of(store, table.into()) {
                    let value = self.value(store, &value)?;
                    self.push(Event::Host(Change::GrowTable { table, count, value }));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, event: Event) {
        match event {
            Event::Enter { .. } | Event::Return(_) => self.is_programs_turn = true,
            Event::Leave(_) | Event::Call { .. } => self.is_programs_turn = false,
            _ => {}
        }
        match (&mut self.held, &mut self.writer) {
            (Some(held), _) => held.push(event),
            (None, Some(writer)) => writer.push(&event),
            (None, None) => {}
        }
    }

    /// Writes the events that have waited for the last module's instance.
    fn release(&mut self) {
        let held = self.held.take().unwrap_or_default();
        let first = std::mem::take(&mut self.first);
        if let Some(writer) = &mut self.writer {
            first.iter().chain(&held).for_each(|event| writer.push(event));
        }
    }

    /// The module of a recorded instance.
    fn part_of(&self, instance: Option<Instance>) -> Option<usize> {
        let instance = instance?;
        self.instances.iter().position(|own| *own == Some(instance))
    }

    /// The index of an item in the program.
    fn index_of(&self, store: &mut StoreContextMut<'_, ()>, item: Extern) -> Option<u32> {
        self.instances.iter().enumerate().find_map(|(part, instance)| {
            let index = (*instance)?.index_of(store.core(), item)?;
            self.place_of(part, index, |indices| match &item {
                Extern::Func(_) => &indices.functions,
                Extern::Memory(_) => &indices.memories,
                Extern::Table(_) => &indices.tables,
                Extern::Global(_) => &indices.globals,
                Extern::Tag(_) => &indices.tags,
            })
        })
    }

    /// The index in the program of a module's item.
    fn place_of(
        &self,
        part: usize,
        index: u32,
        space: impl Fn(&PartIndices) -> &Vec<u32>,
    ) -> Option<u32> {
        match &self.linked {
            None => Some(index),
            Some(linked) => space(linked.parts.get(part)?).get(index as usize).copied(),
        }
    }

    /// The program's import for a module's import.
    fn import_of(&self, part: usize, import: u32) -> Result<u32, Refusal> {
        let place = self.place_of(part, import, |indices| &indices.functions);
        place.filter(|place| (*place as usize) < self.declared.imports.len()).ok_or_else(|| {
            format!("import {import} of module {part} is the host's, and not another module's")
        })
    }

    /// Which function of the program the host calls, and how it has obtained it.
    fn callee(&self, store: &mut StoreContextMut<'_, ()>, callee: Callee) -> Option<(u32, Door)> {
        match callee {
            Callee::Start(own) => {
                let part = self.part_of(Some(own))?;
                match &self.linked {
                    None => Some((self.declared.start?, Door::Start)),
                    Some(linked) => self.by_export(linked.parts[part].instantiate?),
                }
            }
            Callee::Function(function) => self.by_export(self.index_of(store, function.into())?),
        }
    }

    fn by_export(&self, index: u32) -> Option<(u32, Door)> {
        // An import that is exported again belongs to the host.
        let is_own = index as usize >= self.declared.imports.len();
        let name = self.declared.exported_function(index).map(str::to_owned);
        is_own.then(|| (index, name.map_or(Door::Reference, Door::Export)))
    }

    /// Called when a module has an instance.
    fn begin(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        part: usize,
        instance: Instance,
    ) -> Result<(), Refusal> {
        if let Some(missing) = self.instances[..part].iter().position(Option::is_none) {
            return Err(format!("module {part} has an instance before module {missing} has one"));
        }
        self.is_linked_as_recorded(store, part, instance)?;
        let since = self.held.replace(Vec::new());
        let given = self.given(store, part, instance);
        let first = std::mem::replace(&mut self.held, since);
        self.first.extend(first.unwrap_or_default());
        given?;
        if let Some(linked) = &self.linked
            && let Some(function) = linked.parts[part].instantiate
            && !linked.parts[part].has_start
            && let Some((function, door)) = self.by_export(function)
        {
            // The engine has copied the segments; the start function is recorded separately.
            self.push(Event::Enter { function, door, args: Vec::new() });
            self.push(Event::Leave(End::Values(Vec::new())));
        }
        if self.instances.iter().all(Option::is_some) {
            self.release();
        }
        Ok(())
    }

    /// Whether a module's imports from the others are those that the linked module has in these
    /// places.
    fn is_linked_as_recorded(
        &self,
        store: &mut StoreContextMut<'_, ()>,
        part: usize,
        instance: Instance,
    ) -> Result<(), Refusal> {
        let first_own = self.declared.imports.len() as u32;
        for import in instance.imports_from_instances(store.core()) {
            let place = self.place_of(part, import, |indices| &indices.functions);
            if self.linked.is_none() || place.is_none_or(|place| place < first_own) {
                let mut all = self.modules[part].imports();
                let is_function = |import: &crate::ImportType<'_>| {
                    matches!(import.ty, crate::ExternType::Func(_))
                };
                let found = all.by_ref().filter(is_function).nth(import as usize);
                let name = found.map(|found| format!("\"{}\" \"{}\"", found.module, found.name));
                return Err(format!(
                    "{} is a function of another instance, and calls between instances are not \
                     seen: record both modules as one program",
                    name.unwrap_or_default()
                ));
            }
        }
        let Some(linked) = &self.linked else { return Ok(()) };
        let indices = &linked.parts[part];
        let spaces = [
            (Space::Memory, &indices.memories),
            (Space::Table, &indices.tables),
            (Space::Global, &indices.globals),
            (Space::Tag, &indices.tags),
        ];
        for (space, places) in spaces {
            for (index, place) in places.iter().enumerate() {
                let Some(item) = instance.item_at(store.core(), space, index as u32) else {
                    continue;
                };
                if self.index_of(store, item) != Some(*place) {
                    return Err(format!(
                        "module {part} imports another thing than the linked modules have: \
                         number {index} of its {space:?} space"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The values that a module gets from the host before any of its code is executed.
    fn given(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        part: usize,
        instance: Instance,
    ) -> Result<(), Refusal> {
        let failed = |error: Error| error.to_string();
        for (space, own) in self.imported_first(part) {
            let Some(item) = instance.item_at(store.core(), space, own) else { continue };
            let Some(index) = self.index_of(store, item) else { continue };
            match item {
                Extern::Memory(memory) => {
                    let size = memory.size(&mut *store).map_err(failed)?;
                    let least = self.declared.memories[index as usize].initial;
                    let pages = size.saturating_sub(least);
                    if pages > 0 {
                        self.push(Event::Host(Change::Grow { memory: index, pages }));
                    }
                    let bytes = memory.contents(store.core()).unwrap_or_default().to_vec();
                    self.differences(index, &[], &bytes);
                }
                Extern::Global(global) => {
                    let value = global.get(&mut *store).map_err(failed)?;
                    let value = self.value(store, &value)?;
                    self.push(Event::Host(Change::Global { global: index, value }));
                }
                Extern::Table(table) => self.begin_table(store, index, table)?,
                Extern::Func(_) | Extern::Tag(_) => {}
            }
        }
        Ok(())
    }

    /// The memories, globals and tables that a module imports from the host and no earlier module
    /// imports, by their own indices.
    fn imported_first(&self, part: usize) -> Vec<(Space, u32)> {
        use wasmparser::ExternalKind as Kind;
        let imported = self.declared.imported;
        let Some(linked) = &self.linked else {
            let all = |space, count| (0..count).map(move |index| (space, index));
            return all(Space::Memory, imported.memories)
                .chain(all(Space::Global, imported.globals))
                .chain(all(Space::Table, imported.tables))
                .collect();
        };
        let each = linked.parts[part].first.iter().filter_map(|(kind, index)| {
            let space = match kind {
                Kind::Memory => Space::Memory,
                Kind::Global => Space::Global,
                Kind::Table => Space::Table,
                Kind::Func | Kind::FuncExact | Kind::Tag => return None,
            };
            Some((space, *index))
        });
        each.collect()
    }

    fn begin_table(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        table: u32,
        handle: crate::Table,
    ) -> Result<(), Refusal> {
        let failed = |error: Error| error.to_string();
        let size = handle.size(&mut *store).map_err(failed)?;
        let ty = self.declared.tables[table as usize];
        let null = Value::zero(wasmparser::ValType::Ref(ty.element_type));
        let count = size.saturating_sub(ty.initial);
        if let (Some(value), 1..) = (null, count) {
            self.push(Event::Host(Change::GrowTable { table, count, value }));
        }
        for index in 0..size {
            let value = handle.get(&mut *store, index).map_err(failed)?;
            let value = value.map(|value| self.value(store, &value)).transpose()?;
            if let Some(value) = value.filter(|value| Some(*value) != null) {
                self.push(Event::Host(Change::Element { table, index, value }));
            }
        }
        Ok(())
    }

    /// Records the host's writes to memories that it was lent.
    fn compare(&mut self, store: &mut StoreContextMut<'_, ()>) -> Result<(), Refusal> {
        for (index, memory, before) in std::mem::take(&mut self.lent) {
            let now = memory.contents(store.core()).unwrap_or_default().to_vec();
            self.differences(index, &before, &now);
        }
        Ok(())
    }

    /// Records the ranges of bytes that differ; bytes of new pages were zero.
    fn differences(&mut self, memory: u32, before: &[u8], now: &[u8]) {
        /// The maximum number of unchanged bytes within a range.
        const GAP: usize = 8;
        let differs = |at: usize| now[at] != before.get(at).copied().unwrap_or_default();
        let mut at = 0;
        while at < now.len() {
            // Most of a memory is unchanged: many bytes are compared at a time.
            const PIECE: usize = 4096;
            let piece = at..(at + PIECE).min(now.len());
            let is_same = match before.get(piece.clone()) {
                Some(before) => before == &now[piece.clone()],
                None => piece.clone().all(|at| !differs(at)),
            };
            if is_same {
                at = piece.end;
                continue;
            }
            let first = piece.clone().find(|at| differs(*at)).expect("some byte differs");
            let mut end = first + 1;
            while let Some(next) = (end..(end + GAP).min(now.len())).find(|at| differs(*at)) {
                end = next + 1;
            }
            let bytes = now[first..end].to_vec();
            self.push(Event::Host(Change::Write { memory, address: first as u64, bytes }));
            at = end;
        }
    }

    fn end(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        done: Result<&[Val], &Error>,
        is_host: bool,
    ) -> Result<End, Refusal> {
        Ok(match done {
            Ok(values) => End::Values(self.values(store, values)?),
            Err(Error::Exit(code)) => {
                let frames = if is_host { self.frames(store) } else { Vec::new() };
                End::Exit { code: *code, frames }
            }
            Err(Error::Exception(report)) => {
                let exception = report.exception.as_ref().ok_or("an exception without a tag")?;
                let failed = |error: Error| error.to_string();
                let tag = exception.tag(&mut *store).map_err(failed)?;
                let tag = self.index_of(store, tag.into());
                let tag = tag.ok_or("an exception with a tag that is not the program's")?;
                let values = exception.values(&mut *store).map_err(failed)?;
                End::Exception { tag, values: self.values(store, &values)? }
            }
            Err(error) => match error.trap() {
                Some(trap @ (Trap::Interrupted | Trap::Budget | Trap::Probe)) => {
                    return Err(format!("the program was stopped from outside: {trap}"));
                }
                Some(Trap::StackOverflow) => {
                    return Err("the program exhausts its stack, whose size other engines choose \
                                otherwise"
                        .into());
                }
                Some(trap) => End::Trap(trap.to_string()),
                None => End::Trap(error.to_string().chars().take(1000).collect()),
            },
        })
    }

    /// The calls of the program that an exit unwinds.
    fn frames(&self, store: &mut StoreContextMut<'_, ()>) -> Vec<Frame> {
        let frame = |(module, function, offset): (&ModuleInner, u32, u32)| {
            let Some(linked) = &self.linked else { return Some(Frame { function, offset }) };
            let mut all = self.modules.iter();
            let part = all.position(|own| std::ptr::eq(&**own.inner(), module))?;
            let bytes = &self.modules[part].inner().bytes;
            let offset = linked.call(part, bytes, function, offset)?;
            Some(Frame { function: linked.parts[part].functions[function as usize], offset })
        };
        let waiting = store.core().calls_that_wait().unwrap_or_default();
        waiting.into_iter().filter_map(frame).collect()
    }

    fn values(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        values: &[Val],
    ) -> Result<Vec<Value>, Refusal> {
        values.iter().map(|value| self.value(store, value)).collect()
    }

    fn value(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        value: &Val,
    ) -> Result<Value, Refusal> {
        Ok(match value {
            Val::I32(value) => Value::I32(value.cast_unsigned()),
            Val::I64(value) => Value::I64(value.cast_unsigned()),
            Val::F32(bits) => Value::F32(*bits),
            Val::F64(bits) => Value::F64(*bits),
            Val::V128(bits) => Value::V128(*bits),
            Val::FuncRef(None) => Value::Func(None),
            Val::ExternRef(None) => Value::Extern(None),
            Val::FuncRef(Some(function)) => Value::Func(Some(self.function(store, *function)?)),
            Val::ExternRef(Some(reference)) => {
                let known = self.externs.iter().position(|other| other.same(reference));
                Value::Extern(Some(known.unwrap_or_else(|| {
                    self.externs.push(reference.clone());
                    self.externs.len() - 1
                }) as u32))
            }
            Val::ExnRef(_) => return Err("a reference to an exception".into()),
            Val::AnyNull => return Err("a reference to an object that is collected".into()),
        })
    }
}
