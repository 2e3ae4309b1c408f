//! `wasm-aot ctl`

use super::control::{ask, programs};
use super::modules::Chosen;
use super::monitors::Reporting;
use super::{Failure, print};
use clap::{Args, Subcommand};
use control::Request as Shared;
use control::registry::{Answering, NotOne, Tower};
use profiler::{Profile, TableOptions};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

/// Inspect or attach monitors to a running program; without arguments, list running programs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ctl {
    /// Process ID of `wasm-aot run`; may be omitted if only one program is running
    pid: Option<u32>,
    #[command(subcommand)]
    request: Option<Request>,
}

/// The minimum interval between reports.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

const NOBODY: &str = "no running program of `wasm-aot run` answers";

const EXAMPLES: &str = "Examples:
  wasm-aot ctl                                list running programs
  wasm-aot ctl 4711 attach hotness,top=20     count from now on …
  wasm-aot ctl 4711 report                    … print the counts …
  wasm-aot ctl 4711 detach hotness            … and stop counting
  wasm-aot ctl 4711 only 'parse_*' main       observe these functions only
  wasm-aot ctl 4711 snapshot -o now.profile   a profile, for fastinst report
  wasm-aot ctl 4711 burst 10ms 990ms          count one per cent of the time
  wasm-aot ctl 4711 burst 1000000             count this many events, then stop
  wasm-aot ctl 4711 attach ways.mm            a script or a module of your own
  wasm-aot ctl 4711 report ways --every 1s    its report, every second
  wasm-aot ctl 4711 off 'ways:opcode:br_if@parse_*'    except at these places

only, exclude, budget and reset restart attached monitors; snapshot is the
profile of the monitor latency or profile. fastinst ctl and top work for
WebAssembly programs, too.";

#[derive(Debug, Subcommand)]
enum Request {
    /// Show the program and its attached monitors
    Status,
    /// Attach a monitor (see `wasm-aot monitors`)
    Attach {
        /// NAME[,OPTION[=VALUE]]…, or FILE[+LIBRARY]…[,OPTION[=VALUE]]…, a module or a script
        monitor: String,
    },
    /// Detach a monitor or all
    Detach {
        /// The monitor's name, or all
        monitor: String,
    },
    /// Switch monitors on again, or probes of a monitor that is a module
    On {
        /// For a module: NAME[:RULE][@FUNCTION][+OFFSET]. RULE is a pattern for the part of its
        /// export's name after wasm:, such as opcode:br_if or func:*; FUNCTION is a pattern for
        /// function names, or a number; OFFSET is an instruction's offset in the function's body
        which: Option<String>,
    },
    /// Switch monitors off and keep their results, or probes of a monitor that is a module
    Off {
        /// For a module: NAME[:RULE][@FUNCTION][+OFFSET], see `on`
        which: Option<String>,
    },
    /// Switch monitors on and off in turn; `burst none` ends this
    Burst {
        /// Time on, such as 10ms, or number of events, such as 100000; or none
        on: String,
        /// Time off; after a number of events, off for good if omitted
        off: Option<String>,
    },
    /// Print reports of attached monitors so far
    Report {
        /// Only this monitor
        monitor: Option<String>,
        /// Print repeatedly until the program ends, such as every 1s or 500ms
        #[arg(long, value_name = "TIME")]
        every: Option<String>,
        #[command(flatten)]
        reporting: Reporting,
    },
    /// Show how each monitor is implemented in the program's code, and why nothing cheaper was
    /// possible
    Explain,
    /// Record an embedder's program from its next quiet point, when none of its functions is
    /// executing
    Record {
        /// Trace file, which must not exist yet
        #[arg(short, long, value_name = "FILE", required_unless_present = "end")]
        output: Option<PathBuf>,
        /// End the recording
        #[arg(long, conflicts_with = "output")]
        end: bool,
    },
    /// Show the number of places where probes can be switched on
    #[command(alias = "sites")]
    Probes,
    /// Observe only functions that match these patterns; without patterns, all
    Only {
        /// A glob, such as parse_*
        patterns: Vec<String>,
    },
    /// Exclude functions that match these patterns; without patterns, none
    Exclude {
        /// A glob, such as parse_*
        patterns: Vec<String>,
    },
    /// Set the share of CPU time that the monitor latency may take
    Budget {
        /// Such as 2% or 0.02
        share: String,
    },
    /// Print the profile so far, or write it to a file (monitors latency and profile)
    Snapshot(Snapshot),
    /// Clear the results of attached monitors
    Reset,
    /// Detach all monitors
    Stop,
}

/// A profile, written to a file or printed.
#[derive(Debug, Args)]
struct Snapshot {
    /// Profile file, for fastinst report; with --json the file for that
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON; `fastinst ctl PID snapshot` has all formats
    #[arg(long)]
    json: bool,
    /// Number of functions in the table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    #[command(flatten)]
    colors: manual::Colors,
}

