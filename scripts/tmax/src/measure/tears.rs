//! Tear rates: how often the literature's protocol tears, by the length of its wait.
//!
//! `INT3, wait, back, wait, front` on five bytes astride a line: hot, with a cold back line, and
//! astride a page. A plain store may not be visible yet when the wait begins. So each wait is also
//! measured with a fence before it, which separates late stores of the patching thread from stale
//! fetches of the executing one. For comparison, the product's policy is measured, with a barrier
//! instead of the first wait, or of both: it must not tear at all.

use crate::plan::Plan;
use crate::storm::{Adversary, Budget, Counts, Placement, Protocol, Shape, Storm, Target};
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::time::Duration;
use wordpatch::os::pages::PAGE;
use wordpatch::{Barrier, Calibration, FetchOrder, Ticks};

/// The position of the target, and the state of its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// Across a line boundary; both lines stay in the caches.
    Hot,
    /// Across a line boundary; the back line is flushed shortly before each toggle.
    Cold,
    /// Across a page boundary, with a cold back line.
    Page,
}

impl Case {
    /// All cases.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Cold, Self::Page];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
            Self::Page => "page",
        }
    }

    /// A description in words.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Hot => "hot lines",
            Self::Cold => "cold back line",
            Self::Page => "page crossing, cold back line",
        }
    }

    fn placement(self, before: usize) -> Placement {
        let boundary = if self == Self::Page { PAGE } else { 64 };
        Placement::Astride { boundary, before }
    }

    fn adversary(self) -> Adversary {
        if self == Self::Hot { Adversary::None } else { Adversary::FlushBack }
    }
}

/// The observations of one way to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The circumstances.
    pub case: Case,
    /// The number of executing threads.
    pub executers: usize,
    /// The number of the five bytes before the boundary.
    pub position: usize,
    /// The steps, in order.
    pub method: &'static str,
    /// The length of each wait in ticks; `None` for a barrier.
    pub wait: Option<u64>,
    /// Whether there was a fence before each wait.
    pub fenced: bool,
    /// Toggles during which a thread was observed to execute.
    pub toggles: u64,
    /// Toggles during which no thread was observed to execute.
    pub uncounted: u64,
    /// Toggles with torn bytes.
    pub torn: u64,
    /// The most frequent direction of tears.
    pub direction: Option<&'static str>,
    /// Torn executions with an old front and a new back.
    pub stale_front: u64,
    /// Torn executions with a new front and an old back.
    pub stale_back: u64,
    /// Other torn executions, faults included.
    pub scattered: u64,
}

/// Whether there is a fence before each wait, without one first.
pub const FENCED: [bool; 2] = [false, true];

/// The circumstances of a curve, in words.
pub fn circumstances(case: Case, fenced: bool) -> String {
    let fence = if fenced { ", mfence before each wait" } else { "" };
    format!("{}{fence}", case.description())
}

impl Point {
    pub(crate) fn new(
        case: Case,
        executers: usize,
        position: usize,
        wait: Option<u64>,
        fenced: bool,
    ) -> Self {
        let method = match (wait, fenced) {
            (Some(_), false) => "int3, wait, back, wait, front",
            (Some(_), true) => "int3, mfence, wait, back, mfence, wait, front",
            (None, _) => match FetchOrder::of_this_processor() {
                FetchOrder::Upwards => "int3, membarrier, back, front",
                FetchOrder::Any => "int3, membarrier, back, membarrier, front",
            },
        };
        Self {
            case,
            executers,
            position,
            method,
            wait,
            fenced,
            toggles: 0,
            uncounted: 0,
            torn: 0,
            direction: None,
            stale_front: 0,
            stale_back: 0,
            scattered: 0,
        }
    }

    fn protocol(&self) -> Protocol {
        match self.wait.map(|ticks| Barrier::Wait(Ticks(ticks))) {
            Some(wait) if self.fenced => Protocol::two_fenced_waits(wait),
            Some(wait) => Protocol::two_waits(wait),
            // The method of the product's policy on this processor.
            None => match FetchOrder::of_this_processor() {
                FetchOrder::Upwards => Protocol::one_wait(Barrier::Membarrier),
                FetchOrder::Any => Protocol::two_waits(Barrier::Membarrier),
            },
        }
    }

