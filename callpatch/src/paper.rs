//! The literature's way to toggle a call of five bytes (B. Chamith and others, "Living on the edge:
//! rapid-toggling probes with cross-modification on x86", PLDI 2016), for comparison.
//!
//! There a word is toggled by one store wherever one unit of instruction fetch (the *granule*; in
//! the paper a cache line) holds all bytes that change. Where a boundary cuts the call, a different
//! off state is chosen so that only one side of it changes:
//!
//! ```text
//!   cut    on                    off                    what is stored
//!   none   E8 d0 d1 d2 d3        0F 1F 44 00 00         five bytes          nop
//!   1|4    E8 | d0 d1 d2 d3      E8 | r0 r1 r2 r3       the four behind     call a `ret` that all such sites share
//!   2|3    E8 d0 | d1 d2 d3      EB 03 | d1 d2 d3       the first two       jump over the other three
//!   3|2    E8 d0 d1 | d2 d3      EB 03 d1 | d2 d3       the first two       the same
//!   4|1    E8 d0 d1 d2 | d3      EB 03 d1 d2 | d3       the first two       the same
//! ```
//!
//! No thread waits and no thread traps. What it costs against one byte: an off call that lies 1|4
//! still calls; a jump is taken; the target is fixed, because it is part of what is stored; and
//! everything rests on the granule (A1), which for the paper's line is wrong on processors that
//! were measured.
//!
//! # Safety
//!
//! This module exists to adopt the whole word where no boundary cuts it.
#![allow(unsafe_code)]

use crate::error::AdoptError;
use crate::site::PatchKind;
use crate::x86::{Form, NOP5, SKIP_THREE};
use wordpatch::live::Width;
use wordpatch::{CodeAddr, Granule, Layout, Word};

#[cfg(test)]
mod model;

/// The parameters of the strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paper {
    /// The unit that is trusted to be fetched whole, at least a quadword.
    pub(crate) granule: Granule,
    /// The address of a `ret` near all sites.
    pub(crate) ret: CodeAddr,
}

/// The position of the boundary in a call, which decides how it is toggled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// No boundary cuts it.
    Uncut,
    /// One byte lies before the boundary.
    Displacement,
    /// Two, three or four bytes lie before it.
    Skip,
}

impl Case {
    fn of(address: CodeAddr, granule: Granule) -> Self {
        match granule.cut(address, Form::Call.len()) {
            None => Self::Uncut,
            Some(1) => Self::Displacement,
            Some(_) => Self::Skip,
        }
    }
}

/// The bytes that a toggle stores: their offset in the call, their width, and their values for off
/// and on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Whole([Word; 2]),
    Part { at: u8, width: Width, encodings: [u32; 2] },
}

impl Paper {
    /// The cut of a call at `address`; `None` if it needs a `ret` and that is too far.
    fn cut(self, address: CodeAddr, displacement: i32) -> Option<Cut> {
        let on = Form::Call.bytes(displacement);
        match Case::of(address, self.granule) {
            Case::Uncut => Some(Cut::Whole([Word::new(&NOP5)?, Word::new(&on)?])),
            Case::Displacement => {
                let ret = Form::Call.displacement(address, self.ret)?;
                let encodings = [ret, displacement].map(|d| d as u32);
                Some(Cut::Part { at: 1, width: Width::Four, encodings })
            }
            Case::Skip => {
                let encodings =
                    [SKIP_THREE, [on[0], on[1]]].map(|pair| u16::from_le_bytes(pair).into());
                Some(Cut::Part { at: 0, width: Width::Two, encodings })
            }
        }
    }

    /// How the call at `address` is toggled.
    ///
    /// # Safety
    /// As for [`Survey::adopt`](crate::Survey::adopt).
    pub(crate) unsafe fn patch_kind(
        self,
        address: CodeAddr,
        displacement: i32,
        survey: &mut wordpatch::Survey,
    ) -> Result<PatchKind, AdoptError> {
        match self.cut(address, displacement).ok_or(AdoptError::ReturnOutOfReach { address })? {
            Cut::Part { at, width, encodings } => Ok(PatchKind::Part { at, width, encodings }),
            Cut::Whole(encodings) => {
                // SAFETY: (1) the caller; a call and a nop are one instruction each.
                let site = unsafe { survey.adopt(address, Form::Call.len(), Layout::One)? };
                Ok(PatchKind::Whole(Box::new((site, encodings))))
            }
        }
    }
}
