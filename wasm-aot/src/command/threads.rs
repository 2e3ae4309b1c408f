//! Threads of a program: `wasi` `thread-spawn`.
//!
//! Each thread has its own store and instance, with the same shared memories and the same world.
//! The first that traps or exits ends all of them; the return of a thread's function ends only that
//! thread, and the return of the program's start function ends all others.

use super::Failure;
use super::joining::Joining;
use super::modules::{self, World};
use super::prof::{self, Prof};
use super::run::{dump, ended};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use wasm_aot::observer::Program;
use wasm_aot::wasi::{self, Interruption, Shared, WasiCtx};
use wasm_aot::{
    Caller, Engine, Error, ExternType, InterruptHandle, Limits, Linker, Memory, Module,
    SharedMemory, Store,
};

/// The import by which programs start threads, and the export by which threads are started.
pub(super) const SPAWN: (&str, &str) = ("wasi", "thread-spawn");
const START: &str = "wasi_thread_start";
/// The limit of thread numbers.
const MOST: u32 = 1 << 29;
/// How long to wait for threads to stop: one may be in a system call that the kernel does not
/// interrupt.
const FAREWELL: Duration = Duration::from_secs(5);
/// The part of a stack for the host, besides the program.
const HOST: usize = 2 << 20;

/// The data that all threads of a program share.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<Group>);

/// The parts from which a thread's instance is created.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) path: PathBuf,
    pub(crate) module: Module,
    pub(crate) libraries: Vec<(String, Module)>,
    pub(crate) limits: Limits,
    /// How many instructions each may execute.
    pub(crate) budget: Option<u64>,
    /// The file for the state of a thread that traps.
    pub(crate) dump: Option<PathBuf>,
    /// The time at which the program is stopped.
    pub(crate) until: Option<Instant>,
    /// Whether imports that nothing defines trap.
    pub(crate) traps: bool,
    /// Monitors of which each thread has an instance.
    pub(crate) joining: Option<Arc<Joining>>,
    /// The profile to which each thread reports its calls.
    pub(crate) prof: Prof,
}

#[derive(Debug)]
struct Group {
    parts: Parts,
    world: Shared,
    memories: Vec<(String, String, SharedMemory)>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    /// The running threads by their numbers, with the handles to stop each; the program's own
    /// thread is 0.
    running: BTreeMap<u32, (InterruptHandle, Interruption)>,
    /// Threads that no longer execute the program, and whose monitors report: they are not stopped.
    reporting: BTreeSet<u32>,
    /// How the program has ended, if a thread has ended it.
    ended: Option<Result<(), Failure>>,
    is_over: bool,
}

/// Whether a program can start threads.
pub(crate) fn are_wanted(program: &Program) -> bool {
    program.imports(SPAWN.0, SPAWN.1)
}

impl Threads {
    /// Creates the threads of a program; `main` has the handles of its own thread.
    pub(crate) fn new(
        parts: Parts,
        ctx: WasiCtx,
        main: (InterruptHandle, Interruption),
    ) -> Result<Self, Failure> {
        let mut memories = Vec::new();
        for import in parts.module.imports() {
            if let ExternType::Memory(ty) = import.ty
                && ty.shared
            {
                memories.push((
                    import.module.to_owned(),
                    import.name.to_owned(),
                    SharedMemory::new(ty)?,
                ));
            }
        }
        let state = State { running: BTreeMap::from([(0, main)]), ..State::default() };
        let (world, changed) = (Shared::new(ctx), Condvar::new());
        Ok(Self(Arc::new(Group { parts, world, memories, state: Mutex::new(state), changed })))
    }

    /// The world as the program's own thread sees it.
    pub(crate) fn world(&self) -> Shared {
        self.0.world.clone()
    }

