//! Commands: their input, their output, and their diagnostics.

mod map;
mod output;
mod profile;
mod record;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whamm::{Asked, Destination, Diagnostics, Format, Kind, LibraryFile, Link, Options, Source};

/// Instruments WebAssembly with scripts.
#[derive(Debug, Parser)]
#[command(
    name = "whamm",
    version,
    after_help = "Examples:
  whamm instr -s hotness.mm -a app.wasm -o out.wasm  inject probes into a program
  whamm instr --wei -s hotness.mm -o monitor.wasm    a monitor for an engine
  whamm info -v -r 'wasm:opcode:*load*:before'       what a rule matches
  whamm check *.mm                                   type-check scripts
  whamm profile app.wasm -o out.wasm                 call counts and times
  whamm record app.wasm -o out.wasm                  a trace, for replay

Exit status: 0 success, 1 failure, 2 wrong option."
)]
pub(crate) struct Command {
    #[command(subcommand)]
    what: What,
    /// Print diagnostics as JSON, one object per line.
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours in diagnostics.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: manual::Color,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Inject scripts into a program, or compile them to a monitor module.
    Instr(Box<Instr>),
    /// Show what a rule matches and which variables it can use.
    Info {
        /// The rule, or a prefix of one, such as `wasm:opcode:call`.
        #[arg(short, long)]
        rule: String,
        /// Show variables with their types, too.
        #[arg(short, long)]
        vars: bool,
        /// Show functions, too.
        #[arg(short, long)]
        functions: bool,
        /// Accepted for compatibility with version 2.0.1: events are part of this compiler.
        #[arg(short, long, value_name = "DIR", hide = true)]
        defs_path: Option<PathBuf>,
    },
    /// Type-check scripts.
    Check {
        /// The scripts.
        #[arg(required = true)]
        scripts: Vec<PathBuf>,
        #[command(flatten)]
        libraries: Libraries,
    },
    /// Format scripts in place.
    Fmt {
        /// The scripts.
        #[arg(required = true)]
        scripts: Vec<PathBuf>,
        /// Only list scripts that would change.
        #[arg(long)]
        check: bool,
    },
    /// Rewrite a program so that it profiles its calls exactly, on any engine.
    Profile(Box<profile::Profile>),
    /// Rewrite a program so that it records its runs, on any engine.
    Record(record::Record),
    /// Print manual pages or shell completions.
    Manual(manual::Manual),
    /// Print shell completions: an earlier name of `manual --completions`.
    #[command(hide = true)]
    Completions(manual::Completions),
}

#[derive(Debug, Args)]
struct Libraries {
    /// Libraries: name=path or name(module)=path, separated by commas.
    #[arg(short, long = "user-libs", value_delimiter = ',', value_name = "NAME=PATH")]
    user_libs: Vec<String>,
}

#[derive(Debug, Args)]
struct Instr {
    /// A script (may be repeated; each script has its own variables).
    #[arg(short, long, required = true)]
    script: Vec<PathBuf>,
    /// The program, in binary or text format.
    #[arg(short, long, required_unless_present = "wei")]
    app: Option<PathBuf>,
    /// Make a monitor module for engines that load them.
    #[arg(short, long)]
    wei: bool,
    /// Output file.
    #[arg(
        short,
        long = "output",
        alias = "output-path",
        value_name = "FILE",
        default_value = "output.wasm"
    )]
    output_path: PathBuf,
    /// Libraries: name=path or name(module)=path, separated by commas or blanks.
    #[arg(short, long, value_delimiter = ',', num_args = 1.., value_name = "NAME=PATH")]
    user_libs: Vec<String>,
    /// Where the run-time support is: `merged`, in the output, limited to the parts that it uses;
    /// or `imported` from a separate module `whamm_core`.
    #[arg(short, long, value_enum, default_value = "merged")]
    link_strategy: Strategy,
    /// Format of the report.
    #[arg(long, alias = "report", value_name = "FORMAT", value_enum, default_value = "csv")]
    report_format: Report,
    /// Destination of the report: `console`, `host` (the host fetches it by calling
    /// `whamm:report`), `env` (read from the environment at run time: TO_CONSOLE, WHAMM_OUTDIR,
    /// WHAMM_OUTFILE), or the path of a file, to which it is appended. Default: the console, if the
    /// program uses WASI.
    #[arg(long, value_name = "WHERE")]
    report_to: Option<String>,
    /// Keep counts exact even if an instruction traps, for hosts that call `whamm:flush` after a
    /// trap; somewhat slower.
    #[arg(long)]
    exact_traps: bool,
    /// Export a function `__whamm_get_NAME` for each global variable, which returns its value.
    #[arg(short, long)]
    testing: bool,
    /// Accepted for compatibility with version 2.0.1: events are part of this compiler.
    #[arg(short, long, value_name = "DIR", hide = true)]
    defs_path: Option<PathBuf>,
    /// Accepted for compatibility with version 2.0.1: the required parts of the core library are in
    /// the output, or imported at run time.
    #[arg(short, long, value_name = "PATH", hide = true)]
    core_lib: Option<PathBuf>,
    /// Accepted for compatibility with version 2.0.1: nothing is measured here.
    #[arg(short, long, hide = true)]
    metrics: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Strategy {
    Merged,
    Imported,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Report {
    Csv,
    Json,
}

fn read(path: &Path) -> Result<Vec<u8>, Diagnostics> {
    std::fs::read(path).map_err(|e| {
        Diagnostics::general(Kind::GeneralError, format!("{} cannot be read: {e}", path.display()))
    })
}

/// Reads a program as binary, from binary or text.
fn module(path: &Path) -> Result<Vec<u8>, Diagnostics> {
    let text = read(path)?;
    binary(path, &text).map(Cow::into_owned)
}

/// The contents of a program's file as binary; an error names the file.
fn binary<'text>(path: &Path, text: &'text [u8]) -> Result<Cow<'text, [u8]>, Diagnostics> {
    whamm::binary(text).map_err(|why| {
        let message = format!("{} is not a module: {why}", path.display());
        Diagnostics::general(Kind::InvalidModule, message)
    })
}

