//! Spans: when the program is recorded.
//!
//! Recording is switched by a function that is entered, by a signal, or by the time ([`Trigger`]).
//! While it is off, every function's sites are off, whatever the function's mode is: [`modes`]
//! queries [`is_recording`]. So hooks do nothing more than otherwise, and a program that is not
//! recorded pays nothing. Only the enter sites of functions that switch recording stay on; they
//! lead to the slow path, which calls this module.
//!
//! A thread that enters such a function switches all sites itself, in its hook, before it
//! continues: its very next call is recorded, or is not. The agent handles signals and times.
//!
//! All of the profiler's clocks stand still outside of the spans: that of the sampling controller
//! ([`clock`]), the profile's duration and the CPU time ([`recorded`]), and the sampling clock's
//! shares, which the agent pauses. So rates and estimates are those of the spans.

use super::clock;
use super::functions::{self, Id};
use super::modes;
use super::{agent, scope, target};
use crate::config::Config;
use crate::trigger::Trigger;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, fence};
use std::time::Duration;
use wordpatch::Ticks;
use wordpatch::os::{clocks, signals};

/// | value | meaning | changed by |
/// |---|---|---|
/// | `OFF` | nothing is recorded | a thread that begins a span: to `BEGINNING` |
/// | `BEGINNING` | it switches sites, and then reads the clocks | the same thread: to `ON` |
/// | `ON` | a span | a thread that ends it: to `ENDING` |
/// | `ENDING` | it reads the clocks, and then switches sites | the same thread: to `OFF` |
///
/// A thread that finds another one switching does nothing: its own event might as well have been a
/// moment earlier.
static PHASE: AtomicU32 = AtomicU32::new(ON);
const OFF: u32 = 0;
const BEGINNING: u32 = 1;
const ON: u32 = 2;
const ENDING: u32 = 3;

/// Whether recording can be switched at all, and by functions.
static IS_USED: AtomicBool = AtomicBool::new(false);
static HAS_FUNCTIONS: AtomicBool = AtomicBool::new(false);
/// Whether sites could not be switched when recording was: the agent does that later.
static IS_OWED: AtomicBool = AtomicBool::new(false);

/// What entering a function does, by its number: [`START`] and [`STOP`].
static ROLES: [AtomicU8; functions::MOST] = [const { AtomicU8::new(0) }; functions::MOST];
pub(super) const START: u8 = 1;
pub(super) const STOP: u8 = 2;

/// Signals that begin and end recording, at most.
const SIGNALS: usize = 8;
/// Each as its number, and its role in the bits above; zero in free entries.
static SIGNALLED: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
const ROLE: u32 = 8;
/// The roles of the signals that have arrived.
static CAME: AtomicU8 = AtomicU8::new(0);

/// The spans, as readings of the counter and of CPU clocks. `VERSION` is odd while they are
/// changed.
static VERSION: AtomicU32 = AtomicU32::new(0);
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static BEGUN: Reading = Reading::zero();
static SUM: Reading = Reading::zero();
static COUNT: AtomicU64 = AtomicU64::new(0);
/// When the latest span began, and when it ended, if it has: for the samples of the kernel's clock,
/// in its time.
static LATEST: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// When the first of them began and ended.
const TOLD: usize = 16;
static FIRST: [[AtomicU64; 2]; TOLD] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; TOLD];
/// The counter when profiling of this process began.
static WATCHED: AtomicU64 = AtomicU64::new(0);
/// When the program began; and which times have passed, bit by bit.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static PASSED: AtomicU64 = AtomicU64::new(0);

/// An instant, or a sum of distances: ticks of the counter, nanoseconds of CPU time of the process
/// and, of these, the agent's; and ticks of switching.
#[derive(Debug)]
struct Reading([AtomicU64; 4]);

impl Reading {
    const fn zero() -> Self {
        Self([const { AtomicU64::new(0) }; 4])
    }

    fn set(&self, values: [u64; 4]) {
        self.0.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
    }

    fn get(&self) -> [u64; 4] {
        std::array::from_fn(|at| self.0[at].load(Relaxed))
    }
}

fn now() -> [u64; 4] {
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let (process, agent) = (clocks::of_process(), agent::processor_time());
    let switching = modes::ACCOUNT.ticks.load(Relaxed);
    [Ticks::now().0, nanoseconds(process), nanoseconds(agent), switching]
}