    /// Defines the program's imports in a linker.
    pub(crate) fn link(
        &self,
        linker: &mut Linker<World>,
        store: &mut Store<World>,
    ) -> Result<(), Error> {
        wasi::add_shared_to_linker(linker, |world: &mut World| {
            &world.threads.as_ref().expect("it has some").1
        })?;
        linker.func_wrap(SPAWN.0, SPAWN.1, |mut caller: Caller<'_, World>, argument: i32| {
            let threads = caller.data_mut().threads.as_ref().map(|(threads, _)| threads.clone());
            threads.map_or(-1, |threads| threads.spawn(argument))
        })?;
        for (module, name, memory) in &self.0.memories {
            linker.define(module, name, Memory::shared(&mut *store, memory))?;
        }
        Ok(())
    }

    /// Starts a thread; returns its number, or a negative number.
    fn spawn(&self, argument: i32) -> i32 {
        let Some(number) = self.0.state.lock().number() else { return -1 };
        let (group, (tell, told)) = (Arc::clone(&self.0), mpsc::channel());
        let builder = std::thread::Builder::new().name(format!("wasm-{number}"));
        let started = builder.stack_size(self.0.parts.limits.stack + HOST).spawn(move || {
            let leaving = Leaving(&group, number);
            group.run(number, argument, &tell);
            drop(leaving);
        });
        // By then it has an instance, or failed to get one, or has ended the program.
        let begins = started.is_ok() && told.recv().is_ok();
        if begins { number.cast_signed() } else { -1 }
    }

    /// Called when the program's own thread has ended: stops the others. Returns how one of them
    /// has ended the program, if so.
    pub(crate) fn finish(&self) -> Option<Result<(), Failure>> {
        let until = Instant::now() + FAREWELL;
        let mut state = self.0.state.lock();
        let ended = state.ended.take();
        state.running.remove(&0);
        state.stop();
        while !(state.is_empty() || self.0.changed.wait_until(&mut state, until).timed_out()) {}
        ended
    }
}

impl State {
    /// Whether no thread runs or reports.
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.reporting.is_empty()
    }

    /// Returns a number that no thread has.
    fn number(&mut self) -> Option<u32> {
        if self.is_over || self.running.len() as u32 >= MOST - 1 {
            return None;
        }
        loop {
            self.next = self.next % (MOST - 1) + 1;
            if !self.running.contains_key(&self.next) && !self.reporting.contains(&self.next) {
                return Some(self.next);
            }
        }
    }

    /// Called when a thread no longer executes the program, before its monitors report.
    fn begin_report(&mut self, number: u32) {
        self.running.remove(&number);
        self.reporting.insert(number);
    }

    /// Stops all threads, and prevents the start of others.
    fn stop(&mut self) {
        self.is_over = true;
        for (handle, interruption) in self.running.values() {
            interruption.raise();
            handle.interrupt();
        }
    }
}

impl Parts {
    /// Sets the program's limits in a thread's store.
    fn bound(&self, store: &mut Store<World>) -> Result<(), Failure> {
        store.set_limits(self.limits);
        store.set_instruction_budget(self.budget)?;
        store.set_deadline(self.until.map(|until| until.saturating_duration_since(Instant::now())));
        Ok(())
    }
}

