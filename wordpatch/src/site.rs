//! A patch site: bytes of running code that are prepared for patching.
//!
//! Adoption checks once what every patch relies on: the bytes are mapped, they are code, the
//! policy's access can write them, and, where a trap may be needed, traps work in this process. A
//! patch is then only a load, a comparison and a store.
//!
//! # Safety
//!
//! Only the callers of this module know whether their bytes may replace the code that is there. It
//! passes that promise on to the stores.
#![allow(unsafe_code)]

use crate::access::{self, Access, Refusal, Window};
use crate::addr::CodeAddr;
use crate::code_memory;
use crate::error::{AdoptError, PatchError};
use crate::fork;
use crate::gate;
use crate::granule::Granule;
use crate::ledger::Phase;
use crate::live::{self, Width};
use crate::os::{
    maps::{self, Mapping},
    pages::PAGE,
};
use crate::patch_in_progress::{self, PatchInProgress, PatchParameters};
use crate::patch_region::PatchRegion;
use crate::pending::Pending;
use crate::policy::Policy;
use crate::protocol::{Layout, Plan};
use crate::range_lock::RangeLock;
use crate::trap;
use crate::word::Word;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// One to eight bytes of running code, ready to be patched.
#[derive(Debug)]
pub struct PatchSite {
    word: Range<CodeAddr>,
    /// The distance to the writable address; zero outside of code memory.
    alias: isize,
    access: Access,
    /// The width of a store that always covers the whole word, if there is one and the bytes can be
    /// stored to at any time. Then a patch need not read the current bytes.
    whole: Option<Width>,
    granule: Granule,
    range_lock: RangeLock,
    /// The patch that replaces bytes which a boundary cuts; `None` if no boundary cuts the site.
    patch: Option<&'static PatchInProgress>,
    /// Whether the pages have still to be made writable, under [`Access::RwxLazy`].
    locked: AtomicBool,
}

impl PatchSite {
    /// Adopts the `len` bytes at `address`. To adopt many, make one [`Survey`].
    ///
    /// # Safety
    /// As for [`Survey::adopt`].
    pub unsafe fn adopt(
        address: CodeAddr,
        len: usize,
        layout: Layout,
        policy: &Policy,
    ) -> Result<Self, AdoptError> {
        // SAFETY: (1) the caller.
        unsafe { Survey::new(*policy)?.adopt(address, len, layout) }
    }

    /// Its address.
    pub fn address(&self) -> CodeAddr {
        self.word.start
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a site is never empty")]
    pub fn len(&self) -> usize {
        self.word.end.distance_from(self.word.start) as usize
    }

    /// Whether a boundary of the granule cuts it, so that a patch may need a trap.
    pub fn is_straddler(&self) -> bool {
        self.patch.is_some()
    }

    /// The current bytes. While a patch is in progress, traps may be among them.
    pub fn read(&self) -> Word {
        // SAFETY: (1) mapped and readable since adoption, and kept so by the adopter.
        let bytes = unsafe { live::load(self.word.start, self.len()) };
        Word::from_u64(bytes, self.len()).expect("a site has one to eight bytes")
    }

    /// The phase of its replacement.
    pub fn phase(&self) -> Phase {
        self.patch.map_or(Phase::Idle, PatchInProgress::phase)
    }

    /// Replaces the bytes by `new` and returns when every thread executes the new ones; if one
    /// store suffices, it returns at once, without a wait.
    ///
    /// Fails if another thread is patching the site or bytes of it; if several threads patch one
    /// site at the same time, at least one succeeds.
    ///
    /// # Safety
    /// `new` may be executed in place of the current bytes: it begins instructions at the same
    /// offsets (layout equivalence), and everything that it calls, jumps to or reads stays in place
    /// for as long as a thread may execute it.
    #[inline]
    pub unsafe fn patch(&self, new: Word) -> Result<(), PatchError> {
        // SAFETY: (1) the caller.
        unsafe {
            match self.patch {
                None => self.store_uncut(new),
                Some(patch) => self.begin_single(patch, new)?.finish(),
            }
        }
    }

    /// Starts to replace the bytes by `new` and returns without waiting. Until the patch is
    /// finished, the trap handler emulates the old bytes for executing threads.
    ///
    /// # Safety
    /// As for [`patch`](Self::patch); the site's code stays mapped until the patch is over.
    pub unsafe fn start(&self, new: Word) -> Result<Pending<'_>, PatchError> {
        // SAFETY: (1) the caller.
        unsafe {
            match self.patch {
                None => self.store_uncut(new).map(|()| Pending::complete()),
                Some(patch) => self.begin_single(patch, new),
            }
        }
    }

