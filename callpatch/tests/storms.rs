//! Sites are switched and retargeted while other threads execute them, under every adversary; short
//! here, longer with `CALLPATCH_STORM_TOGGLES`. Every mixture of two displacements has its own
//! landing pad, so no tear is missed.
#![allow(unsafe_code)]

mod support;

use callpatch::x86::{self, Form};
use callpatch::{CallSite, Destination, Islands, Role, Strategy, Survey, Switch};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Function, kinds};
use test_support::skip;
use tmax::storm::{Adversary, Budget, Counts, Face, Outcome, Placement, Shape, Storm, Target};
use wordpatch::live::Width;
use wordpatch::{CodeAddr, FetchOrder, Granule, Policy};

/// The toggles in each cell.
fn toggles(short: u64) -> u64 {
    std::env::var("CALLPATCH_STORM_TOGGLES")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(short)
}

/// The conditions of a storm; without a second processor, `None` and a message.
fn storm() -> Option<Storm> {
    Storm::new().map_err(|reason| skip(&reason.to_string())).ok()
}

fn adversaries() -> impl Iterator<Item = Adversary> {
    Adversary::ALL.into_iter().filter(|adversary| adversary.is_possible())
}

fn page_crossings() -> impl Iterator<Item = Placement> {
    (1..Shape::Call.len()).map(|before| Placement::Astride { boundary: 4096, before })
}

fn target(place: Placement) -> Target {
    Target::new(Shape::Call, place).unwrap()
}

/// The destination of a face's call.
fn pad(target: &Target, face: Face) -> CodeAddr {
    let displacement = i32::from_le_bytes(Shape::Call.bytes(face)[1..].try_into().unwrap());
    Form::Call.destination(target.word_at(), displacement)
}

fn adopt(target: &Target, survey: &mut Survey) -> CallSite {
    let hook = Destination::Code(pad(target, Face::Old));
    // SAFETY: (1) to (4): the target outlives the site and writes to itself only between storms;
    // (5) its pads are functions.
    unsafe { survey.adopt(target.word_at(), Role::Call, |to| to == hook) }.unwrap()
}

/// Fails if an outcome other than `expected` occurred, and prints the counts.
fn require(name: &str, counts: &Counts, expected: &[Outcome]) {
    let executions = counts.log.executions();
    println!(
        "{name}: {} toggles beside {executions} executions, {} torn",
        counts.counted, counts.torn
    );
    assert_eq!(
        (counts.torn, counts.log.wrong()),
        (0, 0),
        "{name}: {:?} {:?}",
        counts.log.torn,
        counts.log.strays
    );
    assert!(counts.counted > 0 && executions > counts.counted, "{name}: no thread executed");
    for outcome in [Outcome::Old, Outcome::New, Outcome::Off] {
        assert_eq!(
            counts.log.count(outcome) > 0,
            expected.contains(&outcome),
            "{name}: {outcome:?}"
        );
    }
}

#[test]
fn one_byte_is_never_torn_at_any_offset_and_across_pages() {
    let Some(storm) = storm() else { return };
    let mut survey = Survey::new(Policy::new().unwrap()).unwrap();
    let mut total = Counts::default();
    for adversary in adversaries() {
        for place in (0..64).map(Placement::InLine).chain(page_crossings()) {
            let target = target(place);
            let site = adopt(&target, &mut survey);
            let switch =
                |face| site.set(if face == Face::New { Switch::Off } else { Switch::On }).unwrap();
            let counts = storm
                .clone()
                .adversary(adversary)
                .run(&target, Budget::toggles(toggles(300)), switch)
                .unwrap();
            assert_eq!(counts.log.wrong(), 0, "{place:?} {adversary:?}: {:?}", counts.log.torn);
            total.add(&counts);
        }
    }
    require("one byte", &total, &[Outcome::Old, Outcome::Off]);
}

