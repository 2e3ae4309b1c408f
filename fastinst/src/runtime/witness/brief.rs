//! Brief threads: those that end before the clock's first period is over, so that it has no sample
//! of them. A server that starts a thread for each request consists of little else.
//!
//! The process's clock shows how much time was theirs. While that is a good part of all time, the
//! agent has them sampled in bursts: often, but only for a millisecond in a hundred.
//!
//! ```text
//!   clock     |·······················|·······················|      a period: no brief thread reaches its end
//!   threads   ▂▂▂ ▂▂▂▂ ▂▂ ▂▂▂ ▂▂▂▂ ▂▂▂ ▂▂ ▂▂▂▂ ▂▂▂ ▂▂▂ ▂▂▂▂ ▂▂
//!   bursts         ||||                              ||||            shares among places
//! ```
//!
//! A burst comes at a random moment of these threads' lives, so its samples show the places in
//! which brief threads spend their time. A thread that turns out to be sampled by the clock, too,
//! is no brief one: what bursts have seen of it is dropped.
//!
//! Events are opened by the agent, when they are needed first, on the threads that start others; a
//! mapped ring keeps each alive, as in `kernel`. Only the thread that has opened events can pause
//! and resume all of them without their descriptors.

use super::kernel::remember;
use super::mappings::Mappings;
use super::unwinding::{Hooks, Unwinding};
use crate::attribution::{Brief, Place, Stack, UserTime};
use crate::runtime::spans;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};
use wordpatch::os::perf::{self, Found, Ring, Sampling};
use wordpatch::os::threads::{self, Tid};
use wordpatch::os::{OsError, clocks};

/// How often a burst samples: many times in a thread of some hundred microseconds. It costs a third
/// of the time of a burst in a virtual machine, where a sample takes 15 µs, and a tenth elsewhere.
const PERIOD: Duration = Duration::from_micros(19);
const PERIOD_IN_VM: Duration = Duration::from_micros(47);
/// How long a burst is, and the part of the time that bursts take at most: on a busy machine the
/// agent may be late to end one.
const BURST: Duration = Duration::from_millis(1);
const PART: u32 = 100;
/// How often it is judged whether bursts are needed; and from which part of the CPU time on.
const JUDGED: Duration = Duration::from_secs(1);
const NEEDED: f64 = 0.1;
/// Less time of brief threads between two judgements is no evidence of any.
const TRIFLE: f64 = 5e6;

/// A sample's stack: brief threads have shallow ones.
const STACK: u32 = 2 << 10;
/// A ring has room for the samples of most of a burst.
const RING: usize = 32 << 10;
/// The most threads on which events are opened, and the most bytes of their rings.
const MOST_THREADS: usize = 8;
const ALL_RINGS: usize = 8 << 20;
/// The most threads of which something is kept until it is known whether they are brief.
const MOST_CANDIDATES: usize = 4096;
/// Fewer sampled threads are no evidence of all.
const FEW: u64 = 10;

#[derive(Debug)]
pub(super) struct BriefThreads {
    clock: Option<Clock>,
    /// Whether the kernel has refused the events.
    is_refused: bool,
    /// Whether much of the time was brief threads' when it was last judged.
    is_needed: bool,
    judged: Instant,
    /// The process's time, and that of threads that were not sampled, at the judgement before.
    before: (f64, f64),
    next_burst: Instant,
    candidates: HashMap<Tid, Met>,
    ended: Met,
    /// The threads that `ended` was seen in.
    threads: u64,
    /// How many of their stacks are in the reservoir.
    stacks: u64,
}

/// The events, which the agent has opened.
#[derive(Debug)]
struct Clock {
    rings: Vec<Ring>,
    /// The thread that has opened them.
    agent: Tid,
}

/// What bursts have seen.
#[derive(Clone, Debug, Default)]
struct Met {
    places: HashMap<Place, u64>,
    stacks: Vec<Stack>,
}

impl Met {
    fn samples(&self) -> u64 {
        self.places.values().sum()
    }

    fn add(&mut self, other: &Self) {
        for (&place, times) in &other.places {
            *self.places.entry(place).or_default() += times;
        }
    }
}

/// What a burst's samples are interpreted with.
pub(super) struct Reading<'k> {
    pub(super) mappings: &'k mut Mappings,
    pub(super) unwinding: &'k mut Unwinding,
    /// An address in the profiler's library.
    pub(super) ours: u64,
    /// The agent's own threads.
    pub(super) agents: &'k HashSet<Tid>,
    /// Addresses of functions that get puns when they are seen.
    pub(super) seen: Option<&'k mut Vec<u64>>,
}

