//! Scopes: calls inside of calls of some functions, and calls that are not too deep.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::*;

const HOOKS: &[&str] = &["-O1", "-finstrument-functions"];
const PLAIN: &[&str] = &["-O1"];

fn program(source: &str, flags: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
    has(compiler).then(|| {
        let to = folder("scopes");
        (compile(source, &to, flags), to)
    })
}

/// The profile under `fastinst run` with these options.
fn recorded(program: &Path, to: &Path, options: &[&str], how: &str) -> Value {
    let path = to.join(format!("{how}.json"));
    let mut command = fastinst();
    command.args(["run", "--format", "json", "--plant", "all", "-o"]).arg(&path).args(options);
    let output = run(command.arg(program).arg(how));
    assert!(output.status.success() && output.stderr.is_empty(), "{options:?}: {output:?}");
    profile(&path)
}

/// How often functions were called; 0 for those without a row.
fn found<const N: usize>(profile: &Value, names: [&str; N]) -> [u32; N] {
    let functions = profile["functions"].as_array().unwrap();
    names.map(|name| {
        let row = functions.iter().find(|function| function["name"] == name);
        row.map_or(0.0, |row| row["calls"]["value"].as_f64().unwrap()) as u32
    })
}

fn notes(profile: &Value) -> String {
    profile["header"]["notes"].to_string()
}

const NAMES: [&str; 6] = ["serve", "parse", "leaf", "deep", "catches", "main"];

#[test]
fn calls_inside_of_others_are_counted_and_no_others() {
    for flags in [HOOKS, PLAIN] {
        let Some((program, to)) = program("scopes.c", flags) else { return };
        for policy in ["count", "exact", "adaptive"] {
            let under =
                |how| recorded(&program, &to, &["--policy", policy, "--under", "serve*"], how);
            let name = format!("{flags:?} {policy}");
            let calls = under("calls");
            assert_eq!(found(&calls, NAMES), [2, 2, 5, 0, 0, 0], "{name}");
            assert!(notes(&calls).contains("only calls inside of calls of serve*"), "{name}");
            assert_eq!(found(&under("jumps"), NAMES), [1, 4, 7, 0, 0, 0], "{name}");
            assert_eq!(found(&under("threads"), NAMES), [1, 2, 30, 0, 0, 0], "{name}");
            assert_eq!(found(&under("handler"), NAMES), [0, 2, 6, 0, 0, 0], "{name}");
            if flags == HOOKS {
                // With other providers one of its exits has no probe.
                assert_eq!(found(&under("fork"), NAMES), [0, 2, 42, 0, 0, 0], "{name}");
            }
            if policy == "exact" {
                let timed = |name| function(&calls, name)["samples"].as_u64().unwrap();
                assert_eq!(["serve", "parse", "leaf"].map(timed), [2, 2, 5], "{name}");
            }
        }
    }
}

#[test]
fn calls_that_are_too_deep_are_left_out() {
    for (flags, more) in [(HOOKS, 1), (PLAIN, 0)] {
        let Some((program, to)) = program("scopes.c", flags) else { return };
        for policy in ["count", "exact"] {
            let deep = |depth: u32, how| {
                let depth = (depth + more).to_string();
                recorded(&program, &to, &["--policy", policy, "--depth", &depth], how)
            };
            let name = format!("{flags:?} {policy}");
            assert_eq!(found(&deep(1, "calls"), NAMES), [0, 0, 0, 0, 0, 1], "{name}");
            assert_eq!(found(&deep(2, "calls"), NAMES), [1, 3, 0, 1, 0, 1], "{name}");
            assert_eq!(found(&deep(3, "calls"), NAMES), [1, 4, 10, 2, 0, 1], "{name}");
            assert!(notes(&deep(3, "calls")).contains("deep are recorded"), "{name}");
            let all = recorded(&program, &to, &["--policy", policy], "jumps");
            assert_eq!(found(&deep(9, "jumps"), NAMES), found(&all, NAMES), "{name}");
            if flags == HOOKS {
                assert_eq!(found(&deep(3, "jumps"), NAMES), [1, 8, 1, 0, 3, 1], "{name}");
            }
        }
    }
}

#[test]
fn depth_is_counted_from_the_calls_that_open_a_scope() {
    for flags in [HOOKS, PLAIN] {
        let Some((program, to)) = program("scopes.c", flags) else { return };
        let options = ["--policy", "count", "--under", "serve", "--depth", "2"];
        let profile = recorded(&program, &to, &options, "calls");
        assert_eq!(found(&profile, NAMES), [2, 2, 0, 0, 0, 0], "{flags:?}");
    }
}

#[test]
fn a_function_that_is_left_out_opens_a_scope() {
    for flags in [HOOKS, PLAIN] {
        let Some((program, to)) = program("scopes.c", flags) else { return };
        let options = ["--policy", "count", "--under", "serve", "-F", "leaf"];
        let profile = recorded(&program, &to, &options, "calls");
        assert_eq!(found(&profile, NAMES), [0, 0, 5, 0, 0, 0], "{flags:?}");
    }
}

#[test]
fn an_exception_closes_a_scope() {
    let Some((program, to)) = program("scopes.cc", HOOKS) else { return };
    for policy in ["count", "exact"] {
        let under = recorded(&program, &to, &["--policy", policy, "--under", "serve"], "");
        assert_eq!(found(&under, NAMES), [3, 3, 8, 0, 0, 0], "{policy}");
        let deep = recorded(&program, &to, &["--policy", policy, "--depth", "2"], "");
        assert_eq!(found(&deep, NAMES), [0, 1, 0, 0, 3, 1], "{policy}");
    }
}

#[test]
fn scopes_go_with_spans() {
    let Some((program, to)) = program("scopes.c", HOOKS) else { return };
    let options = ["--policy", "count", "--under", "serve", "--start-on", "deep"];
    let profile = recorded(&program, &to, &options, "calls");
    assert_eq!(found(&profile, NAMES), [1, 1, 1, 0, 0, 0]);
}

#[test]
fn what_names_nothing_is_refused() {
    let Some((program, _)) = program("scopes.c", HOOKS) else { return };
    for (options, word) in
        [(["--under", "serv"], "serve"), (["--under", "/(/"], "invalid"), (["--depth", "0"], "0")]
    {
        let output = run(fastinst().arg("run").args(options).arg(&program));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(word), "{told}");
    }
}
