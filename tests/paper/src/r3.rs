//! Recording, reducing and replaying (`r3`), beside the figures of Wasm-R3 (Baek and others, OOPSLA
//! 2024): the cost of recording, the share of events that are kept, the time to generate and to run
//! a replay, and whether it behaves the same.
//!
//! The programs are those of `engine`, with a non-trivial host: files, clocks, random numbers,
//! arguments. Each round runs every program once as it is, once recorded by the engine, once as it
//! records itself, and once as its replay, one after the other, each in a process of its own. A
//! ratio compares two runs of the same round by CPU time. An interrupted experiment continues where
//! it was.
//!
//! | row | what it is |
//! |---|---|
//! | `table5.1/P` | events that recording everything would write: see `kinds` |
//! | `fig5.1/P`, `fig5.1/P/KIND` | events that are kept, in all and by kind, beside those |
//! | `fig5.1/P/rewriting` | events kept by rewriting, beside those that the engine keeps |
//! | `fig5.2/P` | from the program to its replay, by the wall clock |
//! | `fig5.3/P@wasm-aot`, `…@rewriting` | recorded by the engine, and by rewriting, beside the program |
//! | `fig5.4/P` | the CPU time of generating the replay, per kept event; n is their number |
//! | `fig5.4/P/all` | the same of all events together |
//! | `fig5.5/P` | the replay, beside the program |
//! | `table5.2/ENGINE` | replays that pass all their events there, and their number |
//! | `correct` | programs for which record, replay, record yields the same trace, and replays pass |
//! | `interface/100k/…` | the same of a program that calls its host 100,000 times a second |
//! | `interface/most/…` | the same of one that calls as often as possible; neither is in any mean |
//! | `sum/…`, `mean/…`, `geomean/…`, `worst/…` | over the programs |

mod commands;
mod kinds;
mod subject;

use crate::corpus::Corpus;
use crate::engine::program;
use crate::engine::thousandths;
use crate::engine::tools::Tools;
use crate::journal::Journal;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use commands::{Commands, Findings, Round};
use kinds::Kinds;
use std::error::Error;
use std::path::Path;
use subject::{RATES, Subject};

/// A program, the findings about it, and its rounds.
struct Recorded {
    subject: Subject,
    findings: Findings,
    rounds: Vec<Round>,
}

