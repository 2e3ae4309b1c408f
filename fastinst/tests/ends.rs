//! However the program ends, `fastinst run` has its profile, ends in the same way, and leaves no
//! files behind.

mod support;

use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use support::*;
use test_support::eventually;

/// The program, a folder for kept files, and an empty one for temporary files.
struct Stage {
    program: PathBuf,
    kept: PathBuf,
    temporary: PathBuf,
}

/// A run in progress; its kept profile shows the calls so far.
struct Going {
    child: Child,
    stdin: ChildStdin,
    kept: PathBuf,
}

impl Stage {
    /// `None` without a compiler.
    fn new() -> Option<Self> {
        if !has("gcc") {
            return None;
        }
        let to = folder("ends");
        let program = compile("mortal.c", &to, &["-O2", "-finstrument-functions"]);
        let (kept, temporary) = (to.join("kept"), to.join("temporary"));
        std::fs::create_dir(&temporary).unwrap();
        Some(Self { program, kept, temporary })
    }

    fn command(&self, how: &str) -> Command {
        let mut command = fastinst();
        command
            .args(["run", "--policy", "exact", "--format", "json", "--interval", "20ms", "-o"])
            .arg(&self.kept);
        command
            .arg(&self.program)
            .arg(how)
            .env("TMPDIR", &self.temporary)
            .current_dir(self.temporary.parent().unwrap());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// A run whose profile already shows this many calls.
    fn after_calls(&self, how: &str, calls: f64) -> Going {
        let _ = std::fs::remove_file(&self.kept);
        let mut child = self.command(how).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let going = Going { child, stdin, kept: self.kept.clone() };
        eventually("the profile is kept", || kept_calls(&going.kept) == Some(calls));
        going
    }

    fn leaves_nothing_else(&self) {
        assert_eq!(std::fs::read_dir(&self.temporary).unwrap().count(), 0);
        let beside = std::fs::read_dir(self.kept.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut beside: Vec<_> = beside.collect();
        beside.sort();
        assert_eq!(beside, ["kept", "mortal", "temporary"]);
    }
}

impl Going {
    /// Lets the program run to its end.
    fn end(mut self) -> Output {
        self.stdin.write_all(b"...").unwrap();
        self.await_end()
    }

    fn await_end(self) -> Output {
        let Self { mut child, stdin, .. } = self;
        eventually("it ends", || child.try_wait().unwrap().is_some());
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    /// The process ID of the program.
    fn program(&self) -> i32 {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        std::fs::read_to_string(children)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }
}

fn kept(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The calls of the function that is called a known number of times.
fn kept_calls(path: &Path) -> Option<f64> {
    let profile = kept(path)?;
    let functions = profile["functions"].as_array()?;
    functions.iter().find(|function| function["name"] == "leaf")?["calls"]["value"].as_f64()
}

/// Whether that number is exact.
fn counted_how(path: &Path) -> String {
    let profile = kept(path).unwrap();
    function(&profile, "leaf")["calls"]["how"].as_str().unwrap_or("estimated").to_owned()
}

fn notes(path: &Path) -> String {
    kept(path).unwrap()["header"]["notes"].to_string()
}

fn send(signal: i32, to: i32) {
    run(Command::new("kill").arg(format!("-{signal}")).arg("--").arg(to.to_string()));
}

#[test]
fn ends_of_its_own_leave_the_last_calls_or_all_that_are_older_than_a_moment() {
    let Some(stage) = Stage::new() else { return };
    for (how, code, signal, last) in [
        ("return", Some(4), None, true),
        ("_exit", Some(5), None, true),
        ("abort", None, Some(libc::SIGABRT), false),
        ("fault", None, Some(libc::SIGSEGV), false),
        ("kill", None, Some(libc::SIGKILL), false),
    ] {
        let output = stage.after_calls(how, 1000.0).end();
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{how}: {output:?}"
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{how}\n"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{how}");
        let calls = kept_calls(&stage.kept).unwrap();
        assert!(calls == 1010.0 || (!last && calls == 1000.0), "{how}: {calls}");
        // What is not known to be all is not said to be.
        let (how_counted, notes) = (counted_how(&stage.kept), notes(&stage.kept));
        assert_eq!(how_counted == "exact", last, "{how}: {how_counted}");
        assert_eq!(notes.contains("a process was killed"), !last, "{how}: {notes}");
        stage.leaves_nothing_else();
    }
}

#[test]
fn a_signal_to_the_program_to_run_or_to_both_ends_both_with_a_profile() {
    let Some(stage) = Stage::new() else { return };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL] {
        for to in ["program", "run", "group"] {
            if signal == libc::SIGKILL && to != "program" {
                continue;
            }
            let going = stage.after_calls("waits", 1000.0);
            let ours = going.child.id() as i32;
            let process = match to {
                "program" => going.program(),
                "run" => ours,
                _ => -ours,
            };
            send(signal, process);
            let output = going.await_end();
            assert_eq!(output.status.signal(), Some(signal), "{signal} to {to}: {output:?}");
            assert_eq!(kept_calls(&stage.kept), Some(1000.0), "{signal} to {to}");
            stage.leaves_nothing_else();
        }
    }
}

#[test]
fn images_before_exec_and_children_that_are_killed_are_in_the_profile() {
    let Some(stage) = Stage::new() else { return };
    let output = stage.after_calls("exec", 1000.0).end();
    assert_eq!(
        (output.status.code(), kept_calls(&stage.kept)),
        (Some(3), Some(1510.0)),
        "{output:?}"
    );
    let output = stage.after_calls("forks", 1300.0).end();
    assert_eq!(
        (output.status.code(), kept_calls(&stage.kept)),
        (Some(4), Some(1310.0)),
        "{output:?}"
    );
    stage.leaves_nothing_else();
}

#[test]
fn a_program_whose_run_was_killed_writes_its_profile_itself() {
    let Some(stage) = Stage::new() else { return };
    let going = stage.after_calls("return", 1000.0);
    let program = going.program();
    let Going { mut child, mut stdin, .. } = going;
    child.kill().unwrap();
    child.wait().unwrap();
    stdin.write_all(b".").unwrap();
    // The program holds the other end of the pipe until its own end.
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "return\n");
    let orphan = stage.kept.with_file_name(format!("fastinst.{program}"));
    let output = run(fastinst().args(["report", "--json"]).arg(&orphan));
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(calls(&profile, "leaf"), 1010.0);
    // The profile that an interval has written stays complete.
    assert_eq!(kept_calls(&stage.kept), Some(1000.0));
    assert_eq!(std::fs::read_dir(&stage.temporary).unwrap().count(), 0);
}

/// Under a limit on the size of files, in the shell's units.
fn limited(stage: &Stage, limit: &str) -> Output {
    let mut command = clean(test_support::interruptible("/bin/sh"));
    command
        .args(["-c", &format!("ulimit -f {limit}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_fastinst"));
    command
        .args(["run", "--policy", "exact", "--format", "json", "-o"])
        .arg(&stage.kept)
        .arg(&stage.program)
        .arg("return");
    command.env("TMPDIR", &stage.temporary).stdin(Stdio::null());
    run(&mut command)
}

#[test]
fn a_limit_on_the_size_of_files_is_told_and_kills_no_process() {
    let Some(stage) = Stage::new() else { return };
    let output = limited(&stage, "0");
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(4), &b"return\n"[..]),
        "{output:?}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("is written every 1s"), "{output:?}");
    // Files may be large enough for profiles, and not for the mapping.
    let output = limited(&stage, "100000");
    assert_eq!(
        (output.status.code(), kept_calls(&stage.kept)),
        (Some(4), Some(1010.0)),
        "{output:?}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("is written every 1s"), "{output:?}");
    stage.leaves_nothing_else();
}

#[test]
fn a_stream_that_is_full_or_closed_changes_no_end() {
    let Some(stage) = Stage::new() else { return };
    for redirection in ["2>/dev/full", "2>&-", ">/dev/full 2>/dev/full", "</dev/null 2>&1 >&-"] {
        let mut command = clean(test_support::interruptible("/bin/sh"));
        command
            .args(["-c", &format!("exec \"$0\" run \"$1\" return {redirection}")])
            .arg(env!("CARGO_BIN_EXE_fastinst"));
        let output = run(command
            .arg(&stage.program)
            .stdin(Stdio::null())
            .current_dir(stage.temporary.parent().unwrap()));
        assert_eq!(output.status.code(), Some(4), "{redirection}: {output:?}");
    }
}
