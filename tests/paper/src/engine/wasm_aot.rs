//! The product's engine, in a process of its own, which the experiment starts repeatedly.
//!
//! The engine is used as a library, so that its clocks and those of its peers start and stop at the
//! same places: compiling goes from the module's bytes to those of the compiled file, starting from
//! that file's name to the first instruction, running from there to the end.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;
use wasm_aot::monitor::{Choices, MonitorSet};
use wasm_aot::wasi::{self, WasiCtx};
use wasm_aot::{Config, Engine, Func, Linker, Module, Sites, Store};

/// The measurements of one process, in nanoseconds and bytes. Steps that it did not perform are
/// zero.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    /// The wall-clock time of compiling or running.
    pub(crate) wall: u64,
    /// The same as CPU time of all threads.
    pub(crate) cpu: u64,
    /// From the compiled file to the program's first instruction, by the clock.
    pub(crate) start: u64,
    /// The same as CPU time.
    pub(crate) start_cpu: u64,
    /// The largest growth of the process.
    pub(crate) memory: u64,
    /// The part of compiling in running.
    pub(crate) compile: u64,
    /// The part of the monitor's report in running.
    pub(crate) report: u64,
}

/// What the process is to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Act {
    /// A module into a file of machine code.
    Compile { figures: PathBuf, module: PathBuf, compiled: PathBuf },
    /// A file of machine code, as a program.
    Run(Box<Program>),
}

/// A file of machine code, as a program, and its world.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Program {
    pub(super) figures: PathBuf,
    /// NAME=VALUE, for the program's environment.
    #[arg(long)]
    env: Vec<String>,
    /// NAME=COMPILED: a module whose exports may be imported under a name.
    #[arg(long)]
    beside: Vec<String>,
    /// A monitor that looks at it, for programs that are not compiled yet.
    #[arg(long)]
    pub(super) monitor: Option<PathBuf>,
    /// What the monitor imports from, under the file's name.
    #[arg(long)]
    pub(super) library: Option<PathBuf>,
    /// The monitor's functions are called, and not written out.
    #[arg(long)]
    pub(super) called: bool,
    /// They are called through the host.
    #[arg(long)]
    pub(super) hosted: bool,
    /// A built-in monitor that looks at it: the program is compiled for it.
    #[arg(long)]
    builtin: Vec<String>,
    /// The module that is compiled and run instead of the compiled one.
    #[arg(long)]
    source: Option<PathBuf>,
    /// Writes as the peer does.
    #[arg(long)]
    first_piece: bool,
    pub(super) compiled: PathBuf,
    #[arg(trailing_var_arg = true)]
    pub(super) arguments: Vec<String>,
}

/// How our engine makes code.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Making {
    /// Without what keeps the processor from speculating past bounds checks.
    #[arg(long)]
    no_spectre: bool,
    /// Where probes can be switched on: `none`, `functions`, or where the engine has them by
    /// default.
    #[arg(long)]
    sites: Option<String>,
    /// With code that counts.
    #[arg(long)]
    counts: bool,
}

impl Making {
    fn engine(&self) -> Result<Engine, wasm_aot::Error> {
        let sites = match self.sites.as_deref() {
            Some("none") => Sites::NONE,
            Some("functions") => Sites::FUNCTIONS,
            Some("calls,branches") => Sites::CALLS | Sites::BRANCHES,
            Some("all") => Sites::ALL,
            _ => Sites::default(),
        };
        Engine::new(Config::new().spectre(!self.no_spectre).sites(sites).counts(self.counts))
    }
}

/// Performs the act, and writes its figures to a file.
pub(crate) fn act(act: &Act, making: &Making) -> Result<(), Box<dyn Error>> {
    let before = Resident::forget()?;
    let (path, mut figures) = match act {
        Act::Compile { figures, module, compiled } => (figures, compile(module, compiled, making)?),
        Act::Run(program) if program.monitor.is_some() => {
            (&program.figures, super::observed::run(program)?)
        }
        Act::Run(program) => (&program.figures, run(program)?),
    };
    figures.memory = Resident::now()?.most.saturating_sub(before.at_present);
    std::fs::write(path, serde_json::to_vec(&figures)?)?;
    Ok(())
}

