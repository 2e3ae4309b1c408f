//! Memory for generated code: mapped twice, once to execute and once to write, never both in one
//! mapping.
//!
//! ```text
//!    shared memory ──┬── [ r-x ]  at base()      what cores fetch
//!                    └── [ rw- ]  at writable()  where we store
//! ```
//!
//! The memory does not belong to a file: it needs no descriptor, and limits of files do not apply
//! to it.
//!
//! The processor checks for self-modifying code by physical address, so a store through the second
//! mapping has the same effect as one through the first (AMD64 APM volume 2, section 7.6.1). A
//! forked child gets its own copy: without that, its patches would appear in the parent. The parent
//! makes the copy before the fork, and the child moves it over the shared memory, which needs no
//! resources. If there was no memory for a copy, the child runs code that its parent may change.
//! The child's stores then go to memory that no thread executes, and its patches fail as if others
//! were always in progress.
//!
//! # Safety
//!
//! This module exists to own mappings by raw address. Its contents are written through
//! [`CodeMemory::write`] first, and through patch sites afterwards.
#![allow(unsafe_code)]

use crate::access::Access;
use crate::addr::CodeAddr;
use crate::fork;
use crate::lock::{Guard, Lock};
use crate::os::{
    OsError,
    pages::{self, PAGE, Place, Protection},
};
use crate::patch_in_progress;
use crate::patch_region::PatchRegion;
use std::ops::Range;

/// One region of code memory.
#[derive(Debug)]
pub struct CodeMemory {
    span: Span,
}

/// The addresses of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    base: CodeAddr,
    writable: CodeAddr,
    len: usize,
}

impl Span {
    /// Maps new memory twice.
    fn map(place: Place, len: usize) -> Result<Self, OsError> {
        Self::twice(pages::map_shared(place, len, Protection::ReadExecute)?, len)
    }

    /// The same for memory that will hardly be touched.
    fn map_sparse(at: CodeAddr, len: usize) -> Result<Self, OsError> {
        let base = pages::map_shared(Place::Free(at), len, Protection::None)?;
        pages::unlock(base, len);
        // SAFETY: (1) mapped above.
        let protected = unsafe { pages::protect(base, len, Protection::ReadExecute) };
        if let Err(error) = protected {
            // SAFETY: (1) mapped above and not handed out.
            unsafe { pages::unmap(base, len)? };
            return Err(error);
        }
        Self::twice(base, len)
    }

    /// Maps new memory at `base` again.
    fn twice(base: CodeAddr, len: usize) -> Result<Self, OsError> {
        // SAFETY: (1) the callers own the memory.
        match unsafe { pages::again(base, len, Protection::ReadWrite) } {
            Ok(writable) => Ok(Self { base, writable, len }),
            Err(error) => {
                // SAFETY: (1) mapped above and not handed out.
                unsafe { pages::unmap(base, len)? };
                Err(error)
            }
        }
    }

    /// Removes both mappings.
    ///
    /// # Safety
    /// No code uses them any more, and the caller owns them.
    unsafe fn unmap(self) -> Result<(), OsError> {
        // SAFETY: (1) the caller.
        unsafe { pages::unmap(self.base, self.len).and(pages::unmap(self.writable, self.len)) }
    }

    fn contains(&self, at: CodeAddr) -> bool {
        (0..self.len as isize).contains(&at.distance_from(self.base))
    }
}

/// The record of a region that a forked child needs.
#[derive(Debug)]
pub(crate) struct Region {
    span: Span,
    /// The pages that were written to, as ranges of offsets: a region may be large and mostly
    /// unused.
    written: Vec<Range<usize>>,
    /// The copy for a child that is being forked.
    copy: Option<Span>,
    /// In a forked child without a copy: the memory is the parent's.
    is_foreign: bool,
}

impl Region {
    fn new(span: Span, written: Vec<Range<usize>>) -> Self {
        Self { span, written, copy: None, is_foreign: false }
    }

    fn note(&mut self, range: Range<usize>) {
        let pages = range.start & !(PAGE - 1)..pages::round_up(range.end);
        // Writes are mostly in the order of addresses.
        match self
            .written
            .iter_mut()
            .rev()
            .find(|known| known.start <= pages.end && pages.start <= known.end)
        {
            Some(known) => *known = known.start.min(pages.start)..known.end.max(pages.end),
            None => self.written.push(pages),
        }
    }
}

