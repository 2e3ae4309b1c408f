//! The tables that describe the addresses of a module's code: owned, or part of a file.

use super::one_shot::OneShotSite;
use super::osr_exit::OsrExit;
use super::patchable_site::PatchableSite;
use super::text::{Handler, Span, Text};
use super::trampoline::TrampolineKind;
use crate::array::Array;
use crate::offsets::Offsets;

/// Tables of a module's code. They may lie in a file that is mapped.
#[derive(Debug)]
pub struct Tables {
    pub functions: Array<Span>,
    pub(crate) trampolines: Vec<(TrampolineKind, Span)>,
    pub traps: Offsets,
    pub addresses: Offsets,
    pub(crate) handlers: Array<Handler>,
    /// Where threads can change the variant (OSR exits), in the order of their offsets.
    pub osr_exits: Array<OsrExit>,
    /// Patchable sites, in the order of their offsets.
    pub patchable_sites: Array<PatchableSite>,
    /// Sites of one-shot probes, in the order of their offsets. Their routine follows the code, and
    /// is not part of it.
    pub(crate) one_shot_sites: Vec<OneShotSite>,
    /// How far below their frame pointers functions keep the readable values of their frames: 0 for
    /// those that keep none, and for those that are not in this code.
    pub(crate) frames: Vec<u32>,
    /// Which defined function each piece of code in `functions` belongs to, if they are not all
    /// functions in order.
    pub(crate) owners: Option<Vec<u32>>,
}

impl Tables {
    /// The tables of code that was compiled just now.
    pub(crate) fn owned(text: Text) -> Self {
        let Text {
            functions,
            trampolines,
            traps,
            addresses,
            handlers,
            osr_exits,
            patchable_sites,
            one_shot_sites,
            frames,
            ..
        } = text;
        Self {
            functions: Array::Owned(functions),
            trampolines,
            traps,
            addresses,
            handlers: Array::Owned(handlers),
            osr_exits: Array::Owned(osr_exits),
            patchable_sites: Array::Owned(patchable_sites),
            one_shot_sites,
            frames,
            owners: None,
        }
    }
}
