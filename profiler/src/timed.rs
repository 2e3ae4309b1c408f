//! The evidence of probes about the time of a function's calls, by the wall clock: not reconciled
//! with other evidence.
//!
//! It stays in a profile beside the figures derived from it, so that these can be derived again
//! when there is more evidence.

use crate::account::Account;
use crate::figure::Figure;
use crate::{Costs, Policy};
use serde::{Deserialize, Serialize};

/// The evidence of probes about the time of a function's calls, in nanoseconds of the wall clock,
/// callees included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// The total time of the timed calls.
    pub seen: f64,
    /// The time of a call.
    pub mean: Option<Figure>,
    /// The time of all calls; exact if every call was timed and has ended.
    pub total: Option<Figure>,
    /// The self time of all calls, if every call of every function is timed.
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Figure>,
}

impl Timed {
    /// From an account, in ticks, for this number of calls.
    pub(crate) fn of(account: &Account, calls: &Figure, policy: &Policy, costs: &Costs) -> Self {
        let mean = account.mean(costs);
        let max = account.extremes(costs).map_or(0.0, |(_, max)| max);
        // The duration of calls that never ended is unknown.
        let lost = account.lost as f64;
        let complete = |figure: Figure| match account.lost {
            0 => figure,
            _ => figure.widened(lost * max.max(0.0)),
        };
        let own = (*policy == Policy::Exact && account.samples > 0)
            .then(|| Figure::exact(account.own(costs)));
        let is_complete = account.is_complete();
        Self {
            seen: account.seen(costs).max(0.0),
            mean,
            total: account.total(calls, costs).map(complete),
            own: own.map(|own| if is_complete { complete(own) } else { own.widened(max.max(0.0)) }),
        }
    }

    /// Whether no call was timed.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The mean, if it is a valid time: corrections may make it negative.
    pub(crate) fn mean(&self) -> Option<Figure> {
        sound(self.mean)
    }

    /// The total, if it is a valid time.
    pub(crate) fn total(&self) -> Option<Figure> {
        sound(self.total)
    }

    /// The self time, if it is a valid time.
    pub(crate) fn own(&self) -> Option<Figure> {
        sound(self.own)
    }

    /// The time of the timed calls, if it is valid.
    pub(crate) fn seen(&self) -> f64 {
        if self.seen.is_finite() { self.seen.max(0.0) } else { 0.0 }
    }

    /// The same evidence in another unit.
    pub(crate) fn scaled(&self, by: f64) -> Self {
        let [mean, total, own] =
            [self.mean, self.total, self.own].map(|figure| figure.map(|figure| figure.scaled(by)));
        Self { seen: self.seen * by, mean, total, own }
    }

    /// The sum of the evidence about two functions with these numbers of calls.
    pub(crate) fn plus(&self, other: &Self, calls: [f64; 2]) -> Self {
        Self {
            seen: self.seen + other.seen,
            mean: mean_of([self.mean, other.mean], calls),
            total: sum(self.total, other.total),
            own: sum(self.own, other.own),
        }
    }

    /// Whether its numbers are finite.
    pub(crate) fn is_sound(&self) -> bool {
        self.seen.is_finite()
            && [self.mean, self.total, self.own].iter().flatten().all(Figure::is_sound)
    }
}

/// A figure, if it is a valid time.
fn sound(figure: Option<Figure>) -> Option<Figure> {
    figure.filter(Figure::is_sound).map(|figure| figure.clipped(0.0, f64::MAX))
}

/// The sum of two figures, if both exist.
pub(crate) fn sum(a: Option<Figure>, b: Option<Figure>) -> Option<Figure> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.plus(&b)),
        (one, other) => one.or(other),
    }
}

/// The mean of all calls, from the means of two parts with these numbers of calls.
pub(crate) fn mean_of(means: [Option<Figure>; 2], calls: [f64; 2]) -> Option<Figure> {
    match means {
        [Some(a), Some(b)] if calls[0] + calls[1] > 0.0 => {
            Some(a.scaled(calls[0]).plus(&b.scaled(calls[1])).scaled(1.0 / (calls[0] + calls[1])))
        }
        [one, other] => one.or(other),
    }
}
