//! The controller (sampling controller) with simulated programs: functions that are called at given
//! rates, with random durations.

use profiler::{
    Clock, Controller, Costs, Draw, Figure, FuncId, Function, Label, Mode, Policy, Probes, Rest,
    Sample, Skip, Ticks,
};

const HZ: f64 = 2.6e9;
const COSTS: Costs = Costs { pair: 47.0, bias: 24.0, count: 2.5, toggle: 450.0, skip: 8.0 };

/// Pseudorandom numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

/// A function of a program: calls per second, their mean duration, and how the rate varies.
#[derive(Clone, Copy)]
struct Load {
    rate: f64,
    mean: f64,
    course: Course,
}

/// How the rate of a function varies.
#[derive(Clone, Copy, PartialEq)]
enum Course {
    Steady,
    /// Calls are three times as frequent, and take three times as long, half of the time.
    Phases,
    /// All calls are in a twentieth of each second.
    Bursts,
}

impl Load {
    const fn steady(rate: f64, mean: f64) -> Self {
        Self { rate, mean, course: Course::Steady }
    }

    /// The rate and the mean duration at an instant, in seconds, as multiples. Functions differ in
    /// when their phases and bursts are.
    fn now(&self, second: f64, function: usize) -> (f64, f64) {
        match self.course {
            Course::Steady => (1.0, 1.0),
            Course::Phases if (second * 7.0 + function as f64).sin() > 0.0 => (1.5, 3.0),
            Course::Phases => (0.5, 1.0),
            Course::Bursts if (second + function as f64 * 0.37).fract() < 0.05 => (20.0, 1.0),
            Course::Bursts => (0.0, 1.0),
        }
    }
}

/// A simulated probe.
#[derive(Clone, Copy)]
struct Probe {
    mode: Mode,
    skip: f64,
    left: u32,
    resting: Option<Rest>,
}

impl Probe {
    /// Whether entries are counted.
    fn counts(&self) -> bool {
        self.resting.map_or(self.mode != Mode::Off, |rest| rest == Rest::Count)
    }
}

struct World {
    probes: Vec<Probe>,
    chance: Chance,
    switched: u64,
    /// The calls of each function that have passed a probe.
    probed: Vec<f64>,
    /// The time at which each function was armed; and the current time.
    armed: Vec<u64>,
    now: u64,
}

impl Probes for World {
    fn set(&mut self, function: FuncId, mode: Mode) {
        let mut probe = Probe { mode, skip: 0.0, left: 0, resting: None };
        if let Mode::Sample(draw) = mode {
            probe.left = draw.quota;
            probe.skip = leave_out(&draw, &mut self.chance);
        }
        self.probes[function.0 as usize] = probe;
        self.armed[function.0 as usize] = self.now;
        self.switched += 1;
    }
}

impl World {
    /// Renews the quotas, as an agent does at each look.
    fn refill(&mut self) {
        for probe in &mut self.probes {
            if let (Mode::Sample(draw), None) = (probe.mode, probe.resting)
                && draw.is_refilled()
            {
                probe.left = draw.quota;
            }
        }
    }
}

fn leave_out(draw: &Draw, chance: &mut Chance) -> f64 {
    match draw.skip {
        Skip::None => 0.0,
        Skip::Geometric { mean } => chance.exponential(mean).floor(),
    }
}

/// The result of a run.
struct Outcome {
    profile: profiler::Profile,
    calls: Vec<f64>,
    time: Vec<f64>,
    /// The cost of measuring, as a share of the time.
    overhead: f64,
    switched: u64,
    probed: Vec<f64>,
}

/// Runs a program for this many seconds, without slowdown by counting.
fn play(policy: Policy, loads: &[Load], seconds: f64) -> Outcome {
    play_slowed(policy, loads, seconds, 0.0)
}