/// The regions that exist. Locked when a region is made, dropped or looked up, and across a fork so
/// that the child can walk the list; never locked by a patch.
pub(crate) static REGIONS: Lock<Vec<Region>> = Lock::new(Vec::new());

impl CodeMemory {
    /// Maps at least `len` bytes of zeroed code memory anywhere.
    pub fn new(len: usize) -> Result<Self, OsError> {
        Self::placed(Place::Anywhere, len)
    }

    /// Maps at least `len` bytes of zeroed code memory at `at`, if nothing is mapped there.
    pub fn at(at: CodeAddr, len: usize) -> Result<Self, OsError> {
        Self::placed(Place::Free(at), len)
    }

    /// The same for memory of which only a few pages will be touched. Untouched pages take no
    /// memory, even if the program has locked all of its memory (mlockall(2)).
    pub fn sparse_at(at: CodeAddr, len: usize) -> Result<Self, OsError> {
        fork::prepare();
        let span = Span::map_sparse(at, pages::round_up(len.max(1)))?;
        regions().push(Region::new(span, Vec::new()));
        Ok(Self { span })
    }

    /// Replaces mapped code by code memory with the same contents. Threads may be executing it: a
    /// thread that reaches it meanwhile waits for the new mapping.
    ///
    /// # Safety
    /// The caller owns the whole pages from `at` on that hold `len` bytes, which are readable; only
    /// the new owner unmaps them, and no code writes to them meanwhile.
    pub unsafe fn over(at: CodeAddr, len: usize) -> Result<Self, OsError> {
        fork::prepare();
        let len = pages::round_up(len.max(1));
        let copy = Span::map(Place::Anywhere, len)?;
        // SAFETY: (1) the caller, for the memory that is read and replaced; (2) the copy is new,
        // and owned here.
        let replaced = unsafe {
            copy_quads(at, copy.writable, 0..len);
            pages::move_over(copy.base, at, len)
        };
        if let Err(error) = replaced {
            // SAFETY: (1) mapped above and not handed out.
            unsafe { copy.unmap()? };
            return Err(error);
        }
        let span = Span { base: at, ..copy };
        // One range, all of it written.
        let written = std::iter::once(0..len).collect();
        regions().push(Region::new(span, written));
        Ok(Self { span })
    }

    fn placed(place: Place, len: usize) -> Result<Self, OsError> {
        fork::prepare();
        let span = Span::map(place, pages::round_up(len.max(1)))?;
        regions().push(Region::new(span, Vec::new()));
        Ok(Self { span })
    }

    /// The address at which its code is executed.
    pub fn base(&self) -> CodeAddr {
        self.span.base
    }

    /// Its size in bytes, a multiple of the page size.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.span.len
    }

    /// Populates the first `len` bytes at once, instead of page by page at the first write.
    pub fn populate(&self, len: usize) {
        pages::populate(self.span.writable, len.min(self.span.len));
    }

    /// The writable address of the byte that is executed at `base() + offset`. A forked child gets
    /// stores there only if [`write`](Self::write) has written to the same page.
    pub fn writable(&self, offset: usize) -> CodeAddr {
        assert!(
            offset <= self.span.len,
            "offset {offset} lies outside of {} bytes of code memory",
            self.span.len
        );
        self.span.writable.offset(offset as isize)
    }

    /// Bytes of it, prepared for single stores. No lookup is needed, since the region is known.
    ///
    /// # Safety
    /// The memory outlives the result.
    ///
    /// # Panics
    /// If there are none, more than eight, or some outside.
    pub unsafe fn patch_region(&self, offset: usize, len: usize) -> PatchRegion {
        assert!(
            (1..=8).contains(&len) && offset + len <= self.span.len,
            "{len} bytes at {offset} of code memory"
        );
        let start = self.base().offset(offset as isize);
        let alias = self.span.writable.distance_from(self.span.base);
        PatchRegion::new(start..start.offset(len as isize), alias, Access::Rwx)
    }

    /// Copies `code` to `offset`. No thread may execute it yet.
    pub fn write(&mut self, offset: usize, code: &[u8]) {
        let end = offset.checked_add(code.len());
        assert!(
            end.is_some_and(|end| end <= self.span.len),
            "code at {offset} runs over the end of its memory"
        );
        // SAFETY: (1) the range was checked to lie inside the writable mapping, which lives as long
        // as `self`; (2) `code` is a slice of the caller's, and no reference to the mapping ever
        // exists, so they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                code.as_ptr(),
                self.writable(offset).get() as *mut u8,
                code.len(),
            );
        }
        if let Some(region) = regions().iter_mut().find(|region| region.span == self.span) {
            region.note(offset..offset + code.len());
        }
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        let Span { base, len, .. } = self.span;
        patch_in_progress::abandon(&(base..base.offset(len as isize)));
        regions().retain(|region| region.span != self.span);
        // SAFETY: (1) both mappings were made in `placed` and are owned by `self`; (2) code in them
        // is no longer executed: code that calls into a region keeps its `CodeMemory`.
        let _ = unsafe { self.span.unmap() };
    }
}

