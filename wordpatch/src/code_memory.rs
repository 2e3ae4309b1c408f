//! Memory for code of our own: mapped twice, once to execute and once to write, never both in one mapping.
//!
//! ```text
//!    memory file  ──┬── [ r-x ]  at base()      what cores fetch
//!                   └── [ rw- ]  at writable()  where we store
//! ```
//!
//! In-flight checks of the processor use physical addresses, so a store through the second mapping is seen like one through the
//! first (AMD64 APM volume 2, section 7.6.1). A forked child gets a copy of its own: without that, its patches would appear
//! in the parent.
//!
//! # Safety
//!
//! This module exists to own mappings by raw address. What lies inside is written by whoever fills it, through
//! [`CodeMemory::write`], and through patch sites afterwards.
#![allow(unsafe_code)]

use crate::access::Access;
use crate::addr::CodeAddr;
use crate::flight;
use crate::fork;
use crate::ground::Ground;
use crate::lock::Lock;
use crate::os::{
    OsError,
    pages::{self, PAGE, Place, Protection},
};
use std::ops::Range;
use std::sync::MutexGuard;

/// One region of code memory.
#[derive(Debug)]
pub struct CodeMemory {
    span: Span,
}

/// Where a region lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    base: CodeAddr,
    writable: CodeAddr,
    len: usize,
}

/// A region, as a forked child has to know it.
#[derive(Debug)]
pub(crate) struct Region {
    span: Span,
    /// The pages that were written to, as ranges of offsets: a region may be large and mostly empty.
    written: Vec<Range<usize>>,
}

impl Region {
    fn note(&mut self, range: Range<usize>) {
        let pages = range.start & !(PAGE - 1)..pages::round_up(range.end);
        match self.written.iter_mut().find(|known| known.start <= pages.end && pages.start <= known.end) {
            Some(known) => *known = known.start.min(pages.start)..known.end.max(pages.end),
            None => self.written.push(pages),
        }
    }
}

/// The regions that exist. Taken when a region is made, dropped or looked up, and held across fork so that the child can
/// walk it; never on the path of a patch.
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

    /// Puts code memory of the same contents where code is mapped. Threads may be executing it: whoever comes by in between waits for
    /// the new mapping.
    ///
    /// # Safety
    /// The caller owns the whole pages from `at` on that hold `len` bytes, which are readable; nobody unmaps them but the new owner, and nobody writes to
    /// them meanwhile.
    pub unsafe fn over(at: CodeAddr, len: usize) -> Result<Self, OsError> {
        fork::prepare();
        let len = pages::round_up(len.max(1));
        let file = pages::memory_file(c"fastinst-code", len)?;
        // SAFETY: (1) a new mapping.
        let writable = unsafe { pages::map_file(Place::Anywhere, len, Protection::ReadWrite, &file)? };
        // SAFETY: (1) the caller, for what is read; (2) the copy is ours, and new.
        let replaced = unsafe {
            copy_quads(at, writable, 0..len);
            pages::map_file(Place::Over(at), len, Protection::ReadExecute, &file)
        };
        if let Err(error) = replaced {
            // SAFETY: (1) mapped above and not handed out.
            unsafe { pages::unmap(writable, len)? };
            return Err(error);
        }
        let span = Span { base: at, writable, len };
        // One range, all of it written.
        let written = std::iter::once(0..len).collect();
        regions().push(Region { span, written });
        Ok(Self { span })
    }

    fn placed(place: Place, len: usize) -> Result<Self, OsError> {
        fork::prepare();
        let len = pages::round_up(len.max(1));
        let file = pages::memory_file(c"fastinst-code", len)?;
        // SAFETY: (1) `placed` is never given `Place::Over`, so that both mappings are new.
        let base = unsafe { pages::map_file(place, len, Protection::ReadExecute, &file)? };
        // SAFETY: as above.
        let writable = match unsafe { pages::map_file(Place::Anywhere, len, Protection::ReadWrite, &file) } {
            Ok(writable) => writable,
            Err(error) => {
                // SAFETY: (1) mapped above and not handed out.
                unsafe { pages::unmap(base, len)? };
                return Err(error);
            }
        };
        let span = Span { base, writable, len };
        regions().push(Region { span, written: Vec::new() });
        Ok(Self { span })
    }

    /// Where its code is executed.
    pub fn base(&self) -> CodeAddr {
        self.span.base
    }

    /// Its size in bytes: whole pages.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.span.len
    }

    /// Has the first `len` bytes there at once, instead of page by page when they are written for the first time.
    pub fn populate(&self, len: usize) {
        pages::populate(self.span.writable, len.min(self.span.len));
    }

    /// The writable address of the byte that is executed at `base() + offset`. A forked child gets what is stored there if
    /// [`write`](Self::write) has put something on the same page.
    pub fn writable(&self, offset: usize) -> CodeAddr {
        assert!(offset <= self.span.len, "offset {offset} lies outside of {} bytes of code memory", self.span.len);
        self.span.writable.offset(offset as isize)
    }

    /// Bytes of it, ready for single stores: nothing has to be looked up, since it is our own.
    ///
    /// # Safety
    /// The memory outlives it.
    ///
    /// # Panics
    /// If there are none, more than eight, or some outside.
    pub unsafe fn ground(&self, offset: usize, len: usize) -> Ground {
        assert!((1..=8).contains(&len) && offset + len <= self.span.len, "{len} bytes at {offset} of code memory");
        let start = self.base().offset(offset as isize);
        let alias = self.span.writable.distance_from(self.span.base);
        Ground::new(start..start.offset(len as isize), alias, Access::Rwx)
    }

    /// Copies `code` to `offset`. For code that nobody executes yet.
    pub fn write(&mut self, offset: usize, code: &[u8]) {
        let end = offset.checked_add(code.len());
        assert!(end.is_some_and(|end| end <= self.span.len), "code at {offset} runs over the end of its memory");
        // SAFETY: (1) the range was checked to lie inside the writable mapping, which lives as long as `self`; (2) `code` is
        // somebody's slice and no reference to our mapping is ever made, so they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), self.writable(offset).get() as *mut u8, code.len());
        }
        if let Some(region) = regions().iter_mut().find(|region| region.span == self.span) {
            region.note(offset..offset + code.len());
        }
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        let Span { base, writable, len } = self.span;
        flight::abandon(&(base..base.offset(len as isize)));
        regions().retain(|region| region.span != self.span);
        // SAFETY: (1) both mappings were made in `placed` and are owned by `self`; (2) code in them is no longer executed:
        // whoever calls into a region keeps its `CodeMemory`.
        let _ = unsafe { (pages::unmap(base, len), pages::unmap(writable, len)) };
    }
}

