//! Detects impossible figures.
//!
//! The rules are checked on the printed figures, independently of the code that computes them:
//!
//! | rule | |
//! |---|---|
//! | self ≤ total | a function's own time is part of its time |
//! | total, cpu ≤ CPU time | recursion counts once |
//! | Σ self + system + unknown ≤ CPU time | all time belongs to exactly one function |
//! | Σ self + system + unknown ≤ processor time | every moment is one function's own |
//! | min ≤ p50 ≤ p90 ≤ p99 ≤ p99.9 ≤ max | |
//! | lo ≤ value ≤ hi, nothing below zero | |
//!
//! A tolerance of half a percent, or of the clock's step, is for rounding.

use super::told::{Told, ToldFunction, ToldProfile};

/// The impossible figures, in words.
pub(super) fn impossible(told: &ToldProfile) -> Vec<String> {
    let mut found = Vec::new();
    for (name, function) in &told.functions {
        figures(name, function, &mut found);
        order(name, function, &mut found);
        times(name, function, told, &mut found);
        callers(name, function, told, &mut found);
    }
    let own: f64 = told.functions.values().filter_map(|function| Some(function.own?.value)).sum();
    let sum = own + told.system + told.unknown;
    if told.processor > 0.0 && own > 0.0 && exceeds(sum, told.processor, 1e6) {
        found.push(format!(
            "all self times with [system] and [unknown] are {}, of {}",
            ms(sum),
            ms(told.processor)
        ));
    }
    found
}

fn exceeds(value: f64, bound: f64, tolerance: f64) -> bool {
    value > bound * 1.005 + tolerance
}

fn ms(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

fn figures(name: &str, function: &ToldFunction, found: &mut Vec<String>) {
    let all = [
        ("calls", function.calls),
        ("self", function.own),
        ("total", function.total),
        ("cpu", function.cpu),
        ("wall", function.wall),
        ("mean", function.mean),
    ];
    for (what, told) in all {
        let Some(Told { value, interval }) = told else { continue };
        if !(value.is_finite() && value >= 0.0) {
            found.push(format!("{name}: {what} is {value}"));
        }
        if interval.is_some_and(|[lo, hi]| exceeds(lo, value, 1e-6) || exceeds(value, hi, 1e-6)) {
            found.push(format!(
                "{name}: {what} {value} lies outside of its own interval {interval:?}"
            ));
        }
    }
}

fn order(name: &str, function: &ToldFunction, found: &mut Vec<String>) {
    let all: Vec<f64> = function
        .min
        .into_iter()
        .chain(function.percentiles.iter().copied())
        .chain(function.max)
        .collect();
    // A percentile comes from a bucket, which is at most 1/32 of an octave wide; the extremes are
    // known more precisely.
    if all.windows(2).any(|pair| pair[0] > pair[1] * 1.005 + 1.0) {
        found.push(format!("{name}: min, percentiles, max do not rise: {all:?} ns"));
    }
}

fn times(name: &str, function: &ToldFunction, told: &ToldProfile, found: &mut Vec<String>) {
    let total = function.total.map(|total| total.value);
    if let (Some(own), Some(total)) = (function.own, total)
        && exceeds(own.value, total, 1e3)
    {
        found.push(format!("{name}: self {} above total {}", ms(own.value), ms(total)));
    }
    let processor = told.processor;
    for (what, value) in [("total", total), ("cpu", function.cpu.map(|cpu| cpu.value))] {
        if let Some(value) = value
            && processor > 0.0
            && exceeds(value, processor, 1e6)
        {
            found.push(format!(
                "{name}: {what} {} above the processor time {}",
                ms(value),
                ms(processor)
            ));
        }
    }
}

fn callers(name: &str, function: &ToldFunction, told: &ToldProfile, found: &mut Vec<String>) {
    let Some(total) = function.total else { return };
    let (mut bound, mut bounded) = (0.0, false);
    for caller in &function.callers {
        if caller.as_deref() == Some(name) {
            continue;
        }
        let known = caller.as_deref().and_then(|caller| told.functions.get(caller));
        let Some(caller) = known.and_then(|caller| caller.total) else { return };
        bound += caller.value;
        bounded = true;
    }
    if bounded && exceeds(total.value, bound, 1e4) {
        found.push(format!("{name}: total {} above its callers' {}", ms(total.value), ms(bound)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn profile(functions: &Value) -> ToldProfile {
        ToldProfile::of(&json!({"header": {"processor": 1.0, "system": 0.1, "seconds": 2.0}, "functions": functions})).unwrap()
    }

    fn exact(value: f64) -> Value {
        json!({"value": value, "how": "exact"})
    }

    #[test]
    fn a_profile_that_adds_up_has_nothing_impossible() {
        let told = profile(&json!([
            {"name": "main", "self": exact(1e8), "total": exact(9e8), "callers": []},
            {"name": "leaf", "self": exact(8e8), "total": exact(8e8), "min": 1.0, "p50": exact(5.0), "max": 9.0,
             "callers": [{"caller": {"name": "main"}}]},
        ]));
        assert_eq!(impossible(&told), Vec::<String>::new());
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        let broken = [
            (json!([{"name": "a", "self": exact(3e8), "total": exact(2e8)}]), "self"),
            (json!([{"name": "a", "total": exact(2e9)}]), "above the processor time"),
            (json!([{"name": "a", "min": 1.0, "p50": 9.0, "max": 5.0}]), "do not rise"),
            (json!([{"name": "a", "calls": exact(-1.0)}]), "calls is -1"),
            (
                json!([{"name": "a", "calls": {"value": 9.0, "how": "estimated", "lo": 1.0, "hi": 5.0}}]),
                "its own interval",
            ),
            (
                json!([{"name": "a", "self": exact(6e8)}, {"name": "b", "self": exact(6e8)}]),
                "all self times",
            ),
            (
                json!([{"name": "a", "total": exact(1e8)}, {"name": "b", "total": exact(2e8), "callers": [{"caller": {"name": "a"}}]}]),
                "above its callers'",
            ),
        ];
        for (functions, expected) in broken {
            let found = impossible(&profile(&functions));
            assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
        }
    }

    #[test]
    fn a_caller_that_is_not_known_bounds_nothing() {
        let told = profile(&json!([
            {"name": "a", "total": exact(1e8)},
            {"name": "b", "total": exact(2e8), "callers": [{"caller": {"name": "a"}}, {"caller": null}]},
            {"name": "c", "total": exact(3e8), "callers": [{"caller": {"name": "c"}}]},
        ]));
        assert_eq!(impossible(&told), Vec::<String>::new());
    }
}
