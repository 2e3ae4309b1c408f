//! For any evidence of probes and clocks, figures are possible; if it is complete, they are true.

use super::*;
use crate::{
    Clock, ClockStack, Controller, Costs, Function, Histogram, Label, Mark, Mode, Policy, Probes,
    Sample, Ticks, Timed, bucket,
};
use arbtest::arbitrary::{Result, Unstructured};

const CLOCK: Clock = Clock { hz: 1e9, step: 1 };
const COSTS: Costs = Costs { pair: 40.0, bias: 20.0, count: 2.0, toggle: 400.0, skip: 4.0 };

struct Nothing;

impl Probes for Nothing {
    fn set(&mut self, _: FuncId, _: Mode) {}
}

/// Any time: short, long, or invalid.
fn any_time(u: &mut Unstructured<'_>) -> Result<f64> {
    Ok(match u.int_in_range(0..=19)? {
        0 => f64::NAN,
        1 => -1.0,
        2 => 1e300,
        3 | 4 => 0.0,
        _ => f64::from(u.int_in_range(0..=1_000_000u32)?) * 10f64.powi(u.int_in_range(0..=4)?),
    })
}

/// A profile from a controller, of some functions with any call graph.
fn any_profile(u: &mut Unstructured<'_>) -> Result<Profile> {
    let policies =
        [Policy::Exact, Policy::default(), Policy::Count, "paper".parse().unwrap_or_default()];
    let mut controller = Controller::new(u.choose(&policies)?.clone(), CLOCK, COSTS, 1, Ticks(0));
    let (n, mut now) = (u.int_in_range(1..=6u32)?, 0);
    for _ in 0..u.int_in_range(1..=3)? {
        for function in 1..=n {
            controller.discovered(FuncId(function), 2);
            let timed = u.int_in_range(0..=8u64)?;
            for _ in 0..timed {
                let most = 1u64 << u.int_in_range(4..=36)?;
                let ticks = u.int_in_range(0..=most)?;
                let children = u.int_in_range(0..=ticks)?;
                let (call_site, nested) =
                    (u.int_in_range(0..=u64::from(n) + 1)?, u.int_in_range(0..=5)?);
                let outermost = u.ratio(3, 4)?;
                controller.sample(&Sample {
                    function: FuncId(function),
                    call_site,
                    ticks,
                    nested,
                    children,
                    outermost,
                });
            }
            let most = 1u64 << u.int_in_range(1..=30)?;
            let more = if u.ratio(1, 2)? { 0 } else { u.int_in_range(0..=most)? };
            controller.entered(FuncId(function), timed + more);
            controller.lost(FuncId(function), u.int_in_range(0..=3u64)? / 3);
            if u.ratio(1, 3)? {
                controller.retired(
                    FuncId(function),
                    Ticks(now),
                    Ticks(now + u.int_in_range(1..=1_000_000)?),
                );
            }
        }
        now += u.int_in_range(1_000..=2_000_000_000u64)?;
        controller.tick(Ticks(now), &mut Nothing);
    }
    let mut profile = controller.profile(Ticks(now));
    profile.header.threads = u.int_in_range(0..=3)?;
    Ok(profile)
}

fn label(id: FuncId) -> Label {
    Label { name: format!("f{}", id.0), module: Some(0), offset: id.0.into(), ..Label::default() }
}

/// Names functions; a call from site `s` is by function `s`, and one from site 0 by an unknown
/// function.
fn named(mut profile: Profile) -> Profile {
    profile.modules = vec![crate::Module::default()];
    profile.label(label);
    profile.label_callers(|_, site| Some(label(FuncId(site as u32))));
    profile
}

