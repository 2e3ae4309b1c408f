//! Many patches with one barrier for each phase instead of one for each site.
//!
//! A batch is all or nothing up to its first barrier: if a site cannot be had or the barrier fails, every word is what it was. The
//! words that need no trap are stored last, so that a batch becomes visible as close together as stores can.
//!
//! # Safety
//!
//! This module exists to carry the words that were given to [`Batch::push`] to their sites; what is promised there is what
//! the stores rely on.
#![allow(unsafe_code)]

use crate::access::{Access, Refusal, Window};
use crate::barrier::{Barrier, BarrierError};
use crate::completion;
use crate::error::PatchError;
use crate::flight::Flight;
use crate::ledger::Phase;
use crate::os::signals::Blocked;
use crate::site::PatchSite;
use crate::trap;
use crate::word::Word;

/// Words on their way to their sites.
#[derive(Debug, Default)]
pub struct Batch<'site> {
    edits: Vec<(&'site PatchSite, Word)>,
}

/// What a batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Words replaced by one store each.
    pub at_once: usize,
    /// Words replaced behind a trap.
    pub behind_traps: usize,
    /// Barriers passed.
    pub barriers: usize,
}

/// A flight of this batch.
type Leg<'a> = (&'a PatchSite, &'static Flight);

impl<'site> Batch<'site> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for `sites`.
    pub fn with_capacity(sites: usize) -> Self {
        Self { edits: Vec::with_capacity(sites) }
    }

    /// How many words it holds.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether it holds none.
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

    /// Replaces all words. On an error no word was replaced, except as [`PatchError`] says of the error itself.
    pub fn commit(self) -> Result<Committed, PatchError> {
        let Self { edits } = self;
        let mut done = Committed { at_once: 0, behind_traps: 0, barriers: 0 };
        let (trapped, plain) = sort(&edits)?;
        let accesses = distinct(edits.iter().map(|(site, _)| site.parts().2));
        if !trapped.is_empty() {
            trap::check().map_err(|why| PatchError::Trap { address: trapped[0].0.address(), why })?;
            let _undisturbed = Blocked::all();
            let legs = claim(&trapped)?;
            let barriers = distinct(legs.iter().map(|(_, flight)| flight.manner.barrier));
            plant(&legs, &accesses)?;
            done.barriers += fly(&legs, &accesses, &barriers)?;
            done.behind_traps = legs.len();
        }
        done.at_once = plain.len();
        in_windows(
            &accesses,
            &plain,
            |(site, _)| site,
            // SAFETY: (1) the caller of `push`.
            |(site, new), window| unsafe { site.store_through(window, *new) },
        )
        .map_err(PatchError::Refused)?;
        Ok(done)
    }
}

/// The edits that need a trap, and the others.
type Sorted<'a> = (Vec<(&'a PatchSite, Word)>, Vec<(&'a PatchSite, Word)>);

/// Checks lengths, unlocks lazily, and sorts the edits by whether a boundary cuts the bytes that change.
fn sort<'a>(edits: &[(&'a PatchSite, Word)]) -> Result<Sorted<'a>, PatchError> {
    let mut sorted = (Vec::new(), Vec::new());
    for &(site, new) in edits {
        let (word, _, _, granule, _) = site.parts();
        if new.len() != site.len() {
            return Err(PatchError::Length { address: word.start, expected: site.len(), found: new.len() });
        }
        site.unlock_if_new().map_err(PatchError::Refused)?;
        let changed = site.read().difference(&new).unwrap_or(0..0);
        let cut = granule.cut(word.start.offset(changed.start as isize), changed.len());
        if cut.is_some() { sorted.0.push((site, new)) } else { sorted.1.push((site, new)) }
    }
    Ok(sorted)
}

/// Claims all words or none, and takes off.
fn claim<'a>(edits: &[(&'a PatchSite, Word)]) -> Result<Vec<Leg<'a>>, PatchError> {
    let mut legs: Vec<Leg<'a>> = Vec::with_capacity(edits.len());
    for &(site, new) in edits {
        let (_, alias, _, _, flight) = site.parts();
        let Some(flight) = flight else { unreachable!("a word without a boundary inside needs no trap") };
        if let Err(error) = flight.claim() {
            legs.iter().for_each(|(_, flight)| flight.land());
            return Err(error);
        }
        flight.prepare(alias, new);
        legs.push((site, flight));
    }
    Ok(legs)
}

/// Plants all traps or none.
fn plant(legs: &[Leg<'_>], accesses: &[Access]) -> Result<(), PatchError> {
    let planted = in_windows(
        accesses,
        legs,
        |(site, _)| site,
        |(_, flight), window| {
            flight.trap(window)?;
            flight.set_phase(Phase::Trapped);
            Ok(())
        },
    );
    planted.map_err(|refusal| {
        for (_, flight) in legs {
            match flight.phase() {
                Phase::Busy => flight.land(),
                phase => take_back(flight, phase),
            }
        }
        PatchError::Refused(refusal)
    })
}

/// Takes back a flight that nobody seized meanwhile.
fn take_back(flight: &'static Flight, phase: Phase) {
    if flight.seize(phase) {
        flight.retreat(phase);
    }
}

/// Leg after leg: one barrier for all, then everybody's stores. Returns how many barriers were passed.
fn fly(legs: &[Leg<'_>], accesses: &[Access], barriers: &[Barrier]) -> Result<usize, PatchError> {
    let mut passed = 0;
    for phase in [Phase::Trapped, Phase::Backed] {
        // Whoever ran into a trap that cannot be carried out may have finished that flight already.
        let mine: Vec<&Leg<'_>> = legs.iter().filter(|(_, flight)| flight.phase() == phase && flight.seize(phase)).collect();
        if mine.is_empty() {
            continue;
        }
        if let Err(error) = barriers.iter().try_for_each(|barrier| barrier.pass()) {
            return Err(give_up(&mine, phase, error));
        }
        passed += barriers.len();
        let mut failed = None;
        in_windows(
            accesses,
            &mine,
            |(site, _)| site,
            |(_, flight), window| {
                failed = flight.stores_of_leg(phase, window).err().or(failed);
                Ok(())
            },
        )
        .map_err(PatchError::Refused)?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(passed)
}

/// Takes back what can be taken back, and leaves the rest to the completion thread.
fn give_up(mine: &[&Leg<'_>], phase: Phase, error: BarrierError) -> PatchError {
    for (_, flight) in mine {
        flight.retreat(phase);
        if flight.phase() != Phase::Idle {
            completion::enqueue(flight);
        }
    }
    error.into()
}

/// Calls `act` for every item within a window of its site's access, one window for each access.
fn in_windows<T>(
    accesses: &[Access],
    items: &[T],
    site_of: impl Fn(&T) -> &PatchSite,
    mut act: impl FnMut(&T, &Window) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for &access in accesses {
        let of_access = || items.iter().filter(|item| site_of(item).parts().2 == access);
        let window = Window::open(access, of_access().map(|item| site_of(item).parts().0))?;
        of_access().try_for_each(|item| act(item, &window))?;
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
