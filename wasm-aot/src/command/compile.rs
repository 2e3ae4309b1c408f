//! `wasm-aot compile`

use super::modules::{Chosen, World};
use super::prof::Prof;
use super::{Failure, Making, about, output, read_module};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasm_aot::observer::{Needs, Program, Switches};
use wasm_aot::wasi::WasiCtx;
use wasm_aot::{AsContextMut, Engine, Module, Store};

/// Compile a module to a file of machine code (.aot)
#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// The module: .wasm or .wat
    module: PathBuf,
    /// Include a monitor, which observes the program whenever it runs:
    /// FILE[+LIBRARY]…[,OPTION[=VALUE]]…, a module or a script (may be repeated)
    #[arg(long, value_name = "MONITOR")]
    monitor: Vec<String>,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    making: Making,
}

impl Compile {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let file = self.output.unwrap_or_else(|| self.module.with_extension("aot"));
        if output::is_same(&file, &self.module) {
            return Err(Failure::usage(format!(
                "{}: the module would be overwritten: name another file with -o",
                file.display()
            )));
        }
        let bytes = read_module(&self.module)?;
        let engine = self.making.engine()?;
        let (monitors, counts) = match &self.monitor[..] {
            [] => (Vec::new(), false),
            monitors => packed(&engine, &bytes, monitors, &self.module)?,
        };
        let engine = if counts {
            self.making.engine_with(|config| _ = config.counts(true))?
        } else {
            engine
        };
        let compiled =
            Module::precompile_watched(&engine, bytes, &monitors).map_err(about(&self.module))?;
        output::write_executable(&file, &compiled)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))
    }
}

/// Monitors in the form in which they are stored in a file, and whether one of them needs code that
/// counts. Checks that the names of their exports are understood.
fn packed(
    engine: &Engine,
    program: &[u8],
    monitors: &[String],
    path: &Path,
) -> Result<(Vec<u8>, bool), Failure> {
    let program = Program::new(engine, program).map_err(about(path))?;
    let (mut all, mut counts) = (Vec::new(), false);
    for text in monitors {
        if !Chosen::is_file(text) {
            return Err(Failure::usage(format!(
                "--monitor {text}: only modules and scripts can be compiled in; use --monitor with `wasm-aot run`"
            )));
        }
        let mut packed = Chosen::parse(text)?.pack(text)?;
        let world = || WasiCtx::builder().build().map_err(Failure::new);
        let mut store = Store::new(
            engine,
            World { program: world()?, monitors: world()?, threads: None, prof: Prof::default() },
        );
        let observer = packed.compile(engine)?.instantiate(
            store.as_context_mut(),
            engine,
            &program,
            (PATIENCE, &Switches::default()),
        )?;
        // An error at the program's places is reported when it runs.
        let needs = observer.needs(&mut store, &program).unwrap_or(Needs::Calls);
        packed.is_called = needs == Needs::Calls;
        counts |= needs == Needs::Counts;
        all.push(packed);
    }
    Ok((postcard::to_stdvec(&all).map_err(Failure::new)?, counts))
}

/// Time-out for a monitor to start.
const PATIENCE: Duration = Duration::from_secs(30);
