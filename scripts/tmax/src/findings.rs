//! The findings: the observations under each condition, and the conclusions from them.
//!
//! A verdict states an observation. With too few toggles, the absence of tears is no evidence; a
//! tear is evidence by itself, however few toggles there were.

use crate::measure::granule::Offsets;
use crate::measure::tears::{self, ENOUGH_TOGGLES, Point, Verdict};
use crate::report::{NOT_SEEN, curves};
use crate::statistics::rate_below;
use crate::table::{Table, count};
use serde::Serialize;
use std::fmt;
use wordpatch::Granule;

/// The observation under one condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of store, and its position.
    pub condition: String,
    /// Counted toggles.
    pub toggles: u64,
    /// Toggles with torn bytes.
    pub torn: u64,
    /// The conclusion.
    pub verdict: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, toggles, torn, verdict } = self;
        write!(f, "{condition}: {verdict} ({} torn of {} toggles)", count(*torn), count(*toggles))
    }
}

/// The findings as a table.
pub(crate) fn table(findings: &[Finding]) -> Table {
    let mut table =
        Table::new("Findings", &["condition", "toggles", "torn", "verdict"]).words_last();
    for Finding { condition, toggles, torn, verdict } in findings {
        table.line([condition.clone(), count(*toggles), count(*torn), verdict.clone()]);
    }
    table
}

/// The conclusions of the measurements: the granule, every curve, the barrier.
pub(crate) fn findings(offsets: &Offsets, points: &[Point]) -> Vec<Finding> {
    let waits = curves().map(|(case, fenced)| {
        let verdict = Verdict::of(case, fenced, points);
        let sum = |count: fn(&tears::Seen) -> u64| verdict.by_wait.iter().map(count).sum();
        Finding {
            condition: format!("wait, {}", tears::circumstances(case, fenced)),
            toggles: sum(|seen| seen.toggles),
            torn: sum(|seen| seen.torn),
            verdict: of_waits(&verdict),
        }
    });
    [granule(offsets)].into_iter().chain(waits).chain([barrier(points)]).collect()
}

fn granule(offsets: &Offsets) -> Finding {
    let size = offsets.granule().map(Granule::bytes);
    let (least, all) = offsets.toggles(size.unwrap_or(8));
    let condition = |what: String| format!("one store {what}");
    let verdict = match size {
        Some(1) => "TORN: this contradicts AMD's manual; nothing but one-byte stores is safe here".to_owned(),
        Some(size) => {
            let rate = rate_below(0, least);
            let whole = format!("the granule is {size} bytes (a rate below {rate:.0e} at each offset is not excluded)");
            // If the next larger block was not torn either, it had too few toggles.
            match size < 64 && !offsets.is_torn(2 * size) {
                true => format!("{whole}; of {} bytes: {NOT_SEEN}", 2 * size),
                false => whole,
            }
        }
        None if least >= ENOUGH_TOGGLES => {
            "not seen: nothing was torn across a line either, so that this run cannot show that a store is whole".to_owned()
        }
        None => NOT_SEEN.to_owned(),
    };
    let (condition, torn) = match size {
        Some(1) => (condition("within 8 aligned bytes".to_owned()), offsets.torn(8)),
        size => (condition(format!("within {} aligned bytes", size.unwrap_or(8))), 0),
    };
    Finding { condition, toggles: all, torn, verdict }
}

