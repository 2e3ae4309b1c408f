//! A program that is looked at: matched, compiled with what its monitors want to be called for, and asked in the end what was seen.

use super::binding::{Binding, Bindings, Moment};
use super::host::Switches;
use super::sequence::Sequence;
use super::{Observer, ObserverError, Program, matching};
use crate::compile::{self, Action, Calls, Draft};
use crate::error::{Error, Printable};
use crate::monitor::Watch;
use crate::runtime::Guests;
use crate::{AsContextMut, Module, Store};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How monitors' functions are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeCalls {
    /// Small ones are written out where they are called.
    #[default]
    Inlined,
    /// By calls.
    Direct,
}

/// A program, and the monitors that look at it.
#[derive(Debug)]
pub struct Observation {
    module: Module,
    observers: Vec<Observer>,
    /// Whose functions are called at each instruction: monitor and rule.
    places: HashMap<u32, Vec<(u16, u16)>>,
    matches: Vec<usize>,
}

impl Observation {
    /// Matches monitors with a program, and compiles it with them. What monitors are asked meanwhile, they are asked in `store`, in which the program
    /// has to be instantiated, too. The store's limits of now are those of the monitors. What `watch` needs is compiled in as well.
    pub fn new<T: 'static>(
        store: &mut Store<T>,
        mut observers: Vec<Observer>,
        program: &Program,
        calls: ProbeCalls,
        watch: Option<&Watch>,
    ) -> Result<Self, ObserverError> {
        let (mut places, mut matches) = (HashMap::new(), Vec::new());
        let mut draft = match watch {
            Some(watch) => watch.draft(store.engine(), &program.bytes).map_err(ObserverError::program)?,
            None => Draft::default(),
        };
        let mut guests = Guests::default();
        guests.calls = match calls {
            ProbeCalls::Inlined => Calls::Inlined,
            ProbeCalls::Direct => Calls::Direct,
        };
        for (number, observer) in (0u16..).zip(&mut observers) {
            let mut bindings = Bindings::default();
            matching::bind(store, observer, number, &program.bytes, &mut bindings)?;
            matches.push(bindings.len());
            let mut context = store.as_context_mut();
            let guest = guests.of(context.core(), &observer.instance, number.into());
            let guest = guest.expect("an instance of this store");
            let enabled = observer.is_switched().then(|| observer.switches.make(bindings.len()));
            for (function, binding) in bindings.take() {
                places.entry(binding.offset).or_insert_with(Vec::new).push((binding.observer, binding.rule));
                let (offset, moment) = standing(&binding);
                let (guest, enabled) = (Arc::clone(&guest), enabled.clone());
                let sequence = Sequence { guest, binding, enabled, fingerprint: fingerprint() };
                draft.hook(function, offset, moment, Action::Inline(compile::Sequence(Arc::new(sequence))));
            }
        }
        // What monitors may take is what it was until now, whatever the program may.
        let mut context = store.as_context_mut();
        let core = context.core();
        let most = core.limits().memory;
        core.memories.iter_mut().for_each(|memory| memory.ceiling = memory.ceiling.min(most));
        let module = Module::with_plan(store.engine(), &program.bytes, &draft.finish()).map_err(ObserverError::program)?;
        Ok(Self { module, observers, places, matches })
    }

    /// The program as it is to be instantiated.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// How many probes each monitor has in the program, by its name.
    pub fn matches(&self) -> impl Iterator<Item = (&str, usize)> {
        self.observers.iter().map(Observer::name).zip(self.matches.iter().copied())
    }

    /// Has every monitor say what it has seen; gives what went wrong.
    pub fn report<T: 'static>(&self, store: &mut Store<T>) -> Vec<ObserverError> {
        self.observers.iter().filter_map(|observer| observer.report(&mut *store).err()).collect()
    }

    /// Whose doing it is that the program has ended so: a monitor's, with the exports that stand at the place, or its own.
    pub fn blame(&self, error: &Error) -> Option<String> {
        let Error::Trap(report) = error else { return None };
        let frame = report.backtrace.frames.iter().find(|frame| frame.aside)?;
        let at = self.places.get(&frame.offset?)?;
        let mut names: Vec<String> = Vec::new();
        for (observer, rule) in at {
            let observer = &self.observers[usize::from(*observer)];
            let export = &observer.rules[usize::from(*rule)].export;
            let name = format!("monitor {}: {}", Printable(&observer.name), Printable(export));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let place =
            crate::Place { function: Some((frame.function, frame.name.clone())), offset: frame.offset.map(|at| at as usize) };
        Some(format!("{}, at {place}: {}", names.join(", or "), report.trap))
    }

    /// What switches each monitor's probes, by its name, from whatever thread: those that were made to be switched.
    pub fn switches(&self) -> impl Iterator<Item = (&str, &Switches)> {
        self.observers.iter().filter(|observer| observer.is_switched()).map(|observer| (observer.name(), &observer.switches))
    }
}

/// A probe's code is equal to itself only: it knows addresses of this process.
fn fingerprint() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// Where a hook stands.
fn standing(binding: &Binding) -> (u32, compile::Moment) {
    match binding.moment {
        Moment::Entry => (0, compile::Moment::Entry),
        Moment::Before | Moment::Taken | Moment::Landed => (binding.offset, compile::Moment::Before),
        Moment::Inside | Moment::Behind => (binding.offset, compile::Moment::After),
    }
}

impl Observer {
    fn is_switched(&self) -> bool {
        let imports = &self.module.inner.info.imports;
        self.toggled || imports.iter().any(|import| import.module == "whamm:dyninstr" && import.name == "remove_probe")
    }

    /// Has its probes switchable while the program runs.
    pub fn set_toggled(&mut self, on: bool) {
        self.toggled = on;
    }
}
