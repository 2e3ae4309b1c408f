//! The cost of the profiler for real programs (table 3): slowdown, toggles, samples, memory.
//!
//! Each round runs every build of every program once, one after the other; a ratio compares two
//! runs of the same round. Each run must have the output of the uninstrumented program.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/slowdown` | profiled, with the default policy, and the uninstrumented build |
//! | `P/slowdown_vs_floor` | profiled, and the same build with every hook call a nop: the cost of the runtime itself |
//! | `P/floor` | the floor, and the uninstrumented build: the cost of the calls themselves |
//! | `P/latent` | the floor with comparisons (`A9`) instead of nops, as in calls with trampolines at arbitrary addresses |
//! | `P/clang` | clang, instrumented after inlining and profiled, and clang's uninstrumented build |
//! | `P/toggles_per_s`, `P/samples_per_s`, `P/toggle_share`, `P/agent_share`, `P/memory` | from the profiles |
//! | `geomean/…`, `worst/…` | over the programs: the means of each round, and the program whose median is worst |

use crate::corpus::{self, Build, Corpus, CorpusError, PROGRAMS, Program};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use profiler::Profile;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The runs of each program in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Run {
    Base,
    Floor,
    Latent,
    Profiled,
    ClangBase,
    ClangProfiled,
}

impl Run {
    fn build(self) -> Build {
        match self {
            Self::Base => Build::Base,
            Self::Floor => Build::Floor,
            Self::Latent => Build::Latent,
            Self::Profiled => Build::Probed,
            Self::ClangBase => Build::ClangBase,
            Self::ClangProfiled => Build::ClangProbed,
        }
    }

    fn is_profiled(self) -> bool {
        matches!(self, Self::Profiled | Self::ClangProfiled)
    }
}

/// The row, the subject, the baseline.
const RATIOS: [(&str, Run, Run); 5] = [
    ("slowdown", Run::Profiled, Run::Base),
    ("slowdown_vs_floor", Run::Profiled, Run::Floor),
    ("floor", Run::Floor, Run::Base),
    ("latent", Run::Latent, Run::Floor),
    ("clang", Run::ClangProfiled, Run::ClangBase),
];

/// The runs of one program.
#[derive(Debug, Default)]
struct Series {
    /// Microseconds, round by round.
    cpu: BTreeMap<Run, Vec<u64>>,
    resident: BTreeMap<Run, Vec<u64>>,
    facts: Vec<Facts>,
    /// The expected output.
    expected: Option<Vec<u8>>,
}

