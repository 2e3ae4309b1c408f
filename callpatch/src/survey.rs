//! Adoption: the check that the bytes at an address are a site.
//!
//! A site is adopted only if its bytes decode to a transfer of control that we know *and* lead to a
//! hook. The second is not a formality: where a compiler ends a function with a jump to the hook,
//! the hook's return address is after one of the program's own calls, and a tool that patches "the
//! call before the return address" would remove that call.
//!
//! The caller decides what is a hook, by a predicate on the site's target. A call into the linkage
//! table leads to a stub; if the predicate does not accept the stub, its slot is decoded from it,
//! and the predicate is applied to the slot.
//!
//! # Safety
//!
//! This module exists to read bytes that its callers declare to be code, and to pass on their
//! promises about it.
#![allow(unsafe_code)]

use crate::Destination;
use crate::error::AdoptError;
use crate::paper::Paper;
use crate::site::{Byte, CallSite, PatchKind};
use crate::x86::{self, Form, Role, Switch, Transfer};
use wordpatch::live::Width;
use wordpatch::os::maps::Mapping;
use wordpatch::os::pages::PAGE;
use wordpatch::{Access, CodeAddr, Granule, Layout, Policy, Word};

/// How sites are toggled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// One byte, at any alignment.
    #[default]
    OneByte,
    /// As in the literature, by the position of the boundary of the policy's granule, which for the
    /// paper is [`Granule::LINE`](wordpatch::Granule::LINE). For comparison only; see DESIGN.md.
    Paper {
        /// A `ret` near all sites. [`Islands::ret`](crate::Islands::ret) has one.
        ret: CodeAddr,
    },
}

/// The bytes of a pun: its switch, and its displacement.
const PUN: usize = Form::Jump.len();
/// The most bytes that one prepared store can cover.
const WORD: usize = 8;

/// A snapshot of the mappings of the process, for adopting many sites.
#[derive(Debug)]
pub struct Survey {
    region: wordpatch::Survey,
    granule: Granule,
    strategy: Strategy,
}

impl Survey {
    /// Reads the current mappings.
    pub fn new(policy: Policy) -> Result<Self, AdoptError> {
        Ok(Self::on(wordpatch::Survey::new(policy)?, policy))
    }

    /// The same, from mappings that the caller has just read.
    pub fn over(policy: Policy, mappings: Vec<Mapping>) -> Self {
        Self::on(wordpatch::Survey::over(policy, mappings), policy)
    }

    fn on(region: wordpatch::Survey, policy: Policy) -> Self {
        Self { region, granule: policy.granule, strategy: Strategy::OneByte }
    }

    /// The same, but sites are toggled by another strategy.
    #[must_use]
    pub fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// Makes the pages of a range ready at once: worth while before many sites of a module are
    /// adopted.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt), for the code on all of these pages.
    pub unsafe fn open(&mut self, range: std::ops::Range<CodeAddr>) {
        // SAFETY: (1) the caller.
        unsafe { self.region.open(range) };
    }

    /// Adopts the transfer of control at `address`, which is on, if `is_hook` accepts its
    /// destination as a hook.
    ///
    /// # Safety
    /// For as long as the site lives: 1. The code stays mapped. 2. An instruction begins at
    /// `address` and no thread jumps, returns or resumes into the middle of it (A4). 3. No other
    /// code writes to it, debuggers excepted. 4. While it is off, no code depends on the transfer:
    /// the flags are dead after a [`Role::Call`] or a [`Role::Detour`] (A5), and at a
    /// [`Role::TailJump`] the stack's top is the return address. 5. Its target may be called, or
    /// jumped to, for as long as it can be on.
    pub unsafe fn adopt(
        &mut self,
        address: CodeAddr,
        role: Role,
        is_hook: impl Fn(Destination) -> bool,
    ) -> Result<CallSite, AdoptError> {
        // SAFETY: (1) the caller.
        let (found, transfer) = unsafe { self.transfer(address)? };
        match transfer {
            None => Err(AdoptError::NoTransfer { address, found }),
            Some(Transfer::Conditional(jump)) => {
                // SAFETY: (1) the caller: the jump's target is code.
                unsafe {
                    self.require_hook(
                        Form::Jump,
                        address,
                        Destination::Code(jump.target),
                        is_hook,
                    )?;
                };
                Err(AdoptError::Conditional(jump))
            }
            Some(Transfer::Switchable { form, displacement }) => {
                let destination = Destination::of(form, address, displacement);
                let byte = Byte::of(form, role, displacement);
                let byte = byte.ok_or(AdoptError::Role { address, form, role })?;
                // SAFETY: (1) the caller.
                unsafe {
                    self.require_hook(form, address, destination, is_hook)?;
                    self.prepare(address, form, role, byte, displacement)
                }
            }
        }
    }

