//! The preload library's own heap: it allocates nothing with the program's allocator.
//!
//! A program may have an allocator that counts, that two threads must not use at once, or that
//! aligns to 8 bytes. So the library has its own: `dlmalloc`, on anonymous mappings, protected by
//! one lock; blocks of [`LARGE`] bytes and more are mappings of their own, which are returned to
//! the kernel when they are freed. A header says which of the two a block is.
//!
//! Two kinds of work are handled separately, since they would spend most of their time in the
//! kernel, for pages of zeros:
//!
//! - **Writing a profile** takes one large block after the other. While a [`Hoard`] lives, such
//!   blocks are kept when they are freed, and used again; they are unmapped when it is dropped.
//! - **Permanent blocks**, thousands of small ones, are placed side by side in populated memory
//!   ([`for_good`]), by one thread and without the lock.
//!
//! ```text
//!   ◄── before ──►
//!   start of what was allocated ... │ length (8) │ before (4) │ generation (4) │ the block, aligned as asked
//! ```
//!
//! # When the kernel has no more
//!
//! A failed allocation of the library would end the program, which may have used up its limit of
//! address space itself. So some memory is [put aside](SPARE) at the beginning, and used in this
//! case; when half of it is used, the agent leaves ([`is_short`]).
//!
//! # After a fork
//!
//! A fork copies memory at any moment, even while another thread is in the middle of an allocation.
//! The lock is on a page that the kernel fills with zeros in every child (MADV_WIPEONFORK), however
//! the child is made: so the lock is open there. `busy`, on an ordinary page, says whether the
//! arena is whole. If it is not, the child leaves it as it is and continues with a new one of
//! another *generation*; blocks of the old arena are never freed. In such a child the parent's
//! allocations leak.
//!
//! | word | value | meaning | changed by |
//! |---|---|---|---|
//! | `lock` | [`OPEN`] | no thread has the arena | any thread, to `TAKEN` or `AWAITED` |
//! | | [`TAKEN`] | a thread has it | that thread, to `OPEN`; others, to `AWAITED` |
//! | | [`AWAITED`] | a thread has it, and others sleep | that thread, to `OPEN`, and wakes one |
//! | `busy` | | the thread that has the lock is changing the arena | that thread |
//! | `CURRENT` | null, an arena | where blocks come from | any thread, from null or an arena that is not whole |
//!
//! Threads that hold the lock never wait for anything, and the library's signal handlers never
//! allocate.
//!
//! # Safety
//!
//! This module exists to hand out memory.
#![allow(unsafe_code)]

use dlmalloc::{Allocator, Dlmalloc};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, PAGE, Place, Protection, round_up};
use wordpatch::os::signals::thread_pointer;
use wordpatch::os::threads;

/// Blocks of this size are mappings of their own.
const LARGE: usize = 128 << 10;
/// The alignment of every block, unless more is requested: vector registers need it.
const ALIGN: usize = 16;
/// The generation of blocks that are mappings.
const MAPPED: u32 = 0;
/// The generation of blocks that stay.
const FOR_GOOD: u32 = u32::MAX;
/// Memory for those is mapped in pieces of this size.
const ROOM: usize = 64 << 10;

/// The address space that is put aside: until it is touched it takes no memory, and it is not
/// locked.
const SPARE: usize = 2 << 20;

const OPEN: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

/// What lies before a block.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    len: usize,
    /// From the start of what was allocated to the block.
    before: u32,
    generation: u32,
}

const _: () = assert!(size_of::<Header>() == ALIGN);

/// Where small blocks come from. The page before it holds its lock.
struct Arena {
    generation: u32,
    busy: AtomicBool,
    blocks: UnsafeCell<Dlmalloc<Mappings>>,
    kept: UnsafeCell<Kept>,
}

const _: () = assert!(size_of::<Arena>() <= PAGE);

/// Mappings that no block has. Neighbours stay apart: each is a part of one mapping of the
/// kernel's, so that it can be moved.
struct Kept {
    parts: [(usize, usize); Self::MOST],
    count: usize,
}

impl Kept {
    const MOST: usize = 64;

