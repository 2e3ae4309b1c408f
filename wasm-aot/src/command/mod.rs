//! The command line: its definition, and the dispatch to the commands.
//!
//! Exit codes: the program's own, of which the lowest eight bits count (1 if these alone are 0); 1
//! if something was refused or a script has failed; 2 for a wrong command line; 126 if a program
//! cannot be run, 127 if there is none; 134 for a trap, as if the program had aborted, and for a
//! time-out; 128 plus the number of a signal if a signal has ended it.

mod burst;
mod compile;
mod control;
mod ctl;
mod input;
mod inspect;
mod joining;
mod linking;
mod manual;
mod modules;
mod monitors;
mod output;
mod prof;
mod record;
mod reduce;
mod replay;
mod run;
mod serve;
mod signal;
mod spell;
mod summary;
mod threads;
mod traces;
mod verify;
mod wast;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wasm_aot::{Config, Cpu, Engine, Error, Optimize, Proposal, Sites, Specification};

/// Compiles WebAssembly ahead of time and runs it.
#[derive(Debug, Parser)]
#[command(name = "wasm-aot", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  wasm-aot run app.wasm --verbose input.txt     run a program with arguments
  wasm-aot run --dir . --env LANG=C app.wasm    grant a folder, set a variable
  wasm-aot compile app.wasm -o app.aot          compile once …
  wasm-aot run app.aot                          … and start in a millisecond
  wasm-aot inspect --disas main app.aot         machine code beside Wasm
  wasm-aot run --invoke add math.wat 1 2        call one function
  wasm-aot run --monitor hotness app.wasm       count each instruction
  wasm-aot ctl 4711 attach hotness              … in a running program
  wasm-aot record -o run.r3 app.wasm input.txt  record a run …
  wasm-aot run --monitor hotness run.r3         … replay it under a monitor …
  wasm-aot replay run.r3 -o bench.wasm          … or make a benchmark of it

Exit status: the program's (its lowest eight bits, or 1 if these alone are 0);
1 for a refused input or a failed script; 2 for a wrong command line; 126 if the
program cannot be run, 127 if it does not exist; 134 for a trap or a time-out;
128 plus the number of a signal that ended it";

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a module to a file of machine code (.aot)
    Compile(compile::Compile),
    /// Run a program (.wasm, .wat, .aot), or replay a recorded run
    Run(Box<run::Run>),
    /// Run a program and record what passes between it and its host
    Record(Box<record::Record>),
    /// Make a module that replays a recorded run without a host, or check a trace
    Replay(replay::Replay),
    /// Remove redundant events from a raw recording
    Reduce(reduce::Reduce),
    /// Show and compare traces
    Trace(traces::Trace),
    /// Show the contents of a module or an .aot file
    Inspect(inspect::Inspect),
    /// Check that an .aot file's code is what the module inside compiles to
    Verify(verify::Verify),
    /// Run .wast scripts of the specification's test suite
    Wast(wast::Wast),
    /// Inspect or attach monitors to a running program
    Ctl(ctl::Ctl),
    /// List built-in monitors
    Monitors(monitors::Monitors),
    /// Print manual pages or shell completions
    Manual(::manual::Manual),
}

