//! The cost of monitors that are modules (`whamm`), attached by the engine, beside the same script
//! in a rewritten program, the built-in monitor of the same name, and the program alone.
//!
//! Each round runs every program with each monitor in each way, one after the other, each in a
//! process of its own, and before each monitor once as it is. A ratio compares a run with the run
//! alone before it, by the CPU time of running and reporting; matching and compiling have separate
//! rows.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/MONITOR/engine@wasm-aot` | the run under a monitor whose functions are written out, and without |
//! | `P/MONITOR/called@wasm-aot` | the same with calls of its functions |
//! | `P/MONITOR/rewriting@wasm-aot` | the rewritten program, and the program |
//! | `P/MONITOR/builtin@wasm-aot` | code that counts, if the monitor consists of counts, and without |
//! | `P/MONITOR/hosted@wasm-aot` | calls of its functions through the host: the cost of isolating its failures |
//! | `P/MONITOR/handwritten@wasm-aot` | an equivalent hand-written module, inlined; it reports nothing |
//! | `P/MONITOR/transfer@wasm-aot` | the same module with empty functions that are called: the cost of passing operands |
//! | `P/MONITOR/existing@wasm-aot` | the module of the existing compiler for the same script, if that compiler is installed |
//! | `P/MONITOR/bind` | the CPU time of starting the monitor, matching it, and compiling the program with it |
//! | `P/MONITOR/report` | the CPU time of its report, which is part of running |
//! | `bind/10000` | matching 10,000 places of a program and calling the monitor once for each, without compiling |
//! | `bind/megabyte` | the same for a megabyte of code, with a monitor that has an export for each instruction |
//! | `geomean/…`, `worst/…` | over the programs |

mod binding;
mod handwritten;

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Manner, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{program, thousandths};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use crate::whamm_rewriting::existing::Existing;
use handwritten::Bodies;
use std::error::Error;
use std::path::{Path, PathBuf};
use whamm::{Destination, LibraryFile, Options, Source};

/// Programs of `engine`: kernels, programs that mostly call, and applications.
const PROGRAMS: [&str; 10] = [
    "nbody",
    "fannkuch",
    "sha256",
    "quicksort",
    "sieve",
    "spectral",
    "recursion",
    "dispatch",
    "bzip2",
    "lz4",
];

macro_rules! monitor {
    ($name:literal, $is_counted:literal) => {
        Monitor {
            name: $name,
            script: include_str!(concat!("../../../whamm/monitors/", $name, ".mm")),
            is_counted: $is_counted,
        }
    };
}

/// A script of the compiler's library.
#[derive(Clone, Copy, Debug)]
struct Monitor {
    name: &'static str,
    script: &'static str,
    /// Whether a built-in monitor reports the same from counts.
    is_counted: bool,
}

const MONITORS: [Monitor; 9] = [
    monitor!("hotness", true),
    monitor!("icount", true),
    monitor!("branches", true),
    monitor!("imix", true),
    monitor!("call_graph", false),
    monitor!("cache_sim", false),
    monitor!("memory", false),
    monitor!("loops", false),
    monitor!("coverage", false),
];

/// Monitors whose calls are made in every way; monitors that are called at each instruction would
/// take hours.
const ABLATED: [&str; 3] = ["branches", "call_graph", "cache_sim"];

/// Monitors whose modules by the existing compiler end within minutes; its maps are functions of
/// its core library.
const BY_EXISTING: [&str; 4] = ["hotness", "icount", "branches", "loops"];

/// A cache as the monitor's library describes it.
const CACHE: &str = include_str!("../../../whamm/tests/apps/cache_lines.wat");

/// The way to observe a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Engine,
    Called,
    Rewriting,
    Builtin,
    Hosted,
    Handwritten,
    Transfer,
    Existing,
}

impl Target {
    const ALL: [Self; 8] = [
        Self::Engine,
        Self::Called,
        Self::Rewriting,
        Self::Builtin,
        Self::Hosted,
        Self::Handwritten,
        Self::Transfer,
        Self::Existing,
    ];

    /// Whether it runs in only one of several rounds.
    fn is_rare(self) -> bool {
        matches!(
            self,
            Self::Called | Self::Hosted | Self::Handwritten | Self::Transfer | Self::Existing
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Called => "called",
            Self::Rewriting => "rewriting",
            Self::Builtin => "builtin",
            Self::Hosted => "hosted",
            Self::Handwritten => "handwritten",
            Self::Transfer => "transfer",
            Self::Existing => "existing",
        }
    }
}

