//! `fastinst export`: profiles of many processes and machines, for what is queried and scraped
//! already.

use super::report::{print, read};
use super::scrape::serve;
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
    /// Serve OpenMetrics at http://ADDRESS/metrics until Ctrl-C; profiles are read again each time
    #[arg(long, value_name = "ADDRESS", conflicts_with = "output")]
    listen: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst export --format parquet -o host1.parquet *.profile
  fastinst export --format openmetrics -o /var/lib/node_exporter/app.prom app.profile
  fastinst export --format openmetrics --listen 127.0.0.1:9464 live.profile
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
    if let Some(address) = &args.listen {
        if args.format == Form::Parquet {
            return Err(Failure::Usage(
                "--listen serves OpenMetrics: --format openmetrics".to_owned(),
            ));
        }
        return serve(address, || Ok(openmetrics(&sources(args)?)));
    }
    let sources = sources(args)?;
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

/// The profiles as they are now.
fn sources(args: &Args) -> Result<Vec<Source>, Failure> {
    let host = args.host.clone().unwrap_or_else(this_machine);
    let source = |path: &PathBuf| Ok(Source { host: host.clone(), profile: read(path)? });
    args.files.iter().map(source).collect()
}

/// What the machine calls itself.
fn this_machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