    fn add(&mut self, counts: &Counts) {
        self.toggles += counts.counted;
        self.uncounted += counts.uncounted;
        self.torn += counts.torn;
        self.stale_front += counts.log.directions.stale_front;
        self.stale_back += counts.log.directions.stale_back;
        self.scattered += counts.log.directions.scattered + counts.stray();
        let directions = [
            (self.stale_front, "stale front, new back"),
            (self.stale_back, "new front, stale back"),
            (self.scattered, "scattered"),
        ];
        let most = directions.into_iter().max_by_key(|&(n, _)| n);
        self.direction = most.filter(|&(n, _)| n > 0).map(|(_, name)| name);
    }
}

/// All cells of the plan; those with a barrier come last.
fn cells(plan: &Plan) -> Vec<Point> {
    let waits = plan.waits_tried.iter().flat_map(|&wait| FENCED.map(|fenced| (Some(wait), fenced)));
    let mut cells = Vec::new();
    for (wait, fenced) in waits.chain([(None, false)]) {
        for case in Case::ALL.into_iter().filter(|case| case.adversary().is_possible()) {
            for &executers in &plan.executers {
                cells.extend(
                    plan.positions
                        .iter()
                        .map(|&position| Point::new(case, executers, position, wait, fenced)),
                );
            }
        }
    }
    cells
}

/// Measures all cells; without membarrier, only those without a barrier.
pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Vec<Point>, Failure> {
    let storm = Storm::new()?;
    let membarrier = Barrier::Membarrier.prepare().is_ok();
    let mut points: Vec<Point> =
        cells(plan).into_iter().filter(|point| point.wait.is_some() || membarrier).collect();
    let (waits, barriers) = points
        .iter()
        .fold((0, 0), |(w, b), p| if p.wait.is_some() { (w + 1, b) } else { (w, b + 1) });
    let (waits, barriers) = (plan.waits / waits.max(1), plan.barrier / barriers.max(1));
    let turns = plan.turns(waits.max(barriers));
    let time = |point: &Point| if point.wait.is_some() { waits / turns } else { barriers / turns };
    watch.begin(plan.waits + plan.barrier);
    for turn in 0..turns {
        for point in &mut points {
            let time = time(point);
            let share = watch.share(time);
            if !share.is_zero() {
                let storm = storm.clone().seed(u64::from(turn) + 1).executers(point.executers);
                point.add(&toggle(&storm.adversary(point.case.adversary()), point, share)?);
            }
            watch.passed("tear rates", time)?;
        }
    }
    Ok(points)
}

fn toggle(storm: &Storm, point: &Point, time: Duration) -> Result<Counts, Failure> {
    let target = Target::new(Shape::Move, point.case.placement(point.position))?;
    let prepared = point.protocol().ready(&target)?;
    let mut failed = None;
    let counts = storm.run(&target, Budget::time(time), |to| {
        failed = failed.take().or(prepared.toggle(to).err());
    })?;
    failed.map_or(Ok(counts), |error| Err(error.into()))
}

/// The number of toggles, during which a thread executes, that a wait or a barrier needs to count
/// as clean.
pub const ENOUGH_TOGGLES: u64 = Calibration::ENOUGH_TOGGLES;

/// The observations at one wait, of all positions and numbers of executing threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The length of the wait in ticks.
    pub wait: u64,
    /// Toggles with torn bytes.
    pub torn: u64,
    /// Counted toggles.
    pub toggles: u64,
}

impl Seen {
    /// Whether it had enough toggles and was never torn.
    fn is_clean(&self) -> bool {
        self.torn == 0 && self.toggles >= ENOUGH_TOGGLES
    }
}

/// The result of the waits of one case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The longest wait that failed.
    pub longest_failing: Option<u64>,
    /// The shortest wait such that it and every longer one had enough toggles and none failed.
    pub clean_from: Option<u64>,
    /// The number of toggles behind that result, at the wait with the fewest.
    pub clean_toggles: u64,
    /// The longest wait that was tried.
    pub longest_tried: u64,
    /// The waits in ascending order.
    pub by_wait: Vec<Seen>,
}

impl Verdict {
    /// The literature's T_max: the shortest wait such that neither it nor a longer one failed, if a
    /// shorter one did. If no wait fails at all, the measurement cannot determine it.
    pub fn tmax(&self) -> Option<u64> {
        self.longest_failing.and(self.clean_from)
    }

