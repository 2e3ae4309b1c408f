//! The completion thread in special situations: after a fork, without permission to create threads,
//! beside the signal barrier.
#![allow(unsafe_code)]

#[path = "../../wordpatch/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use support::{End, Function, OTHER, StopWhenDropped, in_child, patch, start};
use test_support::{PATIENCE, within};
use wordpatch::{Barrier, PatchSite, Phase, Policy};

/// Waits until the completion thread has finished the pending patch. `false` on a time-out.
fn completed(site: &PatchSite) -> bool {
    within(PATIENCE, || site.phase() == Phase::Idle)
}

#[test]
fn a_child_completes_what_its_parent_had_queued_when_it_forked() {
    let functions: &Vec<Function> = &(0..40).map(|_| Function::new()).collect();
    let policy = Policy::new().unwrap();
    let sites: &Vec<PatchSite> =
        &functions.iter().map(|function| function.adopt(&policy)).collect();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        scope.spawn(move || {
            let mut number = OTHER;
            while !stop.load(Ordering::Relaxed) {
                for site in sites {
                    if let Ok(pending) = start(site, number) {
                        pending.finish_in_background();
                    }
                }
                number ^= OTHER ^ 1;
            }
        });
        for _ in 0..30 {
            let end = in_child(|| {
                for (site, function) in sites.iter().zip(functions) {
                    patch(site, 1).unwrap();
                    start(site, OTHER).unwrap().finish_in_background();
                    assert!(
                        completed(site) && function.call() == OTHER,
                        "left behind: {:?}",
                        site.phase()
                    );
                }
                0
            });
            assert_eq!(end, End::Exit(0));
        }
    });
}

/// Forbids the calling thread to start others.
fn forbid_threads() {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let equal = |number: libc::c_long, jt| {
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, 0, number as u32)
    };
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        equal(libc::SYS_clone, 2),
        equal(libc::SYS_clone3, 1),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: (1) the program is valid and lives across the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            0
        );
    }
}

#[test]
fn what_no_thread_could_be_started_for_is_completed_when_one_can() {
    let end = in_child(|| {
        let function = Function::new();
        let site = &function.adopt(&Policy::new().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                forbid_threads();
                start(site, OTHER).unwrap().finish_in_background();
            });
        });
        assert_eq!(
            (site.phase(), function.call()),
            (Phase::Trapped, 1),
            "executers are served meanwhile"
        );
        site.resume().unwrap().finish_in_background();
        i32::from(!completed(site) || function.call() != OTHER)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn the_completion_thread_answers_a_signal_that_is_reserved_after_it_started() {
    let end = in_child(|| {
        let (first, second) = (Function::new(), Function::new());
        let policy = Policy { barrier: Barrier::Membarrier, ..Policy::new().unwrap() };
        let site = first.adopt(&policy);
        start(&site, OTHER).unwrap().finish_in_background();
        assert!(completed(&site));
        let called = second.adopt(&Policy { barrier: Barrier::Signal, ..policy });
        patch(&called, OTHER).unwrap();
        i32::from(second.call() != OTHER)
    });
    assert_eq!(end, End::Exit(0));
}
