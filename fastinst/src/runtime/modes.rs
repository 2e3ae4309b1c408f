//! Modes: what the probes of a function do, and how that is applied to its sites.
//!
//! | mode | enter sites | exit sites |
//! |---|---|---|
//! | off | off | off |
//! | count | on, to the counting stub | off |
//! | sample | on, to the timing stub | on |
//!
//! A function in sample mode *retires* by itself, in the hook that has used the quota up, to off or
//! to count. Hook, agent and user coordinate by [`Ownership`](callpatch::Ownership): on means
//! sample, retired means what the function's [`Rest`] says, off is the user's decision.
//!
//! Outside of the [spans](super::spans) that are recorded all sites are off, whatever the mode is:
//! the state stays what it is, and is applied anew when recording is switched. A function whose
//! entry switches recording leads to the slow path, which knows that.
//!
//! Exits are switched on before enters and off after them, so that few calls are seen only by half;
//! those calls heal (see [`event`](super::event)).

use super::functions::Id;
use super::layout::{EPOCH, Function};
use super::sites::{self, Site};
use super::stub::Stub;
use super::{clock, functions, scope, sharing, skip, spans, threads};
use crate::probe::Kind;
use callpatch::{Act, ProbeState, SetError, Switch};
use profiler::{Draw, Mode, Rest, Skip};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use wordpatch::Ticks;

#[cfg(test)]
mod model;

/// What was spent on switching, for the account in the report.
#[derive(Debug)]
pub(crate) struct Account {
    /// Sites whose byte was to change.
    pub(crate) toggles: AtomicU64,
    pub(crate) ticks: AtomicU64,
    pub(crate) failures: AtomicU64,
}

pub(crate) static ACCOUNT: Account =
    Account { toggles: AtomicU64::new(0), ticks: AtomicU64::new(0), failures: AtomicU64::new(0) };

impl Account {
    /// Nothing was spent: in a forked child.
    pub(crate) fn clear(&self) {
        for count in [&self.toggles, &self.ticks, &self.failures] {
            count.store(0, Relaxed);
        }
    }
}

/// Threads of the program that may be switching sites in a hook, at this moment; and whether no
/// more may begin.
static SWITCHING: AtomicU32 = AtomicU32::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);

/// A hook that may switch sites, while this value lives. A thread that closes the passage reads the
/// number of hooks after closing it; a hook checks the passage after it has increased the number.
struct Passage;

impl Passage {
    fn enter() -> Option<Self> {
        SWITCHING.fetch_add(1, SeqCst);
        let passage = Self;
        (!CLOSED.load(SeqCst)).then_some(passage)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        SWITCHING.fetch_sub(1, SeqCst);
    }
}

/// Sets whether hooks may switch sites. If not, no hook switches any more when this returns `true`.
/// It returns `false` if an interrupted hook does not come back in time.
pub(super) fn let_hooks_switch(may: bool) -> bool {
    const LOOKS: usize = 20_000;
    CLOSED.store(!may, SeqCst);
    may || (0..LOOKS).any(|look| {
        if look > 100 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        SWITCHING.load(SeqCst) == 0
    })
}

/// In a forked child: hooks of other threads do not exist.
pub(super) fn forget_hooks() {
    SWITCHING.store(0, SeqCst);
}

/// As [`Rest`], in the table.
const REST_OFF: u32 = 0;
const REST_COUNT: u32 = 1;

/// The state of a function's sites: off while nothing is recorded.
fn state_now(function: &Function) -> ProbeState {
    if spans::is_recording() { function.ownership.state() } else { ProbeState::Off }
}

/// Whether a function's calls are timed.
pub(crate) fn mode_is_sample(function: &Function) -> bool {
    state_now(function) == ProbeState::On
}

/// Whether it is armed, recorded or not.
pub(super) fn is_armed(function: &Function) -> bool {
    function.ownership.state() == ProbeState::On
}

