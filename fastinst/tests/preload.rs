//! The preload library in ordinary programs: they behave as without it, and exact policies count
//! like an independent counter.

mod support;

use std::path::Path;
use support::*;
use test_support::eventually;

/// Runs a program plain and under every policy; it must behave in the same way. Compares exact
/// counts with the independent counter.
fn behaves_and_counts(source: &str, flags: &[&str], exact: bool) {
    if !has(if source.ends_with(".cc") { "g++" } else { "gcc" }) {
        return;
    }
    let to = folder("preload");
    let program = compile(source, &to, &[&["-finstrument-functions"], flags].concat());
    let plain = run(&mut clean(std::process::Command::new(&program)));
    let truth = exact.then(|| counted(&program, &[]));
    for policy in ["exact", "count", "adaptive", "paper"] {
        let path = to.join(format!("p.{policy}"));
        let with = run(&mut preloaded(&program, policy, &path));
        assert_eq!(
            (&with.stdout, with.status),
            (&plain.stdout, plain.status),
            "{source} {flags:?} {policy}: {with:?}"
        );
        assert_eq!(String::from_utf8_lossy(&with.stderr), "", "{source} {policy}");
        let profile = profile(&path);
        if let Some(truth) = truth.as_ref().filter(|_| policy == "exact" || policy == "count") {
            assert_eq!(&exact_calls(&profile), truth, "{source} {flags:?} {policy}");
        }
    }
}

#[test]
fn calls_are_counted_exactly_at_every_optimisation() {
    for flags in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        behaves_and_counts("calls.c", &[flags], true);
    }
}

#[test]
fn every_way_of_linking_is_probed() {
    for flags in [
        &["-O2", "-fno-plt"][..],
        &["-O2", "-no-pie", "-fno-pie"],
        &["-O2", "-flto"],
        &["-O2", "-Wl,-z,now", "-fcf-protection"],
    ] {
        behaves_and_counts("calls.c", flags, true);
    }
}

#[test]
fn cxx_with_exceptions_and_globals_is_counted_exactly() {
    behaves_and_counts("objects.cc", &["-O0"], true);
    behaves_and_counts("objects.cc", &["-O2"], true);
}

#[test]
fn short_lived_threads_and_their_last_words_are_counted_exactly() {
    behaves_and_counts("threads.c", &["-O2"], true);
}

#[test]
fn handlers_and_long_jumps_are_survived() {
    behaves_and_counts("signals.c", &["-O2"], false);
    behaves_and_counts("signals.c", &["-O0"], false);
}

#[test]
fn every_process_has_its_own_profile() {
    if !has("gcc") {
        return;
    }
    let to = folder("forks");
    let program = compile("forks.c", &to, &["-O2", "-finstrument-functions"]);
    for policy in ["exact", "count", "adaptive"] {
        let output = folder("forks-out");
        let with = run(&mut preloaded(&program, policy, &output.join("p.%p")));
        assert_eq!(
            (&with.stdout[..], with.status.code()),
            (&b"22\n"[..], Some(0)),
            "{policy}: {with:?}"
        );
        let profiles = profiles(&output);
        assert_eq!(profiles.len(), 21, "{policy}");
        if policy != "adaptive" {
            let mut leaves: Vec<f64> =
                profiles.iter().map(|profile| calls(profile, "leaf")).collect();
            leaves.sort_by(f64::total_cmp);
            assert_eq!(leaves.pop(), Some(101_000.0), "{policy}: the parent's");
            assert!(leaves.iter().all(|&calls| calls == 1000.0), "{policy}: {leaves:?}");
        }
    }
    let output = folder("forks-none");
    run(preloaded(&program, "exact", &output.join("p.%p")).env("FASTINST_FOLLOW", "none"));
    assert_eq!(profiles(&output).len(), 1);
}

#[test]
fn libraries_that_come_and_go_are_counted_exactly() {
    if !has("gcc") {
        return;
    }
    let to = folder("plugins");
    let plugin = compile("plugin.c", &to, &["-O2", "-shared", "-fPIC", "-finstrument-functions"]);
    for flags in [&["-O2"][..], &["-O2", "-finstrument-functions"]] {
        let host = compile("host.c", &to, flags);
        for policy in ["exact", "adaptive"] {
            let path = to.join("p.json");
            let with = run(preloaded(&host, policy, &path).arg(&plugin));
            assert_eq!(
                (&with.stdout[..], with.status.code()),
                (&b"15015000\n"[..], Some(0)),
                "{policy}: {with:?}"
            );
            if policy == "exact" {
                let profile = profile(&path);
                let functions = profile["functions"].as_array().unwrap().iter();
                let plugged = functions.filter(|function| function["name"] == "plugged");
                assert_eq!(
                    plugged
                        .map(|function| function["calls"]["value"].as_f64().unwrap())
                        .sum::<f64>(),
                    30_000.0
                );
            }
        }
    }
}

