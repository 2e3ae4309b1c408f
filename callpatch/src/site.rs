//! A call site: one instruction that leads to a hook, and one byte of it that is the switch.
//!
//! ```text
//!   on    E8 d0 d1 d2 d3     call hook
//!   off   A9 d0 d1 d2 d3     test eax, …          one store of one byte, which no thread sees torn (A3), at any alignment
//! ```
//!
//! Both faces are made at adoption. Switching is a load, a comparison and a store: no
//! compare-and-swap, which would cost the time until the line has come from the core that executes
//! it. What is found there and is neither face is another's, such as a debugger's breakpoint:
//! it is reported and stays. (One that is set between the load and the store is lost; a debugger
//! stops all threads meanwhile.)
//!
//! The displacement is not kept but read from the code, so that there is no second truth about it.
//!
//! # Safety
//!
//! This module exists to store the prepared byte. What makes either byte right is promised at
//! adoption.
#![allow(unsafe_code)]

use crate::Destination;
use crate::error::SetError;
use crate::x86::{Form, Role, Switch};
use std::sync::atomic::{AtomicBool, Ordering};
use wordpatch::live::Width;
use wordpatch::{Access, CodeAddr, Ground, Opening, PatchSite, Word};

/// A call or jump that can be switched on and off while others execute it. Made by
/// [`Survey::adopt`](crate::Survey::adopt).
#[derive(Debug)]
pub struct CallSite {
    pub(crate) ground: Ground,
    form: Form,
    role: Role,
    stroke: Stroke,
    /// | value | meaning | changed by |
    /// |---|---|---|
    /// | `true` | the displacement is whole | a retarget, when the last displacement of its batch is written |
    /// | `false` | it may be half of one: the site stays off | a retarget, before the first displacement is written |
    ///
    /// A retarget has the site to itself; the flag is for what is left when it fails, or when its
    /// thread is not in a forked child.
    settled: AtomicBool,
}

/// How a site is toggled. Faces are the off and the on one.
#[derive(Debug)]
pub(crate) enum Stroke {
    /// One byte.
    Byte { at: u8, faces: [u8; 2] },
    /// Two or four bytes within one granule: the literature's.
    Part { at: u8, width: Width, faces: [u32; 2] },
    /// All bytes within one granule: the literature's, where no boundary cuts the site; and what
    /// of one instruction becomes a jump that its first byte alone does not make.
    Whole(Box<(PatchSite, [Word; 2])>),
}

impl CallSite {
    pub(crate) fn new(ground: Ground, form: Form, role: Role, stroke: Stroke) -> Self {
        Self { ground, form, role, stroke, settled: AtomicBool::new(true) }
    }

    /// Where it begins.
    pub fn address(&self) -> CodeAddr {
        self.ground.address()
    }

    /// Which instruction it is when on.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What it is for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Switches it. When this returns, the new byte is on its way: others see it within the time of
    /// a cache miss, and a thread that is inside the hook stays there until it returns.
    ///
    /// Of several threads that switch one site at the same time the last store counts;
    /// [`Custody`](crate::Custody) makes them agree. Usable in a signal handler.
    #[inline]
    pub fn set(&self, to: Switch) -> Result<(), SetError> {
        let Stroke::Byte { at, faces } = &self.stroke else {
            return self.set_word(to);
        };
        self.ground.fetch();
        let (at, found) = (usize::from(*at), self.ground.byte((*at).into()));
        let (new, old) = (faces[to as usize], faces[1 - to as usize]);
        if found == new {
            return Ok(());
        }
        if found != old || (to == Switch::On && !self.settled.load(Ordering::Relaxed)) {
            return Err(self.why_not(found));
        }
        // SAFETY: (1) `at` is a byte of the form, which is the ground's length; (2) both faces are
        // right to execute here, by construction in `Survey::adopt`, and one byte is never torn
        // (A3); (3) the adopter keeps others from writing here, and callers of this function store
        // one of two bytes, each of which is right.
        unsafe { self.ground.store(at, Width::One, new.into()) }.map_err(SetError::Refused)
    }

    /// Which state its bytes are in; `None` if they are another's.
    pub fn state(&self) -> Option<Switch> {
        let [off, on] = self.faces();
        match self.seen() {
            seen if seen == off => Some(Switch::Off),
            seen if seen == on => Some(Switch::On),
            _ => None,
        }
    }

    /// Where its displacement leads.
    pub fn destination(&self) -> Destination {
        let bytes = self.ground.read();
        let displacement = bytes
            .part(self.form.displacement_at()..self.form.len())
            .map_or(0, |d| d.to_u64() as u32 as i32);
        Destination::of(self.form, self.address(), displacement)
    }

