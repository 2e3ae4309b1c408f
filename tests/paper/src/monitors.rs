//! The cost of built-in monitors, compilation included (`monitors`): from a module's bytes to the
//! report, beside the same program without a monitor.
//!
//! Each round runs every program once as it is and once with each monitor, one after the other,
//! each in a process of its own that compiles the program. A ratio compares two runs of the same
//! round by the CPU time of all threads, compilation included. The rows are named like those of
//! `wizard`: `P/MONITOR@wasm-aot`, `geomean/…` and `worst/…`.

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Subject};
use crate::engine::program;
use crate::engine::tools::Tools;
use crate::report::Report;
use crate::selection::Selection;
use crate::wizard::{Runs, rows};
use std::error::Error;

/// The attached monitors, in turn: each alone, and all that have their own code together.
const MONITORS: [&[&str]; 8] = [
    &["hotness"],
    &["branches"],
    &["icount"],
    &["coverage"],
    &["memory"],
    &["functions"],
    &["latency"],
    &["hotness", "branches", "memory", "coverage"],
];

struct Series {
    subject: Subject,
    runs: Runs,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let selection = Selection::new(only, candidates.iter().map(program::Candidate::name))?;
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let mut all = Vec::new();
    for candidate in candidates.iter().filter(|candidate| selection.holds(candidate.name())) {
        let subject = candidate.subject(&corpus, &tools)?;
        let observed = MONITORS.map(|monitors| (monitors.join("+"), Vec::new())).into();
        let runs = Runs { program: subject.name, plain: Vec::new(), observed };
        all.push(Series { subject, runs });
    }
    let rounds = if quick { 3 } else { 31 };
    for round in 0..rounds {
        for series in &mut all {
            run_all(&tools, series)?;
        }
        eprintln!("monitors: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("monitors");
    let all: Vec<Runs> = all.into_iter().map(|series| series.runs).collect();
    rows(&all, &mut report);
    Ok(report)
}

fn run_all(tools: &Tools, Series { subject, runs }: &mut Series) -> Result<(), CorpusError> {
    let (figures, expected) = peer::run_from_source(tools, subject, &[])?;
    runs.plain.push(figures.start_cpu + figures.cpu);
    for (monitors, (_, times)) in MONITORS.iter().zip(&mut runs.observed) {
        let (figures, said) = peer::run_from_source(tools, subject, monitors)?;
        if said != expected {
            return Err(CorpusError::Differs { program: subject.name, build: "monitored" });
        }
        times.push(figures.start_cpu + figures.cpu);
    }
    Ok(())
}
