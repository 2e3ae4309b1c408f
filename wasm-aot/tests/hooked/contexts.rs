//! `profile` and `functions`: calling contexts, and the time that is charged to them.

use super::*;

#[test]
fn the_tree_of_contexts_is_what_the_program_says_itself_also_after_traps() {
    let args = [5, 9, 10, 0, 7, 12, 9];
    let expected = ways(&noted(CALLS, &args), args.len());
    assert!(expected.len() > 10, "{expected:?}");
    let report = &observed(CALLS, &args, &["profile"])[0];
    // The imported function has its own name here.
    let found: BTreeMap<String, u64> =
        words(report, "way").into_iter().zip(counts(report, "calls")).collect();
    assert_eq!(found, expected);
}

#[test]
fn flat_profiles_have_the_calls_of_the_tree_and_monitors_do_not_know_of_each_other() {
    let args = [5, 9, 10, 7];
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for (way, calls) in ways(&noted(CALLS, &args), args.len()) {
        *expected.entry(way.rsplit(';').next().expect("a name").to_owned()).or_default() += calls;
    }
    let reports = observed(
        CALLS,
        &args,
        &["functions", "profile,depth=2", "hotness", "memory", "calls,graph"],
    );
    let found: BTreeMap<String, u64> =
        words(&reports[0], "function").into_iter().zip(counts(&reports[0], "calls")).collect();
    assert_eq!(found, expected);
    assert!(counts(&reports[1], "depth").iter().all(|depth| *depth <= 2));
    let alone = observed(CALLS, &args, &["hotness"]);
    assert_eq!(alone[0], reports[2]);
}

#[test]
fn time_is_charged_once_and_belongs_to_who_has_spent_it() {
    let text = r#"(module (func $work (param i32) (loop $l (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
        (func $idle) (func $calls (call $work (i32.const 3000000)) (call $idle))
        (func (export "f") (param i32) (result i32) (call $calls) (i32.const 1)))"#;
    let reports = observed(text, &[1, 1], &["functions", "profile,time-all"]);
    let time = |name: &str| {
        let at =
            words(&reports[0], "function").iter().position(|other| other == name).expect("called");
        counts(&reports[0], "nanoseconds")[at]
    };
    assert!(time("work") > 10 * (time("idle") + time("calls")), "{:?}", reports[0]);
    let (own, nested) = (counts(&reports[1], "self ns"), counts(&reports[1], "total ns"));
    // The outermost has the time of all.
    let all: u64 = own.iter().sum();
    assert!(nested[0].abs_diff(all) <= own.len() as u64, "{nested:?} {own:?}");
}

