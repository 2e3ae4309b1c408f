//! The ledger: records where traps were stored, and which words are being replaced there.
//!
//! A *patch in progress* is the replacement of one word, from its trap to its end. A *trap window*
//! is an aligned quadword of code that may hold traps; it leads to the patches whose traps lie in
//! it. Both are entered once and never removed: the trap handler walks them without a lock, and the
//! scheduler may suspend a thread between the trap and the handler for any time. After a patch has
//! ended, its entry still tells the handler that a trap at this address was one of this crate.
//!
//! ```text
//!   window of 0x…40 → patch of [0x…45, 0x…4a) → patch of [0x…46, 0x…4b)
//! ```
//!
//! There is no unsafe code here, and nothing but atomics: the loom models compile this very file.

use crate::addr::CodeAddr;
use crate::address_map::Entry;
use crate::range_lock::RangeLock;
use crate::sync::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::ops::Range;

/// An aligned quadword of code in which the fronts of words begin: where traps may lie.
#[derive(Debug)]
pub(crate) struct TrapWindow<X: 'static> {
    /// Its address; zero while the entry is vacant. Set once.
    key: AtomicUsize,
    /// The patches whose front lies here, newest first. Entries are only added.
    patches: AtomicPtr<PatchInProgress<X>>,
}

impl<X> Entry for TrapWindow<X> {
    fn vacant() -> Self {
        Self { key: AtomicUsize::new(0), patches: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

impl<X: PartialEq> TrapWindow<X> {
    /// The patches whose front lies here.
    pub(crate) fn patches(&self) -> impl Iterator<Item = &'static PatchInProgress<X>> {
        let mut next = follow(&self.patches);
        std::iter::from_fn(move || {
            let patch = next?;
            next = follow(&patch.sibling);
            Some(patch)
        })
    }

    /// Enters a new patch permanently. A word that two threads enter at the same time gets two
    /// entries, which is harmless: only one of them can lock the bytes.
    fn add(&self, patch: PatchInProgress<X>) -> &'static PatchInProgress<X> {
        let patch: &'static PatchInProgress<X> = Box::leak(Box::new(patch));
        let mut first = self.patches.load(Ordering::Relaxed);
        loop {
            patch.sibling.store(first, Ordering::Relaxed);
            // Release pairs with the Acquire in `follow`: the patch is complete before it can be
            // seen.
            let entered = std::ptr::from_ref(patch).cast_mut();
            match self.patches.compare_exchange_weak(
                first,
                entered,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return patch,
                Err(found) => first = found,
            }
        }
    }
}

/// The owner of a trap that a thread has hit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose<X: 'static> {
    /// None any more: the current bytes are to be run.
    Gone,
    /// This patch, which was in progress just now.
    Patch(&'static PatchInProgress<X>),
    /// The program itself.
    Foreign,
}

impl<X: PartialEq> TrapWindow<X> {
    /// Finds the owner of the trap at `address`; `is_trap` checks whether there is one now.
    ///
    /// A patch may end, and another begin, between any two checks. If no patch was found, none
    /// began since before the search, and a trap is there afterwards, then the trap was there all
    /// the time and belongs to no patch.
    pub(crate) fn whose(&self, address: CodeAddr, is_trap: impl Fn() -> bool) -> Whose<X> {
        loop {
            let before = self.patches_so_far();
            if !is_trap() {
                return Whose::Gone;
            }
            let mut trapping = self.patches().filter(|patch| patch.traps(address));
            if let Some(patch) = trapping.find(|patch| patch.is_under_way()) {
                return Whose::Patch(patch);
            }
            if is_trap() && self.patches_so_far() == before {
                return Whose::Foreign;
            }
        }
    }

