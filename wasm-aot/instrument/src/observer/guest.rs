//! An instance of a monitor module: calls its functions while matching, and passes texts to them.

use super::ObserverError;
use super::event::{Reaction, reactions};
use super::name::{Asked, EXIT, Malformed, is_report};
use super::rule::{self, Helper, Rule, rules};
use super::switches::Switches;
use super::texts::{BufferMemories, Text};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasm_aot_body::events::Occurrence;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Extern;
use wasm_aot_engine::Func;
use wasm_aot_engine::Instance;
use wasm_aot_engine::Linker;
use wasm_aot_engine::Memory;
use wasm_aot_engine::Module;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::Trap;
use wasm_aot_engine::Val;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};
use wasm_aot_engine::instrument::runtime::StoreId;

/// How long one call while matching may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest name of a program's function that is read from a monitor's memory.
const LONGEST_NAME: usize = 1 << 20;

/// The buffer for texts that are passed to functions.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    memory: Memory,
    start: u32,
    end: u32,
}

/// An instance of a monitor module.
#[derive(Clone, Debug)]
pub struct Observer {
    pub(crate) name: String,
    pub(crate) module: Module,
    pub(crate) instance: Instance,
    pub(crate) rules: Arc<[Rule]>,
    reactions: Vec<Reaction>,
    functions: HashMap<u32, Func>,
    buffer: Option<Buffer>,
    /// The memories that contain the buffers of all instances.
    pub(super) buffer_memories: BufferMemories,
    /// What is called for a report, in this order.
    reporting: Vec<(String, Func)>,
    /// Whether it numbers the immediates of table instructions as the existing compiler does.
    pub(crate) is_foreign: bool,
    pub(super) request: Request,
    /// The text by which it was requested.
    pub(super) text: Option<String>,
    pub(super) switches: Switches,
    /// The listener for its failures while the program continues.
    pub(super) listener: Listener,
    /// For exports that are called nowhere, by their numbers: the first place that they name, but
    /// whose types they do not take.
    pub(super) misfits: BTreeMap<u16, String>,
    /// The errors of exports that are ignored.
    pub(super) passed_over: Vec<String>,
    /// The first text that did not fit into its buffer.
    pub(super) shortened: Option<String>,
    /// When the calls of the current matching began.
    asked: Option<Instant>,
}

/// The options that its user has given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    /// Its probes can be switched while the program runs; all are off at first.
    pub(super) toggled: bool,
    pub(super) off: bool,
    /// How long a call may take, if a failure is to switch the monitor off and nothing else.
    pub(super) contained: Option<Duration>,
    /// Each thread has an instance of it.
    pub(super) threads: bool,
    /// The program is instantiated once only.
    pub(super) alone: bool,
}

/// The listener for failures, if there is one.
#[derive(Clone, Default)]
pub(super) struct Listener(pub(super) Option<Arc<Tell>>);

type Tell = dyn Fn(&str) + Send + Sync;

impl Listener {
    pub(super) fn complain(&self, what: &str) {
        if let Some(listener) = &self.0 {
            listener(what);
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "somebody" } else { "nobody" })
    }
}

/// A value that is known when a site is matched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Known {
    Value(Number),
    Text(String),
}

/// A number as it is passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    I32(i32),
    I64(i64),
    F32(u32),
    F64(u64),
    V128(u128),
}

impl Number {
    pub(crate) fn ty(self) -> ValType {
        match self {
            Self::I32(_) => ValType::I32,
            Self::I64(_) => ValType::I64,
            Self::F32(_) => ValType::F32,
            Self::F64(_) => ValType::F64,
            Self::V128(_) => ValType::V128,
        }
    }

    fn val(self) -> Val {
        match self {
            Self::I32(value) => Val::I32(value),
            Self::I64(value) => Val::I64(value),
            Self::F32(bits) => Val::F32(bits),
            Self::F64(bits) => Val::F64(bits),
            Self::V128(bits) => Val::V128(bits),
        }
    }

