//! Finds impossible figures: figures of a profile that contradict each other, or the known time.
//!
//! An impossible figure is a bug wherever it is printed, so figures are checked where they are
//! made. The check does not depend on how they were computed: it uses a profile as a reader of its
//! file would.

use crate::figure::Mark;
use crate::profile::{Function, Profile};
use crate::reconcile::{Callers, SHORT};
use crate::{Figure, Header};
use serde::Serialize;

/// An impossible figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Impossible {
    /// The function's name; `None` for the whole program.
    pub function: Option<String>,
    /// Its position in the profile.
    pub position: Option<usize>,
    /// The contradiction.
    pub what: Contradiction,
    /// The impossible value, in nanoseconds.
    pub value: f64,
    /// The bound that it violates.
    pub bound: f64,
}

/// A contradiction between two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contradiction {
    /// A value or an end of its interval is not a number.
    NoNumber,
    /// A value or an end of its interval is negative.
    Negative,
    /// An interval does not contain its value.
    OutsideOfItsInterval,
    /// Self time is above the total.
    SelfAboveTotal,
    /// A total is above the sum of its callers' totals.
    TotalAboveCallers,
    /// A total is above the CPU time.
    TotalAboveProcessor,
    /// A total is above the wall-clock time of its calls.
    TotalAboveWall,
    /// A percentile is above the longest call.
    PercentileAboveMax,
    /// A percentile is below the shortest call.
    PercentileBelowMin,
    /// The mean is below the shortest call, and is not marked as a lower bound.
    MeanBelowMin,
    /// The shortest call is longer than the longest.
    MinAboveMax,
    /// Self times, `[system]` and `[unknown]` add up to more than the CPU time.
    SumAboveProcessor,
}

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.function.as_deref().unwrap_or("the program");
        write!(f, "{name}: {:?}: {} against {}", self.what, self.value, self.bound)
    }
}

/// Whether a value is above a bound by more than rounding explains: files have seven digits.
fn is_above(value: f64, bound: f64) -> bool {
    value > bound + 1e-6 * bound.abs() + 1e-3
}

impl Profile {
    /// All impossible figures: none, if the profile was reconciled.
    pub fn impossible(&self) -> Vec<Impossible> {
        let mut found = self.impossible_sums();
        let callers = Callers::of(self);
        for (at, function) in self.functions.iter().enumerate() {
            let mut check = |is_wrong: bool, what, value, bound| {
                if is_wrong {
                    let function = Some(function.label.name.clone());
                    found.push(Impossible { function, position: Some(at), what, value, bound });
                }
            };
            function.check_figures(&mut check);
            function.check_latencies(&self.header, &mut check);
            function.check_order(&self.header, &mut check);
            let totals: Option<Vec<f64>> = callers.get(at).and_then(|all| {
                all.iter()
                    .map(|caller| self.functions[*caller].total.map(|total| total.value))
                    .collect()
            });
            if let (Some(total), Some(totals)) = (function.total, totals) {
                let sum = totals.iter().sum();
                check(
                    is_above(total.value, sum),
                    Contradiction::TotalAboveCallers,
                    total.value,
                    sum,
                );
            }
        }
        found
    }

    /// Impossible figures of the whole program.
    fn impossible_sums(&self) -> Vec<Impossible> {
        let Header { processor, system, unknown, seconds, .. } = self.header;
        let own: f64 =
            self.functions.iter().filter_map(|function| function.own).map(|own| own.value).sum();
        let all = own + (system + unknown) * 1e9;
        let whole =
            |what, value, bound| Impossible { function: None, position: None, what, value, bound };
        let mut found = Vec::new();
        for value in [processor, system, unknown, seconds] {
            if !value.is_finite() {
                found.push(whole(Contradiction::NoNumber, value, 0.0));
            } else if value < 0.0 {
                found.push(whole(Contradiction::Negative, value, 0.0));
            }
        }
        if processor > 0.0 && is_above(all, processor * 1e9) {
            found.push(whole(Contradiction::SumAboveProcessor, all, processor * 1e9));
        }
        found
    }
}

impl Function {
    fn check_figures(&self, check: &mut impl FnMut(bool, Contradiction, f64, f64)) {
        let figures = [Some(self.calls), self.mean, self.total, self.own, self.cpu, self.wall];
        for figure in figures.iter().flatten() {
            let (lo, hi) = figure.interval();
            check(!figure.is_sound(), Contradiction::NoNumber, figure.value, 0.0);
            check(figure.value.min(lo) < 0.0, Contradiction::Negative, figure.value.min(lo), 0.0);
            check(
                is_above(lo, figure.value),
                Contradiction::OutsideOfItsInterval,
                figure.value,
                lo,
            );
            check(
                is_above(figure.value, hi),
                Contradiction::OutsideOfItsInterval,
                figure.value,
                hi,
            );
        }
    }

