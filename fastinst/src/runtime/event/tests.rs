//! The rules, on a block of its own for each test; and the stubs against the rules.

use super::*;
use crate::runtime::layout::{FRAME_COUNT, RING_COUNT};
use crate::runtime::{skip, stub};
use profiler::{Draw, Mode, Rest, Skip};
use std::sync::atomic::AtomicU64;

/// A stack pointer high on a stack that grows down.
const HIGH: u64 = 0x7000_0000_0000;

/// A thread with a block, and functions that nobody else has.
struct Stage {
    block: &'static Header,
    functions: Vec<Id>,
}

/// Addresses that no test has had.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(0x1000);

impl Stage {
    fn new(functions: usize, quota: u32, skip: Skip) -> Self {
        guest::prepare_tables().unwrap();
        guest::run_hooks();
        let new = || {
            let id = functions::add(NEXT_ADDRESS.fetch_add(16, Relaxed)).unwrap();
            modes::set(id, Mode::Sample(Draw { quota, skip, then: Rest::Count }));
            id
        };
        let functions = (0..functions).map(|_| new()).collect();
        // A thread of its own has a block of its own, which nobody takes while the test runs.
        let block = std::thread::spawn(|| match threads::caller() {
            Caller::Observed(block) => std::ptr::from_ref(block).addr(),
            Caller::Passing | Caller::Ours => unreachable!("a new thread is observed"),
        });
        // SAFETY: (1) blocks are never unmapped.
        let block: &Header = unsafe { &*std::ptr::with_exposed_provenance(block.join().unwrap()) };
        Self { block, functions }
    }

    fn enter(&self, function: usize, sp: u64) {
        enter_on(self.block, self.functions[function], sp);
    }

    fn exit(&self, function: usize, now: u64) {
        exit_on(self.block, self.functions[function], 0x77, now);
    }

    /// What lies in the ring: which function, how many timed calls inside, how long.
    fn samples(&self) -> Vec<(usize, u32, u64)> {
        let (tail, head) = (self.block.drained.tail.load(Relaxed), self.block.head.load(Relaxed));
        let read = |number| {
            let entry = self.block.entry(number);
            let id = Id::of_record(entry.ready.swap(0, Relaxed) - 1);
            let function = self.functions.iter().position(|&known| known == id).unwrap();
            (function, entry.nested.load(Relaxed), entry.ticks.load(Relaxed))
        };
        let samples = (tail..head).map(read).collect();
        self.block.drained.tail.store(head, Relaxed);
        samples
    }

    fn which(&self) -> Vec<usize> {
        self.samples().iter().map(|sample| sample.0).collect()
    }

    fn count(&self, function: usize) -> u64 {
        self.record(function).count.load(Relaxed)
    }

    fn record(&self, function: usize) -> &Record {
        self.block.record(self.functions[function].record()).unwrap()
    }

    fn is_armed(&self, function: usize) -> bool {
        modes::mode_is_sample(self.functions[function].function())
    }

    fn lost(&self) -> u32 {
        self.block.lost.load(Relaxed)
    }
}

#[test]
fn a_call_is_timed_from_its_enter_to_its_exit_with_what_lies_inside() {
    let stage = Stage::new(2, u32::MAX, Skip::None);
    let start = Ticks::now().0;
    stage.enter(0, HIGH);
    stage.enter(1, HIGH - 64);
    stage.exit(1, Ticks::now().0 + 1_000_000);
    stage.exit(0, Ticks::now().0 + 5_000_000);
    let children = stage.block.entry(1).children.load(Relaxed);
    let samples = stage.samples();
    let bound = Ticks::now().0 + 5_000_000 - start;
    assert_eq!((samples[0].0, samples[0].1, samples[1].0, samples[1].1), (1, 0, 0, 1));
    assert!(samples[0].2 >= 1_000_000 && samples[1].2 >= 5_000_000 && samples[1].2 < bound);
    assert_eq!((children, stage.count(0), stage.count(1)), (samples[0].2, 1, 1));
}

