//! A call site: one instruction that leads to a hook. One of its bytes is the switch.
//!
//! ```text
//!   on    E8 d0 d1 d2 d3     call hook
//!   off   A9 d0 d1 d2 d3     test eax, …          one store of one byte, which no thread sees torn (A3), at any alignment
//! or, where d0 d1 are 1F 44:
//!   off   0F 1F 44 d2 d3     nop
//! ```
//!
//! Both encodings are prepared at adoption, and again when a retarget changes the displacement.
//! Switching is a load, a comparison and a store, without compare-and-swap, which would wait until
//! the line has come from the core that executes it. If the site has neither encoding, other code
//! has changed it, for instance a debugger that set a breakpoint: `set` then returns an error and
//! leaves the site unchanged. (A breakpoint that is set between the load and the store is lost; but
//! a debugger stops all threads meanwhile.)
//!
//! The displacement is not stored but read from the code, so there is only one copy of it.
//!
//! # Safety
//!
//! This module stores the prepared byte. Adoption guarantees that both values are correct.
#![allow(unsafe_code)]

use crate::Destination;
use crate::error::SetError;
use crate::x86::{Form, Role, Switch};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use wordpatch::live::Width;
use wordpatch::{Access, CodeAddr, Opening, PatchRegion, PatchSite, Word};

/// A call or jump that can be switched on and off while threads execute it. Made by
/// [`Survey::adopt`](crate::Survey::adopt).
#[derive(Debug)]
pub struct CallSite {
    pub(crate) region: PatchRegion,
    form: Form,
    role: Role,
    kind: PatchKind,
    /// | value | meaning | changed by |
    /// |---|---|---|
    /// | `true` | the displacement is complete | a retarget, after its last displacement |
    /// | `false` | it may be half written: the site stays off | a retarget, before its first one |
    ///
    /// A retarget has exclusive access to the site. The flag matters after a retarget that failed,
    /// or whose thread does not exist in a forked child.
    settled: AtomicBool,
}

/// How a site is toggled between its two encodings.
#[derive(Debug)]
pub(crate) enum PatchKind {
    /// One byte.
    Byte(Byte),
    /// Two or four bytes within one granule: the literature's strategy.
    Part { at: u8, width: Width, encodings: [u32; 2] },
    /// All bytes within one granule: the literature's strategy, where no boundary cuts the site;
    /// and an instruction's beginning that becomes a jump by more than its first byte.
    Whole(Box<(PatchSite, [Word; 2])>),
}

/// The byte that is the switch, and its values.
#[derive(Debug)]
pub(crate) struct Byte {
    at: u8,
    on: u8,
    /// Off, with the site's displacement. A retarget, which has exclusive access, changes it.
    off: AtomicU8,
    /// Off, with any displacement.
    guard: u8,
}

impl Byte {
    /// The switch of a site whose displacement never changes.
    pub(crate) fn fixed(at: u8, off: u8, on: u8) -> Self {
        Self { at, on, off: AtomicU8::new(off), guard: off }
    }

    /// The switch of a form in a role, with that displacement; `None` if the form has no such role.
    pub(crate) fn of(form: Form, role: Role, displacement: i32) -> Option<Self> {
        let off = AtomicU8::new(form.idle(role, displacement)?);
        Some(Self { at: form.switch_at() as u8, on: form.on(), off, guard: form.off(role)? })
    }

    fn encoding(&self, of: Switch) -> u8 {
        match of {
            Switch::On => self.on,
            Switch::Off => self.off.load(Ordering::Relaxed),
        }
    }

    fn state(&self, found: u8) -> Option<Switch> {
        if found == self.on {
            Some(Switch::On)
        } else {
            (found == self.encoding(Switch::Off) || found == self.guard).then_some(Switch::Off)
        }
    }
}

impl CallSite {
    pub(crate) fn new(region: PatchRegion, form: Form, role: Role, kind: PatchKind) -> Self {
        Self { region, form, role, kind, settled: AtomicBool::new(true) }
    }

    /// Its address.
    pub fn address(&self) -> CodeAddr {
        self.region.address()
    }