/// Whether its entries are counted by a hook that was called without a site.
pub(crate) fn mode_counts(function: &Function) -> bool {
    match state_now(function) {
        ProbeState::On => true,
        ProbeState::Retired => function.rest.load(Relaxed) == REST_COUNT,
        ProbeState::Off => false,
    }
}

/// What a function's enter sites and exit sites lead to; `None` for those that are off.
fn stubs_of(id: Id) -> (Option<Stub>, Option<Stub>) {
    if SILENT.load(SeqCst) {
        return (None, None);
    }
    let function = id.function();
    let state = state_now(function);
    let stubs = match state {
        ProbeState::On => (Some(Stub::TimeEnter), Some(Stub::TimeExit)),
        ProbeState::Retired if function.rest.load(Acquire) == REST_COUNT => {
            // Where arguments are read, calls are followed to their ends.
            (Some(Stub::Count), is_read(function).then_some(Stub::TimeExit))
        }
        ProbeState::Retired | ProbeState::Off => (None, None),
    };
    let is_followed = scope::is_used()
        && spans::is_recording()
        && (state != ProbeState::Off || scope::opens_in_any_case(id));
    let (enter, exit) = if is_followed { scope::gated(id, stubs) } else { stubs };
    (if spans::is_awaited(id) { Some(Stub::Slow) } else { enter }, exit)
}

/// Whether arguments of its calls are read.
fn is_read(function: &Function) -> bool {
    let first = function.site_list().and_then(|list| list.enters().first().copied());
    first.and_then(sites::get).is_some_and(|site| site.captures.load(Relaxed))
}

/// The table of skips for functions that are timed from their first call on, where every call is to
/// be timed; null otherwise.
static EVERY_CALL: AtomicPtr<skip::Table> = AtomicPtr::new(std::ptr::null_mut());

/// From now on new functions do not wait for the agent: all their calls are timed.
pub(crate) fn time_every_call() {
    EVERY_CALL.store(skip::table_for(0.0), Release);
}

/// A new function: its entries are counted until the agent decides, or all its calls are timed.
pub(crate) fn init_function(id: Id, address: u64) {
    let function = id.function();
    function.rest.store(REST_COUNT, Relaxed);
    let table = EVERY_CALL.load(Acquire);
    if table.is_null() {
        function.ownership.init(ProbeState::Retired);
    } else {
        function.quota.store(i32::MAX, Relaxed);
        function.skips.store(table, Relaxed);
        function.ownership.init(ProbeState::On);
    }
    // Last: it says that the agent may give it a mode.
    function.address.store(address, Release);
}

/// Gives a function a mode. By the agent.
pub(crate) fn set(id: Id, mode: Mode) {
    let function = id.function();
    let rest = |rest: Rest| if rest == Rest::Count { REST_COUNT } else { REST_OFF };
    let state = function.ownership.state();
    let act = match mode {
        Mode::Sample(draw) => {
            // A new term would lose the calls that are open, for nothing if the function was timed
            // from its first call on.
            let times_all = !EVERY_CALL.load(Relaxed).is_null();
            let goes_on = times_all
                && state == ProbeState::On
                && function.quota.load(Relaxed) == i32::MAX
                && draw.quota == u32::MAX;
            arm(function, &draw);
            if !goes_on {
                begin_term(function);
            }
            function.rest.store(rest(draw.then), Release);
            if state == ProbeState::On { Act::Renew } else { Act::Rearm }
        }
        Mode::Count | Mode::Off => {
            let wanted = if mode == Mode::Count { REST_COUNT } else { REST_OFF };
            let had = function.rest.swap(wanted, Ordering::AcqRel);
            match state {
                ProbeState::On => Act::Retire(function.ownership.term()),
                ProbeState::Retired if had == wanted => return,
                ProbeState::Retired | ProbeState::Off => Act::Renew,
            }
        }
    };
    perform(id, function, act);
}

/// What a new term draws by.
fn arm(function: &Function, draw: &Draw) {
    let quota = i32::try_from(draw.quota).unwrap_or(i32::MAX);
    let mean = match draw.skip {
        Skip::None => 0.0,
        Skip::Geometric { mean } => mean,
    };
    function.quota.store(quota, Relaxed);
    function.skips.store(skip::table_for(mean), Relaxed);
}

