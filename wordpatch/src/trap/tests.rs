#![allow(unsafe_code)]

use super::*;
use crate::Policy;
use crate::access::Window;
use crate::gate;
use crate::os::pages;
use crate::protocol::{Layout, Step};
use crate::specimen::{Laid, Specimen, policies};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs `test` for every specimen at every cut, under both fetch orders.
fn everywhere(mut test: impl FnMut(&Specimen, &Laid, &Policy)) {
    for policy in policies() {
        for specimen in Specimen::all() {
            for front in 1..specimen.len() {
                test(&specimen, &specimen.lay_out(front), &policy);
            }
        }
    }
}

#[test]
fn each_instruction_is_replaced_and_replaced_back_at_every_cut() {
    everywhere(|specimen, laid, policy| {
        let site = laid.adopt(Layout::One, policy);
        for _ in 0..3 {
            assert_eq!(laid.run(), specimen.returns[0], "{}", specimen.name);
            // SAFETY: (1) a specimen's words replace each other.
            unsafe { site.patch(laid.new) }.unwrap();
            assert_eq!(
                (laid.run(), site.read()),
                (specimen.returns[1], laid.new),
                "{}",
                specimen.name
            );
            // SAFETY: as above.
            unsafe { site.patch(laid.old) }.unwrap();
        }
    });
}

/// Stops a patch after every single store and barrier and runs the function there.
fn stop_between_all_steps(laid: &Laid, policy: &Policy, mut look: impl FnMut(&str)) {
    let site = laid.adopt(Layout::One, policy);
    look("before");
    site.lock_range().unwrap();
    look("locked");
    let patch = site.begin_patch(laid.new).unwrap();
    look("prepared");
    let window = Window::open(site.access(), std::iter::once(site.range())).unwrap();
    patch.trap(&window, &gate::enter()).unwrap();
    look("trapped, busy");
    patch.set_phase(Phase::Trapped);
    look("trapped");
    let mut phase = Phase::Trapped;
    while phase != Phase::Idle {
        assert!(patch.seize(phase));
        look("seized");
        policy.barrier.pass().unwrap();
        look("behind the barrier");
        for &step in patch.parameters.plan.steps_from_barrier(usize::from(phase == Phase::Backed)) {
            if step == Step::Back {
                patch.write(&window, Step::Back, laid.new.to_u64()).unwrap();
                look("back written, busy");
            }
        }
        if patch.store_phase(phase, &window, &gate::enter()).unwrap() {
            patch.end_patch();
        }
        phase = patch.phase();
        if phase != Phase::Idle {
            look("backed");
        }
    }
}

#[test]
fn executers_go_on_wherever_the_patcher_is_stopped() {
    everywhere(|specimen, laid, policy| {
        stop_between_all_steps(laid, policy, |place| {
            for _ in 0..2 {
                assert_eq!(laid.run(), specimen.returns[0], "{} {place}", specimen.name);
            }
        });
        assert_eq!(laid.run(), specimen.returns[1], "{}", specimen.name);
    });
}

#[test]
fn a_patch_that_no_thread_finishes_leaves_the_old_instruction_working() {
    let mut trapped = 0;
    everywhere(|specimen, laid, policy| {
        let site = laid.adopt(Layout::One, policy);
        // SAFETY: (1) a specimen's words replace each other.
        let pending = unsafe { site.start(laid.new) }.unwrap();
        if pending.phase() == Phase::Idle {
            // All changed bytes lie on one side of the boundary.
            return;
        }
        trapped += 1;
        std::mem::forget(pending);
        assert_eq!(laid.run(), specimen.returns[0]);
        // Another thread can continue it later.
        site.resume().unwrap().finish().unwrap();
        assert_eq!(laid.run(), specimen.returns[1]);
    });
    assert!(trapped > 20, "only {trapped} patches needed a trap");
}

#[test]
fn an_instruction_that_cannot_be_emulated_is_finished_by_the_thread_that_needs_it() {
    let specimen = Specimen::obscure();
    for policy in policies() {
        for front in 1..specimen.len() {
            let laid = specimen.lay_out(front);
            let site = laid.adopt(Layout::One, &policy);
            // SAFETY: (1) a specimen's words replace each other.
            let pending = unsafe { site.start(laid.new) }.unwrap();
            assert_eq!(
                laid.run(),
                specimen.returns[1],
                "the thread that trapped finished the patch"
            );
            assert_eq!(pending.phase(), Phase::Idle);
            pending.finish().unwrap();
        }
    }
}