    /// Returns whether there is room for one more.
    fn put(&mut self, start: usize, len: usize) -> bool {
        let has_room = self.count < Self::MOST;
        if has_room {
            self.parts[self.count] = (start, len);
            self.count += 1;
        }
        has_room
    }

    /// The beginning of the smallest that is large enough.
    fn take(&mut self, len: usize) -> Option<usize> {
        let parts = self.parts[..self.count].iter().enumerate();
        let fits = parts.filter(|(_, part)| part.1 >= len).min_by_key(|(_, part)| part.1);
        let (at, (start, had)) = fits.map(|(at, part)| (at, *part))?;
        if had > len {
            self.parts[at] = (start + len, had - len);
        } else {
            self.count -= 1;
            self.parts[at] = self.parts[self.count];
        }
        Some(start)
    }
}

/// The address of the next block for a request that the kernel refuses, and that of the first one:
/// zero if nothing is put aside.
static SPARE_NEXT: AtomicUsize = AtomicUsize::new(0);
static SPARE_START: AtomicUsize = AtomicUsize::new(0);

/// Puts memory aside, unless the kernel refuses.
fn put_aside() {
    let Ok(start) = pages::reserve(SPARE) else { return };
    // SAFETY: (1) mapped above, and no other thread knows it.
    if unsafe { pages::protect(start, SPARE, Protection::ReadWrite) }.is_ok()
        && SPARE_START.compare_exchange(0, start.get(), AcqRel, Acquire).is_ok()
    {
        SPARE_NEXT.store(start.get(), Release);
    }
}

/// Memory that was put aside.
fn spare(len: usize) -> Option<*mut u8> {
    let end = SPARE_START.load(Acquire) + SPARE;
    let fits = |next: usize| next.checked_add(len).filter(|next_after| *next_after <= end);
    let next = SPARE_NEXT.fetch_update(AcqRel, Acquire, |next| (next != 0).then(|| fits(next))?);
    next.ok().map(std::ptr::with_exposed_provenance_mut)
}

/// Whether the kernel has refused so much that little is left.
pub(crate) fn is_short() -> bool {
    SPARE_NEXT.load(Relaxed) > SPARE_START.load(Relaxed) + SPARE / 2
}

static CURRENT: AtomicPtr<Arena> = AtomicPtr::new(std::ptr::null_mut());

