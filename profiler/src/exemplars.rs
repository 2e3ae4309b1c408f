//! Exemplars: the slowest calls of each function, and the timed calls inside of them.
//!
//! Timed calls are reported thread by thread, in the order in which they end. Each report contains
//! the total time of the calls directly inside. Those calls are the latest ones of the thread that
//! no other call has claimed, back to that sum. If no such sequence has exactly that sum, some
//! calls were not reported one by one, and the call is kept without its inner calls.

use crate::{FuncId, Ticks};
use smallvec::SmallVec;

/// The number of calls that are kept of a function.
const KEPT: usize = 3;
/// The number of functions that are listed inside of one call, the longest ones.
const INSIDE: usize = 8;
/// The number of calls of a thread that no enclosing call has claimed yet; older ones are dropped.
const UNCLAIMED: usize = 1024;
/// The most empty lists that a thread keeps for calls that end later.
const SPARE: usize = 256;

/// Calls of one function inside of another call; recursive calls count their time once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The function.
    pub function: FuncId,
    /// Their number.
    pub calls: u64,
    /// Their time.
    pub ticks: u64,
}

/// A slow call.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// Its measured duration.
    pub ticks: u64,
    /// Its thread.
    pub thread: i32,
    /// The time of its end, since the beginning of the observation.
    pub at: Ticks,
    /// The timed calls inside of it, the longest first.
    pub inside: Vec<Inner>,
}

/// The calls of one thread, as they end.
#[derive(Debug, Default)]
pub struct Nesting {
    unclaimed: Vec<Ended>,
    /// Empty lists with memory: calls end too often to allocate for each.
    spare: Vec<Vec<Inner>>,
}

#[derive(Debug)]
struct Ended {
    /// `None` for a null, which is no call.
    function: Option<FuncId>,
    /// As counted by the enclosing call.
    ticks: u64,
    inside: Vec<Inner>,
}

impl Nesting {
    /// Records the end of a call. It took `ticks`, without the time measured for an empty call, of
    /// which `children` were in timed calls directly inside. Returns the calls inside.
    pub fn end(&mut self, function: FuncId, ticks: u64, children: u64) -> &[Inner] {
        let mut inside = match children {
            0 => Vec::new(),
            _ => self.spare.pop().unwrap_or_default(),
        };
        let mut left = children;
        while left > 0
            && let Some(child) = self.unclaimed.pop_if(|child| child.ticks <= left)
        {
            left -= child.ticks;
            claim(&mut inside, &child);
            keep(&mut self.spare, child.inside);
        }
        if left > 0 {
            self.forget(self.unclaimed.len());
            inside.clear();
        }
        inside.sort_by_key(|inner: &Inner| std::cmp::Reverse(inner.ticks));
        inside.truncate(INSIDE);
        if self.unclaimed.len() >= UNCLAIMED {
            self.forget(UNCLAIMED / 2);
        }
        self.unclaimed.push(Ended { function: Some(function), ticks, inside });
        self.unclaimed.last().map_or(&[], |ended| &ended.inside)
    }

    /// Drops so many of the oldest calls.
    fn forget(&mut self, count: usize) {
        for ended in self.unclaimed.drain(..count) {
            keep(&mut self.spare, ended.inside);
        }
    }

    /// Records timed ticks that belong to no call, and are part of the enclosing call.
    pub fn pass(&mut self, ticks: u64) {
        self.unclaimed.push(Ended { function: None, ticks, inside: Vec::new() });
    }
}

/// Empties a list and keeps its memory, if it has any.
fn keep(spare: &mut Vec<Vec<Inner>>, mut list: Vec<Inner>) {
    if list.capacity() > 0 && spare.len() < SPARE {
        list.clear();
        spare.push(list);
    }
}

/// Adds a call and the calls inside of it; recursive calls add no time.
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
    /// Whether a call of this duration would be kept.
    pub(crate) fn wants(&self, ticks: u64) -> bool {
        self.0.len() < KEPT || self.0.last().is_some_and(|last| ticks > last.ticks)
    }

    /// Keeps a call if it is one of the slowest.
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
        // The calls inside are claimed once only.
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