/// The figures from the profiles of one run, of all processes together.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    cpu: f64,
    toggles: f64,
    samples: f64,
    switching: f64,
    agent: f64,
    functions: f64,
    exact: f64,
    calls: f64,
    written: f64,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let selection = Selection::new(only, PROGRAMS.iter().map(|program| program.name))?;
    let programs: Vec<&'static Program> =
        PROGRAMS.iter().filter(|program| selection.holds(program.name)).collect();
    let corpus = Corpus::prepare()?;
    let library = corpus::library()?;
    let mut runs = vec![Run::Base, Run::Floor, Run::Latent, Run::Profiled];
    if corpus.clang {
        runs.extend([Run::ClangBase, Run::ClangProfiled]);
    }
    let rounds = if quick { 7 } else { 31 };
    let mut all: Vec<Series> = programs.iter().map(|_| Series::default()).collect();
    for round in 0..rounds {
        for (program, series) in programs.iter().zip(&mut all) {
            for &run in &runs {
                once(&corpus, &library, program, run, series)?;
            }
        }
        eprintln!("table3: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("table3");
    for (program, series) in programs.iter().zip(&all) {
        rows_of(program.name, series, &mut report);
    }
    summary(&programs, &all, &mut report);
    if !corpus.clang {
        report.notes.push("clang is missing: no rows of its builds.".into());
    }
    Ok(report)
}

/// One run of one build.
fn once(
    corpus: &Corpus,
    library: &Path,
    program: &'static Program,
    run: Run,
    series: &mut Series,
) -> Result<(), Box<dyn Error>> {
    let executable = corpus.build(program, run.build())?;
    let mut command = Command::new(executable);
    command.arg(program.rounds);
    let profiles = corpus.folder().join("profiles");
    if run.is_profiled() {
        let _ = std::fs::remove_dir_all(&profiles);
        std::fs::create_dir_all(&profiles)?;
        // As users run it: the run writes a profile only; reports are made later.
        observe(&mut command, library, &profiles, "adaptive");
        command.env("FASTINST_FORMAT", "profile");
    }
    let outcome = corpus::run(program, run.build(), &mut command, &mut series.expected)?;
    if !outcome.stderr.is_empty() {
        return Err(CorpusError::Failed { what: program.name.into(), said: outcome.said() }.into());
    }
    series.cpu.entry(run).or_default().push(outcome.cpu.as_micros() as u64);
    series.resident.entry(run).or_default().push(outcome.resident);
    if run == Run::Profiled {
        let facts = facts(&profiles, outcome.cpu.as_secs_f64())?;
        series.facts.push(facts);
    }
    Ok(())
}

/// Profiles a program.
pub(crate) fn observe(command: &mut Command, library: &Path, profiles: &Path, policy: &str) {
    for (key, _) in
        std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("FASTINST_"))
    {
        command.env_remove(key);
    }
    command
        .env("LD_PRELOAD", library)
        .env("FASTINST_POLICY", policy)
        .env("FASTINST_FORMAT", "json");
    command.env("FASTINST_OUTPUT", profiles.join("%p.json"));
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

/// All profiles of a folder, as JSON.
pub(crate) fn profiles(folder: &Path) -> Result<Vec<serde_json::Value>, Box<dyn Error>> {
    files(folder)?.iter().map(|file| Ok(serde_json::from_slice(&std::fs::read(file)?)?)).collect()
}

fn facts(folder: &Path, cpu: f64) -> Result<Facts, Box<dyn Error>> {
    let mut facts = Facts { cpu, ..Facts::default() };
    for file in files(folder)? {
        let bytes = std::fs::read(file)?;
        let profile = Profile::from_file(&bytes)?;
        let spent = &profile.header.spent;
        facts.toggles += spent.toggles as f64;
        facts.samples += spent.samples as f64;
        facts.switching += spent.switching;
        facts.agent += spent.agent;
        facts.written += bytes.len() as f64;
        facts.functions += profile.functions.len() as f64;
        facts.calls += profile.functions.iter().map(|function| function.calls.value).sum::<f64>();
        facts.exact +=
            profile.functions.iter().filter(|function| function.calls.is_exact()).count() as f64;
    }
    Ok(facts)
}

fn rows_of(name: &str, series: &Series, report: &mut Report) {
    for (row, subject, baseline) in RATIOS {
        if let Some(ratio) = ratio(series, subject, baseline) {
            report.rows.push(Row::compared(format!("{name}/{row}"), "us", &ratio));
        }
    }
    let median = |of: &dyn Fn(&Facts) -> f64| {
        let mut values: Vec<f64> = series.facts.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let n = series.facts.len() as u64;
    let mut plain = |row: &str, value: f64, unit: &'static str| {
        report.rows.push(Row::plain(format!("{name}/{row}"), value, unit, n));
    };
    plain("calls_per_s", median(&|facts| facts.calls / facts.cpu), "1/s");
    plain("functions", median(&|facts| facts.functions), "");
    plain("exact", median(&|facts| 100.0 * facts.exact / facts.functions), "%");
    plain("toggles_per_s", median(&|facts| facts.toggles / facts.cpu), "1/s");
    plain("samples_per_s", median(&|facts| facts.samples / facts.cpu), "1/s");
    plain("toggle_share", median(&|facts| 100.0 * facts.switching / facts.cpu), "%");
    plain("agent_share", median(&|facts| 100.0 * facts.agent / facts.cpu), "%");
    plain("written", median(&|facts| facts.written / 1e3), "kB");
    let resident = |run: Run| {
        series
            .resident
            .get(&run)
            .and_then(|values| values.iter().min())
            .map_or(f64::NAN, |&b| b as f64)
    };
    plain("memory", (resident(Run::Profiled) - resident(Run::Floor)) / 1e6, "MB");
}

fn ratio(series: &Series, subject: Run, baseline: Run) -> Option<Ratio> {
    let of = |run: Run| Some(Blocks::of(series.cpu.get(&run)?.iter().copied()));
    Ratio::of(&of(subject)?, &of(baseline)?, 0.0)
}

/// The rows over all programs.
fn summary(programs: &[&'static Program], all: &[Series], report: &mut Report) {
    for (row, subject, baseline) in RATIOS {
        let rows = programs.iter().zip(all).filter_map(|(program, series)| {
            let [subject, baseline] = [series.cpu.get(&subject)?, series.cpu.get(&baseline)?];
            Some((program.name, [subject.as_slice(), baseline.as_slice()]))
        });
        report.sum_up(row, rows);
    }
}
