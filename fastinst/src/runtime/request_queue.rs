//! The request queue of the agent, and how requesting threads learn that they are done.
//!
//! A thread that requests the profile wants its own latest calls in it: it makes the request after
//! they were counted. So the agent takes requests *before* it looks at counters, and answers only
//! those that it took. A request that arrives while the agent looks is left for the next round. If
//! this round answered it, its profile would lack what was counted after the agent's look. How much
//! that is depends on how long the agent's thread was kept from running at that point.
//!
//! Requests are numbered, since several threads may wait: each waits until its own number is
//! answered.
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `asked` | the number of the latest request | a requesting thread, one up |
//! | `answered` | the written profile has what was counted before this request | the agent |
//! | `leave` | the agent shall leave | a requesting thread; the agent, when it takes the request |
//!
//! [`ROUND`] is the order of the agent's steps. The model runs through every interleaving of it
//! with requesting threads. It shows what happens to their calls in any other order, and if
//! requests had no numbers.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};
use wordpatch::os::threads::{sleep_while_for, wake_all};

#[cfg(test)]
mod model;

/// One step of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RoundStep {
    /// Takes the requests made until now.
    Take,
    /// Drains and counts.
    Look,
    /// Writes the profile, if a thread requested it.
    Write,
    /// Answers the requests that were taken.
    Answer,
}

/// The agent's steps, repeated.
pub(super) const ROUND: [RoundStep; 4] =
    [RoundStep::Take, RoundStep::Look, RoundStep::Write, RoundStep::Answer];

/// The number of a request, to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestNumber(u32);

/// The requests that the agent took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenRequests {
    until: u32,
    /// Whether a thread waits for a profile.
    pub(super) write: bool,
    /// Whether the agent shall leave.
    pub(super) leave: bool,
}

#[derive(Debug)]
pub(super) struct RequestQueue {
    asked: AtomicU32,
    answered: AtomicU32,
    leave: AtomicBool,
}

impl RequestQueue {
    pub(super) const fn new() -> Self {
        Self {
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            leave: AtomicBool::new(false),
        }
    }

    /// Posts a request for the profile. Releases what the caller has counted to the agent that
    /// takes the request. Usable in a signal handler.
    pub(super) fn post(&self) -> RequestNumber {
        RequestNumber(self.asked.fetch_add(1, AcqRel).wrapping_add(1))
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
    pub(super) fn take(&self) -> TakenRequests {
        let until = self.asked.load(Acquire);
        TakenRequests {
            until,
            write: until != self.answered.load(Acquire),
            leave: self.leave.swap(false, AcqRel),
        }
    }

    /// Marks the requests that were taken as answered. By the agent.
    pub(super) fn answer(&self, taken: TakenRequests) {
        if self.answered.swap(taken.until, AcqRel) != taken.until {
            wake_all(&self.answered);
        }
    }

    /// Waits until this request was answered, for `patience` at most. Returns whether it was.
    pub(super) fn await_answer(&self, number: RequestNumber, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            let answered = self.answered.load(Acquire);
            let rest = end.saturating_duration_since(Instant::now());
            if Self::includes(answered, number) || rest.is_zero() {
                return Self::includes(answered, number);
            }
            sleep_while_for(&self.answered, answered, rest);
        }
    }

    fn includes(answered: u32, number: RequestNumber) -> bool {
        // Numbers wrap around; no thread waits for two billion others.
        answered.wrapping_sub(number.0) as i32 >= 0
    }

    /// Whether this request, and so all before it, were answered.
    pub(super) fn is_answered(&self, number: RequestNumber) -> bool {
        Self::includes(self.answered.load(Acquire), number)
    }

    /// In a forked child: the requesting threads are in the parent.
    pub(super) fn forget(&self) {
        self.answered.store(self.asked.load(Acquire), Release);
        self.leave.store(false, Release);
    }
}