/// The literature's means of the remaining events in figure 5.1, by kind.
const REMAINING: [(&str, f64); 3] = [("loads", 0.0397), ("calls", 0.0465), ("entries", 0.0617)];

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let names = candidates.iter().map(program::Candidate::name);
    let selection = Selection::new(only, names.chain(RATES.map(|(name, _)| name)))?;
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let commands = Commands::prepare(&corpus, &tools)?;
    let open = corpus.folder().join(if quick { "r3/quick" } else { "r3/open" });
    let journal = Journal::open(&open, &[&commands.wasm_aot, &commands.whamm])?;
    let mut subjects = Vec::new();
    for candidate in candidates.iter().filter(|candidate| selection.holds(candidate.name())) {
        subjects.push(Subject::with_a_world(candidate, &corpus, &tools, &commands.folder)?);
    }
    if RATES.iter().any(|(name, _)| selection.holds(name)) {
        let all = Subject::interfaces(&corpus, &tools, &commands)?;
        subjects.extend(all.into_iter().filter(|subject| selection.holds(subject.name)));
    }
    let mut all = Vec::new();
    for subject in subjects {
        let findings = journal.kept(&subject.file("once"), || {
            eprintln!("r3: recording {}", subject.name);
            commands.findings(&subject)
        })?;
        all.push(Recorded { subject, findings, rounds: Vec::new() });
    }
    let rounds = if quick { 3 } else { 31 };
    for round in 0..rounds {
        for recorded in &mut all {
            let subject = &recorded.subject;
            let name = subject.file(&format!("{round}"));
            recorded.rounds.push(journal.kept(&name, || commands.round(subject))?);
        }
        eprintln!("r3: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("r3");
    let (interfaces, programs): (Vec<_>, Vec<_>) =
        all.iter().partition(|it| RATES.iter().any(|(name, _)| *name == it.subject.name));
    remaining(&programs, &mut report);
    times(&programs, &mut report);
    portability(&commands, &all, &mut report);
    for one in interfaces {
        one.rows(&mut report);
    }
    report.notes.push(format!("The runs are in {}.", shown(&journal.close()?)));
    Ok(report)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Recorded {
    /// The times of one kind, round by round.
    fn each(&self, kind: usize) -> Vec<u64> {
        self.rounds.iter().map(|round| round[kind]).collect()
    }

    /// The times of one kind beside the program's own.
    fn ratio(&self, kind: usize) -> Option<Ratio> {
        let blocks = |kind| Blocks::of(self.each(kind));
        Ratio::of(&blocks(kind), &blocks(0), 0.0).map(|ratio| thousandths(&ratio))
    }

    /// The nanoseconds to generate the replay, and the number of its events.
    fn generation(&self) -> (f64, u64) {
        (Blocks::of(self.each(4)).median(0.0), self.findings.kept.all())
    }

    fn rows(&self, report: &mut Report) {
        let (name, Findings { raw, kept, itself, .. }) = (self.subject.name, &self.findings);
        report.rows.push(Row::plain(format!("table5.1/{name}"), raw.all() as f64, "", 1));
        report.rows.push(Row::counted(format!("fig5.1/{name}"), kept.all(), raw.all()));
        for ((kind, kept), (_, raw)) in kept.each().into_iter().zip(raw.each()) {
            report.rows.push(Row::counted(format!("fig5.1/{name}/{kind}"), kept, raw));
        }
        let both = format!("fig5.1/{name}/rewriting");
        report.rows.push(Row::counted(both, itself.all(), kept.all()));
        report.rows.push(Row::plain(format!("fig5.2/{name}"), self.findings.pipeline, "ms", 1));
        for (kind, row, _) in TIMES {
            if let Some(ratio) = self.ratio(kind) {
                report.rows.push(Row::compared(row.replace("P", name), "us", &ratio));
            }
        }
        let (time, events) = self.generation();
        let each = time / events.max(1) as f64;
        report.rows.push(Row::plain(format!("fig5.4/{name}"), each, "ns", events));
        report.rows.push(Row::plain(format!("fig5.4/{name}/all"), time / 1e6, "ms", events));
    }
}

/// Times that are compared with the program's own: their index, their names in rows, and the
/// literature's worst value.
const TIMES: [(usize, &str, Option<f64>); 3] =
    [(1, "fig5.3/P@wasm-aot", Some(6.0)), (2, "fig5.3/P@rewriting", None), (3, "fig5.5/P", None)];

/// The share of events that remains.
fn remaining(programs: &[&Recorded], report: &mut Report) {
    programs.iter().for_each(|one| one.rows(report));
    let (mut kept, mut raw) = (Kinds::default(), Kinds::default());
    for one in programs {
        kept += one.findings.kept;
        raw += one.findings.raw;
    }
    report.rows.push(Row::counted("sum/fig5.1", kept.all(), raw.all()).beside(0.001));
    let count = programs.len().max(1);
    let mean = |of: &dyn Fn(&Kinds) -> u64| {
        let shares = programs
            .iter()
            .map(|one| of(&one.findings.kept) as f64 / of(&one.findings.raw).max(1) as f64);
        shares.sum::<f64>() / count as f64
    };
    let row = |name: String, share: f64| Row {
        ratio: Some(share),
        ..Row::plain(name, share * 1e6, "ppm", count as u64)
    };
    report.rows.push(row("mean/fig5.1".into(), mean(&Kinds::all)).beside(0.0853));
    for (number, (kind, published)) in REMAINING.into_iter().enumerate() {
        let share = mean(&|kinds| kinds.each()[number].1);
        report.rows.push(row(format!("mean/fig5.1/{kind}"), share).beside(published));
    }
}

/// The means and the worst of the times.
fn times(programs: &[&Recorded], report: &mut Report) {
    let count = programs.len().max(1) as f64;
    let wall = programs.iter().map(|one| one.findings.pipeline).sum::<f64>() / count;
    report.rows.push(Row::plain("mean/fig5.2", wall, "ms", programs.len() as u64).beside(8651.0));
    for (kind, row, published) in TIMES {
        let pairs: Vec<_> = programs.iter().map(|one| [one.each(kind), one.each(0)]).collect();
        if let Some(mean) = Ratio::geometric(&pairs) {
            let name = format!("geomean/{}", row.replace("/P", ""));
            report.rows.push(Row::compared(name, "ppm", &mean));
        }
        let each = programs.iter().filter_map(|one| Some((one.subject.name, one.ratio(kind)?)));
        if let Some((program, worst)) = each.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
            let name = format!("worst/{}", row.replace("/P", ""));
            report.notes.push(format!("{name} is {program}."));
            report.rows.push(Row { paper: published, ..Row::compared(name, "us", &worst) });
        }
    }
    let generated = programs.iter().map(|one| {
        let (time, events) = one.generation();
        time / events.max(1) as f64
    });
    let mean = generated.sum::<f64>() / count;
    report.rows.push(Row::plain("mean/fig5.4", mean, "ns", programs.len() as u64).beside(50_545.0));
    report.notes.push(
        "Published of Wasm-R3, beside the rows that they are of: 0.1 % of all events remain, in \
         the mean of 17 applications 8.5 %; 8.7 s from record to replay; recording costs up to 6 \
         times; making a replay takes 0.7 to 378 us a kept event, below 1 us from 100,000 events \
         on; 17 of 17 replays run on eight engines, and 17 of 17 traces are the same after a \
         replay."
            .into(),
    );
}

/// The engines in which replays pass all events, and whether replays behave the same.
fn portability(commands: &Commands, all: &[Recorded], report: &mut Report) {
    let count = all.len() as u64;
    for engine in commands.engines() {
        let passes = |one: &&Recorded| matches!(one.findings.engines.get(engine), Some(None));
        let passed = all.iter().filter(passes).count() as u64;
        report.rows.push(Row::counted(format!("table5.2/{engine}"), passed, count).beside(1.0));
    }
    let same = all.iter().filter(|one| one.findings.is_same).count() as u64;
    report.rows.push(Row::counted("correct", same, count).beside(1.0));
    for one in all {
        let name = one.subject.name;
        if !one.findings.is_same {
            report.notes.push(format!("{name}: the trace of its replay is another, or no replay."));
        }
        for (engine, why) in &one.findings.engines {
            if let Some(why) = why {
                report.notes.push(format!("{name} in {engine}: {why}"));
            }
        }
    }
}
