//! Bounds: makes the values of functions consistent, so that none is above the sum of its callers'.
//!
//! There are two passes; each visits every function once, whatever the call graph.
//!
//! 1. [`cut`] lowers values to the sum of their callers', never below a function's floor: `v(f) =
//!    min(v(f), max(floor(f), Σ v(caller)))`. The sum of values that are not negative is at least
//!    each of them, so a function's value never depends on a larger one, and the greatest solution
//!    is found by finalising functions from the least value on: Dijkstra's algorithm as generalised
//!    by Knuth (*A generalization of Dijkstra's algorithm*, Information Processing Letters 6,
//!    1977).
//! 2. [`raise`] repairs the violations that floors have left: where a value is still above the sum
//!    of its callers', the callers are raised until their sum reaches it. It finalises functions
//!    from the greatest value on. A caller that is raised was below the function, since their sum
//!    was, and ends no higher than the function. So it is not final yet, and no final function
//!    changes again.
//!
//! After the second pass no function is above the sum of its callers', whatever the first pass did;
//! no value is above the largest original one; and none was lowered below its floor.

use super::Callers;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A value with its function, ordered by value.
#[derive(Clone, Copy, PartialEq)]
struct Ranked(f64, usize);

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

/// Lowers values to the sum of their callers', but not below their floors. Infinite values are
/// unknown.
pub(super) fn cut(values: &mut [f64], floors: &[f64], callers: &Callers) {
    let callees = callers.callees();
    let mut waiting: Vec<usize> =
        (0..callers.len()).map(|at| callers.get(at).map_or(usize::MAX, <[usize]>::len)).collect();
    let mut sums = vec![0.0; values.len()];
    let mut settled = vec![false; values.len()];
    // Other functions bound nothing, and nothing bounds them.
    let is_bound = |at: usize| callers.get(at).is_some() || !callees[at].is_empty();
    let bound = values.iter().enumerate().filter(|(at, _)| is_bound(*at));
    let mut heap: BinaryHeap<_> = bound.map(|(at, value)| Reverse(Ranked(*value, at))).collect();
    while let Some(Reverse(Ranked(value, at))) = heap.pop() {
        if std::mem::replace(&mut settled[at], true) {
            continue;
        }
        values[at] = value;
        for &callee in callees[at].iter().filter(|callee| !settled[**callee]) {
            sums[callee] += value;
            waiting[callee] -= 1;
            let bound = floors[callee].max(sums[callee]);
            if waiting[callee] == 0 && bound < values[callee] {
                values[callee] = bound;
                heap.push(Reverse(Ranked(bound, callee)));
            }
        }
    }
}

/// Raises callers whose sum is below the value of a function that they call: those that are not
/// pinned, if there are any.
pub(super) fn raise(values: &mut [f64], pinned: &[bool], callers: &Callers) {
    let mut settled = vec![false; values.len()];
    let missing = |at: usize, all: &[usize], values: &[f64]| {
        values[at] - all.iter().map(|caller| values[*caller]).sum::<f64>()
    };
    // A function that is not above its callers' sum never will be, unless it is raised itself.
    let is_above = |at: &usize| callers.get(*at).is_some_and(|all| missing(*at, all, values) > 0.0);
    let mut heap: BinaryHeap<_> =
        (0..values.len()).filter(is_above).map(|at| Ranked(values[at], at)).collect();
    while let Some(Ranked(value, at)) = heap.pop() {
        if value != values[at] || std::mem::replace(&mut settled[at], true) {
            continue;
        }
        let Some(all) = callers.get(at) else { continue };
        let missing = missing(at, all, values);
        if missing.is_nan() || missing <= 0.0 {
            continue;
        }
        let free: Vec<usize> = all.iter().copied().filter(|caller| !pinned[*caller]).collect();
        let raised = if free.is_empty() { all } else { &free };
        let whole: f64 = raised.iter().map(|caller| values[*caller]).sum();
        for &caller in raised {
            // The raised caller is checked again, if it has callers itself.
            let share =
                if whole > 0.0 { values[caller] / whole } else { 1.0 / raised.len() as f64 };
            values[caller] = (values[caller] + missing * share).min(value);
            heap.push(Ranked(values[caller], caller));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callee_is_cut_to_its_callers_but_not_below_its_floor() {
        // 0 calls 1, which calls 2; 2 calls 1, too.
        let callers = Callers::closed(vec![None, Some(vec![0, 2]), Some(vec![1])]);
        let mut values = [10.0, 500.0, 90.0];
        cut(&mut values, &[0.0; 3], &callers);
        assert_eq!(values, [10.0, 100.0, 90.0]);
        let mut values = [10.0, 50.0, 90.0];
        cut(&mut values, &[0.0, 0.0, 70.0], &callers);
        assert_eq!(values, [10.0, 50.0, 70.0]);
    }

    #[test]
    fn callers_of_what_is_higher_are_raised_and_exact_ones_last() {
        let callers = Callers::closed(vec![None, None, Some(vec![0, 1]), Some(vec![2])]);
        let mut values = [10.0, 30.0, 5.0, 80.0];
        raise(&mut values, &[false; 4], &callers);
        assert_eq!(values, [20.0, 60.0, 80.0, 80.0]);
        let mut values = [10.0, 30.0, 5.0, 80.0];
        raise(&mut values, &[true, false, false, true], &callers);
        assert_eq!(values, [10.0, 70.0, 80.0, 80.0]);
    }

    #[test]
    fn any_graph_ends_in_a_consistent_state() {
        arbtest::arbtest(|u| {
            let n = u.int_in_range(1..=12usize)?;
            let value = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
                Ok(f64::from(u.int_in_range(0..=1000u32)?) / 7.0)
            };
            let mut all = Vec::new();
            for _ in 0..n {
                let callers: Vec<usize> = (0..u.int_in_range(0..=4)?)
                    .map(|_| u.int_in_range(0..=n - 1))
                    .collect::<Result<_, _>>()?;
                let callers: std::collections::BTreeSet<usize> = callers.into_iter().collect();
                all.push(u.ratio(4, 5)?.then(|| callers.into_iter().collect()));
            }
            let callers = Callers::closed(all);
            let floors: Vec<f64> =
                (0..n).map(|_| value(u)).collect::<arbtest::arbitrary::Result<_>>()?;
            let mut values = Vec::new();
            for floor in &floors {
                values.push(floor + value(u)?);
            }
            let pinned: Vec<bool> = (0..n).map(|_| u.ratio(1, 3)).collect::<Result<_, _>>()?;
            let most = values.iter().copied().fold(0.0, f64::max);
            cut(&mut values, &floors, &callers);
            raise(&mut values, &pinned, &callers);
            for at in 0..n {
                assert!(values[at] >= floors[at] && values[at] <= most);
                let sum = callers
                    .get(at)
                    .map_or(f64::INFINITY, |all| all.iter().map(|caller| values[*caller]).sum());
                assert!(values[at] <= sum * (1.0 + 1e-12) + 1e-9, "{at}: {values:?} {callers:?}");
            }
            let (once, zero) = (values.clone(), vec![0.0; n]);
            cut(&mut values, &zero, &callers);
            raise(&mut values, &pinned, &callers);
            assert!(
                once.iter().zip(&values).all(|(a, b)| (a - b).abs() <= 1e-9 * a.max(1.0)),
                "{once:?} {values:?}"
            );
            Ok(())
        });
    }
}
