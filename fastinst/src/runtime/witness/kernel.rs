//! The kernel's `task-clock`: two events per processor, one for addresses and one, less often, for
//! stacks.
//!
//! Later threads inherit them, child processes do not. The rings are small, since the kernel fills
//! their pages with zeros at the start of every program: they hold half a second of addresses, or
//! two, and seven stacks. So the agent reads them often while samples arrive. An agent that gets no
//! CPU loses samples, but no sum is falsified: a thread's samples share the time that its own clock
//! shows.

use super::brief::{BriefThreads, Reading};
use super::jit::Jit;
use super::mappings::Mappings;
use super::owners::Owners;
use super::reservoir::Reservoir;
use super::unwinding::{Hooks, Unwinding};
use crate::attribution::{self, Ended, Observed, Place, Strand, UserTime};
use crate::names::Names;
use crate::runtime::agent;
use crate::runtime::registry::ModuleRegistry;
use crate::runtime::spans;
use profiler::{ClockEvidence, ClockSource};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use wordpatch::os::perf::{self, Found, Opened, Ring, Sampling};
use wordpatch::os::threads::{self, Tid};
use wordpatch::os::{OsError, clocks, cpu};

/// A sample costs 1 to 2 µs on bare metal, and 14 to 17 µs in a virtual machine, where every timer
/// interrupt exits to the hypervisor: so four milliseconds cost 0.4 % there. No period is a
/// multiple of a scheduler's tick: it would always sample at the same moment of the tick.
const PERIOD: Duration = Duration::from_micros(997);
const PERIOD_IN_VM: Duration = Duration::from_micros(3989);
const STACKS: Duration = Duration::from_micros(9973);
const STACKS_IN_VM: Duration = Duration::from_micros(15_973);

/// An unprivileged user may map 516 kB per processor (perf_event_mlock_kb), in all processes
/// together, and RLIMIT_MEMLOCK beyond that.
const ADDRESS_RING: usize = 32 << 10;
const STACK_RING: usize = 64 << 10;
const LEAST_ADDRESS_RING: usize = 16 << 10;
/// One stack and its header need 8.3 kB.
const LEAST_STACK_RING: usize = 32 << 10;
/// All rings together: machines have hundreds of processors.
const ALL_RINGS: usize = 32 << 20;
const STACK: u32 = 8 << 10;
/// The room that a sample with a stack takes in a ring, at most.
const RECORD: u32 = STACK + 128;

/// How often threads' clocks are read. What a thread did after the last reading is shared out with
/// the rest of its time when it has ended.
const CLOCKS: Duration = Duration::from_millis(50);
/// From so many threads on, they are read less often.
const MANY: usize = 64;
const CLOCKS_OF_MANY: Duration = Duration::from_millis(250);

/// Why the kernel's clock is not available.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the kernel's clock is not available ({error}): {}", perf::remedy(error))]
pub(crate) struct Refusal {
    error: OsError,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    addresses: Vec<Ring>,
    stack_rings: Vec<Ring>,
    /// Whether time in the kernel is sampled, too.
    sees_kernel: bool,
    period: Duration,
    stack_period: Duration,
    threads: HashMap<Tid, Thread>,
    ended: Ended,
    /// How many threads have ended with samples.
    ends: u32,
    stacks: Reservoir,
    brief: BriefThreads,
    processors: Vec<u32>,
    mappings: Mappings,
    unwinding: Unwinding,
    jit: Jit,
    lost: u64,
    /// Samples that are older were read: in nanoseconds of the monotonic clock.
    drained: u64,
    /// Addresses that were sampled since they were last taken, and return addresses.
    seen: Vec<u64>,
    /// Whether functions get puns when they are seen.
    has_puns: bool,
    /// Whether a thread of the program was sampled since the previous look.
    is_busy: bool,
    looked: Instant,
    agent: Agent,
    /// The CPU time of the process when sampling began.
    before: Duration,
    /// The same, for each thread that existed then.
    earlier: HashMap<Tid, Duration>,
    /// Since when nothing is recorded, as CPU time of the process and of the agent.
    paused: Option<(Duration, Duration)>,
}

/// A thread of the program.
#[derive(Debug, Default)]
struct Thread {
    strand: Strand,
    /// Its clock when sampling began.
    before: Duration,
}

/// The agent's own threads: one, or one after the other.
#[derive(Debug, Default)]
struct Agent {
    all: HashSet<Tid>,
    earlier: Duration,
    now: Option<(Tid, Duration)>,
}

