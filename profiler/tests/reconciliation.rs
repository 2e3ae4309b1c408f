//! Reconciled figures of a program with known true values and a heavy tail: one call in ten
//! thousand contains half of the program. It is simulated alone, and while other processes take
//! three quarters of the processor.

use profiler::simulation::{Event, play};
use profiler::{
    Clock, ClockEvidence, ClockFunction, ClockSource, ClockStack, Costs, FuncId, Label, Policy,
    Profile, Ticks,
};
use std::collections::BTreeMap;

const CLOCK: Clock = Clock { hz: 1e9, step: 1 };
const COSTS: Costs = Costs { pair: 30.0, bias: 20.0, count: 2.0, toggle: 300.0, skip: 3.0 };

/// `main` calls `parse`, which calls `next`; and `dispatch`, which hardly ever calls `sort`, which
/// calls `compare`.
const MAIN: u32 = 1;
const PARSE: u32 = 2;
const NEXT: u32 = 3;
const DISPATCH: u32 = 4;
const SORT: u32 = 5;
const COMPARE: u32 = 6;

/// The numbers of samples with an address, and with a stack.
const SAMPLES: (u64, u64) = (4_000, 2_000);

/// A run by CPU time: its events, and the stack over time.
struct Run {
    now: u64,
    events: Vec<Event>,
    stack: Vec<u32>,
    /// The times at which the stack changes, with the new stack.
    spans: Vec<(u64, Vec<u32>)>,
    random: u64,
}

impl Run {
    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn event(&mut self, function: u32, is_exit: bool) {
        self.events.push(Event {
            thread: 1,
            function: FuncId(function),
            is_exit,
            at: Ticks(self.now),
        });
        self.spans.push((self.now, self.stack.clone()));
    }

    fn call(&mut self, function: u32, body: impl FnOnce(&mut Self)) {
        self.stack.push(function);
        self.event(function, false);
        body(self);
        self.stack.pop();
        self.event(function, true);
    }

    /// Adds work of this mean duration.
    fn work(&mut self, mean: f64) {
        self.now += (-mean * (1.0 - self.chance()).ln()) as u64 + 1;
    }

    fn program(seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut run =
            Self { now: 1_000, events: Vec::new(), stack: Vec::new(), spans: Vec::new(), random };
        run.call(MAIN, |run| (0..8_000).for_each(|_| run.round()));
        run
    }

    fn round(&mut self) {
        self.work(10_000.0);
        self.call(PARSE, |run| {
            run.work(15_000.0);
            (0..5).for_each(|_| run.call(NEXT, |run| run.work(1_000.0)));
        });
        for _ in 0..5 {
            self.call(DISPATCH, |run| {
                run.work(300.0);
                if run.chance() < 1e-4 {
                    run.call(SORT, |run| {
                        (0..2_000).for_each(|_| run.call(COMPARE, |run| run.work(35_000.0)));
                    });
                }
            });
        }
    }

    /// The CPU time by function: self time, and time with it on the stack.
    fn truth(&self) -> BTreeMap<u32, (f64, f64)> {
        let mut truth = BTreeMap::<u32, (f64, f64)>::new();
        for pair in self.spans.windows(2) {
            let time = (pair[1].0 - pair[0].0) as f64;
            for (at, function) in pair[0].1.iter().enumerate() {
                let known = truth.entry(*function).or_default();
                known.0 += if at + 1 == pair[0].1.len() { time } else { 0.0 };
                known.1 += time;
            }
        }
        truth
    }

