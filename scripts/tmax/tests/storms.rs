//! The range shows a failure of a wrong protocol, and none of a correct one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tmax::storm::{
    Action, Adversary, Budget, Counts, Face, Outcome, Placement, Protocol, Shape, Storm, Target,
};
use wordpatch::protocol::Step;
use wordpatch::{Barrier, FetchOrder, Ticks};

/// Storms take turns, since two at once would share processors.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A storm; without a second processor, `None` and a message.
fn storm(adversary: Adversary) -> Option<Storm> {
    match Storm::new() {
        Ok(storm) if adversary.is_possible() => Some(storm.adversary(adversary)),
        Ok(_) => {
            eprintln!("SKIPPED: no CLFLUSHOPT on this processor");
            None
        }
        Err(reason) => {
            test_support::skip(&reason.to_string());
            None
        }
    }
}

fn target(shape: Shape, boundary: usize, before: usize) -> Target {
    Target::new(shape, Placement::Astride { boundary, before }).unwrap()
}

fn follow(storm: &Storm, protocol: &Protocol, target: &Target, budget: Budget) -> Counts {
    let prepared = protocol.ready(target).unwrap();
    let counts = storm.run(target, budget, |to| prepared.toggle(to).unwrap()).unwrap();
    assert_eq!(target.try_out(), Outcome::Old, "a storm ends on the old face");
    counts
}

/// A limit by the first tear, or by a longer time than one ever took.
fn until_torn() -> Budget {
    Budget::toggles(20_000_000).within(Duration::from_secs(20)).until_torn(1)
}

#[test]
fn an_unprotected_store_across_a_line_is_seen_torn() {
    let _turn = turn();
    for adversary in
        [Adversary::None, Adversary::DirtyBack, Adversary::FlushBack, Adversary::FlushBoth]
    {
        for shape in Shape::ALL {
            let Some(storm) = storm(adversary) else { continue };
            let target = target(shape, 64, 3);
            let counts = follow(&storm, &Protocol::unprotected(), &target, until_torn());
            assert!(
                counts.torn > 0,
                "{adversary:?} {shape:?}: {} toggles and nothing torn",
                counts.counted
            );
            let directions = counts.log.directions;
            assert!(directions.stale_front + directions.stale_back + directions.scattered > 0);
        }
    }
}

#[test]
fn an_unprotected_store_across_a_page_is_seen_torn() {
    let _turn = turn();
    let Some(storm) = storm(Adversary::FlushBack) else { return };
    let target = target(Shape::Move, 4096, 2);
    assert!(follow(&storm, &Protocol::unprotected(), &target, until_torn()).torn > 0);
}

#[test]
fn a_trap_without_a_wait_is_seen_torn() {
    let _turn = turn();
    let Some(storm) = storm(Adversary::FlushBack) else { return };
    let target = target(Shape::Move, 64, 2);
    let counts = follow(&storm, &Protocol::no_wait(), &target, until_torn());
    assert!(counts.torn > 0, "{} toggles and nothing torn", counts.counted);
}

#[test]
fn a_back_without_its_front_is_no_face() {
    let _turn = turn();
    let Some(storm) = storm(Adversary::None) else { return };
    let target = target(Shape::Move, 64, 2);
    let halves = Protocol::new([
        Action::Store(Step::Back),
        Action::Wait(Barrier::Wait(Ticks(2_000))),
        Action::Store(Step::Front),
    ]);
    let counts =
        follow(&storm, &halves, &target, Budget::toggles(2_000).within(Duration::from_secs(10)));
    assert!(counts.torn > counts.counted / 2, "{} of {}", counts.torn, counts.counted);
    assert!(
        counts.log.directions.stale_front > counts.log.directions.stale_back,
        "{:?}",
        counts.log.directions
    );
}

#[test]
fn a_store_within_a_quadword_is_never_torn() {
    let _turn = turn();
    for adversary in Adversary::ALL {
        let Some(storm) = storm(adversary) else { continue };
        let target = Target::new(Shape::Immediate, Placement::InLine(24)).unwrap();
        let budget = Budget::toggles(30_000).within(Duration::from_secs(2));
        let counts = storm.burst(8).run(&target, budget, |to| target.store_whole(to)).unwrap();
        assert_eq!(
            (counts.torn, counts.log.wrong()),
            (0, 0),
            "{adversary:?}: {:?}",
            counts.log.torn
        );
        assert!(
            counts.log.count(Outcome::Old) > 0 && counts.log.count(Outcome::New) > 0,
            "{adversary:?}"
        );
    }
}

/// One barrier after the trap suffices if fetch reads upwards. On other processors a new front may
/// be executed with an old back: on an Intel processor once in thirty thousand toggles.
#[test]
fn barriers_keep_words_whole() {
    let _turn = turn();
    if Barrier::Membarrier.prepare().is_err() {
        eprintln!("SKIPPED: no membarrier here");
        return;
    }
    for (shape, before) in [
        (Shape::Move, 1),
        (Shape::Call, 4),
        (Shape::Pair, 3),
        (Shape::Pair, 6),
        (Shape::Immediate, 5),
    ] {
        let Some(storm) = storm(Adversary::FlushBack) else { return };
        // The immediate's instruction begins before the word: a trap byte in its middle is not
        // executed as one.
        let protocol = match shape {
            Shape::Immediate => continue,
            _ => match FetchOrder::of_this_processor() {
                FetchOrder::Upwards => Protocol::one_wait(Barrier::Membarrier),
                FetchOrder::Any => Protocol::two_waits(Barrier::Membarrier),
            },
        };
        let target = target(shape, 64, before);
        let counts = follow(
            &storm,
            &protocol,
            &target,
            Budget::toggles(2_000).within(Duration::from_secs(2)),
        );
        assert_eq!(
            (counts.torn, counts.log.wrong()),
            (0, 0),
            "{shape:?} {before}: {:?}",
            counts.log.torn
        );
    }
}

#[test]
fn several_executers_run_several_targets() {
    let _turn = turn();
    let Some(storm) = storm(Adversary::None) else { return };
    let targets: Vec<Target> = (1..5).map(|before| target(Shape::Call, 64, before)).collect();
    let all: Vec<&Target> = targets.iter().collect();
    let budget = Budget::toggles(2_000).within(Duration::from_secs(5));
    let opcode_only = |to| {
        all.iter().for_each(|target| target.store(0, wordpatch::live::Width::One, off_or_on(to)));
    };
    let counts = storm.executers(3).run_all(&all, budget, opcode_only).unwrap();
    // One byte changes: the outcome is a call or none, and never another.
    assert_eq!(counts.log.wrong(), 0, "{:?}", counts.log.torn);
    assert!(counts.log.count(Outcome::Off) > 0 && counts.log.count(Outcome::Old) > 0);
}

/// `call rel32` or `test eax, imm32`.
fn off_or_on(to: Face) -> u64 {
    match to {
        Face::Old => 0xe8,
        Face::New => 0xa9,
    }
}

#[test]
fn a_method_that_panics_ends_the_storm() {
    let _turn = turn();
    let Some(storm) = storm(Adversary::Preemption) else { return };
    let target = target(Shape::Move, 64, 2);
    let trap = Protocol::new([Action::Store(Step::Trap)]).ready(&target).unwrap();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        storm.run(&target, Budget::toggles(10), |to| {
            trap.toggle(to).unwrap();
            panic!("in the middle of a toggle");
        })
    }));
    assert!(ended.is_err());
}