    /// Whether its displacement is whole: not so after a retarget that was broken off, until the
    /// next.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub(crate) fn settle(&self, settled: bool) {
        self.settled.store(settled, Ordering::Release);
    }

    /// Whether one byte is its switch, as it must be for a retarget.
    pub(crate) fn switch_byte(&self) -> Option<(usize, [u8; 2])> {
        match &self.stroke {
            Stroke::Byte { at, faces } => Some(((*at).into(), *faces)),
            Stroke::Part { .. } | Stroke::Whole(_) => None,
        }
    }

    /// The bytes that a toggle changes.
    fn faces(&self) -> [Word; 2] {
        let word = |value, len| {
            Word::from_u64(value, len)
                .unwrap_or_else(|| unreachable!("a stroke has one to eight bytes"))
        };
        match &self.stroke {
            Stroke::Byte { faces, .. } => faces.map(|face| word(face.into(), 1)),
            Stroke::Part { width, faces, .. } => faces.map(|face| word(face.into(), width.bytes())),
            Stroke::Whole(whole) => whole.1,
        }
    }

    /// What is there in their place.
    fn seen(&self) -> Word {
        let (at, len) = match &self.stroke {
            Stroke::Byte { at, .. } => (usize::from(*at), 1),
            Stroke::Part { at, width, .. } => (usize::from(*at), width.bytes()),
            Stroke::Whole(_) => (0, self.ground.len()),
        };
        self.ground
            .read()
            .part(at..at + len)
            .unwrap_or_else(|| unreachable!("a stroke lies inside of its site"))
    }

    #[cold]
    fn why_not(&self, found: u8) -> SetError {
        let [off, on] = self.faces();
        match Word::from_u64(found.into(), 1) {
            Some(found) if found != off && found != on => {
                SetError::Foreign { address: self.address(), off, on, found }
            }
            _ => SetError::Unsettled { address: self.address() },
        }
    }

    /// Switches what takes more than one byte.
    fn set_word(&self, to: Switch) -> Result<(), SetError> {
        let ([off, on], found) = (self.faces(), self.seen());
        let new = if to == Switch::On { on } else { off };
        if found == new {
            return Ok(());
        }
        if found != off && found != on {
            return Err(SetError::Foreign { address: self.address(), off, on, found });
        }
        match &self.stroke {
            Stroke::Part { at, width, .. } => {
                // SAFETY: (1) a part of the site, by construction in `paper`; (2) both faces are
                // right and lie within one granule (A1); (3) the adopter.
                unsafe { self.ground.store((*at).into(), *width, new.to_u64()) }
                    .map_err(SetError::Refused)
            }
            // SAFETY: (1) a nop of five bytes in place of a call, or a jump in place of the beginning
            // of one instruction, or back: no thread resumes in the middle of either (A4).
            Stroke::Whole(whole) => Ok(unsafe { whole.0.patch(new) }?),
            Stroke::Byte { .. } => unreachable!("`set` does it"),
        }
    }
}

/// What [`set_all`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// How many sites were switched.
    pub changed: usize,
    /// How many were in that state already.
    pub unchanged: usize,
    /// Those that were not switched, and why.
    pub failed: Vec<SetError>,
}

/// Switches many sites, with one window for all where pages are writable only in windows. Every
/// site is tried, whatever became of the others.
pub fn set_all<'s>(sites: impl IntoIterator<Item = &'s CallSite>, to: Switch) -> Switched {
    let mut switched = Switched::default();
    let note = |switched: &mut Switched, result| match result {
        Ok(true) => switched.changed += 1,
        Ok(false) => switched.unchanged += 1,
        Err(error) => switched.failed.push(error),
    };
    let mut in_windows = Vec::new();
    for site in sites {
        if site.ground.access() == Access::Rwx || site.switch_byte().is_none() {
            note(&mut switched, site.set_noting(to));
        } else {
            in_windows.push(site);
        }
    }
    if in_windows.is_empty() {
        return switched;
    }
    match Opening::of(in_windows.iter().map(|site| &site.ground)) {
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
    /// As `set`; tells whether the site was in the other state.
    #[inline]
    fn set_noting(&self, to: Switch) -> Result<bool, SetError> {
        let Stroke::Byte { at, faces } = &self.stroke else {
            let changes = self.state() != Some(to);
            return self.set_word(to).map(|()| changes);
        };
        let changes = self.ground.byte((*at).into()) != faces[to as usize];
        self.set(to).map(|()| changes)
    }

    /// As `set_noting`, through a window that is open.
    pub(crate) fn set_through(&self, opening: &Opening, to: Switch) -> Result<bool, SetError> {
        let Some((at, faces)) = self.switch_byte() else { return self.set_noting(to) };
        let (found, new, old) = (self.ground.byte(at), faces[to as usize], faces[1 - to as usize]);
        if found == new {
            return Ok(false);
        }
        if found != old || (to == Switch::On && !self.is_settled()) {
            return Err(self.why_not(found));
        }
        // SAFETY: as in `set`.
        unsafe { opening.store(&self.ground, at, Width::One, new.into()) }
            .map_err(SetError::Refused)?;
        Ok(true)
    }
}
