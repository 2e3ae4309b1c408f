//! The ways to make code writable.
//!
//! | access | while no thread patches | a store costs | needs |
//! |---|---|---|---|
//! | alias | `r-x` here, `rw-` elsewhere | a store | [`CodeMemory`](crate::CodeMemory) |
//! | `rwx` | `rwx` | a store | the right to map writable code |
//! | `rwx-lazy` | `r-x` until the first patch of a site | a store | the same |
//! | `batch` | `r-x` | two `mprotect` a batch | the same, during the batch |
//! | `procmem` | `r-x` always | a system call a byte | /proc/self/mem to overrule protections |
//!
//! # Safety
//!
//! This module exists to write prepared stores to the memory of the code: through an alias, through
//! a page made writable, or through the kernel.
#![allow(unsafe_code)]

use crate::addr::CodeAddr;
use crate::address_map::{AddressMap, Entry};
use crate::live::{self, Width};
use crate::lock::{Guard, Lock};
use crate::os::{
    OsError, files,
    pages::{self, PAGE, Protection},
};
use std::fmt;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// The way in which a program's text is made writable. Code in [`CodeMemory`](crate::CodeMemory) is
/// always written through its alias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Pages that hold sites become writable when the first site in them is adopted, and stay so.
    /// The default.
    #[default]
    Rwx,
    /// The same, at a site's first patch.
    RwxLazy,
    /// Pages are writable only while a patch or a batch stores into them.
    Batch,
    /// Pages stay as they are: the kernel writes single bytes through /proc/self/mem.
    ProcMem,
}

impl Access {
    const NAMES: [(&'static str, Self); 4] = [
        ("rwx", Self::Rwx),
        ("rwx-lazy", Self::RwxLazy),
        ("batch", Self::Batch),
        ("procmem", Self::ProcMem),
    ];
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            Self::NAMES.iter().find(|(_, access)| access == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Access {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|&(_, access)| access).ok_or(())
    }
}

/// Pages that could not be made writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The first page.
    pub page: CodeAddr,
    /// The access that was tried.
    pub access: Access,
    /// The kernel's error.
    pub error: OsError,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, access, error } = self;
        let remedy = match access {
            Access::Rwx | Access::RwxLazy | Access::Batch => {
                "choose access procmem, or let the program map writable code (SELinux: execmod and execmem)"
            }
            Access::ProcMem => {
                "choose access rwx or batch, or boot without proc_mem.force_override=never"
            }
        };
        write!(f, "page {page} cannot be written with access {access} ({error}): {remedy}")
    }
}

/// A page that stays writable, until its code is unmapped.
#[derive(Debug)]
struct Unlocked {
    page: AtomicUsize,
    stays: AtomicBool,
}

impl Entry for Unlocked {
    fn vacant() -> Self {
        Self { page: AtomicUsize::new(0), stays: AtomicBool::new(false) }
    }

    fn key(&self) -> &AtomicUsize {
        &self.page
    }
}

/// The pages that no window may close, because sites in them are stored to at any time.
static UNLOCKED: AddressMap<Unlocked> = AddressMap::new();

/// The bounds of those pages; addresses outside are not searched for.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Whether the page at an address was made writable permanently: the crate may store to it at any
/// time. A program that protects its text itself has to leave such pages writable, or the next
/// store kills it. Usable in a signal handler.
pub fn stays_writable(page: CodeAddr) -> bool {
    let page = page.align_down(PAGE).get();
    (LOWEST.load(Relaxed)..=HIGHEST.load(Relaxed)).contains(&page) && is_unlocked(page)
}

fn is_unlocked(page: usize) -> bool {
    UNLOCKED.find(page).is_some_and(|entry| entry.stays.load(Relaxed))
}

/// The code of `range` has been unmapped, and no site in it is stored to: whatever is mapped there
/// from now on keeps its protection.
pub fn forget_unlocked(range: &Range<CodeAddr>) {
    let _no_window_meanwhile = WINDOWS.lock();
    let within = UNLOCKED.iter().filter(|entry| {
        let page = entry.key().load(Relaxed);
        page != 0 && range.contains(&CodeAddr::new(page))
    });
    within.for_each(|entry| entry.stays.store(false, Relaxed));
}

