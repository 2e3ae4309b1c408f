//! Threads, their stacks and their signals.

use super::trial::*;
use std::process::Command;

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
fn signal_stacks_where_other_stacks_were_have_room() {
    let flags = ["-O2", "-pthread", "-Wl,-z,now"];
    let Some(trial) = Trial::of("movedstacks.c", &flags) else { return };
    for how in [&[][..], &["syscall"]] {
        let trial = trial.clone().told(how);
        let told = text(&trial.plain().stdout);
        assert!(told.lines().all(|line| !line.ends_with("bytes")), "without us: {told}");
        trial.counts();
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

/// What such a child calls is not counted: it has no thread data that could hold a counter.
#[test]
fn a_child_without_thread_data_is_left_alone() {
    for hooks in [true, false] {
        let without = ["-O1", "-fno-instrument-functions"];
        let Some(trial) = Trial::of("foreign.c", &without[..if hooks { 1 } else { 2 }]) else {
            return;
        };
        let plain = trial.plain();
        assert_eq!((text(&plain.stdout), plain.status.code()), ("1150\n".to_owned(), Some(3)));
        for policy in POLICIES {
            let way = |command: &mut Command| {
                command.env("FASTINST_PROVIDER", "auto").env("FASTINST_PLANT", "all");
            };
            let profiles = trial.behaves_as(&plain, policy, way);
            if policy == "exact" || policy == "count" {
                assert_eq!(all_calls(&profiles, "work"), 1050.0, "{hooks} {policy}");
            }
        }
    }
}
