//! The cost of the built-in monitors (`wizard`): each beside the same program alone, beside other
//! tools that count, and a decomposition of the costs of probes.
//!
//! Each round runs every program once as it is and once with each monitor, one after the other,
//! each in a process of its own, which compiles the program for its monitors. A ratio compares two
//! runs of the same round by the CPU time of running and reporting.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/MONITOR/builtin@wasm-aot` | the run with a monitor, or several joined by `+`, and without |
//! | `P/MONITOR/rewriting@wasm-aot` | the run of the program that the product's compiler has rewritten, with `hotness` or `branches`, and of the program as it is |
//! | `geomean/…`, `worst/…` | over the programs |
//! | `peer/NAME/P/MONITOR` | a foreign tool that counts, and the same program without it: `valgrind` and `perf` treat the module as a native program, in short runs, which include their own start |
//! | `KERNEL/…`, `probe/…` | see `decomposition` |

mod decomposition;
mod others;

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{program, thousandths};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use others::Rewritten;
use std::error::Error;

/// Programs of `engine`: kernels, programs that mostly call, and applications, three of them with
/// over half a megabyte of code.
const PROGRAMS: [&str; 10] = [
    "nbody",
    "sha256",
    "quicksort",
    "spectral",
    "recursion",
    "dispatch",
    "json",
    "lua",
    "sqlite",
    "zstd",
];

/// The attached monitors, in turn.
const MONITORS: [&[&str]; 11] = [
    &["hotness"],
    &["branches"],
    &["icount"],
    &["opcodes"],
    &["blocks"],
    &["coverage"],
    &["memory"],
    &["functions"],
    &["profile"],
    &["latency"],
    &["hotness", "opcodes"],
];

/// The CPU times of a program's runs: its own, with each monitor, and rewritten.
struct Series {
    subject: Subject,
    plain: Vec<u64>,
    monitored: [Vec<u64>; MONITORS.len()],
    rewritten: Vec<Rewritten>,
}

impl Series {
    /// All runs, by the names of their rows.
    fn runs(&self) -> impl Iterator<Item = (String, &[u64])> {
        let monitored = MONITORS.iter().zip(&self.monitored);
        let monitored = monitored
            .map(|(monitors, times)| (format!("{}/builtin", monitors.join("+")), &times[..]));
        monitored.chain(
            self.rewritten.iter().map(|it| (format!("{}/rewriting", it.monitor), &it.times[..])),
        )
    }
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let selection = Selection::new(only, candidates.iter().map(program::Candidate::name))?;
    let chosen =
        |name: &str| if only.is_empty() { PROGRAMS.contains(&name) } else { selection.holds(name) };
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let mut all: Vec<Series> = Vec::new();
    for candidate in candidates.iter().filter(|candidate| chosen(candidate.name())) {
        let subject = candidate.subject(&corpus, &tools)?;
        peer::compile(&tools, Peer::WasmAot, &subject)?;
        let rewritten = Rewritten::make_all(&tools, &subject)?;
        all.push(Series { subject, plain: Vec::new(), monitored: Default::default(), rewritten });
    }
    let rounds = if quick { 3 } else { 31 };
    for round in 0..rounds {
        for series in &mut all {
            run_all(&tools, series)?;
        }
        eprintln!("wizard: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("wizard");
    let runs = |series: &Series| Runs {
        program: series.subject.name,
        plain: series.plain.clone(),
        observed: series.runs().map(|(name, times)| (name, times.to_vec())).collect(),
    };
    rows(&all.iter().map(runs).collect::<Vec<_>>(), &mut report);
    for Series { subject, .. } in &all {
        others::measure(&tools, subject, quick, &mut report)?;
    }
    report.notes.extend(others::missing());
    decomposition::measure(quick, &mut report)?;
    Ok(report)
}

fn run_all(tools: &Tools, series: &mut Series) -> Result<(), CorpusError> {
    let (figures, expected) = peer::run(tools, Peer::WasmAot, &series.subject)?;
    series.plain.push(figures.cpu);
    let differs = |build| CorpusError::Differs { program: series.subject.name, build };
    for (monitors, times) in MONITORS.iter().zip(&mut series.monitored) {
        let (figures, said) = peer::run_monitored(tools, &series.subject, monitors)?;
        if said != expected {
            return Err(differs("monitored"));
        }
        times.push(figures.cpu);
    }
    for rewritten in &mut series.rewritten {
        let (figures, said) = peer::run(tools, Peer::WasmAot, &rewritten.subject)?;
        // The report follows the program's output.
        if !said.starts_with(&expected) {
            return Err(differs("rewritten"));
        }
        rewritten.times.push(figures.cpu);
    }
    Ok(())
}

/// The CPU times of a program's runs: as it is, and observed, by the names of rows.
pub(crate) struct Runs {
    pub(crate) program: &'static str,
    pub(crate) plain: Vec<u64>,
    pub(crate) observed: Vec<(String, Vec<u64>)>,
}

/// A row for each program and each way to observe it, and the mean and the worst over the programs.
pub(crate) fn rows(all: &[Runs], report: &mut Report) {
    let names: Vec<&str> = all
        .first()
        .into_iter()
        .flat_map(|runs| runs.observed.iter().map(|(name, _)| name.as_str()))
        .collect();
    for (i, name) in names.iter().enumerate() {
        let times = |runs: &Runs| runs.observed.get(i).map_or_else(Vec::new, |(_, it)| it.clone());
        let ratio = |runs: &Runs| {
            Ratio::of(&Blocks::of(times(runs)), &Blocks::of(runs.plain.iter().copied()), 0.0)
        };
        let each: Vec<_> = all
            .iter()
            .filter_map(|runs| Some((runs.program, thousandths(&ratio(runs)?))))
            .collect();
        for (program, ratio) in &each {
            report.rows.push(Row::compared(format!("{program}/{name}@wasm-aot"), "us", ratio));
        }
        let pairs: Vec<_> = all.iter().map(|runs| [times(runs), runs.plain.clone()]).collect();
        if let Some(mean) = Ratio::geometric(&pairs) {
            report.rows.push(Row::compared(format!("geomean/{name}@wasm-aot"), "ppm", &mean));
        }
        if let Some((program, worst)) = each.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median))
        {
            report.rows.push(Row::compared(format!("worst/{name}@wasm-aot"), "us", worst));
            report.notes.push(format!("worst/{name} is {program}."));
        }
    }
}
