//! Wishes: requests to the agent, and how requesting threads learn that they are done.
//!
//! A thread that requests the profile wants its own latest calls in it: it makes the request after
//! they were counted. So the agent takes wishes *before* it looks at counters, and answers only
//! those that it took. A wish that arrives while the agent looks is left for the next round. If
//! this round answered it, its profile would lack what was counted after the agent's look. How much
//! that is depends on how long the agent's thread was kept from running at that point.
//!
//! Wishes are numbered, since several threads may wait: each waits until its own number is
//! answered.
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `asked` | the number of the latest request | a requesting thread, one up |
//! | `answered` | the written profile has what was counted before this wish | the agent |
//! | `leave` | the agent shall leave | a requesting thread; the agent, when it takes the request |
//!
//! [`ROUND`] is the order of the agent's steps. The model runs through every interleaving of it
//! with requesting threads. It shows what happens to their calls in any other order, and if wishes
//! had no numbers.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};
use wordpatch::os::threads::{sleep_while_for, wake_all};

#[cfg(test)]
mod model;

/// One step of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Takes the requests made until now.
    Take,
    /// Drains and counts.
    Look,
    /// Writes the profile, if a thread requested it.
    Write,
    /// Answers the wishes that were taken.
    Answer,
}

/// The agent's steps, repeated.
pub(super) const ROUND: [Step; 4] = [Step::Take, Step::Look, Step::Write, Step::Answer];

/// A wish, to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish(u32);

/// The requests that the agent took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    until: u32,
    /// Whether a thread waits for a profile.
    pub(super) write: bool,
    /// Whether the agent shall leave.
    pub(super) leave: bool,
}

#[derive(Debug)]
pub(super) struct Wishes {
    asked: AtomicU32,
    answered: AtomicU32,
    leave: AtomicBool,
}

impl Wishes {
    pub(super) const fn new() -> Self {
        Self {
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            leave: AtomicBool::new(false),
        }
    }

    /// Asks for the profile. Releases what the caller has counted to the agent that takes the wish.
    /// Usable in a signal handler.
    pub(super) fn ask(&self) -> Wish {
        Wish(self.asked.fetch_add(1, AcqRel).wrapping_add(1))
    }

    /// Asks the agent to leave.
    pub(super) fn dismiss(&self) {
        self.leave.store(true, Release);
    }

    /// Whether a request is pending.
    pub(super) fn is_waiting(&self) -> bool {
        self.leave.load(Acquire) || self.asked.load(Acquire) != self.answered.load(Acquire)
    }

    /// Takes the requests made until now. By the agent.
    pub(super) fn take(&self) -> Taken {
        let until = self.asked.load(Acquire);
        Taken {
            until,
            write: until != self.answered.load(Acquire),
            leave: self.leave.swap(false, AcqRel),
        }
    }

    /// Marks the wishes that were taken as granted. By the agent.
    pub(super) fn answer(&self, taken: Taken) {
        if self.answered.swap(taken.until, AcqRel) != taken.until {
            wake_all(&self.answered);
        }
    }

    /// Waits until this wish was granted, for `patience` at most. Returns whether it was.
    pub(super) fn await_answer(&self, wish: Wish, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            let answered = self.answered.load(Acquire);
            let rest = end.saturating_duration_since(Instant::now());
            if Self::includes(answered, wish) || rest.is_zero() {
                return Self::includes(answered, wish);
            }
            sleep_while_for(&self.answered, answered, rest);
        }
    }

    fn includes(answered: u32, wish: Wish) -> bool {
        // Numbers wrap around; no thread waits for two billion others.
        answered.wrapping_sub(wish.0) as i32 >= 0
    }

    /// Whether this wish, and so all before it, were granted.
    pub(super) fn is_answered(&self, wish: Wish) -> bool {
        Self::includes(self.answered.load(Acquire), wish)
    }

    /// In a forked child: the requesting threads are in the parent.
    pub(super) fn forget(&self) {
        self.answered.store(self.asked.load(Acquire), Release);
        self.leave.store(false, Release);
    }
}
