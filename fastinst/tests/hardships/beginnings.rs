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
fn only_the_program_itself_is_profiled_if_no_child_is_followed() {
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

#[test]
fn programs_that_cannot_load_the_library_are_started_as_without_it() {
    let Some(parent) = Trial::of("executes.c", &["-O2"]) else { return };
    let Some(child) = Trial::with("musl-gcc", "executed.c", &["-fno-instrument-functions"]) else {
        return;
    };
    let script = child.to.join("script");
    std::fs::write(&script, format!("#! {} -x\n", child.program.display())).unwrap();
    run(std::process::Command::new("chmod").arg("+x").arg(&script));
    let places = format!("/no/such:{}", child.program.parent().unwrap().display());
    let output = parent.to.join("output");
    let started = |way: &str, program: &std::path::Path, others: Option<&str>, by: &[&str]| {
        let mut command = match others {
            None => clean(std::process::Command::new(&parent.program)),
            Some(others) => {
                let mut command = preloaded(&parent.program, "count", &output);
                let library = library();
                command.env("LD_PRELOAD", format!("{others}{}", library.display()));
                command
            }
        };
        command.env("PATH", &places).env("OTHER", "kept").arg(way).arg(program).args(by);
        let output = run(&mut command);
        let told = text(&output.stdout);
        assert_eq!(text(&output.stderr), "", "{way}");
        (output.status.code(), told.split("; LD_PRELOAD is").next().unwrap().to_owned())
    };
    let by_fork: [&str; 9] =
        ["execve", "execv", "execvp", "execvpe", "fexecve", "execl", "short", "execlp", "execle"];
    for way in by_fork.into_iter().chain(["posix_spawn", "posix_spawnp", "system"]) {
        for by in [&[][..], &["vfork"]] {
            let plain = started(way, &child.program, None, by);
            assert!(plain.1.contains("LD_PRELOAD: none OTHER: kept"), "{way}: {plain:?}");
            assert_eq!(started(way, &child.program, Some(""), by), plain, "{way}");
            let others = started(way, &child.program, Some("libm.so.6 "), by);
            let wanted = plain.1.replace("LD_PRELOAD: none", "LD_PRELOAD: libm.so.6");
            assert_eq!(others, (plain.0, wanted), "{way}");
        }
        if way != "fexecve" {
            let plain = started(way, &script, None, &[]);
            assert!(plain.1.contains("script"), "{plain:?}");
            assert_eq!(started(way, &script, Some(""), &[]), plain, "{way} of a script");
        }
    }
}

#[test]
fn programs_that_load_the_library_keep_it_however_they_are_started() {
    let Some(parent) = Trial::of("executes.c", &["-O2"]) else { return };
    let Some(child) = Trial::of("executed.c", &["-O1"]) else { return };
    let output = parent.to.join("kept");
    for way in ["execve", "execl", "execle", "execlp", "posix_spawn", "posix_spawnp"] {
        let mut command = preloaded(&parent.program, "count", &output);
        command.env("PATH", child.program.parent().unwrap()).arg(way).arg(&child.program);
        let told = text(&run(&mut command).stdout);
        assert!(told.contains("LD_PRELOAD: /") && told.contains("ends with 42"), "{way}: {told}");
    }
}

#[test]
fn a_pipe_that_is_executed_is_not_waited_for() {
    let Some(parent) = Trial::of("executes.c", &["-O2"]) else { return };
    let pipe = parent.to.join("pipe");
    run(std::process::Command::new("mkfifo").args(["-m", "755"]).arg(&pipe));
    for way in ["execve", "execlp"] {
        let mut command = preloaded(&parent.program, "count", &parent.to.join("output"));
        command.env("PATH", &parent.to).arg(way).arg(&pipe);
        let told = text(&run(&mut command).stdout);
        assert!(told.contains("ends with 126"), "{way}: {told}");
    }
}
