//! The program's CPU clock: how much CPU time its threads have used, without what the hooks took.
//!
//! Rates of calls are learned in windows and multiplied by the time outside of them. This clock
//! measures both: by wall time, a program that waits for a CPU (or is stopped) would seem to call
//! its functions while it does not run. The clock is the sum of the clocks of the threads that have
//! a block. The kernel's clock of the process is not suitable: it lags by a scheduler's tick for
//! threads that run on other CPUs, and it includes the agent.
//!
//! What hooks take is subtracted, for all functions: windows of several functions overlap, and the
//! hooks of one slow the window of another. The rest is called *work*. Hooks are timed by the
//! counter, which continues while a thread waits for a CPU: an event that takes longer than any
//! event has waited, and that part is not CPU time.
//!
//! A reading costs a system call per thread. So a hook that retires a function reads the clock only
//! where threads are few. Otherwise it continues the agent's latest reading at the pace that the
//! clock had then.

use super::layout::Header;
use super::{measure, threads};
use profiler::Ticks;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, fence};
use wordpatch::os::clocks;
use wordpatch::os::threads::{Tid, current};

/// The clock of the threads that have had a block, one after the other. In nanoseconds.
///
/// A thread that ends adds what it has worked to `done` before its number is forgotten: between the
/// two stores the sum is wrong. Readers detect that by `version`, which is odd meanwhile.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    version: AtomicU32,
    /// The thread that has the block; negative if it has ended, and zero before the first one.
    thread: AtomicI32,
    /// The reading of its clock when it got the block.
    began: AtomicU64,
    /// The CPU time that earlier threads have used.
    done: AtomicU64,
    /// The latest reading of its clock: all that is known of a thread that has ended without
    /// notice.
    latest: AtomicU64,
}

impl ThreadClock {
    /// The calling thread gets the block.
    pub(crate) fn begin_thread(&self) {
        let thread = current();
        let now = nanoseconds(thread).unwrap_or(0);
        self.change(|clock| {
            let unsaid = clock.thread.load(Relaxed) > 0;
            if unsaid {
                let worked = clock.latest.load(Relaxed).saturating_sub(clock.began.load(Relaxed));
                clock.done.fetch_add(worked, Relaxed);
            }
            clock.began.store(now, Relaxed);
            clock.latest.store(now, Relaxed);
            clock.thread.store(thread.0, Relaxed);
        });
    }

    /// The calling thread ends.
    pub(crate) fn end(&self) {
        let now = nanoseconds(current()).unwrap_or(0);
        self.change(|clock| {
            // Another CPU may have read the clock a little further than this one.
            let now = now.max(clock.latest.load(Relaxed));
            let worked = now.saturating_sub(clock.began.load(Relaxed));
            clock.done.fetch_add(worked, Relaxed);
            clock.thread.store(-current().0, Relaxed);
        });
    }

    /// The number of the thread that has the block, or had it last.
    pub(crate) fn thread(&self) -> i32 {
        self.thread.load(Relaxed).abs()
    }

    /// By the thread that has the block, with its hooks off.
    fn change(&self, change: impl FnOnce(&Self)) {
        self.version.fetch_add(1, Relaxed);
        fence(Release);
        change(self);
        self.version.fetch_add(1, Release);
    }

    /// How much CPU time the threads that had the block have used.
    pub(crate) fn worked(&self) -> u64 {
        const TRIES: usize = 64;
        let mut sum = 0;
        for _ in 0..TRIES {
            let version = self.version.load(Acquire);
            sum = self.sum();
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                break;
            }
            std::hint::spin_loop();
        }
        sum
    }

    fn sum(&self) -> u64 {
        let (thread, began, done) =
            (self.thread.load(Relaxed), self.began.load(Relaxed), self.done.load(Relaxed));
        if thread <= 0 {
            return done;
        }
        let now = match nanoseconds(Tid(thread)) {
            Some(now) => {
                self.latest.fetch_max(now, Relaxed);
                now
            }
            None => self.latest.load(Relaxed),
        };
        done + now.saturating_sub(began)
    }
}

