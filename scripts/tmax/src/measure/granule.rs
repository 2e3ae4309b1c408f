//! The fetch granule: how many aligned bytes a core fetches whole while another one stores to them.
//!
//! Eight bytes of an immediate are toggled with one unprotected store, at each of the 64 places that they can have in a line. A
//! place whose eight bytes were seen half old and half new is cut by a boundary that fetch respects. Places that only the larger
//! boundaries cut are rarer and, where the answer is in doubt, tear less often, so they are given more time.

use crate::plan::Plan;
use crate::storm::{Adversary, Budget, Placement, Shape, Storm, Tally, Target};
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::time::Duration;
use wordpatch::Granule;

/// What was seen at one offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TornAt {
    /// From the beginning of the line.
    pub offset: usize,
    /// Toggles with something torn.
    pub torn: u64,
    /// Toggles that an executer was seen beside.
    pub n: u64,
}

impl TornAt {
    /// Whether a boundary of blocks of `size` bytes cuts the eight bytes.
    fn crosses(&self, size: usize) -> bool {
        self.offset % size + 8 > size
    }

    /// The share of time that this offset gets.
    fn weight(offset: usize) -> f64 {
        let at = Self { offset, ..Self::default() };
        match () {
            () if at.crosses(64) => 0.5,
            () if at.crosses(32) => 4.0,
            () if at.crosses(16) => 2.0,
            () => 1.0,
        }
    }
}

/// All 64 offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets(pub Vec<TornAt>);

impl Offsets {
    /// The largest block within which nothing was torn; one byte if not even a quadword is fetched whole.
    pub fn granule(&self) -> Granule {
        let whole = |size: usize| self.within(size).all(|at| at.torn == 0);
        let size = [64, 32, 16, 8].into_iter().find(|&size| whole(size)).unwrap_or(1);
        // Those five sizes are granules.
        Granule::new(size).unwrap_or(Granule::BYTE)
    }

    /// How often stores within blocks of `size` bytes were tried: at the offset tried least, and at all together.
    pub fn toggles(&self, size: usize) -> (u64, u64) {
        (self.within(size).map(|at| at.n).min().unwrap_or(0), self.within(size).map(|at| at.n).sum())
    }

    fn within(&self, size: usize) -> impl Iterator<Item = &TornAt> {
        self.0.iter().filter(move |at| !at.crosses(size))
    }
}

/// How many toggles follow each other. What one wants to see here is rare, and its direction does not matter.
const BURST: u32 = 16;

/// Tries all offsets.
pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Offsets, Failure> {
    let total: f64 = (0..64).map(TornAt::weight).sum();
    let share = |offset| plan.granule.mul_f64(TornAt::weight(offset) / total);
    let turns = plan.turns((0..64).map(share).max().unwrap_or_default());
    let time = |offset| share(offset) / turns;
    let mut offsets: Vec<TornAt> = (0..64).map(|offset| TornAt { offset, ..TornAt::default() }).collect();
    let storm = Storm::new()?.burst(BURST);
    for turn in 0..turns {
        for at in &mut offsets {
            let storm = storm.clone().seed(u64::from(turn) << 8 | at.offset as u64);
            let tally = toggle(&storm, at.offset, time(at.offset))?;
            at.torn += tally.torn;
            at.n += tally.counted;
            watch.passed("fetch granule", time(at.offset))?;
        }
    }
    Ok(Offsets(offsets))
}

fn toggle(storm: &Storm, offset: usize, time: Duration) -> Result<Tally, Failure> {
    let target = Target::new(Shape::Immediate, Placement::InLine(offset))?;
    Ok(storm.clone().adversary(Adversary::None).run(&target, Budget::time(time), |to| target.store_whole(to))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torn_at(torn: impl Fn(&TornAt) -> bool) -> Offsets {
        let at = |offset| TornAt { offset, torn: 0, n: 1000 + offset as u64 };
        Offsets((0..64).map(at).map(|at| TornAt { torn: u64::from(torn(&at)), ..at }).collect())
    }

    #[test]
    fn the_granule_is_the_largest_block_in_which_nothing_was_torn() {
        for size in [8, 16, 32, 64] {
            assert_eq!(torn_at(|at| at.crosses(size)).granule().bytes(), size);
        }
        assert_eq!(torn_at(|_| false).granule().bytes(), 64);
        assert_eq!(torn_at(|at| at.offset == 27).granule().bytes(), 32);
        assert_eq!(torn_at(|at| at.offset == 13).granule().bytes(), 16);
        assert_eq!(torn_at(|at| at.offset == 34).granule().bytes(), 8);
        assert_eq!(torn_at(|at| at.offset == 8).granule(), Granule::BYTE);
    }

    #[test]
    fn an_answer_says_how_much_it_rests_on() {
        let offsets = torn_at(|_| false);
        assert_eq!(offsets.toggles(8), (1000, (0..8).map(|i| 1000 + 8 * i).sum()));
        assert_eq!(offsets.toggles(64).0, 1000);
    }
}
