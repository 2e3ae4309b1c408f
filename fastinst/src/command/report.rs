//! `fastinst report`: saved profiles, in any format; several are added up.

use super::follow::follow;
use super::run::format;
use super::{Failure, write_file};
use clap::ValueEnum;
use fastinst::format::Format;
use fastinst::lines;
use fastinst::symbols::{Pattern, Subject};
use profiler::{Profile, TableOptions};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Profiles; several are added up function by function
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sort the table by this column [default: self]
    #[arg(long, value_name = "COLUMN")]
    sort: Option<Sort>,
    /// Number of functions in the table; 0 for all [default: 30]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Hide functions whose timed calls all took less than this, and slow calls that did; counts
    /// still cover all calls
    #[arg(long, value_name = "TIME", value_parser = shortest)]
    min_time: Option<Duration>,
    /// Show all columns, even if the table becomes wider than the terminal
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    colors: manual::Colors,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = format())]
    format: Format,
    /// Show one function: its latency histogram, and its slowest calls with the calls inside them
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["format", "json"])]
    histogram: Option<String>,
    /// Show all argument values that were read of these functions (see run -A); a glob or /regex/
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["format", "json", "histogram"])]
    arguments: Option<String>,
    /// Number of slowest calls to show with --histogram
    #[arg(long, value_name = "N", default_value_t = 3, requires = "histogram")]
    slowest: usize,
    /// Print again whenever FILE is replaced (see run --interval); ends with Ctrl-C
    #[arg(long)]
    follow: bool,
    /// End --follow after this time, for instance 30s
    #[arg(long = "for", value_name = "TIME", requires = "follow", value_parser = duration)]
    limit: Option<Duration>,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write an HTML page: table, flame graph, histograms, callers
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "histogram", "output"])]
    html: Option<PathBuf>,
    /// Write a flame graph as SVG
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "histogram", "output"])]
    svg: Option<PathBuf>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst report fastinst.1234
  fastinst report --sort p99 --rows 10 app.profile
  fastinst report --wide app.profile | less -S
  fastinst report --histogram parse_line app.profile
  fastinst report --html app.html app.profile         # a page for a browser
  fastinst report --svg flame.svg app.profile
  fastinst report --follow live.profile
  fastinst report --format folded app.profile > app.folded
  fastinst report --format pprof -o app.pb app.profile && pprof -top app.pb";

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// CPU time without callees
    #[value(name = "self")]
    Own,
    /// CPU time with callees
    Total,
    /// Wall-clock time with callees
    Wall,
    /// Number of calls
    Calls,
    /// Mean duration of a call
    Mean,
    /// 99th percentile of call durations
    P99,
    /// Longest timed call
    Max,
    /// Name
    Name,
}

/// What a table looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sort: Sort,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) color: bool,
    pub(crate) wide: bool,
    pub(crate) min_time: Duration,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            sort: Sort::Own,
            rows: 30,
            width: 160,
            color: false,
            wide: false,
            min_time: Duration::ZERO,
        }
    }
}

