//! `fastinst report`: profiles that were kept, in any format; several are added up.

use super::run::format;
use super::{Failure, write_file};
use clap::ValueEnum;
use fastinst::format::Format;
use fastinst::lines;
use fastinst::symbols::demangled;
use profiler::{Profile, TableOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Profiles: several are added up, function by function
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the table is sorted by
    #[arg(long, value_name = "COLUMN", default_value = "total")]
    sort: Sort,
    /// How many functions the table shows; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = format())]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst report fastinst.1234
  fastinst report --sort p99 --rows 10 app.profile
  fastinst report --format folded app.profile > app.folded
  fastinst report --format pprof -o app.pb app.profile && pprof -top app.pb";

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// How often it was called
    Calls,
    /// All of its time, callees included
    Total,
    /// Its own time
    #[value(name = "self")]
    Own,
    /// The time of a call
    Mean,
    /// The time that one call in a hundred exceeds
    P99,
    /// The longest call that was timed
    Max,
    /// Its name
    Name,
}

/// What a table looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sort: Sort,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) color: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { sort: Sort::Total, rows: 30, width: 160, color: false }
    }
}

impl Shape {
    /// The width of the terminal; wide where there is none.
    pub(crate) fn width(terminal: bool) -> usize {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let asked = || {
            // SAFETY: (1) a size to write to; (2) where stderr is no terminal nothing is written.
            #[allow(unsafe_code)]
            let size = unsafe {
                let mut size: libc::winsize = std::mem::zeroed();
                libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size);
                size
            };
            (size.ws_col > 0).then_some(usize::from(size.ws_col))
        };
        if terminal { columns.or_else(asked).unwrap_or(100).max(60) } else { columns.unwrap_or(160) }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let profiles = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let profile = if let [profile] = &profiles[..] { profile.clone() } else { Profile::merge(&profiles) };
    let terminal = args.output.is_none() && io::stdout().is_terminal();
    let shape = Shape { sort: args.sort, rows: args.rows, width: Shape::width(terminal), color: terminal };
    let text = show(&profile, if args.json { Format::Json } else { args.format }, &shape)?;
    match &args.output {
        Some(path) => write_file(path, &text)?,
        None => io::stdout().write_all(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a profile.
pub(crate) fn read(path: &Path) -> Result<Profile, Failure> {
    let failed = |error: String| Failure::Read { path: path.to_owned(), error };
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let mut profile = Profile::from_file(&bytes).map_err(|error| failed(error.to_string()))?;
    // A process that is profiled leaves names as its tables of symbols have them.
    profile.rename(demangled);
    Ok(profile)
}

/// A profile in a format.
pub(crate) fn show(profile: &Profile, format: Format, shape: &Shape) -> Result<Vec<u8>, Failure> {
    let mut profile = profile.clone();
    if !matches!(format, Format::Profile | Format::Csv) {
        lines::find(&mut profile);
    }
    let sort = match shape.sort {
        Sort::Calls => profiler::Sort::Calls,
        Sort::Total => profiler::Sort::Total,
        Sort::Own => profiler::Sort::Own,
        Sort::Mean => profiler::Sort::Mean,
        Sort::P99 => profiler::Sort::P99,
        Sort::Max => profiler::Sort::Max,
        Sort::Name => profiler::Sort::Name,
    };
    let options = TableOptions { width: shape.width, sort, rows: shape.rows, color: shape.color, ..Default::default() };
    Ok(format.bytes(&profile, &options)?)
}
