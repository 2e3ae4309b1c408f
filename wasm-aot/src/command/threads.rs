//! Threads of a program: `wasi` `thread-spawn`.
//!
//! Each thread has a store and an instance of its own, with the same shared memories and the same
//! world. The first that traps or exits ends all of them; the return of a thread's function ends
//! that thread only, and that of the program's start all others.

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

/// What programs import to start threads, and export to be started.
pub(super) const SPAWN: (&str, &str) = ("wasi", "thread-spawn");
const START: &str = "wasi_thread_start";
/// Threads are numbered below that.
const MOST: u32 = 1 << 29;
/// How long threads are waited for that are to stop: one may be in a call that the kernel does not
/// leave.
const FAREWELL: Duration = Duration::from_secs(5);
/// What the host needs of a stack beside the program.
const HOST: usize = 2 << 20;

/// What all threads of a program have in common.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<Group>);

/// What a thread's instance is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) path: PathBuf,
    pub(crate) module: Module,
    pub(crate) libraries: Vec<(String, Module)>,
    pub(crate) limits: Limits,
    /// How many instructions each may execute.
    pub(crate) budget: Option<u64>,
    /// Where to the state of one that traps is written.
    pub(crate) dump: Option<PathBuf>,
    /// When the program's time is over.
    pub(crate) until: Option<Instant>,
    /// Whether imports that nothing defines trap.
    pub(crate) traps: bool,
    /// Monitors of which each thread has an instance.
    pub(crate) joining: Option<Arc<Joining>>,
    /// Where each reports its calls.
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
    /// Those that run, by their numbers, and what stops each; the program's own thread is 0.
    running: BTreeMap<u32, (InterruptHandle, Interruption)>,
    /// Those that execute the program no more, and whose monitors report: nothing stops these.
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
    /// For a program that can start some, whose own thread has `main`'s handles.
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

    /// Gives a linker what the program imports.
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

    /// Starts a thread; gives its number, or less than nothing.
    fn spawn(&self, argument: i32) -> i32 {
        let Some(number) = self.0.state.lock().number() else { return -1 };
        let (group, (tell, told)) = (Arc::clone(&self.0), mpsc::channel());
        let builder = std::thread::Builder::new().name(format!("wasm-{number}"));
        let started = builder.stack_size(self.0.parts.limits.stack + HOST).spawn(move || {
            let leaving = Leaving(&group, number);
            group.run(number, argument, &tell);
            drop(leaving);
        });
        // It has an instance by then, or none, or has ended everything.
        let begins = started.is_ok() && told.recv().is_ok();
        if begins { number.cast_signed() } else { -1 }
    }

    /// The program's own thread is over: so are the others. Gives how one of them has ended the
    /// program, if that is what happened.
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

    /// A number that no thread has.
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

    /// A thread executes the program no more, and what its monitors have seen is to be reported.
    fn begin_report(&mut self, number: u32) {
        self.running.remove(&number);
        self.reporting.insert(number);
    }

    /// Has all threads stop, and no others begin.
    fn stop(&mut self) {
        self.is_over = true;
        for (handle, interruption) in self.running.values() {
            interruption.raise();
            handle.interrupt();
        }
    }
}

impl Parts {
    /// Bounds what the program may do in a thread's store.
    fn bound(&self, store: &mut Store<World>) -> Result<(), Failure> {
        store.set_limits(self.limits);
        store.set_instruction_budget(self.budget)?;
        store.set_deadline(self.until.map(|until| until.saturating_duration_since(Instant::now())));
        Ok(())
    }
}

impl Group {
    /// A thread from its beginning to its end; `begun` is notified when it has an instance.
    fn run(self: &Arc<Self>, number: u32, argument: i32, begun: &mpsc::Sender<()>) {
        // Without descriptors or memory there is no thread, and the program hears of it.
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
            // Before the thread that has asked for this one goes on, and perhaps ends the program.
            self.end(ended(&parts.path, error));
        }
        let _ = begun.send(());
        let done = start.and_then(|start| start.call(&mut store, (number.cast_signed(), argument)));
        if let Err(error) = &done {
            // Those that are stopped afterwards have nothing to report.
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

    /// A thread can be stopped from now on, unless all have been.
    fn enter(&self, number: u32, handles: (InterruptHandle, Interruption)) -> bool {
        let mut state = self.state.lock();
        if !state.is_over {
            state.running.insert(number, handles);
        }
        !state.is_over
    }

    /// A thread ends the program.
    fn end(&self, how: Result<(), Failure>) {
        let mut state = self.state.lock();
        // The reports of threads that were stopped are not the reason.
        if !state.is_over {
            state.ended = Some(how);
            state.stop();
        }
    }
}

/// A thread that will be gone.
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

/// What a program imports, in a store: WASI, libraries, and what it needs for threads; and traps
/// for what else this one imports, if one is given.
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
