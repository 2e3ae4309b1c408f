//! Links the machine code of functions into one piece, with the tables that describe its addresses.
//!
//! Calls between functions are relative, so that the piece may lie anywhere. Tables are sorted by
//! offset, for binary search in a file that is mapped and not parsed.

use super::function::{Callee, Compiled};
use super::one_shot::OneShotSite;
use super::osr_exit::{OFF, OsrExit};
use super::patchable_site::PatchableSite;
use super::placement;
use super::plan::Plan;
use super::recompilation::Wanted;
use super::target::Sites;
use super::trampoline::{Trampoline, TrampolineKind};
use crate::module::ModuleInfo;
use crate::offsets::{OffsetEntry, Offsets};
use std::collections::HashMap;

/// The handler of exceptions that leave a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Handler {
    /// The call's return address.
    pub(crate) offset: u32,
    /// The landing pad.
    pub(crate) target: u32,
    /// How far the stack pointer is below the frame pointer there.
    pub(crate) frame: u32,
}

/// A range of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(C)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// The first byte after it.
    pub end: u32,
}

/// The machine code of a module.
#[derive(Debug, Default)]
pub struct Text {
    /// The bytes.
    pub code: Vec<u8>,
    /// Where each defined function is.
    pub functions: Vec<Span>,
    /// Where each trampoline is.
    pub(crate) trampolines: Vec<(TrampolineKind, Span)>,
    /// Why instructions trap, see [`Trap::from_raw`](crate::trap::Trap::from_raw).
    pub traps: Offsets,
    /// Which instructions of Wasm code comes from: where they are in the module, or
    /// [`NOTHING`](crate::offsets::NOTHING).
    pub addresses: Offsets,
    pub(crate) handlers: Vec<Handler>,
    /// How far below their frame pointers functions keep the readable values of their frames; 0 for
    /// those that keep nothing.
    pub(crate) frames: Vec<u32>,
    /// The plan that is compiled in: the code contains addresses of its hooks.
    pub(crate) plan: Plan,
    /// Where threads can change the variant (OSR exits), in the order of their offsets.
    pub osr_exits: Vec<OsrExit>,
    /// Patchable sites, in the order of their offsets.
    pub patchable_sites: Vec<PatchableSite>,
    /// Sites of one-shot probes, in the order of their offsets.
    pub one_shot_sites: Vec<OneShotSite>,
}

impl Text {
    /// Places functions and trampolines one after the other and connects their calls.
    pub(super) fn link(
        info: &ModuleInfo,
        functions: &[Compiled],
        trampolines: &[Trampoline],
        sites: Sites,
    ) -> Self {
        let mut text = Self::default();
        let mut calls = Vec::new();
        for compiled in functions {
            let range = text.append(compiled, sites.prefix());
            calls.extend(compiled.calls.iter().map(|call| (range.start + call.at, call.target)));
            text.functions.push(range);
        }
        for trampoline in trampolines {
            let range = text.append(&trampoline.compiled, 0);
            text.trampolines.push((trampoline.kind, range));
        }
        text.describe(&functions.iter().collect::<Vec<_>>(), trampolines);
        let throw = text
            .trampolines
            .iter()
            .find(|(kind, _)| *kind == TrampolineKind::Throw)
            .map(|(_, range)| range.start);
        for (at, target) in calls {
            let start = match target {
                Callee::Function(index) => {
                    text.functions[(index - info.imported.functions) as usize].start
                        - sites.prefix()
                }
                Callee::Throw => throw.expect("a module with exceptions has the trampoline"),
            };
            text.connect(at, start);
        }
        text
    }

    /// Places parts of a module one after the other, connects the calls between them, and returns
    /// the calls to other code.
    pub(super) fn chunk(
        info: &ModuleInfo,
        parts: &[Wanted],
        codes: &[Compiled],
        sites: Sites,
    ) -> (Self, Vec<(u32, Callee)>) {
        let mut text = Self::default();
        let (mut calls, mut beginnings) = (Vec::new(), HashMap::new());
        for (part, compiled) in parts.iter().zip(codes) {
            let prefix = if part.osr_entry.is_none() { sites.prefix() } else { 0 };
            let range = text.append(compiled, prefix);
            if part.osr_entry.is_none() {
                beginnings
                    .insert(info.imported.functions + part.function as u32, range.start - prefix);
            }
            calls.extend(compiled.calls.iter().map(|call| (range.start + call.at, call.target)));
            text.functions.push(range);
        }
        text.describe(&codes.iter().collect::<Vec<_>>(), &[]);
        let (inside, outside): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|(_, target)| match target {
                Callee::Function(index) => beginnings.contains_key(index),
                Callee::Throw => false,
            });
        for (at, target) in inside {
            if let Callee::Function(index) = target {
                text.connect(at, beginnings[&index]);
            }
        }
        (text, outside)
    }

    /// Makes the call whose distance is at `at` lead to `start`.
    fn connect(&mut self, at: u32, start: u32) {
        let distance = start.wrapping_sub(at + 4);
        self.code[at as usize..at as usize + 4].copy_from_slice(&distance.to_le_bytes());
    }

    fn append(&mut self, compiled: &Compiled, prefix: u32) -> Span {
        let start = placement::start(self.code.len() + prefix as usize, &compiled.loops) as u32;
        // Between functions: traps, so that nothing runs on by mistake.
        self.code.resize((start - prefix) as usize, 0xCC);
        if prefix > 0 {
            self.code.push(OFF);
        }
        self.code.resize(start as usize, 0);
        self.code.extend_from_slice(&compiled.code);
        self.frames.push(compiled.frame);
        self.handlers.extend(compiled.handlers.iter().map(|handler| Handler {
            offset: start + handler.offset,
            target: start + handler.target,
            ..*handler
        }));
        self.osr_exits.extend(compiled.osr_exits.iter().map(|osr_exit| osr_exit.moved(start)));
        self.patchable_sites.extend(compiled.patchable_sites.iter().map(|site| site.moved(start)));
        self.one_shot_sites.extend(compiled.one_shot_sites.iter().map(|site| site.moved(start)));
        Span { start, end: self.code.len() as u32 }
    }

    /// The tables of everything that was placed.
    fn describe(&mut self, functions: &[&Compiled], trampolines: &[Trampoline]) {
        let spans = self.functions.iter().chain(self.trampolines.iter().map(|(_, span)| span));
        let placed: Vec<(&Compiled, u32)> = functions
            .iter()
            .copied()
            .chain(trampolines.iter().map(|trampoline| &trampoline.compiled))
            .zip(spans.map(|span| span.start))
            .collect();
        let traps = Offsets::of(moved(&placed, |compiled| &compiled.traps));
        // An entry that equals the one before is redundant.
        let mut last = None;
        let is_new = |entry: &OffsetEntry| last.replace(entry.number) != Some(entry.number);
        let addresses = Offsets::of(moved(&placed, |compiled| &compiled.addresses).filter(is_new));
        (self.traps, self.addresses) = (traps, addresses);
    }
}

/// The entries of placed code, with their offsets in the text.
fn moved<'a>(
    placed: &'a [(&'a Compiled, u32)],
    entries: fn(&Compiled) -> &[OffsetEntry],
) -> impl Iterator<Item = OffsetEntry> + 'a {
    let of = move |(compiled, start): &(&'a Compiled, u32)| {
        let start = *start;
        entries(compiled)
            .iter()
            .map(move |entry| OffsetEntry { offset: start + entry.offset, ..*entry })
    };
    placed.iter().flat_map(of)
}