/// Runs a program for this many seconds, in which each counted entry takes `count` ticks.
fn play_slowed(policy: Policy, loads: &[Load], seconds: f64, count: f64) -> Outcome {
    let clock = Clock { hz: HZ, step: 26 };
    let mut controller = Controller::new(policy, clock, COSTS, 7, Ticks(1));
    let blank = Probe { mode: Mode::Count, skip: 0.0, left: 0, resting: None };
    let mut world = World {
        probes: vec![blank; loads.len() + 1],
        chance: Chance(99),
        switched: 0,
        probed: vec![0.0; loads.len() + 1],
        armed: vec![0; loads.len() + 1],
        now: 1,
    };
    (1..=loads.len()).for_each(|at| controller.discovered(FuncId(at as u32), 2));
    controller.first(&mut world);
    let (mut calls, mut time) = (vec![0.0; loads.len() + 1], vec![0.0; loads.len() + 1]);
    let (mut now, end, mut cost) = (1u64, (seconds * HZ) as u64, 0.0);
    let mut chance = Chance(5);
    while now < end {
        let next = controller.tick(Ticks(now), &mut world).0.clamp(now + 260_000, now + 26_000_000);
        let counted = loads.iter().zip(&world.probes[1..]).filter(|(_, probe)| probe.counts());
        let slowed = counted.map(|(load, _)| load.rate * count / HZ).sum::<f64>();
        let span = (next - now) as f64 / HZ / (1.0 + slowed);
        for (at, load) in loads.iter().enumerate() {
            let at = at + 1;
            let (often, long) = load.now(now as f64 / HZ, at);
            let number = load.rate * span * often + chance.next();
            cost += pass(
                at,
                number as u64,
                load.mean * long,
                &mut world,
                &mut controller,
                &mut calls,
                &mut time,
                &mut chance,
                (now, next),
            );
        }
        now = next;
        world.now = now;
        world.refill();
        controller.tick(Ticks(now), &mut world);
    }
    cost += world.switched as f64 * COSTS.toggle / 2.0;
    let profile = controller.profile(Ticks(now));
    let World { switched, probed, .. } = world;
    Outcome { profile, calls, time, overhead: cost / end as f64, switched, probed }
}

/// Simulates some calls of one function.
#[allow(clippy::too_many_arguments, reason = "it is the inner loop of the player")]
fn pass(
    at: usize,
    number: u64,
    mean: f64,
    world: &mut World,
    controller: &mut Controller,
    calls: &mut [f64],
    time: &mut [f64],
    chance: &mut Chance,
    span: (u64, u64),
) -> f64 {
    let (mut cost, mut seen) = (0.0, 0);
    // Of very many timed calls only some are simulated one by one; the rest has a mean only.
    let (mut singles, mut passed) = (20_000, 0);
    while passed < number {
        let probe = &mut world.probes[at];
        let counted = probe.counts();
        let draw = match (probe.resting, probe.mode) {
            (None, Mode::Sample(draw)) if singles > 0 => Some(draw),
            _ => None,
        };
        let Some(draw) = draw.filter(|_| probe.skip < 1.0) else {
            // Calls of which none is timed.
            let left = number - passed;
            let many = if draw.is_some() { left.min(probe.skip as u64) } else { left };
            passed += many;
            seen += if counted { many } else { 0 };
            let many = many as f64;
            calls[at] += many;
            time[at] += many * mean;
            cost += if counted { many * COSTS.count } else { 0.0 };
            if draw.is_some() {
                probe.skip -= many;
                cost += many * COSTS.skip;
            }
            continue;
        };
        let length = chance.exponential(mean);
        (singles, passed) = (singles - 1, passed + 1);
        seen += u64::from(counted);
        calls[at] += 1.0;
        time[at] += length;
        probe.left -= 1;
        cost += COSTS.pair + if counted { COSTS.count } else { 0.0 };
        probe.skip = leave_out(&draw, &mut world.chance);
        let ticks = (length + COSTS.bias).round() as u64;
        controller.sample(&Sample {
            function: FuncId(at as u32),
            call_site: 0x40,
            ticks,
            nested: 0,
            children: 0,
            outermost: true,
        });
        if probe.left == 0 {
            probe.resting = Some(draw.then);
            // They are spread evenly over the span.
            let until = (span.1 - span.0) as f64 * passed as f64 / number as f64;
            controller.retired(
                FuncId(at as u32),
                Ticks(world.armed[at]),
                Ticks(span.0 + until as u64),
            );
        }
    }
    world.probed[at] += seen as f64;
    controller.entered(FuncId(at as u32), seen);
    cost
}