fn any_evidence(u: &mut Unstructured<'_>, functions: u32) -> Result<ClockEvidence> {
    let sources = [
        ClockSource::Probes,
        ClockSource::None { why: "tests".to_owned() },
        ClockSource::Kernel { hz: 250.0, stack_hz: 100.0, kernel: false },
        ClockSource::Kernel { hz: 250.0, stack_hz: 0.0, kernel: true },
        ClockSource::Frames { hz: 1000.0, why: "tests".to_owned() },
    ];
    let (samples, stack_samples) = (u.int_in_range(0..=5_000u64)?, u.int_in_range(0..=2_000u64)?);
    let mut evidence = ClockEvidence {
        source: u.choose(&sources)?.clone(),
        processor: any_time(u)?.min(1e15),
        system: any_time(u)?,
        unknown: any_time(u)?,
        unplaced: any_time(u)?,
        samples,
        stack_samples: if u.ratio(1, 4)? { 0 } else { stack_samples },
        ..ClockEvidence::default()
    };
    let function = |u: &mut Unstructured<'_>| u.int_in_range(1..=functions + 1).map(FuncId);
    for _ in 0..u.int_in_range(0..=functions)? {
        let (innermost, on_stack, elsewhere) = (any_time(u)?, any_time(u)?, any_time(u)?);
        let (samples, stack_samples) = (u.int_in_range(0..=5_000)?, u.int_in_range(0..=40)?);
        let function = function(u)?;
        evidence.functions.push(ClockFunction {
            function,
            innermost,
            elsewhere,
            deviation: any_time(u)?,
            samples,
            on_stack,
            stack_samples,
        });
    }
    for _ in 0..u.int_in_range(0..=4)? {
        let frames = (0..u.int_in_range(0..=4)?).map(|_| function(u)).collect::<Result<_>>()?;
        evidence.stacks.push(ClockStack {
            frames,
            time: any_time(u)?,
            samples: u.int_in_range(0..=50)?,
        });
    }
    if u.ratio(1, 3)? {
        evidence.invisible.push(function(u)?);
    }
    Ok(evidence)
}

/// For any evidence, figures are possible, stay so, and survive writing and reading.
fn figures_are_possible(u: &mut Unstructured<'_>) -> Result<()> {
    let mut profile = any_profile(u)?;
    assert_eq!(profile.impossible(), []);
    profile.set_hz(f64::from(u.int_in_range(1..=4u32)?) * 0.7e9);
    let mut profile = named(profile);
    let evidence = any_evidence(u, 6)?;
    if u.ratio(1, 2)? {
        profile.admit(&evidence);
        profile.label(label);
    }
    profile.reconcile(&evidence);
    assert_eq!(profile.impossible(), []);
    assert!(profile.functions.iter().all(is_nested));
    let once = profile.clone();
    profile.reconcile(&evidence);
    assert_eq!(profile, once);
    // Files have seven digits: rounded figures are possible, too.
    let read = Profile::from_file(&profile.to_bytes(crate::Packing::Deflated)).unwrap();
    assert_eq!(read.impossible(), []);
    let mut other = named(any_profile(u)?);
    other.reconcile(&any_evidence(u, 6)?);
    let both = Profile::merge(&[profile, other]);
    assert_eq!(both.impossible(), []);
    assert!(both.functions.iter().all(is_nested));
    Ok(())
}

/// Whether the interval of the self time does not reach beyond that of the total.
fn is_nested(function: &Function) -> bool {
    let (Some(own), Some(total)) = (function.own, function.total) else { return true };
    let ((own_lo, own_hi), (lo, hi)) = (own.interval(), total.interval());
    let rounding = 1e-9 * hi;
    own_hi <= hi + rounding && own_lo <= lo + rounding
}

#[test]
fn no_evidence_makes_an_impossible_figure() {
    arbtest::arbtest(figures_are_possible).budget_ms(3_000);
}