/// The distance from where `[at, at + len)` is executed to where it is written, if it lies in one of our regions.
pub(crate) fn alias_of(at: CodeAddr, len: usize) -> Option<isize> {
    let inside = |s: &Span| s.base <= at && at.distance_from(s.base) as usize + len <= s.len;
    regions().iter().map(|region| region.span).find(inside).map(|s| s.writable.distance_from(s.base))
}

fn regions() -> MutexGuard<'static, Vec<Region>> {
    REGIONS.lock()
}

/// Gives a forked child regions of its own. The parent waits meanwhile, see [`fork`](crate::fork).
pub(crate) fn separate_all(regions: &[Region]) {
    for region in regions {
        if separate(region).is_err() {
            // Going on would let this process's patches appear in its parent.
            std::process::abort();
        }
    }
}

/// Puts a private copy of a region where the shared one was.
fn separate(region: &Region) -> Result<(), OsError> {
    let Span { base, writable, len } = region.span;
    let file = pages::memory_file(c"fastinst-code", len)?;
    // SAFETY: (1) all mappings are of `len` bytes, and what was written lies inside; (2) the two that are replaced are this region's
    // own; (3) the child has one thread, which executes this function and not the region.
    unsafe {
        let copy = pages::map_file(Place::Anywhere, len, Protection::ReadWrite, &file)?;
        region.written.iter().for_each(|pages| copy_quads(base, copy, pages.clone()));
        pages::unmap(copy, len)?;
        pages::map_file(Place::Over(base), len, Protection::ReadExecute, &file)?;
        pages::map_file(Place::Over(writable), len, Protection::ReadWrite, &file)?;
    }
    Ok(())
}

/// Copies quadword by quadword: the parent may be replacing some of them by one store each.
///
/// # Safety
/// Both regions hold the range of whole pages, and only whole quadwords of the first are written meanwhile.
unsafe fn copy_quads(from: CodeAddr, to: CodeAddr, range: Range<usize>) {
    for offset in range.step_by(8) {
        let at = |base: CodeAddr| base.offset(offset as isize).get() as *mut u64;
        // SAFETY: (1) the caller; (2) pages are aligned.
        unsafe { at(to).write(at(from).read_volatile()) };
    }
}
