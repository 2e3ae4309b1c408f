//! Tallies: what a thread has added up itself of the calls that it has timed, function by function.
//!
//! A thread whose ring is full does not wait for the agent, which may have no processor: it empties
//! the ring into its tallies. They lie in memory of the thread's own, mapped slab by slab, so that
//! nothing is allocated and no lock is taken; also in an allocator that is itself observed. A
//! signal's handler may do the same while its thread is in the middle of it: therefore every number
//! is added to by one instruction, and every table is entered by a compare-and-swap.
//!
//! Numbers only grow. The agent reads them whenever it likes, and keeps beside each what it has
//! read of it before: the difference is new. [`Header::begun`] and [`Header::done`] tell it whether
//! numbers that belong together were read together. A thread that does not run just then, or a
//! folding that was left by `longjmp`, does not hold it up: then it takes what it has read.
//!
//! ```text
//!   tally ──► 59 parts of the histogram, 64 buckets each, made when a call falls into them
//!         └─► 4 tables of 8 call sites
//! ```
//!
//! # Safety
//!
//! This module exists to carve tables out of mappings, and to add by instructions that are not
//! locked.
#![allow(unsafe_code)]

use super::drain::Done;
use super::functions::Id;
use super::layout::Header;
use std::arch::asm;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
use wordpatch::os::pages::{self, Place, Protection};

/// Memory for tallies is mapped by so much.
const SLAB: usize = 256 << 10;
/// Its first line says how much of it is used.
const LINE: usize = 64;

/// Buckets of a part.
const BUCKETS: usize = 64;
const PARTS: usize = 59;
const _: () = assert!(PARTS * BUCKETS > profiler::LAST_BUCKET as usize);

/// Call sites that are told apart: tables, and what is in each.
const TABLES: usize = 4;
const SITES: usize = 8;

/// How often the agent tries to read numbers that belong together.
const TRIES: usize = 256;

/// A number that its thread adds to, and what the agent has taken of it.
#[repr(C)]
#[derive(Debug)]
struct Sum {
    now: AtomicU64,
    taken: AtomicU64,
}

/// Calls of one function, on one thread.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Tally {
    calls: Sum,
    ticks: Sum,
    /// Those that no other call of the function was open around.
    outermost_calls: Sum,
    outermost: Sum,
    children: Sum,
    max: AtomicU64,
    /// The complement of the least, which is zero when there is none.
    min: AtomicU64,
    parts: [AtomicPtr<Part>; PARTS],
    sites: [AtomicPtr<[CallSite; SITES]>; TABLES],
    /// Calls from places that are not told apart.
    elsewhere: CallSite,
}

/// A part of the histogram. Numbers run over: the agent looks more often than that.
#[repr(C)]
#[derive(Debug)]
struct Part {
    now: [AtomicU32; BUCKETS],
    taken: [AtomicU32; BUCKETS],
}

/// Calls from one place.
#[repr(C)]
#[derive(Debug)]
struct CallSite {
    /// The return address; zero if it is free.
    site: AtomicU64,
    calls: Sum,
    ticks: Sum,
}

/// The beginning of a piece of memory.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Slab {
    used: AtomicUsize,
}

/// Adds by one instruction, which no handler on this thread can come into the middle of. It is not
/// locked: no other thread writes there.
fn add(number: &AtomicU64, by: u64) {
    // SAFETY: (1) the place of an atomic, aligned; (2) others only read it, and an aligned word is
    // stored whole.
    unsafe { asm!("add qword ptr [{}], {}", in(reg) number.as_ptr(), in(reg) by, options(nostack)) }
}

fn increment(number: &AtomicU32) {
    // SAFETY: as above.
    unsafe { asm!("inc dword ptr [{}]", in(reg) number.as_ptr(), options(nostack)) }
}