fn nanoseconds(thread: Tid) -> Option<u64> {
    clocks::of_thread(thread).map(|time| time.as_nanos() as u64)
}

/// With more threads than these a hook does not read all of their clocks.
const FEW: u32 = 16;

/// Hooks take at most this part of any reading: their cost was measured back to back, and is less
/// where it overlaps with the program's own work.
const MOST: f64 = 0.8;

/// The agent's latest reading: work, the counter then, and work for each tick of the counter, as
/// bits. Guarded by `VERSION`, as above.
static VERSION: AtomicU32 = AtomicU32::new(0);
static WORK: AtomicU64 = AtomicU64::new(0);
static COUNTER: AtomicU64 = AtomicU64::new(0);
static PACE: AtomicU64 = AtomicU64::new(0);
/// Blocks at that time.
static BLOCKS: AtomicU32 = AtomicU32::new(0);

/// The weight of a new pace.
const TRUST: f64 = 0.3;

/// Ticks of the counter in a second, as bits; zero before the agent has begun.
static SPEED: AtomicU64 = AtomicU64::new(0);

/// Readings are in ticks of a counter of this speed from now on.
pub(crate) fn set_speed(hz: f64) {
    SPEED.store(hz.to_bits(), Relaxed);
}

/// Outside of the [spans](super::spans) that are recorded the clock stands still: its reading then,
/// plus one; zero while it runs. And how far it is behind the threads' clocks.
static FROZEN: AtomicU64 = AtomicU64::new(0);
static BEHIND: AtomicU64 = AtomicU64::new(0);
/// The counter when the clock was resumed: earlier readings are not continued.
static RESUMED: AtomicU64 = AtomicU64::new(0);

fn frozen() -> Option<Ticks> {
    FROZEN.load(Acquire).checked_sub(1).map(Ticks)
}

/// Stops the clock. By one thread at a time, as `resume`. Usable in a hook.
pub(super) fn freeze() {
    FROZEN.store(work().0 + 1, Release);
}

/// Has the clock run again.
pub(super) fn resume() {
    if let Some(stood) = frozen() {
        BEHIND.store(all_work().0.saturating_sub(stood.0), Relaxed);
        RESUMED.store(wordpatch::Ticks::now().0, Relaxed);
        PACE.store(1f64.to_bits(), Relaxed);
        FROZEN.store(0, Release);
    }
}

/// In a forked child: its clock begins at zero, and runs or stands still.
pub(super) fn forget_pauses(goes: bool) {
    BEHIND.store(0, Relaxed);
    FROZEN.store(u64::from(!goes), Release);
}

/// Work until now, in ticks, as far as it was recorded. Reads every thread's clock. Usable in a
/// hook.
pub(crate) fn work() -> Ticks {
    frozen().unwrap_or_else(|| Ticks(all_work().0.saturating_sub(BEHIND.load(Relaxed))))
}

/// The same, recorded or not.
fn all_work() -> Ticks {
    let (hz, costs) = (f64::from_bits(SPEED.load(Relaxed)), measure::known_costs());
    let (mut nanoseconds, mut hooks) = (0u64, 0.0);
    for block in threads::all() {
        nanoseconds += block.clock.worked();
        hooks += hooks_of(block, &costs);
    }
    let all = nanoseconds as f64 * hz / 1e9;
    Ticks((all - hooks.min(MOST * all)) as u64)
}

/// What hooks have taken of a thread, in ticks.
pub(super) fn hooks_of(block: &Header, costs: &profiler::Costs) -> f64 {
    let took = block.hidden.load(Relaxed).saturating_sub(block.waited.load(Relaxed));
    block.skipped.load(Relaxed) as f64 * costs.skip + took as f64
}

