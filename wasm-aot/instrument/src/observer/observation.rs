//! A program with its monitor modules: it is matched and compiled with the calls of their
//! functions, and the monitors report at the end.

use super::binding::{Binding, Bindings, BoundMode};
use super::composition::Composition;
use super::contained::Contained;
use super::guest::Listener;
use super::insertion::Inserted;
use super::notification::{self, loaded};
use super::rule::MARKER;
use super::selection::{Selection, SelectionError};
use super::strategy::Strategy;
use super::threads::InstancePointers;
use super::virtual_probes::{VirtualProbe, VirtualProbes, costs};
use super::{Observer, ObserverError, Program, matching};
use crate::client::{Client, ClientKind};
use crate::lower::{
    self, Action, Capabilities, Census, Effects, Facts, Functions, Lowering, Refusal, Time,
};
use crate::monitor::MonitorSet;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wasm_aot_body::events::Mode;
use wasm_aot_body::events::Occurrence;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Error;
use wasm_aot_engine::Module;
use wasm_aot_engine::Store;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::Printable;
use wasm_aot_engine::instrument::compile::{Calls, Draft, Guest, Plan};
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};
use wasm_aot_engine::instrument::runtime::{CompileEvents, Guests, StoreId};

/// How monitors' functions are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeCalls {
    /// Small ones are inlined.
    #[default]
    Inlined,
    /// By calls.
    Direct,
}

/// What a monitor needs of a program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Calls of its functions.
    Calls,
    /// Counters: the effect of calls is computed from them, or from one-shot probes.
    Counts,
    /// One-shot probes, which record what was executed.
    Notes,
}

/// A program, and the monitors that observe it. It may be used from any thread; functions that need
/// the program's store receive it as an argument.
#[derive(Debug)]
pub struct Observation {
    pub(super) module: Module,
    pub(super) calls: ProbeCalls,
    pub(super) monitors: Mutex<Vec<Monitor>>,
    /// Whether one of them keeps state in activations, or did. A thread that reads counters for a
    /// monitor reads this under that monitor's lock, which others take after the lock of the list.
    pub(super) keeps_slots: AtomicBool,
    /// The stores of threads that have begun to execute the program.
    pub(super) threads: Mutex<Vec<StoreId>>,
    /// The monitors and rules whose functions are called at each instruction.
    pub(super) places: Mutex<Places>,
    /// Virtual probes: their effects are computed from the code's counters before monitors report.
    pub(super) all_virtual_probes: Mutex<VirtualProbes>,
}

/// The monitors and rules that are called at each instruction, in their order.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<(u32, u16, u16)>);

impl Places {
    fn note(&mut self, more: impl Iterator<Item = (u32, u16, u16)>) {
        self.0.extend(more);
        self.0.sort_by_key(|place| place.0);
    }

    /// Those of an instruction.
    fn at(&self, offset: u32) -> &[(u32, u16, u16)] {
        let from = self.0.partition_point(|place| place.0 < offset);
        let len = self.0[from..].partition_point(|place| place.0 == offset);
        &self.0[from..from + len]
    }
}

/// A monitor at work.
#[derive(Debug)]
pub(super) struct Monitor {
    /// Its instance in the store in which it was matched with the program.
    pub(super) observer: Observer,
    /// What became of it in the program's code.
    pub(super) lowering: Lowering,
    pub(super) census: Census,
    /// The instances of other threads, and what has to be the same in all.
    pub(super) others: HashMap<StoreId, Observer>,
    pub(super) instance_pointers: Option<Arc<InstancePointers>>,
    /// Whether the program's code calls it, and whether it keeps state in activations.
    pub(super) is_called: bool,
    pub(super) keeps_slots: bool,
    /// The events of later compilations that it was not yet notified of.
    pub(super) compile_events: Option<CompileEvents>,
    pub(super) matches: usize,
    /// Its strategy, if it can be switched.
    pub(super) strategy: Option<Arc<dyn Strategy>>,
    /// Whether it was detached.
    pub(super) is_gone: bool,
}

