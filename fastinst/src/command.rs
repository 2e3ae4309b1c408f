//! The commands, one file each.

pub(crate) mod attach;
pub(crate) mod cc;
mod channel;
mod closed;
pub(crate) mod compare;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
mod filter;
pub(crate) mod follow;
pub(crate) mod launch;
mod library;
pub(crate) mod manual;
mod mapped;
pub(crate) mod merge;
pub(crate) mod probes;
mod program;
mod push;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod sample;
mod scrape;
#[cfg(feature = "top")]
pub(crate) mod top;
mod written;

use crate::cli::{Cli, Command};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
pub(crate) use written::write_file;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "cannot read {}: {error}; give a profile that `fastinst run -o`, the preload library or \
         `wasm-aot run --monitor NAME,file=FILE` has written",
        path.display()
    )]
    Read { path: PathBuf, error: String },
    #[error("cannot write {}: {error}; choose another file", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    #[error("{0}")]
    Refused(String),
    /// An invalid command line.
    #[error("{0}")]
    Usage(String),
    /// No program has this name.
    #[error("{0}")]
    NoProgram(String),
    /// The file exists, but cannot be executed.
    #[error("{0}")]
    NotExecutable(String),
}

impl Failure {
    /// The exit status, with the numbers that shells use for programs that cannot be run.
    const fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotExecutable(_) => 126,
            Self::NoProgram(_) => 127,
            Self::Read { .. } | Self::Write { .. } | Self::Stdout(_) | Self::Refused(_) => 1,
        }
    }
}

/// Runs the command line's command; reports errors on standard error.
pub(crate) fn main(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Attach(args) => attach::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Probes(args) => probes::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Cc(args) => cc::run(&args, cc::Language::C),
        Command::Cxx(args) => cc::run(&args, cc::Language::Cxx),
        Command::Calibrate(args) => Ok(tmax::command::main(&args)),
        Command::Demo(args) => demo::run(&args),
        Command::Manual(args) => manual::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(Failure::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(failure.status())
        }
    }
}

/// Writes one line to standard error, if that is possible.
pub(crate) fn say(line: &str) {
    // A stream that is full or closed is no reason to fail.
    let _ = io::stderr().write_all(format!("fastinst: {line}\n").as_bytes());
}