#[test]
fn a_call_of_five_seconds_is_timed() {
    if !has("gcc") {
        return;
    }
    let to = folder("sleeper");
    let program = compile("sleeper.c", &to, &["-O1", "-finstrument-functions"]);
    run(&mut preloaded(&program, "adaptive", &to.join("p.json")));
    let profile = profile(&to.join("p.json"));
    let mean = function(&profile, "nap")["mean"]["value"].as_f64().unwrap();
    assert!((4.99e9..5.2e9).contains(&mean), "{mean}");
    assert_eq!(function(&profile, "nap")["mean"]["how"], "exact");
}

#[test]
fn a_snapshot_survives_a_kill_and_a_signal_asks_for_one() {
    if !has("gcc") {
        return;
    }
    let to = folder("snapshots");
    let program = compile("sleeper.c", &to, &["-O1", "-finstrument-functions"]);
    for interval in [true, false] {
        let path = to.join(format!("p.{interval}"));
        let mut command = preloaded(&program, "adaptive", &path);
        if interval {
            command.env("FASTINST_INTERVAL", "20ms");
        }
        let mut child = command.arg("forever").spawn().unwrap();
        eventually("a profile is written", || {
            if !interval && test_support::catches(child.id(), libc::SIGUSR2) {
                test_support::send(child.id(), libc::SIGUSR2);
            }
            assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
            // The first profile may be written before the first call.
            path.exists() && profile(&path)["functions"].to_string().contains("\"spin\"")
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(calls(&profile(&path), "spin") > 0.0);
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line_and_the_program_runs_on() {
    if !has("gcc") {
        return;
    }
    let to = folder("wrong");
    let program = compile("calls.c", &to, &["-O2", "-finstrument-functions"]);
    let plain = run(&mut clean(std::process::Command::new(&program)));
    for (key, value, says) in [
        ("FASTINST_POLCY", "exact", "did you mean FASTINST_POLICY?"),
        ("FASTINST_BUDGET", "much", "is not a share"),
        ("FASTINST_INCLUDE", "/(/", "invalid pattern"),
        ("WORDPATCH_ACCESS", "magic", "WORDPATCH_ACCESS"),
        ("FASTINST_OUTPUT", "/nowhere/at/all", "cannot write /nowhere/at/all"),
        ("FASTINST_OUTPUT", "/dev/full", "cannot write /dev/full"),
    ] {
        let with = run(preloaded(&program, "adaptive", &to.join("p.json")).env(key, value));
        let line = String::from_utf8_lossy(&with.stderr);
        assert_eq!((&with.stdout, with.status), (&plain.stdout, plain.status), "{key}={value}");
        assert!(line.starts_with("fastinst: ") && line.contains(says), "{key}={value}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn calls_of_hooks_that_are_off_are_nops() {
    if !has("gcc") {
        return;
    }
    let to = folder("nops");
    let flags = ["-O2", "-fno-toplevel-reorder", "-fcf-protection=none", "-finstrument-functions"];
    let program = compile("nops.c", &to, &flags);
    let plain = run(&mut clean(std::process::Command::new(&program)));
    // While calls are only counted, the sites at exits are off.
    for (exclude, nops) in [("leaf", "2 2 "), ("main", "2 1 ")] {
        let mut command = preloaded(&program, "count", &to.join("p.json"));
        let with = run(command.env("FASTINST_EXCLUDE", exclude));
        let (said, sum) = (String::from_utf8_lossy(&with.stdout), &plain.stdout[4..]);
        assert!(said.starts_with(nops) && said.as_bytes().ends_with(sum), "{exclude}: {said}");
    }
}

#[test]
fn hooks_of_a_library_that_has_given_up_return_at_once() {
    if !has("gcc") {
        return;
    }
    let to = folder("disabled");
    let program = compile("disabled.c", &to, &["-O2", "-finstrument-functions", "-Wl,-z,now"]);
    for (key, value) in [("FASTINST_POLCY", "exact"), ("WORDPATCH_ACCESS", "magic")] {
        let with = run(preloaded(&program, "adaptive", &to.join("p.json")).env(key, value));
        let said = String::from_utf8_lossy(&with.stderr);
        assert_eq!((&with.stdout[..], with.status.code()), (&b"returned\n"[..], Some(0)), "{said}");
    }
}

#[test]
fn a_setting_that_is_refused_is_told_once_a_process_tree() {
    if !has("gcc") {
        return;
    }
    let to = folder("refused");
    let program = compile("calls.c", &to, &["-O2", "-finstrument-functions"]);
    let commands = ["-c", "\"$0\"; /bin/sh -c '\"$0\"; \"$0\"; true' \"$0\"; exec \"$0\""];
    for (key, value) in [("FASTINST_POLICY", "nosuch"), ("WORDPATCH_ACCESS", "magic")] {
        let mut command = preloaded("/bin/sh".as_ref(), "adaptive", &to.join("p.%p"));
        let with = run(command.args(commands).arg(&program).env(key, value));
        let told = String::from_utf8_lossy(&with.stderr);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(value), "{told}");
    }
}

#[test]
fn only_selected_functions_are_probed() {
    if !has("gcc") {
        return;
    }
    let to = folder("selected");
    let program = compile("calls.c", &to, &["-O1", "-finstrument-functions"]);
    run(preloaded(&program, "count", &to.join("p.in")).env("FASTINST_INCLUDE", "lea*,/^fib$/"));
    let included = profile(&to.join("p.in"));
    assert_eq!(
        (calls(&included, "leaf"), included["functions"].as_array().unwrap().len()),
        (200_000.0, 2)
    );
    run(preloaded(&program, "count", &to.join("p.out")).env("FASTINST_EXCLUDE", "leaf"));
    let without = profile(&to.join("p.out"));
    assert!(
        without["functions"].as_array().unwrap().iter().all(|function| function["name"] != "leaf")
    );
}

#[test]
fn a_preload_that_was_there_is_kept_and_sanitizers_are_lived_with() {
    if !has("gcc") {
        return;
    }
    let to = folder("others");
    let program = compile(
        "calls.c",
        &to,
        &["-O1", "-finstrument-functions", "-fsanitize=address", "-static-libasan"],
    );
    let with = run(&mut preloaded(&program, "adaptive", &to.join("p.json")));
    assert_eq!(with.status.code(), Some(7), "{with:?}");
    assert!(calls(&profile(&to.join("p.json")), "leaf") > 0.0);
    // Another preloaded library beside this one.
    let program = compile("calls.c", &to, &["-O1", "-finstrument-functions"]);
    let other = compile("plugin.c", &to, &["-shared", "-fPIC"]);
    let both = format!("{}:{}", other.display(), library().display());
    let with = run(preloaded(&program, "count", &to.join("p.both")).env("LD_PRELOAD", both));
    assert_eq!(with.status.code(), Some(7), "{with:?}");
    assert_eq!(calls(&profile(&to.join("p.both")), "leaf"), 200_000.0);
}

#[test]
fn little_address_space_and_small_stacks_are_lived_with() {
    if !has("gcc") {
        return;
    }
    let to = folder("little");
    let program = compile("threads.c", &to, &["-O2", "-finstrument-functions"]);
    let limit = ["-c", "ulimit -v 400000; ulimit -s 256; exec \"$0\""];
    let plain = run(clean(std::process::Command::new("/bin/sh")).args(limit).arg(&program));
    let path = to.join("p.json");
    let with = run(preloaded(Path::new("/bin/sh"), "exact", &path).args(limit).arg(&program));
    assert_eq!((&with.stdout, with.status), (&plain.stdout, plain.status), "{with:?}");
    assert_eq!(exact_calls(&profile(&path)), counted(&program, &[]));
}

#[test]
fn the_null_is_measured_where_calls_are_drawn() {
    let to = folder("null");
    let program = compile("../../samples/words.c", &to, &["-finstrument-functions", "-O2"]);
    let path = to.join("profile.json");
    // A term (sampling window) has one null at most, and half a second at 1 % has few terms.
    let status = run(preloaded(&program, "adaptive", &path).env("FASTINST_BUDGET", "20%")).status;
    assert!(status.success());
    let header = &profile(&path)["header"];
    let (null, bias) = (header["null"].as_f64().unwrap(), header["bias"].as_f64().unwrap());
    // It is zero unless it was measured.
    assert!(null >= bias && bias > 0.0, "{header}");
}