/// Whether the code at `at` lies in code memory.
pub fn is_code_memory(at: CodeAddr) -> bool {
    alias_of(at, 1).is_some()
}

/// The distance from the executable address of `[at, at + len)` to its writable address, if it lies
/// in a region.
pub(crate) fn alias_of(at: CodeAddr, len: usize) -> Option<isize> {
    let inside = |s: &Span| s.base <= at && at.distance_from(s.base) as usize + len <= s.len;
    regions()
        .iter()
        .map(|region| region.span)
        .find(inside)
        .map(|s| s.writable.distance_from(s.base))
}

fn regions() -> Guard<'static, Vec<Region>> {
    REGIONS.lock()
}

/// Before a fork: makes the child's copies, as far as there is memory. System calls and stores
/// only.
pub(crate) fn copy_all(regions: &mut [Region]) {
    for region in regions {
        let Ok(copy) = Span::map(Place::Anywhere, region.span.len) else { continue };
        for pages in &region.written {
            // SAFETY: (1) both have the same length, and the written pages lie inside; (2) the copy
            // is new.
            unsafe { copy_quads(region.span.base, copy.writable, pages.clone()) };
        }
        region.copy = Some(copy);
    }
}

/// In the parent, also if the fork failed: removes the copies.
pub(crate) fn drop_copies(regions: &mut [Region]) {
    for copy in regions.iter_mut().filter_map(|region| region.copy.take()) {
        // SAFETY: (1) made by `copy_all`, and no other code has its address.
        let _ = unsafe { copy.unmap() };
    }
}

/// Gives a forked child its own regions. Returns whether that worked for all.
pub(crate) fn separate_all(regions: &mut [Region]) -> bool {
    for region in regions.iter_mut() {
        let Span { base, writable, len } = region.span;
        let separated = region.copy.take().is_some_and(|copy| {
            // SAFETY: (1) all four have `len` bytes, and belong to this process; (2) the child has
            // one thread, which executes this function and not the region.
            unsafe {
                pages::move_over(copy.base, base, len)
                    .and(pages::move_over(copy.writable, writable, len))
                    .is_ok()
            }
        });
        region.is_foreign |= !separated;
        if region.is_foreign {
            // SAFETY: (1) the region's own mapping, which no thread executes. If that fails, too,
            // stores reach the parent.
            let _ =
                unsafe { pages::map_private(Place::Over(writable), len, Protection::ReadWrite) };
        }
    }
    !regions.iter().any(|region| region.is_foreign)
}

/// Whether the code at `at` is in code memory that belongs to the process that has forked this one.
pub(crate) fn is_foreign(at: CodeAddr) -> bool {
    regions().iter().any(|region| region.is_foreign && region.span.contains(at))
}

/// Copies quadword by quadword: the parent may be replacing some of them by one store each.
///
/// # Safety
/// Both regions hold the range of whole pages, and the first one is written meanwhile by whole
/// quadwords only.
unsafe fn copy_quads(from: CodeAddr, to: CodeAddr, range: Range<usize>) {
    for offset in range.step_by(8) {
        let at = |base: CodeAddr| base.offset(offset as isize).get() as *mut u64;
        // SAFETY: (1) the caller; (2) pages are aligned.
        unsafe { at(to).write(at(from).read_volatile()) };
    }
}
