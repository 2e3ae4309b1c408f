//! Confidence intervals of CPU time, from numbers of samples.
//!
//! `k` of `n` samples of a program of `T` of CPU time: `T/n · (k + 2 ± 2·√(k + 1))` contains the
//! true value in about 95 of 100 cases, also where `k` is small; with `k = 0` it ends at `4·T/n`.
//! Samples are weighted by their threads' CPU time, so a function's own weight per sample replaces
//! `T/n` if it has samples.

/// The interval of the time of a function that has `k` of `n` samples, together worth `seen`, in a
/// program that used `processor`.
pub(super) fn of_samples(seen: f64, k: u64, n: u64, processor: f64) -> (f64, f64) {
    if n == 0 {
        return (0.0, processor);
    }
    let weight = if k > 0 && seen > 0.0 { seen / k as f64 } else { processor / n as f64 };
    let (centre, half) = (k as f64 + 2.0, 2.0 * (k as f64 + 1.0).sqrt());
    let (lo, hi) = (weight * (centre - half), weight * (centre + half));
    (lo.clamp(0.0, seen), hi.max(seen).min(processor.max(seen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_was_never_seen_has_at_most_four_samples_time() {
        assert_eq!(of_samples(0.0, 0, 1000, 1e9), (0.0, 4e6));
        assert_eq!(of_samples(0.0, 0, 0, 1e9), (0.0, 1e9));
        assert_eq!(of_samples(0.0, 0, 2, 1e9), (0.0, 1e9));
    }

    #[test]
    fn many_samples_make_a_narrow_interval_that_holds_the_value() {
        let (lo, hi) = of_samples(5e8, 500, 1000, 1e9);
        assert!(lo < 5e8 && 5e8 < hi && hi - lo < 0.1e9, "{lo} {hi}");
        assert_eq!(of_samples(1e9, 1000, 1000, 1e9).1, 1e9);
    }
}