    /// Adopts a site that is off, for instance one that a compiler emitted so. Its displacement may
    /// lead anywhere until it is retargeted. A [`Role::TailJump`] is recognised by its `ret` alone.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt), and the bytes are those of `form`, except for the switch. If
    /// its displacement leads nowhere, it is retargeted before it is switched on.
    pub unsafe fn adopt_off(
        &mut self,
        address: CodeAddr,
        form: Form,
        role: Role,
    ) -> Result<CallSite, AdoptError> {
        // SAFETY: (1) the caller.
        let found = unsafe { self.region.read(address, form.len())? };
        let displacement = found.part(form.displacement_at()..form.len());
        let displacement = displacement.map_or(0, |bytes| bytes.to_u64() as u32 as i32);
        let byte = Byte::of(form, role, displacement);
        let byte = byte.ok_or(AdoptError::Role { address, form, role })?;
        let at = form.switch_at();
        let whole = form.off_bytes(role, 0).unwrap_or_default();
        let fixed = if role == Role::TailJump { at + 1 } else { form.displacement_at() };
        if let Some(wrong) = (0..fixed).find(|&i| found.bytes()[i] != whole[i]) {
            let (expected, found) = (whole[wrong], found.bytes()[wrong]);
            return Err(AdoptError::NotOff {
                address: address.offset(wrong as isize),
                expected,
                found,
            });
        }
        if self.strategy != Strategy::OneByte {
            return Err(AdoptError::NotForPaper { address });
        }
        // SAFETY: (1) the caller.
        let region = unsafe { self.region.patch_region(address, form.len())? };
        Ok(CallSite::new(region, form, role, PatchKind::Byte(byte)))
    }

    /// Turns the bytes that a compiler reserved for a site into a site that is off, if they are
    /// `was`: a [`Form::Jump`] as a [`Role::Detour`], followed by nops.
    /// [`adopt_off`](Self::adopt_off) adopts it then.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt), and no other thread executes these bytes until this returns:
    /// they are written one by one.
    ///
    /// # Panics
    /// If `was` is shorter than a jump.
    pub unsafe fn make_detour(&mut self, address: CodeAddr, was: &[u8]) -> Result<(), AdoptError> {
        let mut code = vec![0; was.len()];
        let (jump, rest) = code.split_at_mut(Form::Jump.len());
        jump.copy_from_slice(&Form::Jump.off_bytes(Role::Detour, 0).unwrap_or_default());
        x86::stubs::fill_with_nothing(rest);
        let mut pieces = Vec::new();
        for (i, expected) in was.chunks(WORD).enumerate() {
            let at = address.offset((i * WORD) as isize);
            // SAFETY: (1) the caller.
            let region = unsafe {
                self.require(at, expected)?;
                self.region.patch_region(at, expected.len())?
            };
            if region.access() != Access::Rwx {
                // A refused store in the middle would leave half of an instruction.
                return Err(AdoptError::NotInPlace { address });
            }
            pieces.push(region);
        }
        for (region, bytes) in pieces.iter().zip(code.chunks(WORD)) {
            for (at, byte) in bytes.iter().enumerate() {
                // SAFETY: (1) inside; (2) no thread executes them, by the caller; (3) the caller.
                let stored = unsafe { region.store(at, Width::One, (*byte).into()) };
                stored.map_err(|_| AdoptError::NotInPlace { address })?;
            }
        }
        Ok(())
    }

    /// Adopts an instruction at `address` as a [`Role::Pun`], if these five bytes are there. When
    /// the site is on, its first byte begins a jump whose displacement is the four bytes that
    /// follow. They need not belong to the instruction.
    ///
    /// # Safety
    /// For as long as the site lives: 1. The code stays mapped. 2. An instruction begins at
    /// `address`. 3. No other code writes to these bytes, debuggers excepted. 4. While it is on,
    /// the code at the displacement's target does what the instruction does, and the code after it.
    pub unsafe fn adopt_pun(
        &mut self,
        address: CodeAddr,
        bytes: [u8; PUN],
    ) -> Result<CallSite, AdoptError> {
        // SAFETY: (1) the caller.
        unsafe { self.require(address, &bytes)? };
        if bytes[0] == Form::Jump.on() {
            // Both states would be the same.
            return Err(AdoptError::Role { address, form: Form::Jump, role: Role::Pun });
        }
        // SAFETY: (1) the caller.
        let region = unsafe { self.region.patch_region(address, PUN)? };
        let kind = PatchKind::Byte(Byte::fixed(0, bytes[0], Form::Jump.on()));
        Ok(CallSite::new(region, Form::Jump, Role::Pun, kind))
    }

