//! Recording that begins in the middle of a run: at a quiet point, where none of the program's
//! functions is executing.
//!
//! A trace begins with the changes that turn a new instance into the present state of the program:
//! its memories, globals and tables. A new instance is created to find them. It has the program's
//! imports, and no start function is called. In it, segments that the program has dropped exist
//! again: an instruction that used one afterwards has trapped, but does not trap in the replay.

use super::{Recorder, Refusal, State};
use crate::instrument::module::Space;
use crate::replaying::begun;
use crate::{AsContextMut as _, Engine, Error, Extern, Instance, Module, Store, StoreContextMut};
use wasm_aot_trace::{Change, Declared, Event, Program, Sink, Value, Writer};

/// The size of a page.
const PAGE: usize = 1 << 16;

/// The state of an item that can change.
enum Found {
    Memory(Vec<u8>),
    Global(Value),
    Table(Vec<Option<Value>>),
}

impl<S: Sink + Send + std::fmt::Debug + 'static> Recorder<S> {
    /// Starts to record an existing instance: its trace begins with the contents of its memories,
    /// globals and tables. A store that can be borrowed mutably is not executing.
    ///
    /// # Errors
    /// If the program cannot be recorded, is recorded already, or has a value in a table or global
    /// that traces cannot represent.
    pub fn at_quiet_point<T>(
        store: &mut Store<T>,
        module: &Module,
        instance: Instance,
        program: &Program,
        sink: S,
    ) -> Result<Self, Error> {
        let refused = |why: Refusal| Error::Link(format!("it cannot be recorded: {why}"));
        let mut context = store.as_context_mut();
        let core = context.core();
        if core.is_observed() {
            return Err(refused("it is being recorded".into()));
        }
        if !instance.is_of_module(core, module) {
            return Err(refused("the instance is of another module, or of another store".into()));
        }
        let declared = Declared::read(&module.inner().bytes).map_err(Error::host)?;
        if let Some(what) = declared.refusal() {
            return Err(refused(format!("it has {what}")));
        }
        super::refuse_relaxed(module)?;
        let mut state = State {
            // The snapshot is taken before the writer is created, so that a refusal leaves no
            // trace.
            writer: None,
            instances: vec![Some(instance)],
            modules: vec![module.clone()],
            linked: None,
            declared,
            first: Vec::new(),
            held: Some(Vec::new()),
            externs: Vec::new(),
            host_functions: super::HostFunctions::default(),
            is_programs_turn: false,
            lent: Vec::new(),
            host_time: super::HostTime::default(),
            goes_on: None,
        };
        let engine = store.engine().clone();
        let mut context = store.as_context_mut();
        let now = &mut context.without_data();
        state.is_linked_as_recorded(now, 0, instance).map_err(refused)?;
        state.snapshot(now, &engine, instance).map_err(refused)?;
        state.writer = Some(Writer::new(sink, program).map_err(Error::host)?);
        state.release();
        Ok(Self::observe(store, state))
    }
}

impl<S: Sink> State<S> {
    /// Records the events that make a new instance equal to this one.
    fn snapshot(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        engine: &Engine,
        instance: Instance,
    ) -> Result<(), Refusal> {
        let failed = |error: Error| error.to_string();
        self.given(store, 0, instance)?;
        let now = self.everything(store, instance)?;
        let (mut first, mut functions) = (Vec::new(), Vec::new());
        for event in self.held.replace(Vec::new()).unwrap_or_default() {
            match event {
                Event::Host(change) => first.push(change),
                Event::Function(signature) => functions.push(signature),
                _ => {}
            }
        }
        // A new instance copies its segments over its imports. So the trace gives it the contents
        // after that copy, as in a recording that begins with an instance.
        let mut scratch = Store::new(engine, ());
        let new = begun(&mut scratch, &self.modules[0], &first, &functions).map_err(failed)?;
        let externs = std::mem::take(&mut self.externs);
        let host_functions = std::mem::take(&mut self.host_functions);
        self.instances[0] = Some(new);
        let context = &mut scratch.as_context_mut();
        let given = self.given(context, 0, new);
        let begun = given.and_then(|()| self.everything(context, new));
        self.instances[0] = Some(instance);
        self.externs = externs;
        self.host_functions = host_functions;
        if let Some(held) = &mut self.held {
            // Those of the scratch store are the same functions.
            held.retain(|event| !matches!(event, Event::Function(_)));
            held.splice(0..0, functions.into_iter().map(Event::Function));
        }
        for ((index, before), (_, now)) in begun?.into_iter().zip(now) {
            self.tell(index, &before, now);
        }
        Ok(())
    }

    /// All items of an instance that can change, by kind and index.
    fn everything(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        instance: Instance,
    ) -> Result<Vec<(u32, Found)>, Refusal> {
        let failed = |error: Error| error.to_string();
        let declared = &self.declared;
        let counts = [
            (Space::Memory, declared.memories.len()),
            (Space::Global, declared.globals.len()),
            (Space::Table, declared.tables.len()),
        ];
        let places = counts
            .into_iter()
            .flat_map(|(space, count)| (0..count as u32).map(move |index| (space, index)));
        let places: Vec<(Space, u32)> = places.collect();
        let mut all = Vec::new();
        for (space, index) in places {
            let found = match instance.item_at(store.core(), space, index) {
                Some(Extern::Memory(memory)) => {
                    Found::Memory(memory.contents(store.core()).unwrap_or_default().to_vec())
                }
                Some(Extern::Global(_)) if !self.declared.globals[index as usize].mutable => {
                    continue;
                }
                Some(Extern::Global(global)) => {
                    let value = global.get(&mut *store).map_err(failed)?;
                    Found::Global(self.value(store, &value)?)
                }
                Some(Extern::Table(table)) => {
                    let size = table.size(&mut *store).map_err(failed)?;
                    let mut elements = Vec::new();
                    for element in 0..size {
                        let value = table.get(&mut *store, element).map_err(failed)?;
                        let value = value.map(|value| self.value(store, &value)).transpose()?;
                        elements.push(value);
                    }
                    Found::Table(elements)
                }
                Some(Extern::Func(_) | Extern::Tag(_)) | None => continue,
            };
            all.push((index, found));
        }
        Ok(all)
    }

    /// Records how an item differs from a new one.
    fn tell(&mut self, index: u32, before: &Found, now: Found) {
        match (before, now) {
            (Found::Memory(before), Found::Memory(now)) => {
                let pages = (now.len().saturating_sub(before.len()) / PAGE) as u64;
                if pages > 0 {
                    self.push(Event::Host(Change::Grow { memory: index, pages }));
                }
                self.differences(index, before, &now);
            }
            (Found::Global(before), Found::Global(value)) if *before != value => {
                self.push(Event::Host(Change::Global { global: index, value }));
            }
            (Found::Table(before), Found::Table(now)) => {
                let count = now.len().saturating_sub(before.len()) as u64;
                if let (1.., Some(Some(value))) = (count, now.last().copied()) {
                    self.push(Event::Host(Change::GrowTable { table: index, count, value }));
                }
                let grown = now.last().copied().flatten();
                for (at, value) in now.into_iter().enumerate() {
                    let before = before.get(at).copied().unwrap_or(grown);
                    if let Some(value) = value.filter(|_| value != before) {
                        let element = Change::Element { table: index, index: at as u64, value };
                        self.push(Event::Host(element));
                    }
                }
            }
            _ => {}
        }
    }
}
