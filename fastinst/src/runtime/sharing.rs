//! Shared exits: on while one of the functions that end there is timed.
//!
//! Compilers merge the ends of functions that they have inlined into one, so that one call of the
//! hook is the exit of several. Such a site distinguishes its functions by the address that its
//! hook receives ([`Owners`]). It must be on while any of them is timed, and off otherwise: if a
//! frequent function ends where a rare one does, every end would run the hook for nothing.
//!
//! The code shows which functions may end there, as far as discovery has understood it: they are
//! the site's *partners*. Exits that only events have shown to be shared stay on: a function that
//! has not ended there yet would never be seen while the site is off.

use super::functions::Id;
use super::site_lists::Moves;
use super::sites::{self, Owners, SHARED_SITES, Site};
use super::{modes, scope};
use crate::probe::Kind;
use callpatch::{SetError, Switch};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, fence};

/// The functions that a shared exit may be an end of.
#[derive(Debug)]
struct Partners(Box<[Id]>);

/// By the number of the site's owners; null where they are not known. Never freed, since a hook may
/// be reading it.
static PARTNERS: [AtomicPtr<Partners>; SHARED_SITES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SHARED_SITES];

impl Partners {
    /// Also `None` once the site's module is unloaded, and with it the island that its cell was in.
    fn cell(site: &Site) -> Option<&'static AtomicPtr<Self>> {
        if site.gone.load(Relaxed) {
            return None;
        }
        PARTNERS.get(Owners::number_of_cell(site.cell().target().get())?)
    }

    #[allow(unsafe_code)]
    fn of(site: &Site) -> Option<&'static Self> {
        // SAFETY: (1) what is stored there is leaked, and never changes.
        unsafe { Self::cell(site)?.load(Acquire).as_ref() }
    }

    fn is_timed(&self) -> bool {
        self.0.iter().any(|&id| modes::mode_is_sample(id.function()) || scope::needs_exits(id))
    }
}

/// Switches a shared exit as its partners say; nothing if it is to stay on. Usable in a signal
/// handler.
///
/// Several threads may do this at once, for several functions. Each has changed its function
/// before, and checks again after its store and a fence: so the thread that stores last has seen
/// what all the others have changed.
pub(super) fn switch(site: &Site) -> Result<(), SetError> {
    // Checked first: a site that is not to be switched may be gone.
    while site.is_switchable()
        && let Some(partners) = Partners::of(site)
    {
        let wanted = partners.is_timed();
        modes::turn(site, if wanted { Switch::On } else { Switch::Off })?;
        fence(SeqCst);
        if Partners::of(site).is_some_and(|partners| partners.is_timed() == wanted) {
            break;
        }
    }
    Ok(())
}

/// Records a site's partners, before it is installed. Returns what its cell is to hold; `None` if
/// there is no room for more such sites.
pub(super) fn record_partners(partners: &[Id]) -> Option<u32> {
    let (owners, cell) = Owners::new()?;
    partners.iter().for_each(|&id| owners.add(id));
    let partners = Partners(partners.into());
    PARTNERS[Owners::number_of_cell(cell as usize)?].store(Box::leak(Box::new(partners)), Release);
    Some(cell)
}

/// The module of a shared site was loaded again: its functions have the numbers that they had, but
/// may lie at other addresses.
pub(super) fn record_partners_again(cell: u32, partners: &[Id]) -> u32 {
    if let Some(owners) = Owners::of_cell(cell as usize) {
        owners.clear();
        partners.iter().for_each(|&id| owners.add(id));
    }
    cell
}

/// A function has ended at a shared exit where discovery had not foreseen it. By the agent.
pub(super) fn learn(number: u32, site: &Site, told: Id, moves: &mut Moves) {
    if let Some(owners) = Owners::of_cell(site.cell().target().get()) {
        owners.add(told);
    }
    if let (Some(partners), Some(cell)) = (Partners::of(site), Partners::cell(site))
        && !partners.0.contains(&told)
    {
        let more = partners.0.iter().copied().chain([told]).collect();
        cell.store(Box::leak(Box::new(Partners(more))), Release);
        moves.add(told, number, Kind::Exit);
    }
}

/// The functions that end at a site, if it is shared and they are known.
pub(super) fn partners(site: &Site) -> impl Iterator<Item = Id> {
    let partners = Partners::of(site).filter(|_| site.shared.load(Relaxed));
    partners.into_iter().flat_map(|partners| partners.0.iter().copied())
}

/// Functions that end where this one does: their ends pass its exits while it is timed.
pub(super) fn others(id: Id) -> Vec<Id> {
    let exits = id.function().site_list().map_or(&[][..], |list| list.exits());
    let others: BTreeSet<Id> =
        exits.iter().filter_map(|&number| sites::get(number)).flat_map(partners).collect();
    others.into_iter().filter(|&other| other != id).collect()
}
