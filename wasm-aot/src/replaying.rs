//! Replaying a trace in this engine: the program itself runs, with its own code, and the trace acts
//! as its host. So every monitor observes what it would have observed during the recording.
//!
//! Every event of the program is compared with the trace. The first difference ends the replay, and
//! is reported as a [`Divergence`].

mod divergence;
mod host_functions;
mod output;

use crate::instrument::module::Space;
use crate::{
    AsContextMut, Backtrace, Caller, Error, ExceptionReport, ExnRef, Extern, ExternRef, Func,
    Global, Instance, Memory, Module, Store, Table, Tag, Trap, Val,
};
pub use divergence::{Divergence, HostFailed, TraceEnds};
use host_functions::HostFunctions;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use wasm_aot_trace::{Change, Declared, Door, End, Event, Placed, Signature, Value};
use wasmparser::{KnownCustom, Name, Parser, Payload};

/// The function that gets the program's output.
pub type Print = fn(is_error: bool, bytes: &[u8]);

type Events = dyn Iterator<Item = Result<Event, wasm_aot_trace::Error>> + Send;

/// Repeats a run of a module in a store. `print` gets the program's output to stdout and stderr, if
/// it is a WASI program. Fails as the recorded run failed, or with a [`Divergence`].
pub fn replay<T: 'static>(
    store: &mut Store<T>,
    module: &Module,
    events: impl Iterator<Item = Result<Event, wasm_aot_trace::Error>> + Send + 'static,
    print: Option<Print>,
) -> Result<(), Error> {
    replay_instance(store, module, events, print).1
}

/// The same; also returns the instance, if there is one.
pub fn replay_instance<T: 'static>(
    store: &mut Store<T>,
    module: &Module,
    events: impl Iterator<Item = Result<Event, wasm_aot_trace::Error>> + Send + 'static,
    print: Option<Print>,
) -> (Option<Instance>, Result<(), Error>) {
    replay_script(store, module, events, (print, None))
}

/// The same for a program with inserted code that begins in a start function: that function is
/// called, whatever the trace contains about the program's own. The trace is that of the original
/// program, which has this number of functions.
pub fn replay_rewritten<T: 'static>(
    store: &mut Store<T>,
    module: &Module,
    functions: u32,
    events: impl Iterator<Item = Result<Event, wasm_aot_trace::Error>> + Send + 'static,
) -> (Option<Instance>, Result<(), Error>) {
    replay_script(store, module, events, (None, Some(functions)))
}

fn replay_script<T: 'static>(
    store: &mut Store<T>,
    module: &Module,
    events: impl Iterator<Item = Result<Event, wasm_aot_trace::Error>> + Send + 'static,
    (print, rewritten): (Option<Print>, Option<u32>),
) -> (Option<Instance>, Result<(), Error>) {
    let declared = match Declared::read(&module.inner().bytes) {
        Ok(declared) => declared,
        Err(error) => return (None, Err(Error::host(error))),
    };
    if let Some(what) = declared.refusal() {
        return (None, Err(Error::Link(format!("it cannot be replayed: it has {what}"))));
    }
    let mut script = Script::new(Box::new(Placed::new(events)), declared, print);
    script.always_starts = rewritten.is_some();
    if let Some(functions) = rewritten {
        script.functions = functions;
        script.gateways = gateways(&module.inner().bytes);
    }
    let script = Shared::new(script);
    let made = script.instantiate(store, module);
    let instance = *script.lock().instance.insert(match made {
        Ok(instance) => instance,
        Err(error) => return (None, Err(error)),
    });
    let played = match script.play(store) {
        // Nothing has called the host.
        Ok(Some(end)) => Err(script.lock().unasked(Event::Return(end))),
        played => played.map(|_| ()),
    };
    (Some(instance), played)
}

