//! The preload library in programs that make life hard: strange ways to start and to end, foreign
//! stacks, filters, masks, compilers.
//!
//! The oracles are the program itself without us, the independent counter, and counts that follow
//! from the program's text.

mod support;
#[path = "support/trial.rs"]
mod trial;

use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::*;
use trial::*;

// How processes begin.

#[test]
fn children_that_are_launched_in_any_way_have_profiles_of_their_own() {
    let Some(trial) = Trial::of("launches.c", &["-O2"]) else { return };
    let profiles = trial.behaves();
    for policy in ["exact", "count"] {
        // Fifty by vfork and exec, ten by posix_spawn, ten by a shell; the parent's calls, and
        // those under vfork, are its own.
        let leaves = each_calls(&profiles[policy], "leaf");
        assert_eq!(leaves, [&[10.0; 70][..], &[100.0 + 100.0 + 10.0 + 5.0]].concat(), "{policy}");
    }
}

#[test]
fn every_image_that_a_process_becomes_by_exec_has_a_profile() {
    let Some(trial) = Trial::of("launches.c", &["-O2"]) else { return };
    let trial = trial.told(&["chain", "3"]);
    let profiles = trial.behaves();
    for policy in ["exact", "count"] {
        assert_eq!(all_calls(&profiles[policy], "leaf"), 400.0, "{policy}");
    }
}

#[test]
fn forks_in_several_threads_at_once_are_counted_exactly() {
    let Some(trial) = Trial::of("offspring.c", &["-O2"]) else { return };
    let profiles = trial.behaves();
    for policy in ["exact", "count"] {
        let mut leaves = each_calls(&profiles[policy], "leaf");
        assert_eq!(leaves.pop(), Some(400_000.0 + 4.0 * 10.0 * 100.0), "{policy}: the parent's");
        assert_eq!(leaves, [1000.0; 40], "{policy}: the children's");
    }
}

#[test]
fn nobody_but_the_program_itself_is_profiled_if_none_shall_follow() {
    let Some(trial) = Trial::of("launches.c", &["-O2"]) else { return };
    let plain = trial.plain();
    let profiles = trial.behaves_as(&plain, "exact", |command| {
        command.env("FASTINST_FOLLOW", "none");
    });
    assert_eq!(each_calls(&profiles, "leaf"), [215.0]);
    let path = trial.to.join("followed.json");
    let mut command = fastinst();
    command
        .args(["run", "--follow", "none", "--policy", "exact", "--format", "json", "-o"])
        .arg(&path)
        .arg(&trial.program);
    assert_same(&patiently(&mut command), &plain, "run --follow none");
    assert_eq!(calls(&profile(&path), "leaf"), 215.0);
}

// Where programs run.

#[test]
fn handlers_on_the_smallest_signal_stacks_have_room() {
    let Some(trial) = Trial::of("smallstacks.c", &["-O2", "-Wl,-z,now"]) else { return };
    let told = text(&trial.plain().stdout);
    assert!(told.lines().all(|line| !line.ends_with("bytes")), "without us: {told}");
    for how in ["return", "leave"] {
        let trial =
            Trial { program: trial.program.clone(), args: vec![how.into()], to: trial.to.clone() };
        let profiles = trial.behaves();
        // A thread's, the first, and a hundred on a large stack; then on a small one.
        let turns = if how == "leave" { 103.0 } else { 202.0 };
        for policy in ["exact", "count"] {
            assert_eq!(
                each_calls(&profiles[policy], "leaf"),
                [turns * 1000.0],
                "{how} under {policy}"
            );
        }
    }
}

#[test]
fn a_child_with_its_parents_memory_and_number_is_no_end_of_the_parent() {
    let Some(trial) = Trial::of("first.c", &["-O2"]) else { return };
    let plain = trial.plain();
    if text(&plain.stdout).contains("refused") {
        println!("SKIPPED: namespaces of processes are refused");
        return;
    }
    for policy in ["exact", "count"] {
        let profiles = trial.behaves_as(&plain, policy, |_| ());
        assert_eq!(all_calls(&profiles, "leaf"), 1500.0, "{policy}");
    }
}

