//! `wasm-aot monitors`, and what `run --monitor` adds to a run.

use super::modules::{Chosen, OPTIONS};
use super::{Failure, print};
use clap::Args;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use wasm_aot::monitor::{Choices, KINDS, Report, Watch};
use wasm_aot::{Engine, Module};

/// List the monitors that `run --monitor` knows, with their options
#[derive(Debug, Args)]
pub(crate) struct Monitors {
    /// Print it as JSON
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
        out.push_str("\nEvery monitor: function=GLOB looks at some functions only, top=N shows so many rows (top=all: all).\n");
        out.push_str("\nModules and scripts (FILE.wasm, .wat, .mm), with libraries behind +, have these options:\n");
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
    /// Observe the program: NAME[,OPTION[=VALUE]]…, or FILE[+LIBRARY]…[,OPTION[=VALUE]]…, a module
    /// or a script, see `wasm-aot monitors`; may be given several times
    #[arg(long, value_name = "MONITOR")]
    monitor: Vec<String>,
    /// Where reports go, instead of stderr; %p is the process's number
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
    /// Reports for programs: an object with one report for each monitor
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Reports for programs: rows of values separated by commas
    #[arg(long)]
    csv: bool,
}

/// Where reports go, made ready before the program runs.
#[derive(Debug)]
pub(crate) struct Observation {
    watch: Arc<Watch>,
    modules: Vec<Chosen>,
    format: Format,
    file: Option<(PathBuf, File)>,
}

/// How reports are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text,
    Json,
    Csv,
}

impl Format {
    /// The format of that name.
    pub(crate) fn of(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "csv" => Ok(Self::Csv),
            other => Err(format!("{other}: no format; there are text, json and csv")),
        }
    }

    /// Several reports, one behind the other, and behind them what modules have said, by their
    /// names.
    pub(crate) fn write_with(self, reports: &[Report], said: Vec<(String, String)>) -> String {
        match self {
            Self::Json => {
                let reports = reports
                    .iter()
                    .map(|report| (report.monitor.to_owned(), "attached", report.json()));
                let said = said
                    .into_iter()
                    .map(|(name, text)| (name, "module", serde_json::Value::from(text)));
                object(reports.chain(said))
            }
            Self::Text | Self::Csv => {
                self.write(reports) + &said.into_iter().map(|(_, text)| text).collect::<String>()
            }
        }
    }

    /// Several reports, one behind the other.
    pub(crate) fn write(self, reports: &[Report]) -> String {
        match self {
            Self::Text => reports.iter().map(Report::text).collect::<Vec<_>>().join("\n"),
            Self::Csv => reports.iter().map(Report::csv).collect::<Vec<_>>().join("\n"),
            Self::Json => object(
                reports.iter().map(|report| (report.monitor.to_owned(), "attached", report.json())),
            ),
        }
    }
}

/// Values by their names. What comes later under a name that is taken has its kind behind it.
fn object(values: impl Iterator<Item = (String, &'static str, serde_json::Value)>) -> String {
    let mut object = serde_json::Map::new();
    for (name, kind, value) in values {
        let name = if object.contains_key(&name) { format!("{name} ({kind})") } else { name };
        object.insert(name, value);
    }
    serde_json::Value::Object(object).to_string() + "\n"
}

impl Monitoring {
    /// Checks what was asked for.
    pub(crate) fn begin(&self) -> Result<Observation, Failure> {
        let (files, names): (Vec<&str>, Vec<&str>) =
            self.monitor.iter().map(String::as_str).partition(|text| Chosen::is_file(text));
        let modules = files.into_iter().map(Chosen::parse).collect::<Result<Vec<_>, _>>()?;
        let choices = Choices::new(names);
        let choices = choices.map_err(|error| Failure::usage(format!("--monitor: {error}")))?;
        if self.monitor.is_empty() && (self.report.is_some() || self.json || self.csv) {
            return Err(Failure::usage(
                "--report, --json and --csv belong to --monitor: nothing is observed without one",
            ));
        }
        let format = match (self.json, self.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Text,
        };
        let path = self
            .report
            .as_ref()
            .map(|path| PathBuf::from(path.replace("%p", &std::process::id().to_string())));
        let file = path.map(|path| match File::create(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(Failure::new(format!("--report {}: {error}", path.display()))),
        });
        let file = file.transpose()?;
        let watch =
            Watch::new(choices).map_err(|error| Failure::usage(format!("--monitor: {error}")))?;
        Ok(Observation { watch: Arc::new(watch), modules, format, file })
    }
}

impl Observation {
    /// Monitors that are modules.
    pub(crate) fn modules(&self) -> &[Chosen] {
        &self.modules
    }

    /// What the other monitors need.
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Whether the module has to be compiled for what is observed.
    pub(crate) fn hooks(&self) -> bool {
        self.watch.needs_hooks()
    }

    /// Compiles a module, and what is needed to observe it.
    pub(crate) fn compile(&self, engine: &Engine, bytes: &[u8]) -> Result<Module, wasm_aot::Error> {
        self.watch.compile(engine, bytes)
    }

    /// Compiles a module again that was compiled before.
    pub(crate) fn recompile(
        &self,
        engine: &Engine,
        module: &Module,
    ) -> Result<Module, wasm_aot::Error> {
        self.watch.recompile(engine, module)
    }

    /// Whether what modules say belongs to the other reports, and is not printed.
    pub(crate) fn takes_reports(&self) -> bool {
        self.file.is_some() || !matches!(self.format, Format::Text)
    }

    /// Writes what was observed, and what modules have said, by their names. A report that cannot
    /// be written does not change how the program ended.
    pub(crate) fn end(self, module: &Module, said: Vec<(String, String)>) {
        let reports = self.watch.reports(module);
        if reports.is_empty() && said.is_empty() {
            return;
        }
        let text = self.format.write_with(&reports, said);
        match self.file {
            Some((path, mut file)) => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    super::complain(format!("--report {}: {error}", path.display()));
                }
            }
            None => drop(std::io::stderr().write_all(text.as_bytes())),
        }
    }
}