/// The actions of the host, event by event.
struct Script {
    events: Box<Events>,
    /// The next event, if it was read already.
    ahead: Option<Event>,
    /// The number of the next event.
    number: u64,
    instance: Option<Instance>,
    externs: Vec<ExternRef>,
    host_functions: HostFunctions,
    /// The number of the program's functions in the trace: the first host function's index.
    functions: u32,
    /// The functions that replace the program's own in references, if it is rewritten.
    gateways: BTreeMap<u32, u32>,
    declared: Declared,
    print: Option<Print>,
    /// Whether a start function is called that the trace does not contain.
    always_starts: bool,
}

impl Script {
    fn new(events: Box<Events>, declared: Declared, print: Option<Print>) -> Self {
        Self {
            events,
            ahead: None,
            number: 0,
            instance: None,
            externs: Vec::new(),
            host_functions: HostFunctions::default(),
            functions: declared.functions(),
            gateways: BTreeMap::new(),
            declared,
            print,
            always_starts: false,
        }
    }

    fn next(&mut self) -> Result<Option<Event>, Error> {
        let event = match self.ahead.take() {
            Some(event) => Some(event),
            None => self.read()?,
        };
        self.number += u64::from(event.is_some());
        Ok(event)
    }

    /// Reads the next event that is an action.
    fn read(&mut self) -> Result<Option<Event>, Error> {
        loop {
            match self.events.next().transpose().map_err(Error::host)? {
                Some(Event::Function(signature)) => {
                    self.host_functions.add(signature);
                    self.number += 1;
                }
                event => return Ok(event),
            }
        }
    }

    fn peek(&mut self) -> Result<Option<&Event>, Error> {
        if self.ahead.is_none() {
            self.ahead = self.read()?;
        }
        Ok(self.ahead.as_ref())
    }

    /// Returns an error: the event that was read last differs from the program's action.
    fn diverges(
        &self,
        about: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        Error::host(Divergence {
            event: self.number.saturating_sub(1),
            about: about.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
        })
    }

    /// Returns an error: the event that was read last is the program's, but control is the host's.
    fn unasked(&self, event: Event) -> Error {
        self.diverges("which comes next", event, "control is the host's")
    }

    /// The error of a program that cannot be instantiated: it differs from a trace that goes on.
    fn unmade(&mut self, error: Error) -> Error {
        match self.next() {
            Ok(Some(event)) if error.trap().is_some() => {
                let why = error.to_string();
                let why = why.lines().next().unwrap_or_default();
                self.diverges("the program's instantiation", event, why)
            }
            _ => error,
        }
    }

    fn ends(&self) -> Error {
        Error::host(TraceEnds { events: self.number })
    }

    fn instance(&self) -> Result<Instance, Error> {
        self.instance.ok_or_else(|| Error::Link("the program is not there yet".into()))
    }

    fn function_name(&self, function: u32) -> String {
        match self.declared.imports.get(function as usize) {
            Some((module, name)) => format!("function {function}, \"{module}\" \"{name}\""),
            None => format!("function {function}"),
        }
    }

    fn value(
        &mut self,
        store: &mut impl AsContextMut<Data: 'static>,
        value: Value,
    ) -> Result<Val, Error> {
        Ok(match value {
            Value::I32(bits) => Val::I32(bits.cast_signed()),
            Value::I64(bits) => Val::I64(bits.cast_signed()),
            Value::F32(bits) => Val::F32(bits),
            Value::F64(bits) => Val::F64(bits),
            Value::V128(bits) => Val::V128(bits),
            Value::Func(None) => Val::FuncRef(None),
            Value::Extern(None) => Val::ExternRef(None),
            Value::Object => Val::ExternRef(Some(ExternRef::new(()))),
            Value::Func(Some(index)) => Val::FuncRef(Some(self.function(store, index)?)),
            Value::Extern(Some(number)) => {
                let number = number as usize;
                // Traces name them in order.
                if number > self.externs.len() {
                    return Err(Error::Type(format!("{value} comes before extern:{}", number - 1)));
                }
                if number == self.externs.len() {
                    self.externs.push(ExternRef::new(number));
                }
                Val::ExternRef(Some(self.externs[number].clone()))
            }
        })
    }

