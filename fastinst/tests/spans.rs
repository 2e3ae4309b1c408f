//! Recording that begins and ends: by functions, signals and times.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::*;

const HOOKS: &[&str] = &["-O1", "-finstrument-functions"];
const PLAIN: &[&str] = &["-O1"];

fn program(flags: &[&str]) -> Option<(PathBuf, PathBuf)> {
    has("gcc").then(|| {
        let to = folder("spans");
        (compile("spans.c", &to, flags), to)
    })
}

/// The profile under `fastinst run` with these options, and the output.
fn recorded(program: &Path, to: &Path, options: &[&str], how: &str) -> (Value, Output) {
    let path = to.join(format!("{how}.json"));
    let mut command = fastinst();
    command.args(["run", "--format", "json", "-o"]).arg(&path).args(options);
    let output = run(command.arg(program).arg(how));
    assert!(output.status.success(), "{options:?}: {output:?}");
    (profile(&path), output)
}

const BY_FUNCTIONS: [&str; 4] = ["--start-on", "begin", "--stop-on", "end"];

/// How often a function was called; 0 if it has no row.
fn found(profile: &Value, name: &str) -> f64 {
    let functions = profile["functions"].as_array().unwrap();
    let row = functions.iter().find(|function| function["name"] == name);
    row.map_or(0.0, |row| row["calls"]["value"].as_f64().unwrap())
}

fn spans(profile: &Value) -> u64 {
    profile["header"]["recorded"]["spans"].as_u64().unwrap()
}

/// Checks that no figure of a profile exceeds its spans.
fn is_within_its_spans(profile: &Value) {
    let header = &profile["header"];
    let seconds = header["seconds"].as_f64().unwrap();
    let recorded = header["recorded"]["first"].as_array().unwrap();
    let sum: f64 = recorded
        .iter()
        .map(|span| span["to"].as_f64().unwrap() - span["from"].as_f64().unwrap())
        .sum();
    assert!(seconds <= sum * 1.001 + 1e-6 && sum <= seconds * 1.01 + 1e-4, "{header}");
    let threads = header["threads"].as_f64().unwrap();
    let processor = header["processor"].as_f64().unwrap();
    assert!(processor <= seconds * threads + 0.01, "{header}");
    let functions = profile["functions"].as_array().unwrap();
    let own: f64 = functions.iter().filter_map(|row| row["self"]["value"].as_f64()).sum();
    assert!(own <= processor * 1e9 * 1.001 + 1.0, "{own} of {header}");
}

#[test]
fn calls_between_two_functions_are_counted_and_no_others() {
    for flags in [HOOKS, PLAIN] {
        let Some((program, to)) = program(flags) else { return };
        for policy in ["count", "exact", "adaptive"] {
            let options = ["--policy", policy, "--plant", "all"];
            let options = [&options[..], &BY_FUNCTIONS].concat();
            let (profile, _) = recorded(&program, &to, &options, "functions");
            let all = ["work", "begin", "opens", "jumps", "closes", "end", "other", "main"];
            let mut calls = all.map(|name| found(&profile, name));
            if flags == PLAIN {
                // It may have no probe.
                calls[4] = 1.0;
            }
            let work = f64::from(20 + 3 + 5 + 160 + 2);
            assert_eq!(calls, [work, 4.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], "{flags:?} {policy}");
            assert_eq!(spans(&profile), 3, "{flags:?} {policy}");
            is_within_its_spans(&profile);
            if policy == "exact" && flags == HOOKS {
                let timed = |name| function(&profile, name)["samples"].as_u64().unwrap();
                assert_eq!(["work", "begin", "jumps", "closes"].map(timed), [190, 4, 0, 0]);
            }
        }
    }
}

#[test]
fn what_is_recorded_ends_without_having_begun_anew() {
    let Some((program, to)) = program(HOOKS) else { return };
    let options = ["--policy", "count", "--stop-on", "end"];
    let (profile, _) = recorded(&program, &to, &options, "functions");
    assert_eq!((found(&profile, "work"), spans(&profile)), (38.0, 1));
    assert_eq!((found(&profile, "main"), found(&profile, "opens")), (1.0, 1.0));
    let options = ["--policy", "count", "--start-on", "jumps"];
    let (profile, _) = recorded(&program, &to, &options, "functions");
    assert_eq!((found(&profile, "jumps"), spans(&profile)), (1.0, 1));
    assert_eq!(found(&profile, "work"), f64::from(3 + 45 + 80 + 160 + 320 + 2));
    // A function that is both trigger kinds starts and stops recording in turn.
    let options = ["--policy", "count", "--start-on", "begin", "--stop-on", "begin"];
    let (profile, _) = recorded(&program, &to, &options, "functions");
    assert_eq!((found(&profile, "begin"), spans(&profile)), (2.0, 2));
    assert_eq!(found(&profile, "work"), f64::from(20 + 3 + 45 + 80));
}

#[test]
fn a_function_that_is_not_recorded_itself_switches_recording() {
    for flags in [HOOKS, PLAIN] {
        let Some((program, to)) = program(flags) else { return };
        let options = [&["--policy", "count", "-F", "work"], &BY_FUNCTIONS[..]].concat();
        let (profile, _) = recorded(&program, &to, &options, "functions");
        assert_eq!((found(&profile, "work"), found(&profile, "begin")), (190.0, 0.0), "{flags:?}");
    }
}

