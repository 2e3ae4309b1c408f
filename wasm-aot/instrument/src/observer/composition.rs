//! Merges what several monitor modules need in a program's code, before it is compiled: they are
//! matched with the program one after the other, lowered together, and drafted in their order.

use super::binding::{Binding, BoundMode};
use super::counting::Counting;
use super::insertion::Inserted;
use super::installed::{Installed, InstalledProbe};
use super::notification::{self, loaded};
use super::observation::{Matched, Monitor, Observation, Places, ProbeCalls, bound_memories};
use super::sequence::Sequence;
use super::strategy::{Strategy, SwitchableProbe};
use super::threads::InstancePointers;
use super::virtual_probes::{VirtualProbe, VirtualProbes};
use super::{Observer, ObserverError, Program};
use crate::lower::{self, Action, Capabilities, Census, Facts, Gate, Layer, Lowering, Time};
use crate::monitor::MonitorSet;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Module;
use wasm_aot_engine::Store;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::compile::{Draft, Guest, Plan};

/// A program, and the monitors that were compared with it so far.
pub(super) struct Composition<'p> {
    program: &'p Program,
    calls: ProbeCalls,
    built_in: Option<&'p MonitorSet>,
    /// The program's code, if it is compiled already.
    code: Option<Module>,
    capabilities: Capabilities,
    places: Places,
    matched: Vec<Matched>,
}

/// What becomes of a monitor once the program is compiled: the probes that it has inserted, and how
/// it is switched.
pub(super) struct Coming(Vec<Inserted>, How);

enum How {
    /// It is not switched: it is in the program's own code permanently.
    Fixed,
    Probes(Vec<InstalledProbe>),
    Counts(Vec<VirtualProbe>, Vec<SwitchableProbe>),
}

impl<'p> Composition<'p> {
    pub(super) fn new<T: 'static>(
        store: &Store<T>,
        program: &'p Program,
        calls: ProbeCalls,
        built_in: Option<&'p MonitorSet>,
        code: Option<Module>,
    ) -> Self {
        let engine = Capabilities::of_engine(store.engine());
        let own = code.as_ref().map(|code| Capabilities::of_module(code, Time::Compiled));
        let capabilities =
            own.map_or(engine, |own| Capabilities { counts: own.counts || engine.counts, ..own });
        let capabilities = Capabilities { inlines: calls == ProbeCalls::Inlined, ..capabilities };
        let (places, matched) = Default::default();
        Self { program, calls, built_in, code, capabilities, places, matched }
    }

    /// Compares a monitor with the program.
    pub(super) fn add<T: 'static>(
        &mut self,
        store: StoreContextMut<'_, T>,
        observer: Observer,
    ) -> Result<(), ObserverError> {
        let number = self.matched.len() as u16;
        let matched = Matched::new(store, observer, number, &self.capabilities, self.program)?;
        let before = |number: u16| self.matched.get(usize::from(number)).map(|it| &it.observer);
        matched.places(&mut self.places, before, &self.program.info)?;
        self.matched.push(matched);
        Ok(())
    }

    /// Compiles the program with the monitors, unless its existing code can be used unchanged.
    pub(super) fn finish<T: 'static>(
        self,
        store: &mut Store<T>,
    ) -> Result<Observation, ObserverError> {
        let Self { program, calls, built_in, code, capabilities, places, matched } = self;
        bound_memories(&mut store.as_context_mut());
        let facts: Vec<Facts> = matched.iter().map(|it| it.facts.clone()).collect();
        let lowered = lower::lower(&facts, &capabilities);
        let mut draft = Draft::default();
        if built_in.is_some() || capabilities.counts || lowered.iter().any(follows_from_blocks) {
            matched.iter().for_each(|it| it.tell_replaced(&mut draft));
        }
        if let Some(monitors) = built_in {
            let drafted = monitors.draft(store.engine(), &program.bytes, draft);
            draft = drafted.map_err(ObserverError::program)?;
        }
        let (mut monitors, mut all_virtual_probes, mut coming) =
            (Vec::new(), Vec::new(), Vec::new());
        for (matched, lowering) in matched.into_iter().zip(lowered) {
            let instance_pointers = instance_pointers(store, &matched, &lowering, &mut draft);
            let (monitor, comes) = Monitor::drafted(
                matched,
                lowering,
                instance_pointers,
                &mut draft,
                &mut all_virtual_probes,
            );
            monitors.push(monitor);
            coming.push(comes);
        }
        let all_virtual_probes =
            VirtualProbes::plan(all_virtual_probes, program, store.engine(), &mut draft)
                .map_err(ObserverError::program)?;
        let plan = draft.finish();
        let code = code.filter(|code| {
            plan == Plan::default() && (!all_virtual_probes.counts() || code.inner().options.counts)
        });
        let code = code.filter(|code| built_in.is_none_or(|monitors| monitors.fits(code)));
        let engine = match all_virtual_probes.counts() {
            false => store.engine().clone(),
            true => store.engine().counting().map_err(ObserverError::program)?,
        };
        let made = code.map_or_else(|| Module::with_plan(&engine, &program.bytes, &plan), Ok);
        let module = made.map_err(ObserverError::program)?;
        let begun = built_in.map_or(Ok(()), |monitors| monitors.begin(&module));
        begun.map_err(ObserverError::program)?;
        all_virtual_probes.compiled(&module);
        if let Some(bound) = monitors.iter().find(|monitor| monitor.is_called) {
            module
                .bind(store.as_context_mut().core().id, &bound.observer.name)
                .map_err(ObserverError::program)?;
        }
        for (monitor, coming) in monitors.iter_mut().zip(coming) {
            monitor.begin(&module, coming)?;
        }
        for Monitor { observer, compile_events, .. } in &mut monitors {
            observer.switches.observe(module.inner());
            loaded(store.as_context_mut(), observer, &module)?;
            *compile_events = notification::compile_events(observer, &module);
        }
        let threads = Mutex::new(vec![store.as_context_mut().core().id]);
        let keeps_slots = AtomicBool::new(monitors.iter().any(|monitor| monitor.keeps_slots));
        let (monitors, places, all_virtual_probes) =
            (Mutex::new(monitors), Mutex::new(places), Mutex::new(all_virtual_probes));
        Ok(Observation {
            module,
            calls,
            monitors,
            keeps_slots,
            threads,
            places,
            all_virtual_probes,
        })
    }
}