#[test]
fn programs_that_forbid_themselves_the_counter_run_on_without_a_profile() {
    let Some(trial) = Trial::of("noclock.c", &["-O2"]) else { return };
    let early = compile("noclock.c", &folder("early"), &["-shared", "-fPIC", "-DEARLY"]);
    let plain = trial.plain();
    for policy in POLICIES {
        for before in [None, Some(&early)] {
            let outcome = trial.under(policy, |command| {
                let ours = library();
                let libraries = [Some(&ours), before]
                    .map(|path| path.map_or("", |path| path.to_str().unwrap()));
                command.env("LD_PRELOAD", libraries.join(":"));
            });
            let seen = |output: &std::process::Output| (text(&output.stdout), output.status);
            assert_eq!(seen(&outcome.output), seen(&plain), "{before:?} under {policy}");
            let said = text(&outcome.output.stderr);
            assert!(
                said.lines().count() == 1 && said.contains("PR_SET_TSC"),
                "{before:?} under {policy}: {said}"
            );
            if before.is_none() && ["exact", "count"].contains(&policy) {
                assert!(
                    all_calls(&outcome.profiles, "leaf") >= 1000.0,
                    "{policy}: what was counted before"
                );
            }
        }
    }
}

// How processes end.

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
        let trial =
            Trial { program: trial.program.clone(), args: vec![how.into()], to: trial.to.clone() };
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            // What quick_exit runs, it runs after its door.
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
        let trial =
            Trial { program: trial.program.clone(), args: vec![how.into()], to: trial.to.clone() };
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
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let trial = Trial { program: trial.program.clone(), args, to: trial.to.clone() };
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            let leaves = all_calls(&profiles[policy], "leaf");
            // Where the child has used up what is called at the end, what follows until a return is
            // told as of a moment before.
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
        let trial =
            Trial { program: trial.program.clone(), args: vec![how.into()], to: trial.to.clone() };
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

/// `fastinst run` around the program, with its three streams in our hands.
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

// What is there before us and after us.

#[test]
fn constructors_and_destructors_are_counted_exactly() {
    for flags in ["-O0", "-O2"] {
        let Some(library) = Trial::of("early.cc", &[flags, "-shared", "-fPIC"]) else { return };
        let library = library.program.with_file_name("libearly.so");
        std::fs::rename(library.with_file_name("early"), &library).unwrap();
        let Some(trial) = Trial::of("early.cc", &[flags, "-DMAIN", library.to_str().unwrap()])
        else {
            return;
        };
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            // Two objects, one of them static in main.
            assert_eq!(
                each_calls(&profiles[policy], "program_leaf"),
                [100.0 + 2.0 * 500.0 + 400.0],
                "{policy}"
            );
            // The library goes after us, or before: its own destructors may or may not be seen.
            let found = all_calls(&profiles[policy], "library_leaf");
            assert!([1300.0, 1600.0].contains(&found), "{flags} {policy}: {found}");
        }
    }
}

#[test]
fn another_preloaded_library_with_probes_is_lived_with() {
    let Some(library) = Trial::of("early.cc", &["-O2", "-shared", "-fPIC"]) else { return };
    let Some(trial) = Trial::of("calls.c", &["-O2"]) else { return };
    for ours_first in [true, false] {
        let mut names =
            [support::library().display().to_string(), library.program.display().to_string()];
        if !ours_first {
            names.reverse();
        }
        let plain =
            patiently(clean(Command::new(&trial.program)).env("LD_PRELOAD", &library.program));
        for policy in POLICIES {
            let profiles = trial.behaves_as(&plain, policy, |command| {
                command.env("LD_PRELOAD", names.join(":"));
            });
            if policy == "exact" || policy == "count" {
                assert_eq!(all_calls(&profiles, "leaf"), 200_000.0, "{policy}");
                let found = all_calls(&profiles, "library_leaf");
                assert!(
                    [300.0, 600.0].contains(&found),
                    "{policy}, ours first {ours_first}: {found}"
                );
            }
        }
        // And with the command, which keeps it.
        let mut command = fastinst();
        command
            .args(["run", "-o"])
            .arg(trial.to.join("kept"))
            .arg(&trial.program)
            .env("LD_PRELOAD", &library.program);
        let output = patiently(&mut command);
        assert!(text(&output.stdout).contains("destroyed"), "{output:?}");
    }
}

#[test]
fn a_program_with_hooks_of_its_own_is_left_alone() {
    let Some(trial) = Trial::of("own.c", &["-O1"]) else { return };
    let plain = trial.plain();
    assert_eq!(text(&plain.stdout), "1001 1000\n");
    for policy in POLICIES {
        trial.behaves_as(&plain, policy, |_| ());
    }
    let output = trial.within_run("exact").output;
    assert_eq!((text(&output.stdout), output.status.code()), (text(&plain.stdout), Some(0)));
}

