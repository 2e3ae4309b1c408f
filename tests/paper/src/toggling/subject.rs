//! What is toggled: a loop with a site in it, and how that is done.
//!
//! ```text
//!   word    B8 i0 | i1 i2 i3      off 0, on 0x01000001: both sides of the line change, so that no single store can do it
//! ```
//!
//! A pass adds the word to a counter. One that saw half of each face would add something else, and the sum would be no multiple of the
//! on face: that is how a tear is told.
//!
//! # Safety
//!
//! This module exists to put the on face of the word in place.
#![allow(unsafe_code)]

use crate::bench_code::{self, Loop, Passes};
use callpatch::{CallSite, Islands, Switch};
use std::error::Error;
use wordpatch::{PatchSite, Policy, Word};

/// `mov eax, 0x01000001`.
const ON: [u8; 5] = [0xb8, 1, 0, 0, 1];

/// What a pass that sees the word on adds to the counter.
const UNIT: u64 = 0x0100_0001;

/// The sum of what executers saw is not made of whole faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("passes added {sum:#x}, which is no multiple of {UNIT:#x}: a word was seen torn; run `paper storms` to find out where")]
pub(super) struct Torn {
    sum: u64,
}

/// A loop and its site.
#[derive(Debug)]
pub(super) struct Subject {
    // In the order in which they may go: what writes before what is written to.
    way: Way,
    code: Loop,
}

#[derive(Debug)]
enum Way {
    /// The islands hold what the literature's off state calls.
    Call(CallSite, #[allow(dead_code, reason = "kept mapped")] Islands),
    Word(PatchSite),
}

impl Subject {
    /// A call that begins `at` bytes from the beginning of a page, switched by one byte or by the literature's cases. It is on.
    pub(super) fn call(at: usize, paper: bool, policy: &Policy) -> Result<Self, Box<dyn Error>> {
        let code = Loop::of_call(at)?;
        let (site, islands) = code.adopt(policy, paper)?;
        Ok(Self { way: Way::Call(site, islands), code })
    }

    /// A word that lies with two bytes before a line's end. It is on.
    pub(super) fn word(policy: &Policy) -> Result<Self, Box<dyn Error>> {
        let code = Loop::of_word(2048 + 64 - 2)?;
        let subject = Self { way: Way::Word(code.adopt_word(policy)?), code };
        subject.toggle(true)?;
        Ok(subject)
    }

    /// Switches it.
    pub(super) fn toggle(&self, on: bool) -> Result<(), Box<dyn Error>> {
        match &self.way {
            Way::Call(site, _) => site.set(if on { Switch::On } else { Switch::Off })?,
            Way::Word(site) if on => {
                let word = Word::new(&ON).unwrap_or_else(|| unreachable!("five bytes are a word"));
                // SAFETY: (1) one `mov` in place of another, by construction of `Loop::of_word`.
                unsafe { site.patch(word)? };
            }
            Way::Word(site) => bench_code::replace(site, false),
        }
        Ok(())
    }

    /// Runs it until somebody stops it.
    pub(super) fn run(&self, passes: &Passes) {
        self.code.run(passes);
    }

    /// Passes that saw it on, and all, of all executers.
    pub(super) fn seen(&self, passes: &[Passes]) -> Result<[u64; 2], Torn> {
        let each = passes.iter().map(Passes::seen);
        each.map(|[sum, all]| Ok([self.passes_in(sum)?, all])).try_fold([0; 2], |whole, part: Result<[u64; 2], Torn>| {
            let part = part?;
            Ok([whole[0] + part[0], whole[1] + part[1]])
        })
    }

    /// How many passes that saw it on have added up to `sum`.
    fn passes_in(&self, sum: u64) -> Result<u64, Torn> {
        match self.way {
            Way::Call(..) => Ok(sum),
            Way::Word(_) if sum.is_multiple_of(UNIT) => Ok(sum / UNIT),
            Way::Word(_) => Err(Torn { sum }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn subjects() -> Vec<Subject> {
        let policy = Policy::new().unwrap();
        let places = [2064, 2111, 2110, 2109, 2108];
        let calls = places.into_iter().flat_map(|at| [false, true].map(|paper| Subject::call(at, paper, &policy).unwrap()));
        calls.chain([Subject::word(&policy).unwrap()]).collect()
    }

    #[test]
    fn an_executer_sees_the_state_that_was_left() {
        for subject in subjects() {
            let passes = [Passes::default(), Passes::default()];
            for (count, on) in [true, false, false, true, true].into_iter().enumerate() {
                let before = subject.seen(&passes).unwrap();
                subject.toggle(on).unwrap();
                let executer = &passes[count % 2];
                executer.stop();
                subject.run(executer);
                assert_eq!(subject.seen(&passes).unwrap(), [before[0] + u64::from(on), before[1] + 1], "{subject:?}");
            }
        }
    }

    #[test]
    fn a_word_changes_on_both_sides_of_the_line() {
        let changed = Word::new(&ON).unwrap().difference(&bench_code::word(false)).unwrap();
        assert!(changed.start < 2 && changed.end > 2, "{changed:?}");
    }

    #[test]
    fn half_a_word_is_told_from_passes() {
        let subject = Subject::word(&Policy::new().unwrap()).unwrap();
        for half in [1, 0x0100_0000] {
            let passes = Passes::default();
            passes.on.store(7 * UNIT + half, Ordering::Relaxed);
            assert_eq!(subject.seen(&[passes]), Err(Torn { sum: 7 * UNIT + half }));
        }
    }
}