/// How code is made.
#[derive(Clone, Debug, Args)]
pub(crate) struct Making {
    /// Optimisation level
    #[arg(long, value_name = "HOW", default_value = "speed")]
    opt: Opt,
    /// Processors that the code is for
    #[arg(long, value_name = "CPU", default_value = "native")]
    cpu: Processor,
    /// Omit the protection against speculation past bounds checks
    #[arg(long)]
    no_spectre: bool,
    /// Check bounds at every access instead of reserving eight gigabytes of addresses for each
    /// memory
    #[arg(long)]
    no_reservations: bool,
    /// Where probes can be switched on while the program runs (several, separated by commas)
    #[arg(long, value_name = "WHERE", default_value = "loops", value_delimiter = ',')]
    sites: Vec<Where>,
    /// Version of the specification that modules must conform to
    #[arg(long, value_name = "VERSION", default_value = "latest")]
    spec: Spec,
    /// Reject modules that use this proposal (several, separated by commas)
    #[arg(long, value_name = "PROPOSAL", value_delimiter = ',')]
    without: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Opt {
    /// Compile quickly
    None,
    /// Run quickly
    Speed,
    /// Run quickly, and keep code small
    #[value(name = "speed_and_size")]
    SpeedAndSize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Processor {
    /// This machine's
    Native,
    /// With SSE4.2
    #[value(name = "x86-64-v2")]
    V2,
    /// With AVX2
    #[value(name = "x86-64-v3")]
    V3,
    /// With AVX-512
    #[value(name = "x86-64-v4")]
    V4,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Where {
    /// Nowhere
    None,
    /// At function entries
    Functions,
    /// At function entries and loops
    Loops,
    /// At these, and before calls
    Calls,
    /// At these, and before branches
    Branches,
    /// At these, and before memory accesses
    Memory,
    /// At these, and before every instruction
    All,
}

impl Where {
    fn sites(self) -> Sites {
        match self {
            Self::None => Sites::NONE,
            Self::Functions => Sites::FUNCTIONS,
            Self::Loops => Sites::LOOPS,
            Self::Calls => Sites::CALLS,
            Self::Branches => Sites::BRANCHES,
            Self::Memory => Sites::MEMORY,
            Self::All => Sites::ALL,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spec {
    /// WebAssembly 1.0
    #[value(name = "1.0")]
    V1,
    /// WebAssembly 2.0
    #[value(name = "2.0")]
    V2,
    /// WebAssembly 3.0 and later proposals
    Latest,
}

impl Making {
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        self.engine_with(|_| ())
    }

    /// Creates an engine with additional configuration.
    pub(crate) fn engine_with(&self, more: impl FnOnce(&mut Config)) -> Result<Engine, Failure> {
        let mut config = Config::new();
        more(&mut config);
        config
            .sites(
                self.sites
                    .iter()
                    .map(|place| place.sites())
                    .fold(Sites::NONE, |all, more| all | more),
            )
            .optimize(match self.opt {
                Opt::None => Optimize::None,
                Opt::Speed => Optimize::Speed,
                Opt::SpeedAndSize => Optimize::SpeedAndSize,
            })
            .cpu(match self.cpu {
                Processor::Native => Cpu::Native,
                Processor::V2 => Cpu::V2,
                Processor::V3 => Cpu::V3,
                Processor::V4 => Cpu::V4,
            })
            .specification(match self.spec {
                Spec::V1 => Specification::V1,
                Spec::V2 => Specification::V2,
                Spec::Latest => Specification::Latest,
            })
            .spectre(!self.no_spectre)
            .reservations(!self.no_reservations);
        for name in &self.without {
            let Some(proposal) = Proposal::ALL.iter().find(|proposal| proposal.name() == name)
            else {
                let known: Vec<&str> =
                    Proposal::ALL.iter().map(|proposal| proposal.name()).collect();
                return Err(Failure::usage(format!(
                    "--without {name}: no such proposal; known are {}",
                    known.join(", ")
                )));
            };
            config.proposal(*proposal, false);
        }
        let engine = Engine::new(&config)?;
        if !self.no_reservations && !engine.has_reservations() {
            complain(
                "address space is limited (`ulimit -v`), so memories cannot be reserved: every access is checked instead",
            );
        }
        Ok(engine)
    }
}

/// Why the command fails: a line, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: Option<String>,
    code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl std::fmt::Display) -> Self {
        Self { message: Some(message.to_string()), code: 1 }
    }

    pub(crate) fn usage(message: impl std::fmt::Display) -> Self {
        Self { message: Some(message.to_string()), code: 2 }
    }

    pub(crate) fn with_code(message: impl std::fmt::Display, code: u8) -> Self {
        Self { message: Some(message.to_string()), code }
    }

    /// The message.
    pub(crate) fn said(self) -> String {
        self.message.unwrap_or_default()
    }

    /// The same failure for a program to be run, with the exit codes of shells: the program does
    /// not exist, or cannot be executed.
    pub(crate) fn of_program(self, path: &Path) -> Self {
        let is_missing = || {
            std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        match self.code {
            1 => Self { code: if is_missing() { 127 } else { 126 }, ..self },
            _ => self,
        }
    }

    /// A failure without a message.
    pub(crate) fn silent(code: u8) -> Self {
        Self { message: None, code }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

/// Prints to stdout. A closed pipe is not an error, but ends the command.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::silent(0)),
        Err(error) => Err(Failure::new(format!("cannot write to stdout: {error}"))),
    }
}

/// Prints a line to stderr, if there is one.
pub(crate) fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "wasm-aot: {line}");
}

/// A reason behind a colon. One that shows a name with a mark under it begins on a line of its own.
pub(crate) fn behind_colon(why: &str) -> String {
    let gap = if why.starts_with(' ') { '\n' } else { ' ' };
    format!(":{gap}{why}")
}

/// Returns the bytes of a file, or a line that says why it cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    input::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Whether a file begins as a module does, binary or text, or is empty.
pub(crate) fn may_be_module(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    bytes.starts_with(b"\0asm") || first.is_none_or(|first| matches!(first, b'(' | b';'))
}

/// Returns a module's bytes, binary or text. The error for other known formats names the format.
pub(crate) fn read_module(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read(path)?;
    if may_be_module(&bytes) || bytes.starts_with(b"\x7fELF") {
        return Ok(bytes);
    }
    let name = path.display();
    let extension = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let compiled = |language: &str, how: &str| {
        format!("{name}: this is {language}, not WebAssembly: compile it first, as with {how}")
    };
    Err(Failure::new(match extension {
        "c" | "h" => compiled("C", "clang --target=wasm32-wasi -o app.wasm"),
        "cc" | "cpp" | "cxx" | "hpp" => compiled("C++", "clang++ --target=wasm32-wasi -o app.wasm"),
        "rs" => compiled("Rust", "rustc --target wasm32-wasip1 -o app.wasm"),
        "go" => compiled("Go", "GOOS=wasip1 GOARCH=wasm go build -o app.wasm"),
        "mm" => format!("{name}: this is a script: run --monitor {name} PROGRAM"),
        _ => format!(
            "{name}: neither a WebAssembly module, which begins with \\0asm, nor the text of one"
        ),
    }))
}

/// Adds the file's name to an error.
pub(crate) fn about(path: &Path) -> impl Fn(Error) -> Failure {
    let path: PathBuf = path.to_owned();
    move |error| match error {
        Error::Artifact(message) => Failure::new(message),
        other => Failure::new(format!("{}: {other}", path.display())),
    }
}

pub(crate) fn main() -> ExitCode {
    let cli: Cli = ::manual::parse();
    let done = match cli.command {
        Command::Compile(compile) => compile.run(),
        Command::Run(run) => run.run(),
        Command::Record(record) => record.run(),
        Command::Replay(replay) => replay.run(),
        Command::Reduce(reduce) => reduce.run(),
        Command::Trace(trace) => trace.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Verify(verify) => verify.run(),
        Command::Wast(wast) => wast.run(),
        Command::Ctl(ctl) => ctl.run(),
        Command::Monitors(monitors) => monitors.run(),
        Command::Manual(manual) => manual::run(&manual),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message {
                complain(message);
            }
            ExitCode::from(failure.code)
        }
    }
}