impl Agent {
    /// By the agent: its thread, and what its clock says.
    fn read_clock(&mut self) {
        let this = threads::current();
        match self.now {
            Some((tid, time)) if tid != this => self.earlier += time,
            _ => {}
        }
        self.all.insert(this);
        self.now = Some((this, clocks::of_caller()));
    }

    fn processor(&self) -> Duration {
        self.earlier + self.now.map_or(Duration::ZERO, |(_, time)| time)
    }
}

/// The processors that are online.
fn processors() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let listed = parse_list(&text);
    if listed.is_empty() {
        (0..std::thread::available_parallelism().map_or(1, usize::from) as u32).collect()
    } else {
        listed
    }
}

/// A list such as `0-3,8` (Linux, Documentation/admin-guide/cputopology).
fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().take(4096).collect()
}

impl Kernel {
    /// Opens the events on the calling thread, and on those that exist already.
    pub(super) fn open(has_puns: bool) -> Result<Self, Refusal> {
        let in_vm = cpu::hypervisor().is_some();
        let (period, stack_period) =
            if in_vm { (PERIOD_IN_VM, STACKS_IN_VM) } else { (PERIOD, STACKS) };
        let processors = processors();
        let share = ALL_RINGS / processors.len().max(1) / 3;
        let sizes = (
            ADDRESS_RING.min(share).max(LEAST_ADDRESS_RING),
            STACK_RING.min(share * 2).max(LEAST_STACK_RING),
        );
        let open = |kernel| {
            let sampling = Sampling { kernel, stack: 0, ..always(period) };
            Events::open(sampling, &processors, sizes.0, LEAST_ADDRESS_RING)
        };
        let (addresses, sees_kernel) = match open(true) {
            // The kernel's own time is for privileged users; user time may still be available.
            Err(error) if error.errno == libc::EACCES || error.errno == libc::EPERM => {
                (open(false), false)
            }
            opened => (opened, true),
        };
        let addresses = addresses.map_err(|error| Refusal { error })?;
        let sampling = Sampling { kernel: sees_kernel, stack: STACK, ..always(stack_period) };
        // Without stacks, time in libraries has no callers; everything else is available.
        let stacks =
            Events::open(sampling, &processors, sizes.1, LEAST_STACK_RING).unwrap_or_default();
        Ok(Self {
            addresses: addresses.join_others(),
            stack_rings: stacks.join_others(),
            sees_kernel,
            period,
            stack_period,
            threads: HashMap::new(),
            ended: Ended::default(),
            ends: 0,
            stacks: Reservoir::default(),
            brief: BriefThreads::new(),
            processors,
            mappings: Mappings::default(),
            unwinding: Unwinding::default(),
            jit: Jit::default(),
            lost: 0,
            drained: 0,
            seen: Vec::new(),
            has_puns,
            is_busy: true,
            looked: Instant::now(),
            agent: Agent::default(),
            before: clocks::of_process(),
            earlier: clocks_now(),
            paused: None,
        })
    }

    /// How long a ring of stacks takes until it is half full; unlimited while no thread is sampled.
    pub(super) fn pause(&self) -> Duration {
        let least = self.stack_rings.iter().map(Ring::size).min().filter(|_| self.is_busy);
        let stacks = least.map(|size| size as u32 / RECORD / 2);
        let full = stacks.map_or(Duration::MAX, |stacks| self.stack_period * stacks.max(1));
        full.min(self.brief.pause())
    }

    /// Takes what lies in the rings, and reads the clocks when it is time.
    pub(super) fn take_samples(&mut self) {
        self.agent.read_clock();
        let has_names = self.jit.follow(&self.mappings);
        self.mappings.begin_epoch_if_due(has_names);
        self.drain();
        let pause = if self.threads.len() > MANY { CLOCKS_OF_MANY } else { CLOCKS };
        if self.looked.elapsed() >= pause {
            self.read_clocks();
        }
        self.attend_to_brief_threads();
    }