    pub(super) fn of(value: &Val) -> Option<Self> {
        Some(match value {
            Val::I32(value) => Self::I32(*value),
            Val::I64(value) => Self::I64(*value),
            Val::F32(bits) => Self::F32(*bits),
            Val::F64(bits) => Self::F64(*bits),
            Val::V128(bits) => Self::V128(*bits),
            _ => return None,
        })
    }
}

impl Observer {
    /// Instantiates a monitor module; `linker` has what it imports. The names of its exports say
    /// what it observes. `switches` are those that its host functions use, see
    /// [`observe::add_to_linker`](super::add_to_linker).
    pub fn new<T: 'static>(
        mut store: impl AsContextMut<Data = T>,
        linker: &Linker<T>,
        name: &str,
        module: &Module,
        switches: &Switches,
    ) -> Result<Self, ObserverError> {
        let within =
            |error| ObserverError::Instance { monitor: name.to_owned(), error: Box::new(error) };
        let info = &module.inner().info;
        if !info.tags.is_empty() {
            return Err(ObserverError::Exceptions(name.to_owned()));
        }
        let (rules, mut wrong) = rules(info);
        // A module of another compiler may name instructions that this engine does not know, beside
        // those that it knows.
        let is_passed_over = !rule::is_extended(info) && !rules.is_empty();
        let (unknown, known) =
            wrong.into_iter().partition(|wrong| is_passed_over && wrong.is_unknown);
        let unknown: Vec<Malformed> = unknown;
        wrong = known;
        let (reactions, others) = reactions(info);
        wrong.extend(others);
        wrong.extend(ending(info));
        if !wrong.is_empty() {
            let wrong = wrong.iter().map(ToString::to_string).collect();
            return Err(ObserverError::Names { monitor: name.to_owned(), wrong });
        }
        let instance = linker.instantiate(&mut store, module).map_err(within)?;
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut store, "_initialize") {
            initialize.call(&mut store, ()).map_err(within)?;
        }
        let mut functions = HashMap::new();
        for export in info.exports.iter().filter(|export| export.space == Space::Func) {
            if let Some(function) = instance.get_func(&mut store, &export.name) {
                functions.insert(export.index, function);
            }
        }
        let (buffer, buffer_memories) = (buffer(&mut store, instance), BufferMemories::default());
        if let Some(buffer) = buffer {
            buffer_memories.insert(store.as_context_mut().core().id, buffer.memory);
        }
        let is_foreign = (0..info.functions.len() as u32).any(|index| {
            info.function_name(index).is_some_and(|name| name.starts_with("__whamm_"))
        });
        let reporting = reporting_exports(info, is_foreign)
            .filter_map(|name| Some((name.to_owned(), instance.get_func(&mut store, name)?)))
            .collect();
        Ok(Self {
            name: name.to_owned(),
            module: module.clone(),
            instance,
            rules: rules.into(),
            reactions,
            functions,
            buffer,
            buffer_memories,
            reporting,
            is_foreign,
            request: Request::default(),
            text: None,
            switches: switches.clone(),
            listener: Listener::default(),
            misfits: BTreeMap::new(),
            passed_over: unknown.iter().map(ToString::to_string).collect(),
            shortened: None,
            asked: None,
        })
    }

    /// One of the functions that it exports.
    pub(super) fn function(&self, index: u32) -> Option<Func> {
        self.functions.get(&index).copied()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its instance, with everything that it exports.
    pub fn instance(&self) -> Instance {
        self.instance
    }

    /// Whether the existing compiler has made it, which numbers the labels of `br_table` in its own
    /// way.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// How many of its functions are called on events of the engine.
    pub(super) fn hears(&self) -> usize {
        self.reactions.len()
    }

    /// Its functions that are called on an event of the engine, with what each takes.
    pub(super) fn reactions_to(
        &self,
        event: Occurrence,
    ) -> impl Iterator<Item = (&Reaction, Func)> {
        let own = self.reactions.iter().filter(move |reaction| reaction.event == event);
        own.filter_map(|reaction| Some((reaction, self.function(reaction.function)?)))
    }

    /// Notifies it of an event.
    pub(super) fn react(
        &self,
        mut store: impl AsContextMut,
        event: Occurrence,
        told: &[i64],
    ) -> Result<(), ObserverError> {
        for (reaction, function) in self.reactions_to(event) {
            let failed = |error| ObserverError::Export {
                monitor: self.name.clone(),
                export: reaction.export.clone(),
                error: Box::new(error),
            };
            function.call(&mut store, &reaction.values(told)).map_err(failed)?;
        }
        Ok(())
    }

    /// Calls its reporting functions.
    pub fn report(&self, mut store: impl AsContextMut) -> Result<(), ObserverError> {
        for (export, function) in &self.reporting {
            function.call(&mut store, &[]).map_err(|error| {
                let (monitor, export) = (self.name.clone(), export.clone());
                match is_endless(&error) {
                    true => ObserverError::EndlessReport { monitor, export },
                    false => ObserverError::Export { monitor, export, error: Box::new(error) },
                }
            })?;
        }
        Ok(())
    }

    /// Calls one of its functions while matching; texts are passed in the buffer, from `cursor` on.
    /// Returns its results, or nothing if the site lacks what it takes.
    pub(crate) fn ask<T: 'static>(
        &mut self,
        store: &mut StoreContextMut<'_, T>,
        helper: &Helper,
        cursor: &mut u32,
        known: &mut dyn FnMut(&Asked, ValType) -> Option<Known>,
    ) -> Result<Option<Vec<Val>>, wasm_aot_engine::Error> {
        let mut args = Vec::with_capacity(helper.params.len() + 2);
        for (asked, ty) in &helper.params {
            match known(asked, *ty) {
                Some(Known::Value(value)) => args.push(value.val()),
                Some(Known::Text(text)) => {
                    let text = self.write(store, &text, cursor)?;
                    args.extend(text.numbers().map(Val::I32));
                }
                None => return Ok(None),
            }
        }
        if self.asked.is_none_or(|since| since.elapsed() > PATIENCE / 5) {
            store.set_deadline(Some(PATIENCE));
            self.asked = Some(Instant::now());
        }
        let function = self.functions[&helper.function];
        function.call(&mut *store, &args).map(Some)
    }

    /// Ends a series of calls while matching: until the next one, no time limit runs.
    pub(crate) fn rest<T: 'static>(&mut self, store: &mut StoreContextMut<'_, T>) {
        if self.asked.take().is_some() {
            store.set_deadline(None);
        }
    }

    fn texts(&self) -> Result<Buffer, wasm_aot_engine::Error> {
        self.buffer.ok_or_else(|| {
            let lacks = "texts are handed over in the exported memory \"whamm_buffer\", from the \
                         global \"whamm_buffer:start\" on, and at most \"whamm_buffer:max\" \
                         bytes: one of these is missing";
            wasm_aot_engine::Error::Link(lacks.into())
        })
    }

    /// A text that one of its functions returned while matching.
    pub(crate) fn text<T: 'static>(
        &self,
        store: &mut StoreContextMut<'_, T>,
        [address, len]: [i32; 2],
    ) -> Result<String, wasm_aot_engine::Error> {
        let len = len.cast_unsigned() as usize;
        if len > LONGEST_NAME {
            let message = format!("a name has {len} bytes, and at most {LONGEST_NAME} are read");
            return Err(wasm_aot_engine::Error::Resource(message));
        }
        let mut bytes = vec![0; len];
        self.texts()?.memory.read(store, address.cast_unsigned() as usize, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A text that a function is given with each call: it is written to the buffer each time.
    pub(crate) fn given_text<T: 'static>(
        &mut self,
        store: &mut StoreContextMut<'_, T>,
        text: &str,
        cursor: &mut u32,
    ) -> Result<Text, wasm_aot_engine::Error> {
        let text = self.fitted(text, cursor)?;
        // A buffer that exceeds its memory is an error here, since no call could report it.
        let mut there = vec![0; text.text.len()];
        self.texts()?.memory.read(&mut *store, text.address as usize, &mut there)?;
        Ok(text)
    }

    /// Adds the memory of another instance of the same monitor, in a store of its own.
    pub(super) fn join_texts(&self, store: StoreId, other: &Self) {
        if let Some(buffer) = other.buffer {
            self.buffer_memories.insert(store, buffer.memory);
        }
    }

    /// Puts a text into the buffer, as far as it fits.
    fn write<T: 'static>(
        &mut self,
        store: &mut StoreContextMut<'_, T>,
        text: &str,
        cursor: &mut u32,
    ) -> Result<Text, wasm_aot_engine::Error> {
        let text = self.fitted(text, cursor)?;
        self.texts()?.memory.write(&mut *store, text.address as usize, text.text.as_bytes())?;
        Ok(text)
    }

    /// What fits of a text into the buffer, from the cursor on, which is moved behind it.
    fn fitted(&mut self, text: &str, cursor: &mut u32) -> Result<Text, wasm_aot_engine::Error> {
        let buffer = self.texts()?;
        let address = (buffer.start + *cursor).min(buffer.end);
        let room = (buffer.end - address) as usize;
        let len = text.floor_char_boundary(room);
        if len < text.len() {
            self.shortened.get_or_insert_with(|| {
                format!(
                    "`{text}` does not fit into the {room} bytes that are left of \
                     \"whamm_buffer\", and is cut there: its size is \"whamm_buffer:max\""
                )
            });
        }
        *cursor += len as u32;
        Ok(Text { address, text: text[..len].into() })
    }
}

