//! Exemplars: the slowest calls of each function, and what was timed inside of them.
//!
//! Timed calls are reported thread by thread, in the order in which they end. Each says how long
//! those directly inside of it took together: they are the latest of its thread that no other call
//! has claimed, back to that sum. Where the sum does not come out, some were not reported one by
//! one, and the call is kept without its inside.

use crate::{FuncId, Ticks};
use smallvec::SmallVec;

/// Calls that are kept of a function.
const KEPT: usize = 3;
/// Functions that are listed inside of one, the longest.
const INSIDE: usize = 8;
/// Calls of a thread that no call around them has claimed yet: the oldest are forgotten.
const UNCLAIMED: usize = 1024;

/// Calls of one function inside of another call; those inside of each other count their time once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Which function.
    pub function: FuncId,
    /// How many calls.
    pub calls: u64,
    /// Their time.
    pub ticks: u64,
}

/// A call that took long.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// How long it took, as measured.
    pub ticks: u64,
    /// Its thread.
    pub thread: i32,
    /// When it ended, from the instant at which the program was first watched.
    pub at: Ticks,
    /// What was timed inside of it, the longest first.
    pub inside: Vec<Inner>,
}

/// The calls of one thread, as they end.
#[derive(Debug, Default)]
pub struct Nesting {
    unclaimed: Vec<Ended>,
}

#[derive(Debug)]
struct Ended {
    /// `None` if nothing was called: a null was timed.
    function: Option<FuncId>,
    /// As the call around it counts them.
    ticks: u64,
    inside: Vec<Inner>,
}

impl Nesting {
    /// A call has ended. It took `ticks`, without the time measured for an empty call, and
    /// `children` of them in timed calls directly inside. Returns the calls inside.
    pub fn end(&mut self, function: FuncId, ticks: u64, children: u64) -> &[Inner] {
        let mut inside = Vec::new();
        let mut left = children;
        while left > 0
            && let Some(child) = self.unclaimed.pop_if(|child| child.ticks <= left)
        {
            left -= child.ticks;
            claim(&mut inside, &child);
        }
        if left > 0 {
            self.unclaimed.clear();
            inside.clear();
        }
        inside.sort_by_key(|inner: &Inner| std::cmp::Reverse(inner.ticks));
        inside.truncate(INSIDE);
        if self.unclaimed.len() >= UNCLAIMED {
            self.unclaimed.drain(..UNCLAIMED / 2);
        }
        self.unclaimed.push(Ended { function: Some(function), ticks, inside });
        self.unclaimed.last().map_or(&[], |ended| &ended.inside)
    }

    /// So many ticks were timed that belong to no call, and are part of the call around them.
    pub fn pass(&mut self, ticks: u64) {
        self.unclaimed.push(Ended { function: None, ticks, inside: Vec::new() });
    }
}

/// A call is inside, and so is all that is inside of it: calls of its own function add no time.
fn claim(inside: &mut Vec<Inner>, child: &Ended) {
    let Some(function) = child.function else { return };
    let own = Inner { function, calls: 1, ticks: child.ticks };
    let covered = |inner: Inner| Inner {
        ticks: if inner.function == function { 0 } else { inner.ticks },
        ..inner
    };
    for inner in child.inside.iter().copied().map(covered).chain([own]) {
        match inside.iter_mut().find(|known| known.function == inner.function) {
            Some(known) => {
                known.calls += inner.calls;
                known.ticks += inner.ticks;
            }
            None => inside.push(inner),
        }
    }
}

/// The slowest calls of a function, the slowest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slowest(SmallVec<[Slow; 1]>);

impl Slowest {
    /// Whether a call would be kept that took so long.
    pub(crate) fn wants(&self, ticks: u64) -> bool {
        self.0.len() < KEPT || self.0.last().is_some_and(|last| ticks > last.ticks)
    }

    /// Keeps a call, if it is one of the slowest.
    pub(crate) fn keep(&mut self, slow: Slow) {
        if self.wants(slow.ticks) {
            let at = self.0.partition_point(|kept| kept.ticks >= slow.ticks);
            self.0.insert(at, slow);
            self.0.truncate(KEPT);
        }
    }

    pub(crate) fn calls(&self) -> &[Slow] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: FuncId = FuncId(1);
    const LOOKUP: FuncId = FuncId(2);
    const EVICT: FuncId = FuncId(3);

    fn inner(function: FuncId, calls: u64, ticks: u64) -> Inner {
        Inner { function, calls, ticks }
    }

    #[test]
    fn what_is_inside_of_what_is_inside_is_told_too() {
        let mut nesting = Nesting::default();
        assert_eq!(nesting.end(LOOKUP, 10, 0), []);
        assert_eq!(nesting.end(EVICT, 700, 0), []);
        assert_eq!(nesting.end(LOOKUP, 800, 700), [inner(EVICT, 1, 700)]);
        assert_eq!(nesting.end(HANDLE, 900, 810), [inner(LOOKUP, 2, 810), inner(EVICT, 1, 700)]);
        // The next is not the same again.
        assert_eq!(nesting.end(HANDLE, 5, 0), []);
    }

    #[test]
    fn recursion_counts_its_time_once() {
        let mut nesting = Nesting::default();
        nesting.end(LOOKUP, 10, 0);
        nesting.end(LOOKUP, 30, 10);
        nesting.end(LOOKUP, 60, 30);
        assert_eq!(nesting.end(HANDLE, 100, 60), [inner(LOOKUP, 3, 60)]);
    }

    #[test]
    fn a_sum_that_does_not_come_out_tells_nothing() {
        let mut nesting = Nesting::default();
        nesting.end(LOOKUP, 10, 0);
        assert_eq!(nesting.end(HANDLE, 100, 25), []);
        nesting.end(LOOKUP, 40, 0);
        assert_eq!(nesting.end(HANDLE, 100, 25), []);
    }

    #[test]
    fn what_no_call_has_taken_is_no_part_of_what_is_inside() {
        let mut nesting = Nesting::default();
        nesting.end(LOOKUP, 10, 0);
        nesting.pass(3);
        assert_eq!(nesting.end(HANDLE, 100, 13), [inner(LOOKUP, 1, 10)]);
    }

    #[test]
    fn calls_that_no_other_claims_are_forgotten() {
        let mut nesting = Nesting::default();
        for ticks in 1..100_000 {
            nesting.end(LOOKUP, ticks, 0);
        }
        assert!(nesting.unclaimed.len() <= UNCLAIMED + 1);
        assert_eq!(nesting.end(HANDLE, 100_000, 99_999), [inner(LOOKUP, 1, 99_999)]);
    }

    #[test]
    fn the_slowest_are_kept_in_their_order() {
        let mut slowest = Slowest::default();
        for ticks in [5, 9, 1, 7, 9, 3] {
            slowest.keep(Slow { ticks, thread: 1, at: Ticks(0), inside: Vec::new() });
        }
        assert_eq!(slowest.calls().iter().map(|slow| slow.ticks).collect::<Vec<_>>(), [9, 9, 7]);
        assert!(!slowest.wants(7) && slowest.wants(8));
    }
}