impl Monitor {
    fn client(&self, number: usize) -> Client {
        let probes = self.strategy.as_ref().map(|strategy| {
            let on = if strategy.is_wanted() { strategy.switches().on() } else { 0 };
            (on, strategy.switches().count())
        });
        let (name, kind) = (self.observer.name.clone(), ClientKind::Module);
        let text = self.observer.text.clone().unwrap_or_else(|| name.clone());
        let (monitor, is_on) = (name.clone(), probes.is_none_or(|(on, _)| on > 0));
        Client { name, monitor, kind, text, since: None, is_on, probes, number }
    }

    /// Its instance in a store.
    pub(super) fn of(&self, store: StoreId) -> Option<&Observer> {
        if self.observer.is_in(store) { Some(&self.observer) } else { self.others.get(&store) }
    }
}

/// A monitor that was matched with a program, ready to be attached to it.
#[derive(Debug)]
pub struct Matched {
    pub(super) observer: Observer,
    pub(super) guest: Arc<Guest>,
    pub(super) list: Vec<(u32, Binding)>,
    /// The probes that it has inserted itself so far.
    pub(super) inserted: Vec<Inserted>,
    pub(super) contained: Option<Arc<Contained>>,
    pub(super) facts: Facts,
    /// Its virtual probes: calls whose effect is computed without making them.
    pub(super) virtual_probes: Vec<VirtualProbe>,
    number: u16,
}