    fn check_latencies(
        &self,
        header: &Header,
        check: &mut impl FnMut(bool, Contradiction, f64, f64),
    ) {
        for value in [self.min, self.max].into_iter().flatten() {
            check(!value.is_finite(), Contradiction::NoNumber, value, 0.0);
            check(value < 0.0, Contradiction::Negative, value, 0.0);
        }
        let (min, max) = (self.min.unwrap_or(0.0), self.max.unwrap_or(f64::INFINITY));
        check(is_above(min, max), Contradiction::MinAboveMax, min, max);
        // The time that sampling adds is in single calls, and was subtracted from the mean.
        let mean = self.mean.filter(|mean| mean.value >= SHORT && mean.mark() != Mark::AtLeast);
        if let Some(Figure { value, .. }) = mean {
            let is_below = is_above(min, value + self.floor(header).max(SHORT));
            check(is_below, Contradiction::MeanBelowMin, value, min);
        }
        for share in [0.5, 0.9, 0.99, 0.999] {
            if let Some(value) = self.percentile(share, header) {
                check(!value.is_finite(), Contradiction::NoNumber, value, 0.0);
                check(is_above(value, max), Contradiction::PercentileAboveMax, value, max);
                check(is_above(min, value), Contradiction::PercentileBelowMin, value, min);
            }
        }
    }

    fn check_order(&self, header: &Header, check: &mut impl FnMut(bool, Contradiction, f64, f64)) {
        let value = |figure: Option<Figure>| figure.map(|figure| figure.value);
        let (own, total, wall) = (value(self.own), value(self.total), value(self.wall));
        if let (Some(own), Some(total)) = (own, total) {
            check(is_above(own, total), Contradiction::SelfAboveTotal, own, total);
        }
        if let (Some(total), Some(wall)) = (total, wall) {
            check(is_above(total, wall), Contradiction::TotalAboveWall, total, wall);
        }
        if let (Some(total), true) = (total, header.processor > 0.0) {
            check(
                is_above(total, header.processor * 1e9),
                Contradiction::TotalAboveProcessor,
                total,
                header.processor * 1e9,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arc, FuncId, Label};

    fn function(id: u32, own: f64, total: f64) -> Function {
        let label = Label {
            name: format!("f{id}"),
            module: Some(0),
            offset: id.into(),
            ..Label::default()
        };
        let figure = |value| Some(Figure::exact(value));
        Function {
            label,
            own: figure(own),
            total: figure(total),
            wall: figure(total),
            ..Function::uncalled(FuncId(id))
        }
    }

    fn profile(functions: Vec<Function>) -> Profile {
        let header = Header { processor: 1e-6, hz: 1e9, ..Header::default() };
        Profile { header, modules: Vec::new(), functions, stacks: Vec::new() }
    }

    fn found(functions: Vec<Function>) -> Vec<Contradiction> {
        profile(functions).impossible().iter().map(|one| one.what).collect()
    }

    #[test]
    fn sound_figures_are_possible() {
        assert_eq!(found(vec![function(1, 100.0, 900.0), function(2, 800.0, 800.0)]), []);
    }

    #[test]
    fn every_contradiction_is_found() {
        use Contradiction::*;
        assert_eq!(found(vec![function(1, 200.0, 100.0)]), [SelfAboveTotal]);
        assert_eq!(
            found(vec![function(1, 800.0, 800.0), function(2, 300.0, 300.0)]),
            [SumAboveProcessor]
        );
        assert_eq!(found(vec![function(1, 0.0, 1100.0)]), [TotalAboveProcessor]);
        assert_eq!(found(vec![function(1, -1.0, 10.0)]), [Negative]);
        let with = |change: &dyn Fn(&mut Function)| {
            let mut one = function(1, 10.0, 100.0);
            change(&mut one);
            found(vec![one])
        };
        assert_eq!(with(&|one| one.wall = Some(Figure::exact(99.0))), [TotalAboveWall]);
        assert_eq!(with(&|one| one.cpu = Some(Figure::exact(f64::NAN))), [NoNumber]);
        let how = crate::How::Estimated { lo: 1.0, hi: 2.0 };
        assert_eq!(
            with(&|one| one.mean = Some(Figure { value: 3.0, how })),
            [OutsideOfItsInterval]
        );
        assert_eq!(with(&|one| (one.min, one.max) = (Some(2.0), Some(1.0))), [MinAboveMax]);
        let mean = Some(Figure::exact(142e6));
        assert_eq!(with(&|one| (one.min, one.mean) = (Some(229e6), mean)), [MeanBelowMin]);
    }

    #[test]
    fn a_total_above_its_callers_is_found_if_all_are_known() {
        let (caller, mut callee) = (function(1, 0.0, 100.0), function(2, 0.0, 500.0));
        let arc = |caller: Option<Label>| Arc { site: 7, samples: 1, share: 1.0, caller };
        callee.arcs = vec![arc(Some(caller.label.clone()))];
        assert_eq!(found(vec![caller.clone(), callee.clone()]), [Contradiction::TotalAboveCallers]);
        // A stack of the clock that ended early, in a call whose caller the probes know.
        callee.calls = Figure::exact(1.0);
        callee.arcs.push(Arc { samples: 0, share: 0.0, ..arc(None) });
        assert_eq!(found(vec![caller.clone(), callee.clone()]), [Contradiction::TotalAboveCallers]);
        callee.calls = Figure::exact(2.0);
        assert_eq!(found(vec![caller.clone(), callee.clone()]), []);
        callee.arcs.push(arc(None));
        assert_eq!(found(vec![caller, callee]), []);
    }
}
