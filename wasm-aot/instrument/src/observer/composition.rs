//! What monitors need in a program's code, put together before it is compiled: they are compared
//! with it one after the other, lowered together, and drafted in their order.

use super::binding::Binding;
use super::counting::{Counting, Place};
use super::derived::{Derivation, Derived};
use super::observation::{
    Matched, Monitor, Observation, Places, ProbeCalls, begin, begin_counting, bound_memories,
    called, census, made,
};
use super::sequence::Sequence;
use super::standing::{self, Probe, Standing};
use super::telling::{self, loaded};
use super::threads::Homes;
use super::{Observer, ObserverError, Program};
use crate::lower::{self, Action, Capabilities, Facts, Gate, Layer, Lowering, Time};
use crate::monitor::Watch;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Module;
use wasm_aot_engine::Store;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::compile::{self, Draft, Guest, Plan, Word};

/// A program, and the monitors that were compared with it so far.
pub(super) struct Composition<'p> {
    program: &'p Program,
    calls: ProbeCalls,
    watch: Option<&'p Watch>,
    /// Code of the program that there is already.
    code: Option<Module>,
    capabilities: Capabilities,
    places: Places,
    matched: Vec<Matched>,
}

/// How a monitor is present once the program is compiled.
enum Coming {
    /// By what is in the program's own code, for good.
    Fixed,
    Probes(Vec<Probe>),
    Counts(Vec<Derivation>, Vec<Place>),
}

impl<'p> Composition<'p> {
    pub(super) fn new<T: 'static>(
        store: &Store<T>,
        program: &'p Program,
        calls: ProbeCalls,
        watch: Option<&'p Watch>,
        code: Option<Module>,
    ) -> Self {
        let engine = Capabilities::of_engine(store.engine());
        let own = code.as_ref().map(|code| Capabilities::of_module(code, Time::Compiled));
        let capabilities =
            own.map_or(engine, |own| Capabilities { counts: own.counts || engine.counts, ..own });
        let capabilities = Capabilities { inlines: calls == ProbeCalls::Inlined, ..capabilities };
        let (places, matched) = Default::default();
        Self { program, calls, watch, code, capabilities, places, matched }
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

    /// Compiles the program with them, unless its code will do as it is.
    pub(super) fn finish<T: 'static>(
        self,
        store: &mut Store<T>,
    ) -> Result<Observation, ObserverError> {
        let Self { program, calls, watch, code, capabilities, places, matched } = self;
        bound_memories(&mut store.as_context_mut());
        let mut draft = match watch {
            Some(watch) => {
                watch.draft(store.engine(), &program.bytes).map_err(ObserverError::program)?
            }
            None => Draft::default(),
        };
        let facts: Vec<Facts> = matched.iter().map(|it| it.facts.clone()).collect();
        let lowered = lower::lower(&facts, &capabilities);
        let (mut monitors, mut derived, mut coming) = (Vec::new(), Vec::new(), Vec::new());
        for (matched, lowering) in matched.into_iter().zip(lowered) {
            let (monitor, inserted, presence) =
                drafted(store, matched, lowering, &mut draft, &mut derived);
            monitors.push(monitor);
            coming.push((inserted, presence));
        }
        let derived = Derived::plan(derived, program, store.engine(), &mut draft)
            .map_err(ObserverError::program)?;
        let plan = draft.finish();
        let code = code.filter(|code| {
            plan == Plan::default() && (!derived.counts() || code.inner().options.counts)
        });
        let code = code.filter(|code| watch.is_none_or(|watch| watch.fits(code)));
        let engine = match derived.counts() {
            false => store.engine().clone(),
            true => store.engine().counting().map_err(ObserverError::program)?,
        };
        let made = code.map_or_else(|| Module::with_plan(&engine, &program.bytes, &plan), Ok);
        let module = made.map_err(ObserverError::program)?;
        watch.map_or(Ok(()), |watch| watch.compiled(&module)).map_err(ObserverError::program)?;
        derived.compiled(&module);
        if let Some(bound) = monitors.iter().find(|monitor| monitor.is_called) {
            module
                .bind(store.as_context_mut().core().id, &bound.observer.name)
                .map_err(ObserverError::program)?;
        }
        for (monitor, (inserted, coming)) in monitors.iter_mut().zip(coming) {
            let Monitor { observer, lowering, presence, .. } = monitor;
            let switches = observer.switches.clone();
            switches.insertions().begin(&module, observer, inserted, &switches)?;
            *presence = match coming {
                Coming::Fixed => None,
                Coming::Probes(probes) => {
                    Some(begin(Standing::new(&module, probes, switches, lowering))?)
                }
                Coming::Counts(calls, places) => {
                    Some(begin_counting(Counting::new(&module, calls, places, switches))?)
                }
            };
        }
        for Monitor { observer, news, .. } in &mut monitors {
            loaded(store.as_context_mut(), observer, &module)?;
            *news = telling::news(observer, &module);
        }
        let threads = Mutex::new(vec![store.as_context_mut().core().id]);
        let (monitors, places, derived) =
            (Mutex::new(monitors), Mutex::new(places), Mutex::new(derived));
        Ok(Observation { module, calls, monitors, threads, places, derived })
    }
}

