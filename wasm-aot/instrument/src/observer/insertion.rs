//! Probes that a monitor inserts itself, before the program runs or while it does, on whatever
//! thread.
//!
//! They are probes of the engine's (see [`crate::probe`]): they take effect at once, and call the
//! monitor through the host. The monitor knows each by a number, like those of its exports, and
//! removes it by that number. Which probes are called in an event is determined before the first
//! one is: one that an export's function of the same place removes is called once more.
//!
//! Insertions that are requested before the monitor was matched with the program are queued; those
//! with parameters are checked then, too.

use super::binding::{Argument, Binding, BoundMode, Sees};
use super::guest::Observer;
use super::rule::{self, Rule};
use super::switches::{Switches, Word};
use super::texts::{Text, TextWriter};
use super::{ObserverError, Program, matching, site};
use crate::probe::{Frame, Mode, Place, Probe, ProbeId, Probes};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wasm_aot_body::events;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Backtrace;
use wasm_aot_engine::Func;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::Val;
use wasm_aot_engine::instrument::runtime::{Module, with_store_of};

/// Numbers of such probes begin here: no program has that many sites that match exports.
pub(super) const FIRST: u32 = 1 << 24;

/// The error that a monitor receives instead of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum InsertionRefusal {
    NoFunction = -1,
    Imported = -2,
    NoInstruction = -3,
    HasParameters = -4,
    HasResults = -5,
    Null = -6,
    /// The function belongs to another instance.
    Foreign = -7,
    /// The parameters are not understood, or the site does not have them.
    Unfit = -8,
}

/// A monitor's request for a probe.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) function: u32,
    pub(super) pc: u32,
    pub(super) callee: Func,
    /// Its parameters, if it has any.
    pub(super) rule: Option<Rule>,
}

/// A request that was matched with the program.
#[derive(Debug)]
pub(super) struct Inserted {
    id: u32,
    wish: Wish,
    arguments: Vec<Argument>,
    texts: Vec<Text>,
    bound_mode: BoundMode,
}

/// The probes that a monitor has inserted.
#[derive(Debug, Default)]
pub(super) struct Insertions(Mutex<InsertionState>);

#[derive(Debug, Default)]
struct InsertionState {
    next: u32,
    /// Requests from before the monitor was matched with the program.
    early: BTreeMap<u32, Wish>,
    /// The state from then on.
    ready: Option<Ready>,
}

#[derive(Debug)]
struct Ready {
    probes: Probes,
    observer: Box<Observer>,
    placed: BTreeMap<u32, (ProbeId, Place)>,
    /// Those that are called once more.
    leaving: Vec<(ProbeId, Word)>,
}

