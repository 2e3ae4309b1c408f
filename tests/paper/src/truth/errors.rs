//! The errors of the profiles of one condition.
//!
//! A figure whose interval is wider than itself, or that is missing, is a miss: it counts as an
//! error of 100 % or more and as an interval without the true value, unless the function has less
//! than half a percent of the CPU time. Functions with a hundredth of the time or more ("hot") are
//! listed separately.

use super::possible::impossible;
use super::stacks::Runs;
use super::told::{Told, ToldFunction, ToldProfile};
use crate::report::{Report, Row};
use std::collections::BTreeMap;

/// A share from which on a function must not be reported as unknown.
const NOTABLE: f64 = 0.005;
/// A share from which on a function is hot.
const HOT: f64 = 0.01;

/// The true values of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Calls of functions that are called equally often in every run.
    pub(super) calls: BTreeMap<String, f64>,
    /// Shares of CPU time, if the kernel permits sampling.
    pub(super) shares: Option<Runs>,
    /// The CPU time of a call, in nanoseconds.
    pub(super) means: BTreeMap<String, f64>,
}

/// An error: the program and the function, the reported and the true value.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// The relative error, for the order of the list.
    pub(super) weight: f64,
    pub(super) text: String,
}

/// The errors of one condition.
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    pub(super) profiles: u64,
    pub(super) failed: u64,
    functions: u64,
    exact: u64,
    exact_wrong: u64,
    calls: Vec<f64>,
    hot_calls: Vec<f64>,
    covered: u64,
    widths: Vec<f64>,
    means: Vec<f64>,
    walls: Vec<f64>,
    shares: Vec<ShareError>,
    /// The number of notable functions' figures that are unknown, and of all.
    unknown: [u64; 2],
    impossible: u64,
    pub(super) findings: Vec<Finding>,
}

/// A reported self share beside the true one.
#[derive(Clone, Debug)]
struct ShareError {
    /// The program, run and function.
    of: String,
    told: f64,
    truth: f64,
    /// The standard deviation of their difference: both come from a number of samples, and runs of
    /// a program differ.
    deviation: f64,
    /// Whether the reported interval contains the true value, as far as that is known.
    is_covered: bool,
}

impl ShareError {
    fn error(&self) -> f64 {
        (self.told - self.truth).abs()
    }

    /// The error less this many standard deviations.
    fn beyond(&self, deviations: f64) -> f64 {
        (self.error() - deviations * self.deviation).max(0.0)
    }
}

