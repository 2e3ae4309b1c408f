//! Monitors that are modules or scripts: `run --monitor counts.wasm+library.wasm`, `run --monitor
//! counts.mm`.

use super::linking::Linking;
use super::prof::Prof;
use super::threads::Threads;
use super::{Failure, may_be_module, read, read_module};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wasm_aot::monitor::{KINDS, TOP};
use wasm_aot::observer::{
    Observation, Observer, ObserverError, Program, Switches, add_to_linker, printed_during,
};
use wasm_aot::wasi::{self, Buffer, BuildError, Shared, Sink, WasiCtx, WasiCtxBuilder};
use wasm_aot::{AsContextMut, Engine, Error, Limits, Linker, Module, StoreContextMut};

/// The worlds of a program and of its monitors, which share a store and nothing else.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) program: WasiCtx,
    pub(crate) monitors: WasiCtx,
    /// The data that its threads share, if it can start threads: this includes their world, which
    /// is then the program's.
    pub(crate) threads: Option<(Threads, Shared)>,
    /// Its reports through the host interface of profiles.
    pub(crate) prof: Prof,
}

/// A monitor as it was requested: a module or a script, with libraries.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The text of the request, with absolute paths.
    text: String,
    file: PathBuf,
    libraries: Vec<PathBuf>,
    /// Whether it can be switched while the program runs, and whether it is off at first.
    toggled: bool,
    is_off: bool,
    /// The maximum number of calls of each of its probes.
    calls: Option<u32>,
    /// For how long it observes.
    lasts: Option<Duration>,
    /// Whether its failures only switch it off.
    contained: bool,
    /// The maximum number of rows of each table of its report in human-readable output.
    top: Option<usize>,
}

/// The options of a module: their spelling and meaning.
pub(crate) const OPTIONS: [(&str, &str); 6] = [
    (
        "toggle",
        "it can be switched while the program runs: wasm-aot ctl PID on|off NAME[:RULE][@FUNCTION][+OFFSET]",
    ),
    ("off", "it can be switched, and is off at first"),
    ("calls=N", "each probe is called this often, and costs nothing afterwards"),
    ("for=TIME", "it is switched off after this time, such as 10s or 500ms"),
    (
        "on-trap=HOW",
        "what to do if it traps or a call does not end: off (switch it off, and the program goes on) or fatal (end the program)",
    ),
    ("top=N", "rows in each table of a script's report (top=all: all)"),
];

/// A monitor in a file of machine code: the request, its module, and its libraries by their names.
#[derive(Debug, serde::Deserialize, serde::Serialize)]
pub(crate) struct Packed {
    text: String,
    module: Vec<u8>,
    libraries: Vec<(String, Vec<u8>)>,
    /// Whether its functions are called: otherwise counters or one-shot probes in the program's
    /// code determine their effects.
    pub(crate) is_called: bool,
}

impl Packed {
    /// Reads the monitors of a file.
    pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Self>, Failure> {
        match bytes {
            [] => Ok(Vec::new()),
            bytes => postcard::from_bytes(bytes)
                .map_err(|_| Failure::new("the monitors inside are damaged: compile it again")),
        }
    }

    /// The request. If its functions are called, it can be switched: the code in the file does not
    /// contain it.
    pub(crate) fn chosen(&self) -> Result<Chosen, Failure> {
        let chosen = Chosen::parse(&self.text)?;
        Ok(Chosen { toggled: chosen.toggled || self.is_called, ..chosen })
    }

    /// Compiles it, with its libraries.
    pub(crate) fn compile(&self, engine: &Engine) -> Result<Compiled, Failure> {
        let (chosen, engine) = (self.chosen()?, &engine.exempt()?);
        let named = |name: &str, error: Error| {
            Failure::new(format!("monitor {}: {name}: {error}", chosen.name()))
        };
        let library = |(name, bytes): &(String, Vec<u8>)| {
            Module::new(engine, bytes)
                .map(|module| (name.clone(), module))
                .map_err(|error| named(name, error))
        };
        let libraries = self.libraries.iter().map(library).collect::<Result<Vec<_>, _>>()?;
        let module =
            Module::new(engine, &self.module).map_err(|error| named("its module", error))?;
        Ok(Compiled { chosen, module, libraries, has_threads: false })
    }
}

/// A monitor's module, and its libraries by their names.
#[derive(Debug)]
pub(crate) struct Compiled {
    chosen: Chosen,
    module: Module,
    libraries: Vec<(String, Module)>,
    /// Whether each thread of the program has an instance of it.
    pub(crate) has_threads: bool,
}