/// Retargets at all placements under `policy`.
fn retargets(name: &str, policy: Policy, short: u64) {
    let Some(storm) = storm() else { return };
    let mut survey = Survey::new(policy).unwrap();
    let mut total = Counts::default();
    for adversary in adversaries() {
        for place in (0..64)
            .step_by(if short < 50 { 3 } else { 1 })
            .map(Placement::InLine)
            .chain(page_crossings())
        {
            let target = target(place);
            let mut site = adopt(&target, &mut survey);
            let retarget = |face| {
                // SAFETY: (1) a pad is a function; (2) the target stays mapped.
                unsafe { site.retarget(pad(&target, face), &policy) }.unwrap();
            };
            let counts = storm
                .clone()
                .adversary(adversary)
                .run(&target, Budget::toggles(toggles(short)), retarget)
                .unwrap();
            assert_eq!(counts.log.wrong(), 0, "{place:?} {adversary:?}: {:?}", counts.log.torn);
            total.add(&counts);
        }
    }
    require(name, &total, &[Outcome::Old, Outcome::New, Outcome::Off]);
}

#[test]
fn a_call_that_is_retargeted_is_never_torn_at_any_offset_and_across_pages() {
    retargets("retarget", Policy::new().unwrap(), 60);
}

#[test]
fn with_both_barriers_neither() {
    retargets(
        "retarget, any order",
        Policy { order: FetchOrder::Any, ..Policy::new().unwrap() },
        20,
    );
}

#[test]
fn a_batch_of_calls_is_never_torn() {
    let Some(storm) = storm() else { return };
    let policy = Policy::new().unwrap();
    let mut survey = Survey::new(policy).unwrap();
    let targets: Vec<Target> =
        (0..64).step_by(5).map(Placement::InLine).chain(page_crossings()).map(target).collect();
    let mut sites: Vec<CallSite> =
        targets.iter().map(|target| adopt(target, &mut survey)).collect();
    let mut total = Counts::default();
    for adversary in adversaries() {
        let retarget = |face| {
            let mut batch = callpatch::Retarget::new(policy);
            for (site, target) in sites.iter_mut().zip(&targets) {
                // SAFETY: (1) a pad is a function; (2) the targets stay mapped.
                unsafe { batch.push(site, pad(target, face)) }.unwrap();
            }
            batch.commit().unwrap();
        };
        let targets: Vec<&Target> = targets.iter().collect();
        total.add(
            &storm
                .clone()
                .adversary(adversary)
                .run_all(&targets, Budget::toggles(toggles(150)), retarget)
                .unwrap(),
        );
    }
    require("batch", &total, &[Outcome::Old, Outcome::New, Outcome::Off]);
}

#[test]
fn without_the_barrier_the_same_harness_reports_tears() {
    let Some(storm) = storm() else { return };
    let storm = storm.adversary(if Adversary::FlushBack.is_possible() {
        Adversary::FlushBack
    } else {
        Adversary::DirtyBack
    });
    let tears = (2..Shape::Call.len()).map(|before| {
        let target = target(Placement::Astride { boundary: 64, before });
        let budget = Budget::toggles(2_000_000).until_torn(1);
        let hasty = |face| {
            target.store(0, Width::One, 0xa9);
            for at in (1..5).rev() {
                target.store(at, Width::One, target.image(face, at));
            }
            target.store(0, Width::One, 0xe8);
        };
        storm.run(&target, budget, hasty).unwrap().torn
    });
    assert!(
        tears.sum::<u64>() > 0,
        "nothing was torn without a barrier: the storms prove nothing on this machine"
    );
}

#[test]
fn the_literatures_calls_are_never_torn_on_the_documented_granule() {
    let Some(storm) = storm() else { return };
    let policy = Policy { granule: Granule::QUADWORD, ..Policy::new().unwrap() };
    let mut total = Counts::default();
    for adversary in adversaries() {
        for place in (0..64).step_by(3).map(Placement::InLine).chain(page_crossings()) {
            let target = target(place);
            let at = target.word_at();
            let mut islands = Islands::near(at..at.offset(5)).unwrap();
            let ret = islands.ret().unwrap();
            let mut survey = Survey::new(policy).unwrap().with_strategy(Strategy::Paper { ret });
            let site = adopt(&target, &mut survey);
            let switch =
                |face| site.set(if face == Face::New { Switch::Off } else { Switch::On }).unwrap();
            let counts = storm
                .clone()
                .adversary(adversary)
                .run(&target, Budget::toggles(toggles(150)), switch)
                .unwrap();
            assert_eq!(
                counts.log.wrong(),
                0,
                "{place:?} {adversary:?}: {:?} {:?}",
                counts.log.torn,
                counts.log.strays
            );
            total.add(&counts);
        }
    }
    require("the literature's", &total, &[Outcome::Old, Outcome::Off]);
}

