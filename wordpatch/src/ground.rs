//! Ground: bytes of running code that were prepared for stores, without a rule about their order.
//!
//! A [`PatchSite`](crate::PatchSite) replaces words by the one protocol that suits every word. A
//! caller that knows more about the instructions there, such as one that toggles calls, may need
//! only single stores in its own order. It gets what adoption proves (mapped, code, writable by the
//! policy's access) and the way of a store to the bytes.
//!
//! # Safety
//!
//! This module exists to carry stores to where they can be written. Which bytes may be stored when
//! is its callers' protocol.
#![allow(unsafe_code)]

use crate::access::{self, Access, Refusal, Window};
use crate::addr::CodeAddr;
use crate::live::{self, Width};
use crate::word::Word;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// One to eight bytes of running code that can be stored to. Made by
/// [`Survey::ground`](crate::Survey::ground).
#[derive(Debug)]
pub struct Ground {
    range: Range<CodeAddr>,
    /// The distance to where the bytes are written; zero outside of our own code memory.
    alias: isize,
    access: Access,
    /// Whether the pages have still to be made writable, under [`Access::RwxLazy`].
    locked: AtomicBool,
}

impl Ground {
    pub(crate) fn new(range: Range<CodeAddr>, alias: isize, access: Access) -> Self {
        Self { range, alias, access, locked: AtomicBool::new(access == Access::RwxLazy) }
    }

    /// Where it begins.
    pub fn address(&self) -> CodeAddr {
        self.range.start
    }

    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.range.end.distance_from(self.range.start) as usize
    }

    /// How its bytes are written: one by one, if that is [`Access::ProcMem`].
    pub fn access(&self) -> Access {
        self.access
    }

    /// Asks for the line early, ready to be written: code that looks first and stores then would
    /// wait for it twice, if another core has it.
    #[inline]
    pub fn fetch(&self) {
        live::fetch(self.range.start.offset(self.alias));
    }

    /// The byte that is there, `at` bytes from the first.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        debug_assert!(at < self.len(), "byte {at} of {}", self.len());
        // SAFETY: (1) mapped and readable since adoption, and kept so by the adopter; (2) `at` lies
        // inside.
        unsafe { live::load_byte(self.range.start.offset(at as isize)) }
    }

    /// All bytes that are there. Exact while no thread changes them.
    pub fn read(&self) -> Word {
        // SAFETY: (1) mapped and readable since adoption, and kept so by the adopter.
        let bytes = unsafe { live::load(self.range.start, self.len()) };
        Word::from_u64(bytes, self.len())
            .unwrap_or_else(|| unreachable!("ground has one to eight bytes"))
    }

    /// Stores the low `width` bytes of `value`, `at` bytes from the first; where pages are writable
    /// that is one machine store. Usable in a signal handler.
    ///
    /// # Safety
    /// 1. The bytes lie inside of the ground. 2. A thread that executes them meanwhile may see the
    ///    old or the new ones, and either is right; under [`Access::ProcMem`] also any mixture. 3.
    ///    No other code else stores to them at this moment.
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

/// The way to the bytes of many grounds, open while it lives; for as short as can be, and never
/// across a barrier: signals may be blocked on this thread meanwhile.
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
    /// Opens the pages of all `grounds`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "an iterator is walked several times, from copies"
    )]
    pub fn of<'g>(grounds: impl Iterator<Item = &'g Ground> + Clone) -> Result<Self, Refusal> {
        let mut opening = Self { windows: Vec::new() };
        for ground in grounds.clone() {
            ground.unlock_if_new()?;
            let access = ground.access;
            if opening.windows.iter().all(|(known, _)| *known != access) {
                let same = grounds
                    .clone()
                    .filter(|ground| ground.access == access)
                    .map(|ground| ground.range.clone());
                opening.windows.push((access, Window::open(access, same)?));
            }
        }
        Ok(opening)
    }

    /// As [`Ground::store`], for one of the grounds that this was opened for.
    ///
    /// # Safety
    /// As for [`Ground::store`].
    ///
    /// # Panics
    /// If nothing of the ground's access was opened.
    #[inline]
    pub unsafe fn store(
        &self,
        ground: &Ground,
        at: usize,
        width: Width,
        value: u64,
    ) -> Result<(), Refusal> {
        let window = self.windows.iter().find(|(access, _)| *access == ground.access);
        let (_, window) = window.expect("the ground is one of those that were opened");
        // SAFETY: (1) to (3) the caller.
        unsafe { window.store(ground.range.start.offset(at as isize), ground.alias, width, value) }
    }
}
