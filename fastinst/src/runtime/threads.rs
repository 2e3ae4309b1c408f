//! Threads: each has a block, which is made at its first event and given to another thread when it
//! has ended.
//!
//! Blocks are never unmapped, so reading one needs no lock. A destructor of thread-specific data
//! reports a thread's end. Other destructors may call functions afterwards, so this one asks to be
//! called again until the last round.
//!
//! # Safety
//!
//! This module makes blocks out of mappings, and is called by the C library.
#![allow(unsafe_code)]

use super::functions;
use super::layout::{
    ENDED, FEW_FRAMES, FRAME, FRAME_COUNT, FREE, Frame, Header, LIVE, RECORD, RECORDS, RING_COUNT,
    before_frames,
};
use super::{scope, signal_stack, stub};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use wordpatch::os::pages::{self, PAGE, Place, Protection};
use wordpatch::os::threads::{current, process};
use wordpatch::os::{OsError, limits};
use wordpatch::{CodeAddr, Ticks};

pub(crate) mod room;

/// All blocks, newest first.
static BLOCKS: AtomicPtr<Header> = AtomicPtr::new(std::ptr::null_mut());

/// The key of the destructor, plus one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Threads that could not be observed, for lack of memory.
pub(crate) static UNOBSERVED: AtomicU64 = AtomicU64::new(0);

/// How often the C library calls destructors that ask again (PTHREAD_DESTRUCTOR_ITERATIONS,
/// limits.h).
const ROUNDS: u32 = 4;

/// Where the blocks lie of threads that are not to be observed.
///
/// They contain only zeros. Their capacity is zero, so every stub takes the slow path. They have
/// records for all functions that can be numbered, although these are no thread's: a counter in
/// line accesses its record whatever the capacity.
static QUIET: AtomicUsize = AtomicUsize::new(0);

/// The block of a thread that has ended.
fn gone() -> *mut Header {
    std::ptr::with_exposed_provenance_mut(QUIET.load(Acquire))
}

/// The block of the profiler's own threads.
fn our_own() -> *mut Header {
    std::ptr::with_exposed_provenance_mut(QUIET.load(Acquire) + PAGE)
}

/// Reserves those blocks. Once, before the first event of a hook.
pub(crate) fn reserve() -> Result<(), OsError> {
    let len = PAGE + RECORDS + functions::MOST * RECORD;
    // SAFETY: (1) a new mapping.
    let quiet = unsafe { pages::map_private(Place::Anywhere, len, Protection::Read)? };
    QUIET.store(quiet.get(), Release);
    Ok(())
}

/// The kind of thread whose events these are.
pub(crate) enum Caller<'b> {
    /// A thread of the program.
    Observed(&'b Header),
    /// A thread that has ended, or has no block: its entries are counted, nothing else.
    Passing,
    /// A thread of the profiler.
    Ours,
}

/// Registers the destructor. Once, early: the first keys need no memory to be set.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: (1) a key to write to; (2) the destructor below.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(farewell)) } == 0 {
        KEY.store(key + 1, Release);
    }
}

/// Whether the key is one that threads can set without memory.
pub(crate) fn key_is_free_to_set() -> bool {
    const FIRST_KEYS: u32 = 32;
    (1..=FIRST_KEYS).contains(&KEY.load(Acquire))
}

/// Declares the calling thread one of the profiler's.
pub(crate) fn ours() {
    stub::set_thread(our_own());
}

/// Gives the calling thread's block back, if it has one: hooks were measured on it, and the thread
/// is about to become one of the profiler's.
pub(crate) fn give_back() {
    if let Caller::Observed(block) = caller() {
        stub::set_thread(gone());
        if let Some(key) = KEY.load(Acquire).checked_sub(1) {
            // SAFETY: (1) the key was made.
            unsafe { libc::pthread_setspecific(key, std::ptr::null()) };
        }
        block.clock.end();
        block.state.store(ENDED, Release);
    }
}

/// Declares the calling thread not the profiler's any more: it is about to call the program's code.
pub(crate) fn not_ours() {
    stub::set_thread(std::ptr::null_mut());
}

/// The calling thread's block, made if this is its first event.
pub(crate) fn caller<'b>() -> Caller<'b> {
    let block = stub::thread();
    if block.is_null() {
        return begin_thread();
    }
    if std::ptr::eq(block, our_own()) {
        return Caller::Ours;
    }
    if std::ptr::eq(block, gone()) {
        return Caller::Passing;
    }
    // SAFETY: (1) blocks are never unmapped.
    Caller::Observed(unsafe { &*block })
}

