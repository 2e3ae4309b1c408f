//! The accuracy of the policies: complete traces of the corpus's programs, replayed against each.
//!
//! A trace is recorded once; each policy is then simulated on it several times, with different
//! seeds. The effects of measuring on a program are not part of the comparison.
//!
//! | row | what |
//! |---|---|
//! | `P/POLICY/exact` | functions whose count is exact, in per cent |
//! | `P/POLICY/count_median`, `…/count_p90` | errors of the other counts, in per cent |
//! | `P/POLICY/calls` | error of all calls together, in per cent |
//! | `P/POLICY/mean_median` | errors of the means of functions that are not complete, in per cent |
//! | `P/POLICY/coverage` | functions with 1,000 calls or more whose mean lies in its interval, in per cent |
//! | `P/POLICY/cost` | the share of the time for probes and switches, in per cent |
//! | `all/POLICY/…` | over the functions of all programs |

use crate::corpus::{self, Build, Corpus, PROGRAMS, Program};
use crate::report::{Report, Row};
use crate::selection::Selection;
use profiler::simulation::{self, Event, Outcome, RECORD};
use profiler::{Clock, Costs, Policy, Ticks};
use std::error::Error;
use std::path::Path;
use std::process::Command;

const POLICIES: [&str; 2] = ["adaptive", "paper"];

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    // A program that forks would have a trace for each child.
    let programs = || PROGRAMS.iter().filter(|program| program.name != "workers");
    let selection = Selection::new(only, programs().map(|program| program.name))?;
    let corpus = Corpus::prepare()?;
    let tracer = corpus.compile(
        "tracer.c",
        include_str!("../corpus/tracer.c"),
        "gcc",
        &["-shared", "-fPIC", "-pthread"],
    )?;
    let events: u64 = if quick { 8 << 20 } else { 64 << 20 };
    let mut report = Report::new("policies");
    let mut all: Vec<Errors> = POLICIES.iter().map(|_| Errors::default()).collect();
    for program in programs().filter(|program| selection.holds(program.name)) {
        let trace = trace(&corpus, program, &tracer, events)?;
        for (policy, all) in POLICIES.iter().zip(&mut all) {
            let mut errors = Errors::default();
            for seed in 1..=if quick { 1 } else { 3 } {
                let hz = 1e9 * crate::table2::ticks_per_ns();
                let costs = Costs { pair: 50.0, bias: 0.0, count: 2.8, toggle: 900.0, skip: 4.0 };
                let policy: Policy = policy.parse().map_err(|_| format!("no policy {policy}"))?;
                let play = simulation::play(
                    trace.iter().copied(),
                    policy,
                    Clock { hz, step: 1 },
                    costs,
                    seed,
                );
                errors.add(&play, hz);
            }
            errors.rows(&format!("{}/{policy}", program.name), &mut report);
            all.join(errors);
        }
        let span = trace.last().map_or(0, |event| event.at.0 - trace[0].at.0) as f64
            / crate::table2::ticks_per_ns()
            / 1e9;
        report.notes.push(format!("{}: {} events in {span:.2} s.", program.name, trace.len()));
    }
    for (policy, errors) in POLICIES.iter().zip(&all) {
        errors.rows(&format!("all/{policy}"), &mut report);
    }
    report.notes.push("A program that forks has no single trace: workers is left out.".into());
    Ok(report)
}

/// Runs a program under the tracer; returns the events in the order of time.
fn trace(
    corpus: &Corpus,
    program: &'static Program,
    tracer: &Path,
    events: u64,
) -> Result<Vec<Event>, Box<dyn Error>> {
    let file = corpus.folder().join("trace");
    let mut command = Command::new(corpus.build(program, Build::Probed)?);
    command
        .arg(program.rounds)
        .env("LD_PRELOAD", tracer)
        .env("TRACE", &file)
        .env("TRACE_EVENTS", events.to_string());
    corpus::run(program, Build::Probed, &mut command, &mut None)?;
    let bytes = std::fs::read(&file)?;
    std::fs::remove_file(&file)?;
    let records = bytes
        .chunks_exact(RECORD)
        .filter_map(|record| Some(Event::from_bytes(record.try_into().ok()?)));
    // Records that were reserved and never filled are zero.
    let mut trace: Vec<Event> = records.filter(|event| event.at > Ticks(0)).collect();
    // Events of one thread are in order already; equal instants stay so.
    trace.sort_by_key(|event| event.at);
    if trace.is_empty() { Err(format!("{} left no trace", program.name).into()) } else { Ok(trace) }
}

/// The errors of a policy.
#[derive(Debug, Default)]
struct Errors {
    functions: usize,
    exact: usize,
    counts: Vec<f64>,
    calls: [f64; 2],
    means: Vec<f64>,
    covered: [usize; 2],
    cost: f64,
    span: f64,
}

impl Errors {
    fn add(&mut self, outcome: &Outcome, hz: f64) {
        self.cost += outcome.cost;
        self.span += outcome.span.0 as f64;
        for function in &outcome.profile.functions {
            let Some(truth) = outcome.truth.get(&function.id) else { continue };
            self.functions += 1;
            self.exact += usize::from(function.calls.is_exact());
            let calls = truth.calls as f64;
            self.calls[0] += function.calls.value;
            self.calls[1] += calls;
            if !function.calls.is_exact() {
                self.counts.push((function.calls.value / calls - 1.0).abs() * 100.0);
            }
            let Some(mean) = function.mean.filter(|_| truth.ended > 0) else { continue };
            let real = truth.ticks / truth.ended as f64 / hz * 1e9;
            if !mean.is_exact() {
                self.means.push((mean.value / real - 1.0).abs() * 100.0);
            }
            if truth.calls >= 1000 {
                let (lo, hi) = mean.interval();
                self.covered[0] += usize::from((lo..=hi).contains(&real));
                self.covered[1] += 1;
            }
        }
    }

    fn join(&mut self, other: Self) {
        self.functions += other.functions;
        self.exact += other.exact;
        self.counts.extend(other.counts);
        self.means.extend(other.means);
        for at in 0..2 {
            self.calls[at] += other.calls[at];
            self.covered[at] += other.covered[at];
        }
        self.cost += other.cost;
        self.span += other.span;
    }

    fn rows(&self, name: &str, report: &mut Report) {
        let mut row = |what: &str, value: f64, n: usize| {
            report.rows.push(Row::plain(format!("{name}/{what}"), value, "%", n as u64));
        };
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        row("exact", share(self.exact, self.functions), self.functions);
        row("count_median", quantile(&self.counts, 0.5), self.counts.len());
        row("count_p90", quantile(&self.counts, 0.9), self.counts.len());
        row("calls", 100.0 * (self.calls[0] / self.calls[1] - 1.0), self.functions);
        row("mean_median", quantile(&self.means, 0.5), self.means.len());
        row("mean_p90", quantile(&self.means, 0.9), self.means.len());
        row("coverage", share(self.covered[0], self.covered[1]), self.covered[1]);
        row("cost", 100.0 * self.cost / self.span, 1);
    }
}

fn quantile(values: &[f64], at: f64) -> f64 {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(((sorted.len() as f64 * at) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.9), 3.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
