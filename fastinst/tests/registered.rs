//! Code that a runtime generates and registers is counted, timed, named and charged like native
//! functions.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{
    calls, clean, compile, fastinst, folder, function, preloaded, profile, profiles, run,
};

fn runtime(to: &Path) -> PathBuf {
    compile("registered.c", to, &["-O2"])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The counts that the program prints, of functions that were called.
fn told(output: &Output) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(' ')?;
        let count = count.parse().ok().filter(|&count| count > 0.0)?;
        (!name.contains(':')).then(|| (name.to_owned(), count))
    };
    text(&output.stdout).lines().filter_map(line).collect()
}

/// Runs the runtime in one of its roles; returns its output and its profile.
fn observed(what: &str, policy: &str, arguments: &[&str]) -> (Output, serde_json::Value) {
    let to = folder(&format!("registered-{what}"));
    observed_of(&runtime(&to), policy, arguments, &to.join("profile"))
}

fn observed_of(
    program: &Path,
    policy: &str,
    arguments: &[&str],
    file: &Path,
) -> (Output, serde_json::Value) {
    let output = run(preloaded(program, policy, file).args(arguments));
    assert!(output.status.success(), "{}", text(&output.stderr));
    (output, profile(file))
}

#[test]
fn calls_of_made_functions_are_counted_and_timed_as_native_ones_are() {
    let to = folder("registered-calls");
    let program = runtime(&to);
    let counters = ["ours", "itself"];
    let modes = ["calls", "threads", "jumps"].into_iter();
    for (mode, counter) in modes.flat_map(|mode| counters.map(|counter| (mode, counter))) {
        let plain = run(clean(std::process::Command::new(&program)).args([mode, "500"]));
        for policy in ["count", "exact", "adaptive"] {
            let file = to.join(format!("{mode}-{policy}"));
            let (output, profile) = observed_of(&program, policy, &[mode, "500", counter], &file);
            assert_eq!(text(&output.stdout), text(&plain.stdout), "{}", text(&output.stderr));
            for (name, expected) in told(&output) {
                let row = function(&profile, &name);
                assert_eq!(row["calls"]["value"].as_f64(), Some(expected), "{mode} {policy} {row}");
                assert_eq!(row["calls"]["how"], "exact", "{row}");
                assert_eq!(row["file"], "made.src", "{row}");
                if policy == "exact" && name != "thrower" {
                    assert_eq!(row["samples"].as_f64(), Some(expected), "{row}");
                }
            }
        }
    }
}

