//! The subject of toggling: a loop with a site in it, and the way to toggle it.
//!
//! ```text
//!   word, call   E8 d0 | d1 d2 d3  or  0F 1F | 44 00 00     one that the trap handler can carry out for an executer
//!   word, mov    B8 01 | 00 00 01  or  B8 00 | 00 00 00     one that it cannot: executers take the patch forward themselves
//! ```
//!
//! Both sides of the line change, so that no single store suffices. If passes add the word to a
//! counter, a pass that saw half of each face would add another value, and the sum would not be a
//! multiple of the on face: that reveals a tear.
//!
//! # Safety
//!
//! This module exists to store the faces of the words.
#![allow(unsafe_code)]

use crate::bench_code::{self, Loop, Passes};
use callpatch::{CallSite, Islands, Switch, x86};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use wordpatch::{PatchError, PatchSite, Policy, Word};

/// Two bytes before the end of a line.
const ASTRIDE: usize = 2048 + 64 - 2;

/// `mov eax, 0x01000001`.
const MOV: [u8; 5] = [0xb8, 1, 0, 0, 1];

/// The value that a pass that sees it on adds to the counter.
const UNIT: u64 = 0x0100_0001;

/// How often a patch is tried while an executing thread that finished the previous patch still
/// locks the bytes.
const TRIES: u32 = 1_000_000;

/// The sum of the executing threads is not made of whole faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "passes added {sum:#x}, which is no multiple of {UNIT:#x}: a word was seen torn; run `paper storms` to find out where"
)]
pub(super) struct Torn {
    sum: u64,
}

/// A loop and its site.
#[derive(Debug)]
pub(super) struct Subject {
    // Dropped in this order: the site before the code that it writes to.
    way: Way,
    code: Loop,
    /// The number of patches that had to be retried. Only the toggling thread writes it.
    retried: AtomicU64,
}

#[derive(Debug)]
enum Way {
    /// The islands contain the `ret` that the literature's off state calls.
    Call(CallSite, #[allow(dead_code, reason = "kept mapped")] Islands),
    /// Its faces are off and on; a pass that sees it on counts `unit`.
    Word { site: PatchSite, faces: [Word; 2], unit: u64 },
}

impl Subject {
    fn new(way: Way, code: Loop) -> Self {
        Self { way, code, retried: AtomicU64::new(0) }
    }

    /// A call that begins `at` bytes from the beginning of a page, switched by one byte or by the
    /// literature's cases.
    pub(super) fn call(at: usize, paper: bool, policy: &Policy) -> Result<Self, Box<dyn Error>> {
        let code = Loop::of_call(at)?;
        let (site, islands) = code.adopt(policy, paper)?;
        Ok(Self::new(Way::Call(site, islands), code))
    }

    /// A call that straddles a line, replaced as a word.
    pub(super) fn call_as_word(policy: &Policy) -> Result<Self, Box<dyn Error>> {
        let code = Loop::of_call(ASTRIDE)?;
        let site = code.adopt_word(policy)?;
        let faces = [face(x86::NOP5), site.read()];
        Ok(Self::new(Way::Word { site, faces, unit: 1 }, code))
    }

    /// A `mov` that straddles a line, replaced as a word.
    pub(super) fn mov(policy: &Policy) -> Result<Self, Box<dyn Error>> {
        let code = Loop::of_word(ASTRIDE)?;
        let site = code.adopt_word(policy)?;
        // The initial bytes of the loop's site are neither face.
        bench_code::replace(&site, false);
        Ok(Self::new(
            Way::Word { site, faces: [bench_code::word(false), face(MOV)], unit: UNIT },
            code,
        ))
    }

    /// Switches it.
    pub(super) fn toggle(&self, on: bool) -> Result<(), Box<dyn Error>> {
        match &self.way {
            Way::Call(site, _) => site.set(if on { Switch::On } else { Switch::Off })?,
            Way::Word { site, faces, .. } => self.patch(site, faces[usize::from(on)])?,
        }
        Ok(())
    }

