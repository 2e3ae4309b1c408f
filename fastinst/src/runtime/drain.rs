//! Taking entries out of a ring: by its own thread when it is full, by the agent at any time.
//!
//! Neither waits for the other, and the thread's own drain can be interrupted by a signal's handler
//! whose calls fill the ring again and drain it themselves. So the ring has no owner. A consumer
//! copies some entries from the tail on, and then moves the tail over them by one compare-and-swap.
//! If that succeeds, the copies are the only ones. Otherwise another consumer was faster, and they
//! are discarded. The thread writes to a place only after the tail has passed it, so a copy that
//! counts was read whole.
//!
//! An entry belongs to the lap of the ring that it is marked with; so nothing has to be cleared,
//! and the agent writes to no entry.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `head` | entries that were given a place | the thread and its handlers, by one `xadd` |
//! | `Entry::ready` | function and lap, stored last | the thread; readers' acquire pairs with it |
//! | `drained.tail` | entries that were taken out | every consumer, by compare-and-swap; the thread reads it for room |

use super::layout::{Header, LAPS, OUTERMOST, RING_COUNT, RING_ROOM, lap};
use super::thread_sums;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Entries that are taken at once: they are copied to the stack, which may be a signal handler's
/// small one.
pub(crate) const BATCH: usize = 16;

/// If so many places after an entry were given away, the entry will not be filled any more.
const ABANDONED: u64 = RING_COUNT as u64 / 2;

/// How many batches a thread takes at once: what its handlers add meanwhile is left for the next
/// time.
const BATCHES: usize = 2 * RING_COUNT / BATCH;

/// The call site of a null: no code lies there.
pub(crate) const NULL_SITE: u64 = 1;

/// A timed call that is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// The offset of its function's record.
    pub(crate) record: u32,
    /// Whether no other call of the function was open around it.
    pub(crate) outermost: bool,
    pub(crate) ticks: u64,
    pub(crate) children: u64,
    pub(crate) call_site: u64,
}

impl Done {
    /// Whether nothing was called: a null was timed.
    pub(crate) fn is_null(&self) -> bool {
        self.call_site == NULL_SITE
    }
}

/// Whether the ring has a place for another entry.
pub(crate) fn has_room(block: &Header) -> bool {
    // The tail first: between the two loads a signal's handler may have added some entries, and
    // others may have been taken.
    let tail = block.drained.tail.load(Acquire);
    block.head.load(Relaxed).wrapping_sub(tail) < RING_ROOM as u64
}

/// Takes entries out of the ring, the oldest first. Returns how many: none if the ring is empty, or
/// the oldest is not filled yet.
pub(crate) fn take_entries(block: &Header, batch: &mut [Done; BATCH]) -> usize {
    take_while(block, batch, || ())
}

/// The same, with a hook for tests between the look at the entries and what follows from it: the
/// thread may be interrupted there for as long as its ring takes to fill.
pub(super) fn take_while(
    block: &Header,
    batch: &mut [Done; BATCH],
    mut meanwhile: impl FnMut(),
) -> usize {
    loop {
        let tail = block.drained.tail.load(Acquire);
        // Before the entries are read: an entry that is filled after that is not abandoned, however
        // many places have been given away when its consumer goes on.
        let given = block.head.load(Acquire).wrapping_sub(tail);
        let mut taken = 0;
        while taken < BATCH
            && let Some(done) = read(block, tail + taken as u64)
        {
            batch[taken] = done;
            taken += 1;
        }
        // An entry that was taken and never filled, by a stub that a signal's handler has left by
        // longjmp; or one that is not filled yet.
        let skips = taken == 0;
        meanwhile();
        if skips && given < ABANDONED {
            return 0;
        }
        let next = tail + (taken as u64).max(1);
        let moved = block.drained.tail.compare_exchange(tail, next, AcqRel, Relaxed).is_ok();
        if moved && skips {
            block.lost.fetch_add(1, Relaxed);
        } else if moved {
            return taken;
        }
    }
}

/// The entry of that number, if it is filled.
fn read(block: &Header, number: u64) -> Option<Done> {
    let entry = block.entry(number);
    let ready = entry.ready.load(Acquire);
    (ready & LAPS == lap(number)).then(|| Done {
        record: ready & !(LAPS | OUTERMOST),
        outermost: ready & OUTERMOST != 0,
        ticks: entry.ticks.load(Relaxed),
        children: entry.children.load(Relaxed),
        call_site: entry.call_site.load(Relaxed),
    })
}

/// Empties the calling thread's own ring into its sums. Usable in a signal handler, also in one
/// that has interrupted this.
pub(crate) fn drain_own(block: &Header) {
    thread_sums::folding(block, || {
        let mut batch = [Done::default(); BATCH];
        for _ in 0..BATCHES {
            match take_entries(block, &mut batch) {
                0 => break,
                taken => batch[..taken].iter().for_each(|done| thread_sums::fold(block, done)),
            }
        }
    });
}