impl Ctl {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let own = self.pid;
        let pid = || own.map_or_else(only, Ok);
        let (mut again, mut reporting) = (None, None);
        let line = match self.request {
            None if own.is_none() => return list(),
            None => "status".to_owned(),
            Some(request) => match request {
                Request::Status => "status".to_owned(),
                // The program may have another working directory.
                Request::Attach { monitor } if Chosen::is_file(&monitor) => {
                    let monitor = Chosen::absolute(&monitor)
                        .map_err(|error| Failure::new(format!("{monitor}: {error}")))?;
                    format!("attach {monitor}")
                }
                Request::Attach { monitor } => format!("attach {monitor}"),
                Request::Detach { monitor } => format!("detach {monitor}"),
                Request::On { which } => format!("on {}", which.unwrap_or_default()),
                Request::Off { which } => format!("off {}", which.unwrap_or_default()),
                Request::Burst { on, off } => format!("burst {on} {}", off.unwrap_or_default()),
                Request::Report { monitor, every, reporting: how } => {
                    again = every.as_deref().map(interval).transpose()?;
                    let line =
                        format!("report {} {}", how.format().name(), monitor.unwrap_or_default());
                    reporting = Some(how);
                    line
                }
                Request::Explain => "explain".to_owned(),
                Request::Probes => Shared::Probes.line(),
                Request::Only { patterns } => Shared::Only(patterns).line(),
                Request::Exclude { patterns } => Shared::Exclude(patterns).line(),
                Request::Budget { share } => Shared::parse(&format!("budget {share}"))
                    .map_err(|error| Failure::usage(error.to_string()))?
                    .line(),
                Request::Snapshot(snapshot) => return snapshot.run(pid()?),
                Request::Reset => Shared::Reset.line(),
                Request::Stop => Shared::Stop.line(),
                // The program may have another working directory.
                Request::Record { output: Some(output), .. } => {
                    let output = std::path::absolute(&output)
                        .map_err(|error| Failure::new(format!("{}: {error}", output.display())))?;
                    format!("record {}", output.display())
                }
                Request::Record { output: None, .. } => "record end".to_owned(),
            },
        };
        let pid = pid()?;
        let reporting = reporting.map(|how| how.begin(pid)).transpose()?;
        let show = |text: String| match &reporting {
            Some(reporting) => reporting.show(&text),
            None => print(text),
        };
        show(text(pid, &line).map_err(Failure::new)?)?;
        while let Some(time) = again {
            std::thread::sleep(time);
            match text(pid, &line) {
                Ok(text) => show(text)?,
                Err(why) if stays(pid) => return Err(Failure::new(why)),
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// The interval at which a report is repeated.
fn interval(text: &str) -> Result<Duration, Failure> {
    let time = humantime::parse_duration(text).ok().filter(|time| *time >= LEAST_INTERVAL);
    time.ok_or_else(|| {
        Failure::usage(format!("--every {text}: give a time of 10ms or more, such as 1s"))
    })
}

/// Lists the programs that answer.
fn list() -> Result<(), Failure> {
    match Answering::of(&[Tower::Wasm]).lines() {
        Some(lines) => print(lines),
        None => {
            super::complain(NOBODY);
            Ok(())
        }
    }
}

/// Returns a program's answer, as text.
fn text(pid: u32, line: &str) -> Result<String, String> {
    ask(pid, line).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

impl Snapshot {
    fn run(&self, pid: u32) -> Result<(), Failure> {
        let bytes = ask(pid, &Shared::Snapshot.line()).map_err(Failure::new)?;
        let bytes = match (&self.output, self.json) {
            (Some(_), false) => bytes,
            _ => self.printed(pid, &bytes)?.into_bytes(),
        };
        let Some(path) = &self.output else {
            return print(bytes);
        };
        let failed = |error| Failure::new(format!("{}: {error}", path.display()));
        super::output::write(path, &bytes).map_err(failed)?;
        print(format!("written to {}\n", path.display()))
    }

    /// The profile as text.
    fn printed(&self, pid: u32, bytes: &[u8]) -> Result<String, Failure> {
        let profile = Profile::from_file(bytes)
            .map_err(|error| Failure::new(format!("process {pid} has sent no profile: {error}")))?;
        if self.json {
            return Ok(profile.json());
        }
        let terminal = std::io::stdout().is_terminal();
        let (width, color) = (manual::columns(terminal), self.colors.are_on(terminal));
        let rows = self.rows;
        Ok(profile.table(&TableOptions { width, color, rows, ..TableOptions::default() }))
    }
}

/// Whether a program continues to run, and is not about to end.
fn stays(pid: u32) -> bool {
    (0..20).all(|_| {
        std::thread::sleep(Duration::from_millis(25));
        programs().contains(&pid)
    })
}

/// The only running program, for commands that name none.
fn only() -> Result<u32, Failure> {
    match Answering::of(&[Tower::Wasm]).only() {
        Ok(program) => Ok(program.process as u32),
        Err(NotOne::None) => Err(Failure::new(NOBODY)),
        Err(NotOne::Several(which)) => Err(Failure::usage(which)),
    }
}
