//! Every state of a word that a lagging reader can fetch while the word is replaced, and replaced
//! back.
//!
//! Memory is a history: one state after each store, cut into epochs by the barriers. A reader runs
//! an instruction on bytes that it fetched granule by granule, each granule whole (A1), each at a
//! time of its own; no barrier lies between those times and the time it runs (A2). With
//! [`FetchOrder::Upwards`] later granules are fetched later; with `Any` nothing is known. A view is
//! right if it begins with a trap, or is the whole old or the whole new instruction.

use super::*;
use std::collections::BTreeSet;

/// Longer than any word, so that a layout's instructions and every granule they touch lie inside.
const SPACE: usize = 8;

type Image = [u8; SPACE];

/// The states of memory in the order they came, epoch by epoch.
struct History {
    epochs: Vec<Vec<Image>>,
}

impl History {
    fn new(memory: Image) -> Self {
        Self { epochs: vec![vec![memory]] }
    }

    fn now(&self) -> Image {
        *self.epochs.last().unwrap().last().unwrap()
    }

    fn store(&mut self, range: Range<usize>, bytes: &[u8]) {
        let mut memory = self.now();
        memory[range].copy_from_slice(bytes);
        self.epochs.last_mut().unwrap().push(memory);
    }

    fn barrier(&mut self) {
        let memory = self.now();
        self.epochs.push(vec![memory]);
    }

    /// Runs the steps of `plan` that `keep` keeps, towards `new`.
    fn replace(&mut self, plan: Plan, new: &Image, keep: impl Fn(usize, Step) -> bool) {
        let steps = plan.steps().iter().copied().enumerate();
        for (_, step) in steps.filter(|&(i, step)| keep(i, step)) {
            let bytes = if step == Step::Trap { &[TRAP; SPACE] } else { new };
            match plan.pieces(step) {
                _ if step == Step::Barrier => self.barrier(),
                None => self.store(plan.range(step), &bytes[plan.range(step)]),
                Some(pieces) => {
                    for (at, width) in pieces {
                        let range = at..at + width.bytes();
                        self.store(range.clone(), &bytes[range]);
                    }
                }
            }
        }
    }
}

/// One instruction of the word's layout, as it is in the old and in the new word.
struct Instruction {
    range: Range<usize>,
}

/// A placement: the number of bytes of the word before the first boundary, and the granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Placement {
    to_boundary: usize,
    granule: usize,
    len: usize,
}

impl Placement {
    /// All different placements: every offset in a line, every length, every granule.
    fn all(granules: &[usize]) -> BTreeSet<Self> {
        let mut placements = BTreeSet::new();
        for &granule in granules {
            for offset in 0..64 {
                for len in 1..=SPACE {
                    let to_boundary = (granule - offset % granule).min(SPACE);
                    placements.insert(Self { to_boundary, granule: granule.min(SPACE), len });
                }
            }
        }
        placements
    }

    fn plan(self, order: FetchOrder, layout: Layout) -> Plan {
        let address = CodeAddr::new(64 - self.to_boundary);
        Plan::new(address, self.len, Granule::new(self.granule).unwrap(), order, layout)
    }

    /// All placements that a boundary of an aligned quadword cuts.
    fn cut() -> impl Iterator<Item = Self> {
        Self::all(&[8]).into_iter().filter(|p| p.to_boundary < p.len)
    }

    /// The subranges of `range` that lie in one granule each.
    fn fetches(self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let past = (at as isize - self.to_boundary as isize).rem_euclid(self.granule as isize)
                as usize;
            let end = (at + self.granule - past).min(range.end);
            parts.push(at..end);
            at = end;
        }
        parts
    }

    /// The first wrong view of any instruction of any layout, if there is one.
    fn tear(
        self,
        history: &History,
        layouts: &[Vec<Instruction>],
        order: FetchOrder,
        words: [&Image; 2],
    ) -> Option<Vec<u8>> {
        for instruction in layouts.iter().flatten() {
            let parts = self.fetches(&instruction.range);
            let right = |view: &[u8]| {
                view[0] == TRAP || words.iter().any(|w| *view == w[instruction.range.clone()])
            };
            for epoch in &history.epochs {
                if let Some(view) = wrong_view(epoch, &parts, order, 0, &mut Vec::new(), &right) {
                    return Some(view);
                }
            }
        }
        None
    }
}