    /// The evidence of a sampling clock about it.
    fn evidence(&mut self) -> ClockEvidence {
        let whole = (self.now - 1_000) as f64;
        let mut seen = BTreeMap::<u32, ClockFunction>::new();
        let mut stacks = BTreeMap::<Vec<FuncId>, u64>::new();
        let of = |run: &mut Self, n: u64| whole / n as f64 * run.chance();
        for (n, is_stack) in [(SAMPLES.0, false), (SAMPLES.1, true)] {
            let weight = whole / n as f64;
            for sample in 0..n {
                let at = 1_000 + (sample as f64 * weight + of(self, n)) as u64;
                let stack = &self.spans[self.spans.partition_point(|(from, _)| *from <= at) - 1].1;
                let Some(innermost) = stack.last() else { continue };
                if !is_stack {
                    let function = seen.entry(*innermost).or_default();
                    function.innermost += weight;
                    function.samples += 1;
                    continue;
                }
                for function in stack {
                    let function = seen.entry(*function).or_default();
                    function.on_stack += weight;
                    function.stack_samples += 1;
                }
                *stacks
                    .entry(stack.iter().map(|function| FuncId(*function)).collect())
                    .or_default() += 1;
            }
        }
        let (samples, stack_samples) = SAMPLES;
        let time = |samples: u64| whole * samples as f64 / stack_samples as f64;
        ClockEvidence {
            source: ClockSource::Kernel { hz: 1000.0, stack_hz: 500.0, kernel: true },
            processor: whole,
            samples,
            stack_samples,
            functions: seen
                .into_iter()
                .map(|(id, seen)| ClockFunction { function: FuncId(id), ..seen })
                .collect(),
            stacks: stacks
                .into_iter()
                .map(|(frames, samples)| ClockStack { frames, time: time(samples), samples })
                .collect(),
            ..ClockEvidence::default()
        }
    }

    /// The run by the wall clock: other processes have the processor for `by` after each 3 ms.
    fn preempted(&self, by: u64) -> Vec<Event> {
        let wall = |at: u64| at + at / 3_000_000 * by;
        self.events.iter().map(|event| Event { at: Ticks(wall(event.at.0)), ..*event }).collect()
    }
}

/// Simulates a run, and reconciles the profile.
fn profile(run: &mut Run, preempted: u64, seed: u64) -> Profile {
    let mut profile =
        play(run.preempted(preempted).into_iter(), Policy::default(), CLOCK, COSTS, seed).profile;
    let label = |id: u32| Label {
        name: format!("f{id}"),
        module: Some(0),
        offset: id.into(),
        ..Label::default()
    };
    profile.label(|id| label(id.0));
    profile.label_callers(|_, site| Some(label(site as u32)));
    profile.header.threads = 1;
    let evidence = run.evidence();
    profile.reconcile(&evidence);
    profile
}

#[test]
fn totals_with_heavy_tails_are_right_alone_and_preempted() {
    let (mut naive, mut errors, mut held, mut all) = (0.0f64, Vec::new(), 0, 0);
    for (seed, preempted) in [(1, 0), (2, 0), (3, 9_000_000), (4, 9_000_000), (5, 9_000_000)] {
        let mut run = Run::program(seed);
        let truth = run.truth();
        let profile = profile(&mut run, preempted, seed);
        assert_eq!(profile.impossible(), []);
        for function in &profile.functions {
            let (own, total) = truth[&function.id.0];
            let told = [(function.own.unwrap(), own), (function.total.unwrap(), total)];
            naive = naive.max(function.timed.total.unwrap().value / total);
            for (figure, truth) in told
                .into_iter()
                .filter(|(_, truth)| *truth >= 0.02 * profile.header.processor * 1e9)
            {
                let (lo, hi) = figure.interval();
                (held, all) = (held + u32::from((lo..=hi).contains(&truth)), all + 1);
                errors.push((figure.value / truth - 1.0).abs());
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    println!(
        "times too high before {naive:.1}; errors: median {median:.3}, worst {worst:.3}; intervals hold {held} of {all}"
    );
    assert!(naive > 2.0, "{naive}");
    assert!(median <= 0.05 && worst <= 0.40, "{median} {worst}");
    assert!(f64::from(held) >= 0.90 * f64::from(all), "{held} of {all}");
}

#[test]
fn waiting_is_what_the_processor_did_not_do() {
    let mut run = Run::program(6);
    let profile = profile(&mut run, 9_000_000, 6);
    let main = &profile.functions[0];
    let (wall, waiting) = (main.wall.unwrap().value, main.waiting().unwrap());
    assert!(main.wall.unwrap().is_exact() && (0.70..0.78).contains(&waiting), "{wall} {waiting}");
    // Its calls are shorter than the pauses by other processes, so their times contain no pause.
    let next = profile.functions.iter().find(|function| function.id == FuncId(NEXT)).unwrap();
    assert!((700.0..1_300.0).contains(&next.cpu_mean().unwrap().value), "{next:?}");
}
