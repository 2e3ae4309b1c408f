//! Wall-clock totals: the time of all outermost calls of a function, waiting and preemption
//! included.
//!
//! They are exact where every call was timed. Otherwise they are the mean of sampled calls times
//! the number of calls, unless a single call dominates: the longest, with the same weight as the
//! others, must be less than 30 % of the total. If one dominates, the timed calls give a lower
//! bound only. A function is on the stack no longer than its callers are, nor than all threads
//! together were observed; and its wall-clock time is at least its CPU time.

use super::{Callers, bounds, estimate};
use crate::Figure;
use crate::profile::{Function, Profile};

/// A single call with a larger part dominates a sampled total.
const CARRIES: f64 = 0.3;

/// Consistent wall-clock totals, by position.
pub(super) fn walls(
    profile: &Profile,
    totals: &[Option<Figure>],
    callers: &Callers,
) -> Vec<Option<Figure>> {
    let functions = &profile.functions;
    let timed: Vec<Option<Figure>> =
        functions.iter().map(|function| function.timed.total()).collect();
    let callers = callers.among(|at| timed[at].is_some());
    let cap = profile.watched();
    let least = |at: usize| {
        let complete = timed[at].filter(|_| functions[at].is_complete());
        // It is less than the measured time if that is uncertain.
        let seen = complete.map_or(functions[at].timed.seen(), |total| total.interval().0);
        seen.max(totals[at].map_or(0.0, |total| total.value))
    };
    let floors: Vec<f64> = (0..functions.len()).map(least).collect();
    let is_known: Vec<bool> = functions
        .iter()
        .zip(&timed)
        .map(|(function, timed)| is_told(function, timed.as_ref()))
        .collect();
    // An unknown total does not bound others.
    let proposed = |at: usize| {
        timed[at].filter(|_| is_known[at]).map_or(cap, |total| total.value.min(cap)).max(floors[at])
    };
    let mut most: Vec<f64> = (0..functions.len()).map(proposed).collect();
    bounds::cut(&mut most, &floors, &callers);
    let mut values: Vec<f64> =
        (0..functions.len()).map(|at| if is_known[at] { most[at] } else { floors[at] }).collect();
    let pinned: Vec<bool> =
        timed.iter().map(|total| total.is_some_and(|total| total.is_exact())).collect();
    bounds::raise(&mut values, &pinned, &callers);
    (0..functions.len())
        .map(|at| {
            let (timed, value) = (timed[at]?, values[at]);
            let (lo, hi) = timed.interval();
            Some(match (timed.is_exact() && timed.value == value, is_known[at]) {
                (true, _) => timed,
                (false, true) => estimate(value, (lo.max(floors[at]), hi), 0.0, cap),
                (false, false) => estimate(
                    value,
                    (value, if most[at].is_finite() { most[at] } else { hi }),
                    0.0,
                    f64::INFINITY,
                ),
            })
        })
        .collect()
}

/// Whether a timed total is reliable, and not dominated by a single call.
fn is_told(function: &Function, total: Option<&Figure>) -> bool {
    let Some(total) = total else { return false };
    let each = function.calls.value / (function.samples.max(1)) as f64;
    total.is_exact()
        || function.is_complete()
        || function.max.unwrap_or(0.0) * each < CARRIES * total.value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_a_single_call_carries_is_not_told() {
        let function = Function {
            calls: Figure::exact(1e6),
            samples: 300,
            max: Some(1e6),
            ..Function::uncalled(crate::FuncId(1))
        };
        assert!(!is_told(&function, Some(&Figure::estimated(3.4e9, 1e9, 0.0))));
        let function = Function { max: Some(3e3), ..function };
        assert!(is_told(&function, Some(&Figure::estimated(1e9, 1e8, 0.0))));
        assert!(is_told(&Function { max: Some(1e6), ..function }, Some(&Figure::exact(1e6))));
    }
}
