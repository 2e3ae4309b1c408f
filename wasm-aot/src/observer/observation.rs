//! A program that is looked at: matched, compiled with what its monitors want to be called for, and asked in the end what was seen.

use super::binding::{Binding, Bindings, Moment};
use super::host::Switches;
use super::sequence::Sequence;
use super::tally::{self, Addition};
use super::{Observer, ObserverError, Program, matching};
use crate::compile::{self, Action, Calls, Draft};
use crate::error::{Error, Printable};
use crate::monitor::Watch;
use crate::runtime::Guests;
use crate::{AsContextMut, Module, Store};
use parking_lot::Mutex;
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
    /// What is added up before monitors say what they have seen.
    tallies: Mutex<Vec<Tally>>,
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
        let (mut places, mut matches, mut tallies) = (HashMap::new(), Vec::new(), Vec::new());
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
            let list: Vec<(u32, Binding)> = bindings.take().collect();
            let sizes = observer.instance.sizes(context.core());
            if calls == ProbeCalls::Inlined
                && enabled.is_none()
                && let Some(found) = Tally::of_all(number.into(), &guest, &list, &sizes)
            {
                tallies.extend(found);
                continue;
            }
            for (function, binding) in list {
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
        let engine = match tallies.is_empty() {
            true => store.engine().clone(),
            false => store.engine().counting().map_err(ObserverError::program)?,
        };
        let module = Module::with_plan(&engine, &program.bytes, &draft.finish()).map_err(ObserverError::program)?;
        watch.into_iter().for_each(|watch| watch.compiled(&module));
        tallies.sort_by_key(|tally| (tally.function, tally.offset));
        Ok(Self { module, observers, places, matches, tallies: Mutex::new(tallies) })
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
        self.settle(store);
        self.observers.iter().filter_map(|observer| observer.report(&mut *store).err()).collect()
    }

    /// Gives monitors' cells what belongs to them by now: what they only add to is not always added at once. [`report`](Self::report) does it.
    pub fn settle<T: 'static>(&self, store: &mut Store<T>) {
        let mut tallies = self.tallies.lock();
        let Some(counts) = self.module.counts().filter(|_| !tallies.is_empty()) else { return };
        let mut context = store.as_context_mut();
        let core = context.core();
        for function in counts.functions() {
            let from = tallies.partition_point(|tally| tally.function < function.index());
            let len = tallies[from..].partition_point(|tally| tally.function == function.index());
            let base =
                self.module.inner.info.bodies[(function.index() - self.module.inner.info.imported.functions) as usize].start;
            let mut due = tallies[from..from + len].iter_mut().peekable();
            while let Some(entry) = due.next_if(|tally| tally.offset == 0) {
                entry.apply(function.calls(), &self.observers, core);
            }
            if due.peek().is_none() {
                continue;
            }
            for instruction in function.instructions() {
                while let Some(tally) = due.next_if(|tally| tally.offset <= base + instruction.offset) {
                    tally.apply(instruction.count, &self.observers, core);
                }
            }
        }
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

/// A call that is not made, since all it does follows from how often it would be.
#[derive(Debug)]
struct Tally {
    observer: usize,
    function: u32,
    /// Where the instruction is in the module, or 0 for the function's entry.
    offset: u32,
    additions: Vec<Addition>,
    /// How many calls are in the cells already.
    counted: u64,
}

impl Tally {
    /// All calls of a monitor, if all of them only add to cells that are apart.
    fn of_all(observer: usize, guest: &compile::Guest, bindings: &[(u32, Binding)], sizes: &[usize]) -> Option<Vec<Self>> {
        let each = |(function, binding): &(u32, Binding)| {
            let additions = tally::additions(guest, binding)?;
            let offset = if binding.moment == Moment::Entry { 0 } else { binding.offset };
            Some(Self { observer, function: *function, offset, additions, counted: 0 })
        };
        let all = bindings.iter().map(each).collect::<Option<Vec<_>>>()?;
        let mut cells = all.iter().flat_map(|tally| tally.additions.iter().map(|addition| addition.cell)).collect();
        tally::are_apart(&mut cells, sizes).then_some(all)
    }

    fn apply(&mut self, count: u64, observers: &[Observer], core: &crate::runtime::StoreCore) {
        let more = count.wrapping_sub(std::mem::replace(&mut self.counted, count));
        let instance = observers[self.observer].instance();
        for Addition { cell, by } in &self.additions {
            instance.add(core, *cell, by.cast_unsigned().wrapping_mul(more));
        }
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
