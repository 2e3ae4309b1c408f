//! Recording: what crosses the boundary between a program and its host becomes a trace.
//!
//! Nothing is put into the program: calls across the boundary are told by the engine, and so is
//! what the host writes. A program that computes runs at full speed.

use crate::instrument::module::Space;
use crate::instrument::runtime::{Boundary, Call, Callee, Crossing};
use crate::{
    Error, Extern, ExternRef, Instance, Memory, Module, Store, StoreContextMut, Trap, Val,
};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use wasm_aot_trace::{Change, Declared, Door, End, Event, Frame, Program, Sink, Value, Writer};

/// A recorder of one program: of the first instance of its module that is made in a store.
#[derive(Debug)]
pub struct Recorder<S: Sink>(Arc<Mutex<State<S>>>);

/// What a recorder has made.
#[derive(Debug)]
pub struct Recorded<S> {
    /// How many events the trace has.
    pub events: u64,
    /// Where it went.
    pub sink: S,
    /// Why it ends before the program, if it does.
    pub failure: Option<io::Error>,
}

impl<S: Sink + Send + std::fmt::Debug + 'static> Recorder<S> {
    /// Records a module from when an instance of it is made in the store.
    pub fn new<T>(
        store: &mut Store<T>,
        module: &Module,
        program: &Program,
        sink: S,
    ) -> Result<Self, Error> {
        let declared = Declared::read(&module.inner().bytes).map_err(Error::host)?;
        if let Some(what) = declared.refusal() {
            return Err(Error::Link(format!("it cannot be recorded: it has {what}")));
        }
        let state = State {
            writer: Some(Writer::new(sink, program).map_err(Error::host)?),
            module: module.clone(),
            declared,
            instance: None,
            externs: Vec::new(),
            lent: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let flushed = Arc::downgrade(&state);
        let flusher = std::thread::Builder::new().name("recorder".into());
        // Without it, less is on the disk when the process is killed.
        let _ = flusher.spawn(move || flush(&flushed));
        store.observe_boundary(Some(Box::new(Observer(Arc::clone(&state)))));
        Ok(Self(state))
    }

    /// Ends the recording.
    pub fn finish<T>(self, store: &mut Store<T>) -> Recorded<S> {
        store.observe_boundary(None);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = state.writer.take().expect("it is finished once");
        let (events, sink, failure) = writer.finish();
        Recorded { events, sink, failure }
    }
}

/// How old an event may become before it is on the disk.
const LATEST: Duration = Duration::from_millis(200);

/// Has what was recorded on the disk while the program does something else, until it is finished.
fn flush<S: Sink>(state: &Weak<Mutex<State<S>>>) {
    while let Some(state) = state.upgrade() {
        match &mut state.lock().unwrap_or_else(PoisonError::into_inner).writer {
            Some(writer) => writer.flush(),
            None => return,
        }
        drop(state);
        std::thread::sleep(LATEST);
    }
}

#[derive(Debug)]
struct Observer<S: Sink>(Arc<Mutex<State<S>>>);

#[derive(Debug)]
struct State<S: Sink> {
    /// Nothing when it is finished.
    writer: Option<Writer<S>>,
    module: Module,
    declared: Declared,
    /// The instance that is recorded.
    instance: Option<Instance>,
    /// What of the host's the program has seen, by the order in which that was.
    externs: Vec<ExternRef>,
    /// Memories that the host may have written to, as they were.
    lent: Vec<(u32, Memory, Vec<u8>)>,
}