/// A monitor as it was lowered: what it needs in the program's own code is drafted, or derived;
/// what it has inserted and how it is present comes when the program is compiled.
fn drafted<T: 'static>(
    store: &mut Store<T>,
    matched: Matched,
    lowering: Lowering,
    draft: &mut Draft,
    derived: &mut Vec<Derivation>,
) -> (Monitor, Vec<super::insertion::Inserted>, Coming) {
    let Matched { observer, guest, list, inserted, contained, facts, derivations, .. } = matched;
    let matches = list.len() + inserted.len();
    let is_gated = matches!(lowering.gate, Gate::Word { .. });
    let has_code = is_gated || lowering.is_apart() || matches > 0;
    let homes = (has_code && observer.request.threads).then(|| {
        let mut store = store.as_context_mut();
        let homes = Homes::new(draft.words(1), &guest, &list);
        homes.settle(store.core().id, observer.instance.base(store.core()));
        draft.tell(Arc::<Homes>::clone(&homes));
        homes
    });
    let home = homes.as_ref().map(|homes| homes.word);
    let calls = matches!(lowering.action, Action::Guest { .. } | Action::Host(_));
    let census = census(&lowering, &guest, &called(&list));
    let coming = match (lowering.action, lowering.gate) {
        (Action::Nothing(_) | Action::Count(_) | Action::Note { .. }, _) => match lowering.layer {
            Layer::Apart(_) => Coming::Counts(derivations, list.iter().map(Place::of).collect()),
            Layer::Own(_) => {
                derived.extend(derivations);
                Coming::Fixed
            }
        },
        (Action::Guest { .. } | Action::Host(_) | Action::Hooks(_), Gate::Word { .. }) => {
            let mut probes = made((&guest, home), list, &observer, &lowering, contained.as_ref());
            if !lowering.is_apart() {
                probes.iter_mut().for_each(|probe| probe.put(draft));
            }
            Coming::Probes(probes)
        }
        (Action::Guest { .. } | Action::Host(_) | Action::Hooks(_), _) => {
            list.into_iter()
                .for_each(|(function, binding)| hook(draft, &guest, home, function, binding));
            Coming::Fixed
        }
    };
    let (others, news, presence) = (HashMap::new(), None, None);
    let (is_called, keeps_slots, is_gone) = (calls && has_code, facts.keeps_slots(), false);
    let monitor = Monitor {
        observer,
        lowering,
        census,
        others,
        homes,
        is_called,
        keeps_slots,
        news,
        matches,
        presence,
        is_gone,
    };
    (monitor, inserted, coming)
}

/// Drafts a probe that stays.
fn hook(
    draft: &mut Draft,
    guest: &Arc<Guest>,
    home: Option<Word>,
    function: u32,
    binding: Binding,
) {
    let (offset, moment) = standing::standing(&binding);
    let (guest, fingerprint) = (Arc::clone(guest), standing::fingerprint());
    let (word, is_limited, counter, contained) = Default::default();
    let sequence =
        Sequence { guest, home, binding, word, is_limited, counter, contained, fingerprint };
    let action = compile::Action::Inline(compile::Sequence(Arc::new(sequence)));
    draft.hook(function, offset, moment, action);
}
