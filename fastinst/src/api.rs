//! The interface for programs that attach their own functions to probes.
//!
//! ```no_run
//! use fastinst::{ProbeId, Session};
//!
//! extern "C" fn count(_probe: ProbeId, _function: *const (), _call_site: *const ()) {}
//!
//! let session = Session::start()?;
//! session.on_discovery(|probe| println!("{} {:?} {}", probe.id, probe.kind, probe.function));
//! for probe in session.select("parse_*")? {
//!     session.activate(probe, count)?;
//! }
//! # Ok::<(), fastinst::Error>(())
//! ```
//!
//! # Safety
//!
//! This module exists to hand functions of the program's own to stubs.
#![allow(unsafe_code)]

use crate::names::Names;
use crate::probe::{Kind, ProbeId};
use crate::runtime::functions::{self, Id};
use crate::runtime::loader;
use crate::runtime::registry::{self, ModuleRegistry};
use crate::runtime::sites::{self, Site};
use crate::runtime::stub::Stub;
use crate::runtime::target;
use crate::symbols::{Pattern, PatternError, Subject};
use callpatch::{SetError, Switch};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Mutex, OnceLock, PoisonError};
use wordpatch::{CodeAddr, Policy};

/// Called by an active probe, with its number, the function, and the place from which that was
/// called.
///
/// It runs in the context of the function, for instance in a signal handler. Probes that it passes
/// itself do nothing. It must return: a callback that is left by `longjmp` or an exception is never
/// called again on its thread.
pub type Callback = extern "C" fn(ProbeId, *const (), *const ());

/// A probe's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number.
    pub id: ProbeId,
    /// Whether it is at the entry or an exit of its function.
    pub kind: Kind,
    /// Its address.
    pub address: CodeAddr,
    /// The entry of the function that it belongs to, if known.
    pub function_address: Option<CodeAddr>,
    /// That function's demangled name; the module and an offset if it has none.
    pub function: String,
    /// The name in the symbol table.
    pub symbol: String,
    /// The file of the module.
    pub module: PathBuf,
    /// The function's size in bytes, if known.
    pub size: Option<usize>,
    /// The source file, if the program has line information.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such probe, or its code was unloaded.
    #[error("there is no probe {0}: it was never discovered, or its library was closed")]
    NoProbe(ProbeId),
    /// No callback has been attached that could be activated again.
    #[error("probe {0} has no function: activate it with one")]
    NoCallback(ProbeId),
    /// The site was not switched.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The pattern is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A runtime's code was not registered, or not unregistered.
    #[error("the code is not registered: {0}")]
    Code(String),
    /// The probe runtime cannot be set up in this process.
    #[error("probes cannot be set up in this process: {0}")]
    Setup(String),
}

/// Called for every probe that is found.
type Discovered = Box<dyn Fn(&Probe) + Send + Sync>;

/// The probes of this process.
#[derive(Debug)]
pub struct Session {
    policy: Policy,
    known: Mutex<Known>,
    /// Everything that was loaded at the beginning is installed: what comes later may go, too.
    has_begun: AtomicBool,
}

#[derive(Default)]
struct Known {
    names: Names,
    listeners: Vec<std::sync::Arc<Discovered>>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("listeners", &self.listeners.len()).finish_non_exhaustive()
    }
}

static SESSION: OnceLock<Result<Session, Error>> = OnceLock::new();

/// New modules were loaded. Called by the thread that loads them, before their code runs.
fn modules_have_come() {
    if let Some(Ok(session)) = SESSION.get() {
        session.scan();
    }
}

