//! A thread's own sums over the calls that it has timed, function by function.
//!
//! A thread whose ring is full does not wait for the agent, which may have no CPU: it empties the
//! ring into these sums. They lie in memory of the thread's own, mapped slab by slab, so that
//! nothing is allocated and no lock is taken; also in an allocator that is itself observed. A
//! signal's handler may do the same while its thread is in the middle of it: therefore every number
//! is added to by one instruction, and every table is entered by a compare-and-swap.
//!
//! Numbers only grow. The agent reads them at any time, and keeps next to each number what it has
//! read of it before: the difference is new. [`Header::begun`] and [`Header::done`] show whether
//! numbers that belong together were read together. A thread that is not running at the moment, or
//! a folding that was left by `longjmp`, does not hold up the agent: then it takes what it has
//! read.
//!
//! ```text
//!   sums: 8 buckets of the histogram, 2 call sites, the first that there were
//!     ├─► 59 parts of the histogram, 64 buckets each, made when a call falls into them and in none of the 8
//!     └─► 4 tables of 8 call sites
//! ```
//!
//! Most functions of a large program are called a few times. The room beside the sums is enough
//! for those: six cache lines, which the agent reads in one go. It reads only those that were added
//! to since: the lowest bit of the pointer to them says so. The thread sets it after it has added,
//! the agent clears it before it reads.
//!
//! # Safety
//!
//! This module carves tables out of mappings, and adds by instructions that are not locked.
#![allow(unsafe_code)]

use super::drain::Done;
use super::functions::Id;
use super::layout::Header;
use std::arch::asm;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence};
use wordpatch::os::pages::{self, Place, Protection};

/// Memory for sums is mapped in pieces of this size.
const SLAB: usize = 256 << 10;
/// Its first line says how much of it is used.
const LINE: usize = 64;

/// Buckets of a part.
const BUCKETS: usize = 64;
const PARTS: usize = 59;
const _: () = assert!(PARTS * BUCKETS > profiler::LAST_BUCKET as usize);

/// Buckets beside the sums.
const FEW: usize = 8;

/// Call sites that are distinguished: those beside the sums, tables, and entries of each table.
const NEAR: usize = 2;
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
pub(crate) struct FunctionSums {
    calls: Sum,
    ticks: Sum,
    /// Calls that were not inside of another call of the function.
    outermost_calls: Sum,
    outermost: Sum,
    children: Sum,
    max: AtomicU64,
    /// The complement of the least, which is zero when there is none.
    min: AtomicU64,
    few: Few,
    near: [CallSite; NEAR],
    /// Calls from places that are not distinguished.
    elsewhere: CallSite,
    parts: AtomicPtr<[AtomicPtr<Part>; PARTS]>,
    sites: [AtomicPtr<[CallSite; SITES]>; TABLES],
}

/// The first buckets that calls fell into.
#[repr(C)]
#[derive(Debug)]
struct Few {
    /// One more than the bucket; zero if it is free.
    buckets: [AtomicU16; FEW],
    now: [AtomicU32; FEW],
    taken: [AtomicU32; FEW],
}

/// A part of the histogram. Numbers wrap around: the agent reads them more often than that.
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

/// The bit of a pointer to sums which says that they were added to since the agent last read them.
const NEWS: usize = 1;

/// Which sums may have been added to since the agent last looked at a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Those that say so.
    Marked,
    /// Any: something is being folded, or a folding was left by `longjmp` before it said so.
    Any,
}

/// What may have been folded since the agent last looked here, if anything. Marks the look as done,
/// unless something is being folded meanwhile.
pub(crate) fn news(block: &Header) -> Option<News> {
    let done = block.done.load(Acquire);
    let begun = block.begun.load(Acquire);
    if begun == block.looked.load(Relaxed) {
        return None;
    }
    if begun != done {
        return Some(News::Any);
    }
    block.looked.store(begun, Relaxed);
    Some(News::Marked)
}

/// Tells the agent that these sums were added to. By one instruction, as [`add`]: if the agent
/// clears the bit meanwhile, it stays set, and the agent reads once more.
fn announce(sums: &AtomicPtr<FunctionSums>) {
    // SAFETY: (1) the place of an atomic, aligned; (2) the agent only clears this bit of it, and
    // every reader masks it.
    unsafe {
        asm!("or qword ptr [{}], {}", in(reg) sums.as_ptr(), const NEWS, options(nostack));
    }
}

/// Runs `act`, which folds, and records that.
pub(crate) fn folding(block: &Header, act: impl FnOnce()) {
    add(&block.begun, 1);
    act();
    add(&block.done, 1);
}

