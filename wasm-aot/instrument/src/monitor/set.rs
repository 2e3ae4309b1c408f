//! The built-in monitors of a program: static ones, which observe it from its beginning to its end,
//! and those that are attached and detached while it runs.

use super::built_in::{AttachState, BuiltIn};
use super::outline::Outline;
use super::{Choice, Choices, MonitorError, Report};
use crate::client::{Client, ClientKind};
use crate::lower::{self, Capabilities, Census, Lowering, Refusal, Time};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use wasm_aot_engine::instrument::compile::Draft;
use wasm_aot_engine::instrument::runtime::{Module, binary};
use wasm_aot_engine::{Config, Engine, Error};

/// The built-in monitors of a program.
///
/// Static monitors are chosen before the program is compiled. Others are attached to it, whether
/// its instances run or not; one that was attached before, with the same options, continues with
/// its data.
///
/// ```
/// use wasm_aot_instrument::monitor::{Choices, MonitorSet};
/// use wasm_aot_engine::{Config, Engine, Linker, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let monitors = MonitorSet::new(Choices::new(["memory", "icount"])?)?;
/// let engine = Engine::new(monitors.configure(&mut Config::new()))?;
/// let text = r#"(module (func (export "f") (call $g) (call $g)) (func $g))"#;
/// let module = monitors.compile(&engine, text)?;
/// let mut store = Store::new(&engine, ());
/// let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
/// monitors.attach("functions")?;
/// instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[])?;
/// let reports = monitors.reports(None);
/// let names: Vec<_> = reports.iter().map(|report| report.monitor).collect();
/// assert_eq!(names, ["memory", "icount", "functions"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MonitorSet {
    /// The program's name, if it was given.
    program: Option<Arc<str>>,
    /// The program, once it is compiled.
    module: OnceLock<Module>,
    state: Mutex<SetState>,
}

#[derive(Debug, Default)]
struct SetState {
    /// Static monitors, and all that were ever attached.
    all: Vec<BuiltIn>,
    /// Whether all attached monitors were switched off together, so that further ones rest, too.
    is_off: bool,
}

impl SetState {
    /// The present monitors, by their places: static ones, and then others in the order in which
    /// they were attached.
    fn present(&self) -> Vec<usize> {
        let is_there = |place: &usize| self.all[*place].attach_state != AttachState::Detached;
        let mut places: Vec<usize> = (0..self.all.len()).filter(is_there).collect();
        places.sort_by_key(|place| self.all[*place].since());
        places
    }

    /// The static ones.
    fn statics(&self) -> impl Iterator<Item = &BuiltIn> {
        self.all.iter().filter(|monitor| monitor.is_static())
    }

    /// The attached monitors.
    fn attached(&mut self) -> impl Iterator<Item = &mut BuiltIn> {
        self.all.iter_mut().filter(|monitor| monitor.since().is_some())
    }

    fn named(&mut self, name: &str) -> Option<&mut BuiltIn> {
        self.attached().find(|monitor| monitor.name() == name)
    }
}

