//! Code that runs before and after the library, and libraries that are loaded and unloaded.

use super::support::*;
use super::trial::*;
use std::path::Path;
use std::process::Command;

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
            // The library may be unloaded before or after the profiler's end: its own destructors
            // may or may not be counted.
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
        let mut names = [
            super::support::library().display().to_string(),
            library.program.display().to_string(),
        ];
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
        // The same with the command, which keeps it loaded.
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
        let trial = trial.clone().told(args);
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

/// The threads' blocks had no records of so many functions when they were made.
#[test]
fn functions_of_a_library_that_comes_later_are_timed_however_many_there_are() {
    let Some(trial) = Trial::of("loads_thousands.c", &["-O1"]) else { return };
    let flags = ["-O1", "-finstrument-functions", "-shared", "-fPIC", "-Dmain=run", "-DONCE"];
    let library = compile("late_thousands.c", &trial.to, &flags);
    let trial = trial.told(&[library.to_str().unwrap()]);
    let profiles = trial.behaves();
    let all = profiles["exact"].iter().flat_map(|profile| profile["functions"].as_array().unwrap());
    let timed = all.filter(|function| {
        let calls = function["calls"]["value"].as_f64();
        calls.is_some() && function["samples"].as_f64() == calls
    });
    assert!(timed.count() > 4096);
}