/// The runs of a program with a monitor, in nanoseconds.
#[derive(Debug)]
struct Series {
    monitor: Monitor,
    target: Target,
    subject: Subject,
    with: Vec<u64>,
    without: Vec<u64>,
    bound: Vec<u64>,
    reported: Vec<u64>,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let selection = Selection::new(only, PROGRAMS)?;
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let folder = corpus.folder().join("whamm");
    std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
    let mut report = Report::new("whamm");
    let existing = Existing::find(&corpus.folder().join("whamm-rewriting"), false);
    if let Err(why) = &existing {
        report.notes.push(format!("No rows of the existing compiler: {why}."));
    }
    report.notes.push("Wizard, Wasabi, and tools of native code are measured by `wizard`, where they are installed.".into());
    let workshop = Workshop { folder, tools, existing: existing.ok() };
    let tools = &workshop.tools;
    let mut all: Vec<(Subject, Vec<Series>)> = Vec::new();
    for candidate in program::candidates() {
        if PROGRAMS.contains(&candidate.name()) && selection.holds(candidate.name()) {
            let plain = candidate.subject(&corpus, tools)?;
            peer::compile(tools, Peer::WasmAot, &plain)?;
            peer::compile(tools, Peer::Counting, &plain)?;
            let series = workshop.series(&plain, &mut report.notes)?;
            all.push((plain, series));
        }
    }
    let rounds = if quick { 5 } else { 31 };
    for round in 0..rounds {
        for (plain, series) in &mut all {
            for of_monitor in series.chunk_by_mut(|one, next| one.monitor.name == next.monitor.name)
            {
                let (alone, said) = peer::run(tools, Peer::WasmAot, plain)?;
                for one in
                    of_monitor.iter_mut().filter(|one| round % 5 == 0 || !one.target.is_rare())
                {
                    one.run(tools, alone.cpu, &said)?;
                }
            }
            eprintln!("whamm: {} in round {} of {rounds}", plain.name, round + 1);
        }
    }
    rows(&all, &mut report);
    binding::rows(quick, &mut report)?;
    Ok(report)
}

/// The tools and folders to prepare programs and monitors.
struct Workshop {
    folder: PathBuf,
    tools: Tools,
    existing: Option<Existing>,
}

impl Workshop {
    /// The series of a program with each monitor, in each way.
    fn series(&self, plain: &Subject, notes: &mut Vec<String>) -> Result<Vec<Series>, CorpusError> {
        let mut all = Vec::new();
        for monitor in MONITORS {
            for target in Target::ALL {
                if let Some(subject) = self.subject(plain, monitor, target, notes)? {
                    let (with, without, bound, reported) = Default::default();
                    all.push(Series { monitor, target, subject, with, without, bound, reported });
                }
            }
        }
        Ok(all)
    }

    /// A program with a monitor, if there is one of this kind.
    fn subject(
        &self,
        plain: &Subject,
        monitor: Monitor,
        target: Target,
        notes: &mut Vec<String>,
    ) -> Result<Option<Subject>, CorpusError> {
        let by_hand = |bodies, manner| {
            let made = handwritten::monitor(monitor.name, bodies).map(|text| {
                let path = self.folder.join(format!("{}-{}.wat", monitor.name, target.name()));
                keep(&path, text).map(|()| observed(plain, path, None, manner))
            });
            made.transpose()
        };
        match target {
            Target::Builtin => Ok(monitor.is_counted.then(|| plain.clone())),
            Target::Rewriting => rewritten(&self.folder, &self.tools, plain, monitor).map(Some),
            // Other monitors are called too often to go through the host.
            Target::Hosted if monitor.name != "call_graph" => Ok(None),
            Target::Called | Target::Transfer if !ABLATED.contains(&monitor.name) => Ok(None),
            Target::Engine => attached(&self.folder, plain, monitor, Manner::WrittenOut).map(Some),
            Target::Called => attached(&self.folder, plain, monitor, Manner::Called).map(Some),
            Target::Hosted => attached(&self.folder, plain, monitor, Manner::Hosted).map(Some),
            Target::Handwritten => by_hand(Bodies::Whole, Manner::WrittenOut),
            Target::Transfer => by_hand(Bodies::Empty, Manner::Called),
            Target::Existing => Ok(self.by_existing(plain, monitor, notes)),
        }
    }

    /// A program with a monitor from the existing compiler.
    fn by_existing(
        &self,
        plain: &Subject,
        monitor: Monitor,
        notes: &mut Vec<String>,
    ) -> Option<Subject> {
        let existing = self.existing.as_ref().filter(|_| BY_EXISTING.contains(&monitor.name))?;
        let (script, made) = ["mm", "wasm"]
            .map(|kind| self.folder.join(format!("{}-existing.{kind}", monitor.name)))
            .into();
        let done = keep(&script, monitor.script).map_err(|error| error.to_string());
        match done.and_then(|()| existing.monitor(&script, &made)) {
            Ok(()) => Some(observed(plain, made, Some(existing.core.clone()), Manner::WrittenOut)),
            Err(why) => {
                let why = why
                    .lines()
                    .find(|line| !line.trim().is_empty())
                    .unwrap_or("it does not say why")
                    .trim()
                    .to_owned();
                let note =
                    format!("The existing compiler makes no module of {}: {why}.", monitor.name);
                if !notes.contains(&note) {
                    notes.push(note);
                }
                None
            }
        }
    }
}

/// A program under a monitor that is a module.
fn observed(
    plain: &Subject,
    monitor: PathBuf,
    library: Option<PathBuf>,
    manner: Manner,
) -> Subject {
    Subject { observed: Some(peer::Observed { monitor, library, manner }), ..plain.clone() }
}