    /// Whether a wait longer than all that failed had too few toggles for a conclusion.
    pub fn is_unseen(&self) -> bool {
        self.by_wait.iter().rev().take_while(|seen| seen.torn == 0).any(|seen| !seen.is_clean())
    }

    /// The verdict on `case` from `points`.
    pub fn of(case: Case, fenced: bool, points: &[Point]) -> Self {
        let mut by_wait = std::collections::BTreeMap::<u64, Seen>::new();
        for point in points.iter().filter(|point| point.case == case && point.fenced == fenced) {
            if let Some(wait) = point.wait {
                let seen = by_wait.entry(wait).or_insert(Seen { wait, ..Seen::default() });
                seen.torn += point.torn;
                seen.toggles += point.toggles;
            }
        }
        let by_wait: Vec<Seen> = by_wait.into_values().collect();
        let clean: Vec<&Seen> = by_wait.iter().rev().take_while(|seen| seen.is_clean()).collect();
        Self {
            longest_failing: by_wait.iter().rev().find(|seen| seen.torn > 0).map(|seen| seen.wait),
            clean_from: clean.last().map(|seen| seen.wait),
            clean_toggles: clean.iter().map(|seen| seen.toggles).min().unwrap_or(0),
            longest_tried: by_wait.last().map_or(0, |seen| seen.wait),
            by_wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits, each with its number of toggles and tears, between cells of other cases.
    fn points(waits: &[(u64, u64, u64)]) -> Vec<Point> {
        let point = |&(wait, torn, toggles): &(u64, u64, u64)| Point {
            torn,
            toggles,
            ..Point::new(Case::Hot, 1, 1, Some(wait), false)
        };
        let others =
            [(Case::Cold, Some(9), false), (Case::Hot, None, false), (Case::Hot, Some(900), true)];
        let others = others
            .map(|(case, wait, fenced)| Point { torn: 1, ..Point::new(case, 1, 1, wait, fenced) });
        waits.iter().map(point).chain(others).collect()
    }

    fn verdict(waits: &[(u64, u64, u64)]) -> Verdict {
        Verdict::of(Case::Hot, false, &points(waits))
    }

    const N: u64 = ENOUGH_TOGGLES;

    #[test]
    fn a_wait_is_clean_only_if_no_longer_one_failed() {
        let verdict = verdict(&[
            (0, 5, N),
            (100, 0, N),
            (200, 1, N),
            (300, 0, N - 1),
            (300, 0, 1),
            (400, 0, N + 1),
        ]);
        assert_eq!(
            (verdict.longest_failing, verdict.clean_from, verdict.clean_toggles),
            (Some(200), Some(300), N)
        );
        assert_eq!(verdict.by_wait[3], Seen { wait: 300, torn: 0, toggles: N });
        assert!(!verdict.is_unseen());
    }

    #[test]
    fn a_wait_that_was_tried_too_seldom_is_not_clean() {
        let longest = verdict(&[(0, 5, N), (100, 0, N), (200, 0, N - 1)]);
        assert_eq!(
            (longest.longest_failing, longest.clean_from, longest.tmax()),
            (Some(0), None, None)
        );
        assert!(longest.is_unseen());
        let shorter = verdict(&[(0, 5, N), (100, 0, 0), (200, 0, N)]);
        assert_eq!((shorter.tmax(), shorter.is_unseen()), (Some(200), true));
        let failed = verdict(&[(0, 1, 2), (100, 0, N)]);
        assert_eq!(
            (failed.tmax(), failed.is_unseen()),
            (Some(100), false),
            "a tear is evidence in itself"
        );
        assert_eq!(verdict(&[(0, 0, 0), (100, 0, 0)]).clean_from, None);
    }

    #[test]
    fn there_is_no_tmax_if_the_longest_wait_failed() {
        let verdict = verdict(&[(0, 5, N), (100, 0, N), (200, 1, N)]);
        assert_eq!(
            (verdict.longest_failing, verdict.clean_from, verdict.longest_tried),
            (Some(200), None, 200)
        );
        assert_eq!(Verdict::of(Case::Page, false, &points(&[])), Verdict::default());
    }
}
