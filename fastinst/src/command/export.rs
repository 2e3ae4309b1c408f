//! `fastinst export`: profiles of many processes and machines, for databases and monitoring
//! systems.

use super::push;
use super::report::{keep_from_terminal, print, read};
use super::scrape::{Metrics, serve};
use super::{Failure, say, write_file};
use clap::ValueEnum;
use fastinst_export::{Source, native, openmetrics, otlp, parca, parquet, pyroscope};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Profiles; each has rows of its own
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT")]
    format: Form,
    /// Name of the machine on which the profiles were made [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Serve OpenMetrics at http://ADDRESS/metrics until Ctrl-C; profiles are read again for each
    /// request
    #[arg(long, value_name = "ADDRESS", conflicts_with = "output")]
    listen: Option<String>,
    /// Send to a server: --format otlp, pyroscope or parca
    #[arg(long, value_name = "URL", conflicts_with_all = ["output", "listen"])]
    push: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst export --format parquet -o host1.parquet *.profile
  fastinst export --format openmetrics -o /var/lib/app.prom app.profile
  fastinst export --format openmetrics --listen 127.0.0.1:9464 live.profile
  fastinst export --format otlp --push http://127.0.0.1:4318 app.profile
  fastinst export --format pyroscope --push http://127.0.0.1:4040 app.profile
  duckdb -c \"SELECT function, sum(self_ns) FROM '*.parquet' GROUP BY 1\"";

/// What a fleet's tools read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A table, one row a function and profile: DuckDB, ClickHouse, Spark, DataFusion
    Parquet,
    /// Counters and histograms as text: Prometheus
    Openmetrics,
    /// A request to an OpenTelemetry collector (profiles, v1development)
    Otlp,
    /// A request to Pyroscope
    Pyroscope,
    /// A request to Parca
    Parca,
}

impl Form {
    /// It as a request to a server: the path and the kind of its content.
    fn request(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Otlp => Some(("/v1development/profiles", "application/x-protobuf")),
            Self::Pyroscope => Some(("/push.v1.PusherService/Push", "application/json")),
            Self::Parca => Some(("/profiles/writeraw", "application/json")),
            Self::Parquet | Self::Openmetrics => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let is_binary = matches!(args.format, Form::Parquet | Form::Otlp);
    let is_printed = args.output.is_none() && args.push.is_none();
    keep_from_terminal(is_binary, is_printed && io::stdout().is_terminal())?;
    if let Some(address) = &args.listen {
        if args.format != Form::Openmetrics {
            return Err(Failure::Usage(
                "--listen serves OpenMetrics: --format openmetrics".to_owned(),
            ));
        }
        return serve(address, |metrics| {
            let sources = sources(args)?;
            Ok(match metrics {
                Metrics::Text => openmetrics(&sources).into_bytes(),
                Metrics::Native => native(&sources),
            })
        });
    }
    let server = match &args.push {
        None => None,
        Some(url) => {
            let Some((path, kind)) = args.format.request() else {
                return Err(Failure::Usage(
                    "--push sends --format otlp, pyroscope or parca".to_owned(),
                ));
            };
            Some((push::Server::parse(url, path)?, kind))
        }
    };
    let sources = sources(args)?;
    let bytes = match args.format {
        Form::Parquet => parquet(&sources),
        Form::Openmetrics => openmetrics(&sources).into_bytes(),
        Form::Otlp => otlp(&sources),
        Form::Pyroscope => pyroscope(&sources).into_bytes(),
        Form::Parca => parca(&sources).into_bytes(),
    };
    if let Some((server, kind)) = server {
        server.send(kind, &bytes)?;
        say(&format!("sent {} bytes to {server}", bytes.len()));
        return Ok(ExitCode::SUCCESS);
    }
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

/// The machine's own name.
fn this_machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