fn of_waits(verdict: &Verdict) -> String {
    let Verdict { longest_failing, clean_from, longest_tried, .. } = verdict;
    let range = |from: &u64| {
        if from == longest_tried {
            format!("at {from} ticks")
        } else {
            format!("from {from} to {longest_tried} ticks")
        }
    };
    let clean = |from: &u64| {
        format!(
            "{} none in {} toggles each, which is no proof",
            range(from),
            count(verdict.clean_toggles)
        )
    };
    match (longest_failing, clean_from) {
        _ if verdict.by_wait.is_empty() => {
            "not measured: this processor has no CLFLUSHOPT".to_owned()
        }
        _ if verdict.is_unseen() && clean_from.is_none() => match longest_failing {
            Some(failing) => format!("torn at waits up to {failing} ticks; longer ones {NOT_SEEN}"),
            None => NOT_SEEN.to_owned(),
        },
        (None, _) => "nothing torn, even without a wait: T_max cannot be determined".to_owned(),
        (Some(failing), None) => {
            format!("no safe wait: torn at up to {failing} ticks, the longest tried")
        }
        (Some(0), Some(from)) => format!("torn without a wait; {}", clean(from)),
        (Some(failing), Some(from)) => {
            format!("torn at waits up to {failing} ticks; {}", clean(from))
        }
    }
}

fn barrier(points: &[Point]) -> Finding {
    let with_barrier: Vec<&Point> = points.iter().filter(|point| point.wait.is_none()).collect();
    let (torn, toggles) =
        with_barrier.iter().fold((0, 0), |(torn, n), point| (torn + point.torn, n + point.toggles));
    let verdict = match (torn, toggles) {
        _ if with_barrier.is_empty() => {
            "not available here: wordpatch falls back to the signal barrier".to_owned()
        }
        (0, toggles) if toggles < ENOUGH_TOGGLES => NOT_SEEN.to_owned(),
        (0, toggles) => format!(
            "whole (a rate below {:.0e} is not excluded); what wordpatch uses",
            rate_below(0, toggles)
        ),
        (..) => "TORN: this contradicts membarrier(2); please report it".to_owned(),
    };
    Finding { condition: "membarrier instead of a wait".to_owned(), toggles, torn, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::granule::TornAt;
    use crate::measure::tears::Case;

    fn offsets(n: u64, torn: impl Fn(usize) -> bool) -> Offsets {
        Offsets((0..64).map(|offset| TornAt { offset, torn: u64::from(torn(offset)), n }).collect())
    }

    /// Curves with this many toggles at each of two waits, and tears at the first.
    fn points(toggles: u64) -> Vec<Point> {
        let cells =
            curves().flat_map(|(case, fenced)| [0, 400].map(|wait| (case, Some(wait), fenced)));
        let barriers = Case::ALL.map(|case| (case, None, false));
        let point = |(case, wait, fenced): (Case, Option<u64>, bool)| Point {
            toggles,
            torn: u64::from(wait == Some(0) && toggles > 0),
            ..Point::new(case, 1, 1, wait, fenced)
        };
        cells.chain(barriers).map(point).collect()
    }

    #[test]
    fn a_run_beside_which_nobody_executed_finds_nothing() {
        for finding in findings(&offsets(0, |_| false), &points(0)) {
            assert_eq!(
                (finding.verdict.as_str(), finding.toggles),
                (NOT_SEEN, 0),
                "{}",
                finding.condition
            );
        }
    }

    #[test]
    fn a_run_that_saw_enough_says_what_it_saw() {
        let findings =
            findings(&offsets(ENOUGH_TOGGLES, |offset| offset > 56), &points(ENOUGH_TOGGLES));
        assert!(
            findings.iter().all(|finding| !finding.verdict.contains("not seen")),
            "{findings:?}"
        );
        assert!(findings[0].verdict.contains("the granule is 64 bytes"), "{}", findings[0]);
        assert!(
            findings[1].verdict.contains("torn without a wait; at 400 ticks none in"),
            "{}",
            findings[1]
        );
    }

    #[test]
    fn what_was_seen_of_smaller_blocks_is_told_where_larger_ones_were_not_seen() {
        let mut seen = offsets(ENOUGH_TOGGLES, |offset| offset > 56);
        seen.0[27].n = 0;
        let verdict = granule(&seen).verdict;
        assert!(
            verdict.contains("the granule is 32 bytes")
                && verdict.contains("of 64 bytes: not seen"),
            "{verdict}"
        );
        let blind = granule(&offsets(ENOUGH_TOGGLES, |_| false)).verdict;
        assert!(blind.contains("not seen") && blind.contains("across a line"), "{blind}");
    }
}