impl Observation {
    /// Matches monitors with a program, and compiles it with them. Functions of the monitors that
    /// are called meanwhile run in `store`, in which the program has to be instantiated, too. The
    /// store's current limits apply to the monitors. The code of the static monitors in `built_in`
    /// is compiled in as well.
    pub fn new<T: 'static>(
        store: &mut Store<T>,
        observers: Vec<Observer>,
        program: &Program,
        calls: ProbeCalls,
        built_in: Option<&MonitorSet>,
    ) -> Result<Self, ObserverError> {
        Self::with_code(store, observers, program, calls, built_in, None)
    }

    /// The same for a program that is compiled already, by the store's engine: its code is used
    /// unchanged if nothing has to be compiled in permanently.
    pub fn with_code<T: 'static>(
        store: &mut Store<T>,
        observers: Vec<Observer>,
        program: &Program,
        calls: ProbeCalls,
        built_in: Option<&MonitorSet>,
        code: Option<Module>,
    ) -> Result<Self, ObserverError> {
        let mut composition = Composition::new(store, program, calls, built_in, code);
        for observer in observers {
            composition.add(store.as_context_mut(), observer)?;
        }
        composition.finish(store)
    }

    /// A program without monitors.
    pub fn of(module: &Module) -> Self {
        let (monitors, threads, places, all_virtual_probes) = Default::default();
        Self {
            module: module.clone(),
            calls: ProbeCalls::default(),
            monitors,
            keeps_slots: AtomicBool::new(false),
            threads,
            places,
            all_virtual_probes,
        }
    }

    /// The program as it is to be instantiated.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Exports that are called nowhere although they name places of the program, by their monitors:
    /// each with the first place whose types it does not take, or with the error in its name.
    pub fn misfits(&self) -> Vec<(String, String)> {
        self.remarks(|observer| {
            observer.passed_over.iter().chain(observer.misfits.values()).cloned().collect()
        })
    }

    /// Texts that did not fit into the buffers of their monitors: the first of each monitor.
    pub fn shortened(&self) -> Vec<(String, String)> {
        self.remarks(|observer| observer.shortened.iter().cloned().collect())
    }

    /// Remarks on monitors, each with its monitor's name.
    fn remarks(&self, of: impl Fn(&Observer) -> Vec<String>) -> Vec<(String, String)> {
        let monitors = self.monitors.lock();
        let present = monitors.iter().filter(|monitor| !monitor.is_gone);
        let named = |Monitor { observer, .. }: &Monitor| {
            of(observer)
                .into_iter()
                .map(|remark| (observer.name.clone(), remark))
                .collect::<Vec<_>>()
        };
        present.flat_map(named).collect()
    }

    /// The number of probes that each monitor has in the program, plus its functions that the
    /// engine calls on its own, by the monitor's name.
    pub fn matches(&self) -> Vec<(String, usize)> {
        self.monitors
            .lock()
            .iter()
            .map(|monitor| {
                (monitor.observer.name.clone(), monitor.matches + monitor.observer.hears())
            })
            .collect()
    }

    /// The names of the attached monitors, and their numbers.
    pub fn present(&self) -> Vec<(String, usize)> {
        self.clients().into_iter().map(|client| (client.name, client.number)).collect()
    }

    /// The attached monitors.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let monitors = self.monitors.lock();
        let present = monitors.iter().enumerate().filter(|(_, monitor)| !monitor.is_gone);
        present.map(|(number, monitor)| monitor.client(number)).collect()
    }

    /// The one of that name that was attached last.
    pub(crate) fn client(&self, name: &str) -> Option<Client> {
        self.clients().into_iter().rev().find(|client| client.name == name)
    }

    /// How one was lowered in the program's code.
    pub(crate) fn explain(&self, number: usize) -> Option<(Lowering, Census)> {
        let monitors = self.monitors.lock();
        monitors.get(number).map(|monitor| (monitor.lowering.clone(), monitor.census))
    }

    /// Matches a monitor with the program. `store` is that of the program's thread. Nothing is
    /// changed yet.
    pub fn compare<T: 'static>(
        &self,
        mut store: StoreContextMut<'_, T>,
        observer: Observer,
        program: &Program,
    ) -> Result<Matched, ObserverError> {
        let number = self.monitors.lock().len() as u16;
        let capabilities = self.capabilities();
        observer.switches.observe(self.module.inner());
        let matched =
            Matched::new(store.as_context_mut(), observer, number, &capabilities, program)?;
        bound_memories(&mut store);
        self.module
            .bind(store.core().id, &matched.observer.name)
            .map_err(ObserverError::program)?;
        loaded(store, &matched.observer, &self.module)?;
        Ok(matched)
    }

    /// Attaches a monitor. It takes effect at each function's next call or loop iteration. Returns
    /// how many probes it has, plus its functions that the engine calls on its own.
    pub fn attach(&self, matched: Matched) -> Result<usize, ObserverError> {
        let monitors = self.monitors.lock();
        let before = |number: u16| {
            let before = monitors.get(usize::from(number)).filter(|before| !before.is_gone);
            before.map(|before| &before.observer)
        };
        matched.places(&mut self.places.lock(), before, &self.module.inner().info)?;
        drop(monitors);
        let lowering =
            lower::lower(std::slice::from_ref(&matched.facts), &self.capabilities()).swap_remove(0);
        // A monitor that is attached while the program runs is in a layer apart from its code:
        // nothing is drafted, or computed from counts.
        let (mut draft, mut all_virtual_probes) = (Draft::default(), Vec::new());
        let (mut monitor, coming) =
            Monitor::drafted(matched, lowering, None, &mut draft, &mut all_virtual_probes);
        debug_assert!(draft.finish() == Plan::default() && all_virtual_probes.is_empty());
        monitor.begin(&self.module, coming)?;
        monitor.compile_events = notification::compile_events(&monitor.observer, &self.module);
        let all = monitor.matches + monitor.observer.hears();
        self.keeps_slots.fetch_or(monitor.keeps_slots, SeqCst);
        self.monitors.lock().push(monitor);
        Ok(all)
    }

    /// What can be done to the program's code while it runs.
    fn capabilities(&self) -> Capabilities {
        let inlines = self.calls == ProbeCalls::Inlined;
        Capabilities { inlines, ..Capabilities::of_module(&self.module, Time::Running) }
    }

    /// Detaches a monitor, which costs nothing from then on; returns whether it was attached. What
    /// it has seen stays.
    pub fn detach(&self, name: &str) -> Result<bool, ObserverError> {
        let clients = self.clients().into_iter().rev();
        let mut found = clients.filter(|client| client.name == name && client.can_go());
        found.next().map_or(Ok(false), |client| self.detach_client(client.number))
    }

    /// The same for the one of that number.
    pub(crate) fn detach_client(&self, number: usize) -> Result<bool, ObserverError> {
        let strategy = {
            let mut monitors = self.monitors.lock();
            let present = monitors.get_mut(number).filter(|monitor| !monitor.is_gone);
            present.and_then(|monitor| {
                monitor.is_gone = monitor.strategy.is_some();
                monitor.strategy.clone()
            })
        };
        let Some(strategy) = strategy else { return Ok(false) };
        strategy.attach(false).map(|()| true).map_err(ObserverError::program)
    }

    /// The strategies of the monitors that are attached.
    fn strategies(&self) -> Vec<Arc<dyn Strategy>> {
        let monitors = self.monitors.lock();
        monitors
            .iter()
            .filter(|monitor| !monitor.is_gone)
            .filter_map(|monitor| monitor.strategy.clone())
            .collect()
    }

    /// Has every monitor report on the store's thread; returns the errors. Sums are reported in the
    /// store in which monitors were matched with the program, for all threads.
    pub fn report<T: 'static>(&self, store: &mut Store<T>) -> Vec<ObserverError> {
        self.report_of(store.as_context_mut(), None)
    }

    /// The same for every monitor, or for the one of that number: its report so far.
    pub fn report_of<T: 'static>(
        &self,
        mut store: StoreContextMut<'_, T>,
        which: Option<usize>,
    ) -> Vec<ObserverError> {
        self.settle(&mut store);
        let mut wrong = self.report_compiled(&mut store);
        let monitors = self.monitors.lock();
        let wanted = monitors.iter().enumerate().filter(|(number, monitor)| {
            !monitor.is_gone && which.is_none_or(|which| *number == which)
        });
        let id = store.core().id;
        wrong.extend(wanted.filter_map(|(_, monitor)| monitor.of(id)?.report(&mut store).err()));
        wrong
    }

    /// Brings monitors' cells up to date: cells that are only added to are not always updated at
    /// once. [`report`](Self::report) does it.
    pub fn settle(&self, mut store: impl AsContextMut) {
        let mut all_virtual_probes = self.all_virtual_probes.lock();
        let monitors = self.monitors.lock();
        let mut context = store.as_context_mut();
        let core = context.core();
        let cells = |number: usize| {
            let observer = &monitors[number].observer;
            observer.is_in(core.id).then(|| observer.instance())
        };
        all_virtual_probes.write_cells_of_all(&self.module, core, cells);
        for monitor in monitors.iter().filter(|monitor| monitor.observer.is_in(core.id)) {
            if let Some(strategy) = &monitor.strategy {
                strategy.write_cells(core, monitor.observer.instance());
            }
        }
    }

    /// Whether the program may be stopped anywhere. It may not while probes that are compiled in
    /// keep state in activations, which would be lost.
    pub fn may_be_stopped(&self) -> bool {
        !self.keeps_slots.load(SeqCst)
    }

    /// The monitor that has caused the program's end, with the exports that are called at the
    /// place; `None` if the program itself has.
    pub fn blame(&self, error: &Error) -> Option<String> {
        let Error::Trap(report) = error else { return None };
        let frame = report.backtrace.frames.iter().find(|frame| frame.aside)?;
        let (places, monitors) = (self.places.lock(), self.monitors.lock());
        let at = places.at(frame.offset?);
        if at.is_empty() {
            return None;
        }
        // A monitor that was detached is not called, unless it was just now.
        let is_there = |place: &(u32, u16, u16)| !monitors[usize::from(place.1)].is_gone;
        let all_are_gone = !at.iter().any(is_there);
        let mut names: Vec<String> = Vec::new();
        for (_, observer, rule) in at.iter().filter(|place| all_are_gone || is_there(place)) {
            let observer = &monitors[usize::from(*observer)].observer;
            let export = &observer.rules[usize::from(*rule)].export;
            let name = format!("monitor {}: {}", Printable(&observer.name), Printable(export));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let place = wasm_aot_engine::Place {
            function: Some((frame.function, frame.name.clone())),
            offset: frame.offset.map(|at| at as usize),
        };
        let why = match report.trap {
            wasm_aot_engine::Trap::Interrupted => "was being called".into(),
            trap => trap.to_string(),
        };
        Some(format!("{}, at {place}: {why}", names.join(", or ")))
    }

    /// Switches probes of a monitor, from any thread, at once; returns how many of the selected
    /// ones are on.
    pub fn switch(&self, which: &Selection, on: bool) -> Result<Switched, SelectionError> {
        let Some(client) = self.client(&which.monitor) else {
            let known = self.clients().into_iter().filter(Client::can_go);
            let known = known.map(|client| client.name).collect();
            return Err(SelectionError::NoMonitor { monitor: which.monitor.clone(), known });
        };
        self.switch_client(client.number, which, on)
    }

    /// The same for the monitor of that number.
    pub(crate) fn switch_client(
        &self,
        number: usize,
        which: &Selection,
        on: bool,
    ) -> Result<Switched, SelectionError> {
        let monitors = self.monitors.lock();
        let monitor = &monitors[number];
        let Some(strategy) = monitor.strategy.clone() else {
            return Err(SelectionError::Fixed { monitor: which.monitor.clone() });
        };
        let (info, rules) = (&self.module.inner().info, &monitor.observer.rules);
        let start =
            |function: u32| info.bodies[(function - info.imported.functions) as usize].start;
        let mut meant = 0;
        for probe in strategy.probes() {
            let rule = &rules[usize::from(probe.rule)].export;
            let at = probe.offset - start(probe.function);
            if which.means(rule, probe.function, &names(info, probe.function), at) {
                meant += 1;
                strategy.switches().switch(probe.id, on);
            }
        }
        strategy.switches().insertions().each(|id, place| {
            if which.means(INSERTED, place.function, &names(info, place.function), place.offset) {
                meant += 1;
                strategy.switches().switch(id, on);
            }
        });
        if meant == 0 {
            return Err(SelectionError::Nothing { which: which.to_string() });
        }
        drop(monitors);
        // Probes that are switched off while it rests leave it resting.
        let is_wanted = on || strategy.is_wanted();
        strategy.attach(is_wanted).map_err(|error| SelectionError::Engine(Box::new(error)))?;
        let now = if is_wanted { strategy.switches().on() } else { 0 };
        Ok(Switched { meant, on: now, all: strategy.switches().count() })
    }

    /// Has all monitors that can be switched observe, or rest. Which probes of each are on does not
    /// change. Returns whether there are any such monitors.
    pub fn rest(&self, on: bool) -> Result<bool, ObserverError> {
        let strategies = self.strategies();
        let attached = strategies.iter().try_for_each(|strategy| strategy.attach(on));
        attached.map(|()| !strategies.is_empty()).map_err(ObserverError::program)
    }

    /// Has calls of probes counted from now on, of all monitors whose code can be recompiled for
    /// that; returns whether there are any.
    pub fn count_events(&self) -> Result<bool, ObserverError> {
        let strategies = self.strategies().into_iter();
        let counted = strategies.map(|one| one.count()).collect::<Result<Vec<bool>, _>>();
        counted.map(|counted| counted.contains(&true)).map_err(ObserverError::program)
    }

    /// How many calls of probes were counted so far.
    pub fn events(&self) -> u64 {
        self.strategies().iter().map(|strategy| strategy.events()).sum()
    }
}

