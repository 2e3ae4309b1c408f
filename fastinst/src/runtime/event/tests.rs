//! The rules, on a block of its own for each test; and the stubs against the rules.

use super::*;
use crate::runtime::layout::{FRAME_COUNT, RING_COUNT};
use crate::runtime::thread_sums::News;
use crate::runtime::{clock, measure, skip, stub};
use profiler::{Draw, Mode, Rest, Skip};
use std::sync::atomic::AtomicU64;

/// A stack pointer high on a stack that grows down.
const HIGH: u64 = 0x7000_0000_0000;

/// A thread without a signal stack.
const NO_SIGNALS: &SignalStack = &SignalStack(0..0);

/// A thread with a block, and functions that no other thread has.
struct Stage {
    block: &'static Header,
    functions: Vec<Id>,
}

/// Addresses that no test has had.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(0x1000);

impl Stage {
    fn new(functions: usize, quota: u32, skip: Skip) -> Self {
        target::prepare_tables().unwrap();
        target::activate_hooks_in_test();
        // As they are measured on some machine, and the same for all tests: the rules and the stubs
        // take them off.
        PAIR.store(70, Relaxed);
        BIAS.store(40, Relaxed);
        let new = || {
            let id = functions::add(NEXT_ADDRESS.fetch_add(16, Relaxed)).unwrap();
            modes::set(id, Mode::Sample(Draw { quota, skip, then: Rest::Count }));
            id
        };
        let functions = (0..functions).map(|_| new()).collect();
        // A thread of its own has a block of its own, which no other thread takes while the test
        // runs.
        let block = std::thread::spawn(|| match threads::caller() {
            Caller::Observed(block) => std::ptr::from_ref(block).addr(),
            Caller::Passing | Caller::Ours => unreachable!("a new thread is observed"),
        });
        // SAFETY: (1) blocks are never unmapped.
        let block: &Header = unsafe { &*std::ptr::with_exposed_provenance(block.join().unwrap()) };
        Self { block, functions }
    }

    fn enter(&self, function: usize, sp: u64) {
        enter_on(self.block, self.functions[function], (sp, NO_SIGNALS), sp, Ticks::now().0);
    }

    fn exit(&self, function: usize, now: u64) {
        exit_on(self.block, self.functions[function], 0x77, now);
    }

    /// What lies in the ring: which function, whether no other call of it was open around it, how
    /// long it took.
    fn samples(&self) -> Vec<(usize, bool, u64)> {
        self.done()
            .into_iter()
            .map(|(function, done)| (function, done.outermost, done.ticks))
            .collect()
    }

    fn done(&self) -> Vec<(usize, drain::Done)> {
        let (mut batch, mut all) = ([drain::Done::default(); drain::BATCH], Vec::new());
        loop {
            let taken = drain::take_entries(self.block, &mut batch);
            all.extend(
                batch[..taken].iter().map(|done| (self.number(Id::of_record(done.record)), *done)),
            );
            if taken == 0 {
                return all;
            }
        }
    }

    fn number(&self, id: Id) -> usize {
        self.functions.iter().position(|&known| known == id).unwrap()
    }

    /// What the thread has added up itself since the last time, by function.
    fn sums(&self) -> Vec<(usize, profiler::SummedCalls)> {
        let taken = self.functions.iter().filter_map(|&id| {
            let mut summed = profiler::SummedCalls::default();
            let taken = thread_sums::take_sums(self.block, id, News::Marked, &mut summed);
            taken.then(|| (self.number(id), summed))
        });
        taken.collect()
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
    let done = stage.done();
    let (inner, outer) = (done[0].1, done[1].1);
    let bound = Ticks::now().0 + 5_000_000 - start;
    assert_eq!((done[0].0, done[1].0, inner.outermost, outer.outermost), (1, 0, true, true));
    assert!(inner.ticks >= 1_000_000 && outer.ticks >= 5_000_000 && outer.ticks < bound);
    let bias = BIAS.load(Relaxed);
    assert_eq!((outer.children, inner.children), (inner.ticks - bias, 0));
    assert_eq!((stage.count(0), stage.count(1)), (1, 1));
}

#[test]
fn a_call_takes_no_less_than_what_it_called() {
    let stage = Stage::new(2, u32::MAX, Skip::None);
    let start = Ticks::now().0;
    stage.enter(0, HIGH);
    stage.enter(1, HIGH - 64);
    stage.exit(1, start + 1_000_000);
    // More was hidden than has passed.
    stage.block.hidden.fetch_add(5_000_000, Relaxed);
    stage.exit(0, start + 1_000_100);
    let done = stage.done();
    assert_eq!(done[1].1.ticks, done[1].1.children + BIAS.load(Relaxed));
    assert_eq!(done[1].1.children, done[0].1.ticks - BIAS.load(Relaxed));
}

#[test]
fn time_that_an_event_takes_is_hidden_from_the_calls_around_it() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let start = Ticks::now().0;
    stage.enter(0, HIGH);
    let before = stage.block.hidden.load(Relaxed);
    guarded(
        stage.block,
        (HIGH - 64, NO_SIGNALS),
        start,
        || unreachable!("nothing was interrupted"),
        || Ticks::spin(Ticks(2_000_000)),
    );
    assert!(stage.block.hidden.load(Relaxed) - before >= 2_000_000);
    stage.exit(0, Ticks::now().0);
    assert!(stage.done()[0].1.ticks <= Ticks::now().0 - start - 2_000_000 + BIAS.load(Relaxed));
}

