//! The gate: a thread stores for a patch only while no thread forks.
//!
//! A forked child gets a copy of the ledger as of one point in time, and must get the code as of
//! the same point: a trap that the parent plants later, without an entry in the child's ledger,
//! would kill the child. So a thread that stores for a patch in progress is inside the
//! gate meanwhile, and a fork closes the gate until parent and child are separate. Words that one
//! store replaces need no gate: each quadword is copied whole.
//!
//! | `CLOSED_BY` | meaning | changed by |
//! |---|---|---|
//! | 0 | open | the thread that forks: to its id |
//! | a thread's id | that thread forks; no other thread enters | that thread: to 0, in the parent and in the child |
//!
//! `INSIDE` counts threads that are inside. A thread that forks waits for them, up to a time limit:
//! one of them may be the forking thread itself, in a signal handler that interrupted a step. Such
//! a step does not advance meanwhile, and its stores so far are complete.

use crate::os::threads;
use crate::sync::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static CLOSED_BY: AtomicU32 = AtomicU32::new(0);
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// How long a fork waits for those inside: for the time of some stores, and at worst a few time
/// slices.
const PATIENCE: Duration = Duration::from_millis(500);

/// The right to store for a patch in progress: its thread is inside the gate.
#[must_use = "a fork may come between once this is dropped"]
#[derive(Debug)]
pub(crate) struct Inside {
    counted: bool,
}

/// Enters the gate, when no thread forks. Usable in a signal handler, also on a thread that is
/// forking.
pub(crate) fn enter() -> Inside {
    loop {
        // Sequentially consistent on both sides: either this thread sees the gate closed, or the
        // thread that closes it sees this thread inside.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        match CLOSED_BY.load(Ordering::SeqCst) {
            0 => return Inside { counted: true },
            thread => {
                INSIDE.fetch_sub(1, Ordering::SeqCst);
                if thread == threads::current().0 as u32 {
                    return Inside { counted: false };
                }
                threads::give_way();
            }
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.counted {
            INSIDE.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Closes the gate and waits until no thread is inside. One thread at a time.
pub(crate) fn close() {
    CLOSED_BY.store(threads::current().0 as u32, Ordering::SeqCst);
    let deadline = Instant::now() + PATIENCE;
    while INSIDE.load(Ordering::SeqCst) != 0 && Instant::now() < deadline {
        threads::give_way();
    }
}

/// Whether the calling thread has closed it.
pub(crate) fn is_closed_here() -> bool {
    CLOSED_BY.load(Ordering::Relaxed) == threads::current().0 as u32
}

/// Opens it again.
pub(crate) fn open() {
    CLOSED_BY.store(0, Ordering::SeqCst);
}

/// Opens it in a forked child, where no thread is inside.
pub(crate) fn open_in_child() {
    INSIDE.store(0, Ordering::Relaxed);
    open();
}
