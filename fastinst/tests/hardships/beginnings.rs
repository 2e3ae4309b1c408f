//! How processes begin, and where programs run.

use super::support::*;
use super::trial::*;

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

#[test]
fn handlers_on_the_smallest_signal_stacks_have_room() {
    let Some(trial) = Trial::of("smallstacks.c", &["-O2", "-Wl,-z,now"]) else { return };
    let told = text(&trial.plain().stdout);
    assert!(told.lines().all(|line| !line.ends_with("bytes")), "without us: {told}");
    for how in ["return", "leave"] {
        let trial = trial.clone().told(&[how]);
        let profiles = trial.behaves();
        // Those of a thread, the first one, and a hundred on a large stack; then on a small one.
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
