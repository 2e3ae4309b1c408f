//! The accuracy of the profiler's figures (`truth`): counts, shares, means and intervals beside
//! known values, on a machine that is busy in four ways.
//!
//! | row | what |
//! |---|---|
//! | `CONDITION/calls_median`, `…/calls_p90` | errors of counts that are estimated, in per cent; `…_hot` of functions with 1 % of the time and more |
//! | `…/coverage`, `…/width_median` | intervals of these counts that contain the true value; half their width beside the value |
//! | `…/exact`, `…/exact_wrong` | functions whose count is exact, in per cent; exact counts that are wrong |
//! | `…/mean_median`, `…/mean_p90` | errors of CPU time per call, of functions that burn a known number of turns |
//! | `…/wall_mean_median`, `…/wall_mean_p90` | the same of the mean that is printed, which is wall time where probes timed it |
//! | `…/self_share_max`, `…/self_share_beyond` | the largest error of a self share, in points; the same less the interval that holds all of them with 95 %, by the number of samples and by how runs of the program differ |
//! | `…/self_share_outside` | self shares further from the truth than the number of samples explains in 95 of 100, in per cent |
//! | `…/self_share_coverage` | intervals of self times that contain the true value, as far as that is known |
//! | `…/told_unknown` | figures of functions with half a percent of the time that are unknown, in per cent |
//! | `…/impossible`, `…/failed` | impossible figures; runs that gave no profile |
//! | `exact/lost`, `exact/busy`, `exact/…` | policy `exact` of the demo: calls lost, CPU time beside competitors over that alone, and as above |
//! | `cost/PROGRAM`, `cost/geomean`, `cost/worst` | CPU time over that of the floor |
//! | `aa/changed`, `compare/found`, `compare/wrong` | changes that comparisons report |
//!
//! Every run is kept as a file under `target/paper/truth`: an interrupted experiment continues, and
//! errors can be inspected.

mod clock;
mod company;
mod comparisons;
mod conditions;
mod cost;
mod errors;
mod launch;
mod possible;
mod programs;
mod stacks;
mod told;
mod truths;

pub(crate) use company::{Role, act};

use crate::corpus::{self, Corpus, CorpusError};
use crate::journal::Journal;
use crate::report::{Report, Row};
use crate::selection::Selection;
use comparisons::Verdicts;
use conditions::Condition;
use errors::{Errors, Finding, Truth, quantile};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use launch::Launcher;
use programs::{Subject, Variant, subjects};
use serde_json::Value;
use stacks::Runs;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use told::ToldProfile;

/// What is asked of the experiment.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these programs.
    programs: Vec<String>,
    /// Only these conditions: alone, competitors, quota, nice.
    #[arg(long, value_name = "CONDITION")]
    condition: Vec<String>,
    /// Judge this command instead of the one that is built beside us.
    #[arg(long, value_name = "FILE")]
    fastinst: Option<PathBuf>,
    /// Only the conditions: no costs, no comparisons.
    #[arg(long)]
    figures: bool,
}

/// The numbers of repetitions.
#[derive(Clone, Copy, Debug)]
struct Plan {
    runs: usize,
    /// The runs of programs that yield enough samples for means.
    long_runs: usize,
    clock_runs: usize,
    costs: usize,
    comparisons: usize,
    /// The runs on each side of a comparison.
    side: usize,
    /// The time after which no further run begins.
    limit: Option<Duration>,
}

impl Plan {
    const FULL: Self = Self {
        runs: 20,
        long_runs: 5,
        clock_runs: 5,
        costs: 20,
        comparisons: 20,
        side: 10,
        limit: None,
    };
    /// Ten minutes, plus the time of the last run.
    const QUICK: Self = Self {
        runs: 3,
        long_runs: 1,
        clock_runs: 1,
        costs: 3,
        comparisons: 1,
        side: 3,
        limit: Some(Duration::from_secs(500)),
    };

    fn runs_of(&self, subject: &Subject) -> usize {
        if subject.means { self.long_runs } else { self.runs }
    }
}

/// The policy of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Default,
    Exact,
}

impl Policy {
    const fn ending(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Exact => "-exact",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::Exact => &["--policy", "exact"],
        }
    }
}