/// Used in place of an export's name for probes that a monitor has inserted itself.
const INSERTED: &str = "inserted";

/// A function's names: as shown to people, and as it is exported.
fn names(info: &ModuleInfo, function: u32) -> Vec<String> {
    let exports = info
        .exports
        .iter()
        .filter(|export| export.space == Space::Func && export.index == function);
    std::iter::once(info.label(function)).chain(exports.map(|export| export.name.clone())).collect()
}

/// What became of probes that were switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// How many were meant.
    pub meant: usize,
    /// How many of the monitor's are on now.
    pub on: usize,
    /// How many it has.
    pub all: usize,
}

impl Matched {
    pub(super) fn new<T: 'static>(
        mut store: StoreContextMut<'_, T>,
        mut observer: Observer,
        number: u16,
        capabilities: &Capabilities,
        program: &Program,
    ) -> Result<Self, ObserverError> {
        let mut bindings = Bindings::default();
        matching::bind(store.as_context_mut(), &mut observer, &program.bytes, &mut bindings)?;
        let calls = if capabilities.inlines { Calls::Inlined } else { Calls::Direct };
        let mut guests = Guests::new(calls, observer.request.threads);
        let guest = guests
            .of(store.core(), &observer.instance, number.into())
            .expect("an instance of this store");
        observer.switches.make(0, bindings.len(), !observer.request.off);
        let mut facts = observer.facts();
        lower::admit(&Facts::Functions(facts.clone()), capabilities)
            .map_err(|refusal| observer.refused(refusal))?;
        let contained = observer
            .request
            .contained
            .and_then(|patience| Contained::new(&observer, store.core().interruption(), patience));
        let list: Vec<(u32, Binding)> = bindings.take().collect();
        let sizes = observer.instance.sizes(store.core());
        let own = observer.switches.clone();
        let inserted = own.insertions().compare(store, &mut observer, program)?;
        let (calls, bytes) = ((&list[..], &observer.rules[..]), &program.bytes);
        let (virtual_probes, effects) =
            VirtualProbe::of_all(number.into(), &guest, calls, &sizes, bytes);
        let is_fixed = !facts.is_toggled && !capabilities.counts && observer.request.alone;
        facts.costs = (is_fixed && !matches!(effects, Effects::More(_) | Effects::Ordered))
            .then(|| costs(&virtual_probes, program));
        (facts.effects, facts.places) = (effects, list.len() + inserted.len());
        let facts = Facts::Functions(facts);
        Ok(Self { observer, guest, list, inserted, contained, facts, virtual_probes, number })
    }

    /// The monitor's name.
    pub fn name(&self) -> &str {
        &self.observer.name
    }

    /// Records which rules are called where. Only one may replace an instruction.
    pub(super) fn places<'a>(
        &'a self,
        places: &mut Places,
        before: impl Fn(u16) -> Option<&'a Observer>,
        info: &ModuleInfo,
    ) -> Result<(), ObserverError> {
        let named = |&(_, monitor, rule): &(u32, u16, u16)| {
            let is_own = monitor == self.number;
            let observer = if is_own { Some(&self.observer) } else { before(monitor) };
            observer
                .map(|observer| (observer, &observer.rules[usize::from(rule)]))
                .filter(|(_, rule)| rule.mode == Mode::Alt)
        };
        places
            .note(self.list.iter().map(|(_, binding)| (binding.offset, self.number, binding.rule)));
        for (function, binding) in
            self.list.iter().filter(|(_, binding)| binding.bound_mode == BoundMode::ALT)
        {
            let own = (binding.offset, self.number, binding.rule);
            let mut before = places.at(binding.offset).iter().take_while(|place| **place != own);
            if let Some((observer, rule)) = before.find_map(named) {
                let offset = Some(binding.offset as usize);
                return Err(ObserverError::Conflict {
                    monitor: self.observer.name.clone(),
                    export: self.observer.rules[usize::from(binding.rule)].export.clone(),
                    other: format!("{} of {}", rule.export, observer.name),
                    place: Box::new(wasm_aot_engine::Place {
                        function: Some((*function, Some(info.label(*function)))),
                        offset,
                    }),
                });
            }
        }
        Ok(())
    }
}

