//! Probes: an embedder's Rust code that runs at places of a program.
//!
//! A probe is at a [`Place`]: an instruction of a function, or the function's beginning or end. The
//! first probe of a function has the function compiled again, with a flag at every place; threads
//! that are in the function enter the new code with their next call or the next iteration of their
//! loop. From then on a probe is inserted and removed by storing a flag, which takes effect at
//! once, for every thread.
//!
//! # Rules
//!
//! - Probes of a place fire in the order in which they were inserted, including those that are
//!   inserted everywhere, whichever [`Probes`] they belong to. The same probe inserted twice fires
//!   twice.
//! - If a probe inserts or removes probes at the place that is firing, this takes effect the next
//!   time that control reaches the place; at other places it takes effect at once.
//! - The program continues with the values that a probe writes into locals, operands or memory, and
//!   the next probe reads them.
//! - A probe that fails ends the program when the others of its event have fired, with an error
//!   that names it. One that panics is removed, see [`Probes::panicked`]; the program continues.
//!
//! ```
//! use std::sync::Arc;
//! use wasm_aot_instrument::probe::{Place, Probes, probe};
//! use wasm_aot_engine::{Engine, Linker, Module, Store, Val};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::default();
//! let module = Module::new(&engine, r#"(module (func (export "double") (param i32) (result i32)
//!     (i32.mul (local.get 0) (i32.const 2))))"#)?;
//! let mut store = Store::new(&engine, ());
//! let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
//! let probes = Probes::new(&module);
//! // Whatever is asked for, it is 21 that is doubled.
//! let id = probes.insert(Place::entry(0), probe("always 21", |frame| frame.set_local(0, &Val::I32(21))))?;
//! let double = instance.get_typed_func::<i32, i32>(&mut store, "double")?;
//! assert_eq!(double.call(&mut store, 5)?, 42);
//! probes.remove(id);
//! assert_eq!(double.call(&mut store, 5)?, 10);
//! # Ok(())
//! # }
//! ```

mod frame;
mod inspected;
mod probe_point;

pub use frame::{Frame, MemoryAccess};
pub(crate) use frame::{bits, value};
pub use wasm_aot_engine::instrument::compile::Mode;
pub use wasm_aot_engine::instrument::runtime::identity::FrameId;

use inspected::Inspected;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::compile::{Firing, Receiver};
use wasm_aot_engine::instrument::runtime::{
    Module, ModuleInner, ObservedLayer, SiteProbe, SiteProbeKind,
};

/// The place of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The function's index, among all.
    pub function: u32,
    /// Where the instruction is, from the beginning of the function's body; 0 for modes without an
    /// instruction.
    pub offset: u32,
    /// When its probe fires.
    pub mode: Mode,
}

impl Place {
    /// Before an instruction.
    pub fn before(function: u32, offset: u32) -> Self {
        Self { function, offset, mode: Mode::Before }
    }

    /// After an instruction.
    pub fn after(function: u32, offset: u32) -> Self {
        Self { function, offset, mode: Mode::After }
    }

    /// Where a function begins.
    pub fn entry(function: u32) -> Self {
        Self { function, offset: 0, mode: Mode::Entry }
    }

    /// Every way out of a function.
    pub fn exits(function: u32) -> [Self; 3] {
        [Mode::Exit, Mode::Unwind, Mode::Trap].map(|mode| Self { function, offset: 0, mode })
    }
}

/// Code that runs at a place of a program.
pub trait Probe: Send + Sync {
    /// Its name in errors.
    fn name(&self) -> &str;

    /// Whether it is called in the event that begins now: this is queried for all probes of a place
    /// before the first of them fires, so that a change that one of them makes to another takes
    /// effect with the next event.
    fn is_due(&self) -> bool {
        true
    }