#[test]
fn an_event_that_waits_for_a_processor_takes_no_more_of_the_programs_work_than_any_other() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let hooks = || clock::hooks_of(stage.block, &measure::known_costs());
    let (start, before) = (Ticks::now().0, hooks());
    let act = || Ticks::spin(Ticks(2_000_000));
    guarded(
        stage.block,
        (HIGH - 64, NO_SIGNALS),
        start,
        || unreachable!("nothing was interrupted"),
        act,
    );
    assert!((hooks() - before) <= LONGEST as f64, "{}", hooks() - before);
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
    assert_eq!(
        stage.samples().iter().map(|sample| sample.1).collect::<Vec<_>>(),
        [false, false, true]
    );
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
    modes::set(
        stage.functions[0],
        Mode::Sample(Draw { quota: u32::MAX, skip: Skip::None, then: Rest::Count }),
    );
    stage.enter(0, HIGH - 100);
    stage.exit(0, u64::MAX);
    stage.exit(0, u64::MAX);
    assert_eq!(stage.which().len(), 1);
}

const EVERY_CALL: Mode =
    Mode::Sample(Draw { quota: u32::MAX, skip: Skip::None, then: Rest::Count });

#[test]
fn a_call_whose_exit_was_switched_off_does_not_end_with_a_later_one() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    for off in [Mode::Off, Mode::Count] {
        stage.enter(0, HIGH);
        modes::set(stage.functions[0], off);
        modes::set(stage.functions[0], EVERY_CALL);
        // Exits are on before enters: a call that is in progress then ends first.
        stage.exit(0, u64::MAX);
        assert_eq!(stage.which().len(), 0, "{off:?}");
        stage.enter(0, HIGH);
        stage.exit(0, u64::MAX);
        assert_eq!(stage.which().len(), 1, "{off:?}");
    }
}

#[test]
fn passes_and_captured_calls_whose_ends_were_switched_off_do_not_end_with_a_later_one() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let id = stage.functions[0];
    let off_and_on = || {
        modes::set(id, Mode::Off);
        modes::set(id, EVERY_CALL);
    };
    let now = Ticks::now().0;
    points::begin_on(stage.block, id, now);
    off_and_on();
    points::end_on(stage.block, id, now + 1000);
    assert_eq!(stage.which().len(), 0);
    points::begin_on(stage.block, id, now);
    points::end_on(stage.block, id, now + 1000);
    assert_eq!(stage.which().len(), 1);
    points::open(stage.block, id, (HIGH, 3), now);
    off_and_on();
    assert_eq!(points::close(stage.block, id, HIGH, now + 1000), None);
    points::open(stage.block, id, (HIGH, 4), now);
    assert_eq!(points::close(stage.block, id, HIGH, now + 1000).map(|call| call.0), Some(4));
}

