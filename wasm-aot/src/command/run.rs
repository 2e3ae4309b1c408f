//! `wasm-aot run`

mod ending;
mod recording;
mod values;

use super::control::{Asked, Control, Open};
use super::joining::{self, Joining};
use super::modules::{self, Compiled, Packed, World};
use super::monitors::{Monitoring, Observation, Told};
use super::output;
use super::prof::Prof;
use super::spell;
use super::threads::{self, Parts, Threads};
use super::traces::{self, Events};
use super::{Failure, Making, about, print, record};
use clap::Args;
use ending::{END, end_profile, ended_observed, is_writable};
pub(super) use ending::{dump, ended};

use parking_lot::Mutex;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use values::{arguments, exported_functions, function, shown};
use wasm_aot::observer::{self, ProbeCalls, Program, Switches};
use wasm_aot::session::{Client, ClientKind, Session};
use wasm_aot::steering::Steering;
use wasm_aot::wasi::{Interruption, Permissions, WasiCtx};
use wasm_aot::{AsContextMut, Cache, Engine, Error, Instance, Limits, Module, Store};

/// Run a program (.wasm, .wat, .aot), or replay a run that `wasm-aot record` has recorded
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Directory that the program may use; HOST::GUEST gives it another name there
    #[arg(long, value_name = "DIR")]
    dir: Vec<String>,
    /// Environment variable for the program; a name alone passes the variable on
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// argv[0] seen by the program
    #[arg(long, alias = "argv0", value_name = "NAME")]
    arg0: Option<OsString>,
    /// Call this function instead of the program's start function; its arguments are numbers
    #[arg(long, value_name = "FUNCTION")]
    invoke: Option<String>,
    /// Module that the program imports from
    #[arg(long, value_name = "NAME=FILE")]
    preload: Vec<String>,
    /// Stop the program after this time, such as 10s or 500ms
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Limit of instructions executed by the program, or by each of its threads; exact, and costs
    /// time
    #[arg(long, value_name = "NUMBER")]
    max_instructions: Option<u64>,
    /// If the program traps, write its state to this file, as a Wasm core dump; costs time; %p in
    /// its name is the process ID
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Maximum size of a linear memory
    #[arg(long, value_name = "BYTES")]
    max_memory: Option<usize>,
    /// Maximum size of the program's stack
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    max_stack: usize,
    /// Maximum size of each memory of a monitor
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    max_monitor_memory: usize,
    /// Time-out for a monitor to start and to report, such as 10s or 500ms
    #[arg(long, alias = "monitor-patience", value_name = "TIME", default_value = "30s")]
    monitor_timeout: String,
    /// How functions of monitors are called
    #[arg(long, value_name = "HOW", default_value = "inlined", hide = true)]
    monitor_calls: HowCalled,
    /// What to do about imports that nothing defines
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    unknown_imports: UnknownImports,
    /// Refuse a monitor if one of its exports matches nothing
    #[arg(long)]
    strict: bool,
    /// Compile the program even if it is cached, and do not cache it
    #[arg(long)]
    no_cache: bool,
    /// Do not answer `wasm-aot ctl`
    #[arg(long)]
    no_control: bool,
    #[command(flatten)]
    monitoring: Monitoring,
    #[command(flatten)]
    making: Making,
    /// Whether the run is recorded
    #[arg(skip)]
    is_recorded: bool,
    /// The program, or a trace
    module: PathBuf,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum UnknownImports {
    /// Do not run the program
    Refuse,
    /// Run it, and trap when it calls one
    Trap,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HowCalled {
    /// Small ones are written out where they are called
    Inlined,
    /// By calls
    Direct,
}

/// The program with its monitor modules, and the data that its threads need for them.
type Observed = (Arc<observer::Observation>, Option<Arc<Joining>>);

impl Run {
    /// The program's file.
    pub(crate) fn program(&self) -> &Path {
        &self.module
    }

    pub(crate) fn run(self) -> Result<(), Failure> {
        self.run_to(None)
    }

    /// Runs the program, and writes a trace of it.
    pub(crate) fn recorded(self, trace: &Path) -> Result<(), Failure> {
        self.run_to(Some(trace))
    }

    fn run_to(mut self, trace: Option<&Path>) -> Result<(), Failure> {
        super::signal::watch();
        self.is_recorded = trace.is_some();
        let replays = traces::is_trace(&self.module);
        self.fits(replays)?;
        self.dump = self.dump.map(|file| output::of_process(&file, std::process::id()));
        self.spare_inputs()?;
        self.dump.as_deref().map_or(Ok(()), is_writable)?;
        let carried = self.carried().map_err(|failure| failure.of_program(&self.module))?;
        let observation = self.monitoring.begin(&self.module, !carried.is_empty())?;
        let engine = self.making.engine_with(|config| {
            observation.built_in().configure(config);
            config
                .instruction_budgets(self.max_instructions.is_some())
                .readable_frames(self.dump.is_some());
        })?;
        let interruption = Interruption::new().map_err(Failure::new)?;
        let monitors = modules::world(WasiCtx::builder().inherit_stdio()).map_err(Failure::new)?;
        let mut store = Store::new(
            &engine,
            World {
                program: self.world(interruption.clone())?,
                monitors,
                threads: None,
                prof: Prof::default(),
            },
        );
        let (observed, joining) =
            self.program_with_monitors(&engine, &mut store, &observation, &carried)?;
        let module = observed.module().clone();
        observation.admit(&module)?;
        let (limits, timeout) = self.bound(&mut store)?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let bounds = (limits, until, &interruption);
        store.data_mut().prof = Prof::new(&module);
        self.threads(&engine, &mut store, &module, bounds, joining.clone())?;
        stop_when_asked(&mut store, &interruption, timeout)?;
        let patience = self.patience()?;
        for chosen in carried.iter().map(Packed::chosen) {
            spell::start_spell(&observed, &chosen?);
        }
        observation.modules().iter().for_each(|chosen| spell::start_spell(&observed, chosen));
        let built_in = Arc::clone(observation.built_in());
        let session = Arc::new(Session::new(Arc::clone(&observed), built_in));
        if observation.explains() {
            let each = session.explain();
            let each: String = each.iter().map(ToString::to_string).collect();
            let _ = std::io::Write::write_all(&mut std::io::stderr(), each.as_bytes());
        }
        let _open =
            (!self.no_control).then(|| self.control(&store, &session, interruption, patience));
        let libraries = self.libraries(&engine)?;
        let recorder = match trace {
            Some(path) => Some((path, self.recorder(path, &mut store, &libraries, &module)?)),
            None => None,
        };
        let (done, has_begun) =
            self.execute(&engine, &mut store, &libraries, &module, &observed, patience);
        if let Some((path, recorder)) = recorder {
            // If a program could not start, there is no trace, and an earlier one stays.
            match has_begun {
                true => record::report(path, recorder.finish(&mut store)),
                false => recorder.abandon(&mut store),
            }
        }
        store.data().prof.end();
        if !has_begun {
            // A program that was not executed has no reports.
            return done.map_err(|failure| failure.of_program(&self.module));
        }
        store.set_deadline(Some(patience));
        let reports = reports(&mut store, &observation, &session, joining.as_deref(), patience)?;
        match (observation.end(&reports), &done) {
            (Err(failure), Ok(())) => return Err(failure),
            // How the program ended is reported by its own exit code.
            (Err(failure), Err(_)) => super::complain(failure.said()),
            (Ok(()), _) => {}
        }
        done
    }

    /// Refuses outputs that would overwrite what is executed.
    fn spare_inputs(&self) -> Result<(), Failure> {
        let preloads = self.preload.iter().filter_map(|preload| preload.split_once('='));
        let inputs = preloads.map(|(_, file)| Path::new(file)).chain([&*self.module]);
        let outputs = [("--dump", self.dump.clone()), ("--report", self.monitoring.report_file())];
        for input in inputs {
            for (option, output) in &outputs {
                if let Some(output) = output.as_deref().filter(|file| output::is_same(file, input))
                {
                    return Err(Failure::usage(format!(
                        "{option} {}: the program would be overwritten: name another file",
                        output.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Sets the program's limits of memory and time; returns both.
    fn bound(&self, store: &mut Store<World>) -> Result<(Limits, Option<Duration>), Failure> {
        let limits = Limits {
            stack: self.max_stack,
            memory: self.max_memory.unwrap_or(usize::MAX >> 1),
            ..Limits::default()
        };
        store.set_limits(limits);
        store.set_instruction_budget(self.max_instructions)?;
        let timeout =
            self.timeout.as_deref().map(|text| duration("--timeout", text)).transpose()?;
        store.set_deadline(timeout);
        Ok((limits, timeout))
    }

    /// Opens the socket by which the program is controlled. Its thread reads counters for reports
    /// that are requested there.
    fn control(
        &self,
        store: &Store<World>,
        session: &Arc<Session>,
        interruption: Interruption,
        patience: Duration,
    ) -> Open {
        let (observed, wakes) = (Arc::downgrade(session.observation()), interruption.clone());
        store.read_counters_of(session.module(), move || {
            wakes.wake();
            observed.upgrade().is_some_and(|observed| observed.may_be_stopped())
        });
        Control::open(Asked {
            program: self.module.clone(),
            steering: Steering::new(self.module.display().to_string(), Arc::clone(session)),
            tasks: store.tasks(),
            engine: store.engine().clone(),
            interruption,
            limits: modules::limits(self.max_monitor_memory, self.max_stack),
            patience,
        })
    }

    /// Compiles the program, with the static monitors that require it.
    fn program_with_monitors(
        &self,
        engine: &Engine,
        store: &mut Store<World>,
        observation: &Observation,
        carried: &[Packed],
    ) -> Result<Observed, Failure> {
        if !observation.modules().is_empty() || !carried.is_empty() {
            return self.observed(engine, store, observation, carried);
        }
        let module = self.load_observed(engine, observation);
        let module = module.map_err(|failure| failure.of_program(&self.module))?;
        Ok((Arc::new(observer::Observation::of(&module)), None))
    }

    /// The time-out of monitors.
    fn patience(&self) -> Result<Duration, Failure> {
        let (option, text) = ("--monitor-timeout", &self.monitor_timeout);
        let patience = duration(option, text)?;
        if patience.is_zero() {
            return Err(Failure::usage(format!(
                "{option} {text}: the time must be longer than zero"
            )));
        }
        Ok(patience)
    }

    /// Refuses options that have no meaning for a replay.
    fn fits(&self, replays: bool) -> Result<(), Failure> {
        let refused = |why: &str| Err(Failure::usage(format!("{}: {why}", self.module.display())));
        let has_own = !self.args.is_empty() || self.invoke.is_some() || !self.preload.is_empty();
        if replays && has_own {
            return refused(
                "a trace contains its arguments: omit --invoke, --preload and arguments",
            );
        }
        Ok(())
    }

    /// The monitors that are in the program's file.
    fn carried(&self) -> Result<Vec<Packed>, Failure> {
        match Module::is_machine_code(&self.module) {
            true => Packed::read(
                Module::from_file(&self.making.engine()?, &self.module)
                    .map_err(about(&self.module))?
                    .monitors(),
            ),
            false => Ok(Vec::new()),
        }
    }

    /// The program, with the calls of monitors that are modules: those that were requested, and
    /// those in its file; and the data that the program's threads need for them.
    fn observed(
        &self,
        engine: &Engine,
        store: &mut Store<World>,
        observation: &Observation,
        carried: &[Packed],
    ) -> Result<Observed, Failure> {
        let path = &self.module;
        let code = match Module::is_machine_code(path) {
            true => Some(Module::from_file(&self.making.engine()?, path).map_err(about(path))?),
            false => None,
        };
        let program = match &code {
            Some(module) => Program::of(engine, module).map_err(about(path)),
            None => self
                .program_in(path)
                .and_then(|bytes| Program::new(engine, &bytes).map_err(about(path))),
        }
        .map_err(|failure| failure.of_program(path))?
        .at_path(path.display().to_string());
        let patience = self.patience()?;
        let limits = modules::limits(self.max_monitor_memory, self.max_stack);
        store.set_limits(limits);
        let all = carried.iter().map(|packed| packed.compile(engine));
        let all = all.chain(observation.modules().iter().map(|chosen| chosen.compile(engine)));
        let mut all = all.collect::<Result<Vec<_>, _>>()?;
        if threads::are_wanted(&program) {
            for compiled in &mut all {
                compiled.has_threads =
                    joining::is_needed(compiled, engine, &program, (limits, patience))?;
            }
        }
        let instantiate = |compiled: &Compiled| {
            let how = (patience, &Switches::default());
            let observer = compiled.instantiate(store.as_context_mut(), engine, &program, how)?;
            compiled.remark(&observer);
            Ok::<_, Failure>(observer)
        };
        let observers = all.iter().map(instantiate).collect::<Result<Vec<_>, _>>()?;
        // If built-in monitors count, the program is compiled.
        let code = code.filter(|_| !engine.counts() && !self.needs_own_code());
        let calls = match self.monitor_calls {
            HowCalled::Inlined => ProbeCalls::Inlined,
            HowCalled::Direct => ProbeCalls::Direct,
        };
        let observed = observer::Observation::with_code(
            store,
            observers,
            &program,
            calls,
            Some(observation.built_in()),
            code,
        );
        let observed = observed.map_err(modules::refused)?;
        self.complain_of_matches(&observed)?;
        let observation = Arc::new(observed);
        all.retain(|compiled| compiled.has_threads);
        let joining = (!all.is_empty()).then(|| {
            Arc::new(Joining {
                engine: engine.clone(),
                observation: Arc::clone(&observation),
                program,
                monitors: all,
                limits,
                patience,
                reports: Mutex::default(),
            })
        });
        Ok((observation, joining))
    }

    /// Reports exports of monitors that are never called, and monitors that match nothing.
    fn complain_of_matches(&self, observed: &observer::Observation) -> Result<(), Failure> {
        let (misfits, shortened) = (observed.misfits(), observed.shortened());
        if let Some((name, why)) = misfits.iter().chain(&shortened).find(|_| self.strict) {
            let why = super::behind_colon(why);
            return Err(Failure::new(format!("monitor {name}{why} (--strict)")));
        }
        let (idle, busy): (Vec<_>, Vec<_>) =
            observed.matches().into_iter().partition(|(_, count)| *count == 0);
        for (name, _) in idle {
            let why = misfits
                .iter()
                .find(|(other, _)| *other == name)
                .map_or(String::new(), |(_, why)| super::behind_colon(why));
            let why = format!(
                "monitor {name}: nothing in {} matches any of its exports{why}",
                self.module.display()
            );
            if self.strict {
                return Err(Failure::new(format!("{why} (--strict)")));
            }
            super::complain(why);
        }
        for (name, why) in
            misfits.iter().filter(|(name, _)| busy.iter().any(|(other, _)| other == name))
        {
            let why = super::behind_colon(why);
            super::complain(format!("monitor {name}: note: this export is never called{why}"));
        }
        for (name, why) in shortened {
            super::complain(format!("monitor {name}: note: {why}"));
        }
        Ok(())
    }

    /// Runs the program; returns how it has ended, and whether any of its code was executed.
    fn execute(
        &self,
        engine: &Engine,
        store: &mut Store<World>,
        libraries: &[(String, Module)],
        module: &Module,
        observed: &observer::Observation,
        patience: Duration,
    ) -> (Result<(), Failure>, bool) {
        let events = match traces::is_trace(&self.module).then(|| Events::open(&self.module)) {
            Some(Err(failure)) => return (Err(failure), false),
            Some(Ok(events)) => Some(events),
            None => None,
        };
        let traps = (self.unknown_imports == UnknownImports::Trap).then_some(module);
        let threads = store.data_mut().threads.as_ref().map(|(threads, _)| threads.clone());
        let linker = match threads::link(engine, store, libraries, threads.as_ref(), traps) {
            Ok(linker) => linker,
            Err(error) => return (ended(&self.module, &error), false),
        };
        observed.begin(store).into_iter().for_each(super::complain);
        if let Some(name) = self.module.file_name() {
            module.entitle(&name.to_string_lossy());
        }
        let mut end = None;
        let done = match events {
            Some(events) => {
                let print = Some(print_stream as wasm_aot::replaying::Print);
                wasm_aot::replaying::replay(store, module, events, print).map(|()| String::new())
            }
            None => linker.instantiate(&mut *store, module).and_then(|instance| {
                end = instance.get_func(&mut *store, END);
                self.call(store, module, instance)
            }),
        };
        if let Err(error) = &done {
            dump(store, error, self.dump.as_deref(), &self.module);
            end_profile(store, end, error);
        }
        store.close_tasks();
        let by_thread = threads.and_then(|threads| threads.finish());
        store.set_deadline(Some(patience));
        observed.end(store, done.as_ref().err()).into_iter().for_each(super::complain);
        let has_begun = !matches!(
            done,
            Err(Error::Link(_) | Error::Type(_) | Error::Resource(_) | Error::Compile(_))
        );
        if let Some(done) = by_thread {
            return (done, true);
        }
        let done = match done {
            Ok(results) => print(results),
            Err(error) => ended_observed(&self.module, &error, observed, store),
        };
        (done, has_begun)
    }

    /// Compiles the modules that the program imports from, by their names.
    fn libraries(&self, engine: &Engine) -> Result<Vec<(String, Module)>, Failure> {
        let library = |preload: &String| {
            let Some((name, path)) = preload.split_once('=') else {
                return Err(Failure::usage(format!("--preload {preload}: expected NAME=FILE")));
            };
            Ok((name.to_owned(), self.load(engine, path.as_ref())?))
        };
        self.preload.iter().map(library).collect()
    }

    /// The data that the threads of a program share, if it can start any: its world becomes theirs.
    fn threads(
        &self,
        engine: &Engine,
        store: &mut Store<World>,
        module: &Module,
        (limits, until, interruption): (Limits, Option<Instant>, &Interruption),
        joining: Option<Arc<Joining>>,
    ) -> Result<(), Failure> {
        if !module.imports().any(|import| (import.module, import.name) == threads::SPAWN) {
            return Ok(());
        }
        let libraries = self.libraries(engine)?;
        let (engine, path, module) = (engine.clone(), self.module.clone(), module.clone());
        let ctx = std::mem::replace(
            &mut store.data_mut().program,
            WasiCtx::builder().build().map_err(Failure::new)?,
        );
        let traps = self.unknown_imports == UnknownImports::Trap;
        let prof = store.data().prof.clone();
        let (budget, dump) = (self.max_instructions, self.dump.clone());
        let parts = Parts {
            engine,
            path,
            module,
            libraries,
            limits,
            budget,
            dump,
            until,
            traps,
            joining,
            prof,
        };
        let threads = Threads::new(parts, ctx, (store.interrupt_handle(), interruption.clone()))?;
        let world = threads.world();
        store.data_mut().threads = Some((threads, world));
        Ok(())
    }

    /// Calls the start function or the requested function; returns its results, as lines.
    fn call(
        &self,
        store: &mut Store<World>,
        module: &Module,
        instance: Instance,
    ) -> Result<String, Error> {
        if let Some(name) = &self.invoke {
            let function = function(store, instance, module, name)?;
            let args = arguments(store, function, &self.args)?;
            return Ok(function
                .call(&mut *store, &args)?
                .iter()
                .map(|value| shown(value) + "\n")
                .collect());
        }
        if let Some(initialize) = instance.get_func(&mut *store, "_initialize") {
            initialize.call(&mut *store, &[])?;
        }
        match instance
            .get_func(&mut *store, "_start")
            .or_else(|| instance.get_func(&mut *store, ""))
        {
            Some(start) => start.call(&mut *store, &[]).map(|_| String::new()),
            None if module.has_start()
                || instance.get_func(&mut *store, "_initialize").is_some() =>
            {
                Ok(String::new())
            }
            None => {
                let functions: Vec<String> = exported_functions(module);
                let hint = match functions.is_empty() {
                    true => "it exports no function".to_owned(),
                    false => format!("name one with --invoke: {}", functions.join(", ")),
                };
                Err(Error::Link(format!("the module has nothing to run (no _start): {hint}")))
            }
        }
    }

    /// Whether the code in a file is not sufficient, so that the module in it is compiled.
    fn needs_own_code(&self) -> bool {
        self.max_instructions.is_some() || self.dump.is_some()
    }

    fn load(&self, engine: &Engine, path: &Path) -> Result<Module, Failure> {
        // Machine code is mapped, whatever its size.
        if Module::is_machine_code(path) {
            let module = Module::from_file(engine, path).map_err(about(path))?;
            return if self.needs_own_code() {
                module.again(engine).map_err(about(path))
            } else {
                Ok(module)
            };
        }
        let bytes = self.program_in(path)?;
        match Cache::of_user().filter(|_| !self.no_cache) {
            Some(cache) => cache.module(engine, &bytes).map_err(about(path)),
            None => Module::new(engine, bytes).map_err(about(path)),
        }
    }

    /// Compiles the program in a form that built-in monitors can observe, from the module, which a
    /// file of machine code contains.
    fn load_observed(&self, engine: &Engine, observation: &Observation) -> Result<Module, Failure> {
        let (path, monitors) = (&self.module, observation.built_in());
        match Module::is_machine_code(path) || monitors.leaves_code_alone(engine) {
            true => monitors.recompile(engine, &self.load(engine, path)?),
            false => monitors.compile(engine, &self.program_in(path)?),
        }
        .map_err(about(path))
    }

    /// Creates the world of the program.
    fn world(&self, interruption: Interruption) -> Result<WasiCtx, Failure> {
        let mut builder = WasiCtx::builder().inherit_stdio().interruption(interruption);
        let name = self.arg0.clone().unwrap_or_else(|| self.module.clone().into_os_string());
        builder = builder.arg(name).args(&self.args);
        for variable in &self.env {
            if variable.is_empty() || variable.starts_with('=') {
                return Err(Failure::usage(format!(
                    "--env {variable}: expected NAME=VALUE, or the name of an environment variable"
                )));
            }
            builder = match variable.split_once('=') {
                Some((name, value)) => builder.env(name, value),
                None => match std::env::var_os(variable) {
                    Some(value) => builder.env(variable, value),
                    None => {
                        return Err(Failure::usage(format!(
                            "--env {variable}: the environment has no such variable"
                        )));
                    }
                },
            };
        }
        for directory in &self.dir {
            let (host, guest) = directory.split_once("::").unwrap_or((directory, directory));
            builder = builder.preopened_dir(host, guest, Permissions::ReadWrite);
        }
        builder.build().map_err(Failure::new)
    }
}

/// Makes signals stop the program, and a time-out wake a thread that waits inside a call; the
/// store's deadline stops a thread that computes.
fn stop_when_asked(
    store: &mut Store<World>,
    interruption: &Interruption,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    let (stop, stopper) = (store.interrupt_handle(), interruption.clone());
    super::signal::on_interrupt(move || {
        stopper.raise();
        stop.interrupt();
    });
    let Some(timeout) = timeout else { return Ok(()) };
    let interruption = interruption.clone();
    let wake = move || {
        std::thread::sleep(timeout);
        interruption.raise();
    };
    let started = std::thread::Builder::new().spawn(wake);
    started.map(drop).map_err(|error| Failure::new(format!("--timeout: no thread: {error}")))
}

/// The reports of all monitors, when the program has ended.
fn reports(
    store: &mut Store<World>,
    observation: &Observation,
    session: &Session,
    joining: Option<&Joining>,
    patience: Duration,
) -> Result<Vec<(String, Told)>, Failure> {
    let mut told = Vec::new();
    for (client, report) in session.reports(None).unwrap_or_default() {
        match (client.kind, report) {
            (ClientKind::Compiled | ClientKind::Attached, Some(report)) => {
                told.push((client.name, Told::Report(report)));
            }
            (ClientKind::Module, _) => {
                let all = (&**session.observation(), joining);
                if let Some(said) = module_report(store, observation, all, &client, patience)? {
                    told.push((client.name, said));
                }
            }
            _ => {}
        }
    }
    Ok(told)
}

/// Returns a module's report over all threads when the program has ended, if it is shown with the
/// other reports. Otherwise it is printed.
fn module_report(
    store: &mut Store<World>,
    observation: &Observation,
    (observed, joining): (&observer::Observation, Option<&Joining>),
    client: &Client,
    patience: Duration,
) -> Result<Option<Told>, Failure> {
    let joining = joining.filter(|joining| joining.has(&client.monitor));
    let is_taken = observation.takes_report(observed.declares_variables(client.number));
    if !is_taken && joining.is_none() {
        let wrong = observed.report_of(store.as_context_mut(), Some(client.number));
        wrong.into_iter().for_each(super::complain);
        return Ok(None);
    }
    let text = match modules::said(store.as_context_mut(), observed, client.number, patience) {
        Ok(own) => joining.map_or(own.clone(), |joining| joining.whole(&client.monitor, &own)),
        Err(why) => {
            super::complain(why);
            return Ok(None);
        }
    };
    if !is_taken {
        return print(text).map(|()| None);
    }
    Ok(Some(Told::printed(observed, client, text, observation.format())))
}

/// Prints to our streams what a replayed program writes to its own.
fn print_stream(is_error: bool, bytes: &[u8]) {
    use std::io::Write as _;
    // Input was consumed when the program was recorded.
    let _ = match is_error {
        true => std::io::stderr().write_all(bytes),
        false => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
    };
}

/// Parses a time.
fn duration(option: &str, text: &str) -> Result<Duration, Failure> {
    humantime::parse_duration(text)
        .map_err(|_| Failure::usage(format!("{option} {text}: give a time such as 10s or 500ms")))
}