    /// The number of patches that began here.
    fn patches_so_far(&self) -> u64 {
        self.patches().map(PatchInProgress::number).sum()
    }
}

/// The patch that a link leads to.
#[allow(unsafe_code)]
fn follow<X>(link: &AtomicPtr<PatchInProgress<X>>) -> Option<&'static PatchInProgress<X>> {
    // SAFETY: (1) links hold null or a result of `Box::leak` in `TrapWindow::add`, which is never
    // freed; (2) Acquire pairs with the Release that published it.
    unsafe { link.load(Ordering::Acquire).as_ref() }
}

/// The phase of a patch in progress.
///
/// | phase | meaning | changed by |
/// |---|---|---|
/// | `Idle` | not under way; the word is whole | any thread, by exchange to `CLAIMED` |
/// | `CLAIMED` | as `Idle`; a thread locks the bytes; told as `Busy` | it: to `Busy` or `Idle` |
/// | `Busy` | a thread applies a step | that thread |
/// | `ENDING` | as `Idle`; a thread releases the bytes; told as `Busy` | it: to `Idle` |
/// | `Trapped` | traps cover the front | any thread, by exchange to `Busy` |
/// | `Backed` | traps cover the front, and the back is new | any thread, by exchange to `Busy` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Not in progress: the word is complete.
    Idle = 0,
    /// A thread is applying a step, or begins or ends the patch.
    Busy = 1,
    /// Traps cover the front; the trap handler emulates the old instruction for executing threads.
    Trapped = 2,
    /// As `Trapped`, and the back is new.
    Backed = 3,
}

/// The word is whole, and a thread is about to lock its bytes for a patch, or releases them after
/// one. To other threads that patch the word both are [`Phase::Busy`], so none of them finds the
/// bytes locked by a patch that is over. To the trap handler they are [`Phase::Idle`]: a trap in
/// these bytes belongs to an overlapping patch.
const CLAIMED: u32 = 4;
const ENDING: u32 = 5;

impl Phase {
    fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Idle,
            2 => Self::Trapped,
            3 => Self::Backed,
            // `Busy`, `CLAIMED` or `ENDING`: no other number is ever stored.
            _ => Self::Busy,
        }
    }
}

/// The patch that keeps a thread from patching a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Another patch of the word itself.
    SameWord,
    /// A patch of other bytes that overlap the word.
    Overlapping,
}

/// The replacement of one word, in progress or ended.
#[derive(Debug)]
pub(crate) struct PatchInProgress<X: 'static> {
    pub(crate) word: Range<CodeAddr>,
    /// The number of its bytes that traps cover while it is in progress.
    pub(crate) front: usize,
    pub(crate) range_lock: RangeLock,
    /// The parameters of the patch.
    pub(crate) parameters: X,
    phase: AtomicU32,
    /// Counts the patches of this word; changed while its bytes are locked, before `old` and `new`.
    number: AtomicU64,
    old: AtomicU64,
    new: AtomicU64,
    /// The distance from the executable address of the word to its writable address.
    pub(crate) alias: AtomicIsize,
    /// The time of the latest step, for barriers that are waits.
    pub(crate) stamp: AtomicU64,
    /// The number of the latest patch that was rolled back instead of finished.
    pub(crate) taken_back: AtomicU64,
    /// A word that the trap handler is known to be able to emulate from any byte of the front.
    /// Never the word zero.
    pub(crate) answerable: AtomicU64,
    /// The next patch of the same window.
    sibling: AtomicPtr<Self>,
    /// The next patch in the completion queue.
    pub(crate) queued: AtomicPtr<Self>,
}