    /// Has threads that end before they are sampled sampled in bursts, if they take much of the
    /// time.
    fn attend_to_brief_threads(&mut self) {
        if self.paused.is_some() || !agent::may_install() {
            self.brief.stop();
            return;
        }
        let process = clocks::of_process().saturating_sub(self.before).as_nanos() as f64;
        if self.brief.is_judgement_due(process) {
            self.read_clocks();
            let (_, unsampled) = self.rest();
            self.brief.judge(process, unsampled);
        }
        let (threads, first) = (&self.threads, Tid(threads::process()));
        // A thread that starts many others takes enough time to be sampled.
        let starters = || {
            let mut all: Vec<Tid> = threads.keys().copied().filter(|tid| *tid != first).collect();
            all.sort_by(|a, b| threads[b].strand.processor.total_cmp(&threads[a].strand.processor));
            [vec![first], all].concat()
        };
        if self.brief.burst(self.sees_kernel, &self.processors, starters) {
            // First what the clock has seen: such threads are not brief.
            self.drain();
            let reading = Reading {
                mappings: &mut self.mappings,
                unwinding: &mut self.unwinding,
                ours: drain_stacks as *const () as u64,
                agents: &self.agent.all,
                seen: self.has_puns.then_some(&mut self.seen),
            };
            let (threads, stacks) = (&self.threads, &mut self.stacks);
            self.brief.drain(|tid| threads.contains_key(&tid), reading);
            self.brief.settle(self.stack_period.as_nanos() as f64, |stack| stacks.add(stack));
        }
    }

    /// Also skips the samples taken since the events were opened. The calling thread may be the
    /// program's, which makes the agent.
    pub(super) fn wait_for_recording(&mut self) {
        self.paused = Some((clocks::of_process(), self.agent.processor()));
        self.drain();
    }

    /// Takes the samples until now; those that follow are skipped.
    pub(super) fn pause_recording(&mut self) {
        if self.paused.is_none() {
            self.agent.read_clock();
            self.drain();
            self.read_clocks();
            self.paused = Some((clocks::of_process(), self.agent.processor()));
        }
    }

    /// Time that was not recorded does not count as the threads' time.
    pub(super) fn resume_recording(&mut self) {
        self.agent.read_clock();
        self.drain();
        let Some((process, agent)) = self.paused.take() else { return };
        let agents = self.agent.processor().saturating_sub(agent);
        self.before += clocks::of_process().saturating_sub(process).saturating_sub(agents);
        self.earlier = clocks_now();
        for (&tid, thread) in &mut self.threads {
            let recorded = Duration::from_nanos(thread.strand.processor as u64);
            if let Some(now) = clocks::of_thread(tid) {
                thread.before = now.saturating_sub(recorded);
            }
        }
    }

    pub(super) fn learn_placements(&mut self, registry: &ModuleRegistry) {
        self.mappings.set_placements(registry.placements(self.drained));
    }

    pub(super) fn jit(&self) -> &Jit {
        &self.jit
    }

