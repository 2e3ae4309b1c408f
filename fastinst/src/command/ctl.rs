//! `fastinst ctl`: queries and controls a program that is being profiled, through its control
//! socket.

use super::run::Kept;
use super::{Failure, attach, report};
use clap::Subcommand;
use control::registry::{Answering, NO_SOCKET, NotOne, Program, Tower};
use control::{Answer, Request};
use fastinst::symbols::demangled;
use profiler::Profile;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the agent of a program may take to make its socket.
const BEGINNING: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Process ID; may be omitted if only one program can be controlled
    process: Option<i32>,
    #[command(subcommand)]
    request: Option<Asked>,
}

const NOBODY: &str = "no program is being profiled, or none can be controlled";

const EXAMPLES: &str = "\
Examples:
  fastinst ctl                                  list programs that can be controlled
  fastinst ctl 4711                             status of one
  fastinst ctl 4711 only 'parse_*' '@libz*'     measure these functions only …
  fastinst ctl 4711 only                        … or all again
  fastinst ctl 4711 exclude 'std::*'            leave these out
  fastinst ctl 4711 budget 5%                   allow more overhead
  fastinst ctl 4711 snapshot                    the table so far
  fastinst ctl 4711 snapshot -o now.profile     the profile so far
  fastinst ctl 4711 off                         all probes off, profile kept …
  fastinst ctl 4711 on                          … on, with a new profile

Works for programs profiled by `fastinst run`, `fastinst attach` or the preload
library, and for those of `wasm-aot run`; `wasm-aot ctl` has further commands
for these. `on`, `only`, `exclude` and `reset` start a new profile, so that all
of its figures cover the same time.";

#[derive(Debug, Subcommand)]
enum Asked {
    /// Show what is measured, and what that has cost
    Status,
    /// Start measuring: again after `off`, or first in an inactive library
    On,
    /// Switch all probes off and keep the profile
    Off,
    /// Measure only functions that match these patterns; without patterns, all
    Only {
        /// A glob, /regex/, @library or file:
        patterns: Vec<String>,
    },
    /// Exclude functions that match these patterns; without patterns, none
    Exclude {
        /// A glob, /regex/, @library or file:
        patterns: Vec<String>,
    },
    /// Set the share of the program's CPU time that measuring may take
    Budget {
        /// Such as 2% or 0.02
        share: String,
    },
    /// Print the profile so far, or write it to a file
    Snapshot(Box<Kept>),
    /// Clear the profile
    Reset,
    /// List functions with probes, and the state of their probes
    Probes,
    /// End profiling, with a last profile
    Stop,
}

impl Asked {
    fn request(&self) -> Result<Request, Failure> {
        Ok(match self {
            Self::Status => Request::Status,
            Self::On => Request::On,
            Self::Off => Request::Off,
            Self::Only { patterns } => Request::Only(checked(patterns)?),
            Self::Exclude { patterns } => Request::Exclude(checked(patterns)?),
            Self::Budget { share } => Request::parse(&format!("budget {share}"))
                .map_err(|error| Failure::Usage(error.to_string()))?,
            Self::Snapshot(_) => Request::Snapshot,
            Self::Reset => Request::Reset,
            Self::Probes => Request::Probes,
            Self::Stop => Request::Stop,
        })
    }
}

/// Checks that patterns are valid.
fn checked(patterns: &[String]) -> Result<Vec<String>, Failure> {
    for pattern in patterns {
        fastinst::symbols::Pattern::parse(pattern)
            .map_err(|error| Failure::Usage(error.to_string()))?;
    }
    Ok(patterns.to_vec())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let request = args.request.as_ref().map(Asked::request).transpose()?;
    let process = match (args.process, &request) {
        (Some(process), _) => process,
        (None, Some(_)) => only()?,
        (None, None) => {
            list()?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let asked = args.request.as_ref().unwrap_or(&Asked::Status);
    let request = request.unwrap_or(Request::Status);
    let program = match find(process) {
        Ok(program) => program,
        Err(_) if request == Request::On && attach::has_library(process) => {
            attach::arm(process)?;
            await_socket(process);
            report::print(b"measuring: the library was waiting for this\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(failure) => return Err(failure),
    };
    let bytes = ask(&program, &request)?;
    match asked {
        Asked::Snapshot(kept) => {
            if let Some(path) = kept.keep_or_print(&profile(process, &bytes)?)? {
                report::print(format!("written to {}\n", path.display()).as_bytes())?;
            }
        }
        _ => report::print(&bytes)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The program with a process ID that answers requests; the native one first, if it is both.
pub(crate) fn find(process: i32) -> Result<Program, Failure> {
    Program::find(process, Tower::ALL).map_err(|why| {
        let remedy = match why.ends_with(NO_SOCKET) {
            true if attach::has_library(process) => format!(
                " now, or could make none (FASTINST_CONTROL=on says why); `fastinst ctl \
                 {process} on` begins a library that waits"
            ),
            true => format!("; `fastinst attach {process}` begins that"),
            false => String::new(),
        };
        Failure::Refused(format!("{why}{remedy}"))
    })
}

/// Waits until a program whose profiler has started answers requests, up to a time limit.
fn await_socket(process: i32) {
    let end = Instant::now() + BEGINNING;
    while Program::find(process, Tower::ALL).is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program's answer to a request.
pub(crate) fn ask(program: &Program, request: &Request) -> Result<Vec<u8>, Failure> {
    ask_by(program, &request.line())
}

/// The same for a line, which may be a request that only programs of this kind accept.
pub(crate) fn ask_by(program: &Program, line: &str) -> Result<Vec<u8>, Failure> {
    match program.ask(line).map_err(Failure::Refused)? {
        Answer::Done(bytes) => Ok(bytes),
        Answer::Refused(why) => {
            Err(Failure::Refused(format!("process {}: {why}", program.process)))
        }
    }
}

/// A profile that a program has sent.
pub(crate) fn profile(process: i32, bytes: &[u8]) -> Result<Profile, Failure> {
    let mut profile = Profile::from_file(bytes).map_err(|error| {
        Failure::Refused(format!("process {process} sent an invalid profile: {error}"))
    })?;
    profile.rename(demangled);
    Ok(profile)
}

/// Programs that answer, and what they are.
fn list() -> Result<(), Failure> {
    match Answering::of(&Tower::ALL).lines() {
        Some(lines) => report::print(lines.as_bytes())?,
        None => super::say(NOBODY),
    }
    Ok(())
}

/// The process to use if none is named.
fn only() -> Result<i32, Failure> {
    match Answering::of(&Tower::ALL).only() {
        Ok(program) => Ok(program.process),
        Err(NotOne::None) => Err(Failure::Refused(NOBODY.to_owned())),
        Err(NotOne::Several(which)) => Err(Failure::Usage(which)),
    }
}