thread_local! {
    /// Whether an inserted probe is called: its event's further ones are determined.
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

impl Insertions {
    /// Inserts a probe at the place that a monitor requests; returns its number. `word` makes the
    /// word that switches it.
    pub(super) fn insert<T: 'static>(
        &self,
        mut store: StoreContextMut<'_, T>,
        program: &Program,
        wish: Wish,
        resting: &Arc<AtomicBool>,
        word: impl FnOnce(u32) -> Word,
    ) -> Result<Result<u32, InsertionRefusal>, wasm_aot_engine::Error> {
        let mut state = self.0.lock();
        let id = FIRST + state.next;
        state.next += 1;
        let Some(ready) = &state.ready else {
            state.early.insert(id, wish);
            word(id);
            return Ok(Ok(id));
        };
        let mut observer = (*ready.observer).clone();
        // A function that is called while matching may insert probes, too.
        drop(state);
        let interlude = store.core().interruption().begin_interlude();
        let compared = compared(store.as_context_mut(), &mut observer, program, id, wish);
        store.core().interruption().end_interlude(interlude);
        let failed =
            |error: &dyn std::fmt::Display| wasm_aot_engine::Error::host(error.to_string());
        match compared.map_err(|error| failed(&error))? {
            None => Ok(Err(InsertionRefusal::Unfit)),
            Some(inserted) => {
                let mut state = self.0.lock();
                let ready = state.ready.as_mut().expect("it stays so");
                ready
                    .place(inserted, word(id), resting)
                    .map(|()| Ok(id))
                    .map_err(|error| failed(&error))
            }
        }
    }

    /// Removes a probe that `word` switches; does nothing if it does not exist. `frames` are those
    /// that the monitor is called from.
    pub(super) fn remove(&self, program: &Program, frames: &Backtrace, id: u32, word: &Word) {
        let mut state = self.0.lock();
        state.early.remove(&id);
        let Some(ready) = &mut state.ready else { return word.switch_off() };
        ready.clear();
        match ready.placed.remove(&id) {
            Some((probe, place)) if ready.is_firing(program, frames, place) => {
                word.keep_one();
                ready.leaving.push((probe, word.clone()));
            }
            Some((probe, _)) => {
                word.switch_off();
                ready.probes.remove(probe);
            }
            None => {}
        }
    }

    /// Matches queued requests with the program.
    pub(super) fn compare<T: 'static>(
        &self,
        mut store: StoreContextMut<'_, T>,
        observer: &mut Observer,
        program: &Program,
    ) -> Result<Vec<Inserted>, ObserverError> {
        let early = std::mem::take(&mut self.0.lock().early);
        let each = early.into_iter().map(|(id, wish)| {
            let (function, pc) = (wish.function, wish.pc);
            let found = compared(store.as_context_mut(), observer, program, id, wish)?;
            found.ok_or_else(|| ObserverError::Inserted {
                monitor: observer.name.clone(),
                function,
                pc,
            })
        });
        each.collect()
    }

    /// The monitor observes a program from now on.
    pub(super) fn begin(
        &self,
        module: &Module,
        observer: &Observer,
        inserted: Vec<Inserted>,
        switches: &Switches,
    ) -> Result<(), ObserverError> {
        let mut observer = Box::new(observer.clone());
        // The switches own these insertions: with them, neither would ever be dropped.
        observer.switches = Switches::default();
        let (probes, placed, leaving) = (Probes::new(module), BTreeMap::new(), Vec::new());
        let mut ready = Ready { probes, observer, placed, leaving };
        for inserted in inserted {
            if let Some(word) = switches.word(inserted.id) {
                ready.place(inserted, word, switches.resting()).map_err(ObserverError::program)?;
            }
        }
        self.0.lock().ready = Some(ready);
        Ok(())
    }

    /// Visits each probe: its number and where it is.
    pub(super) fn each(&self, mut visit: impl FnMut(u32, Place)) {
        let state = self.0.lock();
        let placed = state.ready.iter().flat_map(|ready| &ready.placed);
        placed.for_each(|(id, (_, place))| visit(*id, *place));
    }
}

impl Ready {
    /// Takes those away that were called once more.
    fn clear(&mut self) {
        let Self { leaving, probes, .. } = self;
        leaving.retain(|(probe, word)| {
            let stays = word.is_on();
            if !stays {
                probes.remove(*probe);
            }
            stays
        });
    }

    /// Whether an export's function is called before the instruction at a place, where probes that
    /// are inserted come afterwards. If the monitor has exports for other modes, it is not known
    /// which of them is called.
    fn is_firing(&self, program: &Program, frames: &Backtrace, place: Place) -> bool {
        let Some(frame) = frames.frames.iter().find(|frame| frame.aside) else { return false };
        let start = program.info.body(frame.function).start;
        !IS_CALLING.get()
            && place.mode == Mode::Before
            && self.observer.rules.iter().all(|rule| rule.mode == events::Mode::Before)
            && (frame.function, frame.offset) == (place.function, Some(start + place.offset))
    }

    fn place(
        &mut self,
        inserted: Inserted,
        word: Word,
        resting: &Arc<AtomicBool>,
    ) -> Result<(), wasm_aot_engine::Error> {
        let Inserted { id, wish, arguments, texts, bound_mode } = inserted;
        let mode = match bound_mode.mode {
            Mode::Alt => Mode::Before,
            Mode::Falls => Mode::After,
            mode => mode,
        };
        let offset = if mode.is_of_function() { 0 } else { wish.pc };
        let place = Place { function: wish.function, offset, mode };
        let name =
            format!("of monitor {}", wasm_aot_engine::instrument::Printable(&self.observer.name));
        let probe = Arc::new(Calling {
            name,
            callee: wish.callee,
            arguments,
            texts: TextWriter::new(&self.observer.buffer_memories, &texts),
            word,
            resting: Arc::clone(resting),
        });
        let probe = self
            .probes
            .insert(place, probe)
            .map_err(|error| wasm_aot_engine::Error::host(error.to_string()))?;
        self.placed.insert(id, (probe, place));
        Ok(())
    }
}

