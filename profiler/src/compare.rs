//! Comparison: the changes between two sets of runs, and their statistical significance.
//!
//! The variation is between runs. The interval of a figure within one profile shows how well that
//! run was measured, not how much the next one will differ: caches, layouts and neighbours change
//! more from run to run than sampling does. So each function's self time is one value per run, the
//! two sides are compared by Welch's t-test, and the procedure of Benjamini and Hochberg selects
//! the significant functions. With one run on a side nothing is significant.
//!
//! A number of calls that is a lower bound (of a function that got its probe while the program ran,
//! or of a program that was killed) is not compared, and a function that has such a number on one
//! side may have been called on the other, unseen.
//!
//! Functions with 1 % of the time or more are a separate family with a higher false discovery rate:
//! changes matter there, and there are few such functions. `tests` simulates runs with known
//! changes. With 2,000 samples a run and ten runs a side, it finds a slowdown of 20 % in a function
//! of 6 %; without any change, less than one function in a hundred is reported as changed.

use crate::figure::{Figure, How, Mark, student};
use crate::profile::{Function, Profile};
use crate::student::{Summary, believed, freedom, welch};
use serde::Serialize;
use std::collections::BTreeMap;

/// The share of the time from which on a function belongs to the family of those that matter.
const MATTERS: f64 = 0.01;
/// The accepted false discovery rate: of functions that matter; and of others, and of numbers of
/// calls.
const RISKED: f64 = 0.10;
/// See `RISKED`.
const RISKED_ELSEWHERE: f64 = 0.02;

/// The changes between two sets of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The numbers of runs, before and after.
    pub runs: [usize; 2],
    /// The figure of a function that is compared.
    pub compared: Compared,
    /// The number of functions that are slower.
    pub slower: usize,
    /// The number of functions that are faster.
    pub faster: usize,
    /// The number of functions without a significant change.
    pub unchanged: usize,
    /// The number of functions that could not be tested, for lack of runs or of figures.
    pub untested: usize,
    /// The number of functions with another number of calls, or that are called on one side only.
    pub calls_changed: usize,
    /// Whether times are the wall clock's, since CPU time is unknown.
    pub wall: bool,
    /// CPU time of a run, in nanoseconds.
    pub processor: [Option<Figure>; 2],
    /// The probability that a random difference of the CPU times is at least this large.
    pub processor_p: Option<f64>,
    /// The functions: those that have changed come first, the largest change first.
    pub functions: Vec<Change>,
}

/// The figure of a function that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    /// Self time.
    #[serde(rename = "self")]
    Own,
    /// Total time, where no self time is known.
    Total,
}

/// The kind of change of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It takes significantly more time.
    Slower,
    /// It takes significantly less time.
    Faster,
    /// The difference is not significant.
    Unchanged,
    /// It is called only after the change.
    New,
    /// It is called only before the change.
    Gone,
    /// There are too few runs, or no figures.
    Untested,
}

/// The figures of a function before and after: means over the runs, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// The kind of change.
    pub verdict: Verdict,
    /// Whether its time differs significantly.
    pub significant: bool,
    /// The probability that a random difference is at least this large, without a correction for
    /// the number of functions.
    pub p: Option<f64>,
    /// The number of calls.
    pub calls: [Option<Figure>; 2],
    /// Whether the numbers of calls differ significantly.
    pub calls_changed: bool,
    /// The time of a call.
    pub mean: [Option<Figure>; 2],
    /// Its total time.
    pub total: [Option<Figure>; 2],
    /// Its self time.
    #[serde(rename = "self")]
    pub own: [Option<Figure>; 2],
    /// The compared figure after, relative to the one before.
    pub ratio: Option<Figure>,
}

