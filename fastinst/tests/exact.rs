//! Policy `exact`: every call is timed, none is lost, and times add up.

mod support;

use serde_json::Value;
use support::*;

/// The profile of a program under policy `exact`, and its output.
fn observed(source: &str, flags: &[&str]) -> Option<(Value, String)> {
    if !has(if source.ends_with(".cc") { "g++" } else { "gcc" }) {
        return None;
    }
    let to = folder("exact");
    let program = compile(source, &to, &[&["-finstrument-functions"], flags].concat());
    let path = to.join("p.json");
    let output = run(&mut preloaded(&program, "exact", &path));
    assert!(output.stderr.is_empty() && output.status.code().is_some(), "{source}: {output:?}");
    Some((profile(&path), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn functions(profile: &Value) -> &[Value] {
    profile["functions"].as_array().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn no_call_is_lost_while_threads_drain_their_rings_and_handlers_come_in_between() {
    for flags in [["-O0"], ["-O1"]] {
        let Some((profile, printed)) = observed("complete.c", &flags) else { return };
        let alarms: f64 = printed.trim().parse().unwrap();
        assert!(alarms > 0.0);
        for (name, expected) in
            [("fib", 57_313.0), ("step", 300_000.0), ("work", 3.0), ("leave", 100.0), ("main", 1.0)]
        {
            assert_eq!(
                (calls(&profile, name), number(&function(&profile, name)["samples"])),
                (expected, expected),
                "{name}"
            );
        }
        assert_eq!(
            (calls(&profile, "on_alarm"), calls(&profile, "in_handler")),
            (alarms, 60.0 * alarms)
        );
        // The calls that longjmp left.
        assert_eq!(
            (calls(&profile, "jump"), number(&function(&profile, "jump")["samples"])),
            (100.0, 0.0)
        );
        let lost = number(&profile["header"]["spent"]["lost"]);
        assert!((100.0..100.0 + 61.0 * alarms).contains(&lost), "{lost}");
    }
}

#[test]
fn totals_count_a_recursion_once_and_hold_what_was_called() {
    let Some((profile, _)) = observed("complete.c", &["-O1"]) else { return };
    let times = |name| {
        let function = function(&profile, name);
        (number(&function["total"]["value"]), number(&function["self"]["value"]))
    };
    let (main, fib) = (times("main"), times("fib"));
    assert!(main.0 >= fib.0 && fib.0 >= fib.1 && fib.1 > 0.0, "{main:?} {fib:?}");
    // No time is counted twice in recursion: the total of 57,313 calls is not their sum.
    let mean = number(&function(&profile, "fib")["mean"]["value"]);
    assert!(fib.0 < mean * 57_313.0 / 2.0, "{fib:?} {mean}");
}

/// The processor overlaps hooks with the program's own work; figures that this makes uncertain are
/// not reported as exact.
#[test]
fn short_calls_and_those_with_many_hooks_inside_are_told_with_their_doubt() {
    if !has("gcc") {
        return;
    }
    let to = folder("exact-doubt");
    let program = compile("doubtful.c", &to, &["-finstrument-functions", "-O2"]);
    let path = to.join("p.json");
    let output = run(&mut preloaded(&program, "exact", &path));
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    let truth = |name: &str| -> f64 {
        let line = told.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.and_then(|time| time.parse().ok()).unwrap_or_else(|| panic!("no {name} in {told}"))
    };
    let profile = profile(&path);
    let mean = |name| function(&profile, name)["mean"].clone();
    assert_eq!(mean("spins")["how"], "exact", "{}", mean("spins"));
    for name in ["hops", "sorts"] {
        let (mean, truth) = (mean(name), truth(name));
        assert_eq!(mean["how"], "estimated", "{name}: {mean}");
        // Preempted calls take longer than the true time, never less.
        assert!(number(&mean["hi"]) > 0.7 * truth, "{name}: {mean} for {truth}");
    }
}

#[test]
fn no_self_time_is_longer_than_its_total_nor_below_nothing() {
    for (source, flags) in [
        ("complete.c", ["-O0"]),
        ("calls.c", ["-O2"]),
        ("objects.cc", ["-O2"]),
        ("threads.c", ["-O1"]),
    ] {
        let Some((profile, _)) = observed(source, &flags) else { return };
        for function in functions(&profile) {
            let Some(own) = function["self"]["value"].as_f64() else { continue };
            let total = number(&function["total"]["value"]);
            assert!(own >= 0.0 && own <= total * (1.0 + 1e-9), "{source}: {function}");
        }
    }
}

/// Functions of the C++ library that the program has copies of are discovered at their first hook
/// only; they are timed without waiting for the agent.
#[test]
fn every_call_of_a_position_independent_cxx_program_is_timed() {
    let Some((profile, _)) = observed("library.cc", &["-O2", "-fPIE", "-pie"]) else { return };
    let untimed =
        |function: &&Value| number(&function["calls"]["value"]) != number(&function["samples"]);
    let figures = |function: &Value| {
        format!("{}: {} of {}", function["name"], function["samples"], function["calls"]["value"])
    };
    let untimed: Vec<String> = functions(&profile).iter().filter(untimed).map(figures).collect();
    let spent = &profile["header"]["spent"];
    assert!(
        functions(&profile).len() > 20 && untimed.is_empty(),
        "{} functions, {untimed:?}, {spent}",
        functions(&profile).len()
    );
}

#[test]
fn functions_whose_ends_the_compiler_has_merged_are_timed_each_by_itself() {
    let Some((profile, printed)) = observed("merged.c", &["-O2"]) else { return };
    assert_eq!(printed, "201\n");
    for (name, expected) in
        [("often", 400_000.0), ("rare", 201.0), ("count", 400_000.0), ("main", 1.0)]
    {
        assert_eq!(
            (calls(&profile, name), number(&function(&profile, name)["samples"])),
            (expected, expected),
            "{name}"
        );
    }
    assert_eq!(number(&profile["header"]["spent"]["lost"]), 0.0);
}

/// No thread waits for the agent while it holds an allocator's lock: a thread whose ring is full
/// empties it itself.
#[test]
fn no_call_of_an_allocator_that_holds_its_lock_is_lost() {
    let Some((profile, _)) = observed("guarded.c", &["-O1"]) else { return };
    for (name, expected) in [("look", 1_200_000.0), ("work", 3.0), ("main", 1.0)] {
        assert_eq!(
            (calls(&profile, name), number(&function(&profile, name)["samples"])),
            (expected, expected),
            "{name}"
        );
    }
    let (malloc, carve) = (calls(&profile, "malloc"), calls(&profile, "carve"));
    assert!(malloc >= 60.0 && malloc == carve, "{malloc} and {carve}");
    let spent = &profile["header"]["spent"];
    assert_eq!(number(&spent["lost"]), 0.0, "{spent}");
}

/// In such a program the address of a library's function is that of an entry in the program's
/// linkage table.
#[test]
fn functions_that_a_program_at_a_fixed_place_has_of_libraries_have_their_names() {
    let Some((profile, _)) = observed("library.cc", &["-O2", "-no-pie", "-fno-pie"]) else {
        return;
    };
    let named: Vec<&str> =
        functions(&profile).iter().map(|function| function["name"].as_str().unwrap()).collect();
    let nameless: Vec<&&str> =
        named.iter().filter(|name| **name == "_init" || name.contains("+0x")).collect();
    assert!(named.len() > 20 && nameless.is_empty(), "{nameless:?} of {}", named.len());
}

/// The callers of a function and how often each called it.
fn callers(profile: &Value, name: &str) -> Vec<String> {
    let mut sums = std::collections::BTreeMap::<String, f64>::new();
    for arc in function(profile, name)["callers"].as_array().unwrap() {
        let caller = arc["caller"]["name"].as_str().unwrap_or("?").to_owned();
        *sums.entry(caller).or_default() += number(&arc["samples"]);
    }
    sums.into_iter().map(|(caller, calls)| format!("{caller} {calls}")).collect()
}

/// A function that is inlined has no return address of its own, and one that it calls returns into
/// the code of its container.
#[test]
fn callers_of_inlined_functions_are_those_in_the_source() {
    let Some((profile, _)) = observed("inlined.c", &["-O2", "-g"]) else { return };
    for (name, expected) in [
        ("find", vec!["either 13", "looks 93", "shared 80", "twice 480"]),
        ("twice", vec!["deep 200", "reads 40"]),
        ("deep", vec!["reads 200"]),
        ("looks", vec!["either 40"]),
        ("reads", vec!["main 1"]),
        ("shared", vec!["here 40", "there 40"]),
    ] {
        assert_eq!(callers(&profile, name), expected, "{name}: {profile}");
    }
    // Without debug information the container is known.
    let Some((profile, _)) = observed("inlined.c", &["-O2"]) else { return };
    for (name, expected) in [
        ("twice", vec!["reads 240"]),
        ("deep", vec!["reads 200"]),
        ("shared", vec!["here 40", "there 40"]),
    ] {
        assert_eq!(callers(&profile, name), expected, "{name}: {profile}");
    }
}

#[test]
fn a_call_in_a_part_that_was_split_off_is_one_by_the_whole_function() {
    let Some((profile, _)) = observed("cold.cc", &["-O2"]) else { return };
    let divided = &function(&profile, "divided")["offset"];
    let arcs = function(&profile, "rare")["callers"].as_array().unwrap();
    assert!(arcs.iter().all(|arc| arc["caller"]["offset"] == *divided), "{profile}");
    assert_eq!(callers(&profile, "rare"), ["divided 50"], "{profile}");
}

#[test]
fn constructors_that_are_inlined_have_the_callers_of_the_source() {
    let Some((profile, _)) = observed("inlined.cc", &["-O2", "-g"]) else { return };
    for (name, expected) in [
        ("touch", "Base::Base 70"),
        ("Base::Base", "Box::Box 70"),
        ("Box::Box", "makes 70"),
        ("Box::~Box", "makes 70"),
        ("makes", "main 1"),
    ] {
        assert_eq!(callers(&profile, name), [expected], "{name}: {profile}");
    }
}
