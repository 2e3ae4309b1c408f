//! What monitors cost that are modules (`whamm`): attached by our engine, beside the same script in a rewritten program, the built-in monitor of the
//! same name, and the program alone.
//!
//! Each round runs every program once as it is and once with each, one after the other, each in a process of its own. A ratio is that of two runs
//! of the same round, by the processors' time of running and reporting; matching and compiling are rows of their own.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/MONITOR/engine@wasm-aot` | the run under a monitor whose functions are written out, and without |
//! | `P/MONITOR/called@wasm-aot` | the same with calls of its functions |
//! | `P/MONITOR/rewriting@wasm-aot` | the rewritten program, and the program |
//! | `P/MONITOR/builtin@wasm-aot` | code that counts, if the monitor is made of counts, and without |
//! | `P/MONITOR/bind` | the processors' time of starting the monitor, matching it, and compiling the program with it |
//! | `geomean/…`, `worst/…` | over the programs |

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{program, thousandths};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use std::error::Error;
use std::path::{Path, PathBuf};
use whamm::{Destination, LibraryFile, Options, Source};

/// Programs of `engine`: kernels, what does little but call, and applications.
const PROGRAMS: [&str; 10] =
    ["nbody", "fannkuch", "sha256", "quicksort", "sieve", "spectral", "recursion", "dispatch", "bzip2", "lz4"];

macro_rules! monitor {
    ($name:literal, $is_counted:literal) => {
        Monitor { name: $name, script: include_str!(concat!("../../../whamm/monitors/", $name, ".mm")), is_counted: $is_counted }
    };
}

/// A script of the compiler's library.
#[derive(Clone, Copy, Debug)]
struct Monitor {
    name: &'static str,
    script: &'static str,
    /// Whether there is a built-in monitor that tells the same, which is made of counts.
    is_counted: bool,
}

const MONITORS: [Monitor; 6] = [
    monitor!("hotness", true),
    monitor!("icount", true),
    monitor!("branches", true),
    monitor!("imix", true),
    monitor!("call_graph", false),
    monitor!("cache_sim", false),
];

/// A cache as the monitor's library describes it.
const CACHE: &str = include_str!("../../../whamm/tests/apps/cache_lines.wat");

/// How a program is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Engine,
    Called,
    Rewriting,
    Builtin,
}

impl Target {
    const ALL: [Self; 4] = [Self::Engine, Self::Called, Self::Rewriting, Self::Builtin];

    fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Called => "called",
            Self::Rewriting => "rewriting",
            Self::Builtin => "builtin",
        }
    }
}