    fn values(
        &mut self,
        store: &mut impl AsContextMut<Data: 'static>,
        all: &[Value],
    ) -> Result<Vec<Val>, Error> {
        all.iter().map(|value| self.value(store, *value)).collect()
    }

    fn function(
        &mut self,
        store: &mut impl AsContextMut<Data: 'static>,
        index: u32,
    ) -> Result<Func, Error> {
        if index >= self.functions {
            return self.host_function(store, index);
        }
        let mut context = store.as_context_mut();
        let own = self.gateways.get(&index).copied().unwrap_or(index);
        let item = self.instance()?.item_at(context.core(), Space::Func, own);
        item.and_then(Extern::into_func).ok_or_else(|| {
            Error::Link(format!("function {index} is neither exported nor referred to"))
        })
    }

    /// Whether the trace goes on with a call of the start function: reads it.
    fn starts(&mut self) -> Result<bool, Error> {
        let Some(Event::Enter { function, door: Door::Start, .. }) = self.peek()? else {
            return Ok(false);
        };
        let (function, own) = (*function, self.declared.start);
        self.next()?;
        match own == Some(function) || self.always_starts {
            true => Ok(true),
            false => {
                let own = own.map_or("none".into(), |own| format!("function {own}"));
                Err(self.diverges("the start function", format!("function {function}"), own))
            }
        }
    }

    /// Returns the function that the host calls through a door.
    fn entered(
        &mut self,
        store: &mut impl AsContextMut<Data: 'static>,
        index: u32,
        door: &Door,
    ) -> Result<Func, Error> {
        let Door::Export(name) = door else { return self.function(store, index) };
        // In a program with inserted code it may be another index.
        let own = self.declared.function_named(name);
        match self.instance()?.get_func(store, name) {
            Some(function) if own == Some(index) || self.always_starts => Ok(function),
            _ => {
                let found = own.map_or("nothing".into(), |own| format!("function {own}"));
                let about = format!("the export {name:?}");
                Err(self.diverges(about, format!("function {index}"), found))
            }
        }
    }

    /// Whether the program's value is that of the trace. NaNs are equal, as engines choose their
    /// bits.
    fn is(&mut self, store: &mut impl AsContextMut, expected: Value, found: &Val) -> bool {
        let is_nan = |bits: u32| f32::from_bits(bits).is_nan();
        let is_wide_nan = |bits: u64| f64::from_bits(bits).is_nan();
        match (expected, found) {
            (Value::F32(a), Val::F32(b)) => a == *b || (is_nan(a) && is_nan(*b)),
            (Value::F64(a), Val::F64(b)) => a == *b || (is_wide_nan(a) && is_wide_nan(*b)),
            (Value::I32(a), Val::I32(b)) => a == b.cast_unsigned(),
            (Value::I64(a), Val::I64(b)) => a == b.cast_unsigned(),
            (Value::V128(a), Val::V128(b)) => a == *b,
            (Value::Func(None), Val::FuncRef(None)) => true,
            (Value::Extern(None), Val::ExternRef(None)) => true,
            (Value::Object, Val::ExternRef(Some(_))) => true,
            (Value::Func(Some(index)), Val::FuncRef(Some(function))) if index >= self.functions => {
                self.host_functions.is(index - self.functions, *function)
            }
            (Value::Func(Some(index)), Val::FuncRef(Some(function))) => {
                let mut context = store.as_context_mut();
                let instance = self.instance;
                let index = self.gateways.get(&index).copied().unwrap_or(index);
                instance.and_then(|own| own.index_of(context.core(), (*function).into()))
                    == Some(index)
            }
            (Value::Extern(Some(number)), Val::ExternRef(Some(own))) => {
                self.externs.get(number as usize).is_some_and(|known| known.same(own))
            }
            _ => false,
        }
    }