    /// Its instruction when on.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Switches it. When this returns, the new byte is in the store buffer; other cores see it
    /// within the time of a cache miss. A thread that is inside the hook stays there until it
    /// returns.
    ///
    /// If several threads switch one site at the same time, the last store counts;
    /// [`Ownership`](crate::Ownership) coordinates them. Usable in a signal handler.
    #[inline]
    pub fn set(&self, to: Switch) -> Result<(), SetError> {
        let PatchKind::Byte(byte) = &self.kind else {
            return self.set_word(to);
        };
        self.region.fetch();
        let (at, found) = (usize::from(byte.at), self.region.byte(byte.at.into()));
        let new = byte.encoding(to);
        if found == new {
            return Ok(());
        }
        match byte.state(found) {
            // A guard, which stays until the displacement is complete.
            Some(state) if state == to => return Ok(()),
            Some(_) if to == Switch::Off || self.settled.load(Ordering::Relaxed) => {}
            _ => return Err(self.why_not(found)),
        }
        // SAFETY: (1) `at` is a byte of the form, whose length is the region's; (2) both values are
        // valid here, by construction in `Survey::adopt`, and one byte is never torn (A3); (3) the
        // adopter keeps others from writing here, and callers of this function store one of two
        // bytes, both of which are valid.
        unsafe { self.region.store(at, Width::One, new.into()) }.map_err(SetError::Refused)
    }

    /// Its current state; `None` if other code has changed its bytes.
    pub fn state(&self) -> Option<Switch> {
        if let Some(byte) = self.byte() {
            return byte.state(self.region.byte(byte.at.into()));
        }
        let [off, on] = self.encodings();
        match self.seen() {
            seen if seen == off => Some(Switch::Off),
            seen if seen == on => Some(Switch::On),
            _ => None,
        }
    }

    /// The target of its displacement.
    pub fn destination(&self) -> Destination {
        let bytes = self.region.read();
        let displacement = bytes
            .part(self.form.displacement_at()..self.form.len())
            .map_or(0, |d| d.to_u64() as u32 as i32);
        Destination::of(self.form, self.address(), displacement)
    }

    /// Whether its displacement is complete. It is not after a retarget that failed part-way, until
    /// the next one.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Marks the displacement as possibly half written, until
    /// [`complete_displacement`](Self::complete_displacement).
    pub(crate) fn unsettle(&self) {
        self.settled.store(false, Ordering::Release);
    }

    /// Marks the displacement as complete again, and prepares the off state for it.
    pub(crate) fn complete_displacement(&self, displacement: i32) {
        let idle = self.form.idle(self.role, displacement);
        if let (Some(byte), Some(idle)) = (self.byte(), idle) {
            byte.off.store(idle, Ordering::Relaxed);
        }
        self.settled.store(true, Ordering::Release);
    }

    /// The byte that is its switch, if it has one; a retarget needs one.
    pub(crate) fn byte(&self) -> Option<&Byte> {
        match &self.kind {
            PatchKind::Byte(byte) => Some(byte),
            PatchKind::Part { .. } | PatchKind::Whole(_) => None,
        }
    }

    /// The bytes that a toggle changes, off and on.
    fn encodings(&self) -> [Word; 2] {
        let word = |value, len| {
            Word::from_u64(value, len)
                .unwrap_or_else(|| unreachable!("a patch has one to eight bytes"))
        };
        match &self.kind {
            PatchKind::Byte(byte) => {
                [Switch::Off, Switch::On].map(|of| word(byte.encoding(of).into(), 1))
            }
            PatchKind::Part { width, encodings, .. } => {
                encodings.map(|encoding| word(encoding.into(), width.bytes()))
            }
            PatchKind::Whole(whole) => whole.1,
        }
    }

    /// The bytes found in their place.
    fn seen(&self) -> Word {
        let (at, len) = match &self.kind {
            PatchKind::Byte(byte) => (byte.at.into(), 1),
            PatchKind::Part { at, width, .. } => (usize::from(*at), width.bytes()),
            PatchKind::Whole(_) => (0, self.region.len()),
        };
        self.region
            .read()
            .part(at..at + len)
            .unwrap_or_else(|| unreachable!("a patch lies inside of its site"))
    }

    #[cold]
    fn why_not(&self, found: u8) -> SetError {
        let ([off, on], address) = (self.encodings(), self.address());
        let is_ours = self.byte().is_some_and(|byte| byte.state(found).is_some());
        match Word::from_u64(found.into(), 1).filter(|_| !is_ours) {
            Some(found) => SetError::Foreign { address, off, on, found },
            None => SetError::Unsettled { address },
        }
    }