impl Args {
    /// Refuses options of the table where none is printed.
    fn check(&self) -> Result<(), Failure> {
        let others = [
            (self.html.is_some(), "--html"),
            (self.svg.is_some(), "--svg"),
            (self.histogram.is_some(), "--histogram"),
            (self.arguments.is_some(), "--arguments"),
            (self.json, "--json"),
            (self.format != Format::Table, "--format"),
        ];
        let given = [
            (self.sort.is_some(), "--sort"),
            (self.rows.is_some(), "--rows"),
            (self.wide, "--wide"),
        ];
        let first = |of: &[(bool, &'static str)]| of.iter().find(|(is, _)| *is).map(|of| of.1);
        match (first(&given), first(&others)) {
            (Some(option), Some(other)) => Err(Failure::Usage(format!(
                "{option} belongs to the table, which {other} replaces: leave one of them out"
            ))),
            _ => Ok(()),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.check()?;
    match (args.follow, &args.files[..]) {
        (false, _) => once(args)?,
        (true, [file]) => follow(file, args.limit, || {
            if args.output.is_none() && io::stdout().is_terminal() {
                // From the top of an empty screen.
                print(b"\x1b[H\x1b[2J")?;
            }
            once(args)
        })?,
        (true, _) => return Err(Failure::Usage("--follow takes one FILE".to_owned())),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads, and prints.
fn once(args: &Args) -> Result<(), Failure> {
    let profiles = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let profile =
        if let [profile] = &profiles[..] { profile.clone() } else { Profile::merge(&profiles) };
    let terminal = args.output.is_none() && io::stdout().is_terminal();
    let format = if args.json { Format::Json } else { args.format };
    let pictures = [(&args.html, Format::Html), (&args.svg, Format::Svg)];
    let is_printed = pictures.iter().all(|(path, _)| path.is_none());
    keep_from_terminal(format.is_binary() && is_printed, terminal)?;
    let shape = Shape {
        sort: args.sort.unwrap_or(Shape::default().sort),
        rows: args.rows.unwrap_or(Shape::default().rows),
        width: manual::columns(terminal),
        color: args.colors.are_on(terminal),
        wide: args.wide,
        min_time: args.min_time.unwrap_or_default(),
    };
    for (path, format) in pictures.iter().filter_map(|(path, form)| Some((path.as_ref()?, *form))) {
        write_file(path, &show(&profile, format, &shape)?)?;
    }
    if !is_printed {
        return Ok(());
    }
    let text = match (&args.histogram, &args.arguments) {
        (Some(pattern), _) => histograms(&profile, pattern, args, &shape)?,
        (_, Some(pattern)) => arguments(&profile, pattern)?,
        (None, None) => show(&profile, format, &shape)?,
    };
    match &args.output {
        Some(path) => write_file(path, &text),
        None => Ok(print(&text)?),
    }
}

/// Writes all of it to standard output. That may be full, or a closed pipe: this is an error, not a
/// panic.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text)?;
    out.flush()
}

/// Refuses to write what is binary to a terminal.
pub(crate) fn keep_from_terminal(is_binary: bool, terminal: bool) -> Result<(), Failure> {
    if is_binary && terminal {
        return Err(Failure::Usage("this format is binary: give a file with -o".to_owned()));
    }
    Ok(())
}

fn duration(text: &str) -> Result<Duration, String> {
    fastinst::quantity::duration(text)
        .ok_or_else(|| "give a time such as 30s, 500ms or 5m".to_owned())
}

/// The argument values that functions were called with.
fn arguments(profile: &Profile, pattern: &str) -> Result<Vec<u8>, Failure> {
    let parsed = Pattern::parse(pattern).map_err(|error| Failure::Refused(error.to_string()))?;
    let named = |name: &str| parsed.matches(&Subject { name, ..Subject::default() });
    let text = profile.argument_tables(named, 0);
    if text.is_empty() {
        let known: BTreeSet<&str> =
            profile.header.arguments.iter().map(|known| &*known.function).collect();
        let known: Vec<&str> = known.into_iter().collect();
        let there = match &known[..] {
            [] => "no arguments were read: run with -A 'FUNCTION@arg1'".to_owned(),
            known => format!("arguments were read for {}", known.join(", ")),
        };
        return Err(Failure::Refused(format!("no arguments were read for '{pattern}'; {there}")));
    }
    Ok(text.into_bytes())
}

/// A duration of calls.
pub(crate) fn shortest(text: &str) -> Result<Duration, String> {
    fastinst::quantity::duration(text).ok_or_else(|| "give a time such as 10us or 1ms".to_owned())
}

/// The histograms of a function, or of all functions that a name matches.
fn histograms(
    profile: &Profile,
    name: &str,
    args: &Args,
    shape: &Shape,
) -> Result<Vec<u8>, Failure> {
    let mut profile = profile.clone();
    profile.keep_calls_of(shape.min_time.as_nanos() as f64);
    lines::find(&mut profile);
    let options = profiler::HistogramOptions {
        width: shape.width,
        slowest: args.slowest,
        color: shape.color,
    };
    let text = profile.histogram(name, &options);
    text.map(String::into_bytes).map_err(|error| Failure::Refused(error.to_string()))
}

/// Reads a profile.
pub(crate) fn read(path: &Path) -> Result<Profile, Failure> {
    let failed = |error: String| Failure::Read { path: path.to_owned(), error };
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let mut profile = Profile::from_file(&bytes).map_err(|error| failed(error.to_string()))?;
    lines::name(&mut profile);
    Ok(profile)
}

/// A profile in a format.
pub(crate) fn show(profile: &Profile, format: Format, shape: &Shape) -> Result<Vec<u8>, Failure> {
    let mut profile = profile.clone();
    let min_time = shape.min_time.as_nanos() as f64;
    if format != Format::Profile {
        profile.keep_calls_of(min_time);
    }
    if !matches!(format, Format::Profile | Format::Csv) {
        lines::find(&mut profile);
    }
    let sort = match shape.sort {
        Sort::Own => profiler::Sort::Own,
        Sort::Total => profiler::Sort::Total,
        Sort::Wall => profiler::Sort::Wall,
        Sort::Calls => profiler::Sort::Calls,
        Sort::Mean => profiler::Sort::Mean,
        Sort::P99 => profiler::Sort::P99,
        Sort::Max => profiler::Sort::Max,
        Sort::Name => profiler::Sort::Name,
    };
    let Shape { width, rows, color, wide, .. } = *shape;
    let options = TableOptions { width, sort, rows, color, wide, min_time, ..Default::default() };
    Ok(format.bytes(&profile, &options)?)
}