    /// Compares values with those of the event that was read last.
    fn compare(
        &mut self,
        store: &mut impl AsContextMut,
        (about, what): (&str, &str),
        expected: &[Value],
        found: &[Val],
    ) -> Result<(), Error> {
        if expected.len() != found.len() {
            return Err(self.diverges(about, expected.len(), found.len()));
        }
        for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
            if !self.is(store, *expected, found) {
                let about = format!("{about}, {what} {at}");
                return Err(self.diverges(about, expected, Shown(found)));
            }
        }
        Ok(())
    }
}

/// The gateways of a program that records itself, which are known by their names.
fn gateways(module: &[u8]) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module).flatten() {
        let Payload::CustomSection(section) = payload else { continue };
        let KnownCustom::Name(names) = section.as_known() else { continue };
        for part in names.flatten() {
            let Name::Function(map) = part else { continue };
            found.extend(map.into_iter().flatten().filter_map(|naming| {
                let own = naming.name.strip_prefix("record.")?;
                let own = own.strip_prefix("gateway.").or(own.strip_prefix("import.reference."))?;
                Some((own.parse().ok()?, naming.index))
            }));
        }
    }
    found
}

/// A value in the spelling of traces.
struct Shown<'a>(&'a Val);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Val::I32(value) => Value::I32(value.cast_unsigned()).fmt(f),
            Val::I64(value) => Value::I64(value.cast_unsigned()).fmt(f),
            Val::F32(bits) => Value::F32(*bits).fmt(f),
            Val::F64(bits) => Value::F64(*bits).fmt(f),
            Val::V128(bits) => Value::V128(*bits).fmt(f),
            Val::FuncRef(None) | Val::ExternRef(None) | Val::ExnRef(None) | Val::AnyNull => {
                f.write_str("null")
            }
            Val::FuncRef(Some(_)) => f.write_str("another function"),
            Val::ExternRef(Some(_)) => f.write_str("another reference"),
            Val::ExnRef(Some(_)) => f.write_str("an exception"),
        }
    }
}

/// Whether the program was stopped from outside: that is no difference, as no trace contains it.
fn is_stopped(error: &Error) -> bool {
    matches!(error.trap(), Some(Trap::Interrupted | Trap::Budget | Trap::Probe))
}

/// Whether a memory has these bytes at an address.
fn has_bytes<T>(
    store: &mut Store<T>,
    instance: Instance,
    (memory, address): (u32, u64),
    bytes: &[u8],
) -> bool {
    let mut context = store.as_context_mut();
    let core = context.core();
    let Some(Extern::Memory(memory)) = instance.item_at(core, Space::Memory, memory) else {
        return false;
    };
    let at = usize::try_from(address).unwrap_or(usize::MAX);
    let end = at.saturating_add(bytes.len());
    memory.contents(core).and_then(|all| all.get(at..end)).is_some_and(|own| own == bytes)
}

/// Creates a new instance as a replay does that begins with these changes of its imports, before
/// any other changes.
pub(crate) fn begun(
    store: &mut Store<()>,
    module: &Module,
    first: &[Change],
    functions: &[Signature],
) -> Result<Instance, Error> {
    let declared = Declared::read(&module.inner().bytes).map_err(Error::host)?;
    let mut script = Script::new(Box::new(std::iter::empty()), declared, None);
    functions.iter().for_each(|signature| script.host_functions.add(signature.clone()));
    let imports = Shared::new(script).imports(store, module, first)?;
    Instance::without_start(store, module, &imports)
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Script>>);