#[test]
fn a_span_is_that_of_all_threads() {
    let Some((program, to)) = program(HOOKS) else { return };
    for policy in ["count", "exact"] {
        let options = [&["--policy", policy], &BY_FUNCTIONS[..]].concat();
        let (profile, _) = recorded(&program, &to, &options, "threads");
        assert_eq!((found(&profile, "work"), spans(&profile)), (57.0, 1), "{policy}");
        is_within_its_spans(&profile);
    }
}

#[test]
fn the_sampling_clock_sees_what_runs_in_a_span_and_nothing_else() {
    let Some((program, to)) = program(HOOKS) else { return };
    let (profile, _) = recorded(&program, &to, &BY_FUNCTIONS, "clock");
    is_within_its_spans(&profile);
    assert_eq!(found(&profile, "wastes"), 0.0);
    if profile["header"]["clock"]["clock"] != "kernel" {
        return;
    }
    let processor = profile["header"]["processor"].as_f64().unwrap() * 1e9;
    let own = function(&profile, "burns")["self"]["value"].as_f64().unwrap();
    assert!(own > 0.8 * processor, "{own} of {processor}");
}

#[test]
fn a_child_goes_on_as_its_parent_stood() {
    let Some((program, to)) = program(HOOKS) else { return };
    for policy in ["count", "exact"] {
        let options = [&["--policy", policy], &BY_FUNCTIONS[..]].concat();
        let (profile, _) = recorded(&program, &to, &options, "fork");
        assert_eq!(found(&profile, "work"), f64::from(3 + 34 + 60), "{policy}");
        assert_eq!(spans(&profile), 1 + 2 + 1);
    }
}

#[test]
fn a_handler_of_the_programs_begins_a_span() {
    let Some((program, to)) = program(HOOKS) else { return };
    let options = [&["--policy", "exact"], &BY_FUNCTIONS[..]].concat();
    let (profile, _) = recorded(&program, &to, &options, "handler");
    assert_eq!((found(&profile, "work"), found(&profile, "on_alarm")), (9.0, 0.0));
}

#[test]
fn signals_begin_and_end_a_span() {
    let Some((program, to)) = program(HOOKS) else { return };
    let options = ["--policy", "count", "--start-on", "SIGUSR1", "--stop-on", "SIGUSR2"];
    let (profile, output) = recorded(&program, &to, &options, "signal");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, within) = printed.trim().split_once(' ').unwrap();
    let work = found(&profile, "work");
    assert!(work > 0.0 && work < within.parse::<f64>().unwrap() + 300.0, "{work} of {within}");
    assert_eq!((spans(&profile), found(&profile, "other")), (1, 0.0));
    is_within_its_spans(&profile);
}

#[test]
fn times_begin_and_end_a_span() {
    let Some((program, to)) = program(HOOKS) else { return };
    let options = ["--policy", "count", "--start-on", "200ms", "--stop-on", "600ms"];
    let (profile, _) = recorded(&program, &to, &options, "sleeps");
    let work = found(&profile, "work");
    assert!(work > 0.0 && work < 1000.0, "{work}");
    assert_eq!(spans(&profile), 1);
    let span = &profile["header"]["recorded"]["first"][0];
    assert!(span["from"].as_f64() >= Some(0.2) && span["to"].as_f64() >= Some(0.6), "{span}");
    is_within_its_spans(&profile);
}

#[test]
fn what_never_happened_is_told() {
    let Some((program, to)) = program(HOOKS) else { return };
    let table = |options: &[&str], how: &str| {
        let mut command = fastinst();
        command.arg("run").args(options).arg(&program).arg(how);
        let output = run(&mut command);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (_, told) = table(&["--start-on", "other"], "functions");
    assert!(told.contains("nothing was recorded"), "{told}");
    // The program installs its own handler after the library's, and it stays installed.
    let (_, told) = table(&["--start-on", "SIGUSR1"], "handles");
    assert!(told.contains("SIGUSR1") && told.contains("another signal"), "{told}");
    let (_, told) = table(&BY_FUNCTIONS, "functions");
    assert!(told.contains("recorded for") && told.contains("3 spans: "), "{told}");
    for (options, word) in [
        (["--start-on", "begn"], "begin"),
        (["--stop-on", "5"], "5s"),
        (["--start-on", "SIGKILL"], "SIGUSR1"),
        (["--stop-on", "/(/"], "invalid pattern"),
    ] {
        let (succeeded, told) = table(&options, "functions");
        assert!(!succeeded && told.contains(word) && told.lines().count() == 1, "{told}");
    }
    drop(to);
}

/// As under `nohup`, which ignores SIGHUP.
#[test]
fn a_signal_that_is_ignored_is_left_alone() {
    let Some((program, to)) = program(HOOKS) else { return };
    let path = to.join("ignored");
    let command = format!(
        "trap '' HUP; exec env LD_PRELOAD={} FASTINST_START_ON=SIGHUP \
         FASTINST_OUTPUT={} {} functions",
        library().display(),
        path.display(),
        program.display()
    );
    let output = run(clean(std::process::Command::new("sh")).args(["-c", &command]));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !path.exists(), "{output:?}");
    assert!(told.contains("SIGHUP is ignored") && told.lines().count() == 1, "{told}");
}
