//! Code that runtimes generate and report to perf: its functions have names and shares in the
//! profile, from the sampling clock alone.

#[path = "fuzz/body.rs"]
mod body;
mod support;

use arbtest::arbtest;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use support::*;

#[test]
fn any_bytes_are_a_map_and_a_dump_however_they_are_cut() {
    arbtest(body::told).size_min(1 << 6).size_max(1 << 12).budget_ms(1500);
}

/// The profile; `None` if the kernel permits no sampling clock.
fn sampled(command: &mut Command, file: &Path) -> Option<(Value, Output)> {
    let output = run(command);
    assert!(output.status.success(), "{command:?} {output:?}");
    let profile = profile(file);
    // Runtimes do not remove their maps.
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", profile["header"]["process"]));
    if profile["header"]["clock"]["clock"] == "kernel" {
        return Some((profile, output));
    }
    println!("SKIPPED: {}", profile["header"]["clock"]);
    None
}

/// The output of the runtime, and its profile.
fn runtime(mode: &str) -> Option<(Value, Output)> {
    let to = folder("jit");
    let program = compile("jit.c", &to, &["-O1", "-finstrument-functions"]);
    let file = to.join("profile");
    let mut command = preloaded(&program, "adaptive", &file);
    sampled(command.arg(mode).current_dir(&to), &file)
}

fn share(profile: &Value, name: &str) -> f64 {
    function(profile, name)["self"]["value"].as_f64().unwrap()
        / profile["header"]["processor"].as_f64().unwrap()
        / 1e9
}

fn notes(profile: &Value) -> String {
    profile["header"]["notes"].to_string()
}

#[track_caller]
fn is_by_the_clock_alone(profile: &Value, name: &str) {
    let row = function(profile, name);
    let module = row["module"].as_str().map(str::to_owned);
    let module = module.unwrap_or_else(|| {
        let at = row["module"].as_u64().expect("a module") as usize;
        profile["modules"][at]["path"].as_str().expect("a path").to_owned()
    });
    assert_eq!(module, "[jit]", "{row}");
    assert_eq!(
        (row["samples"].as_u64(), row["calls"]["how"].as_str()),
        (Some(0), Some("estimated"))
    );
    assert!(row["calls"]["lo"] == 1.0 && row["histogram"].is_null(), "{row}");
}

#[test]
fn functions_that_lie_at_one_address_in_turn_are_told_apart() {
    // The dump is empty until the program ends: its records have times.
    for mode in ["map", "dump"] {
        let Some((profile, _)) = runtime(mode) else { return };
        for name in ["first", "second"] {
            is_by_the_clock_alone(&profile, name);
            let share = share(&profile, name);
            assert!((0.25..0.75).contains(&share), "{mode} {name} {share} {profile}");
        }
        assert!(notes(&profile).contains("seen by the sampling clock only"), "{profile}");
        // They were called by a function with probes.
        let main = function(&profile, "main")["total"]["value"].as_f64().unwrap();
        let processor = profile["header"]["processor"].as_f64().unwrap() * 1e9;
        assert!(main > 0.8 * processor, "{profile}");
    }
}

#[test]
fn a_map_that_is_written_at_the_end_names_what_was_seen_before() {
    let Some((profile, _)) = runtime("late") else { return };
    is_by_the_clock_alone(&profile, "both");
    assert!(share(&profile, "both") > 0.8, "{profile}");
}

#[test]
fn code_without_names_is_told_of() {
    let Some((profile, _)) = runtime("nothing") else { return };
    let rows = profile["functions"].as_array().unwrap().iter();
    assert!(rows.filter(|row| row["name"] == "first" || row["name"] == "second").count() == 0);
    assert!(notes(&profile).contains("without names for perf"), "{profile}");
}

const SCRIPT: &str = "
function hot(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
function outer() { let t = 0; for (let k = 0; k < 300; k++) t ^= hot(2000000); return t; }
console.log(outer());
";

#[test]
fn hot_functions_of_node_have_names() {
    if !has("node") {
        return;
    }
    let to = folder("jit-node");
    std::fs::write(to.join("hot.js"), SCRIPT).unwrap();
    // Packages may have a wrapper of that name, whose children are not profiled.
    let node = run(clean(Command::new("node")).args(["-p", "process.execPath"])).stdout;
    let node = String::from_utf8(node).unwrap().trim().to_owned();
    let plain = run(clean(Command::new(&node)).arg(to.join("hot.js")));
    for option in ["--perf-basic-prof", "--perf-prof"] {
        let file = to.join(format!("profile{option}"));
        let mut command = fastinst();
        command.args(["run", "--format", "json", "-o"]).arg(&file);
        command.args([node.as_str(), option, "hot.js"]).current_dir(&to);
        let Some((profile, output)) = sampled(&mut command, &file) else { return };
        assert_eq!(output.stdout, plain.stdout);
        let rows = profile["functions"].as_array().unwrap().iter();
        // The name shows which compiler has compiled the function: `JS:*hot /…/hot.js:2:13`.
        let hot = rows.filter(|row| {
            let name = row["name"].as_str().unwrap();
            name.starts_with("JS:") && name[4..].starts_with("hot ")
        });
        let hot: Vec<f64> = hot.map(|row| share(&profile, row["name"].as_str().unwrap())).collect();
        assert!(hot.iter().sum::<f64>() > 0.5, "{option} {hot:?} {profile}");
    }
}