/// Restores the protection of pages in `range` that were made writable permanently: readable and
/// executable. No site on them may be stored to until [`unlock_again`].
///
/// # Safety
/// 1. `range` holds the code that sites were adopted in. 2. No thread stores to any of them now.
pub unsafe fn lock_again(range: &Range<CodeAddr>) -> Result<(), OsError> {
    // SAFETY: (1) and (2) the caller.
    unsafe { protect_unlocked(range, Protection::ReadExecute) }
}

/// Reverses [`lock_again`].
///
/// # Safety
/// 1. `range` holds the code that sites were adopted in.
pub unsafe fn unlock_again(range: &Range<CodeAddr>) -> Result<(), OsError> {
    // SAFETY: (1) the caller.
    unsafe { protect_unlocked(range, Protection::ReadWriteExecute) }
}

/// # Safety
/// As for its callers.
unsafe fn protect_unlocked(range: &Range<CodeAddr>, protection: Protection) -> Result<(), OsError> {
    let _no_window_meanwhile = WINDOWS.lock();
    let mut pages: Vec<usize> = UNLOCKED
        .iter()
        .filter(|entry| entry.stays.load(Relaxed))
        .map(|entry| entry.key().load(Relaxed))
        .filter(|&page| page != 0 && range.contains(&CodeAddr::new(page)))
        .collect();
    pages.sort_unstable();
    for run in pages.chunk_by(|before, page| before + PAGE == *page) {
        // SAFETY: (1) pages that were readable and executable before they were unlocked.
        unsafe { pages::protect(CodeAddr::new(run[0]), run.len() * PAGE, protection)? };
    }
    Ok(())
}

/// The pages that hold `word`.
fn pages_of(word: &Range<CodeAddr>) -> impl Iterator<Item = CodeAddr> {
    let (first, last) = (word.start.align_down(PAGE), word.end.offset(-1).align_down(PAGE));
    (first.get()..=last.get()).step_by(PAGE).map(CodeAddr::new)
}

/// Makes the pages that hold `word` writable, permanently.
pub(crate) fn unlock(access: Access, word: &Range<CodeAddr>) -> Result<(), Refusal> {
    // Entered before the change: a window that is open now stays open here, and one that closes
    // later leaves the pages alone.
    for page in pages_of(word) {
        UNLOCKED.enter(page.get()).stays.store(true, Relaxed);
        LOWEST.fetch_min(page.get(), Relaxed);
        HIGHEST.fetch_max(page.get(), Relaxed);
    }
    let _no_window_closes_meanwhile = WINDOWS.lock();
    make_writable(access, word)
}

fn make_writable(access: Access, word: &Range<CodeAddr>) -> Result<(), Refusal> {
    let len = word.end.distance_from(word.start) as usize;
    // SAFETY: (1) the pages hold code that its adopter may patch, and stay readable and executable
    // for all other code.
    unsafe { pages::protect(word.start, len, Protection::ReadWriteExecute) }
        .map_err(|error| Refusal { page: word.start.align_down(PAGE), access, error })
}

/// One window with pages in it at a time: closing one must not close another's page.
pub(crate) static WINDOWS: Lock<()> = Lock::new(());

/// A window in which some words can be written, open while it lives. For one word it does not
/// allocate, and is usable in a signal handler: a thread that holds the lock has its signals
/// blocked.
pub(crate) struct Window {
    access: Access,
    file: Option<OwnedFd>,
    pages: Pages,
    /// The lock.
    _alone: Option<Guard<'static, ()>>,
}

/// Ranges of pages; those of one word without an allocation.
#[derive(Default)]
struct Pages {
    first: Option<Range<CodeAddr>>,
    more: Vec<Range<CodeAddr>>,
}

impl Pages {
    fn iter(&self) -> impl Iterator<Item = &Range<CodeAddr>> {
        self.first.iter().chain(&self.more)
    }

    fn push(&mut self, pages: Range<CodeAddr>) {
        match self.first {
            None => self.first = Some(pages),
            Some(_) => self.more.push(pages),
        }
    }
}

