//! The agent: the thread that drains the rings of the other threads, asks the controller which
//! probes to change, changes them, and writes the profile.
//!
//! It blocks all signals, holds no lock that a hook may take, and sleeps on a futex. A thread that
//! wants a profile written posts a request and waits with a timeout. So no work of the profiler
//! runs in a signal handler of the program.

use super::drain::{self, Done};
use super::functions::{self, Id};
use super::handover::{self, Pace};
use super::layout::{Function, RECORD, RING_COUNT, Record};
use super::registry::{ModuleRegistry, lock_registry};
use super::request_queue::{self, RequestQueue, RoundStep, TakenRequests};
use super::sites::SiteList;
use super::witness::Witness;
use super::{
    attached, clock, load_handshake, measure, modes, registered, scope, sharing, spans, target,
    thread_sums, threads, unloading,
};
use crate::heap;
use crate::names::Names;
use crate::output::{self, Unhindered};
use looks::Looks;
use profiler::{Clock, Controller, Mode, Nesting, Probes};
use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};
use wordpatch::CodeAddr;
use wordpatch::os::threads::{Tid, current, sleep_while_for, wake};
use wordpatch::os::{OsError, clocks};

pub(crate) mod control;
mod draining;
mod looks;
mod writing;

/// Incremented by every call; the agent sleeps on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
static REQUESTS: RequestQueue = RequestQueue::new();
/// The agent's thread; zero if there is none.
static THREAD: AtomicU32 = AtomicU32::new(0);
/// The CPU time, in nanoseconds, of the agent's threads that have ended.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// The controller's next decision is near if it is due in less than this, in seconds of the
/// program's time.
const SOON: f64 = 5e-3;
/// For how long the agent only drains when threads fill their rings all the time.
const BUSY_FOR: Duration = Duration::from_millis(5);
/// Rings are drained when they hold this many.
const NEARLY_HALF: usize = RING_COUNT * 3 / 8;
/// The shortest pause between two ticks.
const SOONEST: Duration = Duration::from_millis(1);
/// Counting takes no longer than this, in seconds of the program's time, unless the agent is
/// interrupted.
const NEAR: f64 = 50e-6;
/// The next installation waits for one part in this many of the time between the agent's start and
/// the previous one.
const INSTALLATION_PACE: u32 = 20;
/// How many functions are switched per reading of the program's clock.
const MARKED_TOGETHER: usize = 8;
/// A program that hardly runs: the agent does not wait for its clock.
const SLOWEST: f64 = 1e-3;
/// The longest pause between two ticks: requests and new modules are seen within it.
const LATEST: Duration = Duration::from_millis(250);

/// Wakes the agent. Usable in a signal handler.
pub(crate) fn call() {
    CALLS.fetch_add(1, Release);
    wake(&CALLS);
}

/// Whether functions of unmodified code get no more probes: a filter of system calls may kill the
/// process for the calls that installing takes.
static INSTALLATION_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Whether unmodified code may get probes, and memory for them may be mapped and unmapped.
pub(super) fn may_install() -> bool {
    !INSTALLATION_FORBIDDEN.load(Acquire)
}

/// A filter of system calls is about to be installed, under which profiles are known to work.
/// Everything that takes further system calls stops.
pub(crate) fn do_with_less() {
    INSTALLATION_FORBIDDEN.store(true, Release);
    // Another thread may be installing a probe: wait until it is done.
    drop(lock_registry());
    control::forbid();
}

/// How long it may take to make a profile of very many functions, and to write it to a busy disk.
const WORK: Duration = Duration::from_secs(20);

/// How long `start` waits for the agent's thread to begin.
const ARRIVAL: Duration = Duration::from_secs(1);

/// Whether an agent is running. There is none in a child that was created without the C library,
/// although its copy of the memory says so.
pub(crate) fn is_there() -> bool {
    THREAD.load(Relaxed) != 0 && target::is_known_process()
}