    /// Adopts the beginning of one instruction as a [`Role::Pun`], if `was` is there. When the site
    /// is on, it is `becomes`: the beginning of a jump, or a whole one. One store replaces it, so
    /// both must lie within one granule.
    ///
    /// # Safety
    /// For as long as the site lives: 1. The code stays mapped. 2. An instruction begins at
    /// `address` that has all of these bytes, and perhaps more, and no thread jumps into the middle
    /// of it (A4). 3. No other code writes to these bytes, debuggers excepted. 4. While it is on,
    /// the code at the jump's target does what the instruction does, and the code after it.
    pub unsafe fn adopt_beginning(
        &mut self,
        address: CodeAddr,
        was: &[u8],
        becomes: &[u8],
    ) -> Result<CallSite, AdoptError> {
        let len = was.len();
        let (Some(off), Some(on)) = (Word::new(was), Word::new(becomes)) else {
            return Err(wordpatch::AdoptError::Length { address, len }.into());
        };
        if self.granule.cut(address, len).is_some() || becomes.len() != len {
            return Err(AdoptError::Cut { address, len });
        }
        // SAFETY: (1) the caller.
        unsafe { self.require(address, was)? };
        if off == on {
            return Err(AdoptError::Role { address, form: Form::Jump, role: Role::Pun });
        }
        // SAFETY: (1) the caller; the beginning of one instruction becomes that of another.
        let (region, site) = unsafe {
            let region = self.region.patch_region(address, len)?;
            if region.access() == Access::ProcMem {
                // It stores byte by byte.
                return Err(AdoptError::Cut { address, len });
            }
            (region, self.region.adopt(address, len, Layout::One)?)
        };
        let kind = PatchKind::Whole(Box::new((site, [off, on])));
        Ok(CallSite::new(region, Form::Jump, Role::Pun, kind))
    }

    /// Adopts the end of a jump as a [`Role::Pun`], if these five bytes are there: the last four
    /// are its displacement. When the site is on, the last byte is `last`, so that the jump leads
    /// elsewhere. `address` lies five bytes before the jump's end; in a conditional jump of six
    /// bytes that is the second byte.
    ///
    /// # Safety
    /// For as long as the site lives: 1. The code stays mapped. 2. These bytes end a jump, and the
    /// last four are its displacement. 3. No other code writes to these bytes, debuggers
    /// excepted. 4. While it is on, the code at its new target does what the code at the old one
    /// does.
    pub unsafe fn adopt_turn(
        &mut self,
        address: CodeAddr,
        bytes: [u8; PUN],
        last: u8,
    ) -> Result<CallSite, AdoptError> {
        // SAFETY: (1) the caller.
        unsafe { self.require(address, &bytes)? };
        let encodings = [bytes[PUN - 1], last];
        if encodings[0] == last {
            return Err(AdoptError::Role { address, form: Form::Jump, role: Role::Pun });
        }
        // SAFETY: (1) the caller.
        let region = unsafe { self.region.patch_region(address, PUN)? };
        let kind = PatchKind::Byte(Byte::fixed(PUN as u8 - 1, encodings[0], encodings[1]));
        Ok(CallSite::new(region, Form::Jump, Role::Pun, kind))
    }

    /// Adopts a `ret` that another instruction follows, as a [`Role::Pun`]. When the site is on,
    /// the `ret` is a nop, and threads continue at that instruction, which may be a site of its
    /// own, on or off.
    ///
    /// # Safety
    /// For as long as the site lives: 1. The code stays mapped. 2. An instruction begins at
    /// `address`, and another right after it. 3. No other code writes to these bytes, except
    /// debuggers and the other instruction's site.
    pub unsafe fn adopt_return(&mut self, address: CodeAddr) -> Result<CallSite, AdoptError> {
        // SAFETY: (1) the caller; whatever its site makes of the other one leads to where a `ret`
        // leads.
        let region = unsafe {
            self.require(address, &[x86::RET])?;
            self.region.patch_region(address, 1)?
        };
        let kind = PatchKind::Byte(Byte::fixed(0, x86::RET, x86::NOP));
        Ok(CallSite::new(region, Form::Jump, Role::Pun, kind))
    }