#[test]
fn what_longjmp_leaves_is_dropped_and_counted_as_lost() {
    let stage = Stage::new(3, u32::MAX, Skip::None);
    stage.enter(0, HIGH);
    stage.enter(1, HIGH - 100);
    stage.enter(2, HIGH - 200);
    // Back in function 0, which calls 1 again.
    stage.enter(1, HIGH - 90);
    assert_eq!(stage.lost(), 2);
    stage.exit(1, u64::MAX);
    stage.exit(0, u64::MAX);
    assert_eq!(stage.which(), [1, 0]);
    assert_eq!((stage.record(1).open.load(Relaxed), stage.record(2).open.load(Relaxed)), (0, 0));
}

#[test]
fn exits_pair_with_the_latest_enter_of_their_function() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    for sp in [HIGH, HIGH - 50, HIGH - 100] {
        stage.enter(0, sp);
    }
    for _ in 0..3 {
        stage.exit(0, u64::MAX);
    }
    // One exit too many: its enter was not seen.
    stage.exit(0, u64::MAX);
    assert_eq!(stage.samples().iter().map(|sample| sample.1).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_function_in_line_has_the_stack_pointer_of_its_caller() {
    let stage = Stage::new(2, u32::MAX, Skip::None);
    stage.enter(0, HIGH);
    stage.enter(1, HIGH);
    stage.exit(1, u64::MAX);
    stage.exit(0, u64::MAX);
    assert_eq!((stage.which(), stage.lost()), (vec![1, 0], 0));
}

#[test]
fn a_frame_of_an_older_term_never_pairs() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    stage.enter(0, HIGH);
    modes::set(stage.functions[0], Mode::Sample(Draw { quota: u32::MAX, skip: Skip::None, then: Rest::Count }));
    stage.enter(0, HIGH - 100);
    stage.exit(0, u64::MAX);
    stage.exit(0, u64::MAX);
    assert_eq!(stage.which().len(), 1);
}

#[test]
fn a_function_retires_when_its_quota_is_used_up_and_its_last_call_is_over() {
    let stage = Stage::new(1, 3, Skip::None);
    for depth in 0..5 {
        stage.enter(0, HIGH - depth * 10);
    }
    for _ in 0..4 {
        stage.exit(0, u64::MAX);
        assert!(stage.is_armed(0));
    }
    stage.exit(0, u64::MAX);
    assert!(!stage.is_armed(0));
    // Three of five were timed, the two inside were not; all were counted.
    assert_eq!((stage.which().len(), stage.count(0)), (3, 5));
    stage.enter(0, HIGH);
    stage.exit(0, u64::MAX);
    assert_eq!((stage.which().len(), stage.count(0)), (0, 6), "counted only");
}

#[test]
fn calls_that_never_return_do_not_keep_a_function_armed() {
    let stage = Stage::new(1, 2, Skip::None);
    let calls = (0..1000).take_while(|&call| {
        stage.enter(0, HIGH - call);
        stage.is_armed(0)
    });
    let calls = calls.count();
    assert!(calls > 2 && calls < 100, "{calls}");
}

#[test]
fn calls_left_out_while_one_is_open_leave_a_frame() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    stage.enter(0, HIGH);
    stage.record(0).skip.store(1, Relaxed);
    stage.enter(0, HIGH - 10);
    stage.exit(0, u64::MAX);
    assert_eq!(stage.which().len(), 0, "the one inside was left out");
    stage.exit(0, u64::MAX);
    assert_eq!(stage.which().len(), 1);
}

#[test]
fn a_full_stack_heals_or_loses_and_never_grows() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let deep = FRAME_COUNT as u64 * 2;
    for depth in 0..deep {
        stage.enter(0, HIGH - depth);
    }
    assert_eq!(stage.count(0), deep);
    assert!(stage.lost() as u64 >= deep - FRAME_COUNT as u64);
    stage.enter(0, HIGH + 1);
    assert_eq!((depth(stage.block), stage.record(0).open.load(Relaxed)), (2, 1));
}

