//! Wishes: what others ask the agent for, and how they learn that it was done.
//!
//! A thread that asks for the profile wants its own latest calls in it: it asks when they were
//! counted. So the agent takes wishes *before* it looks at counters, and answers only those that it
//! took. One that comes while it looks is for the next round; answered by this one, it would lose
//! what was counted behind the agent's back, and how much that is depends on how long the agent's
//! thread was kept from running just there.
//!
//! Wishes are numbered, since several may be waited for: who has asked waits until his own number
//! is answered.
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `asked` | the number of the latest request | a thread that asks, one up |
//! | `answered` | the profile that is written has what was counted before this wish | the agent |
//! | `leave` | the agent shall go | a thread that asks; the agent, when it goes |
//!
//! [`ROUND`] is the order of the agent's steps. The model runs through every interleaving of it
//! with those who ask, and shows what becomes of their calls in any other order, and if wishes had
//! no numbers.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};
use wordpatch::os::threads::{sleep_while_for, wake_all};

#[cfg(test)]
mod model;

/// One step of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Takes what was asked for until now.
    Take,
    /// Drains and counts.
    Look,
    /// Writes the profile, if a thread asked.
    Write,
    /// Tells those whose wishes were taken.
    Answer,
}

/// What the agent does, again and again.
pub(super) const ROUND: [Step; 4] = [Step::Take, Step::Look, Step::Write, Step::Answer];

/// A wish, to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish(u32);

/// What was asked for when the agent took it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    until: u32,
    /// Whether a thread waits for a profile.
    pub(super) write: bool,
    /// Whether the agent shall go.
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

    /// Asks the agent to go.
    pub(super) fn dismiss(&self) {
        self.leave.store(true, Release);
    }

    /// Whether there is anything to be done.
    pub(super) fn is_waiting(&self) -> bool {
        self.leave.load(Acquire) || self.asked.load(Acquire) != self.answered.load(Acquire)
    }

    /// What was asked for until now. By the agent.
    pub(super) fn take(&self) -> Taken {
        let until = self.asked.load(Acquire);
        Taken {
            until,
            write: until != self.answered.load(Acquire),
            leave: self.leave.swap(false, AcqRel),
        }
    }

    /// Those wishes are granted. By the agent.
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
        // Numbers come round; no thread waits for two milliards of others.
        answered.wrapping_sub(wish.0) as i32 >= 0
    }

    /// Whether this wish, and so all before it, were granted.
    pub(super) fn is_answered(&self, wish: Wish) -> bool {
        Self::includes(self.answered.load(Acquire), wish)
    }

    /// In a forked child: those who asked are in the parent.
    pub(super) fn forget(&self) {
        self.answered.store(self.asked.load(Acquire), Release);
        self.leave.store(false, Release);
    }
}
