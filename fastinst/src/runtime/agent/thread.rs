//! The agent's thread, and how other threads reach it: they post a request, and wait with a
//! time-out.

use super::Agent;
use crate::output;
use crate::runtime::handover;
use crate::runtime::request_queue::RequestQueue;
use crate::runtime::{clock, target, threads};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};
use wordpatch::os::threads::{Tid, current, sleep_while_for, wake};
use wordpatch::os::{OsError, clocks};

/// Incremented by every call; the agent sleeps on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
pub(super) static REQUESTS: RequestQueue = RequestQueue::new();
/// The agent's thread; zero if there is none.
pub(super) static THREAD: AtomicU32 = AtomicU32::new(0);
/// The CPU time, in nanoseconds, of the agent's threads that have ended.
pub(super) static BEFORE: AtomicU64 = AtomicU64::new(0);

/// How long it may take to make a profile of very many functions, and to write it to a busy disk.
const WORK: Duration = Duration::from_secs(20);
/// How long `start` waits for the agent's thread to begin.
const ARRIVAL: Duration = Duration::from_secs(1);

/// Wakes the agent. Usable in a signal handler.
pub(crate) fn call() {
    CALLS.fetch_add(1, Release);
    wake(&CALLS);
}

/// How many calls were made before the agent's current round. It may look at what a later call is
/// about too early, so it does not sleep after one.
#[derive(Debug, Default)]
pub(super) struct HeardCalls(u32);

impl HeardCalls {
    /// A round begins.
    pub(super) fn hear(&mut self) {
        self.0 = CALLS.load(Acquire);
    }

    /// Whether the agent was called since its round began.
    pub(super) fn is_called(&self) -> bool {
        CALLS.load(Acquire) != self.0
    }

    /// Sleeps until it is called, if it was not since the round began.
    pub(super) fn sleep(&self, pause: Duration) {
        sleep_while_for(&CALLS, self.0, pause);
    }
}

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
pub(in crate::runtime) fn await_until(patience: Duration, done: impl Fn() -> bool) -> bool {
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
pub(in crate::runtime) fn arrives() {
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

/// The CPU time of the agent's threads. Usable in a hook.
pub(in crate::runtime) fn processor_time() -> Duration {
    let own = match THREAD.load(Acquire) {
        0 | u32::MAX => None,
        thread => clocks::of_thread(Tid(thread as i32)),
    };
    Duration::from_nanos(BEFORE.load(Relaxed)) + own.unwrap_or_default()
}

/// The CPU time of the agent's threads. By the agent.
pub(super) fn agent_time() -> Duration {
    Duration::from_nanos(BEFORE.load(Relaxed)) + clocks::of_caller()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_the_middle_of_a_round_is_not_slept_over() {
        let mut heard = HeardCalls::default();
        heard.hear();
        call();
        assert!(heard.is_called());
        // The agent would sleep for ever.
        heard.sleep(Duration::from_secs(1 << 40));
        heard.hear();
        call();
        assert!(heard.is_called());
    }
}