/// Calls that are open now belong to the term before. Made known before ownership is changed: see
/// [`retire`].
fn begin_term(function: &Function) {
    function.term.fetch_add(1, Release);
}

/// Its exits are off: calls that are open miss theirs. When exits are on again, the first may end a
/// call whose enter was still off: in the same epoch, it would end an open one.
fn end_epoch(function: &Function) {
    function.term.fetch_add(EPOCH, Release);
}

/// Calls that are open belong to no term that may be met again: their ends were not seen, while the
/// profiler was away. No thread is in a hook.
pub(super) fn close_open_calls() {
    functions::all().for_each(close);
}

/// The same of one function.
fn close(id: Id) {
    // The threads' own are between that of their frames and the next.
    let term = id.function().term.fetch_add(2, Release).wrapping_add(1);
    let records = threads::all().filter_map(|block| block.record(id.record()));
    for record in records.filter(|record| record.open.load(Relaxed) != 0) {
        record.term.store(term, Relaxed);
    }
}

/// Switches a function off for its user, or on again.
pub(crate) fn allow(id: Id, on: bool) {
    if on && id.function().ownership.state() == ProbeState::Off {
        begin_term(id.function());
    }
    perform(id, id.function(), if on { Act::Enable } else { Act::Disable });
}

/// Whether all probes are off, including those that wait for the beginning of recording.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Switches everything off.
pub(super) fn silence_all() {
    SILENT.store(true, SeqCst);
    functions::all().for_each(|id| allow(id, false));
    if spans::are_used() {
        // Functions that were off before may still have probes that wait.
        functions::all().for_each(renew);
    }
}

/// Whether everything is off.
pub(super) fn is_silent() -> bool {
    SILENT.load(SeqCst)
}

/// Functions that are allowed again are on from here on.
pub(super) fn end_silence() {
    SILENT.store(false, SeqCst);
}

/// A hook has used up the quota of the term that it counted in. Usable in a signal handler.
///
/// Ownership has terms of its own, which also begin when only sites have changed. The ownership
/// term read here began after the function's term. So if the function's term is still `term`, this
/// is not an ownership term that was armed later.
pub(crate) fn retire(id: Id, term: u32) {
    let Some(_passage) = Passage::enter() else { return };
    let function = id.function();
    let owners_term = function.ownership.term();
    if function.ownership.state() == ProbeState::On && function.term.load(Acquire) == term {
        function.retired_at.store(clock::near().0, Release);
        perform(id, function, Act::Retire(owners_term));
    }
}

/// A function's sites have changed, in a hook. Usable in a signal handler.
pub(super) fn renew_in_hook(id: Id) {
    if let Some(_passage) = Passage::enter() {
        renew(id);
    }
}

/// Recording has begun, or ended: carries out anew what all functions shall do. Calls that are open
/// belong to no term that is met again: where recording has ended their ends are not seen. A hook
/// that has just begun such a term on its thread leaves one that the next switch ends. Returns
/// `false` where no site may be switched now. Usable in a signal handler.
pub(super) fn recording_has_changed() -> bool {
    let Some(_passage) = Passage::enter() else { return false };
    for id in functions::all() {
        let function = id.function();
        close(id);
        // The controller's terms go on: its clock stands still meanwhile.
        let armed = function.armed_at.load(Relaxed);
        perform(id, function, Act::Renew);
        function.armed_at.store(armed, Release);
    }
    true
}

/// Applies anew what a function's probes shall do: its sites have changed. Open calls stay what
/// they are.
pub(crate) fn renew(id: Id) {
    perform(id, id.function(), Act::Renew);
}

/// In a forked child: finishes what a thread that does not exist here was doing.
pub(crate) fn inherit(id: Id) {
    let function = id.function();
    let _ = function.ownership.inherit(|_| apply_state(id));
}