fn script(path: &Path) -> Result<Source, Diagnostics> {
    Source::from_bytes(path.display().to_string(), read(path)?)
}

fn scripts(paths: &[PathBuf]) -> Result<Vec<Source>, Diagnostics> {
    Diagnostics::all(paths.iter().map(|p| script(p)))
}

impl Libraries {
    fn read(&self) -> Result<Vec<LibraryFile>, Diagnostics> {
        libraries(&self.user_libs)
    }
}

fn libraries(given: &[String]) -> Result<Vec<LibraryFile>, Diagnostics> {
    Diagnostics::all(given.iter().map(|given| library(given)))
}

fn library(given: &str) -> Result<LibraryFile, Diagnostics> {
    let parts = given.split_once('=').map(|(name, path)| {
        match name.strip_suffix(')').and_then(|n| n.split_once('(')) {
            Some((name, module)) => (name, module, path),
            None => (name, name, path),
        }
    });
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let Some((name, module, path)) =
        parts.filter(|(name, _, path)| is_name(name) && !path.is_empty())
    else {
        return Err(Diagnostics::general(
            Kind::GeneralError,
            format!("`{given}` is not a library: write name=path or name(module)=path"),
        ));
    };
    Ok(LibraryFile { name: name.into(), module: module.into(), bytes: read(Path::new(path))? })
}

/// Runs a command.
pub(crate) fn run(command: Command) -> ExitCode {
    let (json, color) = (command.json, command.color);
    let result = match command.what {
        What::Instr(instr) => instr.run(),
        What::Info { rule, vars: variables, functions, defs_path } => {
            whamm::info(&rule, Asked { variables, functions, json })
                .and_then(|text| print(text.as_bytes()))
                .map(|mut said| {
                    warn_of(&mut said, defs_path.map(|_| DEFS_PATH));
                    said
                })
        }
        What::Check { scripts: paths, libraries } => check(&paths, &libraries),
        What::Profile(profile) => profile.run(),
        What::Record(record) => record.run(),
        What::Fmt { scripts, check } => format_all(&scripts, check),
        What::Manual(manual) => match manual.text(Command::command()) {
            Ok(text) => print(&text),
            // As for every invalid command line.
            Err(why) => {
                note(format_args!("whamm: {why}"));
                return ExitCode::from(2);
            }
        },
        What::Completions(completions) => print(&completions.text(Command::command())),
    };
    let (said, code) = match result {
        Ok(said) if said.has_errors() => (said, ExitCode::FAILURE),
        Ok(said) => (said, ExitCode::SUCCESS),
        Err(said) => (said, ExitCode::FAILURE),
    };
    let text = match json {
        true => said.to_json(),
        false if color.is_on(std::io::stderr().is_terminal()) => format!("{said:#}"),
        false => said.to_string(),
    };
    // The exit code does not depend on whether the diagnostics could be written.
    let _ = std::io::stderr().write_all(text.as_bytes());
    code
}