/// Tries every choice of times for the remaining fetches.
fn wrong_view(
    epoch: &[Image],
    parts: &[Range<usize>],
    order: FetchOrder,
    earliest: usize,
    view: &mut Vec<u8>,
    right: &impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let Some((part, rest)) = parts.split_first() else {
        return (!right(view)).then(|| view.clone());
    };
    let first = if order == FetchOrder::Upwards { earliest } else { 0 };
    for moment in first..epoch.len() {
        let before = view.len();
        view.extend_from_slice(&epoch[moment][part.clone()]);
        let wrong = wrong_view(epoch, rest, order, moment, view, right);
        view.truncate(before);
        if wrong.is_some() {
            return wrong;
        }
    }
    None
}

/// Every way to cut `len` bytes into instructions that `layout` allows.
fn layouts(len: usize, layout: Layout) -> Vec<Vec<Instruction>> {
    let ways = if layout == Layout::One { 1 } else { 1usize << (len - 1) };
    (0..ways)
        .map(|cuts| {
            let ends = (1..=len).filter(|&at| at == len || cuts >> (at - 1) & 1 == 1);
            let mut start = 0;
            ends.map(|end| Instruction { range: std::mem::replace(&mut start, end)..end }).collect()
        })
        .collect()
}

const OLD: Image = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
const NEW: Image = [0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7];

/// Replaces old by new by old, leaving out steps that `keep` does not keep, and looks for a wrong
/// view.
fn there_and_back(
    placement: Placement,
    order: FetchOrder,
    layout: Layout,
    keep: impl Fn(usize, Step) -> bool + Copy,
) -> Option<Vec<u8>> {
    let plan = placement.plan(order, layout);
    let mut history = History::new(OLD);
    history.replace(plan, &NEW, keep);
    history.replace(plan, &OLD, keep);
    placement.tear(&history, &layouts(placement.len, layout), order, [&OLD, &NEW])
}

const CASES: [(FetchOrder, Layout); 4] = [
    (FetchOrder::Upwards, Layout::One),
    (FetchOrder::Upwards, Layout::Any),
    (FetchOrder::Any, Layout::One),
    (FetchOrder::Any, Layout::Any),
];

#[test]
fn no_reader_however_late_sees_a_mixture() {
    for (order, layout) in CASES {
        for placement in Placement::all(&[8, 16, 32, 64]) {
            let torn = there_and_back(placement, order, layout, |_, _| true);
            assert_eq!(torn, None, "{placement:?} {order:?} {layout:?}");
        }
    }
}

#[test]
fn a_single_instruction_can_be_replaced_byte_by_byte() {
    for order in [FetchOrder::Upwards, FetchOrder::Any] {
        for placement in Placement::all(&[1]) {
            assert_eq!(
                there_and_back(placement, order, Layout::One, |_, _| true),
                None,
                "{placement:?} {order:?}"
            );
        }
    }
}

#[test]
fn several_instructions_cannot_be_replaced_byte_by_byte() {
    let placement = Placement { to_boundary: 1, granule: 1, len: 5 };
    assert!(there_and_back(placement, FetchOrder::Upwards, Layout::Any, |_, _| true).is_some());
}

#[test]
fn the_back_of_several_instructions_cannot_be_stored_in_pieces() {
    let placement = Placement { to_boundary: 1, granule: 8, len: 4 };
    let pieces = placement.plan(FetchOrder::Upwards, Layout::One);
    let mut history = History::new(OLD);
    history.replace(pieces, &NEW, |_, _| true);
    let torn =
        placement.tear(&history, &layouts(4, Layout::Any), FetchOrder::Upwards, [&OLD, &NEW]);
    assert!(torn.is_some());
}

