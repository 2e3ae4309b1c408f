//! What monitors need in a program's code, put together before it is compiled.

use super::binding::Binding;
use super::counting::{Counting, Place};
use super::derived::{Derivation, Derived, calls_take_less};
use super::insertion::Inserted;
use super::observation::{
    Matched, Monitor, Observation, Places, ProbeCalls, begin, begin_counting, bound_memories, made,
};
use super::sequence::Sequence;
use super::standing::{self, At, Probe, Standing};
use super::telling::{self, loaded};
use super::threads::Homes;
use super::{Observer, ObserverError, Program};
use crate::monitor::Watch;
use parking_lot::Mutex;
use std::sync::Arc;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Engine;
use wasm_aot_engine::Module;
use wasm_aot_engine::Store;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::compile::{self, Action, Draft, Guest, Plan, Word};

/// A program, and what was put together so far.
pub(super) struct Composition<'p> {
    program: &'p Program,
    calls: ProbeCalls,
    watch: Option<&'p Watch>,
    /// Code of the program that there is already.
    code: Option<Module>,
    has_sites: bool,
    draft: Draft,
    places: Places,
    monitors: Vec<Monitor>,
    derivable: Vec<Derivable>,
    presences: Vec<(usize, Coming)>,
    inserted: Vec<Vec<Inserted>>,
}

/// How a monitor will be present that can be switched.
enum Coming {
    Probes(Vec<Probe>, At),
    Counts(Vec<Derivation>, Vec<Place>),
}

/// A monitor that is not switched, and need not be called.
struct Derivable {
    number: usize,
    own: Vec<Derivation>,
    guest: Arc<Guest>,
    home: Option<Word>,
    list: Vec<(u32, Binding)>,
}