    /// Patches a site that no boundary cuts.
    #[inline]
    unsafe fn store_uncut(&self, new: Word) -> Result<(), PatchError> {
        self.check_length(new)?;
        if self.range_lock.is_held() {
            return Err(self.overlap());
        }
        match self.whole {
            // SAFETY: (1) adopted: mapped and writable through the alias; (2) and (3) the caller of
            // `patch`.
            Some(width) => unsafe {
                live::store(self.word.start.offset(self.alias), width, new.to_u64());
            },
            None => {
                let window = self.window().map_err(PatchError::Refused)?;
                // SAFETY: (1) the caller.
                unsafe { self.store_through(&window, new) }.map_err(PatchError::Refused)?;
            }
        }
        Ok(())
    }

    /// Locks the bytes of a site that a boundary cuts. Replaces them by one store if the changed
    /// bytes need no trap, otherwise plants the traps.
    unsafe fn begin_single(
        &self,
        patch: &'static PatchInProgress,
        new: Word,
    ) -> Result<Pending<'_>, PatchError> {
        self.check_length(new)?;
        patch.lock_range()?;
        // SAFETY: (1) the caller; the bytes are locked.
        let begun = unsafe { self.begin_locked(patch, new) };
        if !matches!(begun, Ok(Some(_))) {
            patch.end_patch();
        }
        begun.map(|number| {
            number.map_or_else(Pending::complete, |number| Pending::new(patch, number))
        })
    }

    /// As `begin_single`, after the lock. Returns the patch's number if one was started.
    unsafe fn begin_locked(
        &self,
        patch: &'static PatchInProgress,
        new: Word,
    ) -> Result<Option<u64>, PatchError> {
        let window = self.window().map_err(PatchError::Refused)?;
        // SAFETY: (1) the caller.
        if unsafe { self.store_through(&window, new) }.map_err(PatchError::Refused)? {
            return Ok(None);
        }
        trap::check().map_err(|why| PatchError::Trap { address: self.word.start, why })?;
        let number = patch.prepare(self.alias, new);
        let undisturbed = patch.undisturbed();
        patch.trap(&window, &gate::enter()).map_err(PatchError::Refused)?;
        patch.set_phase(Phase::Trapped);
        drop(undisturbed);
        Ok(Some(number))
    }

    /// Patches with one store through a window that is open; `false` if a boundary cuts the bytes
    /// that change.
    ///
    /// # Safety
    /// As for [`patch`](Self::patch).
    pub(crate) unsafe fn store_through(&self, window: &Window, new: Word) -> Result<bool, Refusal> {
        let alias = self.alias;
        // SAFETY: (1) adopted: mapped, readable, and writable through the window; (2) and (3) the
        // caller.
        unsafe {
            patch_in_progress::store_at_once(
                self.word.start,
                alias,
                self.granule,
                new,
                |to, width, value| window.store(to, alias, width, value),
            )
        }
    }

    #[inline]
    fn check_length(&self, new: Word) -> Result<(), PatchError> {
        let (address, expected, found) = (self.word.start, self.len(), new.len());
        if expected == found {
            Ok(())
        } else {
            Err(PatchError::Length { address, expected, found })
        }
    }

    #[cold]
    fn overlap(&self) -> PatchError {
        PatchError::Overlap { address: self.word.start, len: self.len() }
    }

    #[inline]
    pub(crate) fn window(&self) -> Result<Window, Refusal> {
        self.unlock_if_new()?;
        Window::open(self.access, std::iter::once(self.word.clone()))
    }

    /// Makes the pages writable if this is the first patch under [`Access::RwxLazy`].
    #[inline]
    pub(crate) fn unlock_if_new(&self) -> Result<(), Refusal> {
        if self.locked.load(Ordering::Relaxed) {
            access::unlock(self.access, &self.word)?;
            self.locked.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn range(&self) -> Range<CodeAddr> {
        self.word.clone()
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Checks and preparations that can be made before the bytes are locked.
    pub(crate) fn make_ready(&self, new: Word) -> Result<(), PatchError> {
        self.check_length(new)?;
        self.unlock_if_new().map_err(PatchError::Refused)
    }

    /// Whether a boundary cuts the bytes that differ from `new`.
    pub(crate) fn is_cut(&self, new: Word) -> bool {
        let changed = self.read().difference(&new).unwrap_or(0..0);
        self.granule.cut(self.word.start.offset(changed.start as isize), changed.len()).is_some()
    }

    /// Locks the bytes for a batch.
    pub(crate) fn lock_range(&self) -> Result<(), PatchError> {
        match self.patch {
            Some(patch) => patch.lock_range(),
            None if self.range_lock.take() => Ok(()),
            None => Err(self.overlap()),
        }
    }

    /// Releases the bytes. Only for the code that locked them.
    pub(crate) fn give_back(&self) {
        self.patch.map_or_else(|| self.range_lock.give_back(), PatchInProgress::end_patch);
    }

    /// Starts a patch whose bytes are locked; `None` if no boundary cuts the site.
    pub(crate) fn begin_patch(&self, new: Word) -> Option<&'static PatchInProgress> {
        let patch = self.patch?;
        patch.prepare(self.alias, new);
        Some(patch)
    }

    /// The patch of this site with this number, whether it is in progress or finished. Dropping it
    /// finishes it.
    pub(crate) fn stand_for(&self, number: u64) -> Pending<'_> {
        self.patch.map_or_else(Pending::complete, |patch| Pending::new(patch, number))
    }

    /// The patch with this number, while it is in progress.
    pub(crate) fn under_way(&self, number: u64) -> Option<&'static PatchInProgress> {
        self.patch.filter(|patch| patch.number() == number && patch.phase() != Phase::Idle)
    }

    /// The patch of this site that is in progress, if any: so that the caller can finish what
    /// another thread started.
    pub fn resume(&self) -> Option<Pending<'_>> {
        let patch = self.patch?;
        patch.begun().map(|number| Pending::new(patch, number))
    }
}