#[test]
fn a_patch_that_is_taken_back_after_its_trap_leaves_no_mixture() {
    for (order, layout) in CASES {
        for placement in Placement::cut() {
            let plan = placement.plan(order, layout);
            let mut history = History::new(OLD);
            history.replace(plan, &NEW, |_, step| step == Step::Trap);
            history.replace(plan, &OLD, |_, step| step == Step::Front);
            history.replace(plan, &NEW, |_, _| true);
            let torn =
                placement.tear(&history, &layouts(placement.len, layout), order, [&OLD, &NEW]);
            assert_eq!(torn, None, "{placement:?} {order:?} {layout:?}");
        }
    }
}

/// Whether the model detects that the step at `missing` is left out: by a mixture, or because the
/// word never becomes the new one.
fn is_missed(missing: usize, order: FetchOrder, layout: Layout) -> bool {
    Placement::cut().any(|placement| {
        let keep = |i, _| i != missing;
        let mut history = History::new(OLD);
        history.replace(placement.plan(order, layout), &NEW, keep);
        let len = placement.len;
        history.now()[..len] != NEW[..len]
            || there_and_back(placement, order, layout, keep).is_some()
    })
}

#[test]
fn every_step_is_needed() {
    for (order, layout) in CASES {
        let steps = Placement { to_boundary: 3, granule: 8, len: 5 }.plan(order, layout).steps();
        for (missing, step) in steps.iter().enumerate() {
            assert!(
                is_missed(missing, order, layout),
                "{order:?} {layout:?}: no reader misses step {missing}, {step:?}"
            );
        }
    }
}

#[test]
fn where_fetch_may_go_any_way_one_barrier_is_too_few() {
    let placement = Placement { to_boundary: 3, granule: 8, len: 5 };
    let plan = placement.plan(FetchOrder::Upwards, Layout::One);
    let mut history = History::new(OLD);
    history.replace(plan, &NEW, |_, _| true);
    assert!(
        placement.tear(&history, &layouts(5, Layout::One), FetchOrder::Any, [&OLD, &NEW]).is_some()
    );
}

#[test]
fn a_boundary_inside_a_whole_store_is_a_tear() {
    // The literature's cache line on a processor that fetches aligned quadwords.
    let believed =
        Placement { to_boundary: 8, granule: 8, len: 8 }.plan(FetchOrder::Upwards, Layout::One);
    let mut history = History::new(OLD);
    history.replace(believed, &NEW, |_, _| true);
    let real = Placement { to_boundary: 3, granule: 8, len: 8 };
    assert!(
        real.tear(&history, &layouts(8, Layout::One), FetchOrder::Upwards, [&OLD, &NEW]).is_some()
    );
}

#[test]
fn traps_must_be_written_upwards_and_removed_downwards() {
    let placement = Placement { to_boundary: 7, granule: 8, len: 8 };
    let plan = placement.plan(FetchOrder::Upwards, Layout::Any);
    for (step, word) in [(Step::Trap, OLD), (Step::Front, NEW)] {
        let trapped: Image = std::array::from_fn(|i| if i < 7 { TRAP } else { word[i] });
        let (from, to) = if step == Step::Trap { (word, trapped) } else { (trapped, word) };
        let mut history = History::new(from);
        let forwards: Vec<_> = plan.pieces(step).unwrap().collect();
        for (at, width) in forwards.into_iter().rev() {
            history.store(at..at + width.bytes(), &to[at..at + width.bytes()]);
        }
        let torn =
            placement.tear(&history, &layouts(8, Layout::Any), FetchOrder::Upwards, [&OLD, &NEW]);
        assert!(torn.is_some(), "{step:?} in the wrong direction goes unnoticed");
    }
}