/// What was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Ticks of the counter; CPU time of the process and, of it, of the agent.
    pub(crate) counter: u64,
    pub(crate) process: Duration,
    pub(crate) agent: Duration,
    /// Ticks of switching.
    pub(crate) switching: u64,
    /// How many spans, and when the first ones began and ended: the counter.
    pub(crate) spans: u64,
    pub(crate) first: Vec<[u64; 2]>,
}

/// Whether calls are counted and timed.
#[inline]
pub(super) fn is_recording() -> bool {
    matches!(PHASE.load(SeqCst), BEGINNING | ON)
}

/// Whether recording can be switched in this process.
pub(super) fn are_used() -> bool {
    IS_USED.load(Relaxed)
}

/// Whether entering a function switches recording in its current state.
pub(super) fn is_awaited(id: Id) -> bool {
    HAS_FUNCTIONS.load(Relaxed)
        && ROLES[id.0 as usize].load(Relaxed) & if is_recording() { STOP } else { START } != 0
}

/// Sets what entering a function does. By the agent, which has its sites switched then.
pub(super) fn set_role(id: Id, role: u8) {
    ROLES[id.0 as usize].store(role, Relaxed);
}

/// Begins as the settings say: nothing is recorded yet if some event is to begin recording.
pub(super) fn apply_settings(config: &Config) -> Result<(), String> {
    let is_used = !config.start_on.is_empty() || !config.stop_on.is_empty();
    let mut triggers = config.start_on.iter().chain(&config.stop_on);
    let has_functions = triggers.any(|trigger| matches!(trigger, Trigger::Function(_)));
    IS_USED.store(is_used, Relaxed);
    HAS_FUNCTIONS.store(has_functions, Relaxed);
    ROLES.iter().take(functions::count() as usize).for_each(|role| role.store(0, Relaxed));
    for word in [&COUNT, &PASSED] {
        word.store(0, Relaxed);
    }
    SUM.set([0; 4]);
    IS_OPEN.store(false, Relaxed);
    for began in [&BEGAN, &WATCHED] {
        began.store(Ticks::now().0, Relaxed);
    }
    if config.start_on.is_empty() {
        clock::resume();
        begin_span();
        PHASE.store(ON, SeqCst);
    } else {
        clock::freeze();
        PHASE.store(OFF, SeqCst);
    }
    take_signals(config)
}

/// The profile begins anew: what was recorded so far is not part of it. By the agent.
pub(super) fn begin_anew() {
    VERSION.fetch_add(1, Relaxed);
    fence(Release);
    SUM.set([0; 4]);
    COUNT.store(0, Relaxed);
    WATCHED.store(Ticks::now().0, Relaxed);
    if IS_OPEN.load(Relaxed) {
        begin_span();
    }
    VERSION.fetch_add(1, Release);
}

fn take_signals(config: &Config) -> Result<(), String> {
    let both = [(&config.start_on, START), (&config.stop_on, STOP)];
    let mut wanted: Vec<(i32, u8)> = Vec::new();
    for (triggers, role) in both {
        for trigger in triggers {
            let &Trigger::Signal(signal) = trigger else { continue };
            match wanted.iter_mut().find(|(known, _)| *known == signal) {
                Some((_, roles)) => *roles |= role,
                None => wanted.push((signal, role)),
            }
        }
    }
    if wanted.len() > SIGNALS {
        return Err(format!("at most {SIGNALS} signals can switch recording"));
    }
    for (place, (signal, role)) in SIGNALLED.iter().zip(wanted) {
        let name = signals::name(signal);
        let action = signals::action(signal).map_err(|error| error.to_string())?;
        if action.sa_sigaction != libc::SIG_DFL {
            let what = if action.sa_sigaction == libc::SIG_IGN { "ignored" } else { "handled" };
            return Err(format!(
                "{name} is {what} by the program and cannot switch recording: name another signal"
            ));
        }
        place.store(signal | i32::from(role) << ROLE, Relaxed);
        target::install_signal_handler(signal)
            .map_err(|error| format!("{name} cannot be handled: {error}"))?;
    }
    Ok(())
}