impl Session {
    /// Finds the probes of all loaded modules. All are off, except those of a profiler in this
    /// process, which keeps them until they are activated here.
    pub fn start() -> Result<&'static Self, Error> {
        target::begin_in_child();
        SESSION.get_or_init(Self::set_up).as_ref().map_err(Clone::clone)
    }

    fn set_up() -> Result<Self, Error> {
        let setup = |error: String| Error::Setup(error);
        let policy = wordpatch::Config::from_env()
            .and_then(|config| config.policy())
            .map_err(|error| setup(error.to_string()))?;
        target::prepare_tables().map_err(setup)?;
        loader::find_published_state();
        let (known, has_begun) = Default::default();
        let session = Self { policy, known, has_begun };
        session.scan();
        Ok(session)
    }

    /// Searches for modules that were loaded since, and reports their probes to listeners.
    pub fn scan(&self) {
        if !target::is_running() {
            let mut registry = registry::lock_registry();
            let is_later = self.has_begun.swap(true, AcqRel);
            registry.install_all(&self.policy, is_later, None);
            // Also those of a library that was loaded again, which have the numbers that they had.
            let is_new = |site: &&Site| !site.gone.load(Acquire) && !site.attached.load(Acquire);
            for site in sites::all().map(|(_, site)| site).filter(is_new) {
                site.attached.store(true, Release);
                let _ = site.call().set(Switch::Off);
            }
        }
        self.notify_listeners();
    }

    /// Calls `listener` now for every known probe, and later for every new one: on the thread that
    /// loads a library, before its code runs, or, if the loader gives no notification (musl's, or
    /// one that a debugger listens to), in [`scan`](Self::scan).
    pub fn on_discovery(&self, listener: impl Fn(&Probe) + Send + Sync + 'static) {
        self.notify_listeners();
        let listener: Discovered = Box::new(listener);
        self.probes().iter().for_each(&listener);
        self.known().listeners.push(std::sync::Arc::new(listener));
        loader::announce(&self.policy, modules_have_come);
    }

    /// Reports new probes to listeners, without holding a lock: listeners may call this interface.
    fn notify_listeners(&self) {
        let listeners = self.known().listeners.clone();
        let is_new = |site: &Site| !site.gone.load(Acquire) && !site.is_told.swap(true, AcqRel);
        let new = sites::all().filter(|(_, site)| is_new(site)).map(|(id, _)| id);
        for probe in new.filter_map(|id| self.probe(id)) {
            listeners.iter().for_each(|listener| listener(&probe));
        }
    }

    /// All probes.
    pub fn probes(&self) -> Vec<Probe> {
        (0..sites::count()).filter_map(|number| self.probe(ProbeId(number))).collect()
    }

    /// The description of a probe.
    pub fn probe(&self, id: ProbeId) -> Option<Probe> {
        let site = sites::get(id.0).filter(|site| !site.gone.load(Acquire))?;
        let registry = registry::lock_registry();
        Some(describe(&mut self.known().names, &registry, id, site))
    }

    /// The probes whose function, module or file matches a pattern.
    pub fn select(&self, pattern: &str) -> Result<Vec<ProbeId>, Error> {
        let pattern = Pattern::parse(pattern)?;
        let matches = |probe: &Probe| {
            let module = probe
                .module
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let (name, file) = (&*probe.function, probe.file.as_deref());
            pattern.matches(&Subject { name, module: &module, file, size: probe.size })
        };
        Ok(self.probes().iter().filter(|probe| matches(probe)).map(|probe| probe.id).collect())
    }

    /// Switches the probe on, to call `callback`. If it was active with another callback, one store
    /// replaces that: every call goes to one of the two.
    pub fn activate(&self, probe: ProbeId, callback: Callback) -> Result<(), Error> {
        let site = live(probe)?;
        site.attached.store(true, Release);
        sites::set_callback(probe.0, callback as usize);
        site.lead_to(Stub::User);
        site.pass_counter(true);
        Ok(site.call().set(Switch::On)?)
    }

    /// Switches the probe off. A thread that is in its callback continues there until it returns.
    pub fn deactivate(&self, probe: ProbeId) -> Result<(), Error> {
        let site = live(probe)?;
        site.attached.store(true, Release);
        Ok(site.call().set(Switch::Off)?)
    }

    /// Whether the probe is on.
    pub fn is_active(&self, probe: ProbeId) -> Result<bool, Error> {
        Ok(live(probe)?.call().is_on())
    }

    /// Activates the entries of a function with one callback, and all of its exits with another.
    /// Returns the number of probes.
    pub fn enable_function(
        &self,
        function: CodeAddr,
        enter: Callback,
        exit: Callback,
    ) -> Result<usize, Error> {
        let mut batch = self.batch();
        for (id, site) in of_function(function) {
            batch.activate(id, if site.kind == Kind::Enter { enter } else { exit });
        }
        batch.commit()
    }

    /// Switches all probes of a function off. Returns their number.
    pub fn disable_function(&self, function: CodeAddr) -> Result<usize, Error> {
        let mut batch = self.batch();
        of_function(function).for_each(|(id, _)| batch.deactivate(id));
        batch.commit()
    }

    /// Changes that are applied together.
    pub fn batch(&self) -> Batch<'_> {
        Batch { session: self, turns: Default::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes that are applied together. Exits are activated first, so that few calls are seen only at
/// one end.
#[derive(Debug)]
#[must_use = "nothing is changed before it is committed"]
pub struct Batch<'s> {
    session: &'s Session,
    /// The changes that are applied first, and those applied second.
    turns: [Vec<(ProbeId, Option<Callback>)>; 2],
}

