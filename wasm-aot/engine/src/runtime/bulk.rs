//! Bulk operations on bytes or elements, done in pieces with a check for interruption between them,
//! since a program may ask for gigabytes.
//!
//! # Safety
//!
//! This module exists to fill and copy bytes and elements that several instances, and threads that
//! share a memory, may write to at the same time: no slice is made of them.
#![allow(unsafe_code)]

use crate::vm::Bulk;

/// How many bytes are written between two checks: less than a millisecond's work, even if each page
/// is touched for the first time.
const PIECE: usize = 256 << 10;

/// Fills `count` items.
///
/// # Safety
/// There are `count` items at `to`.
pub(super) unsafe fn fill<T: Copy>(
    to: *mut T,
    item: T,
    count: usize,
    is_stopped: impl Fn() -> bool,
) -> Bulk {
    in_pieces::<T>(count, false, is_stopped, |at, len| {
        for i in at..at + len {
            // SAFETY: (1) the caller, see # Safety.
            unsafe { to.add(i).write(item) };
        }
    })
}

/// Copies `count` items, which may overlap.
///
/// # Safety
/// There are `count` items at both places.
pub(super) unsafe fn copy<T: Copy>(
    to: *mut T,
    from: *const T,
    count: usize,
    is_stopped: impl Fn() -> bool,
) -> Bulk {
    // Items that would be overwritten before they are copied are copied first.
    let backwards = (to as usize) > (from as usize);
    in_pieces::<T>(count, backwards, is_stopped, |at, len| {
        // SAFETY: (1) the caller, see # Safety.
        unsafe { std::ptr::copy(from.add(at), to.add(at), len) };
    })
}

/// Processes items in pieces: `piece` receives where each begins and how many items it has.
pub(super) fn in_pieces<T>(
    count: usize,
    backwards: bool,
    is_stopped: impl Fn() -> bool,
    mut piece: impl FnMut(usize, usize),
) -> Bulk {
    let most = (PIECE / size_of::<T>()).max(1);
    let mut done = 0;
    while done < count {
        let len = most.min(count - done);
        piece(if backwards { count - done - len } else { done }, len);
        done += len;
        if done < count && is_stopped() {
            return Bulk::Interrupted;
        }
    }
    // A program may call this again and again, and be here each time that it is to stop.
    if is_stopped() { Bulk::Interrupted } else { Bulk::Done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MANY: usize = 3 * PIECE + 17;

    #[test]
    fn many_pieces_give_what_one_would() {
        let numbers: Vec<u8> = (0..MANY + 1000).map(|i| ((i * i) >> 3) as u8).collect();
        for (from, to) in [(0, 1000), (1000, 0), (0, 1), (500, 500), (0, PIECE)] {
            let len = MANY + 1000 - from.max(to);
            let (mut pieces, mut whole) = (numbers.clone(), numbers.clone());
            // SAFETY: (1) both ranges are inside of the vector.
            let done = unsafe {
                copy(pieces.as_mut_ptr().add(to), pieces.as_ptr().add(from), len, || false)
            };
            whole.copy_within(from..from + len, to);
            assert!(done == Bulk::Done && pieces == whole, "{from} {to}");
        }
        let mut words = vec![1usize; PIECE];
        // SAFETY: (1) the range is inside of the vector.
        let done = unsafe { fill(words.as_mut_ptr().add(1), 7, PIECE - 2, || false) };
        assert!(
            done == Bulk::Done
                && words[0] == 1
                && words[PIECE - 1] == 1
                && words[1..PIECE - 1].iter().all(|word| *word == 7)
        );
    }

    #[test]
    fn what_is_to_stop_stops_after_a_piece() {
        let looks = Cell::new(0);
        let second = || (looks.set(looks.get() + 1), looks.get() == 2).1;
        let mut pieces = 0;
        assert_eq!(
            in_pieces::<u64>(PIECE, false, second, |_, len| pieces += len),
            Bulk::Interrupted
        );
        assert_eq!(pieces, 2 * PIECE / 8);
        assert_eq!(
            in_pieces::<u8>(0, false, || true, |_, _| unreachable!("there is nothing to do")),
            Bulk::Interrupted
        );
    }
}
