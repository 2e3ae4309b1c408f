//! The true values of a program: counts, shares of CPU time, and the time of a call.
//!
//! | true value | from |
//! |---|---|
//! | calls | every call counted (`--policy count`), twice; functions whose counts differ are not judged |
//! | self shares | the same file with every site switched off, sampled by the kernel's clock, in the judged condition and alternating with its profiles |
//! | means | functions with a known number of turns, timed alone and without probes |

use super::clock;
use super::conditions::Condition;
use super::errors::{Truth, quantile};
use super::launch::Launcher;
use super::programs::{Subject, Variant};
use super::stacks::{self, Shares};
use super::told::ToldProfile;
use crate::corpus::{Corpus, child};
use crate::journal::Journal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::process::Command;
use std::time::Duration;

/// The longest time of a run without a condition, even on a machine that is busy with other work.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The stored form of the true values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    calls: BTreeMap<String, f64>,
    varying: usize,
    means: BTreeMap<String, f64>,
}

/// Determines the true values of a program, or reads them from its file; means from this many runs.
pub(super) fn truth(
    corpus: &Corpus,
    launcher: &Launcher,
    journal: &Journal,
    subject: &Subject,
    runs: usize,
) -> Result<Truth, Box<dyn Error>> {
    let name = format!("truth-{}", subject.name());
    let kept = match journal.get::<Kept>(&name) {
        Some(kept) => kept,
        None => {
            let (calls, varying) = counts(corpus, launcher, subject)?;
            let means = if subject.means { means(corpus, subject, runs)? } else { BTreeMap::new() };
            let kept = Kept { calls, varying, means };
            journal.put(&name, &kept)?;
            kept
        }
    };
    Ok(Truth { calls: kept.calls, shares: None, means: kept.means })
}

/// A command that runs a build of a subject.
pub(super) fn command(
    corpus: &Corpus,
    subject: &Subject,
    variant: Variant,
) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(subject.build(corpus, variant)?);
    command.args(subject.arguments());
    Ok(command)
}

/// The calls of functions that are called equally often in two runs; and the number of the others.
fn counts(
    corpus: &Corpus,
    launcher: &Launcher,
    subject: &Subject,
) -> Result<(BTreeMap<String, f64>, usize), Box<dyn Error>> {
    let run = || -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
        let mut program = command(corpus, subject, Variant::Probed)?;
        let json = launcher.profile(
            Condition::Alone,
            &["--policy", "count"],
            &mut program,
            2 * PATIENCE,
        )?;
        calls(&json).ok_or_else(|| {
            format!("{}: what counting printed is no profile", subject.name()).into()
        })
    };
    let (one, other) = (run()?, run()?);
    let all = one.len().max(other.len());
    let same: BTreeMap<String, f64> =
        one.into_iter().filter(|(name, calls)| other.get(name) == Some(calls)).collect();
    let varying = all - same.len();
    Ok((same, varying))
}

fn calls(json: &Value) -> Option<BTreeMap<String, f64>> {
    let told = ToldProfile::of(json)?;
    Some(
        told.functions
            .into_iter()
            .filter_map(|(name, function)| Some((name, function.calls?.value)))
            .collect(),
    )
}

/// The distribution of the time of one run without probes, in a condition. Other load changes it:
/// threads that wait for each other spend more time in the kernel when they are preempted.
pub(super) fn shares(
    corpus: &Corpus,
    journal: &Journal,
    subject: &Subject,
    condition: Condition,
    run: usize,
) -> Result<Shares, Box<dyn Error>> {
    let name = format!("shares-{}-{}-{run}", condition.name(), subject.name());
    if let Some(shares) = journal.get(&name) {
        return Ok(shares);
    }
    let program = command(corpus, subject, Variant::Off)?;
    let watched = clock::watch(condition, &program, 2 * PATIENCE)?;
    let shares = stacks::shares(&watched, program.get_program().as_ref())?;
    journal.put(&name, &shares)?;
    Ok(shares)
}

/// Parses lines `NAME NANOSECONDS`; the result is the median over the runs.
fn means(
    corpus: &Corpus,
    subject: &Subject,
    runs: usize,
) -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let mut all = BTreeMap::<String, Vec<f64>>::new();
    for _ in 0..runs {
        let outcome = child::run(Command::new(subject.build(corpus, Variant::Plain)?).arg("time"))?;
        for line in String::from_utf8_lossy(&outcome.stdout).lines() {
            let (name, time) = line.split_once(' ').ok_or("a line without a time")?;
            all.entry(name.to_owned()).or_default().push(time.parse()?);
        }
    }
    Ok(all.into_iter().filter_map(|(name, times)| Some((name, quantile(&times, 0.5)?))).collect())
}
