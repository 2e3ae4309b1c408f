//! How processes end.

use super::support::*;
use super::trial::*;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use test_support::finished;

#[test]
fn every_ending_is_the_programs_own_and_leaves_a_profile() {
    let Some(trial) = Trial::of("endings.c", &["-O2"]) else { return };
    let endings = [
        ("return", 1000.0),
        ("exit", 1000.0),
        ("_exit", 1000.0),
        ("quick", 1010.0),
        ("atexit", 1010.0),
        ("caught", 1001.0),
    ];
    for (how, leaves) in endings {
        let trial = trial.clone().told(&[how]);
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            // quick_exit runs its handlers after the interposed function.
            let least = if how == "quick" { 1000.0 } else { leaves };
            let found = each_calls(&profiles[policy], "leaf");
            assert!(
                matches!(found[..], [calls] if (least..=leaves).contains(&calls)),
                "{how} under {policy}: {found:?}"
            );
        }
    }
}

#[test]
fn a_process_outlives_its_main_thread() {
    let Some(trial) = Trial::of("endings.c", &["-O2"]) else { return };
    let profiles = trial.told(&["thread"]).behaves();
    assert_eq!(
        (each_calls(&profiles["exact"], "leaf"), each_calls(&profiles["count"], "leaf")),
        (vec![1001.0], vec![1001.0])
    );
}

#[test]
fn a_process_ends_when_its_last_thread_has_ended() {
    let Some(trial) = Trial::of("leavings.c", &["-O2"]) else { return };
    for (how, status, leaves) in [("raw", 5, 1000.0), ("main", 0, 1000.0), ("last", 0, 2000.0)] {
        let trial = trial.clone().told(&[how]);
        assert_eq!(trial.plain().status.code(), Some(status), "{how}");
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            assert_eq!(each_calls(&profiles[policy], "leaf"), [leaves], "{how} {policy}");
            let said = if how == "raw" { 0.0 } else { 1.0 };
            assert_eq!(all_calls(&profiles[policy], "farewell"), said, "{how} {policy}");
        }
    }
}

#[test]
fn a_child_of_vfork_that_ends_in_any_way_leaves_its_parent_its_profile() {
    let Some(trial) = Trial::of("leavings.c", &["-O2"]) else { return };
    for args in
        [&["vfork-_exit"][..], &["vfork-_exit", "exit"], &["vfork-exit"], &["vfork-exit", "exit"]]
    {
        let trial = trial.clone().told(args);
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            let leaves = all_calls(&profiles[policy], "leaf");
            // If the child has used up the exit handlers, the calls until a return are reported as
            // of shortly before.
            let least = if trial.args == ["vfork-exit"] { 1000.0 } else { 2000.0 };
            assert!((least..=2000.0).contains(&leaves), "{:?} {policy}: {leaves}", trial.args);
            assert_eq!(profiles[policy].len(), 1, "{:?} {policy}", trial.args);
        }
    }
}

#[test]
fn deaths_by_signals_pass_and_a_snapshot_remains() {
    let Some(trial) = Trial::of("endings.c", &["-O2"]) else { return };
    for (how, signal) in [
        ("abort", libc::SIGABRT),
        ("kill", libc::SIGKILL),
        ("fault", libc::SIGSEGV),
        ("term", libc::SIGTERM),
    ] {
        let trial = trial.clone().told(&[how]);
        let plain = trial.plain();
        assert_eq!(plain.status.signal(), Some(signal));
        for policy in POLICIES {
            trial.behaves_as(&plain, policy, |_| ());
        }
        let run = trial.within_run("exact");
        assert_eq!(
            (&run.output.stdout, run.output.status.signal()),
            (&plain.stdout, Some(signal)),
            "{:?}",
            run.output
        );
        // With time for some snapshots.
        let trial = trial.told(&[how, "slowly"]);
        for policy in ["exact", "count"] {
            let profiles = trial.behaves_as(&plain, policy, |command| {
                command.env("FASTINST_INTERVAL", "20ms");
            });
            assert_eq!(each_calls(&profiles, "leaf"), [1000.0], "{how} under {policy}");
        }
    }
}

/// `fastinst run` around the program, with pipes for its three streams.
fn wrapped(trial: &Trial, args: &[&str]) -> Command {
    let mut command = fastinst();
    command.args(["run", "-o"]).arg(trial.to.join("wrapped")).arg(&trial.program).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn statuses_and_input_pass_through_run() {
    let Some(trial) = Trial::of("reader.c", &["-O2"]) else { return };
    for status in [0, 1, 2, 77, 126, 127, 128, 255] {
        assert_eq!(
            patiently(&mut wrapped(&trial, &["end", &status.to_string()])).status.code(),
            Some(status)
        );
    }
    let mut child = wrapped(&trial, &[]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let typist = std::thread::spawn(move || stdin.write_all(&b"one word\n".repeat(20_000)));
    let output = finished(child, "reader");
    typist.join().unwrap().unwrap();
    assert!(output.stdout == b"ONE WORD\n".repeat(20_000), "{}", output.stdout.len());
}

#[test]
fn signals_that_are_sent_to_run_alone_reach_the_program() {
    let Some(trial) = Trial::of("reader.c", &["-O2"]) else { return };
    let signals = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR2, libc::SIGINT];
    let seen = signals.map(|signal| {
        let mut child = wrapped(&trial, &["wait"]).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        stdout.read_exact(&mut ready).unwrap();
        run(Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()));
        child.stdout = Some(stdout);
        let output = finished(child, "waiting reader");
        (text(&output.stdout), output.status.code())
    });
    assert_eq!(seen, signals.map(|signal| (format!("got {signal}\n"), Some(40 + signal))));
}