/// The number of standard deviations that contains all of `n` figures with 95 % (Bonferroni), since
/// the largest of many errors must not be judged as a single one.
fn deviations_of_all(n: usize) -> f64 {
    let outside = 0.05 / n.max(1) as f64;
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if libm::erfc(middle / std::f64::consts::SQRT_2) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

impl Truth {
    fn share(&self, name: &str, told: &ToldProfile) -> f64 {
        self.shares.as_ref().map_or(0.0, |shares| shares.share(name, told.kernel))
    }
}

impl Errors {
    /// Judges a profile. `of` names it; `means` is set if the program yields enough samples for
    /// means and widths.
    pub(super) fn judge(&mut self, of: &str, told: &ToldProfile, truth: &Truth, means: bool) {
        self.profiles += 1;
        for text in impossible(told) {
            self.impossible += 1;
            self.find(f64::INFINITY, format!("{of}: impossible: {text}"));
        }
        for (name, &calls) in truth.calls.iter().filter(|(_, calls)| **calls > 0.0) {
            let share = truth.share(name, told);
            self.judge_calls(
                &format!("{of}: {name}"),
                told.functions.get(name),
                calls,
                share,
                means,
            );
        }
        if let Some(shares) = &truth.shares {
            self.judge_shares(of, told, shares);
        }
        for (name, &mean) in
            truth.means.iter().filter(|(name, _)| means && truth.share(name, told) >= HOT)
        {
            self.judge_mean(&format!("{of}: {name}"), told.functions.get(name), mean);
        }
    }

    fn judge_calls(
        &mut self,
        of: &str,
        function: Option<&ToldFunction>,
        truth: f64,
        share: f64,
        widths: bool,
    ) {
        self.functions += 1;
        let told = function.and_then(|function| function.calls);
        if let Some(told) = told.filter(Told::is_exact) {
            self.exact += 1;
            if (told.value - truth).abs() > 0.5 {
                self.exact_wrong += 1;
                self.find(
                    1e3 + (told.value / truth - 1.0).abs(),
                    format!("{of}: calls exactly {}, true {truth}", told.value),
                );
            }
            return;
        }
        let unknown = told.is_none_or(|told| told.is_unknown());
        self.note_unknown(of, "calls", unknown, share);
        if unknown && told.is_some() && share < NOTABLE {
            return;
        }
        let least = if unknown { 1.0 } else { 0.0 };
        let error = told.map_or(1.0, |told| (told.value / truth - 1.0).abs()).max(least);
        self.calls.push(error);
        let covered = told.is_some_and(|told| !unknown && told.covers(truth));
        self.covered += u64::from(covered);
        if share >= HOT {
            self.hot_calls.push(error);
            if let Some(told) = told.filter(|_| widths) {
                self.widths.push(told.half_width());
            }
        }
        if error > 0.2 {
            self.find(
                error,
                format!(
                    "{of}: calls {}, true {truth} ({:.1} % of the time)",
                    shown(told),
                    100.0 * share
                ),
            );
        }
    }

    fn judge_shares(&mut self, of: &str, told: &ToldProfile, truth: &Runs) {
        let whole = told.processor - if told.kernel { 0.0 } else { told.system };
        for (name, function) in &told.functions {
            let share = truth.share(name, told.kernel);
            self.note_unknown(
                &format!("{of}: {name}"),
                "self",
                function.own.is_none_or(|own| own.is_unknown()),
                share,
            );
            let Some(own) = function.own.filter(|_| whole > 0.0) else { continue };
            let said = own.value / whole;
            let draws = told.clock_samples.max(1.0);
            let chance = share * (1.0 - share);
            // The uncertainty of the true value, for one run.
            let known = chance / truth.count(told.kernel).max(1) as f64
                + truth.variation(name, told.kernel) * (1.0 + 1.0 / truth.len().max(1) as f64);
            let off = 1.96 * known.sqrt();
            let [lo, hi] = own.interval.unwrap_or([own.value, own.value]);
            self.shares.push(ShareError {
                of: format!("{of}: {name}"),
                told: said,
                truth: share,
                deviation: (known + chance / draws).sqrt(),
                is_covered: (lo / whole - off..=hi / whole + off).contains(&share),
            });
        }
        for name in truth.functions().into_iter().filter(|name| !told.functions.contains_key(*name))
        {
            let share = truth.share(name, told.kernel);
            self.note_unknown(&format!("{of}: {name}"), "self", true, share);
        }
    }

    fn judge_mean(&mut self, of: &str, function: Option<&ToldFunction>, truth: f64) {
        let per_call = |figure: Option<Told>| Some(figure?.value / function?.calls?.value);
        let told = per_call(function.and_then(|function| function.total));
        let error = |told: Option<f64>| {
            told.filter(|told| told.is_finite()).map_or(1.0, |told| (told / truth - 1.0).abs())
        };
        self.means.push(error(told));
        if error(told) > 0.2 {
            self.find(
                error(told),
                format!(
                    "{of}: processor time of a call {}, true {truth:.1} ns",
                    told.map_or("?".into(), |t| format!("{t:.1}"))
                ),
            );
        }
        let mean = function.and_then(|function| function.mean).map(|mean| mean.value);
        self.walls.push(error(mean));
        if error(mean) > 0.2 {
            self.find(
                error(mean) / 10.0,
                format!(
                    "{of}: mean {}, true {truth:.1} ns",
                    mean.map_or("?".into(), |m| format!("{m:.1}"))
                ),
            );
        }
    }

    fn note_unknown(&mut self, of: &str, what: &str, unknown: bool, share: f64) {
        if share < NOTABLE {
            return;
        }
        self.unknown[1] += 1;
        if unknown {
            self.unknown[0] += 1;
            self.find(
                share,
                format!("{of}: {what} is not known, {:.1} % of the time", 100.0 * share),
            );
        }
    }

    fn find(&mut self, weight: f64, text: String) {
        self.findings.push(Finding { weight, text });
    }

    /// The rows of a condition.
    pub(super) fn rows(&mut self, condition: &str, report: &mut Report) {
        let all = deviations_of_all(self.shares.len());
        for wrong in self.shares.iter().filter(|share| share.beyond(all) > 0.02) {
            let ShareError { of, told, truth, .. } = wrong;
            let text = format!(
                "{of}: self {:.1} % of the time, true {:.1} %",
                100.0 * told,
                100.0 * truth
            );
            self.findings.push(Finding { weight: 10.0 * wrong.beyond(all), text });
        }
        let mut row = |name: &str, value: Option<f64>, unit, n: usize| {
            if let Some(value) = value {
                report.rows.push(Row::plain(format!("{condition}/{name}"), value, unit, n as u64));
            }
        };
        let percent =
            |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
        let at = |values: &[f64], at: f64| quantile(values, at).map(|value| 100.0 * value);
        row("calls_median", at(&self.calls, 0.5), "%", self.calls.len());
        row("calls_p90", at(&self.calls, 0.9), "%", self.calls.len());
        row("calls_median_hot", at(&self.hot_calls, 0.5), "%", self.hot_calls.len());
        row("calls_p90_hot", at(&self.hot_calls, 0.9), "%", self.hot_calls.len());
        row("coverage", percent(self.covered, self.calls.len() as u64), "%", self.calls.len());
        row("width_median", at(&self.widths, 0.5), "%", self.widths.len());
        row("exact", percent(self.exact, self.functions), "%", self.functions as usize);
        row("exact_wrong", Some(self.exact_wrong as f64), "", self.exact as usize);
        row("mean_median", at(&self.means, 0.5), "%", self.means.len());
        row("mean_p90", at(&self.means, 0.9), "%", self.means.len());
        row("wall_mean_median", at(&self.walls, 0.5), "%", self.walls.len());
        row("wall_mean_p90", at(&self.walls, 0.9), "%", self.walls.len());
        let largest = |deviations: f64| {
            let beyond = self.shares.iter().map(|share| 100.0 * share.beyond(deviations));
            beyond.reduce(f64::max)
        };
        row("self_share_max", largest(0.0), "points", self.shares.len());
        row("self_share_beyond", largest(all), "points", self.shares.len());
        let covered = self.shares.iter().filter(|share| share.is_covered).count();
        let shares = self.shares.len() as u64;
        row("self_share_coverage", percent(covered as u64, shares), "%", self.shares.len());
        let outside = self.shares.iter().filter(|share| share.beyond(1.96) > 0.0).count();
        row("self_share_outside", percent(outside as u64, shares), "%", self.shares.len());
        row(
            "told_unknown",
            percent(self.unknown[0], self.unknown[1]),
            "%",
            self.unknown[1] as usize,
        );
        row("impossible", Some(self.impossible as f64), "", self.profiles as usize);
        row("failed", Some(self.failed as f64), "", (self.profiles + self.failed) as usize);
    }
}

fn shown(told: Option<Told>) -> String {
    match told {
        None => "not told".to_owned(),
        Some(Told { value, interval: None }) => format!("{value:.0}"),
        Some(Told { value, interval: Some([lo, hi]) }) => format!("{value:.0} [{lo:.0}, {hi:.0}]"),
    }
}

/// The quantile of the values at a share.
pub(super) fn quantile(values: &[f64], at: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 * at) as usize).min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::super::stacks::Shares;
    use super::*;
    use serde_json::{Value, json};

    fn estimated(value: f64, lo: f64, hi: f64) -> Value {
        json!({"value": value, "how": "estimated", "lo": lo, "hi": hi})
    }

    /// A program of 1 s: `hot` with 90 % of it, `cold` with none.
    fn judged(functions: &Value) -> Errors {
        let told = json!({"header": {"processor": 1.0, "clock_samples": 1e9, "clock": {"kernel": true}}, "functions": functions});
        let mut shares = Runs::default();
        shares.push(Shares {
            functions: [("hot".to_owned(), [900_000, 0])].into(),
            samples: [1_000_000, 0],
            kernel: true,
        });
        let truth = Truth {
            calls: [("hot".to_owned(), 100.0), ("cold".to_owned(), 50.0)].into(),
            shares: Some(shares),
            means: [("hot".to_owned(), 1e7)].into(),
        };
        let mut errors = Errors::default();
        errors.judge("p", &ToldProfile::of(&told).unwrap(), &truth, true);
        errors
    }

    #[test]
    fn estimates_are_judged_by_value_and_interval() {
        let errors = judged(&json!([
            {"name": "hot", "calls": estimated(110.0, 95.0, 125.0), "self": estimated(8e8, 7e8, 9e8), "total": estimated(9e8, 8e8, 1e9)},
            {"name": "cold", "calls": estimated(25.0, 24.0, 26.0)},
        ]));
        assert!((errors.hot_calls[0] - 0.1).abs() < 1e-9 && errors.calls.len() == 2);
        assert_eq!(
            (errors.covered, errors.functions, errors.exact, errors.unknown),
            (1, 2, 0, [0, 2])
        );
        let share = &errors.shares[0];
        assert!((share.error() - 0.1).abs() < 1e-9, "{share:?}");
        assert!((0.098..0.1).contains(&share.beyond(1.96)), "{share:?}");
        assert!((errors.means[0] - (1.0 - 9e8 / 110.0 / 1e7)).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_is_a_miss_where_it_matters() {
        let wide = judged(&json!([
            {"name": "hot", "calls": estimated(100.0, 0.0, 900.0)},
            {"name": "cold", "calls": estimated(50.0, 0.0, 900.0)},
        ]));
        assert_eq!((wide.calls.as_slice(), wide.covered, wide.unknown), (&[1.0][..], 0, [2, 2]));
        assert_eq!(wide.means, [1.0]);
        let absent = judged(&json!([]));
        assert_eq!((absent.calls.as_slice(), absent.unknown), (&[1.0, 1.0][..], [2, 2]));
    }

    #[test]
    fn an_exact_count_must_be_right() {
        let errors = judged(&json!([
            {"name": "hot", "calls": {"value": 100.0, "how": "exact"}},
            {"name": "cold", "calls": {"value": 49.0, "how": "exact"}},
        ]));
        assert_eq!((errors.exact, errors.exact_wrong, errors.calls.len()), (2, 1, 0));
    }

    #[test]
    fn many_figures_are_held_by_a_wider_interval_than_one() {
        assert!((deviations_of_all(1) - 1.96).abs() < 1e-3);
        assert!((deviations_of_all(500) - 3.89).abs() < 1e-2, "{}", deviations_of_all(500));
    }

    #[test]
    fn quantiles_are_values() {
        assert_eq!(
            [quantile(&[3.0, 1.0, 2.0], 0.5), quantile(&[3.0, 1.0, 2.0], 0.9), quantile(&[], 0.5)],
            [Some(2.0), Some(3.0), None]
        );
    }
}