/// The state of the experiment.
struct Trial {
    corpus: Corpus,
    launcher: Launcher,
    library: PathBuf,
    journal: Journal,
    plan: Plan,
    subjects: Vec<(Subject, Truth)>,
    conditions: Vec<Condition>,
    /// The distribution of a program's time in a condition.
    shares: BTreeMap<(Condition, &'static str), Runs>,
    /// Whether the kernel permits sampling.
    has_clock: bool,
    begin: Instant,
    bar: ProgressBar,
    /// The omissions, one line each.
    notes: Vec<String>,
    /// The errors found.
    found: Vec<Finding>,
}

pub(crate) fn measure(quick: bool, args: &Args) -> Result<Report, Box<dyn Error>> {
    let mut trial = Trial::prepare(quick, args)?;
    trial.find_truths()?;
    let mut report = Report::new("truth");
    trial.judge_conditions(&mut report)?;
    if !args.figures {
        trial.judge_exact(&mut report)?;
        trial.judge_costs(&mut report)?;
        trial.judge_comparisons(&mut report)?;
    }
    trial.bar.finish_and_clear();
    let found = findings(&trial.launcher.folder.join("findings.txt"), trial.found)?;
    let last = trial.journal.close()?;
    report.notes.extend(trial.notes);
    report.notes.push(found);
    report.notes.push(format!("Each run's profile: {}.", last.display()));
    Ok(report)
}

impl Trial {
    fn prepare(quick: bool, args: &Args) -> Result<Self, Box<dyn Error>> {
        let begin = Instant::now();
        let known = subjects();
        let selection = Selection::new(&args.programs, known.iter().map(Subject::name))?;
        let chosen = |subject: &Subject| {
            selection.holds(subject.name())
                && (subject.quick || !quick || !args.programs.is_empty())
        };
        let mut subjects: Vec<Subject> = known.into_iter().filter(chosen).collect();
        let selected = Selection::new(&args.condition, Condition::ALL.map(Condition::name))?;
        let conditions = Condition::ALL
            .into_iter()
            .filter(|condition| selected.holds(condition.name()))
            .collect();
        let mut notes = Vec::new();
        let corpus = match subjects.iter().any(Subject::is_of_corpus).then(Corpus::prepare) {
            Some(Ok(corpus)) => corpus,
            Some(Err(error)) => {
                notes.push(format!("Skipped, all programs of the corpus: {error}."));
                subjects.retain(|subject| !subject.is_of_corpus());
                Corpus::prepare_tools()?
            }
            None => Corpus::prepare_tools()?,
        };
        let (fastinst, library) = judged(args.fastinst.as_deref())?;
        let folder = corpus.folder().join("truth");
        fs::create_dir_all(&folder)?;
        let journal = Journal::open(&folder.join("open"), &[&fastinst, &library])?;
        let plan = if quick { Plan::QUICK } else { Plan::FULL };
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{msg:32} [{wide_bar}] {pos}/{len} runs, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.println(format!("truth: {} runs are there already", journal.len()));
        let subjects = subjects.into_iter().map(|subject| (subject, Truth::default())).collect();
        let launcher = Launcher { fastinst, folder };
        Ok(Self {
            corpus,
            launcher,
            library,
            journal,
            plan,
            subjects,
            conditions,
            shares: BTreeMap::new(),
            has_clock: false,
            begin,
            bar,
            notes,
            found: Vec::new(),
        })
    }

