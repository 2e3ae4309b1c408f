//! The agent: the thread that drains the rings of the other threads, asks the controller which
//! probes to change, changes them, and writes the profile.
//!
//! It blocks all signals, holds no lock that a hook may take, and sleeps on a futex. A thread that
//! wants a profile written posts a request and waits with a timeout. So no work of the profiler
//! runs in a signal handler of the program.

use super::functions::Id;
use super::handover::{self, Pace};
use super::layout::RING_COUNT;
use super::registry::lock_registry;
use super::request_queue::{self, RoundStep, TakenRequests};
use super::witness::Witness;
use super::{attached, clock, load_handshake, measure, modes, spans, target, threads, unloading};
use crate::heap;
use crate::names::Names;
use crate::output::Unhindered;
use looks::{Looks, Taking};
use profiler::{Clock, Controller, Nesting};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};
use wordpatch::os::clocks;

mod accounts;
pub(crate) mod control;
mod draining;
mod installing;
mod looks;
mod switching;
mod thread;
mod writing;

use accounts::Account;
pub(crate) use installing::do_with_less;
pub(super) use installing::may_install;
use switching::{Changes, refill};
use thread::{BEFORE, HeardCalls, REQUESTS, THREAD, agent_time};
pub(super) use thread::{arrives, await_until, processor_time};
pub(crate) use thread::{
    ask_to_write, call, dismiss, forget, is_there, run_as_agent, start, write_now,
};

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
/// A program that hardly runs: the agent does not wait for its clock.
const SLOWEST: f64 = 1e-3;
/// The longest pause between two ticks: requests and new modules are seen within it.
const LATEST: Duration = Duration::from_millis(250);

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
    taking: Taking,
    written: Instant,
    heard: HeardCalls,
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

impl Agent {
    /// An agent that knows the existing functions; gives them their first modes.
    pub(crate) fn new(clock: Clock, seed: u64) -> Self {
        let mut agent = Self::blank(clock, seed);
        agent.meet_all();
        agent
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
            taking: Taking::default(),
            written: Instant::now(),
            heard: HeardCalls::default(),
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

    /// Sleeps until it is time to look, or another thread calls the agent. If one has called it
    /// since its round began, the round may have looked too early: the next is soon, and at once if
    /// a thread waits that loads a module.
    ///
    /// Meanwhile it drains rings before they are half full: looking at the counters of many
    /// functions may be due much later, and a thread that drains its ring itself cannot distinguish
    /// cycles. Where every call is timed there are none, and the threads drain their rings cheaper.
    fn sleep(&mut self, mut pause: Duration) {
        if self.heard.is_called() {
            self.heard.hear();
            let is_awaited = load_handshake::is_requested();
            pause = if is_awaited { Duration::ZERO } else { pause.min(SOONEST) };
        }
        let end = Instant::now() + pause;
        while !REQUESTS.is_waiting() {
            let rest = end.saturating_duration_since(Instant::now());
            let filling = if self.is_exact { rest } else { self.filling };
            let least = filling.min(self.witness.pause()).min(self.control.pause());
            self.heard.sleep(rest.min(least));
            if self.heard.is_called() || Instant::now() >= end || self.control.take_requests() {
                break;
            }
            self.drain();
            self.witness.take_samples();
        }
        self.heard.hear();
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
        let samples = self.samples;
        let busy = self.drain_while_busy();
        self.taking.took(clocks::of_caller().saturating_sub(before), self.samples - samples);
        let now = self.count_by_the_clock();
        self.report_retired();
        self.witness.take_samples();
        let hz = target::clock().hz;
        self.looks.took(clocks::of_caller().saturating_sub(before));
        let mut changes = Changes::default();
        self.learn_toggle();
        self.controller.learn_taking(self.taking.of_one().as_secs_f64() * hz);
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
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}