/// A recursion of short calls, with leaves below it, and at the end a trap on request.
const SHORT_CALLS: &str = r#"(module
    (func $leaf (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func $fib (param i32) (result i32)
        (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
            (then (call $leaf (local.get 0)))
            (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                           (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
    (func (export "f") (param i32) (result i32)
        (drop (call $fib (i32.const 18)))
        (if (result i32) (local.get 0) (then (unreachable)) (else (call $fib (i32.const 18))))))"#;

#[test]
fn short_calls_are_counted_and_their_time_is_their_callers() {
    let [report, all] = ["profile", "profile,time-all"]
        .map(|monitor| observed(SHORT_CALLS, &[0, 0], &[monitor]).remove(0));
    let (report, all) = (&report, &all);
    let calls = |report: &Report| -> BTreeMap<String, u64> {
        words(report, "way").into_iter().zip(counts(report, "calls")).collect()
    };
    assert_eq!(calls(report), calls(all));
    let of = |name: &str| -> u64 {
        let named = words(report, "function").into_iter().zip(counts(report, "calls"));
        named.filter(|(function, _)| function == name).map(|(_, calls)| calls).sum()
    };
    // fib(18) makes 8361 calls, of which 4181 are leaves.
    assert_eq!((of("fib"), of("leaf")), (4 * 8361, 4 * 4181));
    // Calls that were only counted have no time; the times of all others are the total.
    let own = |report: &Report| -> Vec<Option<u64>> {
        words(report, "self ns").iter().map(|own| own.parse().ok()).collect()
    };
    assert!(own(report).contains(&None) && !own(all).contains(&None), "{report:?}");
    let sum: u64 = own(report).into_iter().flatten().sum();
    let nested: u64 = words(report, "total ns")[0].parse().expect("a time");
    assert!(sum.abs_diff(nested) <= own(report).len() as u64, "{report:?}");
    let notes = report.notes.join("\n");
    assert!(notes.contains("* counted and not timed") && notes.contains("CPU time"), "{notes}");
    assert!(all.notes.iter().all(|note| !note.contains('*')), "{all:?}");
}

#[test]
fn calls_are_the_same_whoever_counts_them() {
    // Small functions that are counted in their caller's context or in their own, functions that
    // call nothing and have loops, and more callees of one function than a context has places.
    let small: String =
        (0..8).map(|i| format!("(func $small{i} (result i32) (i32.const {i}))")).collect();
    let turns = "(loop $l (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))";
    let loops: String = (0..20).map(|i| format!("(func $loops{i} (param i32) {turns})")).collect();
    let calls: String = (0..20)
        .map(|i| format!("(call $loops{i} (i32.const {})) (drop (call $small{}))", i + 1, i % 8))
        .collect();
    let text = format!(
        r#"(module {small} {loops}
            (func $all (param i32)
                (if (local.get 0) (then
                    {calls} (drop (call $small3))
                    (call $all (i32.sub (local.get 0) (i32.const 1)))
                    (drop (call $small5)))))
            (func (export "f") (param i32) (result i32)
                (local $i i32)
                (loop $l
                    (call $all (local.get 0))
                    (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                                        (i32.const 20))))
                (call $small1)))"#
    );
    let of = |name: &str, monitor: &str| -> BTreeMap<String, u64> {
        let report = &observed(&text, &[3, 0, 5], &[monitor])[0];
        let mut calls = BTreeMap::new();
        for (name, count) in words(report, name).into_iter().zip(counts(report, "calls")) {
            *calls.entry(name).or_default() += count;
        }
        calls
    };
    let expected = of("way", "profile,time-all");
    assert_eq!((expected["f"], expected["f;all;small3"]), (3, 20 * 2 * 4));
    assert_eq!(of("way", "profile"), expected);
    let (expected, mut beyond) = (of("function", "profile"), of("function", "profile,contexts=9"));
    beyond.remove("[contexts beyond memory]").expect("there are more than nine");
    assert_eq!(beyond, expected);
}

/// Calls in each context while a monitor comes and goes, every few calls of `tick`, or not.
fn ways_beside(monitor: &str, other: Option<&'static str>) -> BTreeMap<String, u64> {
    const LOOPS: &str = r#"(module (import "host" "tick" (func $tick))
        (func $inner (param $left i32)
            (loop $l (call $tick)
                (br_if $l (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
        (func $small) (func $smaller)
        (func $outer (param $left i32)
            (loop $l (call $inner (i32.const 5)) (call $after) (call $small)
                (br_if $l (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
        (func $after (local $left i32)
            (local.set $left (i32.const 3))
            (loop $l (br_if $l (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
        (func (export "f") (call $outer (i32.const 40)) (call $after) (call $smaller)
            (call $outer (i32.const 9)) (call $smaller) (call $small)))"#;
    let report = beside(LOOPS, monitor, other);
    words(&report, "way").into_iter().zip(counts(&report, "calls")).collect()
}

/// What a monitor reports of `f`, while another one comes and goes, every few calls of `tick`.
fn beside(text: &str, monitor: &str, other: Option<&'static str>) -> Report {
    let monitors = MonitorSet::new(Choices::new([monitor]).expect("known")).expect("ready");
    let monitors = Arc::new(monitors);
    let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
    let module = monitors.compile(&engine, text).expect("a module");
    let (mut store, mut linker) = (Store::new(&engine, ()), Linker::new(&engine));
    let (own, turns) = (Arc::clone(&monitors), AtomicU64::new(0));
    let tick = move || match (other, turns.fetch_add(1, Relaxed) % 14) {
        (Some(other), 3) => drop(own.attach(other).expect("it can be attached")),
        (Some(other), 11) => drop(own.detach(other).expect("it can be detached")),
        _ => {}
    };
    linker.func_wrap("host", "tick", tick).expect("new");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_func(&mut store, "f").expect("exported");
    function.call(&mut store, &[]).expect("it returns");
    let kind = monitor.split(',').next();
    monitors.reports(kind).remove(0)
}

#[test]
fn contexts_stay_right_when_other_monitors_come_and_go_in_the_middle_of_loops() {
    let expected = ways_beside("profile", None);
    assert_eq!((expected["f;outer;inner"], expected["f;outer;inner;tick"]), (49, 5 * 49));
    for monitor in ["profile", "profile,time-all"] {
        for other in ["hotness", "memory"] {
            assert_eq!(ways_beside(monitor, Some(other)), expected, "{monitor} beside {other}");
        }
    }
}

#[test]
fn time_belongs_to_the_callers_again_when_other_monitors_come_and_go_in_the_middle_of_loops() {
    const TURNS: u64 = 20_000_000;
    const LOOPS: &str = r#"(module (import "host" "tick" (func $tick))
        (func $inner (param $left i32)
            (loop $l (call $tick)
                (br_if $l (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
        (func $outer (local $left i32)
            (call $inner (i32.const 5))
            (local.set $left (i32.const 20000000))
            (loop $l (br_if $l (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
        (func (export "f") (local $left i32)
            (call $outer)
            (local.set $left (i32.const 20000000))
            (loop $l (br_if $l (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;
    for monitor in ["functions", "profile,time-all"] {
        for other in ["hotness", "memory"] {
            let report = beside(LOOPS, monitor, Some(other));
            let column = if monitor == "functions" { "nanoseconds" } else { "self ns" };
            let times: BTreeMap<String, u64> =
                words(&report, "function").into_iter().zip(counts(&report, column)).collect();
            // No processor executes ten iterations in a nanosecond, and a busy machine only adds.
            let least = times["outer"].min(times["f"]);
            assert!(least >= TURNS / 10, "{monitor} beside {other}: {report:?}");
        }
    }
}

#[test]
fn time_until_a_trap_is_told() {
    let reports = observed(SHORT_CALLS, &[1, 1], &["profile", "functions"]);
    let words = words(&reports[0], "total ns");
    let nested: u64 = words[0].parse().expect("the outermost is timed");
    // Four thousand calls take more than a nanosecond each.
    assert!(nested > 2 * 8361, "{words:?}");
    assert!(counts(&reports[1], "nanoseconds").iter().sum::<u64>() > 2 * 8361);
}

#[test]
fn contexts_beyond_memory_are_counted_by_function() {
    let report = &observed(SHORT_CALLS, &[0, 0], &["profile,contexts=4"])[0];
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for (function, count) in words(report, "function").into_iter().zip(counts(report, "calls")) {
        *calls.entry(function).or_default() += count;
    }
    assert_eq!((calls["fib"], calls["leaf"]), (4 * 8361, 4 * 4181), "{report:?}");
    assert!(calls.contains_key("[contexts beyond memory]"));
    let notes = report.notes.join("\n");
    assert!(notes.contains("no memory left for further contexts (contexts=N)"), "{notes}");
}

#[test]
fn making_contexts_changes_nothing_that_the_program_computes() {
    // The first call of each function finds no context; here a call uses all possible kinds of
    // parameters.
    let text = r#"(module
        (func $all (param i64 i32 f64 f64 f64 f64 f64 f64 f64 f64 i64 i64 v128) (result f64)
            (f64.add (f64.add (f64.add (local.get 2) (local.get 3))
                              (f64.add (local.get 4) (local.get 5)))
                (f64.add (f64.add (f64.add (local.get 6) (local.get 7))
                                  (f64.add (local.get 8) (local.get 9)))
                    (f64.add (f64.convert_i64_s (i64.add (local.get 0)
                                 (i64.add (i64.extend_i32_s (local.get 1))
                                     (i64.add (local.get 10) (local.get 11)))))
                        (f64x2.extract_lane 1 (local.get 12))))))
        (func $passed (param i64 i32 f64 f64 f64 f64 f64 f64 f64 f64 i64 i64 v128) (result f64)
            (call $all (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4)
                (local.get 5) (local.get 6) (local.get 7) (local.get 8) (local.get 9)
                (local.get 10) (local.get 11) (local.get 12)))
        (func (export "f") (result f64)
            (call $passed (i64.const 1) (i32.const 2) (f64.const 4) (f64.const 8) (f64.const 16)
                (f64.const 32) (f64.const 64) (f64.const 128) (f64.const 256) (f64.const 512)
                (i64.const 1024) (i64.const 2048) (v128.const f64x2 0 4096))))"#;
    for monitor in ["profile", "profile,time-all", "profile,contexts=1"] {
        let monitors = MonitorSet::new(Choices::new([monitor]).expect("known")).expect("ready");
        let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
        let module = monitors.compile(&engine, text).expect("a module");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let function = instance.get_func(&mut store, "f").expect("exported");
        for _ in 0..12 {
            let results = function.call(&mut store, &[]).expect("it returns");
            assert!(matches!(results[..], [Val::F64(bits)] if f64::from_bits(bits) == 8191.0));
        }
    }
}

#[test]
fn calls_of_the_host_are_timed_however_short_they_are() {
    let text = r#"(module (func $leaf (param i32) (result i32) (local.get 0))
        (func $f (export "f") (param i32) (result i32) (call $leaf (local.get 0))))"#;
    let report = observed(text, &[0; 200], &["profile"]).remove(0);
    // Outside of all functions no caller has their time.
    assert!(report.notes[1].starts_with("200 calls timed; "), "{:?}", report.notes);
}