impl Chosen {
    /// Whether the text names a file, and not a built-in monitor.
    pub(crate) fn is_file(text: &str) -> bool {
        let first = text.split(['+', ',']).next().unwrap_or_default();
        let extension = Path::new(first).extension().and_then(std::ffi::OsStr::to_str);
        let is_named = || KINDS.iter().any(|kind| kind.name == first);
        matches!(extension, Some("wasm" | "wat" | "mm"))
            || first.contains('/')
            || (Path::new(first).is_file() && !is_named())
    }

    /// Reads `FILE[+LIBRARY]…[,OPTION[=VALUE]]…`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let (files, options) = text.split_once(',').unwrap_or((text, ""));
        let mut files = files.split('+').map(PathBuf::from);
        let file = files.next().unwrap_or_default();
        let libraries = files.collect();
        let mut chosen = Self {
            text: Self::absolute(text).unwrap_or_else(|_| text.to_owned()),
            file,
            libraries,
            toggled: false,
            is_off: false,
            calls: None,
            lasts: None,
            contained: false,
            top: Some(TOP),
        };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            chosen
                .option(option)
                .map_err(|why| Failure::usage(format!("--monitor {text}: {why}")))?;
        }
        Ok(chosen)
    }

    fn option(&mut self, text: &str) -> Result<(), String> {
        let (option, value) = text.split_once('=').unwrap_or((text, ""));
        match (option, value) {
            ("toggle", "") => self.toggled = true,
            ("off", "") => (self.toggled, self.is_off) = (true, true),
            ("calls", _) => match value.parse() {
                Ok(0) | Err(_) => {
                    return Err(format!("{text}: expected a number, such as calls=1000"));
                }
                Ok(calls) => self.calls = Some(calls),
            },
            ("for", _) => {
                let time = humantime::parse_duration(value)
                    .map_err(|error| format!("{text}: {error}, such as for=10s"))?;
                (self.toggled, self.lasts) = (true, Some(time));
            }
            ("on-trap", "off") => self.contained = true,
            ("on-trap", "fatal") => self.contained = false,
            ("top", "all") => self.top = None,
            ("top", _) => match value.parse() {
                Ok(rows) => self.top = Some(rows),
                Err(_) => return Err(format!("{text}: expected a number, or all")),
            },
            ("on-trap", _) => return Err(format!("{text}: expected off or fatal")),
            _ => {
                let known = OPTIONS.map(|(option, _)| option).join(", ");
                return Err(format!("no option {text}; a module has {known}"));
            }
        }
        Ok(())
    }

    /// The same text with absolute paths.
    pub(crate) fn absolute(text: &str) -> std::io::Result<String> {
        let (files, options) =
            text.split_once(',').map_or((text, None), |(files, options)| (files, Some(options)));
        let each = files
            .split('+')
            .map(|file| std::path::absolute(file).map(|path| path.display().to_string()));
        let files = each.collect::<std::io::Result<Vec<_>>>()?.join("+");
        Ok(options.map_or_else(|| files.clone(), |options| format!("{files},{options}")))
    }

    /// For how long it observes, if that was specified.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// The maximum number of rows of each table of its report, in human-readable output.
    pub(crate) fn top(&self) -> Option<usize> {
        self.top
    }

    /// Its name: its file's name without the extension.
    pub(crate) fn name(&self) -> String {
        stem(&self.file)
    }

    /// Whether it is a script with these contents. The names of pipes do not tell.
    fn is_script(&self, bytes: &[u8]) -> bool {
        match self.file.extension() {
            Some(extension) => extension == "mm",
            None => !may_be_module(bytes),
        }
    }

    /// Returns the module: read, or compiled from a script.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let bytes = read(&self.file)?;
        if !self.is_script(&bytes) {
            return read_module(&self.file);
        }
        let source = whamm::Source::from_bytes(self.file.display().to_string(), bytes);
        let source = source.map_err(Failure::new)?;
        let library = |path: &PathBuf| {
            Ok(whamm::LibraryFile { name: stem(path), module: stem(path), bytes: read(path)? })
        };
        let libraries = self.libraries.iter().map(library).collect::<Result<Vec<_>, Failure>>()?;
        let options = whamm::Options {
            destination: whamm::Destination::Console,
            ..whamm::Options::default()
        };
        match whamm::compile_monitor(&[source], &libraries, &options) {
            Ok(output) => {
                if !output.diagnostics.to_string().is_empty() {
                    super::complain(&output.diagnostics);
                }
                Ok(output.module)
            }
            Err(said) => Err(Failure::new(said)),
        }
    }

    /// Returns it with its module and libraries, to be stored in a file.
    pub(crate) fn pack(&self, text: &str) -> Result<Packed, Failure> {
        let library = |path: &PathBuf| Ok((stem(path), read(path)?));
        let libraries = self.libraries.iter().map(library).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Packed { text: text.to_owned(), module: self.bytes()?, libraries, is_called: false })
    }

    /// Compiles it, with its libraries.
    pub(crate) fn compile(&self, engine: &Engine) -> Result<Compiled, Failure> {
        let (engine, mut libraries) = (&engine.exempt()?, Vec::new());
        for path in &self.libraries {
            let named = |error: Error| {
                Failure::new(format!("monitor {}: {}: {error}", self.name(), path.display()))
            };
            libraries.push((stem(path), Module::new(engine, read(path)?).map_err(named)?));
        }
        let named = |error| Failure::new(format!("monitor {}: {error}", self.file.display()));
        let module = Module::new(engine, self.bytes()?).map_err(named)?;
        Ok(Compiled { chosen: self.clone(), module, libraries, has_threads: false })
    }
}