    /// Called when the place was reached. The program waits. A failure ends the program after the
    /// other probes of the event have fired.
    fn fire(&self, frame: &mut Frame<'_>) -> Result<(), String>;
}

/// A probe from a name and a function.
pub fn probe(
    name: &str,
    fire: impl Fn(&mut Frame<'_>) -> Result<(), String> + Send + Sync + 'static,
) -> Arc<dyn Probe> {
    struct Named<F>(String, F);
    impl<F: Fn(&mut Frame<'_>) -> Result<(), String> + Send + Sync> Probe for Named<F> {
        fn name(&self) -> &str {
            &self.0
        }

        fn fire(&self, frame: &mut Frame<'_>) -> Result<(), String> {
            (self.1)(frame)
        }
    }
    Arc::new(Named(name.to_owned(), fire))
}

/// The identity of a probe that was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProbeId(u64);

/// Why a probe is not inserted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The module does not define that function.
    #[error("no function {function}: the module defines {first} to {last}")]
    NoFunction {
        /// The requested one.
        function: u32,
        /// The first that is defined.
        first: u32,
        /// The last.
        last: u32,
    },
    /// No instruction begins there.
    #[error("no instruction of function {function} begins at {offset}{near}")]
    NoInstruction {
        /// The function.
        function: u32,
        /// The requested one.
        offset: u32,
        /// The nearest instructions.
        near: String,
    },
    /// Control never reaches the place in this mode.
    #[error(
        "function {function} has nothing at {offset} that a probe of that kind could stand at: \
         {mode:?}"
    )]
    NotThere {
        /// The function.
        function: u32,
        /// The instruction.
        offset: u32,
        /// The requested one.
        mode: Mode,
    },
    /// The code cannot be changed.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Probes of a module. All sets of them have one order, and one place in the code; counters and
/// histograms of each set begin when it inserts them.
#[derive(Clone, Debug)]
pub struct Probes(Arc<Board>, Arc<Mutex<Baselines>>);

/// The counts and histograms of places before a set of probes inserted its own.
#[derive(Debug, Default)]
struct Baselines {
    counts: HashMap<Place, u64>,
    histograms: HashMap<Place, Vec<u64>>,
}

/// The probes that are inserted.
pub(crate) struct Board {
    /// A weak reference, because the module's code refers to the board.
    module: Weak<ModuleInner>,
    /// Weak references, because functions refer to the board; their code keeps them alive.
    functions: RwLock<HashMap<u32, Weak<Inspected>>>,
    /// Held while a function is prepared.
    preparing: Mutex<()>,
    state: Mutex<BoardState>,
    next: AtomicU64,
    me: Weak<Self>,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct BoardState {
    /// The place of each probe; some are everywhere.
    places: HashMap<ProbeId, Option<Place>>,
    /// The probes at patchable sites, and whether they are on.
    site_probes: HashMap<ProbeId, (SiteProbe, bool)>,
    flags: HashMap<ProbeId, Arc<AtomicBool>>,
    panicked: Vec<String>,
}

/// A probe at its place.
#[derive(Clone)]
pub(super) struct InsertedProbe {
    id: ProbeId,
    kind: ProbeKind,
    is_on: bool,
}

#[derive(Clone)]
enum ProbeKind {
    Probe(Arc<dyn Probe>),
    /// Machine code counts.
    Counter,
    /// A flag that is set when the place is reached.
    Flag(Arc<AtomicBool>),
    /// Machine code counts by the magnitude of the topmost operand.
    Histogram,
}

impl Probes {
    /// Probes of a module, whose instances may be running.
    pub fn new(module: &Module) -> Self {
        let board = || {
            Arc::new_cyclic(|me| Board {
                module: Arc::downgrade(module.inner()),
                functions: RwLock::default(),
                preparing: Mutex::default(),
                state: Mutex::default(),
                next: AtomicU64::new(0),
                me: Weak::clone(me),
            })
        };
        Self(module.inner().companion(board), Arc::default())
    }

    /// Inserts a probe after those at the place.
    pub fn insert(&self, place: Place, probe: Arc<dyn Probe>) -> Result<ProbeId, ProbeError> {
        self.0.insert(place, ProbeKind::Probe(probe))
    }