/// The calling thread's block, if it has one.
pub(crate) fn observed<'b>() -> Option<&'b Header> {
    let block = stub::thread();
    let has_none = block.is_null() || std::ptr::eq(block, our_own()) || std::ptr::eq(block, gone());
    // SAFETY: (1) blocks are never unmapped.
    (!has_none).then(|| unsafe { &*block })
}

#[cold]
fn begin_thread<'b>() -> Caller<'b> {
    // A signal handler that interrupts this finds a thread without a block.
    stub::set_thread(gone());
    let Some(block) = reuse().or_else(create) else {
        UNOBSERVED.fetch_add(1, Relaxed);
        return Caller::Passing;
    };
    reset(block);
    if scope::is_used() {
        if !scope::prepare(block) {
            block.state.store(FREE, Release);
            UNOBSERVED.fetch_add(1, Relaxed);
            return Caller::Passing;
        }
        inherit_scope(block);
    }
    stub::set_thread(std::ptr::from_ref(block).cast_mut());
    if let Some(key) = KEY.load(Acquire).checked_sub(1) {
        // SAFETY: (1) the key was made; (2) its value is only handed back to us.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(block).cast()) };
    }
    Caller::Observed(block)
}

/// The block in which the thread that has forked this process was observed; null if it had none, or
/// has its own here.
static FORKED: AtomicPtr<Header> = AtomicPtr::new(std::ptr::null_mut());

/// In a forked child, calls are open that the thread entered in the parent.
fn inherit_scope(block: &Header) {
    // SAFETY: (1) null, or a block: it is never unmapped, and no thread's here.
    if let Some(parents) = unsafe { FORKED.load(Relaxed).as_ref() }
        && current().0 == process()
    {
        FORKED.store(std::ptr::null_mut(), Relaxed);
        scope::inherit(block, parents);
    }
}

/// A block that no thread has any more, large enough for all existing functions.
fn reuse<'b>() -> Option<&'b Header> {
    let needed = u64::from(functions::count().max(room::promised())) * RECORD as u64;
    all().find(|block| {
        block.capacity.load(Relaxed) >= needed
            && block.state.compare_exchange(FREE, LIVE, AcqRel, Relaxed).is_ok()
    })
}

/// A new block, with room for more functions than exist.
fn create<'b>() -> Option<&'b Header> {
    let functions = functions::count() as usize;
    let records = room::size_for(functions + functions / 4 + room::AHEAD);
    let reserved = room::size_to_reserve(records);
    let with = |frames: usize| map_block(records, reserved, frames);
    let many = if is_roomy() { with(FRAME_COUNT) } else { None };
    let block = many.or_else(|| with(FEW_FRAMES))?;
    let mut next = BLOCKS.load(Relaxed);
    loop {
        block.next.store(next, Relaxed);
        match BLOCKS.compare_exchange(next, std::ptr::from_ref(block).cast_mut(), SeqCst, Relaxed) {
            Ok(_) => break,
            Err(found) => next = found,
        }
    }
    if !room::keeps_promise(block) {
        block.state.store(FREE, Release);
        return None;
    }
    Some(block)
}

/// A block for a live thread: address space for `reserved` bytes of records, memory for `records`.
fn map_block<'b>(records: usize, reserved: usize, frames: usize) -> Option<&'b Header> {
    let before = before_frames(reserved);
    let begun = pages::round_up(before + FEW_FRAMES * FRAME);
    let len = pages::round_up(before + frames * FRAME);
    let sums = RECORDS + reserved;
    let parts =
        [0..RECORDS + records, sums..sums + records / RECORD * size_of::<usize>(), before..begun];
    let at = pages::reserve(len).ok()?;
    let whole = 0..begun;
    let parts = if records == reserved { std::slice::from_ref(&whole) } else { &parts };
    let made = parts.iter().all(|part| {
        let start = at.offset(part.start as isize);
        // SAFETY: (1) reserved above, and not known to any other code.
        unsafe { pages::protect(start, part.len(), Protection::ReadWrite) }.is_ok()
    });
    if !made {
        // SAFETY: as above.
        let _ = unsafe { pages::unmap(at, len) };
        return None;
    }
    // SAFETY: (1) zeroes are a header; (2) mapped for the life of the process.
    let block: &Header = unsafe { &*std::ptr::with_exposed_provenance(at.get()) };
    block.mapped.store(len as u64, Relaxed);
    block.usable.store(begun as u64, Relaxed);
    block.capacity.store(records as u64, Relaxed);
    block.reserved.store(reserved as u64, Relaxed);
    block.head.store(RING_COUNT as u64, Relaxed);
    block.drained.tail.store(RING_COUNT as u64, Relaxed);
    block.state.store(LIVE, Relaxed);
    Some(block)
}

