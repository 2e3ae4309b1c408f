//! Patch regions: bytes of running code that were prepared for stores, without a rule about the
//! order of the stores.
//!
//! A [`PatchSite`](crate::PatchSite) replaces words by the one protocol that suits every word. A
//! caller that knows more about the instructions there, such as one that toggles calls, may need
//! only single stores in its own order. It gets what adoption proves (mapped, code, writable by the
//! policy's access), and a function that stores to the bytes.
//!
//! # Safety
//!
//! This module exists to make stores at writable addresses. The caller's protocol decides which
//! bytes may be stored, and when.
#![allow(unsafe_code)]

use crate::access::{self, Access, Refusal, Window};
use crate::addr::CodeAddr;
use crate::live::{self, Width};
use crate::word::Word;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// One to eight bytes of running code that can be stored to. Made by
/// [`Survey::patch_region`](crate::Survey::patch_region).
#[derive(Debug)]
pub struct PatchRegion {
    range: Range<CodeAddr>,
    /// The distance to the writable address; zero outside of code memory.
    alias: isize,
    access: Access,
    /// Whether the pages have still to be made writable, under [`Access::RwxLazy`].
    locked: AtomicBool,
}

impl PatchRegion {
    pub(crate) fn new(range: Range<CodeAddr>, alias: isize, access: Access) -> Self {
        Self { range, alias, access, locked: AtomicBool::new(access == Access::RwxLazy) }
    }

    /// The address of its first byte.
    pub fn address(&self) -> CodeAddr {
        self.range.start
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.range.end.distance_from(self.range.start) as usize
    }

    /// How its bytes are written; with [`Access::ProcMem`], one by one.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Prefetches the line for writing. Code that loads first and stores then would wait for it
    /// twice if another core has it.
    #[inline]
    pub fn fetch(&self) {
        live::fetch(self.range.start.offset(self.alias));
    }

    /// The current byte at offset `at`.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        debug_assert!(at < self.len(), "byte {at} of {}", self.len());
        // SAFETY: (1) mapped and readable since adoption, and kept so by the adopter; (2) `at` lies
        // inside.
        unsafe { live::load_byte(self.range.start.offset(at as isize)) }
    }

    /// All current bytes. Exact while no thread changes them.
    pub fn read(&self) -> Word {
        // SAFETY: (1) mapped and readable since adoption, and kept so by the adopter.
        let bytes = unsafe { live::load(self.range.start, self.len()) };
        Word::from_u64(bytes, self.len())
            .unwrap_or_else(|| unreachable!("region has one to eight bytes"))
    }

    /// Stores the low `width` bytes of `value`, `at` bytes from the first; where pages are writable
    /// that is one machine store. Usable in a signal handler.
    ///
    /// # Safety
    /// 1. The bytes lie inside of the region. 2. A thread that executes them meanwhile may see the
    ///    old or the new ones, and both are valid; under [`Access::ProcMem`] also any mixture. 3.
    ///    No other code stores to them at the same time.
    #[inline]
    pub unsafe fn store(&self, at: usize, width: Width, value: u64) -> Result<(), Refusal> {
        if self.access == Access::Rwx {
            // SAFETY: (1) adopted: mapped and writable through the alias; (2) and (3) the caller.
            unsafe { live::store(self.range.start.offset(self.alias + at as isize), width, value) };
            return Ok(());
        }
        // SAFETY: (1) to (3) the caller.
        unsafe { self.store_through_window(at, width, value) }
    }

    #[cold]
    unsafe fn store_through_window(
        &self,
        at: usize,
        width: Width,
        value: u64,
    ) -> Result<(), Refusal> {
        self.unlock_if_new()?;
        let window = Window::open(self.access, std::iter::once(self.range.clone()))?;
        // SAFETY: (1) to (3) the caller.
        unsafe { window.store(self.range.start.offset(at as isize), self.alias, width, value) }
    }

    /// Makes the pages writable if this is the first store under [`Access::RwxLazy`].
    fn unlock_if_new(&self) -> Result<(), Refusal> {
        if self.locked.load(Ordering::Relaxed) {
            access::unlock(self.access, &self.range)?;
            self.locked.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A window in which many patch regions can be written, open while it lives. Keep it short, and
/// never across a barrier: signals may be blocked on this thread meanwhile.
#[must_use = "pages are writable only while it lives"]
pub struct Opening {
    windows: Vec<(Access, Window)>,
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.windows.iter().map(|(access, _)| access)).finish()
    }
}

impl Opening {
    /// Opens the pages of all `regions`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "an iterator is walked several times, from copies"
    )]
    pub fn of<'g>(regions: impl Iterator<Item = &'g PatchRegion> + Clone) -> Result<Self, Refusal> {
        let mut opening = Self { windows: Vec::new() };
        for region in regions.clone() {
            region.unlock_if_new()?;
            let access = region.access;
            if opening.windows.iter().all(|(known, _)| *known != access) {
                let same = regions
                    .clone()
                    .filter(|region| region.access == access)
                    .map(|region| region.range.clone());
                opening.windows.push((access, Window::open(access, same)?));
            }
        }
        Ok(opening)
    }

    /// As [`PatchRegion::store`], for one of the patch regions that this was opened for.
    ///
    /// # Safety
    /// As for [`PatchRegion::store`].
    ///
    /// # Panics
    /// If no patch region with the same access was opened.
    #[inline]
    pub unsafe fn store(
        &self,
        region: &PatchRegion,
        at: usize,
        width: Width,
        value: u64,
    ) -> Result<(), Refusal> {
        let window = self.windows.iter().find(|(access, _)| *access == region.access);
        let (_, window) = window.expect("the region is one of those that were opened");
        // SAFETY: (1) to (3) the caller.
        unsafe { window.store(region.range.start.offset(at as isize), region.alias, width, value) }
    }
}
