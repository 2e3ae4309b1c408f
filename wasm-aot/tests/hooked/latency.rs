//! `latency`: calls that are timed, within a budget.

use super::*;

#[test]
fn calls_that_are_timed_are_counted_exactly() {
    let args = [5, 9, 10, 0, 7, 12, 9];
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for (way, calls) in ways(&noted(CALLS, &args), args.len()) {
        *expected.entry(way.rsplit(';').next().expect("a name").to_owned()).or_default() += calls;
    }
    expected.remove("twice");
    for policy in ["exact", "adaptive", "paper", "count"] {
        let report = &observed(CALLS, &args, &[&format!("latency,function=*,policy={policy}")])[0];
        let found: BTreeMap<String, u64> =
            words(report, "function").into_iter().zip(counts(report, "calls")).collect();
        if policy == "paper" {
            // A function that is switched off after its samples is not counted until the next
            // epoch.
            assert!(found.keys().eq(expected.keys()), "{found:?}");
        } else {
            assert_eq!(found, expected, "{policy}");
        }
        let samples: u64 = counts(report, "samples").iter().sum();
        match policy {
            // Three calls of f have trapped, inside of other open calls.
            "exact" => assert!(
                samples < expected.values().sum() && samples > expected.values().sum::<u64>() - 10
            ),
            "count" => assert_eq!(samples, 0),
            _ => assert!(samples > 0),
        }
    }
    let short = observed(CALLS, &args, &["latency"]).remove(0);
    assert!(words(&short, "function").iter().all(|name| name != "leaf"), "{short:?}");
}

/// Recursion, through another function and directly, below `f`, which calls it once.
const RECURSION: &str = r#"(module
    (func $down (param $n i32) (local $i i32)
        (loop $l (br_if $l (i32.lt_u (i32.const 2000)
            (local.tee $i (i32.add (local.get $i) (i32.const 1))))))
        (if (local.get $n) (then
            (if (i32.and (local.get $n) (i32.const 1))
                (then (call $across (local.get $n)))
                (else (call $down (i32.sub (local.get $n) (i32.const 1))))))))
    (func $across (param $n i32) (call $down (i32.sub (local.get $n) (i32.const 1))))
    (func $f (export "f") (param i32) (result i32) (call $down (local.get 0)) (i32.const 1)))"#;

#[test]
fn recursion_takes_no_longer_than_the_call_that_began_it() {
    let report = observed(RECURSION, &[30; 10], &["latency,function=*,policy=exact"]).remove(0);
    let totals: BTreeMap<String, u64> =
        words(&report, "function").into_iter().zip(counts(&report, "total ns")).collect();
    assert!(totals["across"] <= totals["down"] && totals["down"] <= totals["f"], "{totals:?}");
}

#[test]
fn no_bound_of_a_total_is_above_the_time_that_has_passed() {
    for policy in ["exact", "adaptive", "paper"] {
        let monitor = format!("latency,function=*,policy={policy}");
        let report = observed(RECURSION, &[200; 50], &[&monitor]).remove(0);
        let profile = report.profile.as_ref().expect("it has times").make();
        for function in &profile.functions {
            let Some(total) = function.total else { continue };
            let (lo, hi) = total.interval();
            let all = profile.header.seconds * 1e9;
            assert!(lo <= hi && hi <= all, "{policy}: {} {hi} of {all}", function.label.name);
        }
    }
}

#[test]
fn calls_that_an_exception_ends_are_timed_if_it_is_caught() {
    let text = r#"(module (tag $e) (func $throws (throw $e))
        (func $f (export "f") (param i32) (result i32)
            (block $caught (try_table (catch_all $caught) (call $throws)))
            (i32.const 1)))"#;
    let report = observed(text, &[0; 6], &["latency,function=*,policy=exact"]).remove(0);
    let samples: BTreeMap<String, u64> =
        words(&report, "function").into_iter().zip(counts(&report, "samples")).collect();
    assert_eq!(samples, BTreeMap::from([("f".into(), 6), ("throws".into(), 6)]));
}

#[test]
fn calls_are_timed_however_many_were_left_by_traps_and_exceptions_before() {
    for leave in ["unreachable", "(throw $e)"] {
        let text = format!(
            r#"(module (tag $e) (func $f (export "f") (param i32) (result i32)
                (if (i32.eqz (local.get 0)) (then {leave})) (i32.const 1)))"#
        );
        let args = [vec![0; 1_520], vec![0; 1_500], vec![1; 20]].concat();
        let report = observed(&text, &args, &["latency,function=*,policy=exact"]).remove(0);
        assert_eq!(counts(&report, "samples"), [20], "{leave}");
    }
}

#[test]
fn functions_are_timed_as_far_as_compiling_them_for_it_is_within_the_budget() {
    // Much larger than functions that are compiled with any budget; and called by a small one.
    let large = "(drop (i32.const 1000))".repeat(20_000);
    let text = format!(
        r#"(module (func $large {large}) (func $f (export "f") (param i32) (result i32)
            (call $large) (i32.const 1)))"#
    );
    let report = |monitor: &str| observed(&text, &[1, 1], &[monitor]).remove(0);
    let thrifty = report("latency,function=*,budget=0.001%");
    assert_eq!(
        (words(&thrifty, "function"), counts(&thrifty, "calls")),
        (vec!["f".into()], vec![2])
    );
    let why = "called and not timed: 1 function,";
    assert!(thrifty.notes.iter().any(|note| note.starts_with(why)), "{:?}", thrifty.notes);
    let exact = report("latency,function=*,policy=exact");
    assert_eq!(counts(&exact, "calls"), [2, 2]);
    assert!(!exact.notes.iter().any(|note| note.contains("not timed")), "{:?}", exact.notes);
}

#[test]
fn many_small_functions_are_not_taken_for_one_of_their_size() {
    let (small, calls) = ("(func nop)".repeat(200), (0..200).map(|at| format!("(call {at})")));
    let text = format!(
        r#"(module {small} (func $f (export "f") (param i32) (result i32) {} (i32.const 1)))"#,
        calls.collect::<String>()
    );
    let report = observed(&text, &[1], &["latency,function=*,budget=0.001%"]).remove(0);
    let timed = counts(&report, "calls").len();
    assert!((10..40).contains(&timed), "{timed}");
    let why = format!("called and not timed: {} functions", 201 - timed);
    assert!(report.notes.iter().any(|note| note.starts_with(&why)), "{why}: {:?}", report.notes);
}