/// The same as [`work`], kept for hooks. By the agent, at every tick. Returns work, and how much of
/// it is done per tick of the counter.
pub(crate) fn publish_work() -> (Ticks, f64) {
    let work = work();
    let counter = wordpatch::Ticks::now().0;
    let (before, then, pace) =
        (WORK.load(Relaxed), COUNTER.load(Relaxed), f64::from_bits(PACE.load(Relaxed)));
    let elapsed = counter.saturating_sub(then) as f64;
    let seen = work.0.saturating_sub(before) as f64 / elapsed.max(1.0);
    let pace = if then == 0 { 1.0 } else { pace + TRUST * (seen - pace) };
    VERSION.fetch_add(1, Relaxed);
    fence(Release);
    WORK.store(work.0.max(before), Relaxed);
    COUNTER.store(counter, Relaxed);
    PACE.store(pace.to_bits(), Relaxed);
    BLOCKS.store(threads::all().count() as u32, Relaxed);
    VERSION.fetch_add(1, Release);
    (Ticks(work.0.max(before)), pace)
}

/// Work until about now: read where threads are few; otherwise the agent's latest reading,
/// continued at the pace that the clock had then. Usable in a hook.
pub(crate) fn near() -> Ticks {
    if BLOCKS.load(Relaxed) <= FEW || FROZEN.load(Relaxed) != 0 {
        return work();
    }
    let version = VERSION.load(Acquire);
    let (work, counter, pace) =
        (WORK.load(Relaxed), COUNTER.load(Relaxed), f64::from_bits(PACE.load(Relaxed)));
    fence(Acquire);
    if !version.is_multiple_of(2) || VERSION.load(Relaxed) != version {
        return Ticks(WORK.load(Relaxed));
    }
    let counter = counter.max(RESUMED.load(Relaxed));
    let elapsed = wordpatch::Ticks::now().0.saturating_sub(counter) as f64;
    Ticks(work + (elapsed * pace) as u64)
}

/// When functions are armed: the agent reads the clock before it arms a few, once for them all.
static MARK: AtomicU64 = AtomicU64::new(0);

/// What is armed from now on is armed now. By the agent.
pub(crate) fn mark() {
    MARK.store(near().0, Relaxed);
}

/// When the functions are armed that are armed now.
pub(crate) fn marked() -> Ticks {
    Ticks(MARK.load(Relaxed))
}

/// In a forked child: its threads have begun anew.
pub(crate) fn forget() {
    for word in [&WORK, &COUNTER, &PACE, &MARK] {
        word.store(0, Relaxed);
    }
    BLOCKS.store(0, Relaxed);
    VERSION.store(0, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> ThreadClock {
        let zero = || AtomicU64::new(0);
        ThreadClock {
            version: AtomicU32::new(0),
            thread: AtomicI32::new(0),
            began: zero(),
            done: zero(),
            latest: zero(),
        }
    }

    /// Works until the calling thread's clock has gone on by so many nanoseconds.
    fn work_for(nanoseconds: u64) {
        let start = super::nanoseconds(current()).unwrap();
        while super::nanoseconds(current()).unwrap() < start + nanoseconds {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_threads_have_worked_is_kept_when_they_end() {
        let clock = clock();
        let mut before = 0;
        for _ in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    clock.begin_thread();
                    work_for(200_000);
                    clock.end();
                });
            });
            assert!(clock.worked() >= before + 200_000);
            before = clock.worked();
        }
        assert_eq!(clock.worked(), before);
    }

    #[test]
    fn the_sum_never_falls_while_threads_come_and_go() {
        let clock = clock();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut latest, mut readings) = (0, 0);
                while !over.load(Relaxed) {
                    let now = clock.worked();
                    assert!(now >= latest, "{now} after {latest}");
                    (latest, readings) = (now, readings + 1);
                }
                readings
            });
            for _ in 0..200 {
                let come_and_go = || {
                    clock.begin_thread();
                    work_for(20_000);
                    clock.end();
                };
                scope.spawn(come_and_go).join().unwrap();
            }
            over.store(true, Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
        assert!(clock.worked() >= 200 * 20_000);
    }

    #[test]
    fn a_thread_that_ended_without_a_word_has_worked_what_was_read_last() {
        let clock = clock();
        let read = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                clock.begin_thread();
                work_for(100_000);
                clock.worked()
            });
            thread.join().unwrap()
        });
        assert!(clock.worked() >= read && read >= 100_000);
        // Another one gets the block.
        clock.begin_thread();
        assert!(clock.worked() >= read);
    }
}
