//! Forks at every bad moment.
#![allow(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use support::{End, Function, OTHER, StopWhenDropped, in_child, patch, start};
use wordpatch::{Phase, Policy};

#[test]
fn parent_and_child_patch_each_for_itself() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let end = in_child(|| {
        patch(&site, OTHER).unwrap();
        i32::from(function.call() != OTHER)
    });
    assert_eq!((end, function.call()), (End::Exit(0), 1));
    patch(&site, OTHER).unwrap();
    assert_eq!(function.call(), OTHER);
}

#[test]
fn a_patch_that_is_pending_is_finished_in_the_child_and_pending_in_the_parent() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let pending = start(&site, OTHER).unwrap();
    let end = in_child(|| {
        assert_eq!((site.phase(), function.call()), (Phase::Idle, OTHER));
        patch(&site, 1).unwrap();
        i32::from(function.call() != 1)
    });
    assert_eq!((end, pending.phase(), function.call()), (End::Exit(0), Phase::Trapped, 1));
    pending.finish().unwrap();
    assert_eq!(function.call(), OTHER);
}

#[test]
fn children_of_a_process_that_never_stops_patching_patch_too() {
    let function = &Function::new();
    let policy = Policy::new().unwrap();
    let (site, second) = (&function.adopt(&policy), Function::new());
    let own = second.adopt(&policy);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        scope.spawn(move || {
            let mut number = OTHER;
            while !stop.load(Ordering::Relaxed) {
                patch(site, number).unwrap();
                number = if number == OTHER { 1 } else { OTHER };
            }
        });
        for _ in 0..100 {
            let end = in_child(|| {
                assert!([1, OTHER].contains(&function.call()), "torn");
                // Whatever the parent's patcher was doing, both sites are free here.
                patch(site, 1).unwrap();
                patch(&own, OTHER).unwrap();
                start(site, OTHER).unwrap().finish_in_background();
                while site.phase() != Phase::Idle {
                    std::thread::yield_now();
                }
                i32::from(function.call() != OTHER || second.call() != OTHER)
            });
            assert_eq!(end, End::Exit(0));
        }
    });
}

#[test]
fn commands_are_started_while_patching_goes_on() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        scope.spawn(|| {
            let mut patches = 0u32;
            while !stop.load(Ordering::Relaxed) {
                patch(&site, [OTHER, 1][patches as usize % 2]).unwrap();
                patches += 1;
            }
        });
        for _ in 0..20 {
            assert!(std::process::Command::new("true").status().unwrap().success());
        }
    });
}
