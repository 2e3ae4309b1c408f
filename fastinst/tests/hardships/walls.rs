//! Programs with restrictions: forbidden system calls, or missing resources.

use super::support::*;
use super::trial::*;
use std::path::Path;
use std::process::Command;

#[test]
fn a_filter_of_system_calls_does_not_stop_the_program() {
    let Some(trial) = Trial::of("sandbox.c", &["-O2"]) else { return };
    let program = trial.program.to_str().unwrap().to_owned();
    for args in [&["before", &program][..], &["barrier"], &["strict"]] {
        let trial = trial.clone().told(args);
        let plain = trial.plain();
        assert_eq!(plain.status.code(), Some(3), "{plain:?}");
        for policy in POLICIES {
            let (profiles, complaints) = trial.behaves_and_says(&plain, policy);
            // Under the strict filter the process can allocate no memory.
            assert_eq!(
                complaints.lines().count(),
                usize::from(args == ["strict"]),
                "{args:?} {policy}: {complaints}"
            );
            if args != ["strict"] && (policy == "exact" || policy == "count") {
                let leaves = all_calls(&profiles, "leaf");
                assert_eq!(leaves, 250_000.0, "{args:?} {policy}");
            }
        }
    }
}

#[test]
fn a_filter_under_which_no_file_can_be_written_is_named() {
    let Some(trial) = Trial::of("sandbox.c", &["-O2"]) else { return };
    let trial = trial.told(&["absent"]);
    let plain = trial.plain();
    assert_eq!(plain.status.code(), Some(3), "{plain:?}");
    let (profiles, complaints) = trial.behaves_and_says(&plain, "count");
    assert!(profiles.is_empty());
    let line = "the program's system-call filter forbids it";
    assert!(complaints.lines().count() == 1 && complaints.contains(line), "{complaints}");
}

#[test]
fn a_filter_that_would_kill_us_ends_the_profile_and_not_the_program() {
    let Some(trial) = Trial::of("sandbox.c", &["-O2"]) else { return };
    for (how, is_deadly) in
        [("deadly", true), ("mine", true), ("harmless", false), ("strange", false)]
    {
        let trial = trial.clone().told(&[how]);
        let plain = trial.plain();
        assert_eq!(
            (text(&plain.stdout).split(' ').next(), plain.status.code()),
            (Some("0"), Some(3)),
            "{how}: {plain:?}"
        );
        for policy in POLICIES {
            let (profiles, complaints) = trial.behaves_and_says(&plain, policy);
            let says_so =
                complaints.lines().count() == 1 && complaints.contains("the profile ends there");
            assert_eq!(
                (says_so, complaints.is_empty()),
                (is_deadly, !is_deadly),
                "{how} {policy}: {complaints}"
            );
            if policy == "exact" || policy == "count" {
                let leaves = if is_deadly { 50_000.0 } else { 250_000.0 };
                assert_eq!(each_calls(&profiles, "leaf"), [leaves], "{how} {policy}");
            }
        }
    }
}

#[test]
fn namespaces_are_left_and_entered_as_if_the_agent_were_not_there() {
    let Some(trial) = Trial::of("namespaces.c", &["-O2"]) else { return };
    trial.counts();
}

#[test]
fn descriptors_are_the_programs_own() {
    let Some(trial) = Trial::of("descriptors.c", &["-O2"]) else { return };
    trial.counts();
}

#[test]
fn what_we_have_to_say_never_gets_into_the_programs_files() {
    let Some(trial) = Trial::of("descriptors.c", &["-O2"]) else { return };
    for (key, value) in [
        ("FASTINST_OUTPUT", "/nowhere/at/all"),
        ("FASTINST_POLICY", "best"),
        ("FASTINST_OUTPUT", "/dev/full"),
    ] {
        for closed in ["2>&-", "<&- 2>&-", "<&- >&- 2>&-"] {
            let file = trial.to.join("file");
            let shell = |command: &mut Command| {
                let _ = std::fs::remove_file(&file);
                let output = patiently(
                    command
                        .arg("-c")
                        .arg(format!("exec \"$0\" \"$1\" {closed}"))
                        .arg(&trial.program)
                        .arg(&file),
                );
                (output.status, text(&output.stdout), std::fs::read_to_string(&file).unwrap())
            };
            let plain = shell(&mut clean(Command::new("/bin/sh")));
            let with = shell(
                preloaded(Path::new("/bin/sh"), "exact", &trial.to.join("p.%p")).env(key, value),
            );
            assert_eq!(with, plain, "{key}={value} {closed}");
        }
    }
}