/// Runs `act`, which folds, and says so.
pub(crate) fn folding(block: &Header, act: impl FnOnce()) {
    add(&block.begun, 1);
    act();
    add(&block.done, 1);
}

/// Adds a call to its function's tally. By the block's thread, within [`folding`]. Nulls are worth
/// nothing without the order that they were timed in.
pub(crate) fn fold(block: &Header, done: &Done) {
    if done.is_null() {
        return;
    }
    let part = |tally: &'static Tally| {
        let bucket = profiler::bucket(done.ticks);
        let part = made(block, &tally.parts[usize::from(bucket) / BUCKETS])?;
        Some((tally, &part.now[usize::from(bucket) % BUCKETS]))
    };
    let Some((tally, bucket)) =
        block.tally(done.record).and_then(|at| made(block, at)).and_then(part)
    else {
        block.lost.fetch_add(1, Relaxed);
        return;
    };
    increment(bucket);
    add(&tally.calls.now, 1);
    add(&tally.ticks.now, done.ticks);
    add(&tally.children.now, done.children);
    if done.outermost {
        add(&tally.outermost_calls.now, 1);
        add(&tally.outermost.now, done.ticks);
    }
    for (bound, value) in [(&tally.max, done.ticks), (&tally.min, !done.ticks)] {
        if bound.load(Relaxed) < value {
            bound.fetch_max(value, Relaxed);
        }
    }
    let from = call_site(block, tally, done.call_site);
    add(&from.calls.now, 1);
    add(&from.ticks.now, done.ticks);
}

/// Where calls from that place are added up.
fn call_site(block: &Header, tally: &'static Tally, site: u64) -> &'static CallSite {
    for table in &tally.sites {
        let Some(table) = made(block, table) else { break };
        for known in table {
            match known.site.load(Relaxed) {
                found if found == site && site != 0 => return known,
                0 if site != 0 => match known.site.compare_exchange(0, site, Relaxed, Relaxed) {
                    Ok(_) => return known,
                    Err(found) if found == site => return known,
                    Err(_) => {}
                },
                _ => {}
            }
        }
    }
    &tally.elsewhere
}

/// What a pointer leads to, made of zeroes if there is nothing yet; `None` if there is no memory.
fn made<T>(block: &Header, pointer: &AtomicPtr<T>) -> Option<&'static T> {
    let known = pointer.load(Acquire);
    let found = if known.is_null() { make(block, pointer)? } else { known };
    // SAFETY: (1) made below, of zeroes, which every table here may consist of; (2) slabs are never
    // unmapped.
    Some(unsafe { &*found })
}

#[cold]
fn make<T>(block: &Header, pointer: &AtomicPtr<T>) -> Option<*mut T> {
    let new: *mut T =
        std::ptr::with_exposed_provenance_mut(carve(block, size_of::<T>().next_multiple_of(LINE))?);
    // A handler may have made it meanwhile: then ours is left unused.
    Some(
        pointer
            .compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire)
            .map_or_else(|made| made, |_| new),
    )
}

/// So many bytes of zeroes, for as long as the process lives.
fn carve(block: &Header, size: usize) -> Option<usize> {
    loop {
        let slab = block.slab.load(Acquire);
        // SAFETY: (1) null, or the beginning of a slab, never unmapped.
        if let Some(known) = unsafe { slab.as_ref() } {
            let at = known.used.fetch_add(size, Relaxed);
            if at + size <= SLAB {
                return Some(slab.addr() + at);
            }
        }
        // SAFETY: (1) a new mapping.
        let new = unsafe { pages::map_private(Place::Anywhere, SLAB, Protection::ReadWrite).ok()? };
        let new: *mut Slab = std::ptr::with_exposed_provenance_mut(new.get());
        // SAFETY: (1) just mapped, and nobody else's.
        unsafe { (*new).used.store(LINE, Relaxed) };
        // A handler that was here first has put one there that we take as well; this one is never
        // used.
        let _ = block.slab.compare_exchange(slab, new, AcqRel, Relaxed);
    }
}