impl BriefThreads {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            clock: None,
            is_refused: false,
            is_needed: false,
            judged: now,
            before: (0.0, 0.0),
            next_burst: now,
            candidates: HashMap::new(),
            ended: Met::default(),
            threads: 0,
            stacks: 0,
        }
    }

    /// How long until the next burst; unlimited while none is needed.
    pub(super) fn pause(&self) -> Duration {
        match self.is_needed {
            true => self.next_burst.saturating_duration_since(Instant::now()),
            false => Duration::MAX,
        }
    }

    /// Ends sampling: nothing is recorded, or a filter of system calls may kill for what it takes.
    pub(super) fn stop(&mut self) {
        self.clock = None;
        self.is_needed = false;
    }

    /// Whether to judge if bursts are needed: it is time, and the process, which has used so much
    /// time since the beginning, did something.
    pub(super) fn is_judgement_due(&mut self, process: f64) -> bool {
        if self.is_refused || self.judged.elapsed() < JUDGED {
            return false;
        }
        self.judged = Instant::now();
        self.is_needed &= process - self.before.0 >= TRIFLE;
        process - self.before.0 >= TRIFLE
    }

    /// Judges it, by the process's time and by that of threads without a sample, both since the
    /// beginning.
    pub(super) fn judge(&mut self, process: f64, unsampled: f64) {
        let (all, brief) = (process - self.before.0, unsampled - self.before.1);
        self.before = (process, unsampled);
        self.is_needed = brief >= TRIFLE.max(NEEDED * all);
    }

    /// If a burst is due: has threads sampled for a while, those that the given ones start.
    /// Returns whether there was one. By the agent.
    pub(super) fn burst(
        &mut self,
        sees_kernel: bool,
        processors: &[u32],
        starters: impl FnOnce() -> Vec<Tid>,
    ) -> bool {
        static NEVER: AtomicU32 = AtomicU32::new(0);
        if !self.is_needed || self.is_refused || Instant::now() < self.next_burst {
            return false;
        }
        let agent = threads::current();
        if self.clock.as_ref().is_none_or(|clock| clock.agent != agent) {
            self.clock = None;
            match Clock::open(sees_kernel, processors, &starters()) {
                Ok(rings) => self.clock = Some(Clock { rings, agent }),
                Err(_) => (self.is_refused, self.is_needed) = (true, false),
            }
        }
        if self.clock.is_none() {
            return false;
        }
        let begun = Instant::now();
        perf::resume();
        threads::sleep_while_for(&NEVER, 0, BURST);
        perf::pause();
        self.next_burst = Instant::now() + begun.elapsed() * (PART - 1);
        true
    }

    /// Takes the burst's samples of threads of which the clock has none.
    pub(super) fn drain(&mut self, is_sampled: impl Fn(Tid) -> bool, mut reading: Reading<'_>) {
        let Some(clock) = &mut self.clock else { return };
        let ours = reading.mappings.place(reading.ours, clocks::monotonic()).mapping;
        let candidates = &mut self.candidates;
        for ring in &mut clock.rings {
            ring.drain(|found| {
                let Found::Sample(sample) = found else { return };
                let Some(registers) = sample.user else { return };
                if reading.agents.contains(&sample.thread)
                    || is_sampled(sample.thread)
                    || !spans::contains(sample.time)
                    || candidates.len() >= MOST_CANDIDATES
                {
                    return;
                }
                let is_ours = |_: &Mappings, place: Place| place.mapping == ours;
                let hooks = if reading.seen.is_some() { Hooks::Puns } else { Hooks::Calls };
                let Reading { mappings, unwinding, seen, .. } = &mut reading;
                let stack = unwinding.walk(mappings, &sample, registers, hooks, is_ours);
                if let Some(seen) = seen {
                    for &place in &stack.places {
                        remember(seen, mappings.address(place).map(|address| address as u64));
                    }
                }
                let met = candidates.entry(sample.thread).or_default();
                *met.places.entry(stack.places[0]).or_default() += 1;
                met.stacks.push(stack);
            });
        }
    }

    /// The clock has a sample of this thread.
    pub(super) fn is_not_brief(&mut self, thread: Tid) {
        self.candidates.remove(&thread);
    }

    /// Keeps what was seen of threads that have ended, and hands out their stacks: no more than the
    /// clock would have taken of so much time.
    pub(super) fn settle(&mut self, stack_period: f64, mut hand_out: impl FnMut(Stack)) {
        let Self { candidates, ended, threads, stacks, before, .. } = self;
        let wanted = (before.1 / stack_period) as u64;
        candidates.retain(|&tid, met| {
            let lives = clocks::of_thread(tid).is_some();
            if !lives {
                ended.add(met);
                *threads += 1;
                for stack in met.stacks.drain(..).take(wanted.saturating_sub(*stacks) as usize) {
                    *stacks += 1;
                    hand_out(stack);
                }
            }
            lives
        });
    }

    /// What the time of threads without a sample was spent on. A sample of the clock stands for
    /// `period`; those of bursts are not independent of each other, and stand for no more than
    /// their threads.
    pub(super) fn evidence(&self, unsampled: f64, period: f64, user: UserTime) -> Option<Brief> {
        let mut met = self.ended.clone();
        self.candidates.values().for_each(|candidate| met.add(candidate));
        let threads = self.threads + self.candidates.len() as u64;
        let samples = threads.min((unsampled / period) as u64);
        (threads >= FEW).then(|| Brief { seen: met.samples(), places: met.places, samples, user })
    }
}

impl Clock {
    /// Opens the events on these threads, as many as may be.
    fn open(sees_kernel: bool, processors: &[u32], starters: &[Tid]) -> Result<Vec<Ring>, OsError> {
        let in_vm = wordpatch::os::cpu::hypervisor().is_some();
        let sampling = Sampling {
            period: if in_vm { PERIOD_IN_VM } else { PERIOD },
            kernel: sees_kernel,
            stack: STACK,
            inherit: true,
            is_paused: true,
        };
        let most = (ALL_RINGS / RING / processors.len().max(1)).clamp(1, MOST_THREADS);
        let mut rings = Vec::new();
        for &thread in starters.iter().take(most) {
            for &processor in processors {
                match Ring::open(sampling, thread, processor, RING, RING / 2) {
                    Ok((ring, _)) => rings.push(ring),
                    // It has ended, or the processor has gone off-line.
                    Err(OsError { errno: libc::ESRCH | libc::ENODEV, .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(rings)
    }
}