impl Profile {
    /// Compares the runs `before` with the runs `after`. Functions are matched by name.
    pub fn compare(before: &[Self], after: &[Self]) -> Comparison {
        let sides = [before, after];
        let all = || before.iter().chain(after).flat_map(|profile| &profile.functions);
        let compared = if all().any(|function| function.own.is_some()) {
            Compared::Own
        } else {
            Compared::Total
        };
        let mut named = BTreeMap::<&str, [Vec<Run<'_>>; 2]>::new();
        for (side, profiles) in sides.iter().enumerate() {
            for (run, profile) in profiles.iter().enumerate() {
                for function in &profile.functions {
                    let runs = &mut named
                        .entry(&function.label.name)
                        .or_insert_with(|| sides.map(|side| vec![Run::default(); side.len()]))
                        [side];
                    runs[run].0.push(function);
                }
            }
        }
        let whole = named
            .values()
            .flat_map(|runs| {
                runs.iter().map(|side| time(side, compared).map_or(0.0, |time| time.mean))
            })
            .sum();
        let mut tested: Vec<Tested> = named
            .into_iter()
            .map(|(name, runs)| Tested::of(name, &runs, compared, whole))
            .collect();
        judge(&mut tested);
        let mut functions: Vec<Change> = tested.into_iter().map(|tested| tested.change).collect();
        let weight = |change: &Change| change.weight(compared);
        functions.sort_by(|a, b| {
            let settled =
                b.significant.cmp(&a.significant).then(b.calls_changed.cmp(&a.calls_changed));
            settled.then(weight(b).total_cmp(&weight(a))).then(a.name.cmp(&b.name))
        });
        let processor = sides.map(|side| {
            side.iter().map(|profile| profile.header.processor * 1e9).collect::<Vec<f64>>()
        });
        let wall = before.iter().chain(after).any(|profile| profile.header.wall);
        let runs = sides.map(<[Self]>::len);
        Comparison { wall, ..Comparison::of(runs, compared, &processor, functions) }
    }
}

/// The functions with one name in one run.
#[derive(Clone, Debug, Default)]
struct Run<'a>(Vec<&'a Function>);

impl Run<'_> {
    /// The sum of a figure over all of them; exactly zero if there are none in this run.
    fn sum(&self, of: impl Fn(&Function) -> Option<Figure>) -> Option<Figure> {
        self.0.iter().try_fold(Figure::exact(0.0), |sum, function| {
            Some(sum.plus(&of(function).filter(Figure::is_sound)?))
        })
    }

    fn calls(&self) -> Option<Figure> {
        self.sum(|function| Some(function.calls))
    }

    /// Whether the number of its calls is only a lower bound.
    fn is_bound(&self) -> bool {
        self.0.iter().any(|function| function.calls.mark() == Mark::AtLeast)
    }

    /// The time of a call; `None` if there were no calls.
    fn mean(&self) -> Option<Figure> {
        match &self.0[..] {
            [function] => function.mean,
            functions => {
                let calls: f64 = functions.iter().map(|function| function.calls.value).sum();
                let total =
                    self.sum(|function| Some(function.mean?.scaled(function.calls.value)))?;
                (calls > 0.0).then(|| total.scaled(1.0 / calls))
            }
        }
    }
}