impl Compiled {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        self.chosen.name()
    }

    /// Whether it was requested with `toggle`, or an option that implies it.
    pub(crate) fn has_toggle(&self) -> bool {
        self.chosen.toggled
    }

    /// Prints remarks about how it was compiled, once.
    pub(crate) fn remark(&self, observer: &Observer) {
        if observer.is_foreign() {
            super::complain(format!(
                "monitor {}: the existing compiler has made it: labels of br_table are numbered from imm0",
                self.name()
            ));
        }
    }

    /// Creates an instance of it, and of its libraries, in a store in which the program runs. All
    /// instances of a monitor have the same switches.
    pub(crate) fn instantiate(
        &self,
        mut store: StoreContextMut<'_, World>,
        engine: &Engine,
        program: &Arc<Program>,
        (patience, switches): (Duration, &Switches),
    ) -> Result<Observer, Failure> {
        let mut linker = Linker::new(engine);
        wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.monitors)?;
        linker.allow_shadowing(true);
        linker.func_wrap(wasi::MODULE, "proc_exit", |_: i32| {
            Err::<(), _>(Error::host("a monitor does not end the program"))
        })?;
        add_to_linker(&mut linker, program, switches)?;
        let name = self.chosen.name();
        store.set_deadline(Some(patience));
        let linking = Linking::libraries(&name, &self.libraries, &mut linker, &mut store)?;
        let observer = Observer::new(&mut store, &linker, &name, &self.module, switches);
        store.set_deadline(None);
        let mut observer = observer.map_err(refused)?;
        linking.finish(observer.instance(), &mut store)?;
        observer.on_failure(|what| super::complain(what));
        observer.set_text(&self.chosen.text);
        observer.set_toggled(self.chosen.toggled);
        // Each thread has its own store.
        (!super::threads::are_wanted(program)).then(|| observer.set_alone());
        self.chosen.contained.then(|| observer.set_contained(patience));
        self.chosen.is_off.then(|| observer.set_off());
        self.chosen.calls.into_iter().for_each(|calls| observer.set_calls(calls));
        self.has_threads.then(|| observer.set_threads());
        Ok(observer)
    }
}

/// The world of monitors: their streams, and a variable by which the core library of Whamm 2.0.1
/// prints what it would write to a file.
pub(crate) fn world(streams: WasiCtxBuilder) -> Result<WasiCtx, BuildError> {
    streams.env("TO_CONSOLE", "true").build()
}

/// The output of the monitor of that number in the middle of a run, which is returned and not
/// printed.
pub(crate) fn said(
    mut store: StoreContextMut<'_, World>,
    observation: &Observation,
    monitor: usize,
    patience: Duration,
) -> Result<String, String> {
    let buffer = Buffer::with_limit(MOST_SAID);
    let streams = WasiCtx::builder()
        .stdout(Sink::Buffer(buffer.clone()))
        .stderr(Sink::Buffer(buffer.clone()));
    let world = world(streams).map_err(|error| error.to_string())?;
    let before = std::mem::replace(&mut store.data_mut().monitors, world);
    store.set_deadline(Some(patience));
    let (errors, mut printed) =
        printed_during(|| observation.report_of(store.as_context_mut(), Some(monitor)));
    store.set_deadline(None);
    store.data_mut().monitors = before;
    printed.extend(buffer.take());
    match errors.first() {
        Some(error) => Err(error.to_string()),
        None => Ok(String::from_utf8_lossy(&printed).into_owned()),
    }
}

/// The maximum size of a monitor's output in the middle of a run.
const MOST_SAID: usize = 256 << 20;

/// The limits of instances of monitors.
pub(crate) fn limits(bytes: usize, stack: usize) -> Limits {
    Limits { memory: bytes, stack, ..Limits::default() }
}

pub(crate) fn refused(error: ObserverError) -> Failure {
    Failure::new(error)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
