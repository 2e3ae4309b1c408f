//! `wasm-aot replay`

use super::output::{is_same, write};
use super::summary::Summary;
use super::traces::Events;
use super::{Failure, Making, print, read};
use clap::Args;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use wasm_aot::instrument::runtime::binary;
use wasm_aot::replaying::{self, Divergence, HostFailed};
use wasm_aot::trace::{Generation, Program, generate, javascript};
use wasm_aot::{Error, Module, Store};

/// Make a module that replays a recorded run without a host, or check a trace
///
/// The module imports nothing and exports `_start`, which replays the run on any engine. The
/// program's exports keep their names. With --check the module compares the program with the trace.
/// It then exports the globals `replay:event`, the number of events that have passed, and
/// `replay:wrong`, which is 0 or the kind of difference (1 an argument, 2 a result, 3 the order, 4
/// a value, 5 a trap), and it traps at the first difference.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare with the trace; without --output, run it here and report the first difference
    #[arg(long)]
    check: bool,
    /// Make a script for node and browsers that contains the program and a player of the trace; it
    /// can also replay what a module without imports cannot
    #[arg(long, requires = "output")]
    js: bool,
    /// Run the program under its trace and the replay, and compare exact counts: instructions,
    /// opcodes, branch directions, every place, and memory
    #[arg(long, conflicts_with = "js")]
    summary: bool,
    #[command(flatten)]
    making: Making,
    /// The trace
    trace: PathBuf,
    /// The recorded module, if the trace does not contain it
    module: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  wasm-aot record -o run.r3 app.wasm input.txt    record a run …
  wasm-aot replay run.r3 -o bench.wasm            … make a benchmark of it …
  wasmtime bench.wasm                             … and run it anywhere
  wasm-aot replay --check run.r3                  compare the program with its trace
  wasm-aot replay --summary run.r3                how representative is it?
  wasm-aot run --monitor hotness run.r3           what did it execute?";

impl Replay {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let is_input = |output: &Path| {
            is_same(output, &self.trace)
                || self.module.as_ref().is_some_and(|module| is_same(output, module))
        };
        if let Some(output) = self.output.as_deref().filter(|output| is_input(output)) {
            return Err(Failure::usage(format!(
                "{}: what is replayed would be overwritten: name another file with -o",
                output.display()
            )));
        }
        let events = Events::open_of(&self.trace, self.module.as_deref())?;
        if (self.check || self.summary) && events.is_partial() {
            let option = if self.check { "--check" } else { "--summary" };
            return Err(Failure::usage(format!(
                "{}: a trace in Wasm-R3's format lacks arguments and some results: omit {option}",
                self.trace.display()
            )));
        }
        let program = events.program().clone();
        let module = recorded_module(&program, &self.trace, self.module.as_deref())?;
        match &self.output {
            Some(output) => self.make(&module, events, output)?,
            None if self.check => self.compare(&module, events)?,
            None if self.summary => {}
            None => {
                let what =
                    "replay: name a file for the module with -o, or use --check or --summary";
                return Err(Failure::usage(what));
            }
        }
        if self.summary { self.summarize(&module) } else { Ok(()) }
    }

    /// Reports how similar the replay and the run are; the exit code is 1 if they differ.
    fn summarize(&self, module: &[u8]) -> Result<(), Failure> {
        let open = || Events::open_of(&self.trace, self.module.as_deref());
        let summary = Summary::new(&self.making, module, &self.trace, open)?;
        print(summary.text())?;
        if summary.is_equal() { Ok(()) } else { Err(Failure::silent(1)) }
    }

    fn make(&self, module: &[u8], events: Events, output: &Path) -> Result<(), Failure> {
        let generation = Generation { is_checked: self.check };
        let made = match self.js {
            true => javascript(module, events, generation).map(String::into_bytes),
            false => generate(module, events, generation),
        }
        .map_err(|error| Failure::new(format!("{}: {error}", self.trace.display())))?;
        write(output, &made).map_err(|error| Failure::new(format!("{}: {error}", output.display())))
    }

    /// Runs the program with the trace as its host.
    fn compare(&self, module: &[u8], events: Events) -> Result<(), Failure> {
        let engine = self.making.engine()?;
        let trace = self.trace.display();
        let module = Module::new(&engine, module)
            .map_err(|error| Failure::new(format!("{trace}: {error}")))?;
        let mut store = Store::new(&engine, ());
        match replaying::replay(&mut store, &module, events, None) {
            Ok(()) | Err(Error::Exit(_) | Error::Trap(_) | Error::Exception(_)) => {}
            Err(Error::Host(error)) if error.is::<HostFailed>() => {}
            Err(Error::Host(error)) if error.is::<Divergence>() => {
                return Err(Failure::new(format!("{trace}: {error}{}", store.host_failure())));
            }
            Err(error) => return Err(Failure::new(format!("{trace}: {error}"))),
        }
        let so_far = self.ending()?.map_or(String::new(), |ending| format!(" so far: {ending}"));
        print(format!("{trace}: the program behaves as recorded{so_far}\n"))
    }

    /// Why the trace ends before the run did, if it does.
    fn ending(&self) -> Result<Option<String>, Failure> {
        let mut events = Events::open_of(&self.trace, self.module.as_deref())?;
        let read = events.try_for_each(|event| event.map(drop));
        read.map_err(|error| Failure::new(format!("{}: {error}", self.trace.display())))?;
        Ok(events.ending())
    }
}

/// The recorded module: the one that is named, or the one in the trace.
pub(super) fn recorded_module(
    program: &Program,
    trace: &Path,
    named: Option<&Path>,
) -> Result<Vec<u8>, Failure> {
    let Some(path) = named else {
        let inside = program.module_or(None).map(Cow::into_owned);
        return inside.map_err(|_| {
            Failure::usage(format!(
                "{}: the trace does not contain the module: name the recorded module after it",
                trace.display()
            ))
        });
    };
    let named =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let bytes = read(path)?;
    let bytes = binary(&bytes).map_err(|error| named(&error))?;
    program.module_or(Some(&bytes)).map(Cow::into_owned).map_err(|error| named(&error))
}