/// One thread: `f1` calls `f2` ten times, which calls `f3`; the times of each call and of all calls
/// are known.
fn told_completely() -> (Profile, ClockEvidence) {
    let mut controller =
        Controller::new(Policy::Exact, CLOCK, Costs { pair: 0.0, bias: 0.0, ..COSTS }, 1, Ticks(0));
    let calls =
        [(1, 1, 10_000_000, 4_000_000, 0), (2, 10, 400_000, 100_000, 1), (3, 10, 100_000, 0, 2)];
    for (function, times, ticks, children, call_site) in calls {
        controller.discovered(FuncId(function), 2);
        controller.entered(FuncId(function), times);
        let sample = Sample {
            function: FuncId(function),
            call_site,
            ticks,
            nested: 0,
            children,
            outermost: true,
        };
        (0..times).for_each(|_| controller.sample(&sample));
    }
    let mut profile = named(controller.profile(Ticks(10_000_000)));
    profile.functions[0].arcs.clear();
    // One sample per microsecond.
    let seen = |function, innermost: f64, on_stack: f64| {
        let samples = |time: f64| (time / 1e3) as u64;
        let (samples, stack_samples) = (samples(innermost), samples(on_stack));
        ClockFunction {
            function: FuncId(function),
            innermost,
            samples,
            on_stack,
            stack_samples,
            ..ClockFunction::default()
        }
    };
    let stack = |frames: &[u32], time: f64| ClockStack {
        frames: frames.iter().copied().map(FuncId).collect(),
        time,
        samples: (time / 1e3) as u64,
    };
    let evidence = ClockEvidence {
        source: ClockSource::Kernel { hz: 1e6, stack_hz: 1e6, kernel: true },
        processor: 10e6,
        samples: 10_000,
        stack_samples: 10_000,
        functions: vec![seen(1, 6e6, 10e6), seen(2, 3e6, 4e6), seen(3, 1e6, 1e6)],
        stacks: vec![stack(&[1], 6e6), stack(&[1, 2], 3e6), stack(&[1, 2, 3], 1e6)],
        ..ClockEvidence::default()
    };
    (profile, evidence)
}

fn values(profile: &Profile, of: impl Fn(&Function) -> Option<Figure>) -> Vec<f64> {
    profile.functions.iter().map(|function| of(function).unwrap().value).collect()
}

#[test]
fn where_everything_was_seen_the_figures_are_the_truth() {
    let (mut profile, evidence) = told_completely();
    assert_eq!(values(&profile, |function| function.total), [10e6, 4e6, 1e6]);
    assert_eq!(values(&profile, |function| function.own), [6e6, 3e6, 1e6]);
    profile.reconcile(&evidence);
    assert_eq!(values(&profile, |function| function.total), [10e6, 4e6, 1e6]);
    assert!(profile.functions.iter().all(|function| function.total.unwrap().is_exact() && function.wall.unwrap().is_exact()));
    assert_eq!(values(&profile, |function| function.own), [6e6, 3e6, 1e6]);
    assert_eq!(values(&profile, |function| function.mean), [10e6, 4e5, 1e5]);
    assert_eq!((profile.header.system, profile.header.unknown), (0.0, 0.0));
    assert_eq!(profile.stacks.len(), 3);
}

#[test]
fn self_system_and_unknown_are_the_processor_time() {
    let (mut profile, mut evidence) = told_completely();
    // Of four further milliseconds, three were in the kernel and one is unknown; and one function
    // is not in the profile.
    (evidence.processor, evidence.system, evidence.unknown) = (14e6, 3e6, 1e6);
    evidence.functions[2].function = FuncId(99);
    profile.reconcile(&evidence);
    let header = &profile.header;
    assert_eq!((header.processor, header.system, header.unknown), (0.014, 0.003, 0.002));
    assert_eq!(values(&profile, |function| function.own), [6e6, 3e6, 0.0]);
}

/// As of threads that ended before the clock's first period.
#[test]
fn time_that_may_be_any_functions_is_in_the_intervals_of_all() {
    let (mut profile, mut evidence) = told_completely();
    profile.functions.iter_mut().for_each(|function| function.timed = Timed::default());
    let before = {
        let mut profile = profile.clone();
        profile.reconcile(&evidence);
        profile
    };
    evidence.processor += 7e6;
    (evidence.unknown, evidence.unplaced) = (7e6, 7e6);
    profile.reconcile(&evidence);
    for (function, before) in profile.functions.iter().zip(&before.functions) {
        let (own, narrow) = (function.own.unwrap(), before.own.unwrap());
        assert_eq!(own.value, narrow.value);
        assert!(own.interval().1 >= narrow.interval().1 + 7e6 - 1.0, "{own:?} {narrow:?}");
        assert!(function.total.unwrap().interval().1 >= own.interval().1);
    }
}

