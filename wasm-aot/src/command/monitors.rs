//! `wasm-aot monitors`, and what `run --monitor` adds to a run.

use super::modules::{Chosen, OPTIONS};
use super::output::Later;
use super::{Failure, output, print};
use clap::{Args, ValueEnum};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasm_aot::Module;
use wasm_aot::monitor::{Choices, KINDS, MonitorSet, Report, TOP};
use wasm_aot::observer::{self, Variables};
use wasm_aot::session::Client;

/// List built-in monitors and their options
#[derive(Debug, Args)]
pub(crate) struct Monitors {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Monitors {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.json {
            let options = |options: &[(&str, &str)]| {
                options
                    .iter()
                    .map(|(name, about)| serde_json::json!({"name": name, "about": about}))
                    .collect::<Vec<_>>()
            };
            let kinds = KINDS
                .iter()
                .map(|kind| serde_json::json!({"name": kind.name, "about": kind.about, "options": options(kind.options)}));
            return print(serde_json::Value::from(kinds.collect::<Vec<_>>()).to_string() + "\n");
        }
        let mut out = String::new();
        let options = || {
            KINDS.iter().flat_map(|kind| kind.options).chain(&OPTIONS).map(|(name, _)| name.len())
        };
        let (first, second) =
            (2 + longest(KINDS.iter().map(|kind| kind.name.len())), 2 + longest(options()));
        for kind in KINDS {
            let _ = writeln!(out, "{:<first$}{}", kind.name, kind.about);
            for (name, about) in kind.options {
                let _ = writeln!(out, "{:<first$}  {name:<second$}{about}", "");
            }
        }
        out.push_str(
            "\nOptions of every monitor: function=GLOB observes only these functions, exclude=GLOB \
             all but these (each may be repeated), top=N sets the number of rows (top=all: all).\n",
        );
        out.push_str(
            "\nOptions of modules and scripts (FILE.wasm, .wat, .mm; libraries follow after +):\n",
        );
        for (name, about) in OPTIONS {
            let _ = writeln!(out, "  {name:<second$}{about}");
        }
        print(out)
    }
}

fn longest(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.max().unwrap_or_default()
}

/// What is observed during a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Monitoring {
    /// Attach a monitor: NAME[,OPTION[=VALUE]]…, or FILE[+LIBRARY]…[,OPTION[=VALUE]]…, a module or
    /// a script; see `wasm-aot monitors` (may be repeated)
    #[arg(long, value_name = "MONITOR")]
    monitor: Vec<String>,
    #[command(flatten)]
    reporting: Reporting,
    /// Print how each monitor is implemented in the program's code, and why nothing cheaper was
    /// possible
    #[arg(long)]
    explain: bool,
}

/// Format and destination of reports.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reporting {
    /// Write reports to a file; %p in its name is the process ID. For profiles see the option
    /// file=FILE of monitors (`wasm-aot monitors`)
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
    /// Print reports as one JSON object with a report for each monitor
    #[arg(long)]
    json: bool,
    /// Print reports as comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Format of reports
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "csv"])]
    report_format: Option<Format>,
    #[command(flatten)]
    colors: manual::Colors,
}

impl Reporting {
    /// The requested format.
    pub(crate) fn format(&self) -> Format {
        match self.report_format {
            Some(format) => format,
            None if self.json => Format::Json,
            None if self.csv => Format::Csv,
            None => Format::Table,
        }
    }

    /// Whether any option is given.
    fn is_given(&self) -> bool {
        self.report.is_some() || self.json || self.csv || self.report_format.is_some()
    }

    fn file(&self, pid: u32) -> Option<PathBuf> {
        Some(output::of_process(Path::new(self.report.as_ref()?), pid))
    }

    /// Prepares to show reports of another process: a file that cannot be written is refused.
    pub(crate) fn begin(self, pid: u32) -> Result<Shown, Failure> {
        Ok(Shown { file: self.later(pid)?, reporting: self })
    }