impl<'p> Composition<'p> {
    pub(super) fn new<T: 'static>(
        store: &Store<T>,
        program: &'p Program,
        calls: ProbeCalls,
        watch: Option<&'p Watch>,
        code: Option<Module>,
    ) -> Result<Self, ObserverError> {
        let draft = match watch {
            Some(watch) => {
                watch.draft(store.engine(), &program.bytes).map_err(ObserverError::program)?
            }
            None => Draft::default(),
        };
        let has_sites = store.engine().has_sites();
        let (places, monitors, derivable, presences, inserted) = Default::default();
        Ok(Self {
            program,
            calls,
            watch,
            code,
            has_sites,
            draft,
            places,
            monitors,
            derivable,
            presences,
            inserted,
        })
    }

    /// Compares a monitor with the program, and adds what it needs.
    pub(super) fn add<T: 'static>(
        &mut self,
        mut store: StoreContextMut<'_, T>,
        observer: Observer,
    ) -> Result<(), ObserverError> {
        let number = self.monitors.len();
        let matched = Matched::new(
            store.as_context_mut(),
            observer,
            number as u16,
            self.calls,
            self.program,
        )?;
        matched.places(&mut self.places, &self.monitors, &self.program.info)?;
        let sizes = matched.observer.instance.sizes(store.core());
        let own = self.derivations(number, &matched, &sizes);
        let Matched { observer, guest, list, inserted, contained, .. } = matched;
        let matches = list.len() + inserted.len();
        let has_code = observer.is_switched() || matches > 0;
        let homes = (has_code && observer.has_threads).then(|| {
            let homes = Homes::new(self.draft.words(1), &guest, &list);
            homes.settle(store.core().id, observer.instance.base(store.core()));
            self.draft.tell(Arc::<Homes>::clone(&homes));
            homes
        });
        let home = homes.as_ref().map(|homes| homes.word);
        let is_called = has_code && own.is_none();
        match own {
            Some(own) if observer.is_switched_from_outside() => {
                let places = list.iter().map(Place::of).collect();
                self.presences.push((number, Coming::Counts(own, places)));
            }
            Some(own) => self.derivable.push(Derivable { number, own, guest, home, list }),
            None if observer.is_switched() => {
                let probes = made((&guest, home), list, &observer, contained.as_ref());
                let coming = self.probes(&observer, probes, home.is_some());
                self.presences.push((number, coming));
            }
            None => list
                .into_iter()
                .for_each(|(function, binding)| self.hook(&guest, home, function, binding)),
        }
        self.inserted.push(inserted);
        let (others, news, presence) = Default::default();
        self.monitors.push(Monitor {
            observer,
            others,
            homes,
            is_called,
            news,
            matches,
            presence,
            is_gone: false,
        });
        Ok(())
    }

    /// A monitor's calls as what follows without them, if it does, and if the program can be had to
    /// tell it while it runs, where it is to be switched.
    fn derivations(
        &self,
        number: usize,
        matched: &Matched,
        sizes: &[usize],
    ) -> Option<Vec<Derivation>> {
        let Matched { observer, guest, list, .. } = matched;
        let can_count = self.code.as_ref().map_or(self.has_sites, Module::can_attach);
        let own = observer.derivations(self.calls, || {
            Derivation::of_all(number, guest, list, sizes, &self.program.bytes)
        });
        own.filter(|own| {
            !observer.is_switched_from_outside()
                || can_count && own.iter().all(Derivation::needs_counts)
        })
    }

    /// Probes that can be switched: beside the code, if there is a way there, and in it otherwise.
    fn probes(&mut self, observer: &Observer, mut probes: Vec<Probe>, has_homes: bool) -> Coming {
        let place =
            match (observer.is_toggled() && self.has_sites || self.code.is_some()) && !has_homes {
                true => At::Apart,
                false => At::Once,
            };
        if place == At::Once {
            probes.iter_mut().for_each(|probe| probe.put(&mut self.draft));
        }
        Coming::Probes(probes, place)
    }

    /// A probe for ever.
    fn hook(&mut self, guest: &Arc<Guest>, home: Option<Word>, function: u32, binding: Binding) {
        let (offset, moment) = standing::standing(&binding);
        let (guest, fingerprint) = (Arc::clone(guest), standing::fingerprint());
        let (word, is_limited, counter, contained) = Default::default();
        let sequence =
            Sequence { guest, home, binding, word, is_limited, counter, contained, fingerprint };
        self.draft.hook(
            function,
            offset,
            moment,
            Action::Inline(compile::Sequence(Arc::new(sequence))),
        );
    }

    /// What is derived. If nothing has to be counted for anybody, monitors are called that do
    /// little at few places.
    fn derived(&mut self, engine: &Engine) -> Vec<Derivation> {
        let all = std::mem::take(&mut self.derivable);
        let is_alone = all.iter().all(|one| self.monitors[one.number].observer.is_alone);
        let counts = engine.target().options.counts
            || self.code.as_ref().is_some_and(|code| code.inner().options.counts);
        let needs_counts = |one: &Derivable| one.own.iter().any(Derivation::needs_counts);
        let is_to_be_counted =
            |one: &Derivable| needs_counts(one) && !calls_take_less(&one.own, self.program);
        if !is_alone || counts || all.iter().any(is_to_be_counted) {
            return all.into_iter().flat_map(|one| one.own).collect();
        }
        let (called, noted): (Vec<_>, Vec<_>) = all.into_iter().partition(needs_counts);
        for Derivable { number, guest, home, list, .. } in called {
            self.monitors[number].is_called = true;
            list.into_iter()
                .for_each(|(function, binding)| self.hook(&guest, home, function, binding));
        }
        noted.into_iter().flat_map(|one| one.own).collect()
    }

    /// Compiles the program so, unless its code will do as it is.
    pub(super) fn finish<T: 'static>(
        mut self,
        store: &mut Store<T>,
    ) -> Result<Observation, ObserverError> {
        bound_memories(&mut store.as_context_mut());
        let derived = self.derived(store.engine());
        let derived = Derived::plan(derived, self.program, store.engine(), &mut self.draft)
            .map_err(ObserverError::program)?;
        let Self {
            program,
            calls,
            watch,
            code,
            draft,
            places,
            mut monitors,
            presences,
            inserted,
            ..
        } = self;
        let plan = draft.finish();
        let code = code.filter(|code| {
            plan == Plan::default() && (!derived.needs_counts() || code.inner().options.counts)
        });
        let code = code.filter(|code| watch.is_none_or(|watch| watch.can_rest_on(code)));
        let engine = match derived.needs_counts() {
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
        for (Monitor { observer, .. }, inserted) in monitors.iter().zip(inserted) {
            observer.switches.insertions().begin(
                &module,
                observer,
                inserted,
                &observer.switches,
            )?;
        }
        for (number, coming) in presences {
            let Monitor { observer, presence, .. } = &mut monitors[number];
            let switches = observer.switches.clone();
            *presence = Some(match coming {
                Coming::Probes(probes, place) => {
                    begin(observer, Standing::new(&module, probes, switches, place))?
                }
                Coming::Counts(calls, places) => {
                    begin_counting(Counting::new(&module, calls, places, switches))?
                }
            });
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
