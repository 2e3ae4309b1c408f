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
    /// Print what each monitor became in the program's code, and why nothing cheaper
    #[arg(long)]
    explain: bool,
}

/// Where reports go, made ready before the program runs.
#[derive(Debug)]
pub(crate) struct Observation {
    watch: Arc<Watch>,
    modules: Vec<Chosen>,
    format: Format,
    file: Option<(PathBuf, File)>,
    explains: bool,
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

    /// What several monitors have to say, one behind the other.
    pub(crate) fn write(self, told: &[(String, Told)]) -> String {
        let joined = |text: fn(&Report) -> String| {
            let reports = told.iter().filter_map(|(_, told)| told.report());
            let texts = told.iter().filter_map(|(_, told)| told.text());
            let reports = reports.map(text).collect::<Vec<_>>().join("\n");
            reports + &texts.collect::<String>()
        };
        match self {
            Self::Text => joined(Report::text),
            Self::Csv => joined(Report::csv),
            Self::Json => {
                let value = |told: &Told| match told {
                    Told::Report(report) => report.json(),
                    Told::Text(text) => serde_json::Value::from(text.as_str()),
                };
                let values = told.iter().map(|(name, told)| (name.clone(), value(told)));
                serde_json::Value::Object(values.collect()).to_string() + "\n"
            }
        }
    }
}

/// What a monitor has to say: built-in ones make a report, modules print.
#[derive(Debug)]
pub(crate) enum Told {
    Report(Report),
    Text(String),
}

impl Told {
    fn report(&self) -> Option<&Report> {
        if let Self::Report(report) = self { Some(report) } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl Monitoring {
    /// Checks what was asked for.
    pub(crate) fn begin(&self) -> Result<Observation, Failure> {
        let (files, names): (Vec<&str>, Vec<&str>) =
            self.monitor.iter().map(String::as_str).partition(|text| Chosen::is_file(text));
        let modules = files.into_iter().map(Chosen::parse).collect::<Result<Vec<_>, _>>()?;
        let choices = Choices::new(names);
        let choices = choices.map_err(|error| Failure::usage(format!("--monitor: {error}")))?;
        if self.monitor.is_empty()
            && (self.report.is_some() || self.json || self.csv || self.explain)
        {
            return Err(Failure::usage(
                "--report, --json, --csv and --explain belong to --monitor: nothing is observed without one",
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
        let explains = self.explain;
        Ok(Observation { watch: Arc::new(watch), modules, format, file, explains })
    }
}

impl Observation {
    /// Monitors that are modules.
    pub(crate) fn modules(&self) -> &[Chosen] {
        &self.modules
    }

    /// Whether it is to be told what became of the monitors.
    pub(crate) fn explains(&self) -> bool {
        self.explains
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

    /// Writes what was observed. A report that cannot be written does not change how the program
    /// ended.
    pub(crate) fn end(self, told: &[(String, Told)]) {
        if told.is_empty() {
            return;
        }
        let text = self.format.write(told);
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