fn perform(id: Id, function: &Function, act: Act) {
    debug_assert!(id.0 != 0, "the function of our own has no sites");
    let start = Ticks::now();
    if function.ownership.act(act, |_| apply_state(id)).is_err() {
        ACCOUNT.failures.fetch_add(1, Relaxed);
    }
    ACCOUNT.ticks.fetch_add(Ticks::now().since(start).0, Relaxed);
}

/// Switches all sites as the function's state says. Tries all of them, and returns the first error.
fn apply_state(id: Id) -> Result<(), SetError> {
    let function = id.function();
    let (enter, exit) = stubs_of(id);
    if !matches!(exit, Some(Stub::TimeExit | Stub::UnfollowAndTime)) {
        end_epoch(function);
    }
    let Some(list) = function.site_list() else { return Ok(()) };
    if let Some((registration, place)) = list.registration() {
        // The agent does it, soon: until then the runtime's hooks follow the function's state.
        if mode_is_sample(function) {
            function.armed_at.store(clock::marked().0, Release);
        }
        registration.has_changed(place);
        return Ok(());
    }
    let mut first = Ok(());
    let mut switch = |numbers: &[u32], stub: Option<Stub>| {
        for site in numbers.iter().filter_map(|&number| sites::get(number)) {
            let result = match site.shared.load(Relaxed) {
                true => sharing::switch(site),
                false if site.is_ours() => switch_site(site, stub),
                false => Ok(()),
            };
            if first.is_ok() {
                first = result;
            }
        }
    };
    if exit.is_some() {
        switch(list.exits(), exit);
        if mode_is_sample(function) {
            function.armed_at.store(clock::marked().0, Release);
        }
        switch(list.enters(), enter);
    } else {
        switch(list.enters(), enter);
        switch(list.exits(), None);
    }
    first
}

/// The first event of a site has shown that it belongs to its function: from here on it is switched
/// with it. Usable in a signal handler.
///
/// A thread that applies a mode at this moment changes the function's ownership and then checks
/// whether the site is verified. This thread marks the site as verified, reads the ownership,
/// switches, and reads it again. That last look comes after a fence, and ownership is changed by a
/// locked instruction: so one of the two sees the other, and the later store is that of the later
/// mode. Otherwise the site could stay in the mode before, off where its function is on, as the
/// model shows.
pub(crate) fn verify(id: Id, site: &Site) {
    let function = id.function();
    site.cell().hold(u64::from(id.record()));
    let Some(_passage) = Passage::enter() else { return };
    site.verified.store(true, Release);
    loop {
        let (state, term, rest) =
            (function.ownership.state(), function.ownership.term(), function.rest.load(Acquire));
        let (enter, exit) = stubs_of(id);
        let stub = if site.kind == Kind::Enter { enter } else { exit };
        if site.is_ours() && switch_site(site, stub).is_err() {
            ACCOUNT.failures.fetch_add(1, Relaxed);
        }
        // A thread that has changed the function meanwhile may have passed this site before it was
        // verified, or have stored before us.
        fence(SeqCst);
        if (function.ownership.state(), function.ownership.term(), function.rest.load(Acquire))
            == (state, term, rest)
        {
            break;
        }
    }
}

/// To a stub, or off.
fn switch_site(site: &Site, stub: Option<Stub>) -> Result<(), SetError> {
    let to = if stub.is_some() { Switch::On } else { Switch::Off };
    match stub {
        None => {}
        Some(Stub::Count) if site.inline.load(Relaxed) => site.pass_counter(false),
        Some(stub) => lead(site, stub),
    }
    turn(site, to)
}

/// On or off, wherever it leads.
pub(super) fn turn(site: &Site, to: Switch) -> Result<(), SetError> {
    if site.call().state() != Some(to) {
        ACCOUNT.toggles.fetch_add(1, Relaxed);
    }
    site.call().set(to)
}

fn lead(site: &Site, stub: Stub) {
    site.lead_to(stub);
    site.pass_counter(true);
}