/// Adds a call to its function's sums. By the block's thread, within [`folding`]. Null calls are
/// useless without the order in which they were timed.
pub(crate) fn fold(block: &Header, done: &Done) {
    if done.is_null() {
        return;
    }
    let with_bucket = |sums: &'static FunctionSums| {
        Some((sums, sums.bucket(block, profiler::bucket(done.ticks))?))
    };
    let known = block.sums(done.record);
    let found = known.and_then(|at| made(block, at).and_then(with_bucket).map(|both| (at, both)));
    let Some((pointer, (sums, bucket))) = found else {
        block.lost.fetch_add(1, Relaxed);
        return;
    };
    increment(bucket);
    add(&sums.calls.now, 1);
    add(&sums.ticks.now, done.ticks);
    add(&sums.children.now, done.children);
    if done.outermost {
        add(&sums.outermost_calls.now, 1);
        add(&sums.outermost.now, done.ticks);
    }
    for (bound, value) in [(&sums.max, done.ticks), (&sums.min, !done.ticks)] {
        if bound.load(Relaxed) < value {
            bound.fetch_max(value, Relaxed);
        }
    }
    let from = call_site(block, sums, done.call_site);
    add(&from.calls.now, 1);
    add(&from.ticks.now, done.ticks);
    announce(pointer);
}

/// Where calls from that place are added up.
fn call_site(block: &Header, sums: &'static FunctionSums, site: u64) -> &'static CallSite {
    if site == 0 {
        return &sums.elsewhere;
    }
    if let Some(found) = among(&sums.near, site) {
        return found;
    }
    for table in &sums.sites {
        let Some(table) = made(block, table) else { break };
        if let Some(found) = among(table, site) {
            return found;
        }
    }
    &sums.elsewhere
}

/// The entry of that place, or a free one, which becomes it.
fn among(all: &'static [CallSite], site: u64) -> Option<&'static CallSite> {
    all.iter().find(|known| match known.site.load(Relaxed) {
        0 => known.site.compare_exchange(0, site, Relaxed, Relaxed).map_or_else(
            // A handler was here first.
            |found| found == site,
            |_| true,
        ),
        found => found == site,
    })
}

fn without_news<T>(pointer: *mut T) -> *mut T {
    pointer.map_addr(|address| address & !NEWS)
}

/// The target of a pointer, made of zeros if it does not exist yet; `None` if there is no memory.
fn made<T>(block: &Header, pointer: &AtomicPtr<T>) -> Option<&'static T> {
    let known = without_news(pointer.load(Acquire));
    let found = if known.is_null() { allocate(block, pointer)? } else { known };
    // SAFETY: (1) made below, of zeroes, which every table here may consist of; (2) slabs are never
    // unmapped.
    Some(unsafe { &*found })
}

#[cold]
fn allocate<T>(block: &Header, pointer: &AtomicPtr<T>) -> Option<*mut T> {
    let new: *mut T =
        std::ptr::with_exposed_provenance_mut(carve(block, size_of::<T>().next_multiple_of(LINE))?);
    // A handler may have made it meanwhile, and added to it: then ours is left unused.
    Some(
        pointer
            .compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire)
            .map_or_else(without_news, |_| new),
    )
}

/// So many bytes of zeros, for as long as the process lives.
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
        // SAFETY: (1) just mapped, and known to no other code.
        unsafe { (*new).used.store(LINE, Relaxed) };
        // A handler that was here first has put one there that we take as well; this one is never
        // used.
        let _ = block.slab.compare_exchange(slab, new, AcqRel, Relaxed);
    }
}