#[test]
fn a_self_time_ends_with_the_time_of_its_calls_however_few_samples_there_are() {
    let (mut profile, mut evidence) = told_completely();
    evidence.samples = 5;
    for function in &mut evidence.functions {
        (function.samples, function.innermost) = (0, 0.0);
    }
    let others = profile.clone();
    profile.reconcile(&evidence);
    let ends = |profile: &Profile| -> Vec<f64> {
        profile.functions.iter().map(|function| function.own.unwrap().interval().1).collect()
    };
    assert_eq!(ends(&profile), [8e6, 4e6, 1e6]);
    // A call that was not timed, or has not ended, may have taken more.
    for change in [|f: &mut Function| f.lost = 1, |f: &mut Function| f.samples -= 1] {
        let mut profile = others.clone();
        profile.functions.iter_mut().for_each(change);
        profile.functions.iter_mut().for_each(lost_a_call);
        profile.reconcile(&evidence);
        assert_eq!(ends(&profile), [8e6; 3]);
    }
}

/// A call that was not seen to end may have taken as long as all others.
fn lost_a_call(function: &mut Function) {
    function.timed.total = function.timed.total.map(|total| total.widened(total.value));
}

#[test]
fn preemption_in_timed_calls_does_not_reach_totals() {
    let (mut profile, evidence) = told_completely();
    // Another process has had the processor for twice as long as this one.
    profile.set_hz(CLOCK.hz / 3.0);
    profile.reconcile(&evidence);
    assert_eq!(values(&profile, |function| function.total), [10e6, 4e6, 1e6]);
    assert_eq!(values(&profile, |function| function.wall), [30e6, 12e6, 3e6]);
    assert!((profile.functions[1].waiting().unwrap() - 2.0 / 3.0).abs() < 1e-9);
}

/// A call that covers the whole run and mostly waits says nothing about its CPU time, although the
/// clock has only few stacks of it.
#[test]
fn what_waited_beyond_the_clocks_interval_is_no_evidence_of_processor_time() {
    let (mut profile, mut evidence) = told_completely();
    profile.functions.iter_mut().for_each(|function| function.timed.own = None);
    evidence.stack_samples = 20;
    for function in &mut evidence.functions {
        function.on_stack = function.on_stack.min(9e6);
        function.stack_samples = (function.on_stack / 0.5e6) as u64;
    }
    evidence.functions[0].innermost = 5e6;
    // The calls of two functions took longer than the clock allows; and one's even longer than all
    // threads together computed, which may be the end of the clock's interval.
    profile.functions[1].timed.total = Some(Figure::exact(9.9e6));
    profile.functions[0].timed.total = Some(Figure::exact(30e6));
    profile.reconcile(&evidence);
    assert_eq!(values(&profile, |function| function.total)[..2], [9e6, 4e6]);
    let total = profile.functions[1].total.unwrap();
    let (lo, hi) = total.interval();
    assert!(lo < 3e6 && hi > 7e6, "{total:?}");
}