#[test]
fn a_ring_that_is_full_leaves_a_place_for_those_who_looked_before_the_last_was_taken() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let calls = RING_COUNT as u64;
    for _ in 0..calls {
        stage.enter(0, HIGH);
        stage.exit(0, u64::MAX);
    }
    let taken = stage.block.head.load(Relaxed) - stage.block.drained.tail.load(Relaxed);
    assert!(taken < RING_COUNT as u64 && !has_room(stage.block), "{taken}");
    assert_eq!((stage.count(0), u64::from(stage.lost())), (calls, calls - taken));
    // One that has looked is interrupted by another.
    stage.block.head.fetch_add(1, Relaxed);
    assert_eq!(stage.block.entry(stage.block.head.load(Relaxed)).ready.load(Relaxed), 0, "nothing is written over");
}

#[test]
fn a_recursion_as_deep_as_a_stack_is_timed_whole() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let deep = 200_000;
    (0..deep).for_each(|depth| stage.enter(0, HIGH - 32 * depth));
    let timed = (0..deep).map(|_| {
        stage.exit(0, u64::MAX);
        stage.which().len()
    });
    assert_eq!((timed.sum::<usize>(), stage.lost()), (deep as usize, 0));
}

#[test]
fn an_event_that_interrupts_another_changes_nothing_but_the_common_count() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let id = stage.functions[0];
    let mut ran = false;
    guarded(
        stage.block,
        HIGH,
        || unreachable!("nothing was interrupted"),
        || {
            guarded(stage.block, HIGH - 100, || count_late(id), || ran = true);
        },
    );
    assert_eq!((ran, id.function().late.load(Relaxed), stage.block.busy.load(Relaxed)), (false, 1, 0));
    // One that was left by longjmp does not count as interrupted.
    stage.block.busy.store(HIGH - 100, Relaxed);
    guarded(stage.block, HIGH, || unreachable!("the other was left"), || ran = true);
    assert!(ran);
}

/// Calls a stub as a trampoline does, on the calling thread.
fn call(stub: extern "C" fn(), id: Id) {
    // SAFETY: (1) a stub changes what a call may change; (2) the registers are what a trampoline gives it.
    unsafe {
        std::arch::asm!("call {stub}", stub = in(reg) stub as usize, in("rdi") id.function().address.load(Relaxed),
            in("rsi") 0x77u64, in("r10") u64::from(NO_SITE), in("r11") u64::from(id.record()), clobber_abi("C"));
    }
}

#[test]
fn the_stubs_do_what_the_rules_say() {
    let stage = Stage::new(4, u32::MAX, Skip::None);
    let functions = stage.functions.clone();
    let mut random = 1u64;
    let mut script = Vec::new();
    for _ in 0..3000 {
        random = random.wrapping_mul(MULTIPLIER).wrapping_add(1);
        script.push(((random >> 40) as usize % 4, (random >> 50) % 5 < 2));
    }
    // The same events through the stubs, on a thread of its own, whose first events prepare its records.
    let by_stubs = {
        let script = script.clone();
        std::thread::spawn(move || {
            let Caller::Observed(block) = threads::caller() else { unreachable!("a new thread is observed") };
            let stage = Stage { block, functions };
            for &id in &stage.functions {
                let record = record_of(block, id, id.function()).unwrap();
                begin_term(block, record, id.function());
            }
            run(
                &stage,
                &script,
                |stage, function| call(stub::time_enter, stage.functions[function]),
                |stage, function| {
                    call(stub::time_exit, stage.functions[function]);
                },
            )
        })
    };
    let by_stubs = by_stubs.join().unwrap();
    let by_rules = run(
        &stage,
        &script,
        |stage, function| stage.enter(function, HIGH),
        |stage, function| {
            stage.exit(function, Ticks::now().0);
        },
    );
    assert!(by_rules.0.len() > 500);
    assert_eq!(by_stubs, by_rules);
}

