//! The completion thread: it finishes patches in the background.
//!
//! Other threads push patches in progress onto a lock-free stack. The completion thread
//! takes all of them at once, passes one barrier for all, and continues their stores; so under load
//! it works in batches. It is started with the first patch, sleeps when there is none, and blocks
//! every signal that it can, so that the program's handlers never run on it.

use crate::barrier::Barrier;
use crate::error::PatchError;
use crate::fork;
use crate::ledger::Phase;
use crate::lock::Lock;
use crate::os::{self, signals::Blocked};
use crate::patch_in_progress::{Pace, PatchInProgress};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Queued patches: a stack linked by `queued`, emptied as a whole.
static QUEUE: AtomicPtr<PatchInProgress> = AtomicPtr::new(std::ptr::null_mut());

/// The state of the thread.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | `NONE` | there is no thread in this process | the thread that enqueues: to `AWAKE`; a forked child |
/// | `AWAKE` | it checks the queue again before it sleeps | the thread |
/// | `ASLEEP` | it sleeps on this word | the thread that enqueues: to `AWAKE`, and wakes it |
static STATE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;

/// How long the thread waits before it retries a barrier that failed.
const RETRY: Duration = Duration::from_millis(1);

/// Patches that could not be finished at the first try.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// The number of errors of the completion thread, and the latest. A patch whose back was not
/// written yet is rolled back; any other is retried.
pub fn background_failures() -> (u64, Option<PatchError>) {
    (FAILURES.load(Ordering::Relaxed), *LATEST.lock())
}

pub(crate) static LATEST: Lock<Option<PatchError>> = Lock::new(None);

/// Queues a patch for the completion thread. A patch that is queued already stays queued; the
/// thread may still have to be created.
#[allow(unsafe_code)]
pub(crate) fn enqueue(patch: &'static PatchInProgress) {
    let this = std::ptr::from_ref(patch).cast_mut();
    // The end of the stack is marked by a link to itself, so that null means "in no queue".
    if patch
        .queued
        .compare_exchange(std::ptr::null_mut(), this, Ordering::Relaxed, Ordering::Relaxed)
        .is_err()
    {
        return wake();
    }
    let mut top = QUEUE.load(Ordering::Relaxed);
    loop {
        patch.queued.store(if top.is_null() { this } else { top }, Ordering::Relaxed);
        // Release pairs with the Acquire in `drain`: the link is stored before the patch becomes
        // visible.
        match QUEUE.compare_exchange_weak(top, this, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(found) => top = found,
        }
    }
    wake();
}

/// In a forked child: the thread does not exist here, and the child is about to finish its patches.
pub(crate) fn forget_thread() {
    QUEUE.store(std::ptr::null_mut(), Ordering::Relaxed);
    STATE.store(NONE, Ordering::Relaxed);
}

fn wake() {
    match STATE.swap(AWAKE, Ordering::AcqRel) {
        NONE => spawn(),
        ASLEEP => os::threads::wake(&STATE),
        _ => {}
    }
}

fn spawn() {
    fork::prepare();
    // Before signals are blocked permanently: the thread must be able to answer a later signal
    // barrier. If no signal is free, there is no signal barrier either.
    let _ = Barrier::Signal.prepare();
    let _undisturbed = Blocked::all();
    if os::threads::start(c"wordpatch", 64 << 10, work).is_err() {
        // The thread could not be created: the next thread that enqueues tries again; meanwhile the
        // trap handler emulates for executing threads.
        STATE.store(NONE, Ordering::Release);
    }
}

fn work() {
    loop {
        let failed = drain();
        if failed {
            std::thread::sleep(RETRY);
            continue;
        }
        let slept =
            STATE.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if slept && QUEUE.load(Ordering::Acquire).is_null() {
            os::threads::sleep_while(&STATE, ASLEEP);
        }
        STATE.store(AWAKE, Ordering::Release);
    }
}

/// Finishes the queued patches. Returns whether any must be retried.
#[allow(unsafe_code)]
fn drain() -> bool {
    let mut top = QUEUE.swap(std::ptr::null_mut(), Ordering::Acquire);
    let mut patches: Vec<&'static PatchInProgress> = Vec::new();
    // SAFETY: (1) the stack holds patches only, which are never freed; (2) Acquire above pairs with
    // the Release in `enqueue`.
    while let Some(patch) = unsafe { top.as_ref() } {
        let next = patch.queued.swap(std::ptr::null_mut(), Ordering::Relaxed);
        patches.push(patch);
        top = if std::ptr::eq(next, patch) { std::ptr::null_mut() } else { next };
    }
    let mut failed = false;
    for phase in [Phase::Trapped, Phase::Backed] {
        advance_together(&patches, phase);
    }
    for patch in patches {
        failed |= finish(patch);
    }
    failed
}

/// One barrier for all patches in `phase` that need a barrier which is not a wait.
fn advance_together(patches: &[&'static PatchInProgress], phase: Phase) {
    for barrier in [Barrier::Membarrier, Barrier::Signal] {
        let together =
            |patch: &&&PatchInProgress| patch.parameters.barrier == barrier && patch.seize(phase);
        let seized: Vec<&&PatchInProgress> = patches.iter().filter(together).collect();
        if seized.is_empty() {
            continue;
        }
        let passed = barrier.pass();
        for patch in seized {
            match passed {
                Ok(()) => patch.advance_after_barrier(phase).unwrap_or_else(note),
                Err(error) => {
                    patch.retreat(phase);
                    note(error.into());
                }
            }
        }
    }
}

/// Finishes one patch alone: those with waits, and those that another thread seized meanwhile.
/// Returns whether it must be retried.
fn finish(patch: &'static PatchInProgress) -> bool {
    match patch.proceed(Pace::Finish) {
        Ok(Phase::Idle) => false,
        Ok(_) => {
            enqueue(patch);
            true
        }
        Err(error) => {
            note(error);
            let pending = patch.phase() != Phase::Idle;
            if pending {
                enqueue(patch);
            }
            pending
        }
    }
}

fn note(error: PatchError) {
    FAILURES.fetch_add(1, Ordering::Relaxed);
    *LATEST.lock() = Some(error);
}