/// A signal has arrived. Returns whether it is one that switches recording. Usable in a signal
/// handler.
pub(super) fn signal_arrived(signal: i32) -> bool {
    let roles = SIGNALLED.iter().map(|place| place.load(Relaxed));
    let role = roles.filter(|known| known & 0xff == signal && *known != 0);
    let Some(role) = role.map(|known| (known >> ROLE) as u8).next() else { return false };
    CAME.fetch_or(role, Relaxed);
    agent::call();
    true
}

/// What a reader of the profile has to know about spans.
pub(crate) fn notes() -> Vec<String> {
    let mut notes = Vec::new();
    if !are_used() {
        return notes;
    }
    let config = target::config();
    let both = [("--start-on", &config.start_on, START), ("--stop-on", &config.stop_on, STOP)];
    let mut has_probes = true;
    for (option, triggers, role) in both {
        let is_function = |trigger: &Trigger| matches!(trigger, Trigger::Function(_));
        let mut roles = ROLES.iter().take(functions::count() as usize);
        if triggers.iter().any(is_function) && !roles.any(|known| known.load(Relaxed) & role != 0) {
            notes.push(format!("no function that {option} names has a probe"));
            has_probes &= role != START;
        }
    }
    if COUNT.load(Relaxed) == 0 && has_probes {
        notes.push("nothing was recorded: no --start-on event happened".to_owned());
    }
    let known = SIGNALLED.iter().map(|place| place.load(Relaxed) & 0xff);
    for signal in known.filter(|&signal| signal != 0 && !target::has_signal_handler(signal)) {
        let name = signals::name(signal);
        notes.push(format!(
            "the program installed its own handler for {name}, so it no longer switches recording: name another signal"
        ));
    }
    notes
}

/// A function was entered. Usable in a signal handler.
#[inline]
pub(super) fn entered(id: Id) {
    if is_awaited(id) {
        switch(!is_recording());
    }
}

/// Begins a span if none is open, or ends the open one. Usable in a signal handler.
fn switch(on: bool) {
    if on && modes::is_silent() {
        // The profiler leaves: no call would be counted.
        return;
    }
    let [from, through, to] = if on { [OFF, BEGINNING, ON] } else { [ON, ENDING, OFF] };
    if PHASE.compare_exchange(from, through, SeqCst, SeqCst).is_err() {
        return;
    }
    if on {
        scope::clear_all();
        switch_sites();
        clock::resume();
        account(begin_span);
    } else {
        account(end_span);
        clock::freeze();
        switch_sites();
    }
    PHASE.store(to, SeqCst);
    agent::call();
}

fn account(change: fn()) {
    VERSION.fetch_add(1, Relaxed);
    fence(Release);
    change();
    VERSION.fetch_add(1, Release);
}

/// Switches all sites for the current state of recording.
fn switch_sites() {
    if !modes::recording_has_changed() {
        IS_OWED.store(true, Release);
    }
}

/// Whether a sample of the kernel's clock that is in a ring now was taken in the latest span. The
/// agent, which pauses the clock, notices late that a span has ended if it waits for a processor.
pub(super) fn contains(time: u64) -> bool {
    // A span that is open now has not ended before the sample was taken.
    let is_open = IS_OPEN.load(Acquire);
    let [from, to] = [0, 1].map(|at| LATEST[at].load(Relaxed));
    !are_used() || from <= time && (is_open || time <= to)
}

fn begin_span() {
    let now = now();
    BEGUN.set(now);
    LATEST[0].store(clocks::monotonic(), Relaxed);
    IS_OPEN.store(true, Release);
    let count = COUNT.fetch_add(1, Relaxed);
    if let Some([from, to]) = FIRST.get(count as usize) {
        from.store(now[0], Relaxed);
        to.store(0, Relaxed);
    }
}

fn end_span() {
    let now = now();
    // If the agent begins anew at this moment, the span is not part of what is recorded.
    if let Some(latest) = (COUNT.load(Relaxed) as usize).checked_sub(1) {
        let (begun, sum) = (BEGUN.get(), SUM.get());
        SUM.set(std::array::from_fn(|at| sum[at] + now[at].saturating_sub(begun[at])));
        if let Some([_, to]) = FIRST.get(latest) {
            to.store(now[0], Relaxed);
        }
    }
    LATEST[1].store(clocks::monotonic(), Relaxed);
    IS_OPEN.store(false, Release);
}