// Libraries.

#[test]
fn libraries_that_two_threads_load_and_unload_as_fast_as_they_can_are_counted_exactly() {
    let Some(first) = Trial::of("plugin.c", &["-O2", "-shared", "-fPIC"]) else { return };
    let Some(second) = Trial::of("plugin.c", &["-O0", "-shared", "-fPIC"]) else { return };
    let Some(trial) = Trial::of("shelf.c", &["-O2"]) else { return };
    let trial = trial.told(&[&first.program, &second.program]);
    let plain = trial.plain();
    assert_eq!(text(&plain.stdout), "757500 757500\n");
    let profiles = trial.behaves();
    for policy in ["exact", "count"] {
        assert_eq!(all_calls(&profiles[policy], "leaf"), 600_000.0, "{policy}");
        let seen = ["plugin", "plugged"].map(|name| all_calls(&profiles[policy], name));
        assert_eq!(seen, [300.0, 30_000.0], "{policy}");
    }
}

#[test]
fn a_library_that_is_loaded_again_and_again_takes_no_more_than_once_and_is_one_row() {
    let Some(library) = Trial::of("plugin.c", &["-O2", "-shared", "-fPIC"]) else { return };
    let Some(trial) = Trial::of("churn.c", &["-O2"]) else { return };
    let library = library.program.to_str().unwrap();
    for args in [&[library, "1000"][..], &[library, "1000", "elsewhere"]] {
        let trial = Trial {
            program: trial.program.clone(),
            args: args.iter().map(Into::into).collect(),
            to: trial.to.clone(),
        };
        let plain = trial.plain();
        assert_eq!(
            (text(&plain.stdout), plain.status.code()),
            ("6000 flat flat\n".to_owned(), Some(4))
        );
        for policy in POLICIES {
            let profiles = trial.behaves_as(&plain, policy, |_| ());
            let functions = profiles[0]["functions"].as_array().unwrap();
            let rows =
                |name: &str| functions.iter().filter(|function| function["name"] == name).count();
            assert_eq!((rows("plugin"), rows("plugged")), (1, 1), "{args:?} {policy}");
            if policy == "exact" || policy == "count" {
                assert_eq!(
                    (all_calls(&profiles, "plugin"), all_calls(&profiles, "plugged")),
                    (1000.0, 3000.0),
                    "{args:?} {policy}"
                );
            }
        }
    }
}

#[test]
fn copies_of_a_template_in_libraries_are_counted_as_the_loader_chose_them() {
    let Some(first) = Trial::of("copies.cc", &["-O2", "-shared", "-fPIC", "-DPART=1"]) else {
        return;
    };
    let Some(second) = Trial::of("copies.cc", &["-O0", "-shared", "-fPIC", "-DPART=2"]) else {
        return;
    };
    let libraries = [first.program.to_str().unwrap(), second.program.to_str().unwrap()];
    let rpath = libraries
        .map(|library| format!("-Wl,-rpath,{}", Path::new(library).parent().unwrap().display()));
    let libraries = ["first", "second"].into_iter().zip(libraries).map(|(name, library)| {
        let named = Path::new(library).with_file_name(format!("lib{name}.so"));
        std::fs::rename(library, &named).unwrap();
        named.display().to_string()
    });
    let libraries: Vec<String> = libraries.collect();
    let flags = ["-O2", "-DPART=0", &libraries[0], &libraries[1], &rpath[0], &rpath[1]];
    let Some(trial) = Trial::of("copies.cc", &flags) else { return };
    let profiles = trial.behaves();
    for policy in ["exact", "count"] {
        assert_eq!(
            all_calls(&profiles[policy], "Sum<long>::add"),
            500.0 + 1000.0 + 2000.0,
            "{policy}"
        );
        assert_eq!(all_calls(&profiles[policy], "Sum<double>::add"), 2000.0, "{policy}");
    }
}

// Threads.

#[test]
fn thousands_of_threads_on_the_smallest_stacks_are_counted_exactly() {
    let Some(trial) = Trial::of("crowd.c", &["-O2"]) else { return };
    trial.counts();
}

#[test]
fn the_last_words_of_threads_are_counted_exactly() {
    for flags in ["-O0", "-O2"] {
        let Some(trial) = Trial::of("farewells.cc", &[flags]) else { return };
        let profiles = trial.behaves();
        for policy in ["exact", "count"] {
            let leaves = each_calls(&profiles[policy], "leaf");
            assert_eq!(leaves, [300.0 * (20.0 + 5.0 + 3.0) + 7.0], "{flags} {policy}");
        }
    }
}

