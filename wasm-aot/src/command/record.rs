//! `wasm-aot record`

use super::Failure;
use super::output::{self, TraceFile};
use super::run::Run;
use clap::Args;
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
        // A limit of file sizes ends the trace, but not the program.
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
        if output::is_same(self.run.program(), &output) {
            return Err(Failure::usage(format!(
                "{}: it would be read and written at once: name another file with -o",
                output.display()
            )));
        }
        self.run.recorded(&output)
    }
}

/// Moves the trace to its place and reports what was recorded.
pub(super) fn report(path: &Path, mut recorded: Recorded<TraceFile>) {
    // How the program ended is reported by its own exit code.
    if let Err(failure) = recorded.sink.place() {
        return super::complain(failure.said());
    }
    super::complain(recorded.summary(path));
}