    pub(super) fn take_seen(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.seen)
    }

    fn drain(&mut self) {
        let Self {
            addresses,
            stack_rings,
            threads,
            agent,
            mappings,
            unwinding,
            stacks,
            brief,
            lost,
            seen: met,
            has_puns,
            is_busy,
            earlier,
            paused,
            drained,
            ..
        } = self;
        *is_busy = false;
        // Placements are looked up by what is read now; they are replaced afterwards.
        *drained = clocks::monotonic();
        if paused.is_some() {
            addresses.iter_mut().chain(stack_rings).for_each(|ring| ring.drain(|_| ()));
            return;
        }
        for ring in addresses {
            ring.drain(|found| match found {
                Found::Sample(seen)
                    if !agent.all.contains(&seen.thread) && spans::contains(seen.time) =>
                {
                    *is_busy = true;
                    let address = seen.user.map(|registers| registers.ip);
                    if *has_puns {
                        remember(met, address);
                    }
                    let place = address
                        .map_or(Place::NOWHERE, |address| mappings.place(address, seen.time));
                    let thread = threads.entry(seen.thread).or_insert_with(|| {
                        brief.is_not_brief(seen.thread);
                        Thread::begin(seen.thread, earlier)
                    });
                    thread.strand.see(place);
                }
                Found::Sample(_) => {}
                Found::Lost(count) => *lost += count,
            });
        }
        let ours = drain_stacks as *const () as u64;
        let met = has_puns.then_some(met);
        drain_stacks(stack_rings, agent, mappings, unwinding, stacks, ours, met);
    }

    /// Reads the clocks of all threads that were seen. Threads that have ended keep their last
    /// reading.
    fn read_clocks(&mut self) {
        if self.paused.is_some() {
            return;
        }
        self.looked = Instant::now();
        let (ended, ends, period) =
            (&mut self.ended, &mut self.ends, self.period.as_nanos() as f64);
        self.threads.retain(|&tid, thread| {
            let now = clocks::of_thread(tid).and_then(|clock| clock.checked_sub(thread.before));
            let now = now
                .map(|clock| clock.as_nanos() as f64)
                .filter(|&now| now >= thread.strand.processor);
            match now {
                Some(now) => thread.strand.processor = now,
                // It has ended, or its number is another thread's: that thread begins anew with its
                // next sample.
                None => {
                    // Its clock was last read some time before it ended; each of its samples stands
                    // for a period.
                    thread.strand.processor =
                        thread.strand.processor.max(thread.strand.samples as f64 * period);
                    ended.add(&thread.strand);
                    *ends += 1;
                }
            }
            now.is_some()
        });
    }

    /// Where the time went.
    pub(super) fn evidence(
        &mut self,
        registry: &ModuleRegistry,
        names: &mut Names,
    ) -> ClockEvidence {
        self.agent.read_clock();
        self.mappings.begin_epoch_if_due(false);
        self.learn_placements(registry);
        self.drain();
        self.read_clocks();
        self.jit.catch_up(&self.mappings);
        self.own_up();
        let stacks = self.stacks.counts();
        let (residue, unsampled) = self.rest();
        let user = self.user_time();
        let live = self.threads.values().map(|thread| &thread.strand).collect();
        let brief_user = if self.sees_kernel { user } else { self.user_share() };
        let brief = self.brief.evidence(unsampled, self.period.as_nanos() as f64, brief_user);
        let observed =
            Observed { live, ended: &self.ended, residue, unsampled, brief, stacks: &stacks, user };
        let mut owners =
            Owners::new(registry, names, &mut self.mappings, &mut self.jit, self.sees_kernel);
        let attributed = attribution::attribute(&observed, &mut owners);
        let invisible = if attributed.samples > 0 { owners.invisible() } else { Owners::points() };
        let hz = |period: Duration, rings: &[Ring]| {
            if rings.is_empty() { 0.0 } else { 1.0 / period.as_secs_f64() }
        };
        ClockEvidence {
            source: ClockSource::Kernel {
                hz: hz(self.period, &self.addresses),
                stack_hz: hz(self.stack_period, &self.stack_rings),
                kernel: self.sees_kernel,
            },
            processor: attributed.processor,
            system: attributed.system,
            unknown: attributed.unknown,
            unplaced: attributed.unplaced,
            samples: attributed.samples,
            stack_samples: attributed.stack_samples,
            functions: attributed.functions,
            stacks: attributed.stacks,
            invisible: invisible.into_iter().collect(),
        }
    }

    /// Counts the samples in code of which nothing is known.
    fn own_up(&mut self) {
        let (mut unnamed, mut all) = (0.0, 0.0);
        let (jit, mappings) = (&mut self.jit, &self.mappings);
        let mut count = |place: Place, samples: f64| {
            all += samples;
            let Some(when) = mappings.seen_in_window(place.mapping) else { return };
            let made = mappings.address(place).and_then(|address| jit.function(address, when));
            unnamed += if made.is_none() { samples } else { 0.0 };
        };
        let live = self.threads.values().flat_map(|thread| &thread.strand.places);
        live.for_each(|(&place, &samples)| count(place, samples.into()));
        self.ended.places.iter().for_each(|(&place, amount)| count(place, amount.samples));
        self.jit.own_up(unnamed, all);
    }

    /// CPU time that no sampled thread's clock has shown: of threads that have ended since their
    /// clocks were read, and of threads that were never sampled.
    fn rest(&self) -> (f64, f64) {
        let sampled: f64 = self.threads.values().map(|thread| thread.strand.processor).sum::<f64>()
            + self.ended.processor;
        let (process, agents) =
            self.paused.unwrap_or_else(|| (clocks::of_process(), self.agent.processor()));
        let process = process.saturating_sub(self.before).saturating_sub(agents);
        let rest = (process.as_nanos() as f64 - sampled).max(0.0);
        let mut unsampled = 0.0;
        let _ = threads::each(|tid| {
            if !self.threads.contains_key(&tid) && !self.agent.all.contains(&tid) {
                let clock = clocks::of_thread(tid).unwrap_or_default();
                let before = self.earlier.get(&tid).copied().unwrap_or_default();
                unsampled += clock.saturating_sub(before).as_nanos() as f64;
            }
        });
        let unsampled = unsampled.min(rest);
        let pause = if self.threads.len() > MANY { CLOCKS_OF_MANY } else { CLOCKS };
        // The clock of a thread that has ended was read at most a pause before.
        let residue = (rest - unsampled).min(f64::from(self.ends) * pause.as_nanos() as f64);
        (residue, rest - residue)
    }

    fn user_time(&self) -> UserTime {
        let was_full = self.lost > 0 || self.addresses.iter().any(Ring::was_full);
        match (self.sees_kernel, was_full) {
            (true, _) => UserTime::AndSystem,
            (false, false) => UserTime::Sampled { period: self.period.as_nanos() as f64 },
            (false, true) => self.user_share(),
        }
    }

    /// The share of user time by the kernel's accounts. By the agent, whose own time is left out.
    fn user_share(&self) -> UserTime {
        let ((user, system), (own_user, own_system)) = (clocks::split(false), clocks::split(true));
        let [user, system] = [(user, own_user), (system, own_system)]
            .map(|(all, own)| all.saturating_sub(own).as_secs_f64());
        UserTime::Share(if user + system > 0.0 { user / (user + system) } else { 1.0 })
    }
}