impl<X: PartialEq> PatchInProgress<X> {
    /// The patch of this word with these parameters, entered if it is new.
    pub(crate) fn find_or_add(
        window: &TrapWindow<X>,
        word: Range<CodeAddr>,
        front: usize,
        range_lock: RangeLock,
        parameters: X,
    ) -> &'static Self {
        let known = window
            .patches()
            .find(|f| f.word == word && f.front == front && f.parameters == parameters);
        known.unwrap_or_else(|| window.add(Self::new(word, front, range_lock, parameters)))
    }

    fn new(word: Range<CodeAddr>, front: usize, range_lock: RangeLock, parameters: X) -> Self {
        Self {
            word,
            front,
            range_lock,
            parameters,
            phase: AtomicU32::new(Phase::Idle as u32),
            number: AtomicU64::new(0),
            old: AtomicU64::new(0),
            new: AtomicU64::new(0),
            alias: AtomicIsize::new(0),
            stamp: AtomicU64::new(0),
            taken_back: AtomicU64::new(0),
            answerable: AtomicU64::new(0),
            sibling: AtomicPtr::new(std::ptr::null_mut()),
            queued: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Whether a trap at `address` is, or was, one of this patch's.
    pub(crate) fn traps(&self, address: CodeAddr) -> bool {
        self.word.start <= address && (address.distance_from(self.word.start) as usize) < self.front
    }

    pub(crate) fn phase(&self) -> Phase {
        // Acquire pairs with the Release in `set_phase`: a thread that reads a phase also sees the
        // bytes and words of that phase.
        Phase::from_number(self.phase.load(Ordering::Acquire))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Whether the patch is in progress: from its beginning until the word is complete.
    pub(crate) fn is_under_way(&self) -> bool {
        ![Phase::Idle as u32, CLAIMED, ENDING].contains(&self.phase.load(Ordering::Acquire))
    }

    /// The number of the patch that has begun, and whose bytes are not released.
    pub(crate) fn begun(&self) -> Option<u64> {
        let has_begun =
            ![Phase::Idle as u32, CLAIMED].contains(&self.phase.load(Ordering::Acquire));
        // In this order: the number is stored before the phase.
        has_begun.then(|| self.number())
    }

    /// Makes the calling thread the only one that patches the word, and locks the word's bytes.
    pub(crate) fn claim(&self) -> Result<(), Holder> {
        let claimed = self.phase.compare_exchange(
            Phase::Idle as u32,
            CLAIMED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if claimed.is_err() {
            return Err(Holder::SameWord);
        }
        if self.range_lock.take() {
            return Ok(());
        }
        self.set_phase(Phase::Idle);
        Err(Holder::Overlapping)
    }

    /// Starts the patch. The caller has claimed the word.
    pub(crate) fn begin_patch(&self, old: u64, new: u64) -> u64 {
        // A reader that sees one of the words below also sees the number, and so knows that the
        // patch it read about before has ended.
        let number = self.number.load(Ordering::Relaxed) + 1;
        self.number.store(number, Ordering::Release);
        self.old.store(old, Ordering::Release);
        self.new.store(new, Ordering::Release);
        // Last, so that a thread that finds the patch in progress finds its number and its words.
        self.set_phase(Phase::Busy);
        number
    }

    /// Leaves `Busy`. Only for the thread that entered it.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Ends the patch, or the claim if no patch was started: releases the bytes, since the word is
    /// complete. Only for the thread that entered `Busy`, or has claimed the word.
    pub(crate) fn end_patch(&self) {
        // Before the release: an overlapping patch may store its traps immediately afterwards, and
        // the trap handler must not take them for traps of this one.
        if self.phase.load(Ordering::Relaxed) != CLAIMED {
            self.phase.store(ENDING, Ordering::Release);
        }
        self.range_lock.give_back();
        self.set_phase(Phase::Idle);
    }

    /// Makes the calling thread the one that performs the next step, unless another thread is
    /// performing one.
    pub(crate) fn seize(&self, from: Phase) -> bool {
        self.phase
            .compare_exchange(from as u32, Phase::Busy as u32, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The old word and the new word. Only for the thread that performs a step.
    pub(crate) fn words(&self) -> (u64, u64) {
        (self.old.load(Ordering::Relaxed), self.new.load(Ordering::Relaxed))
    }

    /// The number of the patch and the word that it replaces, if it is in progress.
    pub(crate) fn replaced(&self) -> Option<(u64, u64)> {
        let number = self.number();
        let old = self.old.load(Ordering::Acquire);
        let under_way = self.is_under_way() && self.number() == number;
        under_way.then_some((number, old))
    }
}
