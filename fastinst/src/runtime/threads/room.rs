//! Room: how many functions a thread's block has records for.
//!
//! A counter in line accesses a record without comparing with the block's capacity. So it is
//! written only when every block has the record of its function, including blocks that are being
//! made:
//!
//! ```text
//!   a thread that installs        a thread that makes its block
//!   raise the promise             show the block in the list
//!   fence                         fence
//!   look at every block           look at the promise
//! ```
//!
//! Whichever fence comes first, one of the two threads sees what the other has done, and gives the
//! block memory: the same pages in the same way, if both do. If that fails, the counter is not
//! written, or the block is given to no thread.
//!
//! # Safety
//!
//! This module gives memory to parts of a mapping.
#![allow(unsafe_code)]

use super::super::functions;
use super::super::layout::{Header, RECORD, RECORDS};
use super::all;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};
use wordpatch::CodeAddr;
use wordpatch::os::limits;
use wordpatch::os::pages::{self, PAGE, Protection};

#[cfg(test)]
mod model;

/// The size of the records of so many functions: whole pages, for their sums too.
pub(super) fn size_for(functions: usize) -> usize {
    const STEP: usize = PAGE / size_of::<usize>() * RECORD;
    (functions * RECORD).next_multiple_of(STEP)
}

/// Blocks have room for so many functions that are found after the block was made.
pub(super) const AHEAD: usize = 1024;

/// Whether functions are going to be found while threads run: blocks then get address space for the
/// records of all functions that can exist.
static GROWS: AtomicBool = AtomicBool::new(false);

/// Every block has records for so many functions, or is no thread's.
static PROMISED: AtomicU32 = AtomicU32::new(0);
/// How many of these are known to have records in every block.
static KEPT: AtomicU32 = AtomicU32::new(0);

/// Announces that functions are going to be found while threads run.
pub(crate) fn expect_functions() {
    GROWS.store(true, Relaxed);
}

/// So many blocks can grow: each takes ten megabytes of address space and four mappings more than
/// one that cannot, and a process may have 65,530 (vm.max_map_count, proc(5)).
const GROWING: usize = 1024;
static MADE: AtomicUsize = AtomicUsize::new(0);

/// How much address space a new block takes for records, if it has memory for so many bytes of
/// them.
pub(super) fn size_to_reserve(records: usize) -> usize {
    let is_limited = limits::of(libc::RLIMIT_AS).is_some();
    let grows = GROWS.load(Relaxed) && !is_limited && MADE.fetch_add(1, Relaxed) < GROWING;
    if grows { size_for(functions::MOST) } else { records }
}

/// So many functions have a record in every block that a thread takes.
pub(super) fn promised() -> u32 {
    PROMISED.load(Relaxed)
}

/// Whether a block that other threads can see by now has the promised records, or gets them. No
/// thread may have a block without.
pub(super) fn keeps_promise(block: &Header) -> bool {
    // Pairs with the fence in `have_records`: either this sees the promise, or that sees this
    // block.
    fence(SeqCst);
    reaches(block, promised())
}

/// Whether every thread has a record of a function from now on; adds it where it is missing. A
/// counter in line relies on that: it accesses the record without comparing with the capacity.
pub(crate) fn have_records(id: functions::Id) -> bool {
    if id.0 < KEPT.load(Acquire) {
        return true;
    }
    let functions = (id.0 as usize + AHEAD).min(functions::MOST) as u32;
    PROMISED.fetch_max(functions, SeqCst);
    fence(SeqCst);
    let kept = all().all(|block| reaches(block, functions));
    if kept {
        KEPT.fetch_max(functions, AcqRel);
    }
    kept
}

/// Whether a block has records for so many functions; adds them if it has the address space.
fn reaches(block: &Header, functions: u32) -> bool {
    let (capacity, reserved) =
        (block.capacity.load(Acquire) as usize, block.reserved.load(Relaxed) as usize);
    let wanted = size_for(functions as usize);
    if wanted <= capacity {
        return true;
    }
    let sums = |records: usize| RECORDS + reserved + records / RECORD * size_of::<usize>();
    let parts = [RECORDS + capacity..RECORDS + wanted, sums(capacity)..sums(wanted)];
    let base = CodeAddr::from_ptr(std::ptr::from_ref(block).cast::<u8>());
    let has = wanted <= reserved
        && parts.iter().all(|part| {
            let start = base.offset(part.start as isize);
            // SAFETY: (1) a part of the block's own mapping; (2) unused, or made usable by another
            // thread in the same way.
            unsafe { pages::protect(start, part.len(), Protection::ReadWrite) }.is_ok()
        });
    if has {
        block.capacity.fetch_max(wanted as u64, AcqRel);
    }
    has
}