#[test]
fn a_call_longer_than_a_term_is_timed_while_its_probes_stay_on() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    stage.enter(0, HIGH);
    modes::set(stage.functions[0], EVERY_CALL);
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
fn a_thread_whose_ring_is_full_adds_its_calls_up_itself() {
    let stage = Stage::new(2, u32::MAX, Skip::None);
    let calls = 10 * RING_COUNT as u64;
    for call in 0..calls {
        stage.enter(0, HIGH);
        stage.enter(1, HIGH - 8);
        stage.exit(1, Ticks::now().0 + call);
        stage.exit(0, Ticks::now().0 + 100_000);
    }
    let (sums, left) = (stage.sums(), stage.done());
    for (function, (told, summed)) in sums.iter().enumerate() {
        let rest: Vec<&drain::Done> =
            left.iter().filter(|done| done.0 == function).map(|done| &done.1).collect();
        assert_eq!((*told, summed.calls + rest.len() as u64), (function, calls));
        assert_eq!(summed.buckets.iter().map(|bucket| bucket.1).sum::<u64>(), summed.calls);
        assert_eq!(
            summed.arcs.iter().filter(|arc| arc.1 > 0).collect::<Vec<_>>(),
            [&(0x77, summed.calls, summed.ticks)]
        );
        assert_eq!(summed.outermost, (summed.calls, summed.ticks));
        let longest = summed.buckets.iter().map(|bucket| bucket.0).max().unwrap();
        let shortest = summed.buckets.iter().map(|bucket| bucket.0).min().unwrap();
        assert_eq!(
            (profiler::bucket(summed.max), profiler::bucket(summed.min)),
            (longest, shortest)
        );
    }
    assert_eq!((stage.lost(), stage.sums().len()), (0, 0), "what was taken is not taken again");
    let children: u64 = sums[0].1.children
        + left.iter().filter(|done| done.0 == 0).map(|done| done.1.children).sum::<u64>();
    let inner: u64 = sums[1].1.ticks
        + left.iter().filter(|done| done.0 == 1).map(|done| done.1.ticks).sum::<u64>();
    assert_eq!(children, inner - calls * BIAS.load(Relaxed));
}

#[test]
fn calls_from_more_places_than_there_are_tables_for_are_added_up_together() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let done = |call_site| drain::Done {
        record: stage.functions[0].record(),
        outermost: true,
        ticks: 50,
        children: 0,
        call_site,
    };
    thread_sums::folding(stage.block, || {
        (0..100).for_each(|site| thread_sums::fold(stage.block, &done(site % 50 * 16)));
    });
    let arcs = stage.sums().remove(0).1.arcs;
    // Of the fifty one is none, and thirty-four are distinguished.
    assert_eq!((arcs.len(), arcs[0]), (35, (0, 32, 1600)));
    assert!(arcs[1..].iter().enumerate().all(|(at, arc)| *arc == (16 * (at as u64 + 1), 2, 100)));
}

#[test]
fn a_place_that_is_never_filled_holds_nothing_up_for_good() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    // A stub that has taken it was left by longjmp.
    stage.block.head.fetch_add(1, Relaxed);
    for _ in 0..3 * RING_COUNT {
        stage.enter(0, HIGH);
        stage.exit(0, u64::MAX);
    }
    let calls =
        stage.sums().iter().map(|summed| summed.1.calls).sum::<u64>() + stage.done().len() as u64;
    assert_eq!((calls, stage.lost()), (3 * RING_COUNT as u64, 1));
}

#[test]
fn what_is_filled_while_a_consumer_is_interrupted_is_not_abandoned() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let calls = RING_COUNT as u64 * 3 / 4;
    let mut batch = [drain::Done::default(); drain::BATCH];
    // It sees that the first entry is not filled, and goes on when most of the ring is.
    let taken = drain::take_while(stage.block, &mut batch, || {
        for _ in 0..calls {
            stage.enter(0, HIGH);
            stage.exit(0, u64::MAX);
        }
    });
    assert_eq!((taken, stage.done().len() as u64, stage.lost()), (0, calls, 0));
}

