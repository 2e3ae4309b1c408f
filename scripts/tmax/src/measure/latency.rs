//! Visibility: the time from a store until another core first executes the stored bytes.
//!
//! The patching thread stores the time into the immediate of a `mov rax, …`; the executing thread
//! runs it in a loop and, whenever rax has changed, subtracts it from its own time. The same
//! measurement with a word of data, which is loaded instead, shows the part of core-to-core
//! communication. The next store comes only after the last one was observed, at a random time.

use crate::plan::Plan;
use crate::statistics::Sample;
use crate::storm::execution::{self, OnTrap};
use crate::storm::{Assignment, Chance, Placement, Shape, Target};
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wordpatch::Ticks;
use wordpatch::live::Width;
use wordpatch::os::{OsError, affinity};

/// The target of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// Eight bytes of an instruction, inside a quadword.
    Code,
    /// A word of data.
    Data,
}

impl Medium {
    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Data => "data",
        }
    }
}

/// The distribution of latencies, in ticks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The target of the stores.
    pub medium: Medium,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The 99.99th percentile; with too few samples, the largest.
    pub p99_99: f64,
    /// The largest.
    pub max: f64,
    /// The number of samples.
    pub n: usize,
}

impl Latency {
    fn new(medium: Medium, sample: &Sample) -> Self {
        let p = |percent| sample.percentile(percent);
        Self {
            medium,
            p50: p(50.0),
            p90: p(90.0),
            p99: p(99.0),
            p99_9: p(99.9),
            p99_99: p(99.99),
            max: sample.max(),
            n: sample.len(),
        }
    }
}

/// The least number of turns of code and data.
const TURNS: u32 = 4;

/// The longest pause before a store, in ticks.
const PAUSE: u64 = 1_000;

/// Measures both media in turn.
pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Vec<Latency>, Failure> {
    let assignment = Assignment::new()?;
    let target = Target::new(Shape::Immediate, Placement::InLine(8))?;
    let turns = plan.turns(plan.latency / 2).max(TURNS);
    let share = plan.latency / (2 * turns);
    let mut spans = [Vec::new(), Vec::new()];
    watch.begin(plan.latency);
    for _ in 0..turns {
        for (medium, spans) in [Medium::Code, Medium::Data].into_iter().zip(&mut spans) {
            spans.extend(watched(&assignment, medium, &target, watch.share(share))?);
            watch.passed("visibility", share)?;
        }
    }
    let samples = [Medium::Code, Medium::Data].into_iter().zip(spans);
    Ok(samples
        .filter_map(|(medium, spans)| Some(Latency::new(medium, &Sample::new(spans)?)))
        .collect())
}

/// The data that the two threads share, each on separate lines.
#[derive(Debug, Default)]
struct Wire {
    data: Line<AtomicU64>,
    seen: Line<AtomicU64>,
    over: Line<AtomicBool>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

fn watched(
    assignment: &Assignment,
    medium: Medium,
    target: &Target,
    time: Duration,
) -> Result<Vec<f64>, OsError> {
    let _pinned = assignment.pin_patcher()?;
    let wire = Wire::default();
    std::thread::scope(|scope| {
        let executer = scope.spawn(|| {
            affinity::keep_to(&assignment.executers[..1])?;
            Ok(execution::recoverable(&wire.over.0, OnTrap::Retry, || match medium {
                Medium::Code => execute(&wire, || target.execute().rax),
                Medium::Data => execute(&wire, || wire.data.0.load(Ordering::Relaxed)),
            }))
        });
        let mut chance = Chance::new(time.as_nanos() as u64);
        let end = Instant::now() + time;
        while Instant::now() < end && !executer.is_finished() {
            Ticks::spin(Ticks(chance.below(PAUSE)));
            let Ticks(now) = Ticks::now();
            match medium {
                Medium::Code => target.store(0, Width::Eight, now),
                Medium::Data => wire.data.0.store(now, Ordering::Relaxed),
            }
            while wire.seen.0.load(Ordering::Relaxed) != now && !executer.is_finished() {
                std::hint::spin_loop();
            }
        }
        wire.over.0.store(true, Ordering::Relaxed);
        executer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Polls until the wire is closed; returns the age of each new value.
fn execute(wire: &Wire, look: impl Fn() -> u64) -> Vec<f64> {
    let mut spans = Vec::new();
    let mut last = look();
    // A value from before the first look is no sample, but the patching thread waits until it is
    // observed.
    wire.seen.0.store(last, Ordering::Relaxed);
    while !wire.over.0.load(Ordering::Relaxed) {
        let value = look();
        if value != last {
            let now = Ticks::now();
            spans.push(now.since(Ticks(value)).0 as f64);
            last = value;
            wire.seen.0.store(value, Ordering::Relaxed);
        }
    }
    spans
}