    /// Switches a site whose toggle changes more than one byte.
    fn set_word(&self, to: Switch) -> Result<(), SetError> {
        let ([off, on], found) = (self.encodings(), self.seen());
        let new = if to == Switch::On { on } else { off };
        if found == new {
            return Ok(());
        }
        if found != off && found != on {
            return Err(SetError::Foreign { address: self.address(), off, on, found });
        }
        match &self.kind {
            PatchKind::Part { at, width, .. } => {
                // SAFETY: (1) a part of the site, by construction in `paper`; (2) both values are
                // valid and lie within one granule (A1); (3) the adopter.
                unsafe { self.region.store((*at).into(), *width, new.to_u64()) }
                    .map_err(SetError::Refused)
            }
            // SAFETY: (1) a five-byte nop replaces a call, or a jump replaces the beginning of one
            // instruction, or the reverse; no thread resumes in the middle of either (A4).
            PatchKind::Whole(whole) => Ok(unsafe { whole.0.patch(new) }?),
            PatchKind::Byte(_) => unreachable!("`set` does it"),
        }
    }
}

/// The result of [`set_all`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// Number of sites switched.
    pub changed: usize,
    /// Number of sites that were in that state already.
    pub unchanged: usize,
    /// Sites that were not switched, with the reasons.
    pub failed: Vec<SetError>,
}

/// Switches many sites, with one window for all if pages are writable only in windows. Every site
/// is tried, even if others fail.
pub fn set_all<'s>(sites: impl IntoIterator<Item = &'s CallSite>, to: Switch) -> Switched {
    let mut switched = Switched::default();
    let note = |switched: &mut Switched, result| match result {
        Ok(true) => switched.changed += 1,
        Ok(false) => switched.unchanged += 1,
        Err(error) => switched.failed.push(error),
    };
    let mut in_windows = Vec::new();
    for site in sites {
        if site.region.access() == Access::Rwx || site.byte().is_none() {
            note(&mut switched, site.set_noting(to));
        } else {
            in_windows.push(site);
        }
    }
    if in_windows.is_empty() {
        return switched;
    }
    match Opening::of(in_windows.iter().map(|site| &site.region)) {
        Ok(opening) => {
            in_windows.iter().for_each(|site| note(&mut switched, site.set_through(&opening, to)));
        }
        Err(refusal) => {
            switched.failed.extend(in_windows.iter().map(|_| SetError::Refused(refusal)));
        }
    }
    switched
}

impl CallSite {
    /// As `set`; returns whether it changed the site's state.
    #[inline]
    fn set_noting(&self, to: Switch) -> Result<bool, SetError> {
        let changes = self.state() != Some(to);
        self.set(to).map(|()| changes)
    }

    /// As `set_noting`, through a window that is open.
    pub(crate) fn set_through(&self, opening: &Opening, to: Switch) -> Result<bool, SetError> {
        let Some(byte) = self.byte() else { return self.set_noting(to) };
        let found = self.region.byte(byte.at.into());
        match byte.state(found) {
            Some(state) if state == to => return Ok(false),
            Some(_) if to == Switch::Off || self.is_settled() => {}
            _ => return Err(self.why_not(found)),
        }
        self.store_through(opening, byte.at, byte.encoding(to))?;
        Ok(true)
    }

    /// Switches the site off by the guard, which is valid with any displacement. Returns the state
    /// before.
    pub(crate) fn guard_through(&self, opening: &Opening) -> Result<Switch, SetError> {
        let Some(byte) = self.byte() else {
            return self.set_through(opening, Switch::Off).map(|_| Switch::Off);
        };
        let found = self.region.byte(byte.at.into());
        let was = byte.state(found).ok_or_else(|| self.why_not(found))?;
        if found != byte.guard {
            self.store_through(opening, byte.at, byte.guard)?;
        }
        Ok(was)
    }

    /// Replaces the guard by the switching byte of `state`, when the displacement is complete.
    pub(crate) fn show_through(&self, opening: &Opening, state: Switch) -> Result<(), SetError> {
        let Some(byte) = self.byte() else { return Ok(()) };
        let (found, new) = (self.region.byte(byte.at.into()), byte.encoding(state));
        if found == new {
            return Ok(());
        }
        if found != byte.guard {
            return Err(self.why_not(found));
        }
        self.store_through(opening, byte.at, new)
    }

    fn store_through(&self, opening: &Opening, at: u8, new: u8) -> Result<(), SetError> {
        // SAFETY: as in `set`.
        unsafe { opening.store(&self.region, at.into(), Width::One, new.into()) }
            .map_err(SetError::Refused)
    }
}