/// Why a monitor is not attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is no such monitor, or it has no such option.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// It has to see programs from their beginning.
    #[error("{0} observes programs from their beginning: run --monitor {0}")]
    FromTheBeginning(&'static str),
    /// It would write to the program's streams.
    #[error(
        "{0} writes a line for each event to the program's standard error: say where to, as {0},file=FILE"
    )]
    Floods(&'static str),
    /// No program is compiled yet.
    #[error("no program is compiled that {0} could be attached to")]
    NoProgram(String),
    /// The code cannot be changed.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Static monitors, before the program is compiled, and while it is.
impl MonitorSet {
    /// Prepares static monitors, and creates the files that they write to.
    pub fn new(choices: Choices) -> Result<Self, MonitorError> {
        let program = choices.program();
        let all = choices.into_iter().map(BuiltIn::prepare).collect::<Result<_, _>>()?;
        let state = Mutex::new(SetState { all, is_off: false });
        Ok(Self { program, module: OnceLock::new(), state })
    }

    /// Refuses static monitors of functions of which the program has none.
    pub fn require_functions(&self, module: &Module) -> Result<(), MonitorError> {
        self.state.lock().statics().try_for_each(|monitor| monitor.choice.fits(module))
    }

    /// Has an engine's code count what static monitors report, see
    /// [`Config::counts`](wasm_aot_engine::Config::counts).
    pub fn configure<'c>(&self, config: &'c mut Config) -> &'c mut Config {
        let state = self.state.lock();
        let counts = state.statics().any(|monitor| monitor.choice.is_counted());
        let call_targets = state.statics().any(|monitor| monitor.choice.wants_call_targets());
        config.counts(counts).call_targets(call_targets)
    }

    /// Whether an engine's code need not be compiled for static monitors.
    pub fn leaves_code_alone(&self, engine: &Engine) -> bool {
        self.leaves_alone(&Capabilities::of_engine(engine))
    }

    /// Whether a module that was compiled before can be used unchanged.
    pub(crate) fn fits(&self, module: &Module) -> bool {
        self.leaves_alone(&Capabilities::of_module(module, Time::Early))
    }

    fn leaves_alone(&self, code: &Capabilities) -> bool {
        self.state.lock().statics().all(|monitor| monitor.leaves_alone(code))
    }

    /// Compiles the program with the hooks of static monitors. It is not cached.
    pub fn compile(&self, engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Module, Error> {
        let bytes = binary(bytes.as_ref())?;
        let plan = self.draft(engine, &bytes, Draft::default()).map(Draft::finish)?;
        let module = Module::with_plan(engine, &bytes, &plan)?;
        self.begin(&module)?;
        Ok(module)
    }

    /// Compiles the program again from a module that contains it; if its code suffices, it is used
    /// unchanged.
    pub fn recompile(&self, engine: &Engine, module: &Module) -> Result<Module, Error> {
        if !self.fits(module) {
            return self.compile(engine, &*module.inner().bytes);
        }
        self.begin(module)?;
        Ok(module.clone())
    }

    /// Adds the hooks that static monitors need in a program's code to a draft.
    pub(crate) fn draft(
        &self,
        engine: &Engine,
        bytes: &[u8],
        mut draft: Draft,
    ) -> Result<Draft, Error> {
        let code = Capabilities::of_engine(engine);
        let mut state = self.state.lock();
        let inside = |monitor: &&mut BuiltIn| {
            monitor.is_static() && monitor.hooked.is_some() && !monitor.lowering(&code).is_apart()
        };
        let inside: Vec<&mut BuiltIn> = state.all.iter_mut().filter(inside).collect();
        if inside.is_empty() {
            return Ok(draft);
        }
        Outline::with(bytes, engine.target().options.features, false, |outline| {
            for monitor in inside {
                let before = Census::of(&draft);
                let hooked = monitor.hooked.iter().cloned();
                hooked.for_each(|hooked| hooked.plan(outline, &mut draft));
                monitor.census = Census::of(&draft).since(before);
            }
        })?;
        Ok(draft)
    }

    /// Called when the program was compiled with the draft: layers apart from its code are observed
    /// function by function, at their first calls.
    pub(crate) fn begin(&self, module: &Module) -> Result<(), Error> {
        self.bind(module);
        let mut state = self.state.lock();
        for monitor in state.all.iter_mut().filter(|monitor| monitor.is_static()) {
            monitor.begin(module)?;
            if let Some(layer) = monitor.layer {
                module.observe_when_called(&[layer])?;
                monitor.is_observed = true;
            }
        }
        Ok(())
    }

    /// Sets the program, unless it is set already.
    pub(crate) fn bind(&self, module: &Module) {
        let _ = self.module.set(module.clone());
    }
}

/// Monitors that are attached and detached while the program runs.
impl MonitorSet {
    /// Nothing observes at first.
    pub fn of(module: &Module) -> Self {
        let (program, state) = Default::default();
        Self { program, module: OnceLock::from(module.clone()), state }
    }