/// A sampled profile times some functions completely: their threads may have waited in these calls.
#[test]
fn a_complete_total_may_hold_all_of_the_time_off_the_processor() {
    let (mut profile, evidence) = told_completely();
    profile.functions.iter_mut().for_each(|function| function.timed.own = None);
    (profile.header.threads, profile.header.seconds) = (1, 0.01005);
    profile.reconcile(&evidence);
    let [f1, f2, f3] = [0, 1, 2].map(|at| profile.functions[at].total.unwrap());
    assert_eq!([f1, f2, f3].map(|total| total.value), [10e6, 4e6, 1e6]);
    let (lo, hi) = f2.interval();
    assert!((lo - 3.95e6).abs() < 1.0 && hi == 4e6, "{f2:?}");
    // The longest is uncertain by less than one per cent.
    assert!(f1.is_exact(), "{f1:?}");
    // Not below the clock's value.
    profile.header.seconds = 0.02;
    profile.reconcile(&evidence);
    let (clock, f3) = (profile.functions[2].cpu.unwrap(), profile.functions[2].total.unwrap());
    assert_eq!(f3.interval(), (clock.interval().0, 1e6));
    // Short calls are not long enough to have waited, either.
    profile.functions[2].histogram = Histogram::default();
    profile.functions[2].histogram.add(bucket(1_000), 1_000.0);
    profile.reconcile(&evidence);
    assert!(profile.functions[2].total.unwrap().is_exact());
}

#[test]
fn what_waits_in_exact_mode_is_cut_to_the_processor_time_and_the_short_stays() {
    let (mut profile, _) = told_completely();
    profile.reconcile(&ClockEvidence { processor: 6e6, ..ClockEvidence::default() });
    assert_eq!(values(&profile, |function| function.own), [2.5e6, 2.5e6, 1e6]);
    // Four of ten milliseconds were waiting, in any of these calls.
    assert_eq!(profile.functions[2].own.unwrap().interval(), (0.0, 1e6));
    assert!(!profile.functions[1].own.unwrap().is_exact());
    assert_eq!(values(&profile, |function| function.total), [6e6, 2.5e6, 1e6]);
    assert_eq!(profile.functions[1].total.unwrap().interval(), (0.0, 4e6));
    assert_eq!(profile.header.unknown, 0.0);
}

#[test]
fn an_exact_total_raises_its_caller() {
    let (mut profile, mut evidence) = told_completely();
    // The caller was sampled, and the clock has seen little of it.
    profile.functions[1].timed.total = Some(Figure::estimated(5e5, 1e5, 0.0));
    evidence.functions[1].on_stack = 5e5;
    evidence.functions[1].innermost = 1e5;
    profile.reconcile(&evidence);
    assert_eq!(values(&profile, |function| function.total), [10e6, 1e6, 1e6]);
    assert!(
        profile.functions[2].total.unwrap().is_exact()
            && !profile.functions[1].total.unwrap().is_exact()
    );
}

#[test]
fn stacks_that_end_early_do_not_free_a_function_from_its_caller() {
    let (mut profile, mut evidence) = told_completely();
    // Neither was timed completely. Two of ten stacks end with the callee, whose caller was not
    // found; all of its timed calls came from that caller.
    for function in &mut profile.functions[..2] {
        function.calls = Figure::estimated(1e5, 1e4, 1.0);
        function.timed.total = None;
    }
    profile.functions[1].arcs[0].samples = 82;
    (evidence.functions[0].on_stack, evidence.functions[0].stack_samples) = (8e6, 8_000);
    (evidence.functions[1].on_stack, evidence.functions[1].stack_samples) = (9e6, 9_000);
    evidence.stacks[1].time = 6e6;
    evidence.stacks.push(ClockStack { frames: vec![FuncId(2)], time: 2e6, samples: 2_000 });
    profile.reconcile(&evidence);
    let totals = values(&profile, |function| function.total);
    assert!(totals[1] <= totals[0] && totals[1] > 0.0, "{totals:?}");
    assert_eq!(profile.impossible(), []);
    // A call that was timed and came from elsewhere does.
    let mut free = profile.clone();
    let elsewhere = crate::Arc { site: 0, samples: 1, share: 0.1, caller: None };
    free.functions[1].arcs.push(elsewhere);
    free.reconcile(&evidence);
    let totals = values(&free, |function| function.total);
    assert!(totals[1] > totals[0], "{totals:?}");
}