/// The per-thread pointers to a monitor's instances, if each thread has one and code calls it.
fn instance_pointers<T: 'static>(
    store: &mut Store<T>,
    Matched { observer, guest, list, inserted, .. }: &Matched,
    lowering: &Lowering,
    draft: &mut Draft,
) -> Option<Arc<InstancePointers>> {
    let is_there = has_code(lowering, list.len() + inserted.len());
    (is_there && observer.request.threads).then(|| {
        let mut store = store.as_context_mut();
        let instance_pointers = InstancePointers::new(draft.words(1), guest, list);
        instance_pointers.set(store.core().id, observer.instance.base(store.core()));
        draft.add_receiver(Arc::<InstancePointers>::clone(&instance_pointers));
        instance_pointers
    })
}

/// Whether a monitor is computed from which blocks were executed.
fn follows_from_blocks(lowering: &Lowering) -> bool {
    matches!(lowering.action, Action::Count(_) | Action::OneShot { .. })
}

impl Matched {
    /// Declares the instructions that it may replace: the counts of others depend on them.
    fn tell_replaced(&self, draft: &mut Draft) {
        let replaces = |(_, binding): &&(u32, Binding)| binding.bound_mode == BoundMode::ALT;
        self.list.iter().filter(replaces).for_each(|(function, binding)| {
            draft.may_be_replaced(*function, binding.offset);
        });
    }
}

/// Whether code may call a monitor that has so many matches.
fn has_code(lowering: &Lowering, matches: usize) -> bool {
    matches!(lowering.gate, Gate::Word { .. }) || lowering.is_apart() || matches > 0
}