    /// Attaches a monitor, in place of one with the same name; returns its name.
    pub fn attach(&self, text: &str) -> Result<&'static str, AttachError> {
        let (module, mut state) = (self.module(text)?, self.state.lock());
        let is_known = |known: &BuiltIn| !known.is_static() && known.choice.text() == text;
        let place = match state.all.iter().rposition(is_known) {
            Some(place) => place,
            None => {
                state.all.push(self.prepare(module, text)?);
                state.all.len() - 1
            }
        };
        let attach_state = AttachState::since_now(state.is_off);
        Self::put_in_place(module, &mut state, place, attach_state)
    }

    /// The same, without the data of an earlier one with the same options. It rests if the one
    /// before did.
    pub fn attach_anew(&self, text: &str) -> Result<&'static str, AttachError> {
        let (module, mut state) = (self.module(text)?, self.state.lock());
        state.all.push(self.prepare(module, text)?);
        let place = state.all.len() - 1;
        let name = state.all[place].name();
        let now = AttachState::since_now(state.is_off);
        let attach_state = state.named(name).map_or(now, |before| before.attach_state.again());
        Self::put_in_place(module, &mut state, place, attach_state)
    }

    fn module(&self, text: &str) -> Result<&Module, AttachError> {
        self.module.get().ok_or_else(|| AttachError::NoProgram(text.into()))
    }

    fn prepare(&self, module: &Module, text: &str) -> Result<BuiltIn, AttachError> {
        let choice: Choice = text.parse()?;
        choice.fits(module)?;
        let mut monitor = BuiltIn::prepare_late(choice.of_program(self.program.clone()))?;
        match lower::admit(&monitor.facts(), &Capabilities::of_module(module, Time::Running)) {
            Err(Refusal::Floods) => return Err(AttachError::Floods(monitor.name())),
            Err(_) => return Err(AttachError::FromTheBeginning(monitor.name())),
            Ok(()) => monitor.begin(module)?,
        }
        Ok(monitor)
    }

    /// Attaches a known monitor, in place of another one of its name.
    fn put_in_place(
        module: &Module,
        state: &mut SetState,
        place: usize,
        attach_state: AttachState,
    ) -> Result<&'static str, AttachError> {
        let before: Vec<AttachState> =
            state.all.iter().map(|monitor| monitor.attach_state).collect();
        let name = state.all[place].name();
        if let Some(other) = state.named(name) {
            other.attach_state = AttachState::Detached;
        }
        state.all[place].attach_state = attach_state;
        if let Err(error) = Self::apply(module, state) {
            let all = state.all.iter_mut().zip(before);
            all.for_each(|(monitor, attach_state)| monitor.attach_state = attach_state);
            return Err(error.into());
        }
        Ok(name)
    }

    /// Changes what is attached, and switches the code; returns what the change returned.
    fn change<R>(&self, change: impl FnOnce(&mut SetState) -> R) -> Result<R, Error> {
        let mut state = self.state.lock();
        let done = change(&mut state);
        self.module.get().map_or(Ok(()), |module| Self::apply(module, &mut state)).map(|()| done)
    }

    /// Detaches a monitor; returns whether it was attached. Its data stay.
    pub fn detach(&self, name: &str) -> Result<bool, Error> {
        self.change(|state| {
            state.named(name).map(|known| known.attach_state = AttachState::Detached).is_some()
        })
    }

    /// Detaches all of them.
    pub fn detach_all(&self) -> Result<(), Error> {
        self.change(|state| {
            state.attached().for_each(|known| known.attach_state = AttachState::Detached);
        })
    }

    /// Has an attached monitor observe, or rest, also while the others rest; returns whether there
    /// is one of that name.
    pub fn switch_one(&self, name: &str, on: bool) -> Result<bool, Error> {
        self.change(|state| match state.named(name).map(|known| &mut known.attach_state) {
            Some(AttachState::Attached { rests, all_rest, .. }) => {
                (*rests, *all_rest) = (!on, *all_rest && !on);
                true
            }
            _ => false,
        })
    }

    /// Has all attached monitors rest, or observe again: except for those that were switched off by
    /// their names.
    pub fn switch(&self, on: bool) -> Result<(), Error> {
        self.change(|state| {
            state.is_off = !on;
            for monitor in state.attached() {
                if let AttachState::Attached { all_rest, .. } = &mut monitor.attach_state {
                    *all_rest = !on;
                }
            }
        })
    }

    /// Switches the module's code to the layers of all monitors that observe, in one switch.
    fn apply(module: &Module, state: &mut SetState) -> Result<(), Error> {
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for (place, monitor) in state.all.iter().enumerate() {
            let Some(layer) = monitor.layer else { continue };
            match (monitor.is_observed, monitor.is_wanted()) {
                (false, true) => begins.push((place, layer, monitor.share_from_now(module))),
                (true, false) => ends.push((place, layer)),
                _ => {}
            }
        }
        let on: Vec<_> = begins.iter().map(|(_, layer, _)| *layer).collect();
        let off: Vec<_> = ends.iter().map(|(_, layer)| *layer).collect();
        let tell = |changes: bool| {
            begins.iter().for_each(|(place, ..)| state.all[*place].tell(changes));
            ends.iter().for_each(|(place, _)| state.all[*place].tell(!changes));
        };
        tell(true);
        module.observe_instead(&on, &off).inspect_err(|_| tell(false))?;
        begins.into_iter().for_each(|(place, _, share)| state.all[place].observed(share));
        ends.into_iter().for_each(|(place, _)| state.all[place].unobserved(module));
        Ok(())
    }
}