/// Does what signals and times request. Returns the time until the next trigger, if one is set. By
/// the agent.
pub(super) fn attend(config: &Config, hz: f64) -> Option<Duration> {
    if !are_used() {
        return None;
    }
    if IS_OWED.swap(false, Acquire) {
        switch_sites();
    }
    let role = CAME.swap(0, Relaxed);
    if role & if is_recording() { STOP } else { START } != 0 {
        switch(!is_recording());
    }
    let elapsed = Ticks::now().0.saturating_sub(BEGAN.load(Relaxed)) as f64 / hz;
    let elapsed = Duration::from_secs_f64(elapsed);
    let both = [(&config.start_on, true), (&config.stop_on, false)];
    let times = both.into_iter().flat_map(|(triggers, on)| {
        triggers.iter().filter_map(move |trigger| match trigger {
            Trigger::After(time) => Some((*time, on)),
            Trigger::Function(_) | Trigger::Signal(_) => None,
        })
    });
    let mut times: Vec<(Duration, bool)> = times.collect();
    times.sort_unstable();
    let mut next = None;
    for (at, (time, on)) in times.into_iter().enumerate().take(64) {
        if PASSED.load(Relaxed) & 1 << at != 0 {
            continue;
        }
        if time > elapsed {
            next = Some(time - elapsed);
            break;
        }
        PASSED.fetch_or(1 << at, Relaxed);
        switch(on);
    }
    next
}

/// What was recorded so far; `None` where that cannot be switched: all is.
pub(super) fn recorded() -> Option<Recorded> {
    const TRIES: usize = 1000;
    if !are_used() {
        return None;
    }
    let read = || {
        let mut sum = SUM.get();
        if IS_OPEN.load(Relaxed) {
            let (begun, now) = (BEGUN.get(), now());
            sum = std::array::from_fn(|at| sum[at] + now[at].saturating_sub(begun[at]));
        }
        let spans = COUNT.load(Relaxed);
        let ended = |at: u64| if at == 0 { Ticks::now().0 } else { at };
        let first = FIRST.iter().take(spans as usize);
        let first = first.map(|[from, to]| [from.load(Relaxed), ended(to.load(Relaxed))]).collect();
        let [process, agent] = [sum[1], sum[2]].map(Duration::from_nanos);
        Recorded { counter: sum[0], process, agent, switching: sum[3], spans, first }
    };
    for _ in 0..TRIES {
        let version = VERSION.load(Acquire);
        let recorded = read();
        fence(Acquire);
        if version.is_multiple_of(2) && VERSION.load(Relaxed) == version {
            return Some(recorded);
        }
        wordpatch::os::threads::give_way();
    }
    Some(read())
}

/// How often recording was switched.
pub(super) fn switches() -> u32 {
    VERSION.load(Relaxed) / 2
}

/// In a forked child, which is a process of its own from now on: its clocks begin at zero, and a
/// thread that was switching is the parent's.
pub(super) fn inherit() {
    let is_on = is_recording();
    COUNT.store(0, Relaxed);
    SUM.set([0; 4]);
    IS_OPEN.store(is_on, Relaxed);
    WATCHED.store(Ticks::now().0, Relaxed);
    VERSION.store(0, Relaxed);
    CAME.store(0, Relaxed);
    IS_OWED.store(are_used(), Relaxed);
    clock::forget_pauses(is_on);
    if is_on {
        BEGUN.set([Ticks::now().0, 0, 0, 0]);
        COUNT.store(1, Relaxed);
        FIRST[0][0].store(Ticks::now().0, Relaxed);
        FIRST[0][1].store(0, Relaxed);
    }
    PHASE.store(if is_on { ON } else { OFF }, SeqCst);
}

/// How long after the beginning an instant of the counter was, in seconds.
pub(crate) fn since_the_beginning(counter: u64, hz: f64) -> f64 {
    counter.saturating_sub(WATCHED.load(Relaxed)) as f64 / hz
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_ends_while_the_profile_begins_anew_is_no_part_of_it() {
        COUNT.store(0, Relaxed);
        SUM.set([0; 4]);
        IS_OPEN.store(true, Relaxed);
        end_span();
        assert!(!IS_OPEN.load(Relaxed));
        assert_eq!(SUM.get(), [0; 4]);
        begin_span();
        assert_eq!(COUNT.load(Relaxed), 1);
        end_span();
        assert!(SUM.get()[0] > 0);
    }
}
