//! The order of stores and waits, as a value.
//!
//! A word that lies in one granule is replaced by one store. A word that a granule's boundary cuts
//! is replaced behind a trap:
//!
//! ```text
//!              front          │   back
//!   before     a0 a1 a2       │   a3 a4       Trap      CC over every byte of the front
//!              CC CC CC       │   a3 a4       Barrier   no thread runs on a0 a1 a2 fetched earlier
//!              CC CC CC       │   b3 b4       Back
//!              CC CC CC       │   b3 b4       Barrier   only where fetch may see the back late
//!   after      b0 b1 b2       │   b3 b4       Front
//! ```
//!
//! Every byte of the front gets the trap, because the word may hold several instructions and a
//! thread may be about to run the second or third of them. The front has at most seven bytes and is
//! stored by stores of four, two and one. `Trap` stores upwards and `Front` downwards: so every
//! byte before one that still has to change is already (or still) a trap, and no half-written
//! instruction can be reached. The traps do not protect the back from a thread that is about to run
//! an instruction wholly inside it, so the back is stored at once, unless the word is [one
//! instruction](Layout::One).
//!
//! There is no unsafe code here, and no wait: [`Plan`] lists the steps,
//! [`PatchSite`](crate::PatchSite) performs them, and the model in the tests reads the same plan to
//! show that each step is needed and that together they suffice.

use crate::addr::CodeAddr;
use crate::granule::Granule;
use crate::live::Width;
use crate::vendor::FetchOrder;
use crate::word::Word;
use std::ops::Range;

#[cfg(test)]
mod model;

/// The one instruction that this crate writes: `INT3`.
pub const TRAP: u8 = 0xcc;

/// One step of replacing a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Store the whole word at once.
    Whole,
    /// Cover the front with traps.
    Trap,
    /// Wait until no core runs on bytes it fetched before (assumption A2).
    Barrier,
    /// Store the bytes after the boundary.
    Back,
    /// Store the bytes before the boundary, in place of the traps.
    Front,
}

/// Which instructions a word may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One instruction begins with the word and none begins inside it.
    One,
    /// Instructions may begin anywhere in it, at the same places in the old and in the new word.
    Any,
}

/// The plan by which the bytes of one site are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    len: u8,
    /// Bytes before the boundary; none if no boundary cuts the word.
    front: u8,
    order: FetchOrder,
    layout: Layout,
}

impl Plan {
    /// The plan for `len` bytes at `address`.
    pub fn new(
        address: CodeAddr,
        len: usize,
        granule: Granule,
        order: FetchOrder,
        layout: Layout,
    ) -> Self {
        let front = granule.cut(address, len).unwrap_or(0);
        Self { len: len as u8, front: front as u8, order, layout }
    }

    /// The number of bytes before the boundary that cuts the word, if one does.
    pub fn front(self) -> Option<usize> {
        (self.front > 0).then_some(self.front.into())
    }

    /// The steps, in order.
    pub fn steps(self) -> &'static [Step] {
        use Step::{Back, Barrier, Front, Trap, Whole};
        match (self.front, self.order) {
            (0, _) => &[Whole],
            (_, FetchOrder::Upwards) => &[Trap, Barrier, Back, Front],
            (_, FetchOrder::Any) => &[Trap, Barrier, Back, Barrier, Front],
        }
    }

    /// The steps from barrier number `n` to the next one, which need no further wait.
    pub fn steps_from_barrier(self, n: usize) -> &'static [Step] {
        let steps = self.steps();
        let mut barriers = (0..steps.len()).filter(|&i| steps[i] == Step::Barrier).skip(n);
        let Some(start) = barriers.next() else { return &[] };
        &steps[start..barriers.next().unwrap_or(steps.len())]
    }

    /// The stores that make up a step: ranges of the word, each of one machine store, in order.
    /// `None` if the step's bytes have to be stored at once, as [`Whole`] does.
    pub fn pieces(self, step: Step) -> Option<Pieces> {
        let (front, len) = (self.front.into(), self.len.into());
        match (step, self.layout) {
            (Step::Trap, _) => Some(Pieces { rest: 0..front, upwards: true }),
            (Step::Front, _) => Some(Pieces { rest: 0..front, upwards: false }),
            (Step::Back, Layout::One) => Some(Pieces { rest: front..len, upwards: true }),
            (Step::Back, Layout::Any) | (Step::Whole, _) => None,
            (Step::Barrier, _) => Some(Pieces { rest: 0..0, upwards: true }),
        }
    }

    /// The bytes of the word that a step changes.
    pub fn range(self, step: Step) -> Range<usize> {
        let (front, len) = (self.front.into(), self.len.into());
        match step {
            Step::Whole => 0..len,
            Step::Trap | Step::Front => 0..front,
            Step::Back => front..len,
            Step::Barrier => 0..0,
        }
    }
}

/// The stores of one step. See [`Plan::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces {
    rest: Range<usize>,
    upwards: bool,
}

impl Iterator for Pieces {
    type Item = (usize, Width);