#[test]
fn a_change_of_identity_reaches_all_threads() {
    let Some(trial) = Trial::of("owners.c", &["-O2"]) else { return };
    trial.counts();
}

// Stacks.

#[test]
fn frames_of_every_shape_are_counted_exactly_by_every_compiler() {
    for compiler in ["gcc", "clang"] {
        for flags in ["-O0", "-O1", "-O2", "-O3"] {
            let Some(trial) = Trial::with(compiler, "frames.c", &[flags]) else { return };
            trial.counts();
        }
    }
}

#[test]
fn long_jumps_over_probed_frames_are_counted_exactly() {
    for compiler in ["gcc", "clang"] {
        for flags in ["-O0", "-O2"] {
            let Some(trial) = Trial::with(compiler, "jumps.c", &[flags]) else { return };
            trial.counts();
        }
    }
}

#[test]
fn coroutines_are_counted_exactly() {
    for flags in ["-O0", "-O2"] {
        let Some(trial) = Trial::of("contexts.c", &[flags]) else { return };
        trial.counts();
    }
}

// Signals.

#[test]
fn handlers_on_other_stacks_are_counted_exactly() {
    for flags in ["-O0", "-O2"] {
        let Some(trial) = Trial::of("alarms.c", &[flags]) else { return };
        let tally = trial.to.join("tally");
        let trial = trial.told(&[&tally]);
        let plain = trial.plain();
        for policy in POLICIES {
            let profiles = trial.behaves_as(&plain, policy, |_| ());
            let handled: f64 = std::fs::read_to_string(&tally).unwrap().trim().parse().unwrap();
            if policy == "exact" || policy == "count" {
                assert_eq!(all_calls(&profiles, "leaf"), 1_000_000.0, "{flags} {policy}");
                assert_eq!(all_calls(&profiles, "handler"), handled, "{flags} {policy}");
                assert_eq!(all_calls(&profiles, "told"), 3.0 * handled, "{flags} {policy}");
            }
        }
    }
}

#[test]
fn a_stack_that_is_used_up_is_the_programs_own_matter() {
    let Some(trial) = Trial::of("alarms.c", &["-O1"]) else { return };
    let profiles = trial.told(&["overflow"]).behaves();
    assert_eq!(each_calls(&profiles["exact"], "give_up"), [1.0]);
}

#[test]
fn threads_that_block_every_signal_are_switched_safely() {
    for flags in ["-O0", "-O2"] {
        let Some(trial) = Trial::of("masked.c", &[flags]) else { return };
        trial.counts();
        let plain = trial.plain();
        trial.behaves_as(&plain, "paper", |command| {
            command.env("FASTINST_EPOCH", "1ms").env("FASTINST_SAMPLES", "1");
        });
    }
}

// Walls.

#[test]
fn a_filter_of_system_calls_does_not_stop_the_program() {
    let Some(trial) = Trial::of("sandbox.c", &["-O2"]) else { return };
    let program = trial.program.to_str().unwrap().to_owned();
    for args in [&["before", &program][..], &["barrier"], &["strict"]] {
        let trial = Trial {
            program: trial.program.clone(),
            args: args.iter().map(Into::into).collect(),
            to: trial.to.clone(),
        };
        let plain = trial.plain();
        assert_eq!(plain.status.code(), Some(3), "{plain:?}");
        for policy in POLICIES {
            let outcome = trial.under(policy, |_| ());
            let complaints = text(&outcome.output.stderr);
            assert_eq!(
                (&outcome.output.stdout, outcome.output.status),
                (&plain.stdout, plain.status),
                "{args:?} {policy}"
            );
            // There is no memory within the strict one.
            assert_eq!(
                complaints.lines().count(),
                usize::from(args == ["strict"]),
                "{args:?} {policy}: {complaints}"
            );
            if args != ["strict"] && (policy == "exact" || policy == "count") {
                let leaves = all_calls(&outcome.profiles, "leaf");
                assert_eq!(leaves, 250_000.0, "{args:?} {policy}");
            }
        }
    }
}

