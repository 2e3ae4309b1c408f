//! The cost of probes by their provider (`providers`): compiled-in hooks, bytes that compilers
//! reserve, calls of profilers, and unmodified code.
//!
//! CPU time, start and end included, of rounds in which every build of every program runs once in
//! each state. `idle` has probes in all functions, off; `default` and `exact` are the policies.
//! `exact` is run in three rounds, and not at all with `--quick`: zstd makes 3e9 calls, which take
//! minutes.
//!
//! | row | what is compared |
//! |---|---|
//! | `PROGRAM/PROVIDER/STATE` | the program with that provider's probes, and the plain build |
//! | `PROGRAM/hooks/floor` | the build with hooks that are nops, and the plain build: the lower bound for any runtime |
//! | `geomean/PROVIDER/STATE`, `worst/PROVIDER/STATE` | over the programs |

use crate::corpus::{self, Build, Corpus, PROGRAMS, Program};
use crate::progress::Progress;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use crate::table3;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// A provider's name, its build, and the plain build of the same compiler.
#[derive(Clone, Copy, Debug)]
struct Provider {
    name: &'static str,
    build: Build,
    plain: Build,
}

const PROVIDERS: [Provider; 5] = [
    Provider { name: "hooks", build: Build::Probed, plain: Build::Base },
    Provider { name: "patchable", build: Build::Patchable, plain: Build::Base },
    Provider { name: "mcount", build: Build::Fentry, plain: Build::Fixed },
    Provider { name: "xray", build: Build::Xray, plain: Build::ClangBase },
    Provider { name: "symbols", build: Build::Base, plain: Build::Base },
];

/// The states of the probes.
const STATES: [&str; 3] = ["idle", "default", "exact"];

/// Microseconds of CPU time, round by round, by the name of the run.
type Times = BTreeMap<String, Vec<u64>>;

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let selection = Selection::new(only, PROGRAMS.iter().map(|program| program.name))?;
    let programs: Vec<&'static Program> =
        PROGRAMS.iter().filter(|program| selection.holds(program.name)).collect();
    let (corpus, library) = (Corpus::prepare()?, corpus::library()?);
    let providers: Vec<Provider> = PROVIDERS
        .into_iter()
        .filter(|provider| corpus.clang || !provider.build.is_clang())
        .collect();
    let rounds = if quick { 3 } else { 31 };
    let progress = Progress::new((rounds * programs.len()) as u64)?;
    let mut all: Vec<Times> = programs.iter().map(|_| Times::new()).collect();
    let exact_rounds = if quick { 0 } else { 3 };
    'rounds: for number in 0..rounds {
        let states = if number < exact_rounds { &STATES[..] } else { &STATES[..2] };
        for (program, times) in programs.iter().zip(&mut all) {
            if progress.is_stopped() {
                break 'rounds;
            }
            let mut runs = runs(&providers, states);
            // A machine that becomes slower during a round must not make probes expensive.
            if number % 2 == 1 {
                runs.reverse();
            }
            round(&corpus, &library, program, runs, times)?;
            progress.passed(program.name, 1);
        }
    }
    let mut report = Report::new("providers");
    for (program, times) in programs.iter().zip(&all) {
        let compared = pairs(&providers).into_iter().filter_map(|(row, subject, plain)| {
            let [subject, plain] = both(times, &subject, &plain)?;
            let blocks = |times: &[u64]| Blocks::of(times.iter().copied());
            let ratio = Ratio::of(&blocks(subject), &blocks(plain), 0.0)?;
            Some(Row::compared(format!("{}/{row}", program.name), "us", &ratio))
        });
        report.rows.extend(compared);
    }
    for (row, subject, plain) in pairs(&providers) {
        let rows = programs
            .iter()
            .zip(&all)
            .filter_map(|(program, times)| Some((program.name, both(times, &subject, &plain)?)));
        report.sum_up(&row, rows);
    }
    if !corpus.clang {
        report.notes.push("clang is missing: no rows of xray.".into());
    }
    report.notes.push("usdt has no rows: programs of the corpus have no points.".into());
    report.notes.extend(progress.end());
    Ok(report)
}

/// The row, the subject and the baseline.
fn pairs(providers: &[Provider]) -> Vec<(String, String, String)> {
    let of = |provider: &Provider| {
        let plain = format!("{:?}", provider.plain);
        STATES.map(|state| {
            let row = format!("{}/{state}", provider.name);
            (row.clone(), row, plain.clone())
        })
    };
    let floor = ("hooks/floor".into(), format!("{:?}", Build::Floor), format!("{:?}", Build::Base));
    providers.iter().flat_map(of).chain([floor]).collect()
}

/// A run: its name, its build, and the provider and the state of its probes.
type Run<'r> = (String, Build, Option<(&'r str, &'r str)>);

/// The runs of a round, the plain builds first.
fn runs<'r>(providers: &'r [Provider], states: &'r [&'r str]) -> Vec<Run<'r>> {
    let mut plain: Vec<Build> = providers.iter().map(|provider| provider.plain).collect();
    plain.push(Build::Floor);
    plain.sort_by_key(|build| format!("{build:?}"));
    plain.dedup();
    let observed = providers.iter().flat_map(|provider| {
        let run = |&state| {
            let name = format!("{}/{state}", provider.name);
            (name, provider.build, Some((provider.name, state)))
        };
        states.iter().map(run)
    });
    plain.into_iter().map(|build| (format!("{build:?}"), build, None)).chain(observed).collect()
}

/// Runs everything once.
fn round(
    corpus: &Corpus,
    library: &Path,
    program: &'static Program,
    runs: Vec<Run<'_>>,
    times: &mut Times,
) -> Result<(), Box<dyn Error>> {
    let mut expected = None;
    for (name, build, state) in runs {
        let mut command = Command::new(corpus.build(program, build)?);
        command.arg(program.rounds);
        if let Some((provider, state)) = state {
            watch(&mut command, library, corpus.folder(), provider, state);
        }
        // Programs for gprof write its input file at their end.
        command.env("GMON_OUT_PREFIX", corpus.folder().join("gmon"));
        let outcome = corpus::run(program, build, &mut command, &mut expected)?;
        times.entry(name).or_default().push(outcome.cpu.as_micros() as u64);
    }
    Ok(())
}

/// Profiles a program with one provider, in a state.
fn watch(command: &mut Command, library: &Path, folder: &Path, provider: &str, state: &str) {
    let policy = if state == "exact" { "exact" } else { "adaptive" };
    table3::observe(command, library, folder, policy);
    command.env("FASTINST_OUTPUT", folder.join("providers.profile"));
    command.env("FASTINST_FORMAT", "profile").env("FASTINST_PROVIDER", provider);
    if state != "default" {
        command.env("FASTINST_PLANT", "all");
    }
    if state == "idle" {
        // Outside of recorded spans a program runs its own code.
        command.env("FASTINST_START_ON", "1000h");
    }
}

/// The times of a subject, and of its baseline in the same rounds.
fn both<'t>(times: &'t Times, subject: &str, plain: &str) -> Option<[&'t [u64]; 2]> {
    let subject = times.get(subject)?;
    Some([subject, times.get(plain)?.get(..subject.len())?])
}