fn compile(module: &Path, compiled: &Path, making: &Making) -> Result<Figures, Box<dyn Error>> {
    let bytes = std::fs::read(module)?;
    let engine = making.engine()?;
    let clock = Clock::start();
    let code = Module::precompile(&engine, bytes)?;
    let figures = clock.stop();
    std::fs::write(compiled, code)?;
    Ok(figures)
}

fn run(program: &Program) -> Result<Figures, Box<dyn Error>> {
    let pair = |word: &str| {
        word.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).ok_or("an option without =")
    };
    let clock = Clock::start();
    let monitors = MonitorSet::new(Choices::new(program.builtin.iter().map(String::as_str))?)?;
    let engine = Engine::new(monitors.configure(&mut Config::new()))?;
    let module = match &program.source {
        Some(source) => monitors.compile(&engine, std::fs::read(source)?)?,
        None => {
            let module = Module::from_file(&engine, &program.compiled)?;
            let is_alone = program.builtin.is_empty();
            if is_alone { module } else { monitors.recompile(&engine, &module)? }
        }
    };
    let mut linker: Linker<WasiCtx> = Linker::new(&engine);
    wasi::add_to_linker(&mut linker, |world| world)?;
    if program.first_piece {
        super::first_piece::define(&mut linker)?;
    }
    let mut world = WasiCtx::builder().inherit_stdio().arg("program").args(&program.arguments);
    for word in &program.env {
        let (name, value) = pair(word)?;
        world = world.env(name, value);
    }
    let mut store = Store::new(&engine, world.build()?);
    for word in &program.beside {
        let (name, compiled) = pair(word)?;
        let instance = linker.instantiate(&mut store, &Module::from_file(&engine, compiled)?)?;
        linker.instance(&mut store, &name, instance)?;
    }
    let instance = linker.instantiate(&mut store, &module)?;
    let entry = instance.get_func(&mut store, "_start").ok_or("the program has no _start")?;
    let start = clock.stop();
    let (clock, own) = (Clock::start(), spent(ClockId::ThreadCPUTime));
    finish(entry, &mut store)?;
    std::hint::black_box(monitors.reports(None));
    let own = spent(ClockId::ThreadCPUTime) - own;
    let figures = clock.stop();
    // Separate threads compile functions for monitors at their first call.
    let compile = figures.cpu.saturating_sub(own);
    Ok(Figures { start: start.wall, start_cpu: start.cpu, compile, ..figures })
}

/// Runs a program to its end, which may be a call of `proc_exit`.
pub(super) fn finish<T: 'static>(entry: Func, store: &mut Store<T>) -> Result<(), wasm_aot::Error> {
    match entry.call(store, &[]) {
        Ok(_) | Err(wasm_aot::Error::Exit(0)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The wall clock and the CPU time of a span.
#[derive(Debug)]
pub(super) struct Clock {
    wall: Instant,
    cpu: u64,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { cpu: spent(ClockId::ProcessCPUTime), wall: Instant::now() }
    }

    pub(super) fn stop(self) -> Figures {
        Figures {
            wall: self.wall.elapsed().as_nanos() as u64,
            cpu: spent(ClockId::ProcessCPUTime) - self.cpu,
            ..Figures::default()
        }
    }
}

fn spent(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The resident memory of this process, now and at most, in bytes.
#[derive(Clone, Copy, Debug)]
struct Resident {
    at_present: u64,
    most: u64,
}

impl Resident {
    fn now() -> std::io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
        };
        let missing = || std::io::Error::other("/proc/self/status has no resident size");
        Ok(Self {
            at_present: of("VmRSS:").ok_or_else(missing)?,
            most: of("VmHWM:").ok_or_else(missing)?,
        })
    }

    /// Resets the maximum to the present value.
    fn forget() -> std::io::Result<Self> {
        std::fs::write("/proc/self/clear_refs", "5")?;
        Self::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_resident_for_a_while_is_remembered_until_it_is_forgotten() {
        let before = Resident::forget().unwrap();
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        assert!(Resident::now().unwrap().most >= before.at_present + (60 << 20));
        assert!(Resident::forget().unwrap().most < before.at_present + (32 << 20));
    }
}