fn time(runs: &[Run<'_>], compared: Compared) -> Option<Summary> {
    let of = |function: &Function| match compared {
        Compared::Own => function.own,
        Compared::Total => function.total,
    };
    let values: Vec<f64> = runs.iter().filter_map(|run| Some(run.sum(of)?.value)).collect();
    (!values.is_empty()).then(|| Summary::of(&values))
}

/// The figure of several runs: their mean, and its interval.
fn over_runs(figures: &[Option<Figure>]) -> Option<Figure> {
    let known: Vec<Figure> = figures.iter().flatten().copied().collect();
    match &known[..] {
        [] => None,
        [one] => Some(*one),
        many => {
            let summary = Summary::of(&many.iter().map(|figure| figure.value).collect::<Vec<_>>());
            if many.iter().any(|figure| figure.mark() == Mark::AtLeast) {
                let hi = many.iter().map(|figure| figure.interval().1).fold(summary.mean, f64::max);
                let how = How::Estimated { lo: summary.mean, hi };
                return Some(Figure { value: summary.mean, how });
            }
            let same = many.iter().all(|figure| *figure == Figure::exact(many[0].value));
            let half_width = student(summary.count - 1) * summary.error().sqrt();
            Some(if same { many[0] } else { Figure::estimated(summary.mean, half_width, 0.0) })
        }
    }
}

/// A change, and the figures that decide its significance.
#[derive(Debug)]
struct Tested {
    change: Change,
    calls_p: f64,
    matters: bool,
}

impl Tested {
    fn of(name: &str, runs: &[Vec<Run<'_>>; 2], compared: Compared, whole: f64) -> Self {
        let side = |of: &dyn Fn(&Run<'_>) -> Option<Figure>| {
            [0, 1].map(|side: usize| over_runs(&runs[side].iter().map(of).collect::<Vec<_>>()))
        };
        let times = [0, 1].map(|side: usize| time(&runs[side], compared));
        let counts = [0, 1].map(|side: usize| {
            runs[side].iter().filter_map(|run| Some(run.calls()?.value)).collect::<Vec<f64>>()
        });
        let p = match &times {
            [Some(before), Some(after)] if before.count > 1 && after.count > 1 => {
                Some(welch(before, after))
            }
            _ => None,
        };
        let ratio = match &times {
            [Some(before), Some(after)] if before.mean > 0.0 => Some(ratio(before, after)),
            _ => None,
        };
        let matters = times.iter().flatten().map(|time| time.mean).sum::<f64>() >= MATTERS * whole;
        let absent = runs.clone().map(|runs| runs.iter().all(|run| run.0.is_empty()));
        let is_bound = runs.iter().flatten().any(Run::is_bound);
        let verdict = match absent {
            [true, false] if !is_bound => Verdict::New,
            [false, true] if !is_bound => Verdict::Gone,
            _ => Verdict::Untested,
        };
        let calls_p = match is_bound {
            true => 1.0,
            false => welch(&Summary::of(&counts[0]), &Summary::of(&counts[1])),
        };
        let change = Change {
            name: name.to_owned(),
            verdict,
            significant: false,
            p,
            calls: side(&|run| run.calls()),
            calls_changed: false,
            mean: side(&|run| run.mean()),
            total: side(&|run| run.sum(|function| function.total)),
            own: side(&|run| run.sum(|function| function.own)),
            ratio,
        };
        Self { change, calls_p, matters }
    }
}

fn ratio(before: &Summary, after: &Summary) -> Figure {
    let value = after.mean / before.mean;
    if before.count < 2 || after.count < 2 {
        // A single run shows only that such a value is possible.
        return Figure { value, how: How::Estimated { lo: 0.0, hi: value.max(1.0) * 2.0 } };
    }
    // Of a quotient, by its first derivatives. Samples that none of the runs after has are no proof
    // of nothing: then it is as uncertain as if it were one.
    let weight = if after.mean > 0.0 { value.powi(2) } else { 1.0 };
    let error = (after.error() + weight * before.error()).sqrt() / before.mean;
    let half_width = student(freedom(before, after).floor().max(1.0) as usize) * error;
    Figure::estimated(value, half_width, 0.0)
}

/// Decides which changes are significant, family by family.
fn judge(tested: &mut [Tested]) {
    for (matters, risked) in [(true, RISKED), (false, RISKED_ELSEWHERE)] {
        let family = |one: &Tested| one.matters == matters && one.change.p.is_some();
        let probabilities: Vec<f64> =
            tested.iter().filter(|one| family(one)).filter_map(|one| one.change.p).collect();
        let verdicts = believed(&probabilities, risked);
        for (one, significant) in tested.iter_mut().filter(|one| family(one)).zip(verdicts) {
            let slower = one.change.ratio.is_none_or(|ratio| ratio.value > 1.0);
            one.change.significant = significant;
            one.change.verdict = match one.change.verdict {
                Verdict::Untested if significant && slower => Verdict::Slower,
                Verdict::Untested if significant => Verdict::Faster,
                Verdict::Untested => Verdict::Unchanged,
                verdict => verdict,
            };
        }
    }
    let calls =
        believed(&tested.iter().map(|one| one.calls_p).collect::<Vec<_>>(), RISKED_ELSEWHERE);
    tested.iter_mut().zip(calls).for_each(|(one, changed)| one.change.calls_changed = changed);
}

impl Change {
    /// The compared time, before and after.
    pub(crate) fn time(&self, compared: Compared) -> [Option<Figure>; 2] {
        match compared {
            Compared::Own => self.own,
            Compared::Total => self.total,
        }
    }

    /// The size of the change.
    fn weight(&self, compared: Compared) -> f64 {
        let [before, after] = self.time(compared).map(|time| time.map_or(0.0, |time| time.value));
        (after - before).abs()
    }
}

impl Comparison {
    fn of(
        runs: [usize; 2],
        compared: Compared,
        processor: &[Vec<f64>; 2],
        functions: Vec<Change>,
    ) -> Self {
        let count =
            |wanted: Verdict| functions.iter().filter(|change| change.verdict == wanted).count();
        let figures = processor.clone().map(|side| {
            over_runs(&side.iter().map(|&value| Some(Figure::exact(value))).collect::<Vec<_>>())
        });
        let tested = runs.iter().all(|&runs| runs > 1);
        Self {
            runs,
            compared,
            slower: count(Verdict::Slower),
            faster: count(Verdict::Faster),
            unchanged: count(Verdict::Unchanged),
            untested: count(Verdict::Untested),
            calls_changed: functions.iter().filter(|change| change.calls_changed).count(),
            wall: false,
            processor: figures,
            processor_p: tested
                .then(|| welch(&Summary::of(&processor[0]), &Summary::of(&processor[1]))),
            functions,
        }
    }

    /// The numbers of functions that are called on one side only.
    pub fn new_and_gone(&self) -> [usize; 2] {
        [Verdict::New, Verdict::Gone]
            .map(|verdict| self.functions.iter().filter(|change| change.verdict == verdict).count())
    }
}

#[cfg(test)]
mod tests;