/// What a function's tally has had since the last time, if anything. By the agent.
pub(crate) fn take(block: &Header, id: Id, into: &mut profiler::Tally) -> bool {
    // SAFETY: (1) null, or a tally, never unmapped.
    let Some(tally) = block.tally(id.record()).and_then(|at| unsafe { at.load(Acquire).as_ref() })
    else {
        return false;
    };
    if tally.calls.untaken() == 0 {
        return false;
    }
    into.function = profiler::FuncId(id.0);
    for _ in 0..TRIES {
        let done = block.done.load(Acquire);
        tally.read(into);
        fence(Acquire);
        if block.begun.load(Relaxed) == done {
            break;
        }
        std::hint::spin_loop();
    }
    tally.mark_as_taken(into);
    true
}

impl Sum {
    fn untaken(&self) -> u64 {
        self.now.load(Relaxed).wrapping_sub(self.taken.load(Relaxed))
    }

    fn took(&self, new: u64) {
        self.taken.store(self.taken.load(Relaxed).wrapping_add(new), Relaxed);
    }
}

impl Tally {
    fn read(&self, into: &mut profiler::Tally) {
        into.calls = self.calls.untaken();
        into.ticks = self.ticks.untaken();
        into.outermost = (self.outermost_calls.untaken(), self.outermost.untaken());
        into.children = self.children.untaken();
        (into.min, into.max) = (!self.min.load(Relaxed), self.max.load(Relaxed));
        into.buckets.clear();
        for (bucket, part, slot) in self.buckets() {
            let new = part.now[slot].load(Relaxed).wrapping_sub(part.taken[slot].load(Relaxed));
            if new != 0 {
                into.buckets.push((bucket, u64::from(new)));
            }
        }
        into.arcs.clear();
        into.arcs.extend(
            self.call_sites()
                .map(|from| (from.site.load(Relaxed), from.calls.untaken(), from.ticks.untaken())),
        );
    }

    fn mark_as_taken(&self, taken: &profiler::Tally) {
        let ((outermost_calls, outermost), all) =
            (taken.outermost, [&self.calls, &self.ticks, &self.children]);
        let sums = all.into_iter().chain([&self.outermost_calls, &self.outermost]);
        for (sum, new) in
            sums.zip([taken.calls, taken.ticks, taken.children, outermost_calls, outermost])
        {
            sum.took(new);
        }
        let mut new = taken.buckets.iter().copied().peekable();
        for (bucket, part, slot) in self.buckets() {
            if let Some((_, calls)) = new.next_if(|(known, _)| *known == bucket) {
                let before = part.taken[slot].load(Relaxed);
                part.taken[slot].store(before.wrapping_add(calls as u32), Relaxed);
            }
        }
        for (from, (_, calls, ticks)) in self.call_sites().zip(&taken.arcs) {
            from.calls.took(*calls);
            from.ticks.took(*ticks);
        }
    }

    /// Buckets of parts that are there, in order.
    fn buckets(&self) -> impl Iterator<Item = (u16, &Part, usize)> {
        // SAFETY: (1) null, or a part, never unmapped.
        let parts = self
            .parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| Some((at, unsafe { part.load(Acquire).as_ref()? })));
        parts.flat_map(|(at, part)| {
            (0..BUCKETS).map(move |slot| ((at * BUCKETS + slot) as u16, part, slot))
        })
    }

    /// All other places, and then those that are told apart: new ones come behind those that were
    /// there.
    fn call_sites(&self) -> impl Iterator<Item = &CallSite> {
        // SAFETY: as above.
        let tables = self.sites.iter().filter_map(|table| unsafe { table.load(Acquire).as_ref() });
        [&self.elsewhere]
            .into_iter()
            .chain(tables.flatten().take_while(|from| from.site.load(Acquire) != 0))
    }
}