/// Calls that are nops when off are retargeted to hooks for which they are not, and back, on and
/// off.
#[test]
fn calls_that_are_nops_when_off_are_switched_and_retargeted_beside_a_thread_that_runs_them() {
    let policy = Policy::new().unwrap();
    let mut survey = Survey::new(policy).unwrap();
    for form in [Form::Call, Form::PrefixedCall] {
        for at in [512, 570, 571, 572, 573, 574, 575, 639] {
            let function = &Function::new(form, Role::Call, at);
            let mut site = function.adopt_by(&mut survey);
            let span = site.address()..site.address().offset(1);
            let mut islands = Islands::near(span.clone()).unwrap();
            islands.expect_calls(span, 64);
            let returns_three = [0xb8, 3, 0, 0, 0, 0xc3];
            let stub = islands.stub_of_call(&site, 6, |_| returns_three).unwrap();
            let over = &AtomicBool::new(false);
            let mut nops = 0;
            let seen = std::thread::scope(|scope| {
                let executer = scope.spawn(move || {
                    let (entry, mut seen) = (function.entry(), BTreeSet::new());
                    while !over.load(Ordering::Relaxed) {
                        seen.extend((0..64).map(|_| entry()));
                    }
                    seen
                });
                for round in 0..toggles(600) as usize {
                    site.set(Switch::Off).unwrap();
                    nops += usize::from(function.byte(form.switch_at() as isize) == x86::NOP5[0]);
                    if round % 3 != 0 {
                        site.set(Switch::On).unwrap();
                    }
                    if round % 8 == 0 {
                        let to = if round / 8 % 2 == 0 { stub } else { function.target(0) };
                        // SAFETY: (1) functions; (2) they and the calling function stay mapped.
                        unsafe { site.retarget(to, &policy) }.unwrap();
                    }
                    site.set(Switch::On).unwrap();
                }
                over.store(true, Ordering::Relaxed);
                executer.join().unwrap()
            });
            assert!(seen.is_subset(&[1, 2, 3].into()), "{form:?} at {at}: {seen:?}");
            assert!(nops > 0, "{form:?} at {at}: no stub lies so that its call can be a nop");
        }
    }
}

/// Switches and retargets a function of every form while a thread runs it, and checks that thread's
/// results. These functions have no pads for mixtures: a tear ends the test by a fault.
#[test]
fn every_form_is_switched_and_retargeted_beside_a_thread_that_runs_it() {
    let policy = Policy::new().unwrap();
    let mut survey = Survey::new(policy).unwrap();
    for (form, role) in kinds() {
        for at in [512, 570, 572, 573, 575, 639] {
            let function = &Function::new(form, role, at);
            let mut site = function.adopt_by(&mut survey);
            let over = &AtomicBool::new(false);
            let seen = std::thread::scope(|scope| {
                let executer = scope.spawn(move || {
                    let (entry, mut seen) = (function.entry(), BTreeSet::new());
                    while !over.load(Ordering::Relaxed) {
                        seen.extend((0..64).map(|_| entry()));
                    }
                    seen
                });
                for round in 0..toggles(300) as usize {
                    site.set(Switch::Off).unwrap();
                    site.set(Switch::On).unwrap();
                    if round % 8 == 0 {
                        // SAFETY: (1) a hook of the function, or its slot; (2) the function stays
                        // mapped.
                        unsafe { site.retarget(function.target(round / 8 % 2), &policy) }.unwrap();
                    }
                }
                over.store(true, Ordering::Relaxed);
                executer.join().unwrap()
            });
            assert!(seen.is_subset(&[1, 2, 3].into()), "{form:?} {role:?} at {at}: {seen:?}");
        }
    }
}
