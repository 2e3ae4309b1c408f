//! Handing the profile over to `fastinst run` while the program runs: when, and what.
//!
//! Counts are handed over ten times a second, and a whole profile whenever the cost of the previous
//! one is at most a thousandth of the time since: [`Pace`] is the rule. A process that uses no CPU
//! time has nothing new.

use crate::handover::{AGE, Writer};
use std::path::Path;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::{Duration, Instant};

/// The slot of this process; null if it has none.
static SLOT: AtomicPtr<Writer> = AtomicPtr::new(std::ptr::null_mut());

/// Takes a slot, unless this process has one.
pub(super) fn claim(path: Option<&Path>) {
    if let Some(path) = path
        && writer().is_none()
        && let Some(writer) = Writer::claim(path)
    {
        SLOT.store(Box::into_raw(Box::new(writer)), Release);
    }
}

/// Takes a slot in this memory.
pub(super) fn claim_of(handover: &crate::handover::Handover) -> bool {
    let writer = handover.writer();
    let is_there = writer.is_some();
    if let Some(writer) = writer {
        SLOT.store(Box::into_raw(Box::new(writer)), Release);
    }
    is_there
}

/// Gives the slot up: its reader has it, and another reader brings memory of its own.
pub(super) fn release() {
    let slot = SLOT.swap(std::ptr::null_mut(), AcqRel);
    // SAFETY: (1) null, or made by `claim` or `claim_of`; (2) by the agent, which alone uses it.
    #[allow(unsafe_code)]
    unsafe {
        (!slot.is_null()).then(|| drop(Box::from_raw(slot)));
    }
}

/// The slot, if this process has one and a process reads it.
pub(super) fn writer() -> Option<&'static Writer> {
    // SAFETY: (1) null, or made by `claim` or `claim_of`; (2) only the agent's thread calls this
    // once it runs, and only it drops the slot, in `release`, between two uses.
    #[allow(unsafe_code)]
    unsafe {
        SLOT.load(Acquire).as_ref()
    }
}

/// In a forked child: the slot is the parent's, and stays mapped.
pub(crate) fn forget() {
    SLOT.swap(std::ptr::null_mut(), AcqRel);
}

/// The first ones are handed over sooner, for programs that end before that.
const FIRST: Duration = Duration::from_millis(5);
/// A whole profile is due after so many times the time that the previous one took.
const PATIENCE: u32 = 1000;
/// The same, if it has functions that the previous one did not have.
const HASTE: u32 = 100;

/// When something is handed over.
#[derive(Debug)]
pub(super) struct Pace {
    counts: Instant,
    whole: Instant,
    took: Duration,
    /// Functions of the latest whole profile.
    functions: usize,
    pause: Duration,
    processor: Duration,
}

/// What is to be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Counts,
    Whole,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        let none = Duration::ZERO;
        Self { counts: now, whole: now, took: none, functions: 0, pause: FIRST, processor: none }
    }

    /// How long the agent may sleep.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// What is due, for a process that has used so much CPU time and called so many functions.
    pub(super) fn due(&mut self, now: Instant, processor: Duration, functions: usize) -> Due {
        let is_new = functions > self.functions;
        if now.duration_since(self.counts) < self.pause || (processor == self.processor && !is_new)
        {
            return Due::Nothing;
        }
        (self.counts, self.processor) = (now, processor);
        self.pause = (self.pause * 2).min(AGE);
        let paid = self.took * if is_new { HASTE } else { PATIENCE };
        if now.duration_since(self.whole) >= paid.max(self.pause / 2) {
            Due::Whole
        } else {
            Due::Counts
        }
    }

    /// Records that a whole profile of so many functions was handed over, and how long it took.
    pub(super) fn handed_over(&mut self, now: Instant, took: Duration, functions: usize) {
        (self.whole, self.functions) = (now, functions);
        // One that was interrupted says little about the next.
        self.took = if self.took.is_zero() { took } else { took.min(self.took * 2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// What is handed over in ten seconds by a process that is always busy: counts, whole profiles,
    /// and the longest time without either.
    fn played(took: Duration, functions: impl Fn(u64) -> usize) -> (u32, u32, Duration) {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut counts, mut whole, mut latest, mut longest) =
            (0, 0, Duration::ZERO, Duration::ZERO);
        for at in (0..10_000).map(ms) {
            let called = functions(at.as_millis() as u64);
            let due = pace.due(start + at, at, called);
            match due {
                Due::Nothing => continue,
                Due::Counts => counts += 1,
                Due::Whole => {
                    whole += 1;
                    pace.handed_over(start + at, took, called);
                }
            }
            longest = longest.max(at - latest);
            latest = at;
        }
        (counts, whole, longest)
    }

    #[test]
    fn a_small_programs_whole_profile_is_never_older_than_a_tenth_of_a_second() {
        let (counts, whole, longest) = played(Duration::from_micros(80), |_| 30);
        assert!(
            counts < 5 && (95..110).contains(&whole) && longest <= ms(100),
            "{counts} {whole} {longest:?}"
        );
    }

    #[test]
    fn a_large_programs_counts_are_as_young_and_its_whole_profiles_take_a_thousandth() {
        let (counts, whole, longest) = played(ms(2), |_| 3000);
        assert!(
            counts >= 90 && (4..=7).contains(&whole) && longest <= ms(100),
            "{counts} {whole} {longest:?}"
        );
    }

    #[test]
    fn new_functions_are_handed_over_sooner() {
        let (_, whole, _) = played(ms(2), |at| at as usize);
        assert!((40..=52).contains(&whole), "{whole}");
    }

    #[test]
    fn a_process_that_rests_hands_nothing_over() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.due(start + ms(10), ms(3), 5), Due::Whole);
        pace.handed_over(start + ms(10), ms(1), 5);
        assert_eq!(pace.due(start + ms(500), ms(3), 5), Due::Nothing);
        assert_ne!(pace.due(start + ms(600), ms(4), 5), Due::Nothing);
    }
}