/// What kinds of probes a monitor has in the code that calls these functions.
fn census(lowering: &Lowering, guest: &Guest, calls: impl Iterator<Item = u32>) -> Census {
    let (small, large): (Vec<u32>, Vec<u32>) = calls.partition(|call| guest.is_small(*call));
    let (inlined, called, all) = (small.len(), large.len(), small.len() + large.len());
    match lowering.action {
        Action::Nothing(_) | Action::Count(_) | Action::Hooks(_) => Census::default(),
        Action::OneShot { .. } => Census { one_shot: all, ..Census::default() },
        Action::Guest { is_inlined: true, .. } => Census { inlined, called, ..Census::default() },
        Action::Guest { .. } | Action::Host(_) => Census { called: all, ..Census::default() },
    }
}

impl Monitor {
    /// A monitor as it was lowered: what it needs in the program's own code is drafted, or computed
    /// from counts; the rest is done when the program is compiled.
    pub(super) fn drafted(
        matched: Matched,
        lowering: Lowering,
        instance_pointers: Option<Arc<InstancePointers>>,
        draft: &mut Draft,
        all_virtual_probes: &mut Vec<VirtualProbe>,
    ) -> (Self, Coming) {
        let Matched { observer, guest, list, inserted, contained, facts, virtual_probes, .. } =
            matched;
        let matches = list.len() + inserted.len();
        let instance_pointer =
            instance_pointers.as_ref().map(|instance_pointers| instance_pointers.word);
        let calls = matches!(lowering.action, Action::Guest { .. } | Action::Host(_));
        let is_called = calls && has_code(&lowering, matches);
        let census = census(&lowering, &guest, list.iter().map(|(_, binding)| binding.function));
        let how = match (lowering.action, lowering.gate, lowering.layer) {
            (
                Action::Nothing(_) | Action::Count(_) | Action::OneShot { .. },
                _,
                Layer::Apart(_),
            ) => {
                let points = list.iter();
                let points =
                    points.map(|(function, binding)| SwitchableProbe::of(*function, binding));
                How::Counts(virtual_probes, points.collect())
            }
            (Action::Nothing(_) | Action::Count(_) | Action::OneShot { .. }, _, Layer::Own(_)) => {
                all_virtual_probes.extend(virtual_probes);
                How::Fixed
            }
            (Action::Guest { .. } | Action::Host(_) | Action::Hooks(_), Gate::Word { .. }, _) => {
                let shared = (&observer.switches, &observer.buffer_memories);
                let mut probes = InstalledProbe::all(
                    (&guest, instance_pointer),
                    list,
                    shared,
                    &lowering,
                    contained.as_ref(),
                );
                if !lowering.is_apart() {
                    probes.iter_mut().for_each(|probe| probe.put(draft));
                }
                How::Probes(probes)
            }
            (Action::Guest { .. } | Action::Host(_) | Action::Hooks(_), _, _) => {
                let (guest, memories) = ((&guest, instance_pointer), &observer.buffer_memories);
                for (function, binding) in list {
                    Arc::new(Sequence::new(guest, memories, binding)).put(function, draft);
                }
                How::Fixed
            }
        };
        let (others, compile_events, strategy) = (HashMap::new(), None, None);
        let (keeps_slots, is_gone) = (facts.keeps_slots(), false);
        let monitor = Self {
            observer,
            lowering,
            census,
            others,
            instance_pointers,
            is_called,
            keeps_slots,
            compile_events,
            matches,
            strategy,
            is_gone,
        };
        (monitor, Coming(inserted, how))
    }

    /// Has it observe a program that was compiled as was drafted.
    pub(super) fn begin(
        &mut self,
        module: &Module,
        Coming(inserted, how): Coming,
    ) -> Result<(), ObserverError> {
        let switches = self.observer.switches.clone();
        switches.insertions().begin(module, &self.observer, inserted, &switches)?;
        self.strategy = match how {
            How::Fixed => None,
            How::Probes(probes) => {
                let installed = Arc::new(Installed::new(module, probes, switches, &self.lowering));
                installed.attach(true).map_err(ObserverError::program)?;
                installed.have_pruned();
                Some(installed)
            }
            How::Counts(calls, points) => {
                let counting = Arc::new(Counting::new(module, calls, points, switches));
                counting.attach(true).map_err(ObserverError::program)?;
                Some(counting)
            }
        };
        Ok(())
    }
}