/// Limits monitors' memories to the store's limits of when they were instantiated, whatever the
/// program's limits become.
pub(super) fn bound_memories<T>(store: &mut StoreContextMut<'_, T>) {
    let core = store.core();
    let most = core.limits().memory;
    let monitors = core.instances.iter().filter(|instance| instance.looks_on.get());
    let own: Vec<usize> = monitors.flat_map(|instance| instance.memories.iter().copied()).collect();
    own.into_iter()
        .for_each(|memory| core.memories[memory].ceiling = core.memories[memory].ceiling.min(most));
}

impl Observer {
    /// What it needs of a program's code. All its functions that are called while matching have
    /// been called then, and the observer cannot be used afterwards.
    pub fn needs<T: 'static>(
        self,
        mut store: impl AsContextMut<Data = T>,
        program: &Program,
    ) -> Result<Needs, ObserverError> {
        let capabilities = Capabilities::of_file();
        let matched = Matched::new(store.as_context_mut(), self, 0, &capabilities, program)?;
        let lowered = lower::lower(&[matched.facts], &capabilities);
        Ok(match lowered[0].action {
            Action::Count(_) | Action::OneShot { counts: true, .. } => Needs::Counts,
            Action::OneShot { counts: false, .. } => Needs::Notes,
            Action::Nothing(_) | Action::Hooks(_) | Action::Guest { .. } | Action::Host(_) => {
                Needs::Calls
            }
        })
    }

    /// What is known of it before it is matched with a program.
    fn facts(&self) -> Functions {
        let imports = &self.module.inner().info.imports;
        let imports = |module: &str, is_meant: &dyn Fn(&str) -> bool| {
            imports.iter().any(|import| import.module == module && is_meant(&import.name))
        };
        let request = self.request;
        Functions {
            is_toggled: request.toggled || request.off,
            is_limited: self.switches.are_limited(),
            is_contained: request.contained.is_some(),
            removes: imports("whamm:dyninstr", &|name| name == "remove_probe"),
            inserts: imports("whamm:dyninstr", &|name| name == "insert_new_probe")
                || imports(MARKER.0, &|name| name == "insert_probe"),
            listens: self.reactions_to(Occurrence::MemoryGrown).next().is_some(),
            replaces: self.rules.iter().any(|rule| rule.mode == Mode::Alt),
            keeps_slots: imports(MARKER.0, &|name| name.starts_with("frame_")),
            is_threaded: request.threads,
            unmergeable: super::merging::unmergeable(self.module.inner()),
            ..Functions::default()
        }
    }

    /// Why it cannot have an instance for each thread, if so.
    pub fn needs_one_instance(&self) -> Option<String> {
        lower::why_one_instance(&self.facts())
    }

    fn refused(&self, refusal: Refusal) -> ObserverError {
        let monitor = self.name.clone();
        match refusal {
            Refusal::Threads(why) => ObserverError::Threads { monitor, why },
            Refusal::Replaces => ObserverError::Replacing(monitor),
            Refusal::KeepsSlots => ObserverError::Contained(monitor),
            Refusal::NoSites | Refusal::Early | Refusal::Floods => {
                let why = "the program was compiled without sites, so that nothing can be attached";
                ObserverError::program(Error::Attach(why.into()))
            }
        }
    }

    /// Sets the text by which it was requested, with its options.
    pub fn set_text(&mut self, text: &str) {
        self.text = Some(text.to_owned());
    }

    /// Has its probes switchable while the program runs.
    pub fn set_toggled(&mut self, on: bool) {
        self.request.toggled = on;
    }

    /// Whether its instance is in a store.
    pub(super) fn is_in(&self, store: StoreId) -> bool {
        self.instance.is_of(store)
    }

    /// Sets the listener for its failures while the program continues.
    pub fn on_failure(&mut self, tell: impl Fn(&str) + Send + Sync + 'static) {
        self.listener = Listener(Some(Arc::new(tell)));
    }

    /// Has it see programs with threads, with an instance for each: see [`Observation::join`].
    pub fn set_threads(&mut self) {
        self.request.threads = true;
    }

    /// The program is instantiated only in the store in which it is matched: functions whose effect
    /// could be computed from counts may be called where that is cheaper.
    pub fn set_alone(&mut self) {
        self.request.alone = true;
    }

    /// Has its probes off until they are switched on.
    pub fn set_off(&mut self) {
        self.request.off = true;
    }

    /// Has its traps, and calls that take longer than `patience`, switch it off: the program
    /// continues. It is called through the host then.
    pub fn set_contained(&mut self, patience: Duration) {
        self.request.contained = Some(patience);
    }

    /// Limits the number of calls of each of its probes.
    pub fn set_calls(&mut self, calls: u32) {
        self.switches.limit(calls);
    }
}