#[test]
fn exits_of_a_site_that_functions_share_end_the_call_of_the_function_that_the_hook_is_told() {
    let stage = Stage::new(2, u32::MAX, Skip::None);
    let functions = stage.functions.clone();
    let (owners, cell) = Owners::new().unwrap();
    functions.iter().for_each(|&id| owners.add(id));
    assert!(functions.iter().all(|id| owners.has(id.function().address.load(Relaxed))) && owners.has_room());
    assert!(std::ptr::eq(Owners::of_cell(cell as usize).unwrap(), owners));
    let exit = move |id: Id, cell: u32| {
        // SAFETY: (1) a stub changes what a call may change; (2) the registers are what the trampoline of a shared site gives it.
        unsafe {
            std::arch::asm!("call {stub}", stub = in(reg) stub::shared_exit as *const () as usize,
                in("rdi") id.function().address.load(Relaxed), in("rsi") 0x77u64, in("r10") u64::from(NO_SITE),
                in("r11") u64::from(cell), clobber_abi("C"));
        }
    };
    let timed = std::thread::spawn(move || {
        let Caller::Observed(block) = threads::caller() else { unreachable!("a new thread is observed") };
        let stage = Stage { block, functions };
        for &id in &stage.functions {
            begin_term(block, record_of(block, id, id.function()).unwrap(), id.function());
        }
        let [outer, inner] = [stage.functions[0], stage.functions[1]];
        call(stub::time_enter, outer);
        call(stub::time_enter, inner);
        exit(inner, cell);
        exit(outer, cell);
        let by_owners = stage.which();
        // A cell that was loaded before the site was shared: the slow path finds the function.
        call(stub::time_enter, outer);
        exit(outer, inner.record());
        (by_owners, stage.which())
    });
    assert_eq!(timed.join().unwrap(), (vec![1, 0], vec![0]));
}

/// Plays a script; returns which functions were timed, with how much inside, and the counts.
fn run(
    stage: &Stage,
    script: &[(usize, bool)],
    enter: impl Fn(&Stage, usize),
    exit: impl Fn(&Stage, usize),
) -> (Vec<(usize, u32)>, Vec<u64>) {
    let mut samples = Vec::new();
    for &(function, enters) in script {
        let full = depth(stage.block) > FRAME_COUNT - 10;
        if enters && !full {
            enter(stage, function);
        } else {
            exit(stage, function);
        }
        samples.extend(stage.samples().iter().map(|&(function, nested, _)| (function, nested)));
    }
    (samples, (0..stage.functions.len()).map(|function| stage.count(function)).collect())
}

#[test]
fn a_stub_leaves_out_as_many_calls_as_it_draws() {
    let stage = Stage::new(1, u32::MAX, Skip::Geometric { mean: 10.0 });
    let id = stage.functions[0];
    let timed = std::thread::spawn(move || {
        let Caller::Observed(block) = threads::caller() else { unreachable!("a new thread is observed") };
        let record = record_of(block, id, id.function()).unwrap();
        begin_term(block, record, id.function());
        let stage = Stage { block, functions: vec![id] };
        let samples = (0..110_000).map(|_| {
            call(stub::time_enter, id);
            call(stub::time_exit, id);
            stage.samples().len()
        });
        (samples.sum::<usize>(), stage.count(0))
    });
    let (timed, count) = timed.join().unwrap();
    assert_eq!(count, 110_000);
    assert!((9_300..10_700).contains(&timed), "{timed}");
    let _ = skip::table_for(10.0);
}

#[test]
fn the_counting_stub_counts() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let id = stage.functions[0];
    modes::set(id, Mode::Count);
    let count = std::thread::spawn(move || {
        let Caller::Observed(block) = threads::caller() else { unreachable!("a new thread is observed") };
        let record = record_of(block, id, id.function()).unwrap();
        (0..1000).for_each(|_| call(stub::count, id));
        record.count.load(Relaxed)
    });
    assert_eq!(count.join().unwrap(), 1000);
}
