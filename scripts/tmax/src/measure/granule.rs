//! The fetch granule: how many aligned bytes a core fetches atomically while another core stores to
//! them.
//!
//! One unprotected store toggles eight bytes of an immediate, at each of the 64 offsets in a line.
//! If the eight bytes at an offset were observed half old and half new, a fetch boundary cuts them.
//! Offsets that only the larger boundaries cut are rarer and tear less often, so they get more
//! time.
//!
//! An offset with too few toggles is no evidence: it counts as torn for every block whose boundary
//! it does not cross. And if nothing at all was torn, not even across a line, it is unknown whether
//! the measurement detects tears.

use crate::plan::Plan;
use crate::storm::{Adversary, Budget, Counts, Placement, Shape, Storm, Target};
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::time::Duration;
use wordpatch::{Calibration, Granule};

/// The observations at one offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TornAt {
    /// The offset from the beginning of the line.
    pub offset: usize,
    /// Toggles with torn bytes.
    pub torn: u64,
    /// Toggles during which a thread was observed to execute.
    pub n: u64,
}

impl TornAt {
    /// Whether a boundary of blocks of `size` bytes cuts the eight bytes.
    fn crosses(&self, size: usize) -> bool {
        self.offset % size + 8 > size
    }

    /// Whether it had enough toggles and was never torn.
    fn is_whole(&self) -> bool {
        self.torn == 0 && self.n >= Calibration::ENOUGH_TOGGLES
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

/// The sizes of blocks that the measurement distinguishes, the largest first.
const SIZES: [usize; 4] = [64, 32, 16, 8];

/// All 64 offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets(pub Vec<TornAt>);

impl Offsets {
    /// The largest block within which every offset had enough toggles and no tears; one byte if not
    /// even a quadword is fetched atomically; `None` if that is unknown.
    pub fn granule(&self) -> Option<Granule> {
        let whole = |size: &usize| self.within(*size).all(TornAt::is_whole);
        let size = match SIZES.into_iter().find(whole) {
            // Tears must have been observed at some offset; otherwise the measurement may not
            // detect them.
            Some(size) if self.anything_torn() => size,
            _ if self.is_torn(8) => 1,
            _ => return None,
        };
        // These five sizes are valid granules.
        Granule::new(size)
    }

    /// Whether there was a tear within blocks of `size` bytes.
    pub fn is_torn(&self, size: usize) -> bool {
        self.torn(size) > 0
    }

    /// How many toggles within blocks of `size` bytes were torn.
    pub fn torn(&self, size: usize) -> u64 {
        self.within(size).map(|at| at.torn).sum()
    }

    /// Whether there was any tear.
    pub fn anything_torn(&self) -> bool {
        self.0.iter().any(|at| at.torn > 0)
    }

    /// The number of toggles within blocks of `size` bytes: at the offset with the fewest, and at
    /// all together.
    pub fn toggles(&self, size: usize) -> (u64, u64) {
        (
            self.within(size).map(|at| at.n).min().unwrap_or(0),
            self.within(size).map(|at| at.n).sum(),
        )
    }

    fn within(&self, size: usize) -> impl Iterator<Item = &TornAt> {
        self.0.iter().filter(move |at| !at.crosses(size))
    }
}

/// The number of toggles in a burst. Tears are rare here, and their direction does not matter.
const BURST: u32 = 16;

/// Measures all offsets.
pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Offsets, Failure> {
    let total: f64 = (0..64).map(TornAt::weight).sum();
    let share = |offset| plan.granule.mul_f64(TornAt::weight(offset) / total);
    let turns = plan.turns((0..64).map(share).max().unwrap_or_default());
    let time = |offset| share(offset) / turns;
    let mut offsets: Vec<TornAt> =
        (0..64).map(|offset| TornAt { offset, ..TornAt::default() }).collect();
    let storm = Storm::new()?.burst(BURST);
    watch.begin(plan.granule);
    for turn in 0..turns {
        for at in &mut offsets {
            let share = watch.share(time(at.offset));
            if !share.is_zero() {
                let storm = storm.clone().seed(u64::from(turn) << 8 | at.offset as u64);
                let counts = toggle(&storm, at.offset, share)?;
                at.torn += counts.torn;
                at.n += counts.counted;
            }
            watch.passed("fetch granule", time(at.offset))?;
        }
    }
    Ok(Offsets(offsets))
}

fn toggle(storm: &Storm, offset: usize, time: Duration) -> Result<Counts, Failure> {
    let target = Target::new(Shape::Immediate, Placement::InLine(offset))?;
    Ok(storm
        .clone()
        .adversary(Adversary::None)
        .run(&target, Budget::time(time), |to| target.store_whole(to))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torn_at(torn: impl Fn(&TornAt) -> bool) -> Offsets {
        let at =
            |offset| TornAt { offset, torn: 0, n: Calibration::ENOUGH_TOGGLES + offset as u64 };
        Offsets((0..64).map(at).map(|at| TornAt { torn: u64::from(torn(&at)), ..at }).collect())
    }

    fn bytes(offsets: &Offsets) -> Option<usize> {
        offsets.granule().map(Granule::bytes)
    }

    #[test]
    fn the_granule_is_the_largest_block_in_which_nothing_was_torn() {
        for size in SIZES {
            assert_eq!(bytes(&torn_at(|at| at.crosses(size))), Some(size));
        }
        for (torn, granule) in [(60, 64), (27, 32), (13, 16), (34, 8), (8, 1)] {
            assert_eq!(bytes(&torn_at(|at| at.offset == torn)), Some(granule), "{torn}");
        }
    }

    #[test]
    fn an_offset_that_was_tried_too_seldom_counts_as_torn() {
        for (unseen, granule) in
            [(60, Some(64)), (27, Some(32)), (13, Some(16)), (34, Some(8)), (8, None)]
        {
            let mut offsets = torn_at(|at| at.offset == 61);
            offsets.0[unseen].n = Calibration::ENOUGH_TOGGLES - 1;
            assert_eq!(bytes(&offsets), granule, "{unseen}");
        }
        let mut offsets = torn_at(|_| false);
        offsets.0.iter_mut().for_each(|at| at.n = 0);
        assert_eq!(bytes(&offsets), None);
        offsets.0[16].torn = 1;
        assert_eq!(bytes(&offsets), Some(1), "a tear is evidence in itself");
    }

    #[test]
    fn where_nothing_was_torn_the_granule_is_not_known() {
        assert_eq!(bytes(&torn_at(|_| false)), None);
    }

    #[test]
    fn an_answer_says_how_much_it_rests_on() {
        let (offsets, n) = (torn_at(|_| false), Calibration::ENOUGH_TOGGLES);
        assert_eq!(offsets.toggles(8), (n, (0..8).map(|i| n + 8 * i).sum()));
        assert_eq!(offsets.toggles(64).0, n);
    }
}