impl Group {
    /// Runs a thread from its beginning to its end; `begun` is notified when it has an instance.
    fn run(self: &Arc<Self>, number: u32, argument: i32, begun: &mpsc::Sender<()>) {
        // Without descriptors or memory no thread is started, and the program gets an error.
        let Ok(interruption) = Interruption::new() else { return };
        let Ok(mut store) = self.store(interruption.clone()) else { return };
        if !self.enter(number, (store.interrupt_handle(), interruption)) {
            return;
        }
        let parts = &self.parts;
        if let Some(Err(failure)) = parts.joining.as_ref().map(|joining| joining.join(&mut store)) {
            return self.end(Err(failure));
        }
        if let Err(failure) = parts.bound(&mut store) {
            return self.end(Err(failure));
        }
        let linked = link(
            &parts.engine,
            &mut store,
            &parts.libraries,
            Some(&Threads(Arc::clone(self))),
            parts.traps.then_some(&parts.module),
        );
        let instance = linked.and_then(|linker| linker.instantiate(&mut store, &parts.module));
        if let Err(Error::Resource(_)) = instance {
            return;
        }
        let start = instance.and_then(|instance| {
            let start = instance.get_typed_func::<(i32, i32), ()>(&mut store, START);
            start.map_err(|error| {
                Error::Link(format!(
                    "the program imports \"{}\" \"{}\" and exports no {START}: {error}",
                    SPAWN.0, SPAWN.1
                ))
            })
        });
        if let Err(error @ Error::Link(_)) = &start {
            // Before the thread that has requested this one continues, and perhaps ends the
            // program.
            self.end(ended(&parts.path, error));
        }
        let _ = begun.send(());
        let done = start.and_then(|start| start.call(&mut store, (number.cast_signed(), argument)));
        if let Err(error) = &done {
            // Errors of threads that are stopped afterwards are not reported.
            if !self.state.lock().is_over {
                dump(&mut store, error, parts.dump.as_deref(), &parts.path);
            }
        }
        self.state.lock().begin_report(number);
        if let Err(error) = &done {
            self.end(ended(&parts.path, error));
        }
        if let Some(joining) = &parts.joining {
            store.disregard_interruption();
            joining.leave(&mut store, done.as_ref().err());
        }
    }

    fn store(self: &Arc<Self>, interruption: Interruption) -> Result<Store<World>, Failure> {
        let program = WasiCtx::builder().build().map_err(Failure::new)?;
        let monitors = modules::world(WasiCtx::builder().inherit_stdio()).map_err(Failure::new)?;
        let threads = Some((Threads(Arc::clone(self)), self.world.for_thread(interruption)));
        Ok(Store::new(
            &self.parts.engine,
            World { program, monitors, threads, prof: self.parts.prof.for_thread() },
        ))
    }

    /// Registers a thread, so that it can be stopped; fails if all threads have been stopped.
    fn enter(&self, number: u32, handles: (InterruptHandle, Interruption)) -> bool {
        let mut state = self.state.lock();
        if !state.is_over {
            state.running.insert(number, handles);
        }
        !state.is_over
    }

    /// Called when a thread ends the program.
    fn end(&self, how: Result<(), Failure>) {
        let mut state = self.state.lock();
        // The errors of threads that were stopped are not the reason.
        if !state.is_over {
            state.ended = Some(how);
            state.stop();
        }
    }
}

/// A thread that is removed from the group when this is dropped.
struct Leaving<'a>(&'a Arc<Group>, u32);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Err(Failure::new(format!("thread {} has panicked", self.1))));
        }
        let mut state = self.0.state.lock();
        state.running.remove(&self.1);
        state.reporting.remove(&self.1);
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Defines a program's imports in a store: WASI, libraries, and thread functions; and traps for the
/// other imports of a program, if one is given.
pub(crate) fn link(
    engine: &Engine,
    store: &mut Store<World>,
    libraries: &[(String, Module)],
    threads: Option<&Threads>,
    traps: Option<&Module>,
) -> Result<Linker<World>, Error> {
    let mut linker = Linker::new(engine);
    match threads {
        Some(threads) => threads.link(&mut linker, store)?,
        None => wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.program)?,
    }
    if libraries.iter().all(|(name, _)| name != "prof") {
        prof::add_to_linker(&mut linker)?;
    }
    for (name, library) in libraries {
        let named = |error| match error {
            Error::Link(why) => Error::Link(format!("{name}: {why}")),
            other => other,
        };
        let instance = linker.instantiate(&mut *store, library).map_err(named)?;
        linker.instance(&mut *store, name, instance)?;
    }
    if let Some(module) = traps {
        linker.unknown_imports_as_traps(module)?;
    }
    Ok(linker)
}