#[test]
fn callers_are_told_on_both_sides_of_the_border() {
    let to = folder("registered-callers");
    // The runtime's own functions have hooks, too.
    let program = compile("registered.c", &to, &["-O1", "-finstrument-functions"]);
    let (_, profile) = observed_of(&program, "exact", &["calls", "300"], &to.join("profile"));
    let callers = |name: &str| -> BTreeSet<String> {
        let arcs = function(&profile, name)["callers"].as_array().unwrap().clone();
        arcs.iter().map(|arc| arc["caller"]["name"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    // `body` is native and calls `inner`; its caller is generated.
    let expected: [(&str, BTreeSet<String>); 3] = [
        ("inner", names(&["body"])),
        ("body", names(&["outer", "inner"])),
        ("outer", names(&["many"])),
    ];
    for (callee, expected) in expected {
        assert_eq!(callers(callee), expected, "{callee}: {profile}");
    }
}

#[test]
fn the_clock_charges_made_functions() {
    let (_, profile) = observed("clock", "adaptive", &["spin"]);
    if profile["header"]["clock"]["clock"] == "kernel" {
        // 500 million turns of its own loop.
        let share = function(&profile, "outer")["share"]["value"].as_f64().unwrap();
        assert!(share > 0.5, "{profile}");
    }
}

#[test]
fn variants_of_a_function_are_that_function_to_callers_and_to_the_clock() {
    let to = folder("registered-variants");
    let program = compile("registered.c", &to, &["-O1", "-finstrument-functions"]);
    for policy in ["exact", "adaptive"] {
        let file = to.join(policy);
        let (output, profile) = observed_of(&program, policy, &["variants", "100"], &file);
        assert!(text(&output.stdout).contains("variants: 3"), "{}", text(&output.stderr));
        assert_eq!(["outer", "inner"].map(|name| calls(&profile, name)), [200.0, 500.0]);
        if policy == "exact" {
            let arcs = function(&profile, "body")["callers"].as_array().unwrap().clone();
            let callers: BTreeSet<&str> =
                arcs.iter().map(|arc| arc["caller"]["name"].as_str().unwrap_or("?")).collect();
            assert_eq!(callers, BTreeSet::from(["inner", "outer"]), "{profile}");
        }
        if profile["header"]["clock"]["clock"] == "kernel" {
            let share = function(&profile, "outer")["share"]["value"].as_f64().unwrap();
            assert!(share > 0.5, "{profile}");
        }
    }
}

#[test]
fn code_that_is_taken_back_stays_in_the_profile_and_other_code_may_lie_there() {
    for counter in ["ours", "itself"] {
        let (output, profile) = observed("again", "count", &["again", "100", counter]);
        assert!(text(&output.stdout).contains("taken back: 1"), "{}", text(&output.stderr));
        let found = ["outer", "inner", "second", "third"].map(|name| calls(&profile, name));
        assert_eq!(found, [100.0, 200.0, 200.0, 400.0], "{counter} {profile}");
    }
}

#[test]
fn time_is_charged_to_the_code_that_lay_there_when_it_passed() {
    let (_, profile) = observed("replace", "adaptive", &["replace", "100", "itself"]);
    let counts = ["second", "third"].map(|name| calls(&profile, name));
    assert_eq!(counts, [100.0, 200.0], "{profile}");
    if profile["header"]["clock"]["clock"] == "kernel" {
        // The spinner's 500 million turns; the others' calls take some microseconds.
        let share = function(&profile, "outer")["share"]["value"].as_f64().unwrap();
        assert!(share > 0.5, "{profile}");
    }
}

#[test]
fn code_comes_and_goes_while_the_agent_switches_it() {
    let (_, profile) = observed("churn", "adaptive", &["churn", "20", "itself"]);
    let functions = profile["functions"].as_array().unwrap();
    let outer = functions.iter().filter(|row| row["name"] == "outer");
    let calls: f64 = outer.map(|row| row["calls"]["value"].as_f64().unwrap()).sum();
    assert_eq!(calls, 4000.0, "{profile}");
}

#[test]
fn forked_children_count_their_own() {
    let to = folder("registered-forks");
    let program = runtime(&to);
    let file = to.join("p.%p");
    let output = run(preloaded(&program, "count", &file).args(["fork", "50"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut found: Vec<f64> = profiles(&to).iter().map(|profile| calls(profile, "outer")).collect();
    found.sort_by(f64::total_cmp);
    assert_eq!(found, [100.0, 150.0]);
}

#[test]
fn what_cannot_be_registered_is_refused_and_says_why() {
    let to = folder("registered-refused");
    let program = runtime(&to);
    let output = run(preloaded(&program, "count", &to.join("profile")).args(["refused"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let expected = [
        ("null: ", "the pointer is null"),
        ("empty: ", "f has no code"),
        ("nowhere: ", "f has no code"),
        ("elsewhere: ", "overlaps libc.so.6"),
        ("small: ", "fastinst_code_function.size is 8"),
        ("fixed: ", "the function pointer that switches probes"),
        ("old: ", "fastinst_code.size is 1"),
        ("none: ", "it has no functions"),
        ("good: ", "taken"),
        ("again: ", "overlaps bad"),
        ("stranger: ", "unknown registration 77"),
        ("missing: ", "registration 2 has no function 1"),
        ("hollow: ", "the variant has no code"),
        ("inside: ", "a variant of f overlaps bad"),
        ("variant: ", "taken"),
        ("twice: ", "a variant of f lies there"),
        ("unknown: ", "unknown registration 77"),
    ];
    for (line, (what, why)) in stdout.lines().zip(expected) {
        assert!(line.starts_with(what) && line.contains(why), "{line}");
    }
    assert!(stdout.ends_with("ffffffff\n"), "{stdout}");
    // A waiting profiler accepts no registration, and reports that.
    let mut dormant = preloaded(&program, "count", &to.join("none"));
    let output = run(dormant.env("FASTINST_START", "off").args(["calls"]));
    assert!(text(&output.stderr).contains("no profiler is running"), "{}", text(&output.stderr));
}

#[test]
fn the_table_names_them_by_their_module() {
    let to = folder("registered-table");
    let program = runtime(&to);
    let file = to.join("profile");
    let mut record = fastinst();
    record.args(["run", "-F", "@made.wasm", "-o"]).arg(&file).arg(&program).args(["calls", "500"]);
    let output = run(&mut record);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = run(fastinst().args(["report", "--wide"]).arg(&file));
    let table = text(&report.stdout);
    assert!(table.contains("outer") && table.contains("inner"), "{table}");
    // No function of the program itself was requested, so that none has a probe is not reported.
    assert!(!table.contains("no function got a probe"), "{table}");
}

#[test]
fn the_example_is_a_provider() {
    let to = folder("registered-example");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let program = to.join("provider");
    let mut compiler = std::process::Command::new("gcc");
    compiler.args(["-O2", "-Wall", "-Werror", "-I"]).arg(root.join("fastinst/include"));
    test_support::succeed(
        compiler.arg(root.join("examples/provider.c")).arg("-o").arg(&program).arg("-ldl"),
    );
    let file = to.join("profile");
    let output = run(&mut preloaded(&program, "count", &file));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(calls(&profile(&file), "made"), 100_000.0);
}