/// A program's runs with a monitor; nanoseconds.
#[derive(Debug)]
struct Series {
    monitor: Monitor,
    target: Target,
    subject: Subject,
    with: Vec<u64>,
    without: Vec<u64>,
    bound: Vec<u64>,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let selection = Selection::new(only, PROGRAMS)?;
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let folder = corpus.folder().join("whamm");
    std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
    let mut all: Vec<(Subject, Vec<Series>)> = Vec::new();
    for candidate in program::candidates() {
        if PROGRAMS.contains(&candidate.name()) && selection.holds(candidate.name()) {
            let plain = candidate.subject(&corpus, &tools)?;
            peer::compile(&tools, Peer::WasmAot, &plain)?;
            peer::compile(&tools, Peer::Counting, &plain)?;
            let series = series(&folder, &tools, &plain)?;
            all.push((plain, series));
        }
    }
    let rounds = if quick { 5 } else { 31 };
    for round in 0..rounds {
        for (plain, series) in &mut all {
            let (alone, said) = peer::run(&tools, Peer::WasmAot, plain)?;
            for one in series {
                one.run(&tools, alone.cpu, &said)?;
            }
        }
        eprintln!("whamm: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("whamm");
    rows(&all, &mut report);
    Ok(report)
}

/// A program with each monitor, in each way.
fn series(folder: &Path, tools: &Tools, plain: &Subject) -> Result<Vec<Series>, CorpusError> {
    let mut all = Vec::new();
    for monitor in MONITORS {
        for target in Target::ALL.into_iter().filter(|target| *target != Target::Builtin || monitor.is_counted) {
            let subject = match target {
                Target::Builtin => plain.clone(),
                Target::Rewriting => rewritten(folder, tools, plain, monitor)?,
                Target::Engine | Target::Called => attached(folder, plain, monitor, target)?,
            };
            all.push(Series { monitor, target, subject, with: vec![], without: vec![], bound: vec![] });
        }
    }
    Ok(all)
}

fn library(monitor: Monitor) -> Vec<LibraryFile> {
    let library = LibraryFile { name: "cache".into(), module: "cache".into(), bytes: CACHE.into() };
    (monitor.name == "cache_sim").then_some(library).into_iter().collect()
}

fn keep(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), CorpusError> {
    std::fs::write(path, bytes).map_err(CorpusError::io(path.display().to_string()))
}

fn made(monitor: Monitor, output: Result<whamm::Output, whamm::Diagnostics>) -> Result<Vec<u8>, CorpusError> {
    let failed = |said: whamm::Diagnostics| CorpusError::Failed { what: monitor.name.into(), said: said.to_string() };
    Ok(output.map_err(failed)?.module)
}

fn options() -> Options {
    Options { destination: Destination::Console, ..Options::default() }
}

fn rewritten(folder: &Path, tools: &Tools, plain: &Subject, monitor: Monitor) -> Result<Subject, CorpusError> {
    let program = std::fs::read(&plain.module).map_err(CorpusError::io(plain.module.display().to_string()))?;
    let script = Source::new(format!("{}.mm", monitor.name), monitor.script);
    let bytes = made(monitor, whamm::instrument(&[script], &library(monitor), &program, &options()))?;
    let module = folder.join(format!("{}-{}-aside.wasm", plain.name, monitor.name));
    keep(&module, bytes)?;
    let subject = Subject { module, ..plain.clone() };
    peer::compile(tools, Peer::WasmAot, &subject)?;
    Ok(subject)
}

/// The monitor's module goes along in the environment of the process that measures.
fn attached(folder: &Path, plain: &Subject, monitor: Monitor, target: Target) -> Result<Subject, CorpusError> {
    let script = Source::new(format!("{}.mm", monitor.name), monitor.script);
    let bytes = made(monitor, whamm::compile_monitor(&[script], &library(monitor), &options()))?;
    let path: PathBuf = folder.join(format!("{}.wasm", monitor.name));
    keep(&path, bytes)?;
    let mut subject = plain.clone();
    let mut observed = peer::Observed { monitor: path, library: None, called: target == Target::Called };
    if monitor.name == "cache_sim" {
        let library = folder.join("cache.wat");
        keep(&library, CACHE)?;
        observed.library = Some(library);
    }
    subject.observed = Some(observed);
    Ok(subject)
}

impl Series {
    fn run(&mut self, tools: &Tools, without: u64, expected: &[u8]) -> Result<(), CorpusError> {
        let peer = if self.target == Target::Builtin { Peer::Counting } else { Peer::WasmAot };
        let (figures, said) = peer::run(tools, peer, &self.subject)?;
        if !said.starts_with(expected) {
            return Err(CorpusError::Differs { program: self.subject.name, build: self.monitor.name });
        }
        self.with.push(figures.cpu);
        self.without.push(without);
        self.bound.extend((figures.compile > 0).then_some(figures.compile));
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
            report.rows.extend(one.ratio().map(|ratio| Row::compared(format!("{}/{}", plain.name, one.row()), "us", &ratio)));
            if one.target == Target::Engine {
                let bound = Blocks::of(one.bound.iter().copied()).median(0.0) / 1e3;
                let name = format!("{}/{}/bind", plain.name, one.monitor.name);
                report.rows.push(Row::plain(name, bound, "us", one.bound.len() as u64));
            }
        }
    }
    for monitor in MONITORS {
        for target in Target::ALL {
            let one =
                |series: &'_ [Series]| series.iter().position(|one| (one.monitor.name, one.target) == (monitor.name, target));
            let found: Vec<(&Subject, &Series)> =
                all.iter().filter_map(|(plain, series)| Some((plain, &series[one(series)?]))).collect();
            let pairs: Vec<_> = found.iter().map(|(_, one)| [one.with.clone(), one.without.clone()]).collect();
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
