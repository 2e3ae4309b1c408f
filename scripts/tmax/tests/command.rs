//! The command as users run it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use test_support::{Folder, catches, eventually, send, skip};
use wordpatch::os::affinity;

/// A directory that is removed at the end of the test.
struct Scratch(Folder);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(Folder::new(&format!("tmax-{name}")))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

fn tmax() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tmax"));
    command.env_remove("XDG_CONFIG_HOME").env("HOME", "/dev/null").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks that the command fails with one line that contains all of `words`.
fn complains(output: &Output, status: i32, words: &[&str]) {
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{complaint}");
    assert!(words.iter().all(|word| complaint.contains(word)), "{complaint}");
    assert!(status == 2 || complaint.trim_end().lines().count() == 1, "{complaint}");
    assert_eq!(text(&output.stdout), "");
}

fn one_processor() -> bool {
    let alone = affinity::allowed().unwrap().len() < 2;
    if alone {
        skip("two processors are needed");
    }
    alone
}

#[test]
fn a_short_run_writes_everything_that_was_asked_for() {
    if one_processor() {
        return;
    }
    let scratch = Scratch::new("short");
    let (toml, svg) = (scratch.file("cal.toml"), scratch.file("waits.svg"));
    let output = tmax()
        .args(["--quick", "--seconds", "4", "--json", "-o"])
        .arg(&toml)
        .arg("--svg")
        .arg(&svg)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["experiment"], "tmax");
    let granule = report["granule"].as_u64();
    assert!(granule.is_none_or(|granule| [8, 16, 32, 64].contains(&granule)), "{granule:?}");
    let seen =
        if granule.is_some() { (true, "") } else { (false, "tmax: the granule was not observed") };
    assert_eq!(output.status.success(), seen.0, "no progress where stderr is no terminal");
    assert!(text(&output.stderr).starts_with(seen.1) && text(&output.stderr).lines().count() < 2);
    let offsets = report["torn_by_offset"].as_array().unwrap();
    assert_eq!(offsets.len(), 64);
    assert!(
        offsets
            .iter()
            .enumerate()
            .all(|(i, at)| at["offset"] == i && at["torn"].is_u64() && at["n"].is_u64())
    );
    for key in ["tmax", "costs", "latency", "latent", "rows", "findings"] {
        assert!(!report[key].as_array().unwrap().is_empty(), "{key}");
    }
    for key in ["case", "executers", "position", "wait", "toggles", "torn", "direction"] {
        assert!(
            report["tmax"].as_array().unwrap().iter().all(|point| point.get(key).is_some()),
            "{key}"
        );
    }
    for key in ["name", "value", "unit", "baseline", "ratio", "n"] {
        assert!(
            report["rows"].as_array().unwrap().iter().all(|row| row.get(key).is_some()),
            "{key}"
        );
    }
    assert_eq!(report["machine"]["vendor"].as_str().unwrap().len(), 12);

    if let Some(granule) = granule {
        let calibration = wordpatch::Calibration::load(&toml).unwrap();
        assert_eq!(calibration.granule.bytes() as u64, granule);
    }
    let drawing = fs::read_to_string(&svg).unwrap();
    let drawing = roxmltree::Document::parse(&drawing).unwrap();
    assert_eq!(drawing.root_element().tag_name().name(), "svg");
    let drawn = |name| drawing.descendants().filter(|node| node.has_tag_name(name)).count();
    let seen =
        report["tmax"].as_array().unwrap().iter().filter(|point| point["toggles"] != 0).count();
    assert!(drawn("circle") + drawn("path") >= seen / 2, "{seen} cells");
    let mut names = scratch.names();
    names.sort();
    assert_eq!(names, ["cal.toml", "waits.svg"][usize::from(granule.is_none())..]);
}