#[test]
fn what_few_stacks_have_divided_widens_self_times() {
    let (mut profile, mut evidence) = told_completely();
    // The times of calls bound no self time: one call never ended.
    profile.functions[1].lost = 1;
    lost_a_call(&mut profile.functions[1]);
    profile.reconcile(&evidence);
    let before = profile.functions[1].own.unwrap().interval();
    evidence.functions[1].deviation = 1e6;
    profile.reconcile(&evidence);
    let own = profile.functions[1].own.unwrap();
    assert_eq!(own.value, 3e6);
    let (lo, hi) = own.interval();
    assert!(lo < 1.01e6 && (5e6..6e6).contains(&hi), "{before:?}, then {:?}", (lo, hi));
    assert!(before.0 > 2.8e6 && before.1 < 3.2e6, "{before:?}");
}

#[test]
fn functions_that_the_clock_never_saw_have_a_bound() {
    let (mut profile, mut evidence) = told_completely();
    evidence.functions.truncate(2);
    evidence.stacks.truncate(2);
    profile.functions[2].timed.total = None;
    profile.reconcile(&evidence);
    let own = profile.functions[2].own.unwrap();
    assert_eq!((own.value, own.interval(), own.mark()), (0.0, (0.0, 4e3), Mark::AtMost));
    assert_eq!(profile.functions[2].total.unwrap().interval(), (0.0, 4e3));
}

#[test]
fn a_function_that_only_waits_has_no_processor_time() {
    let (mut profile, mut evidence) = told_completely();
    // The third function's calls took a millisecond in all, and the clock has no sample of it.
    evidence.functions.truncate(2);
    evidence.stacks.truncate(2);
    profile.reconcile(&evidence);
    let waits = &profile.functions[2];
    assert_eq!((waits.total.unwrap().value, waits.total.unwrap().interval()), (0.0, (0.0, 4e3)));
    assert_eq!((waits.wall.unwrap(), waits.waiting()), (Figure::exact(1e6), Some(1.0)));
}

#[test]
fn functions_that_the_clock_cannot_see_say_so() {
    let (mut profile, mut evidence) = told_completely();
    evidence.invisible.push(FuncId(3));
    profile.reconcile(&evidence);
    let inlined = &profile.functions[2];
    assert!(
        inlined.unseen
            && inlined.own.is_none()
            && inlined.cpu.is_none()
            && !profile.functions[1].unseen
    );
    assert_eq!(inlined.total.unwrap().value, 1e6);
}

#[test]
fn without_a_clock_short_functions_have_no_total_and_long_ones_are_bounded() {
    let (mut profile, _) = told_completely();
    for (at, mean) in [(1, 5e6), (2, 60.0)] {
        let function = &mut profile.functions[at];
        function.timed.mean = Some(Figure::estimated(mean, mean / 2.0, 0.0));
        function.timed.total = Some(Figure::estimated(10.0 * mean, mean, 0.0));
        (function.min, function.samples) = (Some(0.0), 5);
    }
    let source = ClockSource::None { why: "refused".to_owned() };
    profile.reconcile(&ClockEvidence { source, processor: 8e6, ..ClockEvidence::default() });
    let totals: Vec<Option<f64>> =
        profile.functions.iter().map(|function| Some(function.total?.value)).collect();
    assert_eq!(totals, [Some(8e6), Some(8e6), None]);
    assert!(profile.functions.iter().all(|function| function.own.is_none()));
}

#[test]
fn short_functions_have_the_clocks_mean() {
    let (mut profile, mut evidence) = told_completely();
    let function = &mut profile.functions[2];
    (function.calls, function.samples) = (Figure::exact(1e6), 300);
    function.timed.mean = Some(Figure::estimated(40.0, 4.0, 0.0));
    function.timed.total = Some(Figure::estimated(40e6, 4e6, 0.0));
    (function.min, function.max) = (Some(20.0), Some(90.0));
    function.histogram = Histogram::default();
    function.histogram.add(bucket(40), 1e6);
    (evidence.functions[2].on_stack, evidence.functions[2].stack_samples) = (2e6, 10);
    profile.reconcile(&evidence);
    let mean = profile.functions[2].mean.unwrap();
    assert_eq!(mean.value, 2.0);
    assert!(!mean.is_exact() && (0.5..2.0).contains(&mean.half_width()), "{mean:?}");
}

