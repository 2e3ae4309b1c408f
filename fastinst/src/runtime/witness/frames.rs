//! The agent's observation of frames, where the kernel provides no clock: at every look the agent
//! reads how much CPU time each thread has used since the last one, and charges that to the
//! innermost call that is being timed on that thread now.
//!
//! Only calls that are being timed have a frame. So functions of which every call is timed get
//! their share, and it includes what their untimed callees took; the other functions get none. It
//! takes no signal and no timer: the agent reads what the thread's hooks have written.

use crate::runtime::functions::Id;
use crate::runtime::layout::{FRAME, Header};
use crate::runtime::threads;
use profiler::{ClockEvidence, ClockFunction, ClockSource, ClockStack, FuncId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The shortest time between two looks: a thousand a second are enough for shares.
const SOONEST: Duration = Duration::from_millis(1);
/// The longest, so that a short program is seen.
const LATEST: Duration = Duration::from_millis(20);
/// Looks take a 250th of the time, at most.
const PATIENCE: u32 = 250;
/// A thread that has used less CPU time since is not charged yet.
const LEAST: u64 = 1_000;
/// Deeper frames of one thread are not looked at.
const DEEPEST: usize = 128;

#[derive(Debug)]
pub(crate) struct Frames {
    why: String,
    /// How much CPU time each block's thread had used at the last look.
    worked: HashMap<usize, u64>,
    /// Time and looks, by the timed calls, the outermost first.
    stacks: BTreeMap<Box<[FuncId]>, (u64, u64)>,
    looks: u64,
    began: Instant,
    looked: Instant,
    took: Duration,
    /// Nothing is recorded.
    is_paused: bool,
}

impl Frames {
    pub(super) fn new(why: String) -> Self {
        let now = Instant::now();
        let worked = threads::all().map(|block| (address(block), block.clock.worked())).collect();
        Self {
            why,
            worked,
            stacks: BTreeMap::new(),
            looks: 0,
            began: now,
            looked: now,
            took: Duration::ZERO,
            is_paused: false,
        }
    }

    pub(super) fn pause_recording(&mut self) {
        if !std::mem::replace(&mut self.is_paused, true) {
            self.charge();
        }
    }

    pub(super) fn resume_recording(&mut self) {
        if std::mem::replace(&mut self.is_paused, false) {
            self.worked.clear();
            let worked = threads::all().map(|block| (address(block), block.clock.worked()));
            self.worked.extend(worked);
        }
    }

    /// How long the agent may sleep.
    pub(super) fn pause(&self) -> Duration {
        (self.took * PATIENCE).clamp(SOONEST, LATEST)
    }

    /// Looks at all threads, if it is time.
    pub(super) fn look_at_threads(&mut self) {
        if self.looked.elapsed() >= self.pause() {
            self.looked = Instant::now();
            self.look_now();
            self.took = self.looked.elapsed();
        }
    }

    fn look_now(&mut self) {
        if !self.is_paused {
            self.charge();
        }
    }

    fn charge(&mut self) {
        self.looks += 1;
        for block in threads::all() {
            let now = block.clock.worked();
            let before = self.worked.entry(address(block)).or_default();
            if now < *before {
                // Another thread has the block.
                *before = 0;
            }
            let spent = now - *before;
            if spent < LEAST {
                continue;
            }
            *before = now;
            let (time, looks) = self.stacks.entry(timed(block).into()).or_default();
            *time += spent;
            *looks += 1;
        }
    }

    /// What was seen so far.
    pub(super) fn evidence(&mut self) -> ClockEvidence {
        self.look_now();
        let hz = self.looks as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        let source = ClockSource::Frames { hz, why: self.why.clone() };
        as_evidence(&self.stacks, source)
    }
}

fn address(block: &Header) -> usize {
    std::ptr::from_ref(block).addr()
}

/// The functions whose calls are being timed on a thread, the outermost first. The thread may
/// change its frames meanwhile: then some are those of a moment later.
fn timed(block: &Header) -> Vec<FuncId> {
    let first = std::ptr::from_ref(block.frame(0)).addr();
    let count = block.top.load(Acquire).addr().saturating_sub(first) / FRAME;
    let limit = block.limit.load(Relaxed).addr().saturating_sub(first) / FRAME;
    // Frame 0 is a wall.
    let all = (1..count.min(limit)).rev().map(|index| block.frame(index)).take(DEEPEST);
    let timed = all
        .filter(|frame| frame.time.load(Relaxed) != 0)
        .map(|frame| Id::of_record(frame.record.load(Relaxed)));
    let mut functions: Vec<FuncId> = timed.filter(|id| id.0 != 0).map(|id| FuncId(id.0)).collect();
    functions.reverse();
    functions
}

/// As evidence: time without a timed call is unknown.
fn as_evidence(stacks: &BTreeMap<Box<[FuncId]>, (u64, u64)>, source: ClockSource) -> ClockEvidence {
    let mut evidence = ClockEvidence { source, ..ClockEvidence::default() };
    let mut functions = BTreeMap::<FuncId, ClockFunction>::new();
    let blank = |function| ClockFunction { function, ..ClockFunction::default() };
    for (frames, &(time, looks)) in stacks {
        let time = time as f64;
        evidence.processor += time;
        evidence.samples += looks;
        evidence.stack_samples += looks;
        let Some(&innermost) = frames.last() else {
            evidence.unknown += time;
            continue;
        };
        let own = functions.entry(innermost).or_insert_with(|| blank(innermost));
        own.innermost += time;
        own.samples += looks;
        for &id in &frames.iter().copied().collect::<BTreeSet<_>>() {
            let function = functions.entry(id).or_insert_with(|| blank(id));
            function.on_stack += time;
            function.stack_samples += looks;
        }
        evidence.stacks.push(ClockStack { frames: frames.to_vec(), time, samples: looks });
    }
    evidence.functions = functions.into_values().collect();
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_innermost_timed_calls_or_not_known() {
        type Seen = (Box<[FuncId]>, (u64, u64));
        let [one, two] = [FuncId(1), FuncId(2)];
        let stacks: [Seen; 4] = [
            ([].into(), (10, 1)),
            ([one].into(), (20, 2)),
            ([one, two].into(), (30, 3)),
            ([one, two, one].into(), (40, 4)),
        ];
        let evidence = as_evidence(&BTreeMap::from(stacks), ClockSource::Probes);
        assert_eq!((evidence.processor, evidence.unknown, evidence.samples), (100.0, 10.0, 10));
        let [first, second] = evidence.functions[..] else { panic!("{evidence:?}") };
        assert_eq!(
            (first.innermost, first.on_stack, first.samples, first.stack_samples),
            (60.0, 90.0, 6, 9)
        );
        assert_eq!((second.innermost, second.on_stack), (30.0, 70.0));
        assert_eq!(evidence.stacks.iter().map(|stack| stack.time).sum::<f64>(), 90.0);
    }
}