    fn next(&mut self) -> Option<(usize, Width)> {
        if self.rest.is_empty() {
            return None;
        }
        let width = Width::at_most(self.rest.len());
        if self.upwards {
            let at = self.rest.start;
            self.rest.start += width.bytes();
            Some((at, width))
        } else {
            self.rest.end -= width.bytes();
            Some((self.rest.end, width))
        }
    }
}

/// The way to replace a word by one store, where no boundary cuts the bytes that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The bytes are already the new ones.
    Nothing,
    /// One plain store of this width, at this offset in the word, covers every byte that changes
    /// and no byte outside the word.
    Store(usize, Width),
    /// No store of the word's own bytes fits: three, five, six or seven of them change. Exchange
    /// the eight bytes at this offset from the word's first (compare-and-swap), and try again if a
    /// neighbour changed meanwhile.
    Exchange(isize),
}

impl Whole {
    /// The cheapest way from `old` to `new` at `address`; `None` if a boundary cuts the bytes that
    /// change.
    #[inline]
    pub fn new(address: CodeAddr, granule: Granule, old: Word, new: Word) -> Option<Self> {
        let Some(changed) = old.difference(&new) else { return Some(Self::Nothing) };
        let before = address.offset(changed.start as isize).within(granule.bytes());
        if before + changed.len() > granule.bytes() {
            return None;
        }
        // The granule that holds the changed bytes, and the word's bytes in it, as offsets from the
        // word's first byte.
        let start = changed.start as isize - before as isize;
        let own = start.max(0)..(start + granule.bytes() as isize).min(new.len() as isize);
        let width = Width::at_least(changed.len());
        let room = own.end - width.bytes() as isize;
        if room >= own.start {
            return Some(Self::Store(room.min(changed.start as isize) as usize, width));
        }
        // Fewer than eight bytes of the word lie in a granule of at least eight: take eight bytes
        // of the granule that contain them all.
        Some(Self::Exchange(own.start.min(start + granule.bytes() as isize - 8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(len: usize, fill: u8) -> Word {
        Word::new(&vec![fill; len]).unwrap()
    }

    #[test]
    fn the_pieces_of_a_step_cover_its_bytes_once() {
        for at in 0..8 {
            for len in 1..=8 {
                let plan = Plan::new(
                    CodeAddr::new(at),
                    len,
                    Granule::QUADWORD,
                    FetchOrder::Any,
                    Layout::One,
                );
                for &step in plan.steps().iter().filter(|&&step| step != Step::Whole) {
                    let mut bytes: Vec<usize> =
                        plan.pieces(step).unwrap().flat_map(|(at, w)| at..at + w.bytes()).collect();
                    bytes.sort_unstable();
                    assert_eq!(
                        bytes,
                        plan.range(step).collect::<Vec<_>>(),
                        "{step:?} of {len} bytes at {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_store_keeps_to_one_granule_and_to_the_word_and_holds_what_changes() {
        arbtest::arbtest(|u| {
            let granule = Granule::new(*u.choose(&[1, 8, 16, 32, 64])?).unwrap();
            let (at, len) = (u.int_in_range(64..=127)?, u.int_in_range(1..=8)?);
            let old = word(len, 0);
            let first = u.int_in_range(0..=len - 1)?;
            let last = u.int_in_range(first..=len - 1)?;
            let bytes: Vec<u8> = (0..len).map(|i| u8::from(i >= first && i <= last)).collect();
            let new = Word::new(&bytes).unwrap();
            let same_granule = |a: usize, b: usize| a / granule.bytes() == b / granule.bytes();
            match Whole::new(CodeAddr::new(at), granule, old, new) {
                None => assert!(!same_granule(at + first, at + last)),
                Some(Whole::Nothing) => panic!("the words differ"),
                Some(Whole::Store(from, width)) => {
                    assert!(
                        from <= first && from + width.bytes() > last && from + width.bytes() <= len
                    );
                    assert!(same_granule(at + from, at + from + width.bytes() - 1));
                }
                Some(Whole::Exchange(from)) => {
                    let start = at.checked_add_signed(from).unwrap();
                    assert!(
                        start <= at + first
                            && start + 8 > at + last
                            && same_granule(start, start + 7)
                    );
                }
            }
            Ok(())
        });
    }

    #[test]
    fn only_the_bytes_that_change_are_stored() {
        let old = Word::new(&[1, 2, 3, 4, 5]).unwrap();
        let at = CodeAddr::new(16);
        let plan = |bytes: [u8; 5]| {
            Whole::new(at, Granule::QUADWORD, old, Word::new(&bytes).unwrap()).unwrap()
        };
        assert_eq!(plan([1, 2, 3, 4, 5]), Whole::Nothing);
        assert_eq!(plan([9, 2, 3, 4, 5]), Whole::Store(0, Width::One));
        assert_eq!(plan([1, 2, 9, 9, 5]), Whole::Store(2, Width::Two));
        assert_eq!(plan([1, 2, 9, 9, 9]), Whole::Store(1, Width::Four));
        assert_eq!(plan([9, 9, 9, 9, 9]), Whole::Exchange(0));
    }
}
