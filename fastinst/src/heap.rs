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
//! address space itself. So some memory is [put aside](mod@spare) at the beginning, and used in
//! this case; when half of it is used, the agent leaves ([`is_short`]).
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
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, PAGE, Place, Protection, round_up};
use wordpatch::os::signals::thread_pointer;
use wordpatch::os::threads;

mod hoard;
mod permanent;
mod spare;

pub(crate) use hoard::Hoard;
use hoard::{HOARDS, Kept, leave_mapping, take_mapping};
pub(crate) use permanent::for_good;
use permanent::{BUILDER, FOR_GOOD, build, builds, rebuild};
pub(crate) use spare::is_short;
use spare::{put_aside, spare};

/// Blocks of this size are mappings of their own.
const LARGE: usize = 128 << 10;
/// The alignment of every block, unless more is requested: vector registers need it.
const ALIGN: usize = 16;
/// The generation of blocks that are mappings.
const MAPPED: u32 = 0;

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
mod tests;