/// A program of some hundred functions whose rates follow Zipf's law.
fn program() -> Vec<Load> {
    (1..=200)
        .map(|rank| Load {
            rate: 2e7 / (rank as f64).powf(1.6),
            mean: 100.0 + 40.0 * (rank % 17) as f64,
            course: if rank % 3 == 0 { Course::Phases } else { Course::Steady },
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn the_adaptive_policy_is_right_within_its_intervals_and_its_budget() {
    let outcome = play(Policy::default(), &program(), 4.0);
    let mut errors = Vec::new();
    let (mut covered, mut exact, mut all_calls, mut true_calls) = (0, 0, 0.0, 0.0);
    for function in &outcome.profile.functions {
        let at = function.id.0 as usize;
        let truth = outcome.time[at] / outcome.calls[at] / HZ * 1e9;
        let mean = function.mean.unwrap();
        errors.push((mean.value / truth - 1.0).abs());
        let (lo, hi) = mean.interval();
        // One per cent is allowed for open calls and for rounding.
        covered += usize::from(lo <= truth * 1.01 && truth * 0.99 <= hi);
        exact += usize::from(function.calls.is_exact());
        if function.calls.is_exact() {
            assert_eq!(function.calls.value, outcome.calls[at], "{at}");
        }
        all_calls += function.calls.value;
        true_calls += outcome.calls[at];
    }
    let functions = outcome.profile.functions.len();
    let (covered, exact) = (covered as f64 / functions as f64, exact as f64 / functions as f64);
    println!(
        "median error {:.3}, covered {covered:.2}, exact {exact:.2}, overhead {:.4}",
        median(errors.clone()),
        outcome.overhead
    );
    assert!(median(errors) <= 0.10);
    assert!(covered >= 0.90, "{covered}");
    assert!(exact >= 0.70, "{exact}");
    assert!((all_calls / true_calls - 1.0).abs() <= 0.05, "{all_calls} of {true_calls}");
    assert!(outcome.overhead <= 0.015, "{}", outcome.overhead);
}

/// Two functions are called so often that counting them slows the program down, by less than usual
/// or by much more. The other functions are called less often meanwhile, which shows the amount.
#[test]
fn what_counting_takes_of_a_program_is_not_taken_for_fewer_calls() {
    let mut loads = vec![Load::steady(2e5, 300.0); 4];
    loads.extend([Load::steady(8e7, 10.0); 2]);
    for count in [1.0, COSTS.count, 6.0] {
        let outcome = play_slowed(Policy::default(), &loads, 20.0, count);
        for function in &outcome.profile.functions[4..] {
            let (truth, (lo, hi)) =
                (outcome.calls[function.id.0 as usize], function.calls.interval());
            let error = function.calls.value / truth - 1.0;
            println!("{count}: {error:.3}, [{:.3}, {:.3}]", lo / truth - 1.0, hi / truth - 1.0);
            assert!(lo <= truth && truth <= hi, "{:?} of {truth}", function.calls);
            assert!(error.abs() < 0.1, "{error}");
            assert!(function.calls.half_width() < 0.2 * truth, "{:?} of {truth}", function.calls);
        }
    }
}

/// Counting a call costs as much as the call, and timing it ten times as much.
#[test]
fn what_is_smaller_than_its_probe_leaves_by_itself() {
    let small = Load::steady(2e7, 4.0);
    let rare = Load { rate: 1e3, ..small };
    let large = Load::steady(2e3, 1e5);
    let loads = [[small; 5], [rare; 5], [large; 5]].concat();
    let outcome = play(Policy::default(), &loads, 4.0);
    assert!(outcome.overhead <= 0.015, "{}", outcome.overhead);
    for function in &outcome.profile.functions {
        let at = function.id.0 as usize;
        let probed = outcome.probed[at] / outcome.calls[at];
        // The function is off almost always, and its calls are reported as an estimate; functions
        // without cost stay observed.
        let leaves = at <= 5;
        assert_eq!(function.calls.is_exact(), !leaves, "{at}");
        assert!(if leaves { probed < 0.2 } else { probed == 1.0 }, "{at}: {probed}");
        let off = (function.calls.value / outcome.calls[at] - 1.0).abs();
        assert!(off < 0.1, "{at}: {off}");
    }
}

/// A function that is called rarely most of the time fits the budget for complete timing then. In
/// its bursts it does not.
#[test]
fn what_is_called_in_bursts_is_not_timed_completely_in_each() {
    let burst = Load { rate: 1e5, mean: 100.0, course: Course::Bursts };
    let outcome = play(Policy::default(), &[burst; 40], 10.0);
    println!("overhead {:.4}", outcome.overhead);
    assert!(outcome.overhead <= 0.01, "{}", outcome.overhead);
}

/// Until the hot functions have been found, they are all counted.
#[test]
fn many_functions_cost_little_more_than_few_until_the_hot_ones_are_found() {
    let cost = |functions| {
        // Two calls in a hundred ticks, by whatever function.
        let each = Load::steady(0.02 * HZ / functions as f64, 50.0);
        let outcome = play(Policy::default(), &vec![each; functions], 0.5);
        outcome.overhead * 0.5
    };
    let (few, many) = (cost(20), cost(2_000));
    println!("{few:.5} s, {many:.5} s");
    assert!(many <= few + 0.006, "{few} s, {many} s");
}

#[test]
fn exact_times_and_counts_everything() {
    let loads = &program()[100..];
    let outcome = play(Policy::Exact, loads, 0.2);
    for function in &outcome.profile.functions {
        let at = function.id.0 as usize;
        assert_eq!(
            (function.calls.value, function.samples as f64),
            (outcome.calls[at], outcome.calls[at])
        );
        let mean = function.mean.unwrap();
        let time = outcome.time[at] / outcome.calls[at] / HZ * 1e9;
        assert!((mean.value / time - 1.0).abs() < 0.01, "{at}: {mean:?} for {time}");
        // Simulated hooks have fixed costs; in a program they overlap with its own work.
        let pair = outcome.profile.header.pair / HZ * 1e9;
        assert_eq!(mean.is_exact(), pair <= 0.01 * time, "{at}: {mean:?}");
    }
    assert_eq!(outcome.switched, loads.len() as u64);
}

#[test]
fn count_times_nothing() {
    let outcome = play(Policy::Count, &program(), 0.2);
    for function in &outcome.profile.functions {
        assert_eq!(
            (function.calls.value, function.mean),
            (outcome.calls[function.id.0 as usize], None)
        );
    }
}

#[test]
fn the_published_policy_times_the_first_calls_of_every_epoch() {
    let outcome = play("paper".parse().unwrap(), &program()[..50], 0.5);
    // Fifty epochs of ten milliseconds, ten calls in each.
    for function in &outcome.profile.functions {
        assert!((300..=520).contains(&function.samples), "{}", function.samples);
    }
}

#[test]
fn a_budget_that_is_larger_is_used_for_more_samples() {
    let samples = |budget| {
        let outcome = play(Policy::Adaptive { budget }, &program(), 1.0);
        outcome.profile.functions.iter().map(|function| function.samples).sum::<u64>()
    };
    assert!(samples(0.02) > samples(0.002));
}

/// The share of time in which a function is timed that is called `rate` times a second, beside one
/// that is called millions of times, and that shares its exits or not.
fn timed_share(rate: f64, merged: bool) -> f64 {
    let clock = Clock { hz: HZ, step: 26 };
    let mut controller = Controller::new(Policy::default(), clock, COSTS, 7, Ticks(1));
    let blank = Probe { mode: Mode::Count, skip: 0.0, left: 0, resting: None };
    let mut world = World {
        probes: vec![blank; 3],
        chance: Chance(99),
        switched: 0,
        probed: vec![0.0; 3],
        armed: vec![0; 3],
        now: 1,
    };
    (1..=2).for_each(|at| controller.discovered(FuncId(at), 2));
    if merged {
        controller.ends_with(FuncId(2), vec![FuncId(1)]);
    }
    controller.first(&mut world);
    let (mut calls, mut time, mut chance) = (vec![0.0; 3], vec![0.0; 3], Chance(5));
    let (mut now, end, mut timed, mut due) = (1u64, (2.0 * HZ) as u64, 0, 0.0);
    while now < end {
        let next = controller.tick(Ticks(now), &mut world).0.clamp(now + 260_000, now + 26_000_000);
        let span = (next - now) as f64 / HZ;
        due += rate * span;
        let rare = due as u64;
        due -= rare as f64;
        for (at, number) in [(1, (5e6 * span) as u64), (2, rare)] {
            pass(
                at,
                number,
                200.0,
                &mut world,
                &mut controller,
                &mut calls,
                &mut time,
                &mut chance,
                (now, next),
            );
        }
        let probe = &world.probes[2];
        timed += if matches!((probe.mode, probe.resting), (Mode::Sample(_), None)) {
            next - now
        } else {
            0
        };
        now = next;
        world.now = now;
        world.refill();
    }
    let profile = controller.profile(Ticks(now));
    let counted = profile
        .functions
        .iter()
        .find(|function| function.id == FuncId(2))
        .map_or(0.0, |function| function.calls.value);
    assert_eq!(counted, calls[2]);
    timed as f64 / end as f64
}

#[test]
fn a_function_that_ends_where_a_frequent_one_does_is_timed_for_moments_only() {
    for rate in [1_000.0, 0.0] {
        let (alone, merged) = (timed_share(rate, false), timed_share(rate, true));
        assert!(
            alone > 0.95 && merged < 0.2,
            "{rate} calls a second: timed {alone} of the time, {merged} where ends are merged"
        );
    }
}

#[test]
fn a_total_for_another_number_of_calls_counts_recursion_once() {
    let mut function = Function::counted(FuncId(1), Label::default(), 10);
    // Ten calls of 6, of which three are outermost.
    function.timed.mean = Some(Figure::exact(6.0));
    function.timed.total = Some(Figure::exact(18.0));
    function.set_calls(100);
    assert_eq!((function.calls.value, function.timed.total.unwrap().value), (100.0, 180.0));
}