    /// Inserts a counter, see [`counted`](Self::counted): machine code adds to it.
    pub fn count(&self, place: Place) -> Result<ProbeId, ProbeError> {
        let mut baselines = self.1.lock();
        let before = self.0.counted(place);
        let id = self.0.insert(place, ProbeKind::Counter)?;
        baselines.counts.entry(place).or_insert(before);
        Ok(id)
    }

    /// Inserts a flag, see [`is_flagged`](Self::is_flagged), that is set when the place is reached
    /// for the first time, and costs nothing from then on.
    pub fn flag(&self, place: Place) -> Result<ProbeId, ProbeError> {
        self.0.insert(place, ProbeKind::Flag(Arc::default()))
    }

    /// Inserts a histogram of the topmost operand, see [`histogram`](Self::histogram): machine code
    /// adds to it.
    pub fn measure(&self, place: Place) -> Result<ProbeId, ProbeError> {
        let mut baselines = self.1.lock();
        let before = self.0.histogram(place);
        let id = self.0.insert(place, ProbeKind::Histogram)?;
        baselines.histograms.entry(place).or_insert(before);
        Ok(id)
    }

    /// Inserts a probe before every instruction of every function.
    pub fn insert_everywhere(&self, probe: Arc<dyn Probe>) -> Result<ProbeId, ProbeError> {
        self.0.insert_everywhere(probe)
    }

    /// Switches probes off, or on again, without removing them: the order in which they fire does
    /// not change.
    pub fn switch(&self, ids: &[ProbeId], on: bool) {
        self.0.switch(ids, on);
    }

    /// The names of the module's probes that have panicked and were removed, in that order.
    pub fn panicked(&self) -> Vec<String> {
        self.0.state.lock().panicked.clone()
    }

    /// Removes a probe; returns whether it was there.
    pub fn remove(&self, id: ProbeId) -> bool {
        self.0.remove(id)
    }

    /// How often the place was reached since a counter was inserted there.
    pub fn counted(&self, place: Place) -> u64 {
        let at_site = self
            .0
            .patchable_instruction(place)
            .map_or(0, |(module, number)| module.counted_at_site(number));
        let before = self.1.lock().counts.get(&place).copied();
        at_site + before.map_or(0, |before| self.0.counted(place) - before)
    }

    /// Whether the place was reached while a flag was there.
    pub fn is_flagged(&self, id: ProbeId) -> bool {
        self.0.is_flagged(id)
    }

    /// How often the topmost operand at the place was 0, 1, 2 to 3, 4 to 7, and so on, since a
    /// histogram was inserted there.
    pub fn histogram(&self, place: Place) -> Vec<u64> {
        let baselines = self.1.lock();
        let Some(before) = baselines.histograms.get(&place) else { return Vec::new() };
        let before = before.iter().copied().chain(std::iter::repeat(0));
        self.0.histogram(place).into_iter().zip(before).map(|(now, before)| now - before).collect()
    }
}

impl Board {
    /// How often counters of a place without a patchable site have counted, of all sets.
    fn counted(&self, place: Place) -> u64 {
        let inspected = self.inspected(place.function);
        inspected.and_then(|it| Some(it.counted(it.site(place)?))).unwrap_or(0)
    }

    /// The same of histograms.
    fn histogram(&self, place: Place) -> Vec<u64> {
        let inspected = self.inspected(place.function);
        inspected.and_then(|it| Some(it.histogram(it.site(place)?))).unwrap_or_default()
    }

    fn inspected(&self, function: u32) -> Option<Arc<Inspected>> {
        self.functions.read().get(&function).and_then(Weak::upgrade)
    }

    fn module(&self) -> Option<Module> {
        self.module.upgrade().map(Module::of)
    }

    fn id(&self) -> ProbeId {
        ProbeId(self.next.fetch_add(1, Relaxed))
    }