/// A snapshot of the process's mappings, for adopting many sites.
#[derive(Debug)]
pub struct Survey {
    policy: Policy,
    mappings: Vec<Mapping>,
    unlocked: HashSet<CodeAddr>,
    traps_work: bool,
}

impl Survey {
    /// Reads the current mappings.
    pub fn new(policy: Policy) -> Result<Self, AdoptError> {
        Ok(Self::over(policy, maps::mappings().map_err(AdoptError::Maps)?))
    }

    /// With mappings that the caller has just read: reading them takes longer than adopting a site.
    /// They are read again if a site does not lie in them.
    pub fn over(policy: Policy, mappings: Vec<Mapping>) -> Self {
        // Before the first lock is taken.
        fork::prepare();
        Self { policy, mappings, unlocked: HashSet::new(), traps_work: false }
    }

    /// Adopts the `len` bytes at `address`.
    ///
    /// # Safety
    /// For as long as the site lives and a patch of it is pending: 1. The bytes stay mapped as they
    /// are. 2. An instruction begins at `address`, and no thread jumps, returns or resumes into the
    /// middle of one (assumption A4). 3. `layout` holds for the current bytes and for all bytes
    /// that will be stored. 4. No other code writes to the bytes.
    pub unsafe fn adopt(
        &mut self,
        address: CodeAddr,
        len: usize,
        layout: Layout,
    ) -> Result<PatchSite, AdoptError> {
        let word = Self::word(address, len)?;
        let alias = code_memory::alias_of(address, len);
        let writable = self.look_at(&word)?;
        let access = if writable || alias.is_some() { Access::Rwx } else { self.policy.access };
        let granule = if access == Access::ProcMem { Granule::BYTE } else { self.policy.granule };
        if access == Access::ProcMem && layout == Layout::Any && len > 1 {
            return Err(AdoptError::SeveralInstructions { address });
        }
        let range_lock = patch_in_progress::range_lock_of(&word);
        let plan = Plan::new(address, len, granule, self.policy.order, layout);
        let parameters =
            PatchParameters { plan, layout, granule, barrier: self.policy.barrier, access };
        let patch = plan
            .front()
            .map(|front| PatchInProgress::enter(word.clone(), front, range_lock, parameters));
        if patch.is_some() {
            self.require_traps(address)?;
        }
        if access == Access::Rwx && alias.is_none() && !writable {
            self.unlock(&word)?;
        }
        let locked = AtomicBool::new(access == Access::RwxLazy);
        let width = Width::at_least(len);
        let whole =
            (access == Access::Rwx && patch.is_none() && width.bytes() == len).then_some(width);
        Ok(PatchSite {
            word,
            alias: alias.unwrap_or(0),
            access,
            whole,
            granule,
            range_lock,
            patch,
            locked,
        })
    }

