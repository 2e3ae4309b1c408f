//! Compilers, and their run-time libraries.

use super::support::*;
use super::trial::*;
use std::path::Path;
use std::process::Command;

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
    // The command handles it by itself.
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
        test_support::skip("libjemalloc.so.2 is missing: scripts/test installs it");
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
