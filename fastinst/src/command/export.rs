//! `fastinst export`: profiles of many processes and machines, for what is queried and scraped
//! already.

use super::report::{print, read};
use super::{Failure, write_file};
use clap::ValueEnum;
use fastinst_export::{Source, openmetrics, parquet};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Profiles; each stays a set of rows of its own
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What to write
    #[arg(long, value_name = "FORMAT")]
    format: Form,
    /// The machine that the profiles are of [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst export --format parquet -o host1.parquet *.profile
  fastinst export --format openmetrics -o /var/lib/node_exporter/app.prom app.profile
  duckdb -c \"SELECT function, sum(self_ns) FROM '*.parquet' GROUP BY function ORDER BY 2 DESC LIMIT 10\"";

/// What a fleet's tools read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A table, one row a function and profile: DuckDB, ClickHouse, Spark, DataFusion
    Parquet,
    /// Counters and histograms as text: Prometheus
    Openmetrics,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.format == Form::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage("a Parquet file is no text: give a file with -o".to_owned()));
    }
    let host = args.host.clone().unwrap_or_else(this_machine);
    let sources = args
        .files
        .iter()
        .map(|path| Ok(Source { host: host.clone(), profile: read(path)? }))
        .collect::<Result<Vec<_>, Failure>>()?;
    let bytes = match args.format {
        Form::Parquet => parquet(&sources),
        Form::Openmetrics => openmetrics(&sources).into_bytes(),
    };
    match &args.output {
        Some(path) => write_file(path, &bytes)?,
        None => print(&bytes)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What the machine calls itself.
fn this_machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
