//! Retargeting: changing the targets of sites, with one barrier for all.
//!
//! The off state is the guard: a thread that reaches the site meanwhile executes it and continues,
//! whatever its displacement. No trap is needed.
//!
//! ```text
//!   E8 a0 a1 a2 a3     call a
//!   A9 a0 a1 a2 a3     Off            one byte each
//!                      Barrier        no thread runs on an E8 that it fetched earlier
//!   A9 b0 a1 b2 a3     Displacement   in pieces of any width, in any order
//!   A9 b0 b1 b2 b3     (Barrier)      where fetch may see the back late
//!   E8 b0 b1 b2 b3     Encoding       one byte each: on, where it was on before
//! ```
//!
//! If the new displacement can be the end of a nop, a site that is off becomes that nop at the end:
//! while half of a displacement is in place, only the guard is valid.
//!
//! [`steps`](protocol::steps) decides, [`Retarget`] applies, the model shows that each step is
//! needed. Two consequences:
//!
//! - A site that is already off needs the barrier, too: it may have been switched off just before.
//! - A guard that reads through the displacement (`85 15`) must never have half of one. There the
//!   displacement is replaced as a word of `wordpatch`: by one store if no granule's boundary cuts
//!   it, otherwise behind a trap. Before a program has threads no trap is needed
//!   ([`Retarget::commit_alone`]).
//!
//! **Threads in the old target.** A thread that was called through a site and has not returned may
//! stay in the old target for any time, and then returns to the address after the site, whether
//! that is on or off. So the old target must remain: a retarget does not tell when it can be
//! removed. Sites of one batch change within microseconds of each other, not at once: a thread may
//! pass one that is off and find the next one on.
//!
//! # Safety
//!
//! This module writes displacements behind guards. The owner of the new targets guarantees that
//! they may be called there.
#![allow(unsafe_code)]

use crate::error::{Broken, RetargetError};
use crate::site::CallSite;
use crate::x86::{Role, Switch};
use protocol::Step;
use std::collections::HashSet;
use wordpatch::live::Width;
use wordpatch::{Batch, CodeAddr, Layout, Opening, Policy, Word};

pub mod protocol;

/// Sites that will get new targets together.
#[derive(Debug)]
#[must_use = "nothing is changed before it is committed"]
pub struct Retarget<'site> {
    policy: Policy,
    edits: Vec<Edit<'site>>,
    /// The process has no other thread: no thread fetches half of a displacement.
    is_alone: bool,
}

#[derive(Debug)]
struct Edit<'site> {
    site: &'site CallSite,
    displacement: i32,
    /// The state of the site when the batch began.
    was: Switch,
}

/// The result of a retarget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retargeted {
    /// Number of sites with a new target.
    pub sites: usize,
    /// Barriers passed, those for traps included.
    pub barriers: usize,
}

impl<'site> Retarget<'site> {
    /// An empty batch, under the policy of the sites' adoption.
    pub fn new(policy: Policy) -> Self {
        Self { policy, edits: Vec::new(), is_alone: false }
    }

    /// Adds a site with its new target `to`: code, or for a [form through
    /// memory](crate::Form::is_through_memory) the slot that holds the code's address.
    ///
    /// # Safety
    /// 1. The target of `to` may be called, or jumped to, in the site's place, for as long as the
    ///    site can be on and as a thread may be inside. 2. The site's code is still mapped.
    pub unsafe fn push(
        &mut self,
        site: &'site mut CallSite,
        to: CodeAddr,
    ) -> Result<(), RetargetError> {
        // SAFETY: (1) and (2) the caller; (3) no other code accesses the site while it is borrowed.
        unsafe { self.push_shared(site, to) }
    }

    /// Adds a site that other code can access.
    ///
    /// # Safety
    /// As for [`push`](Self::push), and 3. no code switches or retargets the site until the batch
    /// is over.
    pub unsafe fn push_shared(
        &mut self,
        site: &'site CallSite,
        to: CodeAddr,
    ) -> Result<(), RetargetError> {
        let address = site.address();
        if site.byte().is_none() {
            return Err(RetargetError::Strategy { address });
        }
        if site.role() == Role::Pun {
            return Err(RetargetError::Pun { address });
        }
        let displacement = site
            .form()
            .displacement(address, to)
            .ok_or(RetargetError::OutOfReach { address, target: to })?;
        self.edits.push(Edit { site, displacement, was: Switch::Off });
        Ok(())
    }

    /// The number of sites.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Gives all sites their new targets. Sites that were on are on again afterwards. On an error
    /// no site has changed, except as [`RetargetError::BrokenOff`] says.
    pub fn commit(mut self) -> Result<Retargeted, RetargetError> {
        let mut done = Retargeted { sites: self.edits.len(), barriers: 0 };
        self.require_distinct()?;
        let Some(first) = self.edits.first().map(|edit| edit.site.address()) else {
            return Ok(done);
        };
        let mut changed = false;
        for &step in protocol::steps(self.policy.order) {
            let result = match step {
                Step::Off => {
                    self.switch_off()?;
                    Ok(())
                }
                Step::Barrier => {
                    self.policy.barrier.pass().map(|()| done.barriers += 1).map_err(Broken::Barrier)
                }
                Step::Displacement => {
                    changed = true;
                    self.write_displacements().map(|barriers| done.barriers += barriers)
                }
                Step::Encoding => self.show(),
            };
            match result {
                Ok(()) => {}
                Err(Broken::Barrier(error)) if !changed => {
                    self.take_back();
                    return Err(RetargetError::Barrier(error));
                }
                Err(why) => return Err(RetargetError::BrokenOff { address: first, why }),
            }
        }
        Ok(done)
    }