impl Shared {
    fn new(script: Script) -> Self {
        let this = Self(Arc::new(Mutex::new(script)));
        this.lock().host_functions.set_script(&this);
        this
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the instance, with its imports.
    fn instantiate<T: 'static>(
        &self,
        store: &mut Store<T>,
        module: &Module,
    ) -> Result<Instance, Error> {
        let mut first = Vec::new();
        {
            let mut script = self.lock();
            while let Some(Event::Host(_)) = script.peek()? {
                if let Some(Event::Host(change)) = script.next()? {
                    first.push(change);
                }
            }
        }
        let imports = self.imports(store, module, &first)?;
        let starts = self.lock().starts()?;
        // If the trace has no start, the instance had started before it was recorded.
        let made = match starts || self.lock().always_starts {
            true => Instance::new(&mut *store, module, &imports),
            false => Instance::without_start(&mut *store, module, &imports),
        };
        if made.as_ref().is_err_and(is_stopped) {
            return made;
        }
        if starts {
            let found = made.as_ref().map(|_| Vec::new());
            self.left(store, found)?;
        }
        let instance = match made {
            Err(error) if !starts => return Err(self.lock().unmade(error)),
            made => made?,
        };
        self.lock().instance = Some(instance);
        for change in first {
            let is_own = match change {
                // Changes by a start function have happened since.
                Change::Element { table, index, value } => {
                    !starts && !self.has_element(store, instance, (table, index), value)?
                }
                // The segments of a module that was recorded later may have written over it.
                Change::Write { memory, address, ref bytes }
                    if memory < self.lock().declared.imported.memories =>
                {
                    !starts && !has_bytes(store, instance, (memory, address), bytes)
                }
                Change::Write { .. } => !starts,
                Change::Grow { memory, .. } => {
                    memory >= self.lock().declared.imported.memories && !starts
                }
                Change::Global { global, .. } => {
                    global >= self.lock().declared.imported.globals && !starts
                }
                Change::GrowTable { table, .. } => {
                    table >= self.lock().declared.imported.tables && !starts
                }
            };
            if is_own {
                self.change(store, instance, &change)?;
            }
        }
        Ok(instance)
    }

    /// Whether an element of a table has that value already.
    fn has_element<T>(
        &self,
        store: &mut Store<T>,
        instance: Instance,
        (table, index): (u32, u64),
        value: Value,
    ) -> Result<bool, Error> {
        let item = instance.item_at(store.as_context_mut().core(), Space::Table, table);
        let Some(table) = item.and_then(Extern::into_table) else { return Ok(false) };
        let found = table.get(&mut *store, index)?;
        Ok(found.is_some_and(|found| self.lock().is(store, value, &found)))
    }