/// Has the profile written, and waits for it. Returns whether it was written.
///
/// `patience` limits the wait for an agent that may itself be waiting for the caller: the caller
/// may be a signal handler, which has interrupted arbitrary code. Once the agent waits for the CPU
/// and the disk only, this waits for up to `WORK` more.
pub(crate) fn write_now(patience: Duration) -> bool {
    if !is_there() || current() == Tid(THREAD.load(Relaxed) as i32) {
        return false;
    }
    let number = REQUESTS.post();
    call();
    REQUESTS.await_answer(number, patience)
        || (output::is_unhindered() && REQUESTS.await_answer(number, WORK))
}

/// Has the profile written some time soon. Usable in a signal handler.
pub(crate) fn ask_to_write() {
    let _ = REQUESTS.post();
    call();
}

/// Has the agent leave, and waits until its thread has ended.
pub(crate) fn dismiss(patience: Duration) -> bool {
    let thread = THREAD.load(Acquire);
    if thread == 0 {
        return true;
    }
    REQUESTS.dismiss();
    call();
    await_until(patience, || {
        THREAD.load(Acquire) == 0 && !wordpatch::os::threads::lives(Tid(thread as i32))
    })
}

/// Waits until it is done, for `patience` at most. Returns whether it is.
pub(super) fn await_until(patience: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    let mut looks = 0;
    while !done() {
        if Instant::now() > end {
            return false;
        }
        looks += 1;
        if looks < 20 {
            wordpatch::os::threads::give_way();
            continue;
        }
        // SAFETY-free and short: the agent answers within a few hundred microseconds.
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// In a forked child: the thread is the parent's.
pub(crate) fn forget() {
    THREAD.store(0, Release);
    REQUESTS.forget();
    BEFORE.store(0, Relaxed);
    clock::forget();
}

/// Starts the agent's thread.
pub(crate) fn start(mut agent: Agent) -> Result<(), OsError> {
    // Done here, where opening a file takes no descriptor that another thread of the program may
    // expect.
    handover::claim(target::config().handover.as_deref());
    agent.open_control();
    arrives();
    let blocked = wordpatch::os::signals::Blocked::all();
    let life = move || run_as_agent(agent);
    let started = wordpatch::os::threads::start(c"fastinst", 512 << 10, life);
    drop(blocked);
    if started.is_err() {
        THREAD.store(0, Release);
    }
    started?;
    // Waits until it runs: whatever the program does next (install a filter of system calls, enter
    // a namespace) must not meet a thread that is only half set up.
    let end = Instant::now() + ARRIVAL;
    while THREAD.load(Acquire) == u32::MAX && Instant::now() < end {
        sleep_while_for(&THREAD, u32::MAX, ARRIVAL);
    }
    Ok(())
}

/// The calling thread is about to become the agent's: a thread that requests the profile meanwhile
/// waits for it.
pub(super) fn arrives() {
    THREAD.store(u32::MAX, Release);
}

/// The calling thread is the agent's from now on, until it leaves.
pub(crate) fn run_as_agent(agent: Agent) {
    threads::ours();
    target::block_signals();
    // Hash tables draw random numbers, once for each thread. This draws them now: a filter of
    // system calls may be installed by the time that a table is first used.
    let _ = std::hash::RandomState::new();
    THREAD.store(current().0 as u32, Release);
    wordpatch::os::threads::wake_all(&THREAD);
    if std::panic::catch_unwind(AssertUnwindSafe(|| agent.run())).is_err() {
        target::give_up("an invariant of ours is broken");
        THREAD.store(0, Release);
    }
}

/// The agent's own state.
pub(crate) struct Agent {
    controller: Controller,
    functions: Vec<Account>,
    /// Functions with lower numbers were met.
    met: u32,
    /// Functions that were not made yet when they were met.
    unready: Vec<Id>,
    /// Functions in sample mode.
    armed: BTreeSet<Id>,
    started: measure::Instants,
    /// Work of the program for each tick of the counter: about the number of processors that it
    /// keeps busy.
    busy: f64,
    looks: Looks,
    written: Instant,
    /// When the profile is handed over to `fastinst run`.
    pace: Pace,
    samples: u64,
    /// For each thread, by its block.
    nestings: HashMap<usize, Nesting>,
    summed: profiler::SummedCalls,
    /// Whether every call is timed.
    is_exact: bool,
    /// When the rings were drained last, and the expected time until one of them is nearly half
    /// full, judged by what was in them.
    drained: Instant,
    filling: Duration,
    names: Names,
    /// Nanoseconds since 1970.
    began: u64,
    witness: Witness,
    /// Whether functions of unmodified code may get probes.
    has_puns: bool,
    /// Whether all functions of the unmodified code that is loaded got probes, as they do
    /// without a kernel clock.
    installed_all: bool,
    /// When the agent began, and when it last gave probes to functions that were seen running.
    arrived: Instant,
    last_installation: Instant,
    /// How often recording was switched, as far as the witness was informed.
    switches: u32,
    /// What was recorded when counts were taken last; `None` where recording cannot be switched.
    recorded: Option<spans::Recorded>,
    /// Whether recording was ever switched too often for the witness to follow.
    is_blurred: bool,
    /// When the agent last checked whether any thread of the program is left.
    looked_around: Instant,
    /// The CPU time that the program used before it was profiled; and that the agent used for an
    /// earlier profile.
    before: Duration,
    agent_before: Duration,
    control: control::Control,
    /// What the last profile was made of: dropped when no thread waits for the agent any more.
    leftovers: Option<(profiler::Profile, heap::Hoard)>,
    /// The profile as of when measuring was switched off from outside.
    frozen: Option<Box<profiler::Profile>>,
}

/// What the agent knows about a function.
#[derive(Clone, Debug)]
struct Account {
    /// Entries that were reported to the controller; and, among them, those of an earlier profile.
    told: u64,
    earlier: u64,
    /// Entries on threads that have ended.
    ended: u64,
    samples: bool,
    /// The quota that threads are refilled to at every look, if they are.
    refill: Option<i32>,
    module: Option<usize>,
}

impl Agent {
    /// An agent that knows the existing functions; gives them their first modes.
    pub(crate) fn new(clock: Clock, seed: u64) -> Self {
        let mut agent = Self::blank(clock, seed);
        agent.meet_all();
        agent
    }

    /// Meets all existing functions.
    fn meet_all(&mut self) {
        let all = self.meet();
        let mut registry = lock_registry();
        self.discover(&all, &mut registry);
        self.witness.set_registered_code(registered::spans(&registry));
    }

    /// Without any function.
    fn blank(clock: Clock, seed: u64) -> Self {
        let has_puns = lock_registry().unmodified.is_some();
        let costs = measure::costs(has_puns, clock.hz);
        clock::set_speed(clock.hz);
        let (now, busy) = clock::publish_work();
        let controller = Controller::new(target::config().policy.clone(), clock, costs, seed, now);
        let mut agent = Self {
            controller,
            functions: Vec::new(),
            met: 1,
            unready: Vec::new(),
            armed: BTreeSet::new(),
            started: measure::Instants::now(),
            busy,
            looks: Looks::default(),
            written: Instant::now(),
            pace: Pace::new(Instant::now()),
            samples: 0,
            nestings: HashMap::new(),
            summed: profiler::SummedCalls::default(),
            is_exact: target::config().policy == profiler::Policy::Exact,
            drained: Instant::now(),
            filling: LATEST,
            names: Names::default(),
            began: std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0, |since| since.as_nanos() as u64),
            witness: Witness::begin(target::config().witness, &target::config().policy, has_puns),
            has_puns,
            installed_all: false,
            arrived: Instant::now(),
            last_installation: Instant::now(),
            switches: spans::switches(),
            recorded: spans::recorded(),
            is_blurred: false,
            looked_around: Instant::now(),
            before: Duration::ZERO,
            agent_before: Duration::ZERO,
            control: control::Control::default(),
            leftovers: None,
            frozen: None,
        };
        if !spans::is_recording() {
            agent.witness.wait_for_recording();
        }
        agent
    }

    /// For a process that ran before this agent: what threads have counted and timed for an earlier
    /// agent is not reported again, and the CPU time used so far is not shared out to functions.
    pub(crate) fn late(clock: Clock, seed: u64) -> Self {
        drain_unseen();
        modes::ACCOUNT.clear();
        super::arguments::clear();
        let mut agent = Self::new(clock, seed);
        threads::give_back();
        agent.leave_the_past();
        // The CPU time of earlier agents. What this one has used so far counts for this profile.
        agent.agent_before = Duration::from_nanos(BEFORE.load(Relaxed));
        agent
    }

    /// What was counted and timed so far is not reported again, and the CPU time used so far
    /// belongs to no function.
    fn leave_the_past(&mut self) {
        drain_unseen();
        modes::ACCOUNT.clear();
        self.make_accounts();
        let mut past = profiler::SummedCalls::default();
        for block in threads::all() {
            block.lost.store(0, Relaxed);
            for number in 1..threads::records_of(block).min(functions::count()) {
                thread_sums::take_sums(block, Id(number), &mut past);
            }
        }
        for (number, sum) in self.sums(|_, _| ()).into_iter().enumerate().skip(1) {
            (self.functions[number].told, self.functions[number].earlier) = (sum, sum);
        }
        self.before = clocks::of_process().saturating_sub(agent_time());
        spans::begin_anew();
        self.switches = spans::switches();
    }

    /// How often each function was entered, by all threads; calls `visit` with each of their
    /// records.
    fn sums(&self, visit: impl Fn(u32, &Record)) -> Vec<u64> {
        let mut sums: Vec<u64> = self.functions.iter().map(|account| account.ended).collect();
        for block in threads::all() {
            let records = threads::records_of(block).min(sums.len() as u32);
            for (number, sum) in (1..records).zip(&mut sums[1..]) {
                if let Some(record) = block.record(number * RECORD as u32) {
                    *sum += record.count.load(Relaxed);
                    visit(number, record);
                }
            }
        }
        for (number, sum) in sums.iter_mut().enumerate().skip(1) {
            *sum += Id(number as u32).function().late.load(Relaxed);
        }
        sums
    }

    /// Makes accounts for functions that were added since. Returns those that must be reported to
    /// the controller.
    fn meet(&mut self) -> BTreeSet<Id> {
        self.make_accounts();
        let count = self.functions.len() as u32;
        let come = std::mem::take(&mut self.unready).into_iter().chain((self.met..count).map(Id));
        let (ready, unready): (Vec<Id>, _) =
            come.filter(|id| !id.is_nobody()).partition(|id| id.is_made());
        (self.met, self.unready) = (count, unready);
        ready.into_iter().collect()
    }

    fn make_accounts(&mut self) {
        let blank =
            Account { told: 0, earlier: 0, ended: 0, samples: false, refill: None, module: None };
        self.functions.resize(functions::count() as usize, blank);
    }

    /// Reports functions to the controller that are new or have new sites.
    fn discover(&mut self, changed: &BTreeSet<Id>, registry: &mut ModuleRegistry) {
        self.make_accounts();
        for &id in changed {
            let address = CodeAddr::new(id.function().address.load(Relaxed) as usize);
            // The module in which it was first seen: another one may be mapped there by now.
            let account = &mut self.functions[id.0 as usize];
            account.module =
                account.module.or_else(|| registry.entry_of(address).map(|(number, _)| number));
            if scope::is_used() {
                let unmodified = registry.unmodified.as_ref();
                let is_untimed = unmodified.is_some_and(|code| code.is_untimed(id));
                scope::set_role(id, target::opens_scope(registry, address), is_untimed);
            }
            if self.frozen.is_none() && target::is_selected(registry, address) {
                let others =
                    sharing::others(id).into_iter().map(|id| profiler::FuncId(id.0)).collect();
                self.controller.discovered(profiler::FuncId(id.0), sites_of(id));
                self.controller.ends_with(profiler::FuncId(id.0), others);
                if let Some(counting) = registered::counting_at(registry, address) {
                    self.controller.counting_takes(profiler::FuncId(id.0), counting);
                }
                if registry.unmodified.as_ref().is_some_and(|code| code.is_untimed(id)) {
                    self.controller.only_counts(profiler::FuncId(id.0));
                }
            } else {
                modes::allow(id, false);
            }
        }
        let mut changes = Changes::default();
        self.controller.first(&mut changes);
        self.apply_modes(changes);
        // Only after they have got their modes: a span that began earlier would miss their calls.
        for &id in changed.iter().filter(|_| spans::are_used()) {
            let address = CodeAddr::new(id.function().address.load(Relaxed) as usize);
            spans::set_role(id, target::role_of(registry, address));
        }
        if spans::are_used() || scope::is_used() {
            changed.iter().copied().for_each(modes::renew);
        }
    }

    fn run(mut self) {
        let (mut pause, mut taken) = (SOONEST, TakenRequests::default());
        loop {
            self.sleep(if handover::writer().is_some() {
                pause.min(self.pace.pause())
            } else {
                pause
            });
            self.leftovers = None;
            for step in request_queue::ROUND {
                match step {
                    RoundStep::Take => taken = REQUESTS.take(),
                    RoundStep::Look => pause = self.tick(taken.write || taken.leave),
                    RoundStep::Write if taken.write || self.is_due() => self.write(),
                    RoundStep::Write => self.hand_over_if_due(),
                    RoundStep::Answer => REQUESTS.answer(taken),
                }
            }
            if heap::is_short() {
                modes::silence_all();
                target::give_up("the program's memory limits leave none for the profiler");
                THREAD.store(0, Release);
                return;
            }
            if self.serve() && !attached::end() {
                self.write();
                self.retire_for_good();
                THREAD.store(0, Release);
                return;
            }
            if taken.leave {
                break;
            }
            if attached::is_over() {
                // The last profile that its reader gets.
                self.write();
                break;
            }
            if self.is_left_alone() {
                // No thread of the program is left to ask for the profile.
                self.write();
                // What the C library calls at the end of the last thread that it knows of is called
                // on this thread.
                threads::not_ours();
                let status = wordpatch::os::threads::status_of_first().unwrap_or(0);
                if status != 0 {
                    // The first thread ended by the system call, of which the C library knows
                    // nothing.
                    wordpatch::os::threads::end(status);
                }
                break;
            }
        }
        BEFORE.store(agent_time().as_nanos() as u64, Relaxed);
        self.control = control::Control::default();
        self.leftovers = None;
        if !attached::is_over() {
            target::agent_leaves(self);
        }
        THREAD.store(0, Release);
    }

    /// Sleeps until it is time to look, or another thread calls the agent.
    ///
    /// Meanwhile it drains rings before they are half full: looking at the counters of many
    /// functions may be due much later, and a thread that drains its ring itself cannot distinguish
    /// cycles. Where every call is timed there are none, and the threads drain their rings cheaper.
    fn sleep(&mut self, pause: Duration) {
        let calls = CALLS.load(Acquire);
        let end = Instant::now() + pause;
        while !REQUESTS.is_waiting() {
            let rest = end.saturating_duration_since(Instant::now());
            let filling = if self.is_exact { rest } else { self.filling };
            let least = filling.min(self.witness.pause()).min(self.control.pause());
            sleep_while_for(&CALLS, calls, rest.min(least));
            if CALLS.load(Acquire) != calls || Instant::now() >= end || self.control.take_requests()
            {
                break;
            }
            self.drain();
            self.witness.take_samples();
        }
    }

    /// Whether all threads of the program have ended, and none of them by an interposed function:
    /// then this thread must not keep the process alive.
    fn is_left_alone(&mut self) -> bool {
        if self.looked_around.elapsed() < LATEST {
            return false;
        }
        self.looked_around = Instant::now();
        // Checked twice: the first list may have missed a thread that was started by one that has
        // just ended.
        wordpatch::os::threads::first_has_ended()
            && (0..2).all(|_| wordpatch::os::threads::is_last_but_first())
    }

    /// Whether a profile is due by the time that has passed.
    fn is_due(&self) -> bool {
        if target::end_is_lost() && self.written.elapsed() >= LATEST {
            return true;
        }
        target::config().interval.is_some_and(|interval| self.written.elapsed() >= interval)
    }

    /// Drains, decides, switches. Returns how long to sleep. It switches nothing while another
    /// thread waits for the profile: most often the program is ending then.
    fn tick(&mut self, is_awaited: bool) -> Duration {
        self.look_for_modules();
        if self.frozen.is_some() {
            // What has ended since, and has come while probes were switched off.
            self.drain();
            self.notify_runtimes();
            return LATEST;
        }
        let next_switch = self.attend_to_spans();
        if !is_awaited {
            self.install_sampled();
        }
        let _unhindered = is_awaited.then(Unhindered::begin);
        let before = clocks::of_caller();
        let busy = self.drain_while_busy();
        let now = self.count_by_the_clock();
        self.report_retired();
        self.witness.take_samples();
        let hz = target::clock().hz;
        self.looks.took(clocks::of_caller().saturating_sub(before));
        let mut changes = Changes::default();
        self.learn_toggle();
        if is_awaited {
            return SOONEST;
        }
        let next = self.controller.tick(now, &mut changes);
        let elsewhere = if unloading::is_going_on() {
            Vec::new()
        } else {
            let _registry = lock_registry();
            self.apply_modes(changes)
        };
        self.notify_runtimes();
        if !elsewhere.is_empty() {
            clock::mark();
            let switched = clock::marked();
            elsewhere.into_iter().for_each(|function| self.controller.switched(function, switched));
        }
        if busy && !self.is_exact {
            return Duration::ZERO;
        }
        // The program's clock advances by the CPUs that the program uses. If the clock never
        // reaches the instant, the agent waits for [`LATEST`] at most.
        let until = next.since(now).0 as f64 / self.busy.max(SLOWEST);
        let is_soon = next.since(now) < target::clock().ticks(SOON);
        let pause = Duration::from_secs_f64(until / hz).max(self.looks.pause(is_soon));
        let pause = pause.clamp(SOONEST, LATEST);
        let interval = target::config().interval;
        interval.into_iter().chain(next_switch).fold(pause, Duration::min)
    }

    fn look_for_modules(&mut self) {
        let news = target::take_new_functions() | target::take_lessons() | !self.unready.is_empty();
        if !news && !load_handshake::is_requested() {
            return;
        }
        let mut registry = lock_registry();
        let is_unloading = unloading::is_going_on();
        let wanted = load_handshake::take_requests(is_unloading);
        if is_unloading && wanted.is_none() {
            // Later: a thread that waits for a module gets no answer yet, and what hooks have
            // learnt is kept.
            target::keep_lessons();
            return;
        }
        let mut changed = self.meet();
        changed.extend(registry.learn());
        if let Some(wanted) = &wanted {
            changed.extend(registry.install_all(
                target::policy(),
                true,
                wanted.functions.as_deref(),
            ));
            if wanted.functions.is_none() && may_install() {
                changed.extend(target::install_late(&mut registry));
                self.installed_all = false;
            }
        }
        self.discover(&changed, &mut registry);
        self.witness.set_registered_code(registered::spans(&registry));
        if let Some(wanted) = &wanted {
            load_handshake::answer_requests(wanted);
        }
    }

    /// Installs probes in functions of unmodified code that were seen to run.
    fn install_sampled(&mut self) {
        if !self.has_puns || !may_install() || !self.is_installation_due() {
            return;
        }
        let seen = self.witness.take_seen();
        if seen.is_some() && !spans::is_recording() {
            return;
        }
        let (was_seen, nothing_is_new) = match &seen {
            Some(seen) => (true, seen.is_empty()),
            None => (false, std::mem::replace(&mut self.installed_all, true)),
        };
        if nothing_is_new {
            return;
        }
        self.last_installation = Instant::now();
        let mut registry = lock_registry();
        // Checked under the lock: a thread that forbids installing waits for the lock, or is seen
        // here.
        let Some(unmodified) = registry.unmodified.as_ref() else { return };
        if !may_install() || !target::installs_when_sampled(&registry) || unloading::is_going_on() {
            return;
        }
        // Without a clock that shows which functions run, any may.
        let mut seen: Vec<CodeAddr> = match seen {
            Some(seen) => seen.into_iter().map(|at| CodeAddr::new(at as usize)).collect(),
            None => unmodified.all(|_| true),
        };
        seen.sort_unstable();
        seen.dedup();
        let new = registry.install_unmodified(&seen);
        let now = clock::work();
        for id in &new {
            self.controller.begins_late(profiler::FuncId(id.0), now, was_seen);
        }
        self.discover(&new, &mut registry);
    }

    /// Whether the functions that were seen meanwhile are worth a look at what is mapped, which
    /// takes as long as giving some of them probes. Hot functions were seen in the beginning.
    fn is_installation_due(&self) -> bool {
        let age = self.last_installation.duration_since(self.arrived);
        self.last_installation.elapsed() >= (age / INSTALLATION_PACE).min(LATEST)
    }

    /// The cost of switching a function off and on again: two sites, each twice, and as much again
    /// for the threads that execute them and have to fetch them anew.
    fn learn_toggle(&mut self) {
        let toggles = modes::ACCOUNT.toggles.load(Relaxed);
        if toggles > 100 {
            let one = modes::ACCOUNT.ticks.load(Relaxed) as f64 / toggles as f64;
            self.controller.learn_toggle((one * 4.0 * 2.0).clamp(400.0, 20_000.0));
        }
    }

    /// Passes the wanted states of registered functions to their runtimes.
    fn notify_runtimes(&mut self) {
        let refused = registered::notify_runtimes();
        modes::ACCOUNT.failures.fetch_add(refused as u64, Relaxed);
    }

    /// Reports the functions to the controller that hooks have retired.
    fn report_retired(&mut self) {
        let (controller, functions) = (&mut self.controller, &mut self.functions);
        self.armed.retain(|&id| {
            let function = id.function();
            let armed = modes::is_armed(function);
            if !armed {
                functions[id.0 as usize].samples = false;
                let [armed, at] = [&function.armed_at, &function.retired_at]
                    .map(|at| profiler::Ticks(at.load(Acquire)));
                controller.retired(profiler::FuncId(id.0), armed, at);
            }
            armed
        });
    }

    /// Switches functions. Returns those that a runtime switches itself, once the agent calls it.
    fn apply_modes(&mut self, changes: Changes) -> Vec<profiler::FuncId> {
        let mut elsewhere = Vec::new();
        for (at, (function, mode)) in changes.0.into_iter().enumerate() {
            let id = Id(function.0);
            if at % MARKED_TOGETHER == 0 {
                clock::mark();
            }
            modes::set(id, mode);
            self.controller.switched(function, clock::marked());
            if id.function().site_list().is_some_and(|list| list.registration().is_some()) {
                elsewhere.push(function);
            }
            let account = &mut self.functions[id.0 as usize];
            let samples = matches!(mode, Mode::Sample(_));
            if samples && !account.samples {
                self.armed.insert(id);
            } else if !samples && account.samples {
                self.armed.remove(&id);
            }
            account.samples = samples;
            account.refill = match mode {
                Mode::Sample(draw) if draw.is_refilled() => i32::try_from(draw.quota).ok(),
                _ => None,
            };
        }
        elsewhere
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// The changes that the controller wants.
#[derive(Debug, Default)]
struct Changes(Vec<(profiler::FuncId, Mode)>);

impl Probes for Changes {
    fn set(&mut self, function: profiler::FuncId, mode: Mode) {
        self.0.push((function, mode));
    }
}

/// Gives a thread its quota anew, if it has not used it up. If the thread takes one off meanwhile,
/// it gets one more.
fn refill(record: &Record, function: &Function, quota: i32) {
    let left = record.left.load(Relaxed);
    if (1..quota / 2).contains(&left) && record.term.load(Relaxed) == function.term.load(Relaxed) {
        record.left.store(quota, Relaxed);
    }
}

/// Discards what is in the threads' rings.
fn drain_unseen() {
    for block in threads::all() {
        while drain::take_entries(block, &mut [Done::default(); drain::BATCH]) > 0 {}
    }
}

fn sites_of(id: Id) -> u32 {
    id.function().site_list().map_or(0, SiteList::probes)
}

/// The CPU time of the agent's threads. Usable in a hook.
pub(super) fn processor_time() -> Duration {
    let own = match THREAD.load(Acquire) {
        0 | u32::MAX => None,
        thread => clocks::of_thread(Tid(thread as i32)),
    };
    Duration::from_nanos(BEFORE.load(Relaxed)) + own.unwrap_or_default()
}

/// The CPU time of the agent's threads. By the agent.
fn agent_time() -> Duration {
    Duration::from_nanos(BEFORE.load(Relaxed)) + clocks::of_caller()
}