    /// Prepares the `len` bytes at `address` for single stores, in the order of the caller's own
    /// protocol.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt), for as long as the patch region lives; the safety conditions
    /// of each store restrict its bytes.
    pub unsafe fn patch_region(
        &mut self,
        address: CodeAddr,
        len: usize,
    ) -> Result<PatchRegion, AdoptError> {
        let word = Self::word(address, len)?;
        let alias = code_memory::alias_of(address, len);
        let writable = self.look_at(&word)?;
        let access = if writable || alias.is_some() { Access::Rwx } else { self.policy.access };
        if access == Access::Rwx && alias.is_none() && !writable {
            self.unlock(&word)?;
        }
        Ok(PatchRegion::new(word, alias.unwrap_or(0), access))
    }

    /// Makes the pages of a range writable with one system call, if the policy makes pages writable
    /// at adoption. For ranges with sites on all pages; page by page takes longer. Pages that
    /// cannot be made writable cause an error when a site on them is adopted.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt), for the code on all of these pages.
    pub unsafe fn open(&mut self, range: Range<CodeAddr>) {
        let is_plain = self.mapping(range.start).is_some_and(|mapping| {
            mapping.read
                && mapping.execute
                && !mapping.write
                && range.end <= mapping.end
                && range.start < range.end
        });
        if is_plain
            && self.policy.access == Access::Rwx
            && access::unlock(self.policy.access, &range).is_ok()
        {
            let pages = (range.start.align_down(PAGE).get()..range.end.get()).step_by(PAGE);
            self.unlocked.extend(pages.map(CodeAddr::new));
        }
    }

    /// Reads the `len` bytes of code at `address`.
    ///
    /// # Safety
    /// The bytes stay mapped meanwhile.
    pub unsafe fn read(&mut self, address: CodeAddr, len: usize) -> Result<Word, AdoptError> {
        let word = Self::word(address, len)?;
        self.look_at(&word)?;
        // SAFETY: (1) mapped and readable, as just checked; (2) still so, by the caller.
        let bytes = unsafe { live::load(address, len) };
        Word::from_u64(bytes, len).ok_or(AdoptError::Length { address, len })
    }

    /// The range of a word, if these are a valid address and length.
    fn word(address: CodeAddr, len: usize) -> Result<Range<CodeAddr>, AdoptError> {
        match (address.get(), len) {
            (0, _) => Err(AdoptError::Null),
            (_, 1..=8) => Ok(address..address.offset(len as isize)),
            _ => Err(AdoptError::Length { address, len }),
        }
    }

    /// Checks that the word is code. Returns whether all of it is writable already.
    fn look_at(&mut self, word: &Range<CodeAddr>) -> Result<bool, AdoptError> {
        if let Ok(writable) = self.check(word) {
            return Ok(writable);
        }
        // The mappings may have changed since the survey began.
        self.mappings = maps::mappings().map_err(AdoptError::Maps)?;
        self.check(word)
    }

    /// The same, with the mappings that were read last.
    fn check(&self, word: &Range<CodeAddr>) -> Result<bool, AdoptError> {
        let mut writable = true;
        for address in [word.start, word.end.offset(-1)] {
            let mapping = self.mapping(address).ok_or(AdoptError::Unmapped { address })?;
            if !(mapping.read && mapping.execute) {
                let path = mapping.path.clone();
                return Err(AdoptError::NotCode {
                    address,
                    permissions: mapping.permissions(),
                    path,
                });
            }
            writable &= mapping.write;
        }
        Ok(writable)
    }

    fn mapping(&self, address: CodeAddr) -> Option<&Mapping> {
        let place = self.mappings.partition_point(|m| m.end <= address);
        self.mappings.get(place).filter(|m| m.contains(address))
    }

    /// Makes the pages of `word` writable, unless this survey has already done so for another site.
    fn unlock(&mut self, word: &Range<CodeAddr>) -> Result<(), AdoptError> {
        let pages = [word.start.align_down(PAGE), word.end.offset(-1).align_down(PAGE)];
        if pages.iter().all(|page| self.unlocked.contains(page)) {
            return Ok(());
        }
        access::unlock(self.policy.access, word).map_err(AdoptError::Refused)?;
        self.unlocked.extend(pages);
        Ok(())
    }

    fn require_traps(&mut self, address: CodeAddr) -> Result<(), AdoptError> {
        if !self.traps_work {
            trap::install()
                .and_then(|()| trap::require_unblocked())
                .map_err(|why| AdoptError::Trap { address, why })?;
            self.policy.barrier.prepare()?;
            self.traps_work = true;
        }
        Ok(())
    }
}
