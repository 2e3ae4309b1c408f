//! Monitors that are modules or scripts: `run --monitor counts.wasm+library.wasm`, `run --monitor counts.mm`.

use super::{Failure, read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasm_aot::observer::{Observer, ObserverError, Program, Switches, add_to_linker};
use wasm_aot::wasi::{self, WasiCtx};
use wasm_aot::{Engine, Error, Limits, Linker, Module, Store};

/// The worlds of a program and of those that look at it, which share a store and nothing else.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) program: WasiCtx,
    pub(crate) monitors: WasiCtx,
}

/// A monitor as it was asked for: a module or a script, with libraries.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    file: PathBuf,
    libraries: Vec<PathBuf>,
    /// Whether it can be switched while the program runs.
    toggled: bool,
}

impl Chosen {
    /// Whether that is a file, and not the name of a built-in monitor.
    pub(crate) fn is_file(text: &str) -> bool {
        let first = text.split(['+', ',']).next().unwrap_or_default();
        let extension = Path::new(first).extension().and_then(std::ffi::OsStr::to_str);
        matches!(extension, Some("wasm" | "wat" | "mm")) || first.contains('/')
    }

    /// Reads `FILE[+LIBRARY]…[,toggle]`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let (files, options) = text.split_once(',').unwrap_or((text, ""));
        let mut files = files.split('+').map(PathBuf::from);
        let file = files.next().unwrap_or_default();
        let mut chosen = Self { file, libraries: files.collect(), toggled: false };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option {
                "toggle" => chosen.toggled = true,
                other => return Err(Failure::usage(format!("--monitor {text}: no option {other}; a module has toggle"))),
            }
        }
        Ok(chosen)
    }

    /// What it is called: its file's name without the extension.
    fn name(&self) -> String {
        stem(&self.file)
    }

    /// The module: read, or compiled from a script.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let bytes = read(&self.file)?;
        if self.file.extension().is_none_or(|extension| extension != "mm") {
            return Ok(bytes);
        }
        let text = String::from_utf8(bytes).map_err(|_| Failure::new(format!("{}: a script is text", self.file.display())))?;
        let library = |path: &PathBuf| Ok(whamm::LibraryFile { name: stem(path), module: stem(path), bytes: read(path)? });
        let libraries = self.libraries.iter().map(library).collect::<Result<Vec<_>, Failure>>()?;
        let source = whamm::Source::new(self.file.display().to_string(), text);
        let options = whamm::Options { destination: whamm::Destination::Console, ..whamm::Options::default() };
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

    /// Instantiates it, with its libraries, in the store in which the program is going to run.
    pub(crate) fn instantiate(
        &self,
        engine: &Engine,
        store: &mut Store<World>,
        program: &std::sync::Arc<Program>,
        patience: Duration,
    ) -> Result<Observer, Failure> {
        let mut linker = Linker::new(engine);
        wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.monitors)?;
        linker.allow_shadowing(true);
        linker.func_wrap(wasi::MODULE, "proc_exit", |_: i32| Err::<(), _>(Error::host("a monitor does not end the program")))?;
        let switches = Switches::default();
        add_to_linker(&mut linker, program, &switches)?;
        for path in &self.libraries {
            let named = |error: Error| Failure::new(format!("monitor {}: {}: {error}", self.name(), path.display()));
            let library = Module::new(engine, read(path)?).map_err(named)?;
            let instance = linker.instantiate(&mut *store, &library).map_err(named)?;
            if instance.get_func(&mut *store, "_initialize").is_some() {
                let initialize = instance.get_typed_func::<(), ()>(&mut *store, "_initialize").map_err(named)?;
                initialize.call(&mut *store, ()).map_err(named)?;
            }
            linker.instance(&mut *store, &stem(path), instance).map_err(named)?;
        }
        let module = Module::new(engine, self.bytes()?)
            .map_err(|error| Failure::new(format!("monitor {}: {error}", self.file.display())))?;
        store.set_deadline(Some(patience));
        let observer = Observer::new(&mut *store, &linker, &self.name(), &module, &switches);
        store.set_deadline(None);
        let mut observer = observer.map_err(refused)?;
        observer.set_toggled(self.toggled);
        if observer.is_foreign() {
            super::complain(format!(
                "monitor {}: the existing compiler has made it: labels of br_table are numbered from imm0",
                self.name()
            ));
        }
        Ok(observer)
    }
}

/// What instances of monitors may take.
pub(crate) fn limits(bytes: usize, stack: usize) -> Limits {
    Limits { memory: bytes, stack, ..Limits::default() }
}

pub(crate) fn refused(error: ObserverError) -> Failure {
    Failure::new(error)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