#[test]
fn a_filter_that_would_kill_us_ends_the_profile_and_not_the_program() {
    let Some(trial) = Trial::of("sandbox.c", &["-O2"]) else { return };
    for (how, is_deadly) in
        [("deadly", true), ("mine", true), ("harmless", false), ("strange", false)]
    {
        let trial =
            Trial { program: trial.program.clone(), args: vec![how.into()], to: trial.to.clone() };
        let plain = trial.plain();
        assert_eq!(
            (text(&plain.stdout).split(' ').next(), plain.status.code()),
            (Some("0"), Some(3)),
            "{how}: {plain:?}"
        );
        for policy in POLICIES {
            let outcome = trial.under(policy, |_| ());
            let complaints = text(&outcome.output.stderr);
            assert_eq!(
                (&outcome.output.stdout, outcome.output.status),
                (&plain.stdout, plain.status),
                "{how} {policy}: {complaints}"
            );
            let says_so =
                complaints.lines().count() == 1 && complaints.contains("the profile ends there");
            assert_eq!(
                (says_so, complaints.is_empty()),
                (is_deadly, !is_deadly),
                "{how} {policy}: {complaints}"
            );
            if policy == "exact" || policy == "count" {
                let leaves = if is_deadly { 50_000.0 } else { 250_000.0 };
                assert_eq!(each_calls(&outcome.profiles, "leaf"), [leaves], "{how} {policy}");
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

// Load.

#[test]
fn an_agent_that_is_kept_from_running_in_the_middle_of_its_round_loses_no_call() {
    let Some(brake) =
        Trial::of("brake.c", &["-O1", "-shared", "-fPIC", "-fno-instrument-functions"])
    else {
        return;
    };
    let Some(trial) = Trial::of("frames.c", &["-O0"]) else { return };
    let (truth, plain) = (counted(&trial.program, &[]), trial.plain());
    // The constructor of what comes last is called first.
    let preload = format!("{}:{}", library().display(), brake.program.display());
    for policy in ["exact", "count"] {
        for _ in 0..20 {
            let profiles = trial.behaves_as(&plain, policy, |command| {
                command.env("LD_PRELOAD", &preload);
            });
            assert_eq!(exact_calls(&profiles[0]), truth, "{policy}");
        }
    }
}

#[test]
fn threads_libraries_children_and_signals_all_at_once_are_counted_exactly() {
    const ROUNDS: usize = 10;
    let Some(trial) = Trial::of("storm.c", &["-O0"]) else { return };
    let plugins: Option<Vec<Trial>> =
        (0..ROUNDS).map(|_| Trial::of("plugin.c", &["-O2", "-shared", "-fPIC"])).collect();
    let Some(plugins) = plugins else { return };
    let tally = trial.to.join("tally");
    let mut args = vec![tally.clone().into_os_string(), ROUNDS.to_string().into()];
    args.extend(plugins.iter().map(|plugin| plugin.program.clone().into_os_string()));
    let trial = trial.told(&args);
    let plain = trial.plain();
    let per_round =
        [("inner", 4), ("leaf", 8), ("down", 21), ("plugin", 3), ("plugged", 150), ("pass", 1)];
    for run in 0..40 {
        let policy = ["exact", "count"][run % 2];
        let mut profiles = trial.behaves_as(&plain, policy, |_| ());
        let told: f64 = std::fs::read_to_string(&tally).unwrap().trim().parse().unwrap();
        let parent = profiles
            .iter()
            .position(|profile| all_calls(std::slice::from_ref(profile), "main") == 1.0);
        let parent = profiles.swap_remove(parent.unwrap());
        for (name, calls) in per_round {
            assert_eq!(
                calls_of(&parent, name),
                (calls * ROUNDS) as f64,
                "{name} under {policy}, run {run}"
            );
        }
        assert_eq!(calls_of(&parent, "tell"), told, "{policy}, run {run}");
        assert_eq!(profiles.len(), ROUNDS, "{policy}, run {run}");
        for child in &profiles {
            // Whether a library was there already depends on who was faster.
            let plugged = calls_of(child, "plugin");
            let found = ["inner", "leaf", "down", "plugged"].map(|name| calls_of(child, name));
            assert_eq!(
                found,
                [10.0, 20.0, 2001.0, 20.0 * plugged],
                "a child under {policy}, run {run}"
            );
        }
    }
}

fn calls_of(profile: &Value, name: &str) -> f64 {
    all_calls(std::slice::from_ref(profile), name)
}

// Compilers, and what they bring along.

#[test]
fn what_clang_compiles_is_counted_exactly() {
    for flags in [
        &["-O0"][..],
        &["-O1"],
        &["-O2"],
        &["-O3"],
        &["-Os"],
        &["-O2", "-fno-plt"],
        &["-O2", "-no-pie", "-fno-pie"],
    ] {
        let Some(trial) = Trial::with("clang", "calls.c", flags) else { return };
        trial.counts();
    }
    for flags in ["-O0", "-O2"] {
        let Some(trial) = Trial::with("clang++", "objects.cc", &[flags]) else { return };
        trial.counts();
    }
}

#[test]
fn what_is_stripped_sectioned_hidden_or_hardened_is_counted_exactly() {
    for flags in [
        &["-O2", "-s"][..],
        &["-O2", "-ffunction-sections", "-Wl,--gc-sections", "-fvisibility=hidden"],
        &[
            "-O2",
            "-D_FORTIFY_SOURCE=2",
            "-fstack-protector-all",
            "-fstack-clash-protection",
            "-Wl,-z,relro,-z,now",
        ],
        &["-O3", "-flto", "-fno-plt", "-march=native"],
        &["-O0", "-no-pie", "-fno-pie", "-fno-plt"],
    ] {
        let Some(trial) = Trial::of("frames.c", flags) else { return };
        trial.counts();
    }
}

#[test]
fn hooks_that_are_called_through_a_register_do_no_harm() {
    let Some(trial) = Trial::of("frames.c", &["-O2", "-mcmodel=large"]) else { return };
    let plain = trial.plain();
    for policy in POLICIES {
        trial.behaves_as(&plain, policy, |_| ());
    }
}

#[test]
fn sanitized_programs_are_lived_with() {
    let flags: [(&str, &[&str]); 5] = [
        ("gcc", &["-O1", "-fsanitize=address", "-static-libasan"]),
        ("gcc", &["-O1", "-fsanitize=undefined"]),
        ("clang", &["-O1", "-fsanitize=address"]),
        ("clang", &["-O1", "-fsanitize=undefined"]),
        ("clang", &["-O1", "-fsanitize=thread"]),
    ];
    for (compiler, flags) in flags {
        let Some(trial) = Trial::with(compiler, "callers.c", flags) else { return };
        trial.counts();
    }
}

#[test]
fn a_sanitizer_that_wants_to_come_first_may() {
    let Some(trial) = Trial::of("callers.c", &["-O1", "-fsanitize=address"]) else { return };
    let plain = trial.plain();
    let asan = text(&run(Command::new("gcc").arg("-print-file-name=libasan.so")).stdout);
    let both = format!("{}:{}", asan.trim(), library().display());
    for policy in POLICIES {
        let profiles = trial.behaves_as(&plain, policy, |command| {
            command.env("LD_PRELOAD", &both).env("ASAN_OPTIONS", "detect_leaks=0");
        });
        if policy == "exact" || policy == "count" {
            assert_eq!(all_calls(&profiles, "leaf"), 20_000.0, "{policy}");
        }
    }
    // The command sees to it by itself.
    let run = trial.within_run("exact");
    assert_same(&run.output, &plain, "fastinst run");
    assert_eq!(all_calls(&run.profiles, "leaf"), 20_000.0);
}

#[test]
fn another_allocator_is_lived_with() {
    let found = [
        "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "/usr/lib/libjemalloc.so.2",
        "/usr/lib64/libjemalloc.so.2",
    ];
    let Some(jemalloc) = found.into_iter().find(|path| Path::new(path).is_file()) else {
        assert!(
            std::env::var_os("FASTINST_TEST_REQUIRE").is_none(),
            "libjemalloc.so.2 is missing: run scripts/test, which installs it"
        );
        println!("SKIPPED: jemalloc is not installed");
        return;
    };
    for (source, name, leaves) in
        [("threads.c", "leaf", 800.0 * 501.0), ("objects.cc", "deep", 120_000.0)]
    {
        let Some(trial) = Trial::of(source, &["-O2"]) else { return };
        let plain = trial.plain();
        for policy in POLICIES {
            for preload in [
                format!("{jemalloc}:{}", library().display()),
                format!("{}:{jemalloc}", library().display()),
            ] {
                let profiles = trial.behaves_as(&plain, policy, |command| {
                    command.env("LD_PRELOAD", &preload);
                });
                if (policy == "exact" || policy == "count") && source == "threads.c" {
                    assert_eq!(all_calls(&profiles, name), leaves, "{policy} {preload}");
                }
            }
        }
    }
}