/// The exports that are called for a report, in the order of their calls. What the existing
/// compiler exports as the end contains what it exports as probes of the report.
fn reporting_exports(info: &ModuleInfo, is_foreign: bool) -> impl Iterator<Item = &str> {
    let names = || info.exports.iter().map(|export| export.name.as_str());
    let contains_reports = is_foreign && names().any(|name| name == EXIT);
    let reports = names().filter(move |name| is_report(name) && !contains_reports);
    reports.chain(names().filter(|name| *name == EXIT))
}

/// The error of a function that is called for a report, if one has an error.
fn ending(info: &ModuleInfo) -> Option<Malformed> {
    let is_reporting = |name: &str| is_report(name) || name == EXIT;
    info.exports.iter().filter(|export| is_reporting(&export.name)).find_map(|export| {
        let why = match export.space {
            Space::Func if info.function_type(export.index).params().is_empty() => return None,
            Space::Func => {
                "what is called at the end is given nothing, and this function takes something"
            }
            _ => "only functions can be called at events",
        };
        Some(Malformed {
            name: export.name.clone(),
            at: 0..export.name.len(),
            why: why.into(),
            is_unknown: false,
        })
    })
}

/// The buffer for texts, if the module declares one.
fn buffer<T: 'static>(
    store: &mut impl AsContextMut<Data = T>,
    instance: Instance,
) -> Option<Buffer> {
    let memory = instance.get_memory(&mut *store, "whamm_buffer")?;
    let mut number = |name: &str| match instance.get_export(&mut *store, name) {
        Some(Extern::Global(global)) => global.get(&mut *store).ok()?.i32().map(i32::cast_unsigned),
        _ => None,
    };
    let (start, max) = (number("whamm_buffer:start")?, number("whamm_buffer:max")?);
    Some(Buffer { memory, start, end: start.checked_add(max)? })
}

/// Whether an error means that a function did not end.
pub(crate) fn is_endless(error: &wasm_aot_engine::Error) -> bool {
    error.trap() == Some(Trap::Interrupted)
}
