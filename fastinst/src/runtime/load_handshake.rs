//! Module-load handshake: modules that are loaded while the program runs get their sites before the
//! program executes them.
//!
//! A thread that installs a site switches it off for a moment, and calls that pass meanwhile are
//! not seen. So the sites of a module have to be installed while no thread is inside. The loader
//! reports such a moment, where it lets the profiler [listen](super::loader): the module is
//! complete, and no code has its addresses yet. Where it does not, the module's first call of a
//! hook waits, and only the modules of waiting calls are installed; another thread that enters at
//! that moment may pass sites that are off.
//!
//! Both post a request to the agent, and wait as long as the agent may take on a busy machine.

use super::request_queue::{RequestQueue, TakenRequests};
use super::{agent, registry, target, unloading};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;
use wordpatch::{Ticks, os};

/// Requests to look for modules.
static MODULE_REQUESTS: RequestQueue = RequestQueue::new();
/// Whether everything that is loaded is complete, and no thread is in new modules: because a thread
/// holds the loader, and waits.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | [`NO`] | no thread waits | the thread that begins to wait, to asked |
/// | [`ASKED`] | all may be installed | the agent, to installing; that thread, at time-out, to no |
/// | [`INSTALLING`] | the agent is installing: the thread stays | the agent, to no |
static ALL: AtomicU32 = AtomicU32::new(NO);
const NO: u32 = 0;
const ASKED: u32 = 1;
const INSTALLING: u32 = 2;
/// Functions whose modules are to be installed; zero in free entries.
static REQUESTED: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
/// Whether the program has begun to load a module whose probes were not found yet.
static LOADING: AtomicBool = AtomicBool::new(false);
/// How often a first call has waited without result: for code that the loader does not know.
static FAILED_WAITS: AtomicUsize = AtomicUsize::new(0);
const MOST_FAILED_WAITS: usize = 16;
/// How long a thread waits for the agent at most, in seconds: usually some hundred microseconds.
const LONGEST_WAIT: f64 = 1.0;
/// A thread that sleeps until the agent wakes it looks this often whether there still is one.
const LOOK: Duration = Duration::from_millis(20);

/// What the agent has to look for.
pub(super) struct RequestedModules {
    taken: TakenRequests,
    /// Functions of the modules; `None` if every module may be installed, also while others wait
    /// for the loader to unload theirs.
    pub(super) functions: Option<Vec<u64>>,
}

/// A hook was called through the linkage table, for a function whose module may not be installed
/// yet. Then this first call waits for a moment. Usable in a signal handler.
pub(super) fn saw_call_without_site(function: u64) {
    if registry::is_installed(function) {
        // A conditional jump to a hook, for instance.
        return;
    }
    let expected = LOADING.load(Acquire) || FAILED_WAITS.load(Relaxed) < MOST_FAILED_WAITS;
    if !expected || unloading::is_by_caller() || !agent::is_there() {
        return;
    }
    let mut asked = None;
    wait_until(|| {
        if asked.is_none() && request_module(function) {
            asked = Some(MODULE_REQUESTS.post());
            agent::call();
        }
        registry::is_installed(function)
            || asked.is_some_and(|number| MODULE_REQUESTS.is_answered(number))
    });
    if !registry::is_installed(function) {
        FAILED_WAITS.fetch_add(1, Relaxed);
    }
}

/// Modules are complete that were not loaded before, and no thread is inside of them. Waits until
/// they are installed.
pub(super) fn install_now() {
    if unloading::is_by_caller() || !agent::is_there() {
        return;
    }
    ALL.store(ASKED, Release);
    agent::call();
    let end = longest_wait();
    while ALL.load(Acquire) == ASKED && Ticks::now() < end {
        os::threads::sleep_while_for(&ALL, ASKED, LOOK);
    }
    // The calling thread keeps the loader until the agent has finished what it has begun.
    if ALL.compare_exchange(ASKED, NO, AcqRel, Acquire).is_err() {
        while ALL.load(Acquire) == INSTALLING && agent::is_there() {
            os::threads::sleep_while_for(&ALL, INSTALLING, LOOK);
        }
    }
}

/// The end of a wait that begins now.
fn longest_wait() -> Ticks {
    Ticks(Ticks::now().0 + target::clock().ticks(LONGEST_WAIT).0)
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let end = longest_wait();
    let mut looks = 0;
    while !done() && Ticks::now() < end {
        looks += 1;
        if looks < 1000 { os::threads::give_way() } else { os::threads::pause() }
    }
}

/// Requests the module of a function. Returns whether there was room for that: if not, the caller
/// has to repeat it.
fn request_module(function: u64) -> bool {
    REQUESTED.iter().any(|cell| {
        let known = cell.load(Relaxed);
        known == function
            || (known == 0 && cell.compare_exchange(0, function, AcqRel, Relaxed).is_ok())
    })
}

/// The program is about to load a module.
pub(super) fn expect_module() {
    LOADING.store(true, Release);
    FAILED_WAITS.store(0, Relaxed);
}

/// Whether a thread waits. By the agent.
pub(super) fn is_requested() -> bool {
    MODULE_REQUESTS.is_waiting() || ALL.load(Acquire) == ASKED
}

/// Takes the requests made until now, if they may be carried out: while a thread is `unloading`,
/// only the request of the thread that holds the loader. By the agent.
pub(super) fn take_requests(unloading: bool) -> Option<RequestedModules> {
    let all = ALL.compare_exchange(ASKED, INSTALLING, AcqRel, Acquire).is_ok();
    if !all && (unloading || !MODULE_REQUESTS.is_waiting()) {
        return None;
    }
    let taken = MODULE_REQUESTS.take();
    let functions: Vec<u64> = REQUESTED
        .iter()
        .map(|cell| cell.swap(0, AcqRel))
        .filter(|&function| function != 0)
        .collect();
    Some(RequestedModules { taken, functions: (!all).then_some(functions) })
}

/// The modules are installed. If a waiting thread does not find its module installed now, it was
/// called from other code. By the agent.
pub(super) fn answer_requests(wanted: &RequestedModules) {
    LOADING.store(false, Release);
    MODULE_REQUESTS.answer(wanted.taken);
    if wanted.functions.is_none() {
        ALL.store(NO, Release);
        os::threads::wake_all(&ALL);
    }
}

/// In a forked child: the waiting threads are in the parent.
pub(super) fn forget_requests() {
    MODULE_REQUESTS.forget();
    ALL.store(NO, Release);
    REQUESTED.iter().for_each(|cell| cell.store(0, Relaxed));
}