#[test]
fn two_threads_that_empty_a_ring_take_every_entry_once() {
    let stage = Stage::new(1, u32::MAX, Skip::None);
    let calls = 50 * RING_COUNT as u64;
    let block: &'static Header = stage.block;
    let over = std::sync::atomic::AtomicBool::new(false);
    let (elsewhere, _) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (mut batch, mut all) = ([drain::Done::default(); drain::BATCH], 0);
            while !over.load(Relaxed) {
                all += drain::take_entries(block, &mut batch) as u64;
            }
            all
        });
        for _ in 0..calls {
            stage.enter(0, HIGH);
            stage.exit(0, Ticks::now().0);
        }
        over.store(true, Relaxed);
        (other.join().unwrap(), ())
    });
    let own: u64 = stage.sums().iter().map(|summed| summed.1.calls).sum();
    assert_eq!((elsewhere + own + stage.done().len() as u64, stage.lost()), (calls, 0));
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
        (HIGH, NO_SIGNALS),
        Ticks::now().0,
        || unreachable!("nothing was interrupted"),
        || {
            guarded(
                stage.block,
                (HIGH - 100, NO_SIGNALS),
                Ticks::now().0,
                || count_late(id),
                || ran = true,
            );
        },
    );
    assert_eq!(
        (ran, id.function().late.load(Relaxed), stage.block.busy.load(Relaxed)),
        (false, 1, 0)
    );
    // One that was left by longjmp does not count as interrupted.
    stage.block.busy.store(HIGH - 100, Relaxed);
    guarded(
        stage.block,
        (HIGH, NO_SIGNALS),
        Ticks::now().0,
        || unreachable!("the other was left"),
        || ran = true,
    );
    assert!(ran);
}

/// Calls a stub as a trampoline does, on the calling thread.
fn call(stub: extern "C" fn(), id: Id) {
    // SAFETY: (1) a stub changes what a call may change; (2) the registers are what a trampoline
    // gives it.
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
        let step = match (random >> 50) % 32 {
            0 => Step::OffAndOn,
            1..13 => Step::Enter,
            _ => Step::Exit,
        };
        script.push(((random >> 40) as usize % 4, step));
    }
    // The same events through the stubs, on a thread of its own, whose first events prepare its
    // records.
    let by_stubs = {
        let script = script.clone();
        std::thread::spawn(move || {
            let Caller::Observed(block) = threads::caller() else {
                unreachable!("a new thread is observed")
            };
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
    assert!(
        functions.iter().all(|id| owners.has(id.function().address.load(Relaxed)))
            && owners.has_room()
    );
    assert!(std::ptr::eq(Owners::of_cell(cell as usize).unwrap(), owners));
    let exit = move |id: Id, cell: u32| {
        // SAFETY: (1) a stub changes what a call may change; (2) the registers are what the
        // trampoline of a shared site gives it.
        unsafe {
            std::arch::asm!("call {stub}", stub = in(reg) stub::shared_exit as *const () as usize,
                in("rdi") id.function().address.load(Relaxed), in("rsi") 0x77u64, in("r10") u64::from(NO_SITE),
                in("r11") u64::from(cell), clobber_abi("C"));
        }
    };
    let timed = std::thread::spawn(move || {
        let Caller::Observed(block) = threads::caller() else {
            unreachable!("a new thread is observed")
        };
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

/// What a script does to a function.
#[derive(Clone, Copy)]
enum Step {
    Enter,
    Exit,
    OffAndOn,
}

/// Plays a script; returns which functions were timed, whether as the outermost call, and the
/// counts. Every call takes the bias and what it called at least.
fn run(
    stage: &Stage,
    script: &[(usize, Step)],
    enter: impl Fn(&Stage, usize),
    exit: impl Fn(&Stage, usize),
) -> (Vec<(usize, bool)>, Vec<u64>) {
    let mut samples = Vec::new();
    for &(function, step) in script {
        let full = depth(stage.block) > FRAME_COUNT - 10;
        match step {
            Step::OffAndOn => {
                modes::set(stage.functions[function], Mode::Off);
                modes::set(stage.functions[function], EVERY_CALL);
            }
            Step::Enter if !full => enter(stage, function),
            Step::Enter | Step::Exit => exit(stage, function),
        }
        for (function, done) in stage.done() {
            assert!(done.ticks >= done.children + BIAS.load(Relaxed) && done.call_site == 0x77);
            samples.push((function, done.outermost));
        }
    }
    (samples, (0..stage.functions.len()).map(|function| stage.count(function)).collect())
}

#[test]
fn a_stub_leaves_out_as_many_calls_as_it_draws() {
    let stage = Stage::new(1, u32::MAX, Skip::Geometric { mean: 10.0 });
    let id = stage.functions[0];
    let timed = std::thread::spawn(move || {
        let Caller::Observed(block) = threads::caller() else {
            unreachable!("a new thread is observed")
        };
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
        let Caller::Observed(block) = threads::caller() else {
            unreachable!("a new thread is observed")
        };
        let record = record_of(block, id, id.function()).unwrap();
        (0..1000).for_each(|_| call(stub::count, id));
        record.count.load(Relaxed)
    });
    assert_eq!(count.join().unwrap(), 1000);
}