    /// The file that reports are written to, which is known to be writable.
    fn later(&self, pid: u32) -> Result<Option<(PathBuf, Later)>, Failure> {
        let Some(path) = self.file(pid) else { return Ok(None) };
        match Later::new(&path) {
            Ok(later) => Ok(Some((path, later))),
            Err(error) => Err(unwritten(&path, &error)),
        }
    }
}

/// The destination of reports of another process.
#[derive(Debug)]
pub(crate) struct Shown {
    file: Option<(PathBuf, Later)>,
    reporting: Reporting,
}

impl Shown {
    /// Shows a report, or replaces the one in the file.
    pub(crate) fn show(&self, text: &str) -> Result<(), Failure> {
        let Reporting { colors, .. } = self.reporting;
        let format = self.reporting.format();
        let Some((path, file)) = &self.file else {
            let terminal = std::io::stdout().is_terminal();
            return print(format.painted(text, colors.are_on(terminal)));
        };
        let text = format.painted(text, colors.are_on(false));
        file.write(text.as_bytes()).map_err(|error| unwritten(path, &error))?;
        print(format!("written to {}\n", path.display()))
    }
}

/// Why a report was not written.
fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("--report {}: {error}", path.display()))
}

/// The destination of reports, prepared before the program runs.
#[derive(Debug)]
pub(crate) struct Observation {
    built_in: Arc<MonitorSet>,
    modules: Vec<Chosen>,
    format: Format,
    file: Option<(PathBuf, Later)>,
    explains: bool,
    colors: manual::Colors,
}

/// Format of reports
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    Table,
    /// An object with one report for each monitor
    Json,
    /// Comma-separated values
    Csv,
    /// Scripts: the rows of the existing Whamm compiler, on stdout; others: tables
    Whamm,
}

impl Format {
    /// A report of this format as a terminal with colours shows it: titles in bold type.
    fn painted(self, text: &str, color: bool) -> String {
        let is_title = |line: &str| line.starts_with("== ") && line.ends_with(" ==");
        if self != Self::Table || !color {
            return text.to_owned();
        }
        let lines = text.split_inclusive('\n').map(|whole| {
            let line = whole.trim_end_matches('\n');
            manual::bold(line, is_title(line)) + &whole[line.len()..]
        });
        lines.collect()
    }

    /// The format of that name.
    pub(crate) fn of(name: &str) -> Result<Self, String> {
        // The names that other versions of this command use.
        let name = if name == "text" { "table" } else { name };
        Self::from_str(name, false)
            .map_err(|_| format!("{name}: not a format; use table, json, csv or whamm"))
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Whamm => "whamm",
        }
    }

    /// The reports of several monitors, one after the other.
    pub(crate) fn write(self, told: &[(String, Told)]) -> String {
        if self == Self::Json {
            let values = told.iter().map(|(name, told)| (name.clone(), told.json()));
            return serde_json::Value::Object(values.collect()).to_string() + "\n";
        }
        let tables = told.iter().filter_map(|(_, told)| told.table(self));
        let texts = told.iter().filter_map(|(_, told)| told.text());
        tables.collect::<Vec<_>>().join("\n") + &texts.collect::<String>()
    }
}

/// The output of a monitor: built-in ones make a report, scripts have variables, and other modules
/// print.
#[derive(Debug)]
pub(crate) enum Told {
    Report(Report),
    Variables(Variables),
    Text(String),
}

impl Told {
    /// The printed output of the module of that number, in a format.
    pub(crate) fn printed(
        observation: &observer::Observation,
        client: &Client,
        text: String,
        format: Format,
    ) -> Self {
        let top = Chosen::parse(&client.text).map_or(Some(TOP), |chosen| chosen.top());
        match observation.variables(client.number, &text, top) {
            Some(variables) if format != Format::Whamm => Self::Variables(variables),
            _ => Self::Text(text),
        }
    }

