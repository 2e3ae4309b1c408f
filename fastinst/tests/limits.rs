//! The preload library in programs with exhausted resources: no file space, no descriptor, no
//! memory.
//!
//! The externally visible behaviour is that of the program without the library. If a profile can be
//! written, it is exact.

mod support;
#[path = "support/trial.rs"]
mod trial;

use std::process::Command;
use support::*;
use trial::*;

#[test]
fn a_program_whose_files_may_not_grow_lives_on() {
    let Some(trial) = Trial::of("limits.c", &["-O2"]) else { return };
    // The limit holds from the start; a pipe has no size limit.
    let trial = trial.told(&["size"]);
    let shell = ["-c", "ulimit -Sf 0; exec \"$0\" \"$@\""];
    let plain =
        patiently(clean(Command::new("/bin/sh")).args(shell).arg(&trial.program).args(&trial.args));
    assert_eq!((text(&plain.stdout), plain.status.code()), ("12\n".to_owned(), Some(3)));
    for policy in POLICIES {
        let path = folder("unwritten").join("p.%p");
        let with = patiently(
            preloaded("/bin/sh".as_ref(), policy, &path)
                .args(shell)
                .arg(&trial.program)
                .args(&trial.args),
        );
        assert_eq!(
            (&with.stdout, with.status),
            (&plain.stdout, plain.status),
            "{policy}: {}",
            text(&with.stderr)
        );
    }
}

#[test]
fn children_of_a_program_without_descriptors_room_or_memory_live_and_are_counted_exactly_as_far_as_can_be()
 {
    let Some(trial) = Trial::of("limits.c", &["-O2"]) else { return };
    for what in ["size", "descriptors", "memory"] {
        let trial = trial.clone().told(&[what]);
        let plain = trial.plain();
        assert_eq!((text(&plain.stdout), plain.status.code()), ("12\n".to_owned(), Some(3)));
        for policy in POLICIES {
            let (profiles, complaints) = trial.behaves_and_says(&plain, policy);
            // A process without memory for a profile reports that; no other process reports
            // anything.
            let most = if what == "memory" { 3 } else { 0 };
            assert!(complaints.lines().count() <= most, "{what} {policy}: {complaints}");
            if what != "memory" && (policy == "exact" || policy == "count") {
                assert_eq!(
                    each_calls(&profiles, "leaf"),
                    [1000.0, 1000.0, 2000.0],
                    "{what} {policy}"
                );
            }
        }
    }
}

#[test]
fn a_program_whose_memory_is_locked_or_charged_has_no_more_of_ours_in_it_than_is_used() {
    let Some(trial) = Trial::of("locked.c", &["-O1"]) else { return };
    let plain = trial.plain();
    if text(&plain.stdout) != "0 small little\n" {
        println!("SKIPPED: memory may not be locked here: {plain:?}");
        return;
    }
    for policy in POLICIES {
        let profiles = trial.behaves_as(&plain, policy, |_| ());
        if policy == "exact" || policy == "count" {
            assert_eq!(each_calls(&profiles, "leaf"), [20.0 * 100.0 + 20_000.0], "{policy}");
        }
    }
}

#[test]
fn a_limit_of_memory_that_leaves_no_room_is_told_with_one_that_does() {
    let Some(trial) = Trial::of("calls.c", &["-O2"]) else { return };
    for (option, kilobytes) in [("-v", 60_000_u64), ("-d", 8_000)] {
        let path = trial.to.join("p.json");
        // The library is preloaded into the program alone, and not into the shell.
        let limited = |kilobytes: u64| {
            let library = library();
            let script = format!(
                "ulimit {option} {kilobytes}; LD_PRELOAD={} exec \"$0\"",
                library.display()
            );
            let mut command = preloaded("/bin/sh".as_ref(), "exact", &path);
            command.env_remove("LD_PRELOAD").args(["-c", &script]).arg(&trial.program);
            let output = patiently(&mut command);
            assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
            text(&output.stderr)
        };
        let told = limited(kilobytes);
        let enough = told.trim_end().trim_end_matches(')').rsplit(' ').next().unwrap();
        let enough: u64 = enough.parse().unwrap_or_else(|_| panic!("{told}"));
        assert!(told.contains(&format!("(ulimit {option} {enough})")), "{told}");
        assert_eq!(limited(enough), "", "{told}");
        assert!(calls(&profile(&path), "leaf") > 0.0);
    }
}