/// Every call was timed: a thousand of ten nanoseconds, during three of which another thread had
/// the processor, and the enclosing one.
#[test]
fn where_threads_have_waited_wall_clock_time_is_no_processor_time() {
    let timed = |total: f64, own: f64| Timed {
        seen: total,
        total: Some(Figure::exact(total)),
        own: Some(Figure::exact(own)),
        ..Timed::default()
    };
    let function = |id: u32, calls: &[(u64, f64)], timed: Timed| {
        let mut histogram = Histogram::default();
        calls.iter().for_each(|&(ticks, calls)| histogram.add(bucket(ticks), calls));
        let calls = Figure::exact(histogram.weight());
        let samples = calls.value as u64;
        Function { calls, samples, histogram, timed, ..Function::uncalled(FuncId(id)) }
    };
    let short = function(1, &[(10, 997.0), (10_000_000, 3.0)], timed(30_009_970.0, 30_009_970.0));
    let main = function(2, &[(100_000_000, 1.0)], timed(100_000_000.0, 69_990_030.0));
    let mut profile = Controller::new(Policy::Exact, CLOCK, COSTS, 1, Ticks(1)).profile(Ticks(2));
    profile.functions = vec![short, main];
    profile.header.processor = 0.05;
    profile.reconcile(&ClockEvidence::default());
    let [short, main] = [0, 1].map(|at| profile.functions[at].total.unwrap());
    let (lo, hi) = short.interval();
    assert!(lo <= 10_000.0 && (10_000.0..=50_000_000.0).contains(&hi), "{short:?}");
    assert!(!short.is_exact() && short.mark() != Mark::About, "{short:?}");
    assert!(main.value <= 50_000_000.0 && !main.is_exact(), "{main:?}");
    // The waits were in long calls, of whatever function.
    let own = profile.functions[0].own.unwrap();
    assert!(own.interval().0 <= 10_000.0 && !own.is_exact(), "{own:?}");
    // With a processor of its own, nothing is subtracted.
    profile.header.processor = 0.1;
    profile.reconcile(&ClockEvidence::default());
    assert_eq!(profile.functions[0].total, Some(Figure::exact(30_009_970.0)));
    assert_eq!(profile.functions[0].own, Some(Figure::exact(30_009_970.0)));
}

#[test]
fn probes_that_timed_every_call_know_better_than_a_clock_unless_threads_have_waited() {
    let (profile, evidence) = told_completely();
    let with = |samples, processor| ClockEvidence { samples, processor, ..evidence.clone() };
    let by_probes = |processor| Some(ClockEvidence { processor, ..ClockEvidence::default() });
    let of = |evidence, waited| profile.evidence_of_probes(&evidence, [1e7, waited], 7e6);
    assert_eq!(of(with(10_000, 9.5e6), 0.0), by_probes(10e6));
    assert_eq!(of(with(10_000, 9.5e6), 0.2e6), by_probes(9.8e6));
    assert_eq!(of(with(10_000, 9.5e6), 0.9e6), by_probes(9.5e6));
    assert_eq!(of(with(10_000, 12e6), -1e6), by_probes(12e6));
    assert_eq!(of(with(10_000, 5e6), 5e6), None);
    assert_eq!(of(with(20, 5e6), 5e6), by_probes(7e6), "its interval is too wide");
    let none = ClockSource::None { why: "tests".to_owned() };
    assert_eq!(of(ClockEvidence { source: none, ..with(0, 0.0) }, 0.0), None);
    let mut sampled = profile.clone();
    sampled.functions.iter_mut().for_each(|function| function.timed.own = None);
    assert_eq!(sampled.evidence_of_probes(&with(10_000, 10e6), [1e7, 0.0], 7e6), None);
}