/// A request, with what is known of its place; nothing if the place does not have what the request
/// names.
fn compared<T: 'static>(
    store: StoreContextMut<'_, T>,
    observer: &mut Observer,
    program: &Program,
    id: u32,
    wish: Wish,
) -> Result<Option<Inserted>, ObserverError> {
    let Some(rule) = wish.rule.clone() else {
        let bound_mode = if wish.pc == 0 { BoundMode::ENTRY } else { BoundMode::BEFORE };
        let (arguments, texts) = Default::default();
        return Ok(Some(Inserted { id, wish, arguments, texts, bound_mode }));
    };
    let found =
        matching::bind_at(store, observer, &program.bytes, rule, [wish.function, wish.pc], id)?;
    let Some(Binding { arguments, texts, bound_mode, .. }) = found else { return Ok(None) };
    let is_behind = bound_mode.sees == Sees::Taken;
    let is_seen = |argument: &Argument| match argument {
        Argument::Operand(_) => !is_behind,
        Argument::MemoryBytes(_)
        | Argument::IsNull(_)
        | Argument::IsOf(..)
        | Argument::Entry(_)
        | Argument::Reference(_)
        | Argument::Null
        | Argument::NoReference => false,
        _ => true,
    };
    let fits = ![BoundMode::TAKEN, BoundMode::UNWIND].contains(&bound_mode)
        && arguments.iter().all(is_seen);
    Ok(fits.then_some(Inserted { id, wish, arguments, texts, bound_mode }))
}

/// A monitor's request, checked as far as possible without the site's types.
pub(super) fn wish(
    program: &Program,
    [function, pc]: [i32; 2],
    callee: Func,
    own: &wasm_aot_engine::instrument::module::ModuleInfo,
    index: u32,
    params: Option<&str>,
) -> Result<Wish, InsertionRefusal> {
    let (function, pc) = (function.cast_unsigned(), pc.cast_unsigned());
    let info = &program.info;
    if function as usize >= info.functions.len() {
        return Err(InsertionRefusal::NoFunction);
    }
    let defined =
        function.checked_sub(info.imported.functions).ok_or(InsertionRefusal::Imported)?;
    let body = &info.bodies[defined as usize];
    let bytes = &program.bytes[body.start as usize..body.end as usize];
    let mut reader = wasmparser::BinaryReader::new(bytes, u64::from(body.start));
    reader.set_features(wasmparser::WasmFeatures::all());
    let sites = site::sites(&program.bytes, &wasmparser::FunctionBody::new(reader))
        .map_err(|_| InsertionRefusal::NoFunction)?;
    if pc != 0 && !sites.iter().any(|site| site.pc == pc) {
        return Err(InsertionRefusal::NoInstruction);
    }
    let ty = own.function_type(index);
    let rule = match params {
        None if !ty.params().is_empty() => return Err(InsertionRefusal::HasParameters),
        None if !ty.results().is_empty() => return Err(InsertionRefusal::HasResults),
        None => None,
        Some(text) => {
            let event = if pc == 0 { "wasm:func:entry" } else { "wasm:opcode:*" };
            let name = if text.trim_start().starts_with('(') {
                format!("{event} {text}")
            } else {
                text.to_owned()
            };
            Some(rule::rule(own, &name, index).map_err(|_| InsertionRefusal::Unfit)?)
        }
    };
    Ok(Wish { function, pc, callee, rule })
}

/// Calls a function of a monitor.
struct Calling {
    name: String,
    callee: Func,
    arguments: Vec<Argument>,
    texts: Option<TextWriter>,
    word: Word,
    /// Whether the monitor rests.
    resting: Arc<AtomicBool>,
}

impl Probe for Calling {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_due(&self) -> bool {
        !self.resting.load(Relaxed) && self.word.is_on()
    }

    fn fire(&self, frame: &mut Frame<'_>) -> Result<(), String> {
        self.word.take_one();
        let value = |argument: &Argument| match argument {
            Argument::I32(value) => Some(Val::I32(*value)),
            Argument::I64(value) => Some(Val::I64(*value)),
            Argument::F32(bits) => Some(Val::F32(*bits)),
            Argument::F64(bits) => Some(Val::F64(*bits)),
            Argument::V128(bits) => Some(Val::V128(*bits)),
            Argument::Operand(place) | Argument::Result(place) => frame.operand(*place),
            Argument::Local(index) => frame.local(*index),
            _ => None,
        };
        let values = self
            .arguments
            .iter()
            .map(value)
            .collect::<Option<Vec<_>>>()
            .ok_or("a value is not there")?;
        let outer = IS_CALLING.replace(true);
        let called = with_store_of(frame.instance(), |mut store| {
            self.texts.iter().for_each(|texts| texts.write(&mut store));
            self.callee.call(store, &values)
        });
        IS_CALLING.set(outer);
        called.map(drop).map_err(|error| error.to_string())
    }
}