impl Thread {
    fn begin(tid: Tid, earlier: &HashMap<Tid, Duration>) -> Self {
        let now = clocks::of_thread(tid).unwrap_or_default();
        // If the number was another thread's, this thread began later.
        let before = earlier.get(&tid).copied().filter(|before| *before <= now);
        Self { before: before.unwrap_or_default(), ..Self::default() }
    }
}

/// The CPU time that every thread has used so far.
fn clocks_now() -> HashMap<Tid, Duration> {
    let mut clocks = HashMap::new();
    let _ = threads::each(|tid| {
        clocks.extend(clocks::of_thread(tid).map(|clock| (tid, clock)));
    });
    clocks
}

/// Sampling that is inherited and never pauses.
fn always(period: Duration) -> Sampling {
    Sampling { period, kernel: false, stack: 0, inherit: true, is_paused: false }
}

/// Keeps an address that is taken soon; in a program with very many threads some are dropped, and
/// seen again later.
pub(super) fn remember(addresses: &mut Vec<u64>, address: Option<u64>) {
    const MOST: usize = 1 << 14;
    if addresses.len() < MOST {
        addresses.extend(address);
    }
}

/// Unwinds the stacks that were sampled. `ours` is an address in the profiler's library.
fn drain_stacks(
    rings: &mut [Ring],
    agent: &Agent,
    mappings: &mut Mappings,
    unwinding: &mut Unwinding,
    stacks: &mut Reservoir,
    ours: u64,
    mut met: Option<&mut Vec<u64>>,
) {
    for ring in rings {
        let ours = mappings.place(ours, clocks::monotonic()).mapping;
        ring.drain(|found| {
            if let Found::Sample(seen) = found
                && !agent.all.contains(&seen.thread)
                && spans::contains(seen.time)
                && let Some(registers) = seen.user
            {
                let is_ours = |_: &Mappings, place: Place| place.mapping == ours;
                let hooks = if met.is_some() { Hooks::Puns } else { Hooks::Calls };
                let stack = unwinding.walk(mappings, &seen, registers, hooks, is_ours);
                if let Some(met) = &mut met {
                    for &place in &stack.places {
                        remember(met, mappings.address(place).map(|address| address as u64));
                    }
                }
                stacks.add(stack);
            }
        });
    }
}

/// The same event on every processor.
#[derive(Debug, Default)]
struct Events {
    rings: Vec<Ring>,
    opened: Vec<(u32, Opened)>,
}

impl Events {
    /// Leaves out processors that have gone off-line meanwhile.
    fn open(
        sampling: Sampling,
        processors: &[u32],
        size: usize,
        least: usize,
    ) -> Result<Self, OsError> {
        let mut events = Self::default();
        for &processor in processors {
            match Ring::open(sampling, Tid(0), processor, size, least) {
                Ok((ring, opened)) => {
                    events.rings.push(ring);
                    events.opened.push((processor, opened));
                }
                Err(error) if error.errno == libc::ENODEV && processors.len() > 1 => {}
                Err(error) => return Err(error),
            }
        }
        let none = OsError { call: "perf_event_open", errno: libc::ENODEV };
        if events.rings.is_empty() { Err(none) } else { Ok(events) }
    }

    /// Threads that are there before us: their samples go to the same rings, as far as descriptors
    /// suffice. One that is not sampled has time that is not known.
    fn join_others(self) -> Vec<Ring> {
        let this = threads::current();
        let mut others = Vec::new();
        let _ = threads::each(|tid| others.extend((tid != this).then_some(tid)));
        let pairs = || self.rings.iter().zip(&self.opened);
        let join = |tid| {
            pairs().try_for_each(|(ring, (processor, opened))| {
                opened.join(&ring.sampling(), tid, *processor)
            })
        };
        // Threads after one that was refused would be refused, too.
        let _ = others.into_iter().try_for_each(join);
        self.rings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("0"), [0]);
        assert!(parse_list("").is_empty());
        assert!(!processors().is_empty());
    }
}