    /// An executing thread that finished the previous patch may not have released the bytes yet;
    /// then the patch is retried.
    fn patch(&self, site: &PatchSite, word: Word) -> Result<(), PatchError> {
        let mut left = TRIES;
        loop {
            // SAFETY: (1) one instruction replaces another, by construction of the faces; a call
            // leads to the hook of its loop.
            match unsafe { site.patch(word) } {
                Err(PatchError::Overlap { .. } | PatchError::Contended { .. }) if left > 0 => {
                    left -= 1;
                }
                outcome => {
                    self.retried.fetch_add(u64::from(left < TRIES), Ordering::Relaxed);
                    return outcome;
                }
            }
            std::thread::yield_now();
        }
    }

    /// The number of patches that had to be retried so far; `None` if the way needs no patches.
    pub(super) fn retried(&self) -> Option<u64> {
        matches!(self.way, Way::Word { .. }).then(|| self.retried.load(Ordering::Relaxed))
    }

    /// Runs it until it is stopped.
    pub(super) fn run(&self, passes: &Passes) {
        self.code.run(passes);
    }

    /// The passes that saw it on, and all passes, of all executing threads.
    pub(super) fn seen(&self, passes: &[Passes]) -> Result<[u64; 2], Torn> {
        passes.iter().map(Passes::seen).try_fold([0; 2], |[on, all], [sum, count]| {
            Ok([on + self.passes_in(sum)?, all + count])
        })
    }

    /// The number of passes that saw it on and added up to `sum`.
    fn passes_in(&self, sum: u64) -> Result<u64, Torn> {
        let unit = if let Way::Word { unit, .. } = self.way { unit } else { 1 };
        if sum.is_multiple_of(unit) { Ok(sum / unit) } else { Err(Torn { sum }) }
    }
}

fn face(bytes: [u8; 5]) -> Word {
    Word::new(&bytes).unwrap_or_else(|| unreachable!("five bytes are a word"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> Vec<Subject> {
        let policy = Policy::new().unwrap();
        let places = [2064, 2111, 2110, 2109, 2108];
        let calls = places
            .into_iter()
            .flat_map(|at| [false, true].map(|paper| Subject::call(at, paper, &policy).unwrap()));
        calls
            .chain([Subject::call_as_word(&policy).unwrap(), Subject::mov(&policy).unwrap()])
            .collect()
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
                assert_eq!(
                    subject.seen(&passes).unwrap(),
                    [before[0] + u64::from(on), before[1] + 1],
                    "{subject:?}"
                );
            }
            assert!(subject.retried().unwrap_or(0) == 0, "nobody else was there: {subject:?}");
        }
    }

    #[test]
    fn a_word_changes_on_both_sides_of_the_line() {
        let policy = Policy::new().unwrap();
        for subject in [Subject::call_as_word(&policy).unwrap(), Subject::mov(&policy).unwrap()] {
            let Way::Word { site, faces: [off, on], .. } = &subject.way else {
                unreachable!("both are words")
            };
            let changed = off.difference(on).unwrap();
            let before = 64 - site.address().within(64);
            assert!(changed.start < before && changed.end > before, "{changed:?}");
        }
    }

    #[test]
    fn executers_under_fire_see_whole_words_alone() {
        let policy = Policy::new().unwrap();
        for subject in [Subject::call_as_word(&policy).unwrap(), Subject::mov(&policy).unwrap()] {
            let passes = [Passes::default()];
            std::thread::scope(|scope| {
                let _stop = super::super::Stop(&passes);
                scope.spawn(|| subject.run(&passes[0]));
                for count in 0..2000 {
                    subject.toggle(count % 2 == 0).unwrap();
                }
            });
            let [on, all] = subject.seen(&passes).unwrap();
            assert!(on <= all && all > 0);
        }
    }

    #[test]
    fn half_a_word_is_told_from_passes() {
        let subject = Subject::mov(&Policy::new().unwrap()).unwrap();
        for half in [1, 0x0100_0000] {
            let passes = Passes::default();
            passes.on.store(7 * UNIT + half, Ordering::Relaxed);
            assert_eq!(subject.seen(&[passes]), Err(Torn { sum: 7 * UNIT + half }));
        }
    }
}
