//! The cost of the preload library for short programs: its start and end, many functions that are
//! called a few times, libraries that are loaded and unloaded.
//!
//! CPU time of the process and its children, plain and preloaded in turn. A value is the median of
//! the differences in µs; the baseline is the time of the program alone.

use crate::corpus::{self, Corpus, CorpusError, child};
use crate::progress::Progress;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Functions with probes, in assembly.
const FUNCTIONS: &str = include_str!("../../c/hostility/functions.c");
/// Loads and unloads a library repeatedly.
const CHURN: &str = include_str!("../../../fastinst/tests/programs/churn.c");
const PLUGIN: &str = include_str!("../../../fastinst/tests/programs/plugin.c");
const PROBED: &str = "-finstrument-functions";

/// A program of about two milliseconds: this many turns of a loop with a load and a store.
const SPINS: u32 = 1_000_000;
/// The number of loads of the library in a run.
const CYCLES: u32 = 1_000;

/// A program, its arguments, and the divisor of its cost.
struct Subject {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    policy: &'static str,
    share: u32,
    runs: usize,
}

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let (corpus, library) = (Corpus::prepare_tools()?, corpus::library()?);
    let subjects = subjects(&corpus, if quick { 9 } else { 41 })?;
    let progress = Progress::new(subjects.iter().map(|subject| subject.runs as u64).sum())?;
    let mut report = Report::new("start");
    for subject in subjects {
        let (mut with, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..subject.runs {
            if progress.is_stopped() {
                break;
            }
            let run = |command: &mut Command| {
                child::run(command.args(&subject.arguments)).map(|outcome| outcome.cpu)
            };
            let mut preloaded = Command::new(&subject.program);
            preloaded.env("LD_PRELOAD", &library).env("FASTINST_POLICY", subject.policy);
            preloaded.env("FASTINST_OUTPUT", corpus.folder().join("start.profile"));
            plain.push(run(&mut Command::new(&subject.program))?.as_nanos() as u64);
            with.push(run(&mut preloaded)?.as_nanos() as u64);
            progress.passed(&subject.name, 1);
        }
        let apart = with
            .iter()
            .zip(&plain)
            .map(|(with, plain)| with.saturating_sub(*plain) / u64::from(subject.share));
        let cost = Blocks::of(apart.collect::<Vec<_>>()).median(0.0);
        if let Some(ratio) = Ratio::of(&Blocks::of(with), &Blocks::of(plain), 0.0) {
            let row = Row::compared(subject.name, "us", &ratio);
            let baseline = ratio.baseline / f64::from(subject.share) / 1e3;
            report.rows.push(Row { value: cost / 1e3, baseline: Some(baseline), ..row });
        }
    }
    report
        .notes
        .push("A value is what preloading adds, in processor time; its baseline what the program takes alone.".to_owned());
    report.notes.extend(progress.end());
    Ok(report)
}

fn subjects(corpus: &Corpus, runs: usize) -> Result<Vec<Subject>, CorpusError> {
    let functions = |count: u32, calls: u32, spins: u32| {
        let flags = [
            format!("-DFUNCTIONS={count}"),
            format!("-DCALLS={calls}"),
            format!("-DSPINS={spins}"),
        ];
        corpus.compile("functions.c", FUNCTIONS, "gcc", &flags.each_ref().map(String::as_str))
    };
    let mut subjects = Vec::new();
    for count in [10, 500, 1_000] {
        for policy in ["adaptive", "count"] {
            let (name, program) =
                (format!("short-{count}/start_end/{policy}"), functions(count, 2, SPINS)?);
            subjects.push(Subject { name, program, arguments: Vec::new(), policy, share: 1, runs });
        }
    }
    for count in [1_000, 10_000, 100_000] {
        for policy in ["adaptive", "count"] {
            let (name, program) = (format!("many/{count}/{policy}"), functions(count, 5, 0)?);
            let runs = if count < 100_000 { runs } else { runs.div_ceil(4) };
            subjects.push(Subject { name, program, arguments: Vec::new(), policy, share: 1, runs });
        }
    }
    let plugin = corpus.compile("plugin.c", PLUGIN, "gcc", &[PROBED, "-shared", "-fPIC"])?;
    let program = corpus.compile("churn.c", CHURN, "gcc", &[PROBED, "-pthread", "-ldl"])?;
    let arguments: Vec<OsString> = vec![plugin.into(), CYCLES.to_string().into()];
    for policy in ["adaptive", "count"] {
        let (program, arguments) = (program.clone(), arguments.clone());
        let runs = runs.div_ceil(4);
        subjects.push(Subject {
            name: format!("churn/cycle/{policy}"),
            program,
            arguments,
            policy,
            share: CYCLES,
            runs,
        });
    }
    Ok(subjects)
}