/// Whether address space is ample: some hundred threads' blocks are little compared with what the
/// process may have.
fn is_roomy() -> bool {
    limits::of(libc::RLIMIT_AS).is_none_or(|limit| limit >= 8 << 30)
}

/// Resets frames and ring. The records are zero: the agent has taken them, or no thread had them
/// before.
fn reset(block: &Header) {
    let wall = block.frame(0);
    wall.sp.store(u64::MAX, Relaxed);
    wall.record.store(u32::MAX, Relaxed);
    block.top.store(std::ptr::from_ref(block.frame(1)).cast_mut(), Relaxed);
    set_limit(block);
    block.farewells.store(0, Relaxed);
    block.busy.store(0, Relaxed);
    block.in_code.store(0, Relaxed);
    block.open_passes.store(0, Relaxed);
    signal_stack::clear_block(block);
    block.clock.begin_thread();
    block.random.store(Ticks::now().0 ^ std::ptr::from_ref(block).addr() as u64, Relaxed);
}

/// The limit is the last frame that has memory: no frame is made from there on.
fn set_limit(block: &Header) {
    let frames = (block.usable.load(Relaxed) as usize
        - before_frames(block.reserved.load(Relaxed) as usize))
        / FRAME;
    let limit = std::ptr::from_ref::<Frame>(block.frame(frames.min(FRAME_COUNT) - 1)).cast_mut();
    block.limit.store(limit, Relaxed);
}

/// Gets memory for more frames: twice as many. Returns whether it exists. By the block's thread,
/// also in a signal handler that has interrupted this: the same memory is then added twice, without
/// harm.
#[cold]
pub(crate) fn grow(block: &Header) -> bool {
    let (usable, mapped) =
        (block.usable.load(Relaxed) as usize, block.mapped.load(Relaxed) as usize);
    let more = (usable - before_frames(block.reserved.load(Relaxed) as usize))
        .next_multiple_of(PAGE)
        .min(mapped - usable);
    let at = CodeAddr::from_ptr(std::ptr::from_ref(block).cast::<u8>()).offset(usable as isize);
    // SAFETY: (1) a part of the block's own mapping that is unused.
    if more == 0 || unsafe { pages::protect(at, more, Protection::ReadWrite) }.is_err() {
        return false;
    }
    block.usable.store((usable + more) as u64, Relaxed);
    set_limit(block);
    true
}

/// Called by the C library at the end of a thread, once a round.
unsafe extern "C" fn farewell(value: *mut libc::c_void) {
    let block = stub::thread();
    if block.is_null() || !std::ptr::eq(block, value.cast()) {
        return;
    }
    // SAFETY: (1) the thread's own block.
    let block = unsafe { &*block };
    if block.farewells.fetch_add(1, Relaxed) + 1 < ROUNDS
        && let Some(key) = KEY.load(Acquire).checked_sub(1)
    {
        // SAFETY: (1) the key was made.
        unsafe { libc::pthread_setspecific(key, value) };
        return;
    }
    stub::set_thread(gone());
    block.clock.end();
    block.state.store(ENDED, Release);
}

/// All blocks.
pub(crate) fn all<'b>() -> impl Iterator<Item = &'b Header> {
    let mut next = BLOCKS.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: (1) null, or a block.
        let block = unsafe { next.as_ref()? };
        next = block.next.load(Relaxed);
        Some(block)
    })
}

/// A function lies at another address from now on, and no thread is in it: its record looks to
/// threads as if they had never called it.
pub(crate) fn forget_address(record: u32) {
    for record in all().filter_map(|block| block.record(record)) {
        record.address.store(0, Relaxed);
    }
}

/// In a forked child: the blocks are the parent's, and the parent reports what was counted in them.
pub(crate) fn forget_all() {
    BLOCKS.store(std::ptr::null_mut(), Release);
    let block = stub::thread();
    FORKED.store(
        observed().map_or(std::ptr::null_mut(), |block| std::ptr::from_ref(block).cast_mut()),
        Release,
    );
    if !block.is_null() && !std::ptr::eq(block, our_own()) {
        stub::set_thread(std::ptr::null_mut());
    }
}

/// For how many functions `block` has memory for records.
pub(crate) fn records_of(block: &Header) -> u32 {
    (block.capacity.load(Relaxed) / RECORD as u64) as u32
}

const _: () = assert!(size_of::<Header>() <= PAGE && RECORDS.is_multiple_of(PAGE));
