//! Many patches with one barrier for each phase instead of one for each site.
//!
//! Up to its first barrier a batch is all or nothing: if a site is not available or the barrier
//! fails, every word is unchanged. Words that need no trap are stored last, so that all words
//! become visible in as short a time as stores allow.
//!
//! # Safety
//!
//! This module exists to store the words that were given to [`Batch::push`]; the stores rely on the
//! promises of its caller.
#![allow(unsafe_code)]

use crate::access::{Access, Refusal, Window};
use crate::barrier::BarrierError;
use crate::completion;
use crate::error::PatchError;
use crate::gate::{self, Inside};
use crate::ledger::Phase;
use crate::os::signals::Blocked;
use crate::patch_in_progress::PatchInProgress;
use crate::site::PatchSite;
use crate::trap;
use crate::word::Word;

/// Words that will be stored together.
#[derive(Debug, Default)]
pub struct Batch<'site> {
    edits: Vec<(&'site PatchSite, Word)>,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Words replaced by one store each.
    pub at_once: usize,
    /// Words replaced behind a trap.
    pub behind_traps: usize,
    /// Number of barriers passed.
    pub barriers: usize,
}

/// A patch in progress of this batch, with its site.
type Started<'a> = (&'a PatchSite, &'static PatchInProgress);

impl<'site> Batch<'site> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with space for `sites`.
    pub fn with_capacity(sites: usize) -> Self {
        Self { edits: Vec::with_capacity(sites) }
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Adds a word for a site.
    ///
    /// # Safety
    /// As for [`PatchSite::patch`].
    pub unsafe fn push(&mut self, site: &'site PatchSite, new: Word) {
        self.edits.push((site, new));
    }

    /// Replaces all words. On an error no word was replaced, except where the [`PatchError`] states
    /// otherwise.
    pub fn commit(self) -> Result<Committed, PatchError> {
        let Self { edits } = self;
        edits.iter().try_for_each(|(site, new)| site.make_ready(*new))?;
        let needs_traps = edits.iter().any(|(site, _)| site.is_straddler());
        let _undisturbed = needs_traps.then(Blocked::all);
        let mut held = Held::take(&edits)?;
        let (trapped, plain): (Vec<&Edit<'_>>, Vec<&Edit<'_>>) =
            edits.iter().partition(|(site, new)| site.is_cut(*new));
        let accesses = distinct(edits.iter().map(|(site, _)| site.access()));
        let mut barriers = 0;
        if let Some((first, _)) = trapped.first() {
            trap::check().map_err(|why| PatchError::Trap { address: first.address(), why })?;
            let started = held.begin_patches(&trapped, &plain);
            store_traps(&started, &accesses)?;
            barriers = advance_all(&started, &accesses)?;
        }
        let store = |&&(site, new): &&Edit<'_>, window: &Window, _: &Inside| {
            // SAFETY: (1) the caller of `push`; the bytes are held.
            unsafe { site.store_through(window, new) }.map(drop)
        };
        in_windows(&accesses, &plain, |(site, _)| site, store).map_err(PatchError::Refused)?;
        Ok(Committed { at_once: plain.len(), behind_traps: trapped.len(), barriers })
    }
}

/// A word and its site.
type Edit<'a> = (&'a PatchSite, Word);

/// The locked bytes of a batch's sites. They are released when the batch ends, except those of
/// sites whose patches have started: a patch in progress releases its bytes itself.
struct Held<'a> {
    sites: Vec<&'a PatchSite>,
}

impl<'a> Held<'a> {
    /// Locks the bytes of all sites or of none.
    fn take(edits: &[Edit<'a>]) -> Result<Self, PatchError> {
        let mut held = Self { sites: Vec::with_capacity(edits.len()) };
        for &(site, _) in edits {
            site.lock_range()?;
            held.sites.push(site);
        }
        Ok(held)
    }

    /// Starts the patches of the words that need a trap, and keeps the locks of the others.
    fn begin_patches(&mut self, trapped: &[&Edit<'a>], others: &[&Edit<'a>]) -> Vec<Started<'a>> {
        self.sites.clear();
        self.sites.extend(others.iter().map(|(site, _)| site));
        trapped.iter().filter_map(|&&(site, new)| Some((site, site.begin_patch(new)?))).collect()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.sites.iter().for_each(|site| site.give_back());
    }
}