impl Window {
    /// Opens the pages that hold `words`. Words in code memory, and pages that were unlocked, need
    /// no opening.
    pub(crate) fn open(
        access: Access,
        mut words: impl Iterator<Item = Range<CodeAddr>>,
    ) -> Result<Self, Refusal> {
        let mut window = Self { access, file: None, pages: Pages::default(), _alone: None };
        match access {
            Access::Rwx | Access::RwxLazy => {}
            Access::Batch => {
                window._alone = Some(WINDOWS.lock());
                for word in words {
                    window.open_pages(&word)?;
                }
            }
            Access::ProcMem => {
                let page =
                    words.next().map_or(CodeAddr::new(0), |word| word.start.align_down(PAGE));
                let file = files::open_for_writing(c"/proc/self/mem");
                window.file = Some(file.map_err(|error| Refusal { page, access, error })?);
            }
        }
        Ok(window)
    }

    /// Makes the pages of `word` writable until the window closes, each page once.
    fn open_pages(&mut self, word: &Range<CodeAddr>) -> Result<(), Refusal> {
        let pages =
            word.start.align_down(PAGE)..word.end.offset(-1).align_down(PAGE).offset(PAGE as isize);
        if self.pages.iter().any(|open| open.start <= pages.start && pages.end <= open.end) {
            return Ok(());
        }
        make_writable(self.access, &pages)?;
        self.pages.push(pages);
        Ok(())
    }

    /// Makes one store, or one write by the kernel.
    ///
    /// # Safety
    /// As for [`live::store`], where the bytes are executed at `at` and written at `at + alias`.
    pub(crate) unsafe fn store(
        &self,
        at: CodeAddr,
        alias: isize,
        width: Width,
        value: u64,
    ) -> Result<(), Refusal> {
        match &self.file {
            Some(file) if alias == 0 => {
                let bytes = &value.to_le_bytes()[..width.bytes()];
                // SAFETY: (1) the caller.
                unsafe { files::write_memory(file, at, bytes) }.map_err(|error| Refusal {
                    page: at.align_down(PAGE),
                    access: self.access,
                    error,
                })?;
            }
            // SAFETY: (1) the caller.
            _ => unsafe { live::store(at.offset(alias), width, value) },
        }
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        for page in self.pages.iter().flat_map(pages_of).filter(|page| !is_unlocked(page.get())) {
            // SAFETY: (1) this window opened it, and sites are adopted with this access only in
            // pages that were readable and executable before; (2) no code relies on writing there:
            // it is not among the unlocked.
            let _ = unsafe { pages::protect(page, PAGE, Protection::ReadExecute) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::pages::Place;

    #[test]
    fn every_access_has_a_name_that_leads_back_to_it() {
        for (name, access) in Access::NAMES {
            assert_eq!(name.parse(), Ok(access));
            assert_eq!(access.to_string(), name);
        }
        assert_eq!("writable".parse::<Access>(), Err(()));
    }

    #[test]
    fn what_is_mapped_where_code_was_keeps_its_protection() {
        let map = |protection| {
            // SAFETY: (1) a new mapping, which no other code uses.
            unsafe { pages::map_private(Place::Anywhere, 2 * PAGE, protection) }.unwrap()
        };
        let start = map(Protection::ReadExecute);
        let code = start..start.offset(2 * PAGE as isize);
        unlock(Access::Rwx, &(code.start..code.start.offset(4))).unwrap();
        assert!(stays_writable(code.start) && !stays_writable(code.start.offset(PAGE as isize)));
        forget_unlocked(&code);
        assert!(!stays_writable(code.start));
        // Data of another module, for instance.
        // SAFETY: (1) a mapping of this test's own, without code.
        unsafe { pages::protect(code.start, PAGE, Protection::ReadWrite) }.unwrap();
        // SAFETY: (1) no site is there any more; (2) nothing stores to one.
        unsafe { lock_again(&code) }.unwrap();
        let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(code.start.get());
        // SAFETY: (1) writable, as nothing has changed that; otherwise the test dies here.
        unsafe { byte.write_volatile(1) };
        unlock(Access::Rwx, &(code.start..code.start.offset(4))).unwrap();
        assert!(stays_writable(code.start));
        // SAFETY: (1) the test's own mapping.
        unsafe { pages::unmap(code.start, 2 * PAGE) }.unwrap();
    }
}