    /// Determines the true values of each program. A program that cannot be built or counted is
    /// left out.
    fn find_truths(&mut self) -> Result<(), Box<dyn Error>> {
        let refused = clock::refused();
        if let Some(why) = &refused {
            self.notes.push(format!(
                "Skipped, self_share and what depends on it: the kernel's clock is refused ({why})."
            ));
        }
        self.has_clock = refused.is_none();
        let runs = self.plan.clock_runs;
        let mut known = Vec::new();
        for (subject, _) in std::mem::take(&mut self.subjects) {
            self.bar.set_message(format!("the truth of {}", subject.name()));
            match truths::truth(&self.corpus, &self.launcher, &self.journal, &subject, runs) {
                Ok(truth) => known.push((subject, truth)),
                Err(error) => self.notes.push(format!("Skipped, {}: {error}.", subject.name())),
            }
        }
        self.subjects = known;
        if self.subjects.is_empty() {
            return Err(format!("no program is left. {}", self.notes.join(" ")).into());
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.plan.limit.is_some_and(|limit| self.begin.elapsed() > limit)
    }

    /// Each round covers all conditions and programs, so that an early end still leaves results for
    /// each. The true values are measured in the same rounds, so that they apply to the machine in
    /// the same state.
    fn judge_conditions(&mut self, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let planned: usize =
            self.subjects.iter().map(|(subject, _)| self.plan.runs_of(subject)).sum();
        self.bar.set_length((planned * self.conditions.len()) as u64);
        let (mut told, mut missing, mut failed) = (Vec::new(), 0, BTreeMap::new());
        for run in 0..self.plan.runs.max(self.plan.long_runs) {
            for condition in self.conditions.clone() {
                for at in 0..self.subjects.len() {
                    let subject = self.subjects[at].0;
                    if run >= self.plan.runs_of(&subject) {
                        continue;
                    }
                    let name = (subject.name(), condition.name());
                    self.bar.set_message(format!("{} {}, {}", name.0, run + 1, name.1));
                    if run < self.plan.clock_runs {
                        self.watch(condition, &subject, run)?;
                    }
                    match self.profile(condition, &subject, run, Policy::Default)? {
                        Some(profile) => told.push((condition, at, run, profile)),
                        None if self.is_over() => missing += 1,
                        None => *failed.entry(condition).or_default() += 1,
                    }
                    self.bar.inc(1);
                }
            }
        }
        if missing > 0 {
            self.notes.push(format!("{missing} runs were left out: the time was over."));
        }
        for condition in self.conditions.clone() {
            let mut errors = Errors::default();
            errors.failed = failed.remove(&condition).unwrap_or_default();
            for (_, at, run, profile) in told.iter().filter(|told| told.0 == condition) {
                let (subject, truth) = (&self.subjects[*at].0, self.truth_in(condition, *at));
                let of = format!("{} {} {run}", condition.name(), subject.name());
                errors.judge(&of, profile, &truth, subject.means);
            }
            errors.rows(condition.name(), report);
            self.found.append(&mut errors.findings);
        }
        Ok(())
    }

    /// The true values of a program in a condition.
    fn truth_in(&self, condition: Condition, subject: usize) -> Truth {
        let (subject, truth) = &self.subjects[subject];
        let shares = self.shares.get(&(condition, subject.name())).cloned();
        Truth { shares, ..truth.clone() }
    }

    /// Adds to the distribution of a program's time, if there is time left.
    fn watch(
        &mut self,
        condition: Condition,
        subject: &Subject,
        run: usize,
    ) -> Result<(), Box<dyn Error>> {
        if !self.has_clock || self.is_over() {
            return Ok(());
        }
        let seen = truths::shares(&self.corpus, &self.journal, subject, condition, run)?;
        self.shares.entry((condition, subject.name())).or_default().push(seen);
        Ok(())
    }

    /// The profile of one run; `None` if it gave none, or if there is no time left for it.
    fn profile(
        &self,
        condition: Condition,
        subject: &Subject,
        run: usize,
        policy: Policy,
    ) -> Result<Option<ToldProfile>, Box<dyn Error>> {
        let name = format!("{}-{}-{run}{}", condition.name(), subject.name(), policy.ending());
        if let Some(json) = self.journal.get::<Value>(&name) {
            return Ok(ToldProfile::of(&json));
        }
        if self.is_over() {
            return Ok(None);
        }
        let mut program = truths::command(&self.corpus, subject, Variant::Probed)?;
        match self.launcher.profile(condition, policy.options(), &mut program, truths::PATIENCE) {
            Ok(json) => {
                self.journal.put(&name, &json)?;
                Ok(ToldProfile::of(&json))
            }
            Err(error) => {
                self.bar.println(format!("truth: {name}: {error}"));
                Ok(None)
            }
        }
    }

    /// Policy `exact` of the demo, alone and beside competitors: no call may be lost, and
    /// competitors must not stall it.
    fn judge_exact(&mut self, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let Some(at) = self.subjects.iter().position(|(subject, _)| subject.name() == "demo")
        else {
            return Ok(());
        };
        let subject = &self.subjects[at].0;
        let (mut errors, mut lost, mut times) = (Errors::default(), 0.0, [Vec::new(), Vec::new()]);
        for run in 0..self.plan.long_runs {
            for (condition, times) in
                [Condition::Alone, Condition::Competitors].into_iter().zip(&mut times)
            {
                self.bar.set_message(format!("exact {}, {}", run + 1, condition.name()));
                match self.profile(condition, subject, run, Policy::Exact)? {
                    Some(told) => {
                        errors.judge(
                            &format!("exact {} {run}", condition.name()),
                            &told,
                            &self.truth_in(condition, at),
                            false,
                        );
                        lost += told.lost;
                        times.push(told.processor);
                    }
                    None if self.is_over() => {}
                    None => errors.failed += 1,
                }
            }
        }
        errors.rows("exact", report);
        report.rows.push(Row::plain("exact/lost", lost, "calls", errors.profiles));
        if let [Some(alone), Some(busy)] = times.map(|times| quantile(&times, 0.5)) {
            report.rows.push(Row::plain("exact/busy", busy / alone, "ratio", errors.profiles));
        }
        self.found.append(&mut errors.findings);
        Ok(())
    }

    fn judge_costs(&mut self, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let mut all: Vec<(&str, Vec<cost::Pair>)> = self
            .subjects
            .iter()
            .filter(|(subject, _)| !subject.means)
            .map(|(subject, _)| (subject.name(), Vec::new()))
            .collect();
        for run in 0..self.plan.costs {
            for (subject, _) in
                self.subjects.iter().filter(|(subject, _)| !subject.means && !self.is_over())
            {
                self.bar.set_message(format!("{} {}, cost", subject.name(), run + 1));
                let pair = cost::pair(&self.corpus, &self.library, &self.journal, subject, run)?;
                all.iter_mut()
                    .filter(|(name, _)| *name == subject.name())
                    .for_each(|(_, pairs)| pairs.push(pair));
            }
        }
        cost::rows(&all, report);
        Ok(())
    }

    fn judge_comparisons(&mut self, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let Some((subject, _)) = self.subjects.iter().find(|(subject, _)| subject.means) else {
            return Ok(());
        };
        let mut verdicts = [Verdicts::default(); 2];
        for number in 0..self.plan.comparisons {
            for (verdicts, slower) in verdicts.iter_mut().zip([false, true]) {
                if self.is_over() {
                    continue;
                }
                self.bar.set_message(format!("comparison {}", number + 1));
                let asked = (self.plan.side, slower, number);
                match Verdicts::compare(&self.corpus, &self.launcher, &self.journal, subject, asked)
                {
                    Ok(found) => verdicts.join(found),
                    Err(error) => {
                        self.notes.push(format!("Skipped, comparisons: {error}."));
                        return Ok(());
                    }
                }
            }
        }
        Verdicts::rows(verdicts[0], verdicts[1], report);
        Ok(())
    }
}

/// Writes the errors, the worst first; returns the worst.
fn findings(file: &Path, mut all: Vec<Finding>) -> std::io::Result<String> {
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let text: String = all.iter().map(|finding| format!("{}\n", finding.text)).collect();
    fs::write(file, text)?;
    let worst: Vec<&str> = all.iter().take(10).map(|finding| finding.text.as_str()).collect();
    Ok(format!(
        "{} figures are wrong or not known ({}); the worst:\n  {}",
        all.len(),
        file.display(),
        worst.join("\n  ")
    ))
}

/// The judged command and its library. Under cargo the command is built, as it is not a dependency
/// of this crate.
fn judged(given: Option<&Path>) -> Result<(PathBuf, PathBuf), Box<dyn Error>> {
    if let Some(fastinst) = given {
        let fastinst = fs::canonicalize(fastinst)?;
        let folder = fastinst.parent().unwrap_or(Path::new("/"));
        let places = [folder.join("deps/libfastinst.so"), folder.join("libfastinst.so")];
        let library = places.into_iter().find(|place| place.exists());
        return Ok((
            fastinst,
            library
                .ok_or_else(|| CorpusError::Missing("libfastinst.so beside the command".into()))?,
        ));
    }
    if let (Some(cargo), Some(manifest)) =
        (std::env::var_os("CARGO"), std::env::var_os("CARGO_MANIFEST_DIR"))
    {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "fastinst"]).current_dir(manifest);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        if !build.status()?.success() {
            return Err("fastinst could not be built".into());
        }
    }
    let fastinst = std::env::current_exe()?.with_file_name("fastinst");
    if !fastinst.exists() {
        return Err(
            CorpusError::Missing("fastinst (cargo build --release -p fastinst)".into()).into()
        );
    }
    Ok((fastinst, corpus::library()?))
}