    /// Checks that these bytes are there.
    unsafe fn require(&mut self, address: CodeAddr, bytes: &[u8]) -> Result<(), AdoptError> {
        // SAFETY: (1) the caller.
        let found = unsafe { self.region.read(address, bytes.len())? };
        match bytes.iter().zip(found.bytes()).position(|(expected, found)| expected != found) {
            None => Ok(()),
            Some(wrong) => {
                let (expected, found) = (bytes[wrong], found.bytes()[wrong]);
                let address = address.offset(wrong as isize);
                Err(AdoptError::NotOff { address, expected, found })
            }
        }
    }

    /// The transfer at `address`, and its bytes.
    unsafe fn transfer(
        &mut self,
        address: CodeAddr,
    ) -> Result<(Word, Option<Transfer>), AdoptError> {
        // At once, if the longest possible transfer would lie on this page; otherwise its beginning
        // first.
        let room = PAGE - address.within(PAGE);
        let mut len = if room < x86::LONGEST { 2 } else { x86::LONGEST };
        loop {
            // SAFETY: (1) the caller. No known transfer is shorter than two bytes.
            let found = unsafe { self.region.read(address, len)? };
            let &[first, second, ..] = found.bytes() else {
                unreachable!("at least two bytes were read")
            };
            match x86::length(first, second) {
                None => return Ok((found, None)),
                Some(whole) if whole <= len => {
                    let found = found.part(0..whole).unwrap_or(found);
                    return Ok((found, x86::decode(address, found.bytes())));
                }
                Some(whole) => len = whole,
            }
        }
    }

    /// Applies `is_hook` to the destination of a site, and to the slot of a linkage stub there.
    unsafe fn require_hook(
        &mut self,
        form: Form,
        address: CodeAddr,
        destination: Destination,
        is_hook: impl Fn(Destination) -> bool,
    ) -> Result<(), AdoptError> {
        if is_hook(destination) {
            return Ok(());
        }
        let slot = match destination {
            // SAFETY: (1) the caller: a site's target is code, and stays mapped.
            Destination::Code(stub) => unsafe { self.slot_of(stub) },
            Destination::Slot(_) => None,
        };
        match slot {
            Some(slot) if is_hook(Destination::Slot(slot)) => Ok(()),
            _ => Err(AdoptError::Elsewhere { address, form, destination }),
        }
    }

    /// The slot of a linkage stub, if there is one at `stub`.
    unsafe fn slot_of(&mut self, stub: CodeAddr) -> Option<CodeAddr> {
        let mut bytes = Vec::new();
        loop {
            let missing = x86::stub_len(&bytes)? - bytes.len();
            if missing == 0 {
                break;
            }
            let at = stub.offset(bytes.len() as isize);
            // The next page is read only if a stub continues there: it may be another module's,
            // which is being unloaded now.
            let len = missing.min(8).min(PAGE - at.within(PAGE));
            // SAFETY: (1) the caller; (2) so far these are bytes of a stub, or of another
            // instruction on the page of the first.
            let word = unsafe { self.region.read(at, len) }.ok()?;
            bytes.extend_from_slice(word.bytes());
        }
        x86::stub_slot(stub, &bytes)
    }

    unsafe fn prepare(
        &mut self,
        address: CodeAddr,
        form: Form,
        role: Role,
        byte: Byte,
        displacement: i32,
    ) -> Result<CallSite, AdoptError> {
        // SAFETY: (1) the caller of `adopt`.
        let region = unsafe { self.region.patch_region(address, form.len())? };
        let kind = match self.strategy {
            Strategy::OneByte => PatchKind::Byte(byte),
            Strategy::Paper { .. }
                if form != Form::Call
                    || region.access() == Access::ProcMem
                    || self.granule == Granule::BYTE =>
            {
                return Err(AdoptError::NotForPaper { address });
            }
            Strategy::Paper { ret } => {
                let paper = Paper { granule: self.granule, ret };
                // SAFETY: (1) the caller of `adopt`; the bytes are a call of five.
                unsafe { paper.patch_kind(address, displacement, &mut self.region)? }
            }
        };
        Ok(CallSite::new(region, form, role, kind))
    }
}

impl CallSite {
    /// Adopts the site at `address`. To adopt many, make one [`Survey`].
    ///
    /// # Safety
    /// As for [`Survey::adopt`].
    pub unsafe fn adopt(
        address: CodeAddr,
        role: Role,
        policy: &Policy,
        is_hook: impl Fn(Destination) -> bool,
    ) -> Result<Self, AdoptError> {
        // SAFETY: (1) the caller.
        unsafe { Survey::new(*policy)?.adopt(address, role, is_hook) }
    }

    /// Whether it is on, as a site that was just adopted is.
    pub fn is_on(&self) -> bool {
        self.state() == Some(Switch::On)
    }
}