/// Stores all traps, or none.
fn store_traps(started: &[Started<'_>], accesses: &[Access]) -> Result<(), PatchError> {
    let stored = in_windows(
        accesses,
        started,
        |(site, _)| site,
        |(_, patch), window, inside| {
            patch.trap(window, inside)?;
            patch.set_phase(Phase::Trapped);
            Ok(())
        },
    );
    stored.map_err(|refusal| {
        for (_, patch) in started {
            match patch.phase() {
                Phase::Busy => patch.end_patch(),
                phase => take_back(patch, phase),
            }
        }
        PatchError::Refused(refusal)
    })
}

/// Rolls back a patch that no other thread has seized meanwhile.
fn take_back(patch: &'static PatchInProgress, phase: Phase) {
    if patch.seize(phase) {
        patch.retreat(phase);
    }
}

/// Advances all patches step by step: one barrier for all, then the stores of all. Returns the
/// number of barriers.
fn advance_all(started: &[Started<'_>], accesses: &[Access]) -> Result<usize, PatchError> {
    let barriers = distinct(started.iter().map(|(_, patch)| patch.parameters.barrier));
    let mut passed = 0;
    for phase in [Phase::Trapped, Phase::Backed] {
        // A thread that hit a trap on an instruction that cannot be emulated may have finished that
        // patch already.
        let mine: Vec<&Started<'_>> = started
            .iter()
            .filter(|(_, patch)| patch.phase() == phase && patch.seize(phase))
            .collect();
        if mine.is_empty() {
            continue;
        }
        if let Err(error) = barriers.iter().try_for_each(|barrier| barrier.pass()) {
            return Err(give_up(&mine, phase, error));
        }
        passed += barriers.len();
        let failures =
            accesses.iter().filter_map(|&access| store_phase(&mine, phase, access).err());
        // Every group continues, even if the one before has failed.
        if let Some(error) = failures.fold(None, |first, error| first.or(Some(error))) {
            return Err(error);
        }
    }
    Ok(passed)
}

/// The stores between two barriers of all patches with one access.
fn store_phase(mine: &[&Started<'_>], phase: Phase, access: Access) -> Result<(), PatchError> {
    let group = || mine.iter().filter(|(site, _)| site.access() == access);
    match Window::open(access, group().map(|(site, _)| site.range())) {
        Ok(window) => {
            let inside = gate::enter();
            let results: Vec<_> =
                group().map(|(_, patch)| patch.store_phase(phase, &window, &inside)).collect();
            // All stores are made, and the first failure is returned.
            let whole = group().zip(&results).filter(|(_, result)| matches!(result, Ok(true)));
            whole.for_each(|((_, patch), _)| patch.end_patch());
            results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
        }
        Err(refusal) => {
            for (_, patch) in group() {
                patch.set_phase(phase);
                completion::enqueue(patch);
            }
            Err(PatchError::Refused(refusal))
        }
    }
}

/// Rolls back the patches that can be rolled back, and leaves the rest to the completion thread.
fn give_up(mine: &[&Started<'_>], phase: Phase, error: BarrierError) -> PatchError {
    for (_, patch) in mine {
        patch.retreat(phase);
        if patch.phase() != Phase::Idle {
            completion::enqueue(patch);
        }
    }
    error.into()
}

/// Calls `act` for every item within a window of its site's access, one window for each access.
fn in_windows<T>(
    accesses: &[Access],
    items: &[T],
    site_of: impl Fn(&T) -> &PatchSite,
    mut act: impl FnMut(&T, &Window, &Inside) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for &access in accesses {
        let of_access = || items.iter().filter(|item| site_of(item).access() == access);
        let window = Window::open(access, of_access().map(|item| site_of(item).range()))?;
        // After the window is open: a fork waits for windows first, then for the gate.
        let inside = gate::enter();
        of_access().try_for_each(|item| act(item, &window, &inside))?;
    }
    Ok(())
}

/// Each value once.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}
