//! `wasm-aot record`

use super::Failure;
use super::run::Run;
use clap::Args;
use std::fs::File;
use std::path::{Path, PathBuf};
use wasm_aot::recording::Recorded;

/// Run a program and record what passes between it and its host
///
/// The trace contains the program. `wasm-aot run TRACE` replays the run, under any monitor, and
/// `wasm-aot replay TRACE -o BENCH.wasm` makes a module of it that needs no host. Recording a
/// replayed trace gives the same trace.
#[derive(Debug, Args)]
pub(crate) struct Record {
    /// Trace file [default: the program's name with .r3, in the current directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Receive traces from browsers and node on this port of this machine, into the folder -o; the
    /// program is the script that sends them, made by `whamm record --glue js`
    #[arg(long, value_name = "PORT")]
    serve: Option<u16>,
    #[command(flatten)]
    run: Run,
}

impl Record {
    pub(crate) fn run(self) -> Result<(), Failure> {
        // A limit of files' sizes ends the trace, and not the program.
        super::signal::survive_file_size_limits();
        if let Some(port) = self.serve {
            let folder = self.output.unwrap_or_else(|| ".".into());
            return super::serve::serve(port, self.run.program(), &folder);
        }
        let output = match self.output {
            Some(output) => output,
            None => {
                let mut name = self.run.program().file_stem().unwrap_or_default().to_owned();
                name.push(".r3");
                name.into()
            }
        };
        if self.run.program() == output {
            return Err(Failure::usage(format!(
                "{}: it would be read and written at once: name another file with -o",
                output.display()
            )));
        }
        self.run.recorded(&output)
    }
}

/// Makes the file, before the program has run for it.
pub(super) fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| {
        Failure::new(format!("{}: {error}: name a writable file with -o", path.display()))
    })
}

/// Tells what was recorded.
pub(super) fn tell(path: &Path, recorded: &Recorded<File>) {
    let (path, events) = (path.display(), recorded.events);
    match &recorded.failure {
        None => super::complain(format!("{path}: {events} events recorded")),
        Some(why) => super::complain(format!(
            "{path}: the trace ends after {events} events, and the program went on: {why}"
        )),
    }
}
