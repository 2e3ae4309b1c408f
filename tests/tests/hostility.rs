//! The hostility run: in every environment a program behaves with the preload library as without
//! it.

use std::fmt::Write;
use tests::hostility::{Arena, Verdict, situations};

/// Runs all situations of a group. Unsupported ones are reported.
fn meet(group: &str) {
    let arena = Arena::new(env!("CARGO_TARGET_TMPDIR").as_ref()).unwrap();
    let mut harm = String::new();
    let of_group = |name: &str| name.split_once('/').is_some_and(|(of, _)| of == group);
    for situation in situations().filter(|situation| of_group(situation.name)) {
        match arena.meet(&situation).unwrap_or_else(|error| panic!("{}: {error}", situation.name)) {
            Verdict::Skipped(why) => println!("SKIPPED: {}: {why}", situation.name),
            Verdict::Met(meetings) => {
                for meeting in meetings {
                    if let Some(what) = meeting.harm {
                        let _ = writeln!(
                            harm,
                            "{}, {}: it {what} {:?}",
                            situation.name, meeting.policy, meeting.reasons
                        );
                    }
                }
            }
        }
    }
    assert!(harm.is_empty(), "\n{harm}");
}

#[test]
fn the_table_names_sixty_situations_and_more_each_once() {
    let mut names: Vec<&str> = situations().map(|situation| situation.name).collect();
    assert!(names.len() >= 60, "{}", names.len());
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn limits_change_nothing() {
    meet("limits");
}

#[test]
fn sandboxes_change_nothing() {
    meet("sandboxes");
}

#[test]
fn allocators_change_nothing() {
    meet("allocators");
}

#[test]
fn families_of_processes_change_nothing() {
    meet("families");
}

#[test]
fn signals_change_nothing() {
    meet("signals");
}

#[test]
fn foreign_stacks_change_nothing() {
    meet("stacks");
}

#[test]
fn places_change_nothing() {
    meet("places");
}

#[test]
fn other_tools_change_nothing() {
    meet("company");
}

#[test]
fn kinds_of_binaries_change_nothing() {
    meet("binaries");
}

#[test]
fn code_that_comes_and_goes_changes_nothing() {
    meet("code");
}

#[test]
fn crowds_change_nothing() {
    meet("crowds");
}