    /// As [`commit`](Self::commit), where no other thread can reach a site. Then no displacement
    /// needs a trap, which fails if a thread or a handler blocks `SIGTRAP`.
    ///
    /// # Safety
    /// Until this returns: 1. The calling thread is the only one of the process. 2. It blocks all
    /// signals whose handlers may run through a site.
    pub unsafe fn commit_alone(mut self) -> Result<Retargeted, RetargetError> {
        self.is_alone = true;
        self.commit()
    }

    fn require_distinct(&self) -> Result<(), RetargetError> {
        if self.edits.is_sorted_by(|a, b| a.site.address() < b.site.address()) {
            return Ok(());
        }
        let mut seen = HashSet::with_capacity(self.edits.len());
        match self
            .edits
            .iter()
            .map(|edit| edit.site.address())
            .find(|&address| !seen.insert(address))
        {
            None => Ok(()),
            Some(address) => Err(RetargetError::Twice { address }),
        }
    }

    /// Switches all sites off, or, on an error, leaves all as they were.
    fn switch_off(&mut self) -> Result<(), RetargetError> {
        let result = self.try_switch_off();
        if result.is_err() {
            self.take_back();
        }
        result.map_err(RetargetError::Off)
    }

    fn try_switch_off(&mut self) -> Result<(), crate::SetError> {
        let opening = open(self.edits.iter()).map_err(crate::SetError::Refused)?;
        for edit in &mut self.edits {
            edit.was = edit.site.guard_through(&opening)?;
        }
        Ok(())
    }

    /// Switches sites on again, with their old targets. A site that cannot be switched on stays
    /// off, which is harmless; its error is not reported, as the first error is.
    fn take_back(&self) {
        for edit in self.edits.iter().filter(|edit| edit.was == Switch::On) {
            let _ = edit.site.set(Switch::On);
        }
    }

    /// Writes the displacements; returns the number of barriers.
    fn write_displacements(&self) -> Result<usize, Broken> {
        self.edits.iter().for_each(|edit| edit.site.unsettle());
        let (words, free): (Vec<&Edit<'_>>, Vec<&Edit<'_>>) = self.edits.iter().partition(|edit| {
            !self.is_alone && edit.site.form().off_reads_memory(edit.site.role())
        });
        let opening = open(free.iter().copied()).map_err(Broken::Refused)?;
        for edit in free {
            let (site, at) = (edit.site, edit.site.form().displacement_at());
            // SAFETY: (1) the displacement lies inside of the form; (2) the site is off, and was
            // before the barrier: a thread that reaches it runs the guard, which ignores the
            // displacement (A5) or returns, or no thread reaches it (`commit_alone`); (3) the
            // caller of `push`.
            unsafe {
                opening.store(&site.region, at, Width::Four, edit.displacement as u32 as u64)
            }
            .map_err(Broken::Refused)?;
        }
        drop(opening);
        self.replace_words(&words)
    }

    /// Replaces the displacements that are read by their guards. Returns the number of barriers.
    fn replace_words(&self, edits: &[&Edit<'_>]) -> Result<usize, Broken> {
        if edits.is_empty() {
            return Ok(0);
        }
        let mut survey = wordpatch::Survey::new(self.policy)?;
        // SAFETY: (1) and (2) the adopter of the site; (3) one instruction before and after; (4)
        // the caller of `push`.
        let adopt = |edit: &&Edit<'_>| unsafe {
            survey.adopt(edit.site.address(), edit.site.form().len(), Layout::One)
        };
        let sites = edits.iter().map(adopt).collect::<Result<Vec<_>, _>>()?;
        let mut batch = Batch::with_capacity(sites.len());
        for (site, edit) in sites.iter().zip(edits) {
            let off =
                edit.site.form().off_bytes(edit.site.role(), edit.displacement).unwrap_or_default();
            let Some(word) = Word::new(&off) else {
                unreachable!("a form that guards by reading has an off state")
            };
            // SAFETY: (1) the same guard, which reads a slot, by the caller of `push`.
            unsafe { batch.push(site, word) };
        }
        Ok(batch.commit()?.barriers)
    }

    /// Stores the final switching bytes, after all displacements are complete.
    fn show(&self) -> Result<(), Broken> {
        self.edits.iter().for_each(|edit| edit.site.complete_displacement(edit.displacement));
        let opening = open(self.edits.iter()).map_err(Broken::Refused)?;
        self.edits
            .iter()
            .try_for_each(|edit| edit.site.show_through(&opening, edit.was))
            .map_err(Broken::On)
    }
}

fn open<'e, 's: 'e>(
    edits: impl Iterator<Item = &'e Edit<'s>> + Clone,
) -> Result<Opening, wordpatch::Refusal> {
    Opening::of(edits.map(|edit| &edit.site.region))
}

impl CallSite {
    /// Gives the site a new target; see [`Retarget`], which retargets many with one barrier.
    ///
    /// # Safety
    /// As for [`Retarget::push`].
    pub unsafe fn retarget(
        &mut self,
        to: CodeAddr,
        policy: &Policy,
    ) -> Result<Retargeted, RetargetError> {
        let mut batch = Retarget::new(*policy);
        // SAFETY: (1) and (2) the caller.
        unsafe { batch.push(self, to)? };
        batch.commit()
    }
}