impl<S: Sink + Send + std::fmt::Debug> Boundary for Observer<S> {
    fn crosses(&mut self, mut store: StoreContextMut<'_, ()>, crossing: Crossing<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_going = state.writer.as_ref().is_some_and(|writer| writer.failure().is_none());
        if !is_going {
            return;
        }
        if let Err(why) = state.take(&mut store, crossing)
            && let Some(writer) = &mut state.writer
        {
            writer.stop(why);
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
            if self.instance.is_none() && instance.is_of_module(store.core(), &self.module) {
                self.instance = Some(instance);
                self.begin(store, instance)?;
            }
            return Ok(());
        }
        let Some(instance) = self.instance else { return Ok(()) };
        match crossing {
            Crossing::Begins(_) => {}
            Crossing::Enters(callee, args) => {
                if let Some((function, door)) = self.callee(store, instance, callee) {
                    self.compare(store)?;
                    let args = self.values(store, args)?;
                    self.push(&Event::Enter { function, door, args });
                }
            }
            Crossing::Leaves(callee, done) => {
                if self.callee(store, instance, callee).is_some() {
                    let end = self.end(store, done, false)?;
                    self.push(&Event::Leave(end));
                }
            }
            Crossing::Calls(Call { instance: Some(caller), import }, args)
                if caller == instance =>
            {
                let args = self.values(store, args)?;
                self.push(&Event::Call { function: import, args });
            }
            Crossing::Returns(Call { instance: Some(caller), .. }, done) if caller == instance => {
                self.compare(store)?;
                let end = self.end(store, done, true)?;
                self.push(&Event::Return(end));
            }
            Crossing::Calls(..) | Crossing::Returns(..) => {}
            Crossing::Writes(memory, address, bytes) => {
                // What is lent is compared anyway.
                if let Some(memory) = instance.index_of(store.core(), memory.into())
                    && !self.lent.iter().any(|(lent, ..)| *lent == memory)
                {
                    let bytes = bytes.to_vec();
                    self.push(&Event::Host(Change::Write { memory, address, bytes }));
                }
            }
            Crossing::Lends(memory, bytes) => {
                if let Some(index) = instance.index_of(store.core(), memory.into())
                    && !self.lent.iter().any(|(lent, ..)| *lent == index)
                {
                    self.lent.push((index, memory, bytes.to_vec()));
                }
            }
            Crossing::Grows(memory, pages) => {
                if let Some(memory) = instance.index_of(store.core(), memory.into()) {
                    self.push(&Event::Host(Change::Grow { memory, pages }));
                }
            }
            Crossing::Sets(global, value) => {
                if let Some(global) = instance.index_of(store.core(), global.into()) {
                    let value = self.value(store, &value)?;
                    self.push(&Event::Host(Change::Global { global, value }));
                }
            }
            Crossing::Replaces(table, index, value) => {
                if let Some(table) = instance.index_of(store.core(), table.into()) {
                    let value = self.value(store, &value)?;
                    self.push(&Event::Host(Change::Element { table, index, value }));
                }
            }
            Crossing::GrowsTable(table, count, value) => {
                if let Some(table) = instance.index_of(store.core(), table.into()) {
                    let value = self.value(store, &value)?;
                    self.push(&Event::Host(Change::GrowTable { table, count, value }));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, event: &Event) {
        if let Some(writer) = &mut self.writer {
            writer.push(event);
        }
    }

    /// Which function of the instance the host calls, and how it has come by it.
    fn callee(
        &self,
        store: &mut StoreContextMut<'_, ()>,
        instance: Instance,
        callee: Callee,
    ) -> Option<(u32, Door)> {
        match callee {
            Callee::Start(own) => (own == instance).then_some((self.declared.start?, Door::Start)),
            Callee::Function(function) => {
                let index = instance.index_of(store.core(), function.into())?;
                // What is imported and exported again is the host's.
                let is_own = index as usize >= self.declared.imports.len();
                let name = self.declared.exported_function(index).map(str::to_owned);
                is_own.then(|| (index, name.map_or(Door::Reference, Door::Export)))
            }
        }
    }

    /// What the program is given before anything of it is executed.
    fn begin(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        instance: Instance,
    ) -> Result<(), Refusal> {
        if let [first, ..] = instance.imports_from_instances(store.core())[..] {
            let (module, name) = &self.declared.imports[first as usize];
            return Err(format!(
                "\"{module}\" \"{name}\" is a function of another instance, and calls between \
                 instances are not seen: link both to one module, and record that"
            ));
        }
        let failed = |error: Error| error.to_string();
        for index in 0..self.declared.imported.memories {
            let item = instance.item_at(store.core(), Space::Memory, index);
            let Some(Extern::Memory(memory)) = item else { continue };
            let size = memory.size(&mut *store).map_err(failed)?;
            let pages = size.saturating_sub(self.declared.memories[index as usize].initial);
            if pages > 0 {
                self.push(&Event::Host(Change::Grow { memory: index, pages }));
            }
            let bytes = memory.contents(store.core()).unwrap_or_default().to_vec();
            self.differences(index, &[], &bytes);
        }
        for index in 0..self.declared.imported.globals {
            let item = instance.item_at(store.core(), Space::Global, index);
            let Some(Extern::Global(global)) = item else { continue };
            let value = global.get(&mut *store).map_err(failed)?;
            let value = self.value(store, &value)?;
            self.push(&Event::Host(Change::Global { global: index, value }));
        }
        for index in 0..self.declared.imported.tables {
            let item = instance.item_at(store.core(), Space::Table, index);
            let Some(Extern::Table(table)) = item else { continue };
            self.begin_table(store, index, table)?;
        }
        Ok(())
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
            self.push(&Event::Host(Change::GrowTable { table, count, value }));
        }
        for index in 0..size {
            let value = handle.get(&mut *store, index).map_err(failed)?;
            let value = value.map(|value| self.value(store, &value)).transpose()?;
            if let Some(value) = value.filter(|value| Some(*value) != null) {
                self.push(&Event::Host(Change::Element { table, index, value }));
            }
        }
        Ok(())
    }

    /// What the host has written to memories that it was lent.
    fn compare(&mut self, store: &mut StoreContextMut<'_, ()>) -> Result<(), Refusal> {
        for (index, memory, before) in std::mem::take(&mut self.lent) {
            let now = memory.contents(store.core()).unwrap_or_default().to_vec();
            self.differences(index, &before, &now);
        }
        Ok(())
    }

    /// The rows of bytes that differ; what is new was zero.
    fn differences(&mut self, memory: u32, before: &[u8], now: &[u8]) {
        /// A row goes on over so many bytes that are as they were.
        const GAP: usize = 8;
        let differs = |at: usize| now[at] != before.get(at).copied().unwrap_or_default();
        let mut at = 0;
        while at < now.len() {
            // Most of a memory is as it was: many bytes at a time.
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
            self.push(&Event::Host(Change::Write { memory, address: first as u64, bytes }));
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
                let waiting = is_host.then(|| store.core().calls_that_wait()).flatten();
                let frame = |(function, offset)| Frame { function, offset };
                let frames = waiting.unwrap_or_default().into_iter().map(frame).collect();
                End::Exit { code: *code, frames }
            }
            Err(Error::Exception(report)) => {
                let exception = report.exception.as_ref().ok_or("an exception without a tag")?;
                let failed = |error: Error| error.to_string();
                let tag = exception.tag(&mut *store).map_err(failed)?;
                let instance = self.instance.expect("something is recorded");
                let tag = instance.index_of(store.core(), tag.into());
                let tag = tag.ok_or("an exception with a tag that is not the program's")?;
                let values = exception.values(&mut *store).map_err(failed)?;
                End::Exception { tag, values: self.values(store, &values)? }
            }
            Err(error) => match error.trap() {
                Some(trap @ (Trap::Interrupted | Trap::Budget | Trap::Probe)) => {
                    return Err(format!("the program was stopped from outside: {trap}"));
                }
                Some(trap) => End::Trap(trap.to_string()),
                None => End::Trap(error.to_string().chars().take(1000).collect()),
            },
        })
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
            Val::FuncRef(Some(function)) => {
                let instance = self.instance.expect("something is recorded");
                let index = instance.index_of(store.core(), (*function).into());
                Value::Func(Some(
                    index.ok_or("a reference to a function that is not the program's")?,
                ))
            }
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