#[test]
fn a_thread_that_may_come_too_late_does_not_look_at_the_code() {
    let specimen = Specimen::obscure();
    let laid = specimen.lay_out(3);
    let site = laid.adopt(Layout::One, &Policy::new().unwrap());
    // SAFETY: (1) a specimen's words replace each other.
    let pending = unsafe { site.start(laid.new) }.unwrap();
    let window = patch_in_progress::trap_window_at(site.range().start).unwrap();
    let patch = window
        .patches()
        .find(|patch| patch.word == site.range() && patch.phase() != Phase::Idle)
        .unwrap();
    let page = site.range().start.align_down(pages::PAGE);
    let allow = |protection| {
        // SAFETY: (1) the specimen's own page, which no thread executes meanwhile.
        unsafe { pages::protect(page, pages::PAGE, protection) }.unwrap();
    };
    // As if another thread had finished the patch and unmapped the code.
    allow(pages::Protection::None);
    let undisturbed = patch.undisturbed_as_known();
    allow(pages::Protection::ReadExecute);
    assert!(undisturbed.is_some());
    drop(undisturbed);
    pending.finish().unwrap();
    assert_eq!(laid.run(), specimen.returns[1]);
}

#[test]
fn several_instructions_in_one_word_are_carried_out_one_by_one() {
    let specimen = Specimen::several();
    for policy in policies() {
        for front in 1..specimen.len() {
            let laid = specimen.lay_out(front);
            let site = laid.adopt(Layout::Any, &policy);
            // SAFETY: (1) a specimen's words replace each other.
            let pending = unsafe { site.start(laid.new) }.unwrap();
            assert_eq!(laid.run(), specimen.returns[0], "{front} bytes in front");
            pending.finish().unwrap();
            assert_eq!(laid.run(), specimen.returns[1]);
        }
    }
}

#[test]
fn executers_on_other_threads_see_old_then_new_and_never_old_again() {
    let specimen = &Specimen::all()[1];
    let laid = &specimen.lay_out(2);
    let site = laid.adopt(Layout::One, &Policy::new().unwrap());
    let (stop, runs) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let executers = [(), ()].map(|()| {
            scope.spawn(move || {
                let mut seen_new = false;
                while !stop.load(Ordering::Relaxed) {
                    let returned = laid.run();
                    assert!(specimen.returns.contains(&returned), "torn: returned {returned}");
                    assert!(!seen_new || returned == specimen.returns[1], "old after new");
                    seen_new |= returned == specimen.returns[1];
                    runs.fetch_add(1, Ordering::Relaxed);
                }
                seen_new
            })
        });
        let wait_for_runs = || {
            let target = runs.load(Ordering::Relaxed) + 1000;
            while runs.load(Ordering::Relaxed) < target {
                std::thread::yield_now();
            }
        };
        wait_for_runs();
        // SAFETY: (1) a specimen's words replace each other.
        let pending = unsafe { site.start(laid.new) }.unwrap();
        wait_for_runs();
        pending.finish().unwrap();
        wait_for_runs();
        stop.store(true, Ordering::Relaxed);
        for executer in executers {
            executer.join().unwrap();
        }
    });
    assert_eq!(laid.run(), specimen.returns[1]);
}

#[test]
fn a_thread_that_has_no_processor_is_not_taken_for_one_that_blocks_traps_for_good() {
    use crate::os::affinity::{allowed, keep_to};
    let only = [allowed().unwrap()[0]];
    let (blocked, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            keep_to(&only).unwrap();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        scope.spawn(move || {
            keep_to(&only).unwrap();
            // SAFETY: (1) numbers; thread 0 is the caller.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
            let before = signals::block(&signals::set(signals::bit(libc::SIGTRAP)));
            blocked.store(true, Ordering::Relaxed);
            // The other thread has the processor for many of its turns.
            std::thread::yield_now();
            signals::set_mask(&before);
        });
        while !blocked.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let refused = require_unblocked();
        done.store(true, Ordering::Relaxed);
        assert_eq!(refused, Ok(()));
    });
}