    /// A function with flags at all its places; prepared at the first call.
    fn inspect(&self, function: u32) -> Result<Arc<Inspected>, ProbeError> {
        if let Some(known) = self.inspected(function) {
            return Ok(known);
        }
        let preparing = self.preparing.lock();
        if let Some(known) = self.inspected(function) {
            return Ok(known);
        }
        let board = self.me.upgrade().expect("whoever asks has it");
        let module = self.module().ok_or_else(|| Error::Attach("the module is gone".into()))?;
        let (inspected, plan) = Inspected::new(board, module.inner(), function)?;
        let part = module.add_plan(plan)?;
        self.functions.write().insert(function, Arc::downgrade(&inspected));
        module.observe(&[ObservedLayer::Plan(part)])?;
        drop(preparing);
        Ok(inspected)
    }

    fn insert(&self, place: Place, kind: ProbeKind) -> Result<ProbeId, ProbeError> {
        if let Some(id) = self.insert_at_patchable_site(place, &kind)? {
            return Ok(id);
        }
        let inspected = self.inspect(place.function)?;
        let site = inspected.find(place)?;
        let id = self.id();
        {
            let mut state = self.state.lock();
            state.places.insert(id, Some(place));
            if let ProbeKind::Flag(flag) = &kind {
                state.flags.insert(id, Arc::clone(flag));
            }
        }
        inspected.insert(site, InsertedProbe { id, kind, is_on: true });
        Ok(id)
    }

    /// The number of an instruction, if it has a patchable site.
    fn patchable_instruction(&self, place: Place) -> Option<(Arc<ModuleInner>, usize)> {
        let module = self.module.upgrade().filter(|_| place.mode == Mode::Before)?;
        let defined = place.function.checked_sub(module.info.imported.functions)?;
        let body = module.info.bodies.get(defined as usize)?;
        // Offsets after the end belong to other functions.
        let offset = body.start.checked_add(place.offset).filter(|offset| *offset < body.end)?;
        // Code that cannot be changed has no sites.
        let number = module.patchable_instruction(offset).ok()??;
        Some((module, number))
    }

    /// Inserts a probe at a patchable site, if the place has one and it supports the probe.
    fn insert_at_patchable_site(
        &self,
        place: Place,
        kind: &ProbeKind,
    ) -> Result<Option<ProbeId>, ProbeError> {
        let does = match kind {
            ProbeKind::Counter => SiteProbeKind::Counter,
            ProbeKind::Flag(_) => SiteProbeKind::Flag,
            ProbeKind::Probe(_) | ProbeKind::Histogram => return Ok(None),
        };
        let Some((module, number)) = self.patchable_instruction(place) else { return Ok(None) };
        let want = module.insert_site_probe(number, does)?;
        let (id, mut state) = (self.id(), self.state.lock());
        state.places.insert(id, Some(place));
        state.site_probes.insert(id, (want, true));
        Ok(Some(id))
    }

    fn switch(&self, ids: &[ProbeId], on: bool) {
        let mut state = self.state.lock();
        let BoardState { site_probes, places, .. } = &mut *state;
        if !site_probes.is_empty()
            && let Some(module) = self.module.upgrade()
        {
            let changed = |id| {
                let (want, is_on) = site_probes.get_mut(id)?;
                (std::mem::replace(is_on, on) != on).then_some(*want)
            };
            module.switch_site_probes(ids.iter().filter_map(changed), on);
        }
        for id in ids.iter().filter(|id| !site_probes.contains_key(id)) {
            if let Some(place) = places.get(id) {
                self.each_site(*place, |inspected, site| inspected.switch(site, *id, on));
            }
        }
    }

    /// Visits the site of a place, or those before all instructions.
    fn each_site(&self, place: Option<Place>, visit: impl Fn(&Inspected, usize)) {
        match place {
            Some(place) => {
                let Some(inspected) = self.inspected(place.function) else { return };
                inspected.site(place).into_iter().for_each(|site| visit(&inspected, site));
            }
            None => {
                let all: Vec<_> =
                    self.functions.read().values().filter_map(Weak::upgrade).collect();
                for inspected in all {
                    let is_before = |site: &usize| inspected.sites[*site].mode == Mode::Before;
                    let sites = (0..inspected.sites.len()).filter(is_before);
                    sites.for_each(|site| visit(&inspected, site));
                }
            }
        }
    }

