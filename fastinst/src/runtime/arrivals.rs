//! Arrivals: modules that come while the program runs, and are to be planted before it runs them.
//!
//! A thread that installs a site switches it off for a moment, and calls that pass meanwhile are
//! not seen. So a module has to be planted while no thread is inside. The loader says when that is,
//! where it lets us [listen](super::loader): the module is complete, and no code has its addresses
//! yet. Where it does not, the module's first call of a hook waits, and only what waits is planted;
//! another thread that comes in just then may pass sites that are off.
//!
//! Both ask the agent, and wait for as long as it may take on a machine that has no time for it.

use super::wishes::{Taken, Wishes};
use super::{agent, guest, plant, unloading};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use wordpatch::{Ticks, os};

/// Looking for modules.
static LOOKS: Wishes = Wishes::new();
/// Whether all that is loaded is complete, and no thread is in what is new: because a thread has
/// the loader for itself, and waits.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | [`NO`] | no thread waits | that thread, to asked |
/// | [`ASKED`] | all may be planted | the agent, to planting; that thread, which is tired of waiting, to no |
/// | [`PLANTING`] | the agent is at it: the thread stays | the agent, to no |
static ALL: AtomicU32 = AtomicU32::new(NO);
const NO: u32 = 0;
const ASKED: u32 = 1;
const PLANTING: u32 = 2;
/// Functions of modules that are to be planted; zero where there is room.
static WANTED: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
/// Whether the program has begun to load a module whose probes were not found yet.
static LOADING: AtomicBool = AtomicBool::new(false);
/// How often a first call has waited for nothing: for code that the loader knows nothing of.
static DISAPPOINTMENTS: AtomicUsize = AtomicUsize::new(0);
const ENDURED: usize = 16;
/// How long a thread waits for the agent, in seconds: else some hundred microseconds.
const PATIENCE: f64 = 1.0;

/// What the agent has to look for.
pub(super) struct Wanted {
    taken: Taken,
    /// Functions of the modules; `None` if every module may be planted, also while others wait for
    /// the loader to unload theirs.
    pub(super) functions: Option<Vec<u64>>,
}

/// A hook was called through the linkage table, for a function of a module that was not installed
/// yet perhaps. Then this first call waits for a moment. Usable in a signal handler.
pub(super) fn saw_call_without_site(function: u64) {
    if plant::is_planted(function) {
        // A conditional jump to a hook, for instance.
        return;
    }
    let expected = LOADING.load(Acquire) || DISAPPOINTMENTS.load(Relaxed) < ENDURED;
    if !expected || unloading::is_by_caller() || !agent::is_there() {
        return;
    }
    let mut asked = None;
    wait_until(|| {
        if asked.is_none() && want(function) {
            asked = Some(LOOKS.ask());
            agent::call();
        }
        plant::is_planted(function) || asked.is_some_and(|wish| LOOKS.is_answered(wish))
    });
    if !plant::is_planted(function) {
        DISAPPOINTMENTS.fetch_add(1, Relaxed);
    }
}

/// Modules are complete that were not there before, and no thread is inside of them. Waits until
/// they are planted.
pub(super) fn plant_now() {
    if unloading::is_by_caller() || !agent::is_there() {
        return;
    }
    ALL.store(ASKED, Release);
    agent::call();
    wait_until(|| ALL.load(Acquire) == NO);
    // The loader stays ours until the agent has done what it has begun.
    if ALL.compare_exchange(ASKED, NO, AcqRel, Acquire).is_err() {
        while ALL.load(Acquire) == PLANTING && agent::is_there() {
            os::threads::pause();
        }
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let end = Ticks(Ticks::now().0 + guest::clock().ticks(PATIENCE).0);
    let mut looks = 0;
    while !done() && Ticks::now() < end {
        looks += 1;
        if looks < 1000 { os::threads::give_way() } else { os::threads::pause() }
    }
}

/// Asks for the module of a function. Returns whether there was room for that: if not, it is to be
/// said again.
fn want(function: u64) -> bool {
    WANTED.iter().any(|cell| {
        let known = cell.load(Relaxed);
        known == function
            || (known == 0 && cell.compare_exchange(0, function, AcqRel, Relaxed).is_ok())
    })
}

/// The program is about to load a module.
pub(super) fn expect() {
    LOADING.store(true, Release);
    DISAPPOINTMENTS.store(0, Relaxed);
}

/// Whether a thread waits. By the agent.
pub(super) fn are_wanted() -> bool {
    LOOKS.is_waiting() || ALL.load(Acquire) == ASKED
}

/// What was asked for until now, if it may be done: while a thread is `unloading` only what is
/// asked by the thread that has the loader. By the agent.
pub(super) fn take(unloading: bool) -> Option<Wanted> {
    let all = ALL.compare_exchange(ASKED, PLANTING, AcqRel, Acquire).is_ok();
    if !all && (unloading || !LOOKS.is_waiting()) {
        return None;
    }
    let taken = LOOKS.take();
    let functions: Vec<u64> =
        WANTED.iter().map(|cell| cell.swap(0, AcqRel)).filter(|&function| function != 0).collect();
    Some(Wanted { taken, functions: (!all).then_some(functions) })
}

/// They are installed. A thread that waits and does not find it so was called from elsewhere. By
/// the agent.
pub(super) fn answer(wanted: &Wanted) {
    LOADING.store(false, Release);
    LOOKS.answer(wanted.taken);
    if wanted.functions.is_none() {
        ALL.store(NO, Release);
    }
}

/// In a forked child: those who wait are in the parent.
pub(super) fn forget() {
    LOOKS.forget();
    ALL.store(NO, Release);
    WANTED.iter().for_each(|cell| cell.store(0, Relaxed));
}