/// Writes a line to standard error; errors are ignored.
fn note(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes results to stdout; a reader that closes the pipe early is not an error.
fn print(text: &[u8]) -> Result<Diagnostics, Diagnostics> {
    match std::io::stdout().write_all(text) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diagnostics::general(Kind::GeneralError, format!("cannot write to stdout: {e}")))
        }
        _ => Ok(Diagnostics::default()),
    }
}

fn check(paths: &[PathBuf], libraries: &Libraries) -> Result<Diagnostics, Diagnostics> {
    let libraries = libraries.read()?;
    let mut all = Diagnostics::default();
    // Each script is checked separately: `check *.mm` does not make them one run.
    for path in paths {
        let said = script(path).map_or_else(
            |said| said,
            |script| {
                let scripts = [script];
                let mut said = whamm::check_scripts(&scripts, &libraries);
                said.append(whamm::check_for_engines(&scripts, &libraries));
                said
            },
        );
        if all.is_empty() {
            all = said;
        } else if !said.is_empty() {
            all.merge(said);
        }
    }
    Ok(all)
}

fn format_all(paths: &[PathBuf], only_tell: bool) -> Result<Diagnostics, Diagnostics> {
    let mut said = Diagnostics::default();
    for path in paths {
        if let Err(why) = format_one(path, only_tell) {
            said.merge(why);
        }
    }
    Ok(said)
}

fn format_one(path: &Path, only_tell: bool) -> Result<(), Diagnostics> {
    let source = script(path)?;
    let text = whamm::layout(&source)?;
    if text == source.text {
        return Ok(());
    }
    if only_tell {
        let message = format!("{} is not formatted: run `whamm fmt` on it", path.display());
        return Err(Diagnostics::general(Kind::GeneralError, message));
    }
    write(path, text.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    output::write(path, bytes).map_err(|e| {
        Diagnostics::general(
            Kind::GeneralError,
            format!("{} cannot be written: {e}", path.display()),
        )
    })
}

/// An option of version 2.0.1 without effect here, and the reason.
type Former = (&'static str, &'static str);

const DEFS_PATH: Former = ("--defs-path", "the definitions of events are part of this compiler");

/// Warns about options without effect.
fn warn_of(said: &mut Diagnostics, given: impl IntoIterator<Item = Former>) {
    for (option, why) in given {
        said.push(Kind::OptionWarning, None, format!("`{option}` has no effect: {why}"));
    }
}

impl Instr {
    /// Options of version 2.0.1 without effect here, and the reasons.
    fn former(&self) -> impl Iterator<Item = Former> {
        let all = [
            (self.defs_path.is_some(), DEFS_PATH.0, DEFS_PATH.1),
            (
                self.core_lib.is_some(),
                "--core-lib",
                "the output has what it needs of the core library, or imports it when it runs",
            ),
            (self.metrics, "--metrics", "nothing is measured here"),
        ];
        all.into_iter().filter(|former| former.0).map(|former| (former.1, former.2))
    }

    fn run(&self) -> Result<Diagnostics, Diagnostics> {
        let (scripts, libraries) =
            Diagnostics::both(scripts(&self.script), libraries(&self.user_libs))?;
        let format = match self.report_format {
            Report::Csv => Format::Csv,
            Report::Json => Format::Json,
        };
        let destination = match self.report_to.as_deref() {
            None => Destination::Auto,
            Some("console") => Destination::Console,
            Some("host") => Destination::Host,
            Some("env") => Destination::Environment,
            Some(path) => Destination::File(path.into()),
        };
        let link = match self.link_strategy {
            Strategy::Merged => Link::Merged,
            Strategy::Imported if self.report_to.is_some() => {
                let message = "with `--link-strategy imported` the library decides where the report goes: leave out `--report-to`";
                return Err(Diagnostics::general(Kind::GeneralError, message));
            }
            Strategy::Imported => Link::Imported,
        };
        let options = Options {
            format,
            destination,
            exact_traps: self.exact_traps,
            link,
            most_globals: None,
            testing: self.testing,
            source_map: None,
        };
        let mut output = match &self.app {
            Some(app) if !self.wei => {
                let program = read(app)?;
                binary(app, &program)?;
                let source_map = map::beside(app, &program, &self.output_path);
                let options = Options { source_map, ..options };
                whamm::instrument(&scripts, &libraries, &program, &options)?
            }
            _ => whamm::compile_monitor(&scripts, &libraries, &options)?,
        };
        write(&self.output_path, &output.module)?;
        map::put(&self.output_path, output.source_map.as_ref())?;
        warn_of(&mut output.diagnostics, self.former());
        Ok(output.diagnostics)
    }
}