    /// The module's imports: functions that follow the trace, and the other items as they were at
    /// the beginning.
    fn imports<T: 'static>(
        &self,
        store: &mut Store<T>,
        module: &Module,
        first: &[Change],
    ) -> Result<Vec<Extern>, Error> {
        use crate::ExternType;
        let (mut functions, mut memories, mut globals, mut tables) = (0, 0, 0, 0);
        let mut imports = Vec::new();
        for import in module.imports() {
            imports.push(match import.ty {
                ExternType::Func(ty) => {
                    let (script, function) = (self.clone(), functions);
                    functions += 1;
                    let body = move |caller: Caller<'_, T>, args: &[Val], results: &mut [Val]| {
                        script.called(caller, function, args, results)
                    };
                    Func::new(&mut *store, ty, body).into()
                }
                ExternType::Memory(mut ty) => {
                    for change in first {
                        if let Change::Grow { memory, pages } = change
                            && *memory == memories
                        {
                            ty.minimum = ty.minimum.saturating_add(*pages);
                        }
                    }
                    let handle = Memory::new(&mut *store, ty)?;
                    for change in first {
                        if let Change::Write { memory, address, bytes } = change
                            && *memory == memories
                        {
                            let at = usize::try_from(*address).unwrap_or(usize::MAX);
                            handle.write(&mut *store, at, bytes)?;
                        }
                    }
                    memories += 1;
                    handle.into()
                }
                ExternType::Global(ty) => {
                    let value = first.iter().rev().find_map(|change| match change {
                        Change::Global { global, value } if *global == globals => Some(*value),
                        _ => None,
                    });
                    globals += 1;
                    let value = match value {
                        Some(value) => self.lock().value(store, value)?,
                        None => Val::default_for(ty.content).ok_or_else(|| {
                            Error::Type("the trace does not contain a global's value".into())
                        })?,
                    };
                    Global::new(&mut *store, ty, value)?.into()
                }
                ExternType::Table(mut ty) => {
                    for change in first {
                        if let Change::GrowTable { table, count, .. } = change
                            && *table == tables
                        {
                            ty.minimum = ty.minimum.saturating_add(*count);
                        }
                    }
                    tables += 1;
                    let null = Val::default_for(crate::ValType::Ref(ty.element));
                    let null = null.ok_or_else(|| {
                        Error::Type("a table of references that are never null".into())
                    })?;
                    Table::new(&mut *store, ty, null)?.into()
                }
                ExternType::Tag(ty) => Tag::new(&mut *store, ty).into(),
            });
        }
        Ok(imports)
    }

    /// Called when the program calls its host.
    fn called<T: 'static>(
        &self,
        mut caller: Caller<'_, T>,
        function: u32,
        args: &[Val],
        results: &mut [Val],
    ) -> Result<(), Error> {
        {
            let mut script = self.lock();
            // A start function calls before the instance is known.
            script.instance = script.instance.or(caller.instance());
            let name = script.function_name(function);
            match script.next()? {
                Some(Event::Call { function: expected, args: values }) if expected == function => {
                    let about = format!("a call of {name}");
                    script.compare(&mut caller, (&about, "argument"), &values, args)?;
                }
                Some(other) => {
                    return Err(script.diverges(
                        "which comes next",
                        other,
                        format!("a call of {name}"),
                    ));
                }
                None => return Err(script.ends()),
            }
        }
        match self.play(&mut caller)? {
            Some(End::Values(values)) => {
                let given = self.lock().values(&mut caller, &values)?;
                if given.len() != results.len() {
                    let about = "the results of a call of the program's";
                    return Err(self.lock().diverges(about, given.len(), results.len()));
                }
                results.clone_from_slice(&given);
                self.print(&mut caller, function, args, &values)
            }
            Some(End::Exit { code, .. }) => Err(Error::Exit(code)),
            Some(End::Trap(why)) => Err(Error::host(HostFailed(why))),
            Some(End::Exception { tag, values }) => {
                let values = self.lock().values(&mut caller, &values)?;
                let instance = self.lock().instance()?;
                let mut context = caller.as_context_mut();
                let item = instance.item_at(context.core(), Space::Tag, tag);
                let tag = item.and_then(Extern::into_tag);
                let tag = tag.ok_or_else(|| Error::Link("there is no such tag".into()))?;
                let exception = Some(ExnRef::new(context, tag, &values)?);
                let backtrace = Backtrace::default();
                Err(Error::Exception(ExceptionReport { exception, backtrace }))
            }
            None => Err(self.lock().ends()),
        }
    }

    /// Performs the actions of the host, up to the end of its call or of the trace.
    fn play<T: 'static>(
        &self,
        store: &mut impl AsContextMut<Data = T>,
    ) -> Result<Option<End>, Error> {
        let mut last = Ok(());
        loop {
            let Some(event) = self.lock().next()? else { return last.map(|()| None) };
            match event {
                Event::Host(change) => {
                    let instance = self.lock().instance()?;
                    if let Err(error) = self.change(store, instance, &change) {
                        let about = "a change by the host";
                        return Err(self.lock().diverges(about, change, error));
                    }
                }
                Event::Enter { function, door, args } => {
                    let (function, args) = {
                        let mut script = self.lock();
                        let function = script.entered(store, function, &door)?;
                        (function, script.values(store, &args)?)
                    };
                    let done = function.call(store.as_context_mut(), &args);
                    if done.as_ref().is_err_and(is_stopped) {
                        return done.map(|_| None);
                    }
                    self.left(store, done.as_ref().map(Vec::clone))?;
                    last = done.map(|_| ());
                }
                Event::Return(end) => return Ok(Some(end)),
                other => return Err(self.lock().unasked(other)),
            }
        }
    }

    /// Called when a call into the program has ended: checks that the trace has the same end.
    fn left(
        &self,
        store: &mut impl AsContextMut,
        found: Result<Vec<Val>, &Error>,
    ) -> Result<(), Error> {
        if let Err(Error::Host(error)) = found {
            if let Some(divergence) = error.downcast_ref::<Divergence>() {
                return Err(Error::host(divergence.clone()));
            }
            if let Some(ends) = error.downcast_ref::<TraceEnds>() {
                return Err(Error::host(ends.clone()));
            }
        }
        let mut script = self.lock();
        let about = "the end of a call of the host's";
        match (script.next()?, found) {
            (Some(Event::Leave(End::Values(values))), Ok(found)) => {
                script.compare(store, (about, "result"), &values, &found)
            }
            (Some(Event::Leave(End::Exit { code, .. })), Err(Error::Exit(found)))
                if code == *found =>
            {
                Ok(())
            }
            (
                Some(Event::Leave(End::Exception { tag, values })),
                Err(Error::Exception(ExceptionReport { exception: Some(exception), .. })),
            ) => {
                let own = exception.tag(store.as_context_mut())?;
                let instance = script.instance()?;
                let own = instance.index_of(store.as_context_mut().core(), own.into());
                if own != Some(tag) {
                    return Err(script.diverges(about, tag, "an exception with another tag"));
                }
                let found = exception.values(store.as_context_mut())?;
                script.compare(store, (about, "value"), &values, &found)
            }
            (Some(Event::Leave(End::Trap(_))), Err(Error::Host(_))) => Ok(()),
            // A program that records itself does not always know the reason of its trap.
            (Some(Event::Leave(End::Trap(why))), Err(_)) if why.is_empty() => Ok(()),
            (Some(Event::Leave(End::Trap(why))), Err(error))
                if error.trap().is_some_and(|trap| trap.to_string() == why) =>
            {
                Ok(())
            }
            (Some(other), Ok(_)) => Err(script.diverges(about, other, "it returns")),
            (Some(other), Err(error)) => {
                let found = error.to_string();
                let found = found.lines().next().unwrap_or_default();
                Err(script.diverges(about, other, found))
            }
            (None, _) => Err(script.ends()),
        }
    }

    fn change<T: 'static>(
        &self,
        store: &mut impl AsContextMut<Data = T>,
        instance: Instance,
        change: &Change,
    ) -> Result<(), Error> {
        let mut context = store.as_context_mut();
        let (space, index) = match change {
            Change::Write { memory, .. } | Change::Grow { memory, .. } => (Space::Memory, *memory),
            Change::Global { global, .. } => (Space::Global, *global),
            Change::Element { table, .. } | Change::GrowTable { table, .. } => {
                (Space::Table, *table)
            }
        };
        let item = instance.item_at(context.core(), space, index);
        match (change, item) {
            (Change::Write { address, bytes, .. }, Some(Extern::Memory(memory))) => {
                let at = usize::try_from(*address).unwrap_or(usize::MAX);
                memory.write(context, at, bytes)
            }
            (Change::Grow { pages, .. }, Some(Extern::Memory(memory))) => {
                memory.grow(context, *pages).map(|_| ())
            }
            (Change::Global { value, .. }, Some(Extern::Global(global))) => {
                let value = self.lock().value(&mut context, *value)?;
                global.set(context, value)
            }
            (Change::Element { index, value, .. }, Some(Extern::Table(table))) => {
                let value = self.lock().value(&mut context, *value)?;
                table.set(context, *index, value)
            }
            (Change::GrowTable { count, value, .. }, Some(Extern::Table(table))) => {
                let value = self.lock().value(&mut context, *value)?;
                table.grow(context, *count, value).map(|_| ())
            }
            _ => {
                Err(Error::Link(format!("the program has nothing that could change so: {change}")))
            }
        }
    }
}