/// An arena whose lock the calling thread holds.
struct Taken(&'static Arena);

impl Arena {
    /// A new one; `None` if there is no memory.
    fn create(generation: u32) -> Option<*mut Self> {
        // SAFETY: (1) a new mapping.
        let lock =
            unsafe { pages::map_private(Place::Anywhere, 2 * PAGE, Protection::ReadWrite).ok()? };
        if generation == MAPPED + 1 {
            put_aside();
        }
        // Refused by kernels before 4.14: there the child's handler opens the lock.
        let _ = pages::wipe_on_fork(lock, PAGE);
        let arena = lock.offset(PAGE as isize).as_ptr().cast_mut().cast::<Self>();
        let blocks = UnsafeCell::new(Dlmalloc::new_with_allocator(Mappings));
        let kept = UnsafeCell::new(Kept { parts: [(0, 0); Kept::MOST], count: 0 });
        // SAFETY: (1) mapped, aligned to a page, and no other thread knows it.
        unsafe { arena.write(Self { generation, busy: AtomicBool::new(false), blocks, kept }) };
        Some(arena)
    }

    fn lock(&self) -> &AtomicU32 {
        // SAFETY: (1) the page before an arena is its lock's, mapped for ever.
        unsafe { &*std::ptr::from_ref(self).byte_sub(PAGE).cast() }
    }

    fn take(&self) {
        let lock = self.lock();
        if lock.compare_exchange(OPEN, TAKEN, Acquire, Relaxed).is_err() {
            while lock.swap(AWAITED, Acquire) != OPEN {
                threads::sleep_while(lock, AWAITED);
            }
        }
    }

    fn give_back(&self) {
        if self.lock().swap(OPEN, Release) == AWAITED {
            threads::wake(self.lock());
        }
    }
}

impl Taken {
    /// The current arena, whole.
    fn current() -> Option<Self> {
        loop {
            let current = CURRENT.load(Acquire);
            // SAFETY: (1) null, or an arena, which is never unmapped.
            let Some(arena) = (unsafe { current.as_ref() }) else {
                replace(current, MAPPED + 1)?;
                continue;
            };
            arena.take();
            if arena.busy.load(Relaxed) {
                // The thread that was changing it exists only in the parent.
                arena.give_back();
                replace(current, arena.generation + 1)?;
                continue;
            }
            arena.busy.store(true, Relaxed);
            return Some(Self(arena));
        }
    }

    fn blocks(&mut self) -> &mut Dlmalloc<Mappings> {
        // SAFETY: (1) this thread has the lock.
        unsafe { &mut *self.0.blocks.get() }
    }

    fn kept(&mut self) -> &mut Kept {
        // SAFETY: as above.
        unsafe { &mut *self.0.kept.get() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.busy.store(false, Relaxed);
        self.0.give_back();
    }
}

/// Puts a new arena in the place of `old`, unless another thread has.
fn replace(old: *mut Arena, generation: u32) -> Option<()> {
    let new = Arena::create(generation)?;
    if CURRENT.compare_exchange(old, new, AcqRel, Acquire).is_err() {
        // SAFETY: (1) made above, and no other thread knows it.
        let _ = unsafe { pages::unmap(CodeAddr::from_ptr(new).offset(-(PAGE as isize)), 2 * PAGE) };
    }
    Some(())
}

/// In a forked child: opens the lock, even if the kernel does not support wiping pages.
pub(crate) fn inherit() {
    // SAFETY: (1) null, or an arena.
    if let Some(arena) = unsafe { CURRENT.load(Relaxed).as_ref() } {
        arena.lock().store(OPEN, Relaxed);
    }
    // The threads that had some exist only in the parent.
    HOARDS.store(0, Relaxed);
    if BUILDER.load(Relaxed) != thread_pointer() {
        BUILDER.store(0, Relaxed);
    }
}

/// How many there are.
static HOARDS: AtomicU32 = AtomicU32::new(0);

/// While this lives, large blocks that are freed are kept for others.
#[derive(Debug)]
pub(crate) struct Hoard(());

impl Hoard {
    pub(crate) fn begin() -> Self {
        HOARDS.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        if HOARDS.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        let Some(mut arena) = Taken::current() else { return };
        let kept = arena.kept();
        for (start, len) in kept.parts.iter().take(std::mem::take(&mut kept.count)) {
            // SAFETY: (1) no block's.
            let _ = unsafe { pages::unmap(CodeAddr::new(*start), *len) };
        }
    }
}

/// A mapping for a block, and whether it is known to be zero: a kept one is not.
fn take_mapping(len: usize) -> (Option<*mut u8>, bool) {
    if HOARDS.load(Relaxed) > 0
        && let Some(mut arena) = Taken::current()
        && let Some(start) = arena.kept().take(round_up(len))
    {
        return (Some(std::ptr::with_exposed_provenance_mut(start)), false);
    }
    (map(len), true)
}

/// Gives a mapping back.
///
/// # Safety
/// No block has it.
unsafe fn leave_mapping(start: *mut u8, len: usize) {
    if HOARDS.load(Relaxed) > 0
        && let Some(mut arena) = Taken::current()
        && arena.kept().put(start.expose_provenance(), len)
    {
        return;
    }
    // SAFETY: (1) the caller.
    let _ = unsafe { pages::unmap(CodeAddr::from_ptr(start), len) };
}

/// The thread that allocates for good, by its thread pointer; zero if there is none.
static BUILDER: AtomicUsize = AtomicUsize::new(0);
/// The address of its next block, and the end of its memory.
static NEXT: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Blocks that this thread allocates in `act` are permanent, except for those that it frees there
/// at once. Used for tables that are made once.
pub(crate) fn for_good<R>(act: impl FnOnce() -> R) -> R {
    let is_first = BUILDER.compare_exchange(0, thread_pointer(), Acquire, Relaxed).is_ok();
    let made = act();
    if is_first {
        BUILDER.store(0, Release);
    }
    made
}

/// Whether the calling thread allocates for good.
fn builds() -> bool {
    let builder = BUILDER.load(Relaxed);
    builder != 0 && builder == thread_pointer()
}

/// A block that stays. By the thread that builds.
fn build(len: usize, align: usize) -> Option<*mut u8> {
    let place = |next: usize| (next + ALIGN).next_multiple_of(align);
    let mut next = NEXT.load(Relaxed);
    if place(next) + len > END.load(Relaxed) {
        let room = round_up((len + align + ALIGN).max(ROOM));
        let start = map(room)?;
        pages::populate(CodeAddr::from_ptr(start), room);
        next = start.expose_provenance();
        END.store(next + room, Relaxed);
    }
    let block = place(next);
    NEXT.store(block + len, Relaxed);
    let block: *mut u8 = std::ptr::with_exposed_provenance_mut(block);
    // SAFETY: (1) behind what was there before, and inside; (2) aligned to a header's alignment.
    unsafe {
        block.cast::<Header>().sub(1).write(Header { len, before: 0, generation: FOR_GOOD });
    };
    Some(block)
}

/// Changes the length of a permanent block, if it is the last one and there is room. Called by the
/// thread that builds.
fn rebuild(block: *mut u8, old: usize, len: usize) -> bool {
    let is_last = block.addr() + old == NEXT.load(Relaxed);
    let fits = is_last && block.addr() + len <= END.load(Relaxed);
    if fits {
        NEXT.store(block.addr() + len, Relaxed);
        // SAFETY: (1) its own header.
        unsafe { (*block.cast::<Header>().sub(1)).len = len };
    }
    fits
}

/// The mappings that `dlmalloc` requests from the kernel.
struct Mappings;

// SAFETY: (1) every region is a mapping of its own, which only `dlmalloc` gives back.
unsafe impl Allocator for Mappings {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match map(size) {
            Some(at) => (at, round_up(size), 0),
            None => (std::ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _at: *mut u8, _old: usize, _new: usize, _can_move: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, at: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: (1) `dlmalloc` has no use for it any more.
        unsafe { pages::unmap(CodeAddr::from_ptr(at).offset(new as isize), old - new).is_ok() }
    }

    fn free(&self, at: *mut u8, size: usize) -> bool {
        // SAFETY: as above.
        unsafe { pages::unmap(CodeAddr::from_ptr(at), size).is_ok() }
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

fn map(size: usize) -> Option<*mut u8> {
    let len = round_up(size);
    // SAFETY: (1) a new mapping.
    let at = unsafe { pages::map_private(Place::Anywhere, len, Protection::ReadWrite) };
    at.ok().map(|at| at.as_ptr().cast_mut()).or_else(|| spare(len))
}

/// A block of `len` bytes; null if there is no memory. `align` is a power of two.
pub(crate) fn allocate(len: usize, align: usize) -> *mut u8 {
    allocate_or_find(len, align).0
}

/// The same, filled with zeros.
pub(crate) fn allocate_zeros(len: usize, align: usize) -> *mut u8 {
    let (block, is_zero) = allocate_or_find(len, align);
    if !block.is_null() && !is_zero {
        // SAFETY: (1) as long as was asked.
        unsafe { block.write_bytes(0, len) };
    }
    block
}

/// A block, and whether it is known to be zero.
fn allocate_or_find(len: usize, align: usize) -> (*mut u8, bool) {
    const NONE: (*mut u8, bool) = (std::ptr::null_mut(), false);
    let align = align.max(ALIGN);
    // The block lies `align` behind a start that is aligned as well, and at most so far behind that
    // of a mapping.
    let room = len
        .checked_add(align)
        .filter(|&room| room <= isize::MAX as usize - PAGE && u32::try_from(align).is_ok());
    let Some(room) = room else { return NONE };
    if room < LARGE && builds() {
        return build(len, align).map_or(NONE, |block| (block, false));
    }
    let mut is_zero = false;
    let (start, generation) = if room >= LARGE {
        let start;
        (start, is_zero) = take_mapping(room);
        (start, MAPPED)
    } else if let Some(mut arena) = Taken::current() {
        // SAFETY: (1) neither is zero.
        let start = unsafe { arena.blocks().malloc(room, align) };
        (Some(start).filter(|start| !start.is_null()), arena.0.generation)
    } else {
        (None, MAPPED)
    };
    let Some(start) = start else { return NONE };
    let before = (start.addr() + ALIGN).next_multiple_of(align) - start.addr();
    let block = start.wrapping_add(before);
    if generation == MAPPED {
        // If the kernel's address was aligned better than to a page, some memory is left over.
        let (used, mapped) = (round_up(before + len), round_up(room));
        if used < mapped {
            // SAFETY: (1) mapped above, and behind the block.
            unsafe { leave_mapping(start.wrapping_add(used), mapped - used) };
        }
    }
    // SAFETY: (1) `before` is at least a header and at most `align`; (2) the block is aligned to a
    // header's alignment.
    unsafe {
        block.cast::<Header>().sub(1).write(Header { len, before: before as u32, generation });
    };
    (block, is_zero)
}

/// The header of a block.
///
/// # Safety
/// The block is one of ours, and not freed.
unsafe fn header(block: *mut u8) -> Header {
    // SAFETY: (1) the caller.
    unsafe { block.cast::<Header>().sub(1).read() }
}

/// Frees a block.
///
/// # Safety
/// It is one of ours, or null, and is not used afterwards.
pub(crate) unsafe fn release(block: *mut u8) {
    if block.is_null() {
        return;
    }
    // SAFETY: (1) the caller.
    let Header { len, before, generation } = unsafe { header(block) };
    let start = block.wrapping_sub(before as usize);
    if generation == MAPPED {
        // SAFETY: (1) what `allocate` has left of the mapping that it made for this block.
        unsafe { leave_mapping(start, round_up(len + before as usize)) };
    } else if generation == FOR_GOOD {
        if builds() {
            rebuild(block, len, 0);
        }
    } else if let Some(mut arena) = Taken::current()
        && arena.0.generation == generation
    {
        // SAFETY: (1) allocated by this arena: in front of the block lies as much as its alignment.
        unsafe { arena.blocks().free(start, len + before as usize, before as usize) };
    }
}

/// A block with the contents of `block`, as far as there is room; null, and `block` as it was, if
/// there is no memory.
///
/// # Safety
/// `block` is one of ours, or null; it is not used afterwards if there is a new one.
pub(crate) unsafe fn resize(block: *mut u8, len: usize) -> *mut u8 {
    if block.is_null() {
        return allocate(len, ALIGN);
    }
    // SAFETY: (1) the caller.
    let old = unsafe { header(block) };
    let fits = len <= old.len && len >= old.len / 2;
    if fits || (old.generation == FOR_GOOD && builds() && rebuild(block, old.len, len)) {
        return block;
    }
    if old.generation == MAPPED && len >= LARGE {
        // SAFETY: (1) the caller.
        return unsafe { resize_mapping(block, old, len) };
    }
    let new = allocate(len, ALIGN);
    if !new.is_null() {
        // SAFETY: (1) both are as long at least; (2) the caller.
        unsafe {
            std::ptr::copy_nonoverlapping(block, new, old.len.min(len));
            release(block);
        }
    }
    new
}

/// The same for a block that is a mapping of its own and stays one: its pages move, not their
/// contents.
///
/// # Safety
/// As for [`resize`]; `old` is its header.
unsafe fn resize_mapping(block: *mut u8, old: Header, len: usize) -> *mut u8 {
    let before = old.before as usize;
    let Some(wanted) = len.checked_add(before).filter(|&len| len <= isize::MAX as usize - PAGE)
    else {
        return std::ptr::null_mut();
    };
    let start = CodeAddr::from_ptr(block.wrapping_sub(before));
    // SAFETY: (1) what `allocate` has left of the mapping that it made for this block; (2) the
    // caller.
    let moved = unsafe { pages::grow(start, round_up(old.len + before), round_up(wanted)) };
    let Ok(moved) = moved else { return std::ptr::null_mut() };
    let block = moved.as_ptr().cast_mut().wrapping_add(before);
    // SAFETY: (1) the header has moved with the block.
    unsafe { block.cast::<Header>().sub(1).write(Header { len, ..old }) };
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A freed block may be another test's block a moment later.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Numbers that look random.
    fn random(state: &mut u64) -> usize {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    }

    /// A block, and what it is filled with.
    struct Filled {
        block: *mut u8,
        len: usize,
        byte: u8,
    }

    impl Filled {
        fn new(len: usize, align: usize, byte: u8) -> Self {
            let block = allocate(len, align);
            assert!(
                !block.is_null() && block.addr().is_multiple_of(align.max(ALIGN)),
                "{block:?} for {align}"
            );
            // SAFETY: (1) as long as was asked.
            unsafe { block.write_bytes(byte, len) };
            Self { block, len, byte }
        }

        fn is_whole(&self) -> bool {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(self.block, self.len) }
                .iter()
                .all(|&byte| byte == self.byte)
        }

        fn resize(mut self, len: usize) -> Self {
            // SAFETY: (1) one of ours, which is not used afterwards.
            self.block = unsafe { resize(self.block, len) };
            self.len = self.len.min(len);
            assert!(self.is_whole() && self.block.addr().is_multiple_of(ALIGN));
            // SAFETY: (1) as long as was asked.
            unsafe { self.block.write_bytes(self.byte, len) };
            self.len = len;
            self
        }

        fn release(self) {
            assert!(self.is_whole());
            // SAFETY: (1) one of ours, which is not used afterwards.
            unsafe { release(self.block) };
        }
    }

    fn churn(seed: u64) {
        let mut state = seed;
        let mut blocks: Vec<Filled> = Vec::new();
        for round in 0..4000 {
            let len = random(&mut state) % [24, 500, 5_000, 300_000][random(&mut state) % 4];
            match random(&mut state) % 3 {
                0 if !blocks.is_empty() => {
                    blocks.swap_remove(random(&mut state) % blocks.len()).release();
                }
                1 if !blocks.is_empty() => {
                    let block = blocks.swap_remove(random(&mut state) % blocks.len());
                    blocks.push(block.resize(len));
                }
                _ => blocks.push(Filled::new(len, 1 << (random(&mut state) % 15), round as u8)),
            }
            while blocks.len() > 60 {
                blocks.swap_remove(0).release();
            }
        }
        blocks.into_iter().for_each(Filled::release);
    }

    #[test]
    fn blocks_are_aligned_and_keep_what_they_hold_while_several_threads_have_some() {
        let _alone = ALONE.lock().unwrap();
        std::thread::scope(|scope| {
            for seed in 1..4 {
                scope.spawn(move || churn(seed));
            }
        });
    }

    #[test]
    fn what_cannot_be_had_is_null_and_leaves_what_is_there() {
        let _alone = ALONE.lock().unwrap();
        let block = Filled::new(100, 1, 7);
        for len in [usize::MAX, isize::MAX as usize, 1 << 60] {
            assert!(allocate(len, 1).is_null() && allocate(len, 4096).is_null());
            // SAFETY: (1) one of ours.
            assert!(unsafe { resize(block.block, len) }.is_null());
        }
        block.release();
    }

    #[test]
    fn large_blocks_go_back_to_the_kernel() {
        let _alone = ALONE.lock().unwrap();
        let goes_back = |align| {
            let (len, block) = (64 << 20, Filled::new(64 << 20, align, 1));
            let middle =
                block.block.wrapping_add(len / 2).map_addr(|address| address & !(PAGE - 1));
            // SAFETY: (1) the call only looks whether something is mapped there.
            let is_mapped = || unsafe { libc::msync(middle.cast(), PAGE, libc::MS_ASYNC) == 0 };
            assert!(is_mapped());
            block.release();
            !is_mapped()
        };
        for align in [1, 64, 4096, 1 << 16] {
            // Another test's thread may map something there in between.
            assert!((0..100).any(|_| goes_back(align)), "{align}");
        }
    }

    #[test]
    fn large_blocks_are_used_again_while_there_is_a_hoard() {
        let _alone = ALONE.lock().unwrap();
        let hoard = Hoard::begin();
        let first = Filled::new(1 << 20, 1, 3);
        let at = first.block;
        first.release();
        // The smallest that is large enough, and what is left of it.
        let (half, other) = (Filled::new(1 << 19, 1, 4), Filled::new(1 << 18, 1, 5));
        assert_eq!(half.block, at);
        assert!((at.addr()..at.addr() + (1 << 20)).contains(&other.block.addr()));
        half.release();
        let zeros = allocate_zeros(1 << 19, 1);
        assert_eq!(zeros, at);
        // SAFETY: (1) as long as was asked.
        let is_zero = unsafe { std::slice::from_raw_parts(zeros, 1 << 19) };
        assert!(is_zero.iter().all(|&byte| byte == 0));
        // One that grows moves with its pages, wherever it lies.
        let grown = other.resize(3 << 20);
        grown.release();
        // SAFETY: (1) one of ours, which is not used afterwards.
        unsafe { release(zeros) };
        drop(hoard);
        assert_eq!(Taken::current().unwrap().kept().count, 0);
    }

    #[test]
    fn what_the_kernel_refuses_comes_from_what_was_put_aside() {
        let _alone = ALONE.lock().unwrap();
        Filled::new(100, 1, 7).release();
        // SAFETY: (1) the child calls what a child of several threads may, and this module's
        // functions.
        let status = unsafe {
            let child = libc::syscall(libc::SYS_fork) as i32;
            if child == 0 {
                inherit();
                let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
                let is_limited = libc::setrlimit(libc::RLIMIT_AS, &raw const none) == 0;
                let was_short = is_short();
                let mut blocks = (0..1000).take_while(|_| !is_short());
                let all = blocks.all(|_| !allocate(64 << 10, 1).is_null());
                let is_over = allocate(SPARE, 1).is_null();
                let rights = [is_limited, !was_short, all, is_short(), is_over];
                libc::_exit(rights.iter().position(|right| !right).map_or(0, |at| at as i32 + 1));
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        assert_eq!(status, 0);
    }

    #[test]
    fn what_stays_lies_side_by_side_and_what_is_freed_at_once_is_not_there() {
        let _alone = ALONE.lock().unwrap();
        let (first, second, grown) = for_good(|| {
            let first = Filled::new(100, 1, 1);
            Filled::new(1000, 64, 2).release();
            let second = Filled::new(100, 1, 3);
            let grown = Filled::new(50, 1, 4).resize(500).resize(ROOM - 500).resize(60);
            churn(7);
            (first, second, grown)
        });
        let apart = second.block.addr() - first.block.addr();
        assert!((100..200).contains(&apart), "{apart}");
        let after = Filled::new(100, 1, 5);
        // SAFETY: (1) one of ours.
        assert_ne!(unsafe { header(after.block) }.generation, FOR_GOOD);
        [first, second, grown, after].into_iter().for_each(Filled::release);
    }

    #[test]
    fn a_child_that_is_forked_while_another_thread_allocates_has_an_arena_of_its_own() {
        let before = Filled::new(100, 1, 7);
        let (ready, done) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let status = std::thread::scope(|scope| {
            scope.spawn(|| {
                let taken = Taken::current();
                ready.wait();
                done.wait();
                drop(taken);
            });
            ready.wait();
            // SAFETY: (1) the child calls what a child of several threads may, and this module's
            // functions.
            let status = unsafe {
                let child = libc::syscall(libc::SYS_fork) as i32;
                if child == 0 {
                    libc::alarm(20);
                    let block = allocate(100, 1);
                    release(before.block);
                    let is_new = !block.is_null()
                        && header(block).generation != header(before.block).generation;
                    release(block);
                    libc::syscall(libc::SYS_exit_group, if is_new { 5 } else { 6 });
                }
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                status
            };
            done.wait();
            status
        });
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 5, "{status:x}");
        before.release();
    }
}
