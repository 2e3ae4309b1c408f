//! `fastinst run`: runs a program with the preload library, and prints the table when it has ended.
//! This command ends as the program ends.

use super::launch::{self, Options, Surroundings};
use super::program::keep_from_program;
use super::report::{Shape, keep_from_terminal, shortest, show};
use super::{Failure, say, write_file};
use crate::cli::Cli;
use clap::CommandFactory;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fastinst::format::Format;
use profiler::Profile;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use wordpatch::os::replace::is_stream;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    kept: Kept,
    /// Replace FILE with the profile so far this often while the program runs (with -o)
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// Where the profile goes, and how it looks.
#[derive(Debug, clap::Args)]
pub(crate) struct Kept {
    /// Write to a file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format [default: a table; with -o the profile, for `fastinst report`]
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    format: Option<Format>,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Number of functions in the table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    /// Hide functions whose timed calls all took less than this, and slow calls that did; counts
    /// still cover all calls
    #[arg(long, value_name = "TIME", value_parser = shortest)]
    min_time: Option<Duration>,
    /// Show all columns, even if the table becomes wider than the terminal
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    colors: manual::Colors,
}

const EXAMPLES: &str = "\
Examples:
  fastinst run ./app input.txt
  fastinst run -o app.profile ./app && fastinst report app.profile
  fastinst run --policy exact --format csv -o calls.csv ./app
  fastinst run -F 'parse_*' -N '@libz*' ./app
  fastinst run --start-on 'serve_*' --stop-on 30s ./server
  fastinst run --under handle_request --policy exact ./server
  fastinst run --interval 1s -o app.profile ./server

Self and total are CPU times; p50, p99 and max are wall-clock times of single
calls, callees included. ~ marks an estimate.";

/// A format, by its name.
pub(crate) fn format() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.purpose()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    refuse_option(&args.program[0])?;
    args.kept.check()?;
    if let Some(output) = &args.kept.output {
        keep_from_program(&args.program[0], output)?;
    }
    let interval = args.interval.as_deref().map(interval).transpose()?;
    if interval.is_some() && args.kept.output.is_none() {
        return Err(Failure::Usage("--interval replaces a file: name one with -o FILE".to_owned()));
    }
    if let Some(stream) = args.kept.output.as_deref().filter(|path| is_stream(path))
        && interval.is_some()
    {
        let name = stream.display();
        return Err(Failure::Usage(format!("--interval replaces a file, and {name} is none")));
    }
    // A snapshot that fails is no error: the same failure happens at the end, and is reported then.
    let snapshot = |profile: &Profile| drop(args.kept.keep(profile));
    let snapshots = interval.map(|interval| (interval, &snapshot as _));
    let ended = launch::profile_of(
        &args.options,
        &args.program,
        Surroundings { snapshots, silent: false },
    )?;
    let kept = match &ended.profile {
        Some(profile) => args.kept.keep_at_end(profile),
        None => {
            let why = ended.note.clone().unwrap_or_else(|| {
                "the program left no profile: it has no probes, or no function ran long enough to be seen".to_owned()
            });
            say(&why);
            Ok(())
        }
    };
    if let Err(failure) = kept {
        say(&failure.to_string());
        if ended.status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    leave_as(ended.status)
}

/// An unknown option would be taken for the program, since all arguments from PROGRAM on belong to
/// the program.
fn refuse_option(word: &OsStr) -> Result<(), Failure> {
    let text = word.to_string_lossy();
    if !text.starts_with('-') {
        return Ok(());
    }
    let command = Cli::command();
    let run = command.find_subcommand("run");
    let long = run
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|option| option.get_long());
    let known: Vec<String> = long.chain(["help"]).map(|long| format!("--{long}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let name = text.split('=').next().unwrap_or(&text);
    let question = fastinst::spelling::question(name, &known);
    Err(Failure::Usage(format!(
        "unknown option {name}{question} (fastinst run --help lists them; a program of that name is ./{name})"
    )))
}

fn interval(text: &str) -> Result<Duration, Failure> {
    let interval = fastinst::quantity::duration(text)
        .filter(|interval| *interval >= Duration::from_millis(10));
    interval.ok_or_else(|| {
        Failure::Usage(format!("--interval {text}: give a time of 10ms or more, such as 1s"))
    })
}

impl Kept {
    /// Checks that the profile can be written, before the program is started.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(path) = &self.output else {
            return keep_from_terminal(self.format().is_binary(), io::stderr().is_terminal());
        };
        super::written::check(path)
    }

    /// Writes the profile to the requested place.
    pub(crate) fn keep(&self, profile: &Profile) -> Result<(), Failure> {
        let text = self.shown(profile, io::stderr().is_terminal())?;
        match &self.output {
            Some(path) => write_file(path, &text),
            None => {
                // Standard error may be full or closed; an error of it cannot be reported.
                let _ = io::stderr().write_all(&text);
                Ok(())
            }
        }
    }

    /// The same for the last profile: if the file cannot be written, the profile is kept in the
    /// folder for temporary files.
    pub(crate) fn keep_at_end(&self, profile: &Profile) -> Result<(), Failure> {
        let kept = self.keep(profile);
        let Err(failure @ Failure::Write { .. }) = kept else { return kept };
        let bytes = show(profile, Format::Profile, &Shape::default())?;
        match super::written::keep_elsewhere(&bytes) {
            Some(elsewhere) => Err(Failure::Refused(format!(
                "{failure}; the profile is in {}",
                elsewhere.display()
            ))),
            None => Err(failure),
        }
    }

    /// Writes the profile to the file, or to standard output if no file is given. Returns the file.
    pub(crate) fn keep_or_print(&self, profile: &Profile) -> Result<Option<&Path>, Failure> {
        let terminal = io::stdout().is_terminal();
        keep_from_terminal(self.format().is_binary(), self.output.is_none() && terminal)?;
        let text = self.shown(profile, terminal)?;
        match &self.output {
            Some(path) => write_file(path, &text)?,
            None => super::report::print(&text)?,
        }
        Ok(self.output.as_deref())
    }

    /// The profile in its output format. `terminal`: whether the stream that it is written to
    /// without a file is a terminal.
    fn shown(&self, profile: &Profile, terminal: bool) -> Result<Vec<u8>, Failure> {
        let terminal = self.output.is_none() && terminal;
        let shape = Shape {
            rows: self.rows,
            color: self.colors.are_on(terminal),
            width: manual::columns(terminal),
            wide: self.wide,
            min_time: self.min_time.unwrap_or_default(),
            ..Shape::default()
        };
        show(profile, self.format(), &shape)
    }

    fn format(&self) -> Format {
        let default = match &self.output {
            _ if self.json => Format::Json,
            Some(_) => Format::Profile,
            None => Format::Table,
        };
        self.format.unwrap_or(default)
    }
}

/// Ends this process as the program ended: with its status, or by its signal.
fn leave_as(status: ExitStatus) -> Result<ExitCode, Failure> {
    if let Some(code) = status.code() {
        return Ok(ExitCode::from(code as u8));
    }
    let signal = status.signal().unwrap_or(libc::SIGKILL);
    launch::set_handler(signal, libc::SIG_DFL);
    // SAFETY: (1) no core of ours beside the program's; (2) ends this process.
    #[allow(unsafe_code)]
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::raise(signal);
    }
    Ok(ExitCode::from(128 + signal as u8))
}
