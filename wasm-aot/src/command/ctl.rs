//! `wasm-aot ctl`

use super::control::{ask, programs};
use super::{Failure, print};
use clap::{Args, Subcommand};

/// Ask a running program, or have it observed; without a process: list the programs that run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ctl {
    /// The process of `wasm-aot run`
    pid: Option<u32>,
    #[command(subcommand)]
    request: Option<Request>,
}

const EXAMPLES: &str = "Examples:
  wasm-aot ctl                                which programs run
  wasm-aot ctl 4711 attach hotness,top=20     count from now on …
  wasm-aot ctl 4711 report                    … look …
  wasm-aot ctl 4711 detach hotness            … and run on as before
  wasm-aot ctl 4711 burst 10ms 990ms          count one per cent of the time";

#[derive(Debug, Subcommand)]
enum Request {
    /// What it runs, and what is attached
    Status,
    /// Attach a monitor, see `wasm-aot monitors`
    Attach {
        /// NAME[,OPTION[=VALUE]]…
        monitor: String,
    },
    /// Detach a monitor, or all
    Detach {
        /// Its name, or all
        monitor: String,
    },
    /// Switch attached monitors on again, or one that is a module
    On {
        /// The name of a module that was given as --monitor FILE,toggle
        monitor: Option<String>,
    },
    /// Switch attached monitors off, but keep what they have seen, or one that is a module
    Off {
        /// The name of a module that was given as --monitor FILE,toggle
        monitor: Option<String>,
    },
    /// Switch attached monitors on and off in turn; `burst none` ends it
    Burst {
        /// How long on, as 10ms, or none
        on: String,
        /// How long off
        off: Option<String>,
    },
    /// What attached monitors have seen so far
    Report {
        /// One of them
        monitor: Option<String>,
        /// As JSON
        #[arg(long, conflicts_with = "csv")]
        json: bool,
        /// As rows of values separated by commas
        #[arg(long)]
        csv: bool,
    },
    /// How many places there are where probes can be switched on
    Sites,
}

impl Ctl {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Some(pid) = self.pid else {
            let each = programs().into_iter().filter_map(|pid| Some(format!("{pid}  {}\n", program(pid)?)));
            return print(each.collect::<String>());
        };
        let line = match self.request.unwrap_or(Request::Status) {
            Request::Status => "status".to_owned(),
            Request::Attach { monitor } => format!("attach {monitor}"),
            Request::Detach { monitor } => format!("detach {monitor}"),
            Request::On { monitor } => format!("on {}", monitor.unwrap_or_default()),
            Request::Off { monitor } => format!("off {}", monitor.unwrap_or_default()),
            Request::Burst { on, off } => format!("burst {on} {}", off.unwrap_or_default()),
            Request::Report { monitor, json, csv } => {
                let format = if json {
                    "json"
                } else if csv {
                    "csv"
                } else {
                    "text"
                };
                format!("report {format} {}", monitor.unwrap_or_default())
            }
            Request::Sites => "sites".to_owned(),
        };
        print(ask(pid, &line).map_err(Failure::new)?)
    }
}

/// What a process runs.
fn program(pid: u32) -> Option<String> {
    let status = ask(pid, "status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("program")).map(|program| program.trim().to_owned())
}