#[test]
fn tables_go_to_stdout_and_no_file_is_written_unasked() {
    if one_processor() {
        return;
    }
    let scratch = Scratch::new("unasked");
    let output = tmax()
        .args(["--quick", "--seconds", "1"])
        .env("XDG_CONFIG_HOME", &scratch.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in [
        "Fetch granule",
        "Costs",
        "Visibility",
        "Latent cost",
        "Findings",
        "No file was written",
        "--save",
    ] {
        assert!(text(&output.stdout).contains(words), "{words}");
    }
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

#[test]
fn what_was_seen_enough_is_saved_to_the_default_place_and_nothing_else_is() {
    if one_processor() {
        return;
    }
    let scratch = Scratch::new("default");
    let output = tmax()
        .args(["--save", "--seconds", "4"])
        .env("XDG_CONFIG_HOME", &scratch.0)
        .output()
        .unwrap();
    let written = scratch.file("fastinst").join("tmax.toml");
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() {
        assert!(said.contains(written.to_str().unwrap()), "{said}");
        wordpatch::Calibration::load(&written).unwrap();
    } else {
        assert!(
            complaint.contains("not observed") && complaint.contains("run again"),
            "{complaint}"
        );
        assert!(!written.exists());
    }
}

/// Half a second is too short for twenty thousand toggles at each of 64 offsets.
#[test]
fn a_granule_that_was_not_seen_is_neither_told_nor_written() {
    if one_processor() {
        return;
    }
    let scratch = Scratch::new("unseen");
    let before = wordpatch::Calibration {
        machine: wordpatch::Machine::here(),
        date: "2026-01-01T00:00:00Z".to_owned(),
        granule: wordpatch::Granule::QUADWORD,
        granule_toggles: 1_000_000,
        tmax: None,
        failed: Vec::new(),
    };
    let toml = scratch.file("cal.toml");
    before.save(&toml).unwrap();
    let output = tmax().args(["--seconds", "0.5", "--json", "-o"]).arg(&toml).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["granule"].is_null(), "{}", report["granule"]);
    assert!(
        report["findings"][0]["verdict"].as_str().unwrap().contains("not seen"),
        "{}",
        report["findings"][0]
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("run again"), "{}", text(&output.stderr));
    assert_eq!(
        wordpatch::Calibration::load(&toml),
        Ok(before),
        "the calibration from before stays"
    );
}

#[test]
fn wrong_options_are_named() {
    complains(&tmax().arg("--quikc").output().unwrap(), 2, &["--quikc", "--quick"]);
    complains(&tmax().args(["--quick", "--full"]).output().unwrap(), 2, &["--quick", "--full"]);
    complains(&tmax().args(["--seconds", "soon"]).output().unwrap(), 2, &["soon", "give a number"]);
    complains(
        &tmax().args(["manual", "--completions", "dcl"]).output().unwrap(),
        2,
        &["dcl", "bash"],
    );
}

#[test]
fn a_place_that_cannot_be_written_to_is_named_before_anything_is_measured() {
    let started = Instant::now();
    complains(
        &tmax().args(["--full", "-o", "/nowhere/at/all"]).output().unwrap(),
        1,
        &["/nowhere/at/all", "-o FILE"],
    );
    complains(
        &tmax().args(["--full", "-o", "/"]).output().unwrap(),
        1,
        &["cannot write /", "-o FILE"],
    );
    complains(
        &tmax().args(["--full", "-o", "/dev/null"]).output().unwrap(),
        1,
        &["/dev/null", "not a regular file"],
    );
    complains(
        &tmax().args(["--full", "--save"]).output().unwrap(),
        1,
        &["/dev/null/.config/fastinst/tmax.toml", "-o FILE"],
    );
    complains(
        &tmax().args(["--full", "--save"]).env_remove("HOME").output().unwrap(),
        1,
        &["HOME", "-o FILE"],
    );
    let scratch = Scratch::new("unwritable");
    let output = tmax()
        .arg("--full")
        .args(["--svg", "/nowhere/x.svg", "-o"])
        .arg(scratch.file("cal.toml"))
        .output()
        .unwrap();
    complains(&output, 1, &["/nowhere/x.svg", "--svg FILE"]);
    assert!(scratch.names().is_empty());
    assert!(started.elapsed() < Duration::from_secs(120), "a full run was begun");
}

#[test]
fn one_processor_is_told_that_two_are_needed() {
    let scratch = Scratch::new("alone");
    let output = std::thread::scope(|scope| {
        let alone = scope.spawn(|| {
            affinity::keep_to(&affinity::allowed().unwrap()[..1]).unwrap();
            tmax().arg("-o").arg(scratch.file("cal.toml")).output().unwrap()
        });
        alone.join().unwrap()
    });
    complains(&output, 1, &["processor", "taskset"]);
    assert!(scratch.names().is_empty());
}

#[test]
fn an_interrupted_run_leaves_no_file() {
    if one_processor() {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let scratch = Scratch::new(&format!("interrupted-{signal}"));
        let mut run = tmax();
        run.args(["--full", "-o"])
            .arg(scratch.file("cal.toml"))
            .arg("--svg")
            .arg(scratch.file("waits.svg"));
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the handler is there", || catches(run.id(), signal));
        send(run.id(), signal);
        complains(
            &run.wait_with_output().unwrap(),
            128 + signal,
            &["interrupted", "nothing was written"],
        );
        assert!(scratch.names().is_empty(), "{:?}", scratch.names());
    }
}

#[test]
fn help_manual_and_completions_come_from_one_definition() {
    let run = |args: &[&str]| {
        let output = tmax().args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for document in [
        run(&["--help"]),
        run(&["manual"]).replace("\\-", "-"),
        run(&["manual", "--completions", "bash"]),
    ] {
        assert!(
            ["quick", "full", "svg", "json"]
                .iter()
                .all(|option| document.contains(&format!("--{option}"))),
            "{document}"
        );
    }
    assert!(run(&["--help"]).contains("Examples:"));
}

#[test]
fn a_stdout_that_takes_nothing_is_a_failure_and_a_reader_that_leaves_is_none() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = tmax().arg("manual").stdout(full).output().unwrap();
    complains(&output, 1, &["stdout"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(tmax().arg("manual").stdout(writer).status().unwrap().success());
}

#[test]
fn the_command_line_follows_the_rules_of_all_commands() {
    test_support::follows_the_rules(std::path::Path::new(env!("CARGO_BIN_EXE_tmax")), &[]);
}