    fn table(&self, format: Format) -> Option<String> {
        match self {
            Self::Report(report) if format == Format::Csv => Some(report.csv()),
            Self::Report(report) => Some(report.text()),
            Self::Variables(variables) if format == Format::Csv => Some(variables.csv()),
            Self::Variables(variables) => Some(variables.text()),
            Self::Text(_) => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Variables(variables) => Some(variables.printed()),
            Self::Report(_) => None,
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Self::Report(report) => report.json(),
            Self::Variables(variables) => variables.json(),
            Self::Text(text) => serde_json::Value::from(text.as_str()),
        }
    }
}

impl Monitoring {
    /// The file that reports are written to.
    pub(crate) fn report_file(&self) -> Option<PathBuf> {
        self.reporting.file(std::process::id())
    }

    /// Checks the options. The program's file may contain monitors, too.
    pub(crate) fn begin(&self, program: &Path, has_own: bool) -> Result<Observation, Failure> {
        let (files, names): (Vec<&str>, Vec<&str>) =
            self.monitor.iter().map(String::as_str).partition(|text| Chosen::is_file(text));
        let modules = files.into_iter().map(Chosen::parse).collect::<Result<Vec<_>, _>>()?;
        let choices = Choices::new(names);
        let choices = choices.map_err(|error| Failure::usage(format!("--monitor: {error}")))?;
        let choices = choices.of_program(&program.display().to_string());
        if self.monitor.is_empty() && !has_own && (self.reporting.is_given() || self.explain) {
            return Err(Failure::usage(
                "--report, --report-format, --json, --csv and --explain belong to --monitor: \
                 nothing is observed without one",
            ));
        }
        let format = self.reporting.format();
        let file = self.reporting.later(std::process::id())?;
        let built_in = MonitorSet::new(choices);
        let built_in = built_in.map_err(|error| Failure::usage(format!("--monitor: {error}")))?;
        let (explains, colors) = (self.explain, self.reporting.colors);
        Ok(Observation { built_in: Arc::new(built_in), modules, format, file, explains, colors })
    }
}

impl Observation {
    /// Monitors that are modules.
    pub(crate) fn modules(&self) -> &[Chosen] {
        &self.modules
    }

    /// Refuses monitors whose patterns match no function of the program.
    pub(crate) fn admit(&self, module: &Module) -> Result<(), Failure> {
        let found = self.built_in.require_functions(module);
        found.map_err(|error| Failure::usage(format!("--monitor: {error}")))
    }

    /// Whether it prints how the monitors are implemented.
    pub(crate) fn explains(&self) -> bool {
        self.explains
    }

    /// The other monitors.
    pub(crate) fn built_in(&self) -> &Arc<MonitorSet> {
        &self.built_in
    }

    /// Whether a module's output is one of the reports, and is not printed by itself. A module may
    /// declare the variables of its report.
    pub(crate) fn takes_report(&self, declares_variables: bool) -> bool {
        self.file.is_some()
            || match self.format {
                Format::Json | Format::Csv => true,
                Format::Table => declares_variables,
                Format::Whamm => false,
            }
    }

    /// Format of reports
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Writes the reports. Errors of streams that are full or closed are ignored.
    pub(crate) fn end(self, told: &[(String, Told)]) -> Result<(), Failure> {
        if told.is_empty() {
            return Ok(());
        }
        // The output of monitors has the same destination as while the program runs.
        if self.file.is_none() && self.format == Format::Table {
            for (_, told) in told {
                let _ = told.text().map(print);
            }
            let tables: Vec<String> =
                told.iter().filter_map(|(_, told)| told.table(self.format)).collect();
            let color = self.colors.are_on(std::io::stderr().is_terminal());
            let text = self.format.painted(&tables.join("\n"), color);
            let _ = std::io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        let text = self.format.painted(&self.format.write(told), self.colors.are_on(false));
        match self.file {
            Some((path, file)) => {
                file.write(text.as_bytes()).map_err(|error| unwritten(&path, &error))
            }
            None => {
                let _ = std::io::stderr().write_all(text.as_bytes());
                Ok(())
            }
        }
    }
}