    fn is_flagged(&self, id: ProbeId) -> bool {
        let state = self.state.lock();
        match state.site_probes.get(&id) {
            Some((want, _)) => {
                self.module.upgrade().is_some_and(|module| module.is_site_flag_set(*want))
            }
            None => state.flags.get(&id).is_some_and(|flag| flag.load(Relaxed)),
        }
    }

    fn insert_everywhere(&self, probe: Arc<dyn Probe>) -> Result<ProbeId, ProbeError> {
        let module = self.module().ok_or_else(|| Error::Attach("the module is gone".into()))?;
        let info = &module.inner().info;
        let first = info.imported.functions;
        for defined in 0..info.bodies.len() as u32 {
            self.inspect(first + defined)?;
        }
        let id = self.id();
        self.state.lock().places.insert(id, None);
        let inserted = InsertedProbe { id, kind: ProbeKind::Probe(probe), is_on: true };
        self.each_site(None, |inspected, site| inspected.insert(site, inserted.clone()));
        Ok(id)
    }

    fn remove(&self, id: ProbeId) -> bool {
        self.switch(&[id], false);
        let (site_probe, place) = {
            let mut state = self.state.lock();
            (state.site_probes.remove(&id), state.places.remove(&id))
        };
        let Some(place) = place else { return false };
        if let Some((want, _)) = site_probe {
            if let Some(module) = self.module.upgrade() {
                module.remove_site_probe(want);
            }
            return true;
        }
        self.each_site(place, |inspected, site| inspected.remove(site, id));
        true
    }

    /// Fires all probes that are at a site now, in order. Returns the failure of the first that
    /// fails.
    fn fire_all(
        &self,
        inspected: &Inspected,
        site: usize,
        frame: &mut Frame<'_>,
    ) -> Option<String> {
        let inserted = inspected.inserted(site);
        let is_due = |inserted: &&InsertedProbe| match &inserted.kind {
            ProbeKind::Probe(probe) => inserted.is_on && probe.is_due(),
            _ => inserted.is_on,
        };
        let due: Vec<&InsertedProbe> = inserted.iter().filter(is_due).collect();
        let mut failure = None;
        for InsertedProbe { id, kind, .. } in due {
            let probe = match kind {
                ProbeKind::Probe(probe) => probe,
                ProbeKind::Flag(flag) => {
                    flag.store(true, Relaxed);
                    self.switch(&[*id], false);
                    continue;
                }
                ProbeKind::Counter | ProbeKind::Histogram => continue,
            };
            match catch_unwind(AssertUnwindSafe(|| probe.fire(frame))) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => {
                    failure.get_or_insert_with(|| format!("probe {}: {why}", probe.name()));
                }
                Err(_) => {
                    self.remove(*id);
                    self.state.lock().panicked.push(probe.name().to_owned());
                }
            }
        }
        failure
    }
}

impl Receiver for Inspected {
    fn fire(&self, firing: &mut Firing<'_>) {
        let (site, status) = (firing.number as usize, firing.values.len() - 1);
        let Some(module) = self.board.module() else { return };
        frame::arrive(self, site, firing.frame);
        let failure = {
            let mut frame = Frame::new(&module, self, site, firing);
            let failure = self.board.fire_all(self, site, &mut frame);
            if frame.has_identity() {
                self.watch_exits();
            }
            failure
        };
        frame::depart(self, site, firing.frame);
        if let Some(why) = failure {
            wasm_aot_engine::instrument::runtime::note_probe_failure(why);
            firing.values[status] = [1, 0];
        }
    }

    fn trapped(&self, function: u32) {
        if function != self.function {
            return;
        }
        let place = Place { function, offset: 0, mode: Mode::Trap };
        let (Some(module), Some(site)) = (self.board.module(), self.site(place)) else { return };
        let mut frame = Frame::without_values(&module, self, site);
        // The program has ended already: a failure cannot be reported to it.
        let _ = self.board.fire_all(self, site, &mut frame);
    }
}

/// Where a function's body begins in the module.
fn body_start(module: &ModuleInner, function: u32) -> u32 {
    module.info.body(function).start
}