#[test]
fn closed_streams_and_full_disks_are_lived_with() {
    let Some(trial) = Trial::of("calls.c", &["-O2"]) else { return };
    for redirection in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"] {
        let shell = ["-c", &format!("exec \"$0\" {redirection}")];
        let plain = patiently(clean(Command::new("/bin/sh")).args(shell).arg(&trial.program));
        for policy in ["exact", "adaptive"] {
            let path = trial.to.join("p.json");
            let _ = std::fs::remove_file(&path);
            let with = patiently(
                preloaded(Path::new("/bin/sh"), policy, &path).args(shell).arg(&trial.program),
            );
            assert_same(&with, &plain, redirection);
            assert!(calls(&profile(&path), "leaf") > 0.0, "{redirection}");
        }
    }
}

#[test]
fn hardly_any_address_space_is_lived_with() {
    let Some(trial) = Trial::of("calls.c", &["-O2"]) else { return };
    for kilobytes in [20_000, 40_000, 60_000, 80_000, 100_000, 120_000, 160_000, 250_000] {
        let shell = ["-c", &format!("ulimit -v {kilobytes}; exec \"$0\"")];
        let plain = patiently(clean(Command::new("/bin/sh")).args(shell).arg(&trial.program));
        assert_eq!(plain.status.code(), Some(7), "{kilobytes}");
        for policy in ["exact", "adaptive"] {
            let path = trial.to.join("p.json");
            let with = patiently(
                preloaded(Path::new("/bin/sh"), policy, &path).args(shell).arg(&trial.program),
            );
            let complaints = text(&with.stderr);
            assert_eq!(
                (&with.stdout, with.status),
                (&plain.stdout, plain.status),
                "{kilobytes} {policy}: {complaints}"
            );
            assert!(complaints.lines().count() <= 1, "{kilobytes} {policy}: {complaints}");
        }
    }
}

#[test]
fn addresses_that_are_not_random_are_counted_exactly() {
    let Some(trial) = Trial::of("calls.c", &["-O2"]) else { return };
    if !has("setarch") {
        return;
    }
    let truth = counted(&trial.program, &[]);
    let plain = trial.plain();
    for policy in POLICIES {
        let path = trial.to.join(policy);
        let with =
            patiently(preloaded(Path::new("setarch"), policy, &path).arg("-R").arg(&trial.program));
        assert_same(&with, &plain, policy);
        if policy == "exact" || policy == "count" {
            assert_eq!(exact_calls(&profile(&path)), truth, "{policy}");
        }
    }
}

/// In a program that is not position-independent, and whose addresses are fixed, the heap begins
/// right behind the data, where places near its code are, too.
#[test]
fn a_heap_at_a_fixed_address_has_room_to_grow() {
    if !has("gcc") || !has("setarch") {
        return;
    }
    let common = ["-O1", "-no-pie", "-fno-builtin"];
    for hooks in [&["-finstrument-functions"][..], &[]] {
        let made = |flags: &[&str]| {
            compile("heap.c", &folder("heap"), &[&common[..], hooks, flags].concat())
        };
        let (usual, own) = (made(&[]), made(&["-DOWN_ALLOCATOR"]));
        let [usual, own] = [&usual, &own].map(|program| program.to_str().unwrap());
        for words in [&["setarch", "-R", usual, "100"][..], &[own, "700", "again"]] {
            let plain = patiently(Command::new(words[0]).args(&words[1..]));
            assert_eq!(plain.status.code(), Some(3), "{plain:?}");
            for policy in POLICIES {
                let path = folder("heap").join(policy);
                let mut command = preloaded(Path::new(words[0]), policy, &path);
                command.args(&words[1..]).env("FASTINST_PLANT", "all");
                assert_same(&patiently(&mut command), &plain, policy);
            }
        }
    }
}

/// The C library changes the credentials of all threads, and ends the program where only some may.
#[test]
fn a_thread_that_keeps_its_capabilities_may_change_its_user() {
    let Some(trial) = Trial::of("users.c", &["-O1"]) else { return };
    for way in ["function", "number"] {
        let trial = trial.clone().told(&[way]);
        let plain = trial.plain();
        assert_eq!(plain.status.code(), Some(3), "{plain:?}");
        for policy in POLICIES {
            // The profile is written by the command, which is still the same user.
            let with = trial.within_run(policy);
            assert_same(&with.output, &plain, &format!("{way} {policy}"));
            if policy == "exact" || policy == "count" {
                assert_eq!(all_calls(&with.profiles, "can"), 8.0, "{way} {policy}");
            }
        }
    }
}