fn library(monitor: Monitor) -> Vec<LibraryFile> {
    let library = LibraryFile { name: "cache".into(), module: "cache".into(), bytes: CACHE.into() };
    (monitor.name == "cache_sim").then_some(library).into_iter().collect()
}

fn keep(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), CorpusError> {
    std::fs::write(path, bytes).map_err(CorpusError::io(path.display().to_string()))
}

fn made(
    monitor: Monitor,
    output: Result<whamm::Output, whamm::Diagnostics>,
) -> Result<Vec<u8>, CorpusError> {
    let failed = |said: whamm::Diagnostics| CorpusError::Failed {
        what: monitor.name.into(),
        said: said.to_string(),
    };
    Ok(output.map_err(failed)?.module)
}

fn options() -> Options {
    Options { destination: Destination::Console, ..Options::default() }
}

fn rewritten(
    folder: &Path,
    tools: &Tools,
    plain: &Subject,
    monitor: Monitor,
) -> Result<Subject, CorpusError> {
    let program = std::fs::read(&plain.module)
        .map_err(CorpusError::io(plain.module.display().to_string()))?;
    let script = Source::new(format!("{}.mm", monitor.name), monitor.script);
    let bytes =
        made(monitor, whamm::instrument(&[script], &library(monitor), &program, &options()))?;
    let module = folder.join(format!("{}-{}-aside.wasm", plain.name, monitor.name));
    keep(&module, bytes)?;
    let subject = Subject { module, ..plain.clone() };
    peer::compile(tools, Peer::WasmAot, &subject)?;
    Ok(subject)
}

/// The environment of the measuring process contains the monitor's module.
fn attached(
    folder: &Path,
    plain: &Subject,
    monitor: Monitor,
    manner: Manner,
) -> Result<Subject, CorpusError> {
    let script = Source::new(format!("{}.mm", monitor.name), monitor.script);
    let bytes = made(monitor, whamm::compile_monitor(&[script], &library(monitor), &options()))?;
    let path: PathBuf = folder.join(format!("{}.wasm", monitor.name));
    keep(&path, bytes)?;
    let mut library = None;
    if monitor.name == "cache_sim" {
        let path = folder.join("cache.wat");
        keep(&path, CACHE)?;
        library = Some(path);
    }
    Ok(observed(plain, path, library, manner))
}

impl Series {
    fn run(&mut self, tools: &Tools, without: u64, expected: &[u8]) -> Result<(), CorpusError> {
        let peer = if self.target == Target::Builtin { Peer::Counting } else { Peer::WasmAot };
        let (figures, said) = peer::run(tools, peer, &self.subject)?;
        if !said.starts_with(expected) {
            return Err(CorpusError::Differs {
                program: self.subject.name,
                build: self.monitor.name,
            });
        }
        self.with.push(figures.cpu);
        self.without.push(without);
        self.bound.extend((figures.compile > 0).then_some(figures.compile));
        self.reported.extend((figures.compile > 0).then_some(figures.report));
        Ok(())
    }

    fn row(&self) -> String {
        format!("{}/{}@wasm-aot", self.monitor.name, self.target.name())
    }

    fn ratio(&self) -> Option<Ratio> {
        let of = |values: &[u64]| Blocks::of(values.iter().copied());
        Ratio::of(&of(&self.with), &of(&self.without), 0.0).map(|ratio| thousandths(&ratio))
    }
}

/// The rows of each program, and over all of them.
fn rows(all: &[(Subject, Vec<Series>)], report: &mut Report) {
    for (plain, series) in all {
        for one in series {
            report.rows.extend(
                one.ratio().map(|ratio| {
                    Row::compared(format!("{}/{}", plain.name, one.row()), "us", &ratio)
                }),
            );
            if one.target == Target::Engine {
                for (what, times) in [("bind", &one.bound), ("report", &one.reported)] {
                    let time = Blocks::of(times.iter().copied()).median(0.0) / 1e3;
                    let name = format!("{}/{}/{what}", plain.name, one.monitor.name);
                    report.rows.push(Row::plain(name, time, "us", times.len() as u64));
                }
            }
        }
    }
    for monitor in MONITORS {
        for target in Target::ALL {
            let one = |series: &'_ [Series]| {
                series
                    .iter()
                    .position(|one| (one.monitor.name, one.target) == (monitor.name, target))
            };
            let found: Vec<(&Subject, &Series)> = all
                .iter()
                .filter_map(|(plain, series)| Some((plain, &series[one(series)?])))
                .collect();
            let pairs: Vec<_> =
                found.iter().map(|(_, one)| [one.with.clone(), one.without.clone()]).collect();
            let Some((_, first)) = found.first() else { continue };
            if let Some(ratio) = Ratio::geometric(&pairs) {
                report.rows.push(Row::compared(format!("geomean/{}", first.row()), "ppm", &ratio));
            }
            let each = found.iter().filter_map(|(plain, one)| Some((plain, one.ratio()?)));
            if let Some((plain, worst)) = each.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
                report.rows.push(Row::compared(format!("worst/{}", first.row()), "us", &worst));
                report.notes.push(format!("worst/{} is {}.", first.row(), plain.name));
            }
        }
    }
}
