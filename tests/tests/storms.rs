//! Patches while other threads execute, for seconds; `paper storms` does it for an hour. Every
//! mixture of old and new bytes has a distinct outcome, so no tear is missed.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use tmax::storm::{Adversary, Budget, Counts, Placement, Protocol, Shape, Storm, Target};
use wordpatch::{FetchOrder, Granule, PatchSite, Policy};

/// The toggles in each cell.
const TOGGLES: u64 = 150;

/// The conditions of a storm; without a second processor, `None` and a message.
fn storm() -> Option<Storm> {
    match Storm::new() {
        Ok(storm) => Some(storm),
        Err(reason) => {
            test_support::skip(&reason.to_string());
            None
        }
    }
}

/// Toggles a target through the public interface.
fn patches(storm: &Storm, target: &Target, policy: &Policy, toggles: u64) -> Counts {
    let shape = target.shape();
    // SAFETY: (1) the target outlives the site; (2) to (4): its words begin with an instruction and
    // share their layout, and no other code writes to them.
    let site =
        unsafe { PatchSite::adopt(target.word_at(), shape.len(), shape.layout(), policy) }.unwrap();
    // SAFETY: (1) a face of the target's shape.
    let patch = |face| unsafe { site.patch(shape.word(face)) }.unwrap();
    storm.run(target, Budget::toggles(toggles), patch).unwrap()
}

/// One storm at a time: each needs the processors for itself.
fn alone() -> MutexGuard<'static, ()> {
    static STORMS: Mutex<()> = Mutex::new(());
    STORMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Storms over all placements and adversaries; prints the number of toggles during which a thread
/// was observed to execute.
fn storm_everywhere(shape: Shape, places: &[Placement], policy: &Policy) {
    let _alone = alone();
    let Some(storm) = storm() else { return };
    let mut total = Counts::default();
    for adversary in Adversary::ALL.into_iter().filter(|adversary| adversary.is_possible()) {
        for &place in places {
            let target = Target::new(shape, place).unwrap();
            let counts = patches(&storm.clone().adversary(adversary), &target, policy, TOGGLES);
            assert_eq!(counts.torn, 0, "{shape:?} {place:?} {adversary:?}: {:?}", counts.log.torn);
            total.add(&counts);
        }
    }
    println!(
        "{shape:?}: {} toggles beside {} executions, none torn",
        total.counted,
        total.log.executions()
    );
    assert!(total.counted > 0 && total.log.executions() > total.counted);
}

fn lines_and_pages(shape: Shape) -> Vec<Placement> {
    let cuts =
        |boundary| (1..shape.len()).map(move |before| Placement::Astride { boundary, before });
    cuts(64).chain(cuts(4096)).collect()
}

#[test]
fn a_move_is_never_torn_at_any_offset() {
    let offsets: Vec<Placement> = (0..64).step_by(3).map(Placement::InLine).collect();
    storm_everywhere(Shape::Move, &offsets, &Policy::new().unwrap());
}

#[test]
fn a_call_is_never_torn_across_lines_and_pages() {
    storm_everywhere(Shape::Call, &lines_and_pages(Shape::Call), &Policy::new().unwrap());
}

#[test]
fn two_instructions_in_one_word_are_never_torn() {
    storm_everywhere(Shape::Pair, &lines_and_pages(Shape::Pair), &Policy::new().unwrap());
}

#[test]
fn the_longer_protocol_and_the_signal_barrier_are_never_torn() {
    let policy = Policy::new().unwrap();
    wordpatch::Barrier::Signal.prepare().unwrap();
    let places = [Placement::Astride { boundary: 64, before: 2 }];
    storm_everywhere(Shape::Move, &places, &Policy { order: FetchOrder::Any, ..policy });
    storm_everywhere(
        Shape::Move,
        &places,
        &Policy { barrier: wordpatch::Barrier::Signal, ..policy },
    );
}

#[test]
fn without_the_barrier_the_same_harness_reports_tears() {
    let _alone = alone();
    let Some(storm) = storm() else { return };
    let storm = storm.adversary(if Adversary::FlushBack.is_possible() {
        Adversary::FlushBack
    } else {
        Adversary::DirtyBack
    });
    let tears = (1..Shape::Move.len()).map(|before| {
        let target = Target::new(Shape::Move, Placement::Astride { boundary: 64, before }).unwrap();
        let budget = Budget::toggles(2_000_000).until_torn(1);
        let prepared = Protocol::no_wait().ready(&target).unwrap();
        storm.run(&target, budget, |face| prepared.toggle(face).unwrap()).unwrap().torn
    });
    assert!(
        tears.sum::<u64>() > 0,
        "nothing was torn without a barrier: the storms prove nothing on this machine"
    );
}

#[test]
fn a_cache_line_is_too_large_a_granule_for_the_same_harness() {
    let _alone = alone();
    let Some(storm) = storm() else { return };
    // The literature's granule, where it is wrong: a store across two lines.
    let target =
        Target::new(Shape::Immediate, Placement::Astride { boundary: 64, before: 3 }).unwrap();
    assert!(Granule::LINE.cut(target.word_at(), target.shape().len()).is_some());
    // A hypervisor may keep one of both processors for itself for as long as a run takes.
    let tears = |_| {
        let budget = Budget::toggles(2_000_000).until_torn(1);
        storm.run(&target, budget, |face| target.store_whole(face)).unwrap().torn > 0
    };
    assert!(
        (0..10).any(tears),
        "a store across two lines was never torn: the storms prove nothing on this machine"
    );
}