/// What a function's sums have had since the last time, if anything. By the agent.
pub(crate) fn take_sums(
    block: &Header,
    id: Id,
    news: News,
    into: &mut profiler::SummedCalls,
) -> bool {
    let Some(pointer) = block.sums(id.record()) else { return false };
    let known = pointer.load(Acquire);
    let is_marked = known.addr() & NEWS != 0;
    if news == News::Marked && !is_marked {
        return false;
    }
    if is_marked {
        // Before the sums are read: what is added afterwards is announced again.
        pointer.swap(without_news(known), AcqRel);
    }
    // SAFETY: (1) null, or sums, never unmapped.
    let Some(sums) = (unsafe { without_news(known).as_ref() }) else { return false };
    if sums.calls.untaken() == 0 {
        return false;
    }
    into.function = profiler::FuncId(id.0);
    for _ in 0..TRIES {
        let done = block.done.load(Acquire);
        sums.read(into);
        fence(Acquire);
        if block.begun.load(Relaxed) == done {
            break;
        }
        std::hint::spin_loop();
    }
    sums.mark_as_taken(into);
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

impl FunctionSums {
    /// Where calls of that bucket are counted; `None` if there is no memory.
    fn bucket(&'static self, block: &Header, bucket: u16) -> Option<&'static AtomicU32> {
        let key = bucket + 1;
        let few = self.few.buckets.iter().zip(&self.few.now);
        for (known, now) in few {
            match known.load(Relaxed) {
                found if found == key => return Some(now),
                0 => match known.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => return Some(now),
                    // A handler was here first.
                    Err(found) if found == key => return Some(now),
                    Err(_) => {}
                },
                _ => {}
            }
        }
        let part = &made(block, &self.parts)?[usize::from(bucket) / BUCKETS];
        Some(&made(block, part)?.now[usize::from(bucket) % BUCKETS])
    }

    fn read(&self, into: &mut profiler::SummedCalls) {
        into.calls = self.calls.untaken();
        into.ticks = self.ticks.untaken();
        into.outermost = (self.outermost_calls.untaken(), self.outermost.untaken());
        into.children = self.children.untaken();
        (into.min, into.max) = (!self.min.load(Relaxed), self.max.load(Relaxed));
        into.buckets.clear();
        for (bucket, now, taken) in self.buckets() {
            let new = now.load(Relaxed).wrapping_sub(taken.load(Relaxed));
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

    fn mark_as_taken(&self, taken: &profiler::SummedCalls) {
        let ((outermost_calls, outermost), all) =
            (taken.outermost, [&self.calls, &self.ticks, &self.children]);
        let sums = all.into_iter().chain([&self.outermost_calls, &self.outermost]);
        for (sum, new) in
            sums.zip([taken.calls, taken.ticks, taken.children, outermost_calls, outermost])
        {
            sum.took(new);
        }
        let mut new = taken.buckets.iter().copied().peekable();
        for (bucket, _, taken) in self.buckets() {
            if new.peek().is_none() {
                break;
            }
            if let Some((_, calls)) = new.next_if(|(known, _)| *known == bucket) {
                taken.store(taken.load(Relaxed).wrapping_add(calls as u32), Relaxed);
            }
        }
        for (from, (_, calls, ticks)) in self.call_sites().zip(&taken.arcs) {
            from.calls.took(*calls);
            from.ticks.took(*ticks);
        }
    }

    /// Buckets that calls may have fallen into: those that it has itself, then those of parts that
    /// are there. New ones come between those that were there, and change no order.
    fn buckets(&self) -> impl Iterator<Item = (u16, &AtomicU32, &AtomicU32)> {
        let Few { buckets, now, taken } = &self.few;
        let few = buckets
            .iter()
            .map_while(|bucket| bucket.load(Acquire).checked_sub(1))
            .zip(now.iter().zip(taken))
            .map(|(bucket, (now, taken))| (bucket, now, taken));
        // SAFETY: (1) null, or a table of parts, never unmapped.
        let parts = unsafe { self.parts.load(Acquire).as_ref() };
        let parts = parts.into_iter().flatten().enumerate().filter_map(|(at, part)| {
            // SAFETY: (1) null, or a part, never unmapped.
            let part = unsafe { part.load(Acquire).as_ref()? };
            Some((at, part))
        });
        few.chain(parts.flat_map(|(at, part)| {
            let number = move |slot| (at * BUCKETS + slot) as u16;
            let both = part.now.iter().zip(&part.taken).enumerate();
            both.map(move |(slot, (now, taken))| (number(slot), now, taken))
        }))
    }

    /// All other places, and then those that are distinguished: new ones follow the existing ones.
    fn call_sites(&self) -> impl Iterator<Item = &CallSite> {
        // SAFETY: as above.
        let tables = self.sites.iter().filter_map(|table| unsafe { table.load(Acquire).as_ref() });
        let known = self.near.iter().chain(tables.flatten());
        [&self.elsewhere].into_iter().chain(known.take_while(|from| from.site.load(Acquire) != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::functions;
    use crate::runtime::target;
    use crate::runtime::threads::{self, Caller};
    use std::sync::mpsc;

    #[test]
    fn sums_that_a_handler_has_made_meanwhile_are_where_it_put_them() {
        target::prepare_tables().unwrap();
        target::activate_hooks_in_test();
        let by_both = std::thread::spawn(|| {
            let Caller::Observed(block) = threads::caller() else { panic!("not observed") };
            let pointer = AtomicPtr::<FunctionSums>::default();
            // A signal arrives when the thread has found no sums and is about to make some.
            let by_handler = std::ptr::from_ref(made(block, &pointer).unwrap()).addr();
            announce(&pointer);
            (by_handler, allocate(block, &pointer).unwrap().addr())
        });
        let (by_handler, by_thread) = by_both.join().unwrap();
        assert_eq!(by_handler, by_thread);
    }

    /// The agent clears marks and reads sums while the thread adds to them.
    #[test]
    fn no_call_is_lost_if_marks_are_cleared_while_calls_are_folded() {
        const CALLS: u64 = 300_000;
        target::prepare_tables().unwrap();
        target::activate_hooks_in_test();
        let ids = [0x7357_0010, 0x7357_0020, 0x7357_0030].map(|at| functions::add(at).unwrap());
        let (send, receive) = mpsc::channel();
        let writer = std::thread::spawn(move || {
            let Caller::Observed(block) = threads::caller() else { panic!("not observed") };
            send.send(block).unwrap();
            for call in 0..CALLS {
                let record = ids[call as usize % ids.len()].record();
                let done =
                    Done { record, outermost: true, ticks: 50, children: 0, call_site: 0x40 };
                folding(block, || fold(block, &done));
            }
        });
        let block: &'static Header = receive.recv().unwrap();
        let (mut taken, mut into) = (0, profiler::SummedCalls::default());
        loop {
            let is_over = writer.is_finished();
            for id in ids {
                taken += if take_sums(block, id, News::Marked, &mut into) { into.calls } else { 0 };
            }
            if is_over {
                break;
            }
        }
        writer.join().unwrap();
        assert_eq!((taken, block.lost.load(Relaxed)), (CALLS, 0));
    }
}