/// Reports of monitors.
impl MonitorSet {
    /// Whether an attached monitor observes at the moment.
    pub fn is_on(&self) -> bool {
        let state = self.state.lock();
        state.all.iter().any(|monitor| monitor.since().is_some() && monitor.is_wanted())
    }

    /// How many events all attached monitors have seen so far: accesses, calls, edges between
    /// blocks, whatever each is made of.
    pub fn events(&self) -> u64 {
        let Some(module) = self.module.get() else { return 0 };
        let (mut state, mut counted) = (self.state.lock(), None);
        let mut ways = || *counted.get_or_insert_with(|| module.counted_events());
        state.attached().map(|monitor| monitor.events(module, &mut ways)).sum()
    }

    /// The present monitors: static ones, and then others in the order in which they were attached.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let state = self.state.lock();
        let client = |number: usize| {
            let monitor = &state.all[number];
            let is_static = monitor.is_static();
            Client {
                name: monitor.name().into(),
                monitor: monitor.name().into(),
                kind: if is_static { ClientKind::Compiled } else { ClientKind::Attached },
                text: monitor.choice.text().into(),
                since: monitor.since(),
                is_on: monitor.is_wanted(),
                probes: None,
                number,
            }
        };
        state.present().into_iter().map(client).collect()
    }

    /// How one was lowered in the program's code, by its number.
    pub(crate) fn explain(&self, number: usize) -> Option<(Lowering, Census)> {
        let (module, state) = (self.module.get()?, self.state.lock());
        let monitor = state.all.get(number)?;
        let code = Capabilities::of_module(module, monitor.time());
        Some((monitor.lowering(&code), monitor.census))
    }

    /// The report of one, by its number.
    pub(crate) fn report_of(&self, number: usize) -> Option<Report> {
        let module = self.module.get()?;
        self.state.lock().all.get_mut(number)?.report(module)
    }

    /// The names of the attached monitors, and when they were attached.
    pub fn attached(&self) -> Vec<(&'static str, Instant)> {
        let state = self.state.lock();
        let all = state.present().into_iter().map(|place| &state.all[place]);
        all.filter_map(|monitor| Some((monitor.name(), monitor.since()?))).collect()
    }

    /// The reports on the program so far: of all present monitors, or of those of that name.
    pub fn reports(&self, name: Option<&str>) -> Vec<Report> {
        let Some(module) = self.module.get() else { return Vec::new() };
        let mut state = self.state.lock();
        let is_meant = |monitor: &BuiltIn| name.is_none_or(|name| monitor.name() == name);
        let mut reports = Vec::new();
        for place in state.present() {
            let monitor = Some(&mut state.all[place]).filter(|monitor| is_meant(monitor));
            reports.extend(monitor.and_then(|monitor| monitor.report(module)));
        }
        reports
    }
}