impl Batch<'_> {
    /// As [`Session::activate`].
    pub fn activate(&mut self, probe: ProbeId, callback: Callback) {
        let is_exit = sites::get(probe.0).is_some_and(|site| site.kind == Kind::Exit);
        self.turns[usize::from(!is_exit)].push((probe, Some(callback)));
    }

    /// As [`Session::deactivate`].
    pub fn deactivate(&mut self, probe: ProbeId) {
        let is_exit = sites::get(probe.0).is_some_and(|site| site.kind == Kind::Exit);
        self.turns[usize::from(is_exit)].push((probe, None));
    }

    /// Applies all changes. If some are refused, the first error is returned after all were tried.
    /// Returns the number of changes made.
    pub fn commit(self) -> Result<usize, Error> {
        let (mut made, mut first) = (0, Ok(()));
        for &(probe, callback) in self.turns.iter().flatten() {
            let result = match callback {
                Some(callback) => self.session.activate(probe, callback),
                None => self.session.deactivate(probe),
            };
            match result {
                Ok(()) => made += 1,
                Err(error) if first.is_ok() => first = Err(error),
                Err(_) => {}
            }
        }
        first.map(|()| made)
    }
}

fn live<'s>(probe: ProbeId) -> Result<&'s Site, Error> {
    sites::get(probe.0).filter(|site| !site.gone.load(Acquire)).ok_or(Error::NoProbe(probe))
}

fn of_function<'s>(function: CodeAddr) -> impl Iterator<Item = (ProbeId, &'s Site)> {
    let wanted = functions::find(function.get() as u64);
    sites::all().filter(move |(_, site)| {
        wanted.is_some() && site.owner() == wanted && !site.gone.load(Acquire)
    })
}

fn describe(names: &mut Names, registry: &ModuleRegistry, id: ProbeId, site: &Site) -> Probe {
    let function_address = site.owner().map(Id::start);
    let name = names.of(registry, function_address.unwrap_or(site.call().address()));
    let module = registry
        .entries
        .get(site.module as usize)
        .map(|entry| entry.module.path.clone())
        .unwrap_or_default();
    let line = names.line_of(registry, function_address.unwrap_or(site.call().address()));
    let (file, line) = line.map_or((None, None), |(file, line)| (Some(file), Some(line)));
    Probe {
        id,
        kind: site.kind,
        address: site.call().address(),
        function_address,
        function: name.shown,
        symbol: name.symbol,
        module,
        size: name.size,
        file,
        line,
    }
}
