//! Functions that compilers have prepared for tools: with room for a jump, or a call of the
//! compiler's profiler.
//!
//! ```text
//!   patchable   90 90 90 90 90 │ 0f 1f 44 00 08      __patchable_function_entries: where it begins
//!   xray        eb 09 66 0f 1f 84 00 00 02 00 00     xray_instr_map: entries and tail calls; a `ret` has padding
//!   mcount      e8 … │ ff 15 … (calls of it)         found by where they lead; where there is 0f 1f 44 00 00
//!                                                    instead (-mnop-mcount), by __mcount_loc
//! ```
//!
//! Room becomes one instruction of five bytes that does nothing, `A9 rel32`, before the program
//! runs: so each of its sites is switched by one byte, and needs no landing. Sources: GCC,
//! "Instrumentation Options"; LLVM, "XRay Instrumentation", and `InstrumentationMap.cpp` for the
//! table's layout.

use super::{Frames, Reservation};
use crate::discovery::image::Named;
use crate::discovery::{Code, Hooks, Image, scan};
use crate::probe::Kind;
use callpatch::x86::{Form, Transfer};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wordpatch::CodeAddr;

/// The compiler option by which code was prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Maker {
    /// `-fpatchable-function-entry`.
    Patchable,
    /// `-fxray-instrument`.
    Xray,
    /// `-pg`, with `-mfentry`, `-mrecord-mcount`, `-mnop-mcount` or without.
    Mcount,
}

impl Maker {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Patchable, Self::Xray, Self::Mcount];

    /// The compiler option that prepares code in this way.
    pub fn option(self) -> &'static str {
        match self {
            Self::Patchable => "-fpatchable-function-entry=5",
            Self::Xray => "-fxray-instrument",
            Self::Mcount => "-pg",
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Patchable => "patchable",
            Self::Xray => "xray",
            Self::Mcount => "mcount",
        })
    }
}

/// Room for a jump: whole instructions that do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) at: CodeAddr,
    /// Up to the end of the instruction in which the jump ends.
    pub(crate) len: usize,
    pub(crate) maker: Maker,
}

impl Room {
    pub(crate) fn end(&self) -> CodeAddr {
        self.at.offset(self.len as isize)
    }
}

/// The places of a module that a compiler has prepared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    rooms: BTreeMap<CodeAddr, Room>,
    /// Where calls of the compiler's profiler lead.
    profiler: Hooks,
    /// What reads as such a call.
    calls: Vec<(CodeAddr, Form)>,
}

impl Prepared {
    /// Of a file that is loaded `bias` from its addresses.
    pub(crate) fn of(image: &Image<'_>, frames: &Frames<'_>, bias: usize) -> Self {
        let profiler = Hooks::among(image.slots(), image, bias, false, profilers);
        let mut calls = Vec::new();
        if !profiler.is_empty() {
            let mut found = Vec::new();
            for code in image.code() {
                let base = CodeAddr::new(bias.wrapping_add(code.address as usize));
                scan::candidates(code.bytes, base, &profiler, &mut found);
            }
            calls.extend(found.into_iter().filter_map(|candidate| match candidate.transfer {
                Transfer::Switchable { form, .. } => Some((candidate.address, form)),
                Transfer::Conditional(_) => None,
            }));
        }
        let mut prepared = Self { rooms: BTreeMap::new(), profiler, calls };
        let finder = Finder { image, frames, code: image.code() };
        let patchable = finder.patchable().map(|room| (room, Maker::Patchable));
        let sleds = finder.sleds().map(|room| (room, Maker::Xray));
        let fentry = finder.fentry().map(|room| (room, Maker::Mcount));
        for ((at, len), maker) in patchable.chain(sleds).chain(fentry) {
            let at = CodeAddr::new(bias.wrapping_add(at as usize));
            prepared.rooms.insert(at, Room { at, len, maker });
        }
        prepared
    }

    /// Only what `accepts` says.
    pub(crate) fn only(mut self, accepts: impl Fn(Maker) -> bool) -> Self {
        self.rooms.retain(|_, room| accepts(room.maker));
        if !accepts(Maker::Mcount) {
            (self.profiler, self.calls) = (Hooks::default(), Vec::new());
        }
        self
    }

    /// Without some rooms.
    pub(crate) fn forget(&mut self, at: CodeAddr) {
        self.rooms.remove(&at);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rooms.is_empty() && self.calls.is_empty()
    }

    pub(crate) fn rooms(&self) -> impl Iterator<Item = Room> + '_ {
        self.rooms.values().copied()
    }

    /// In which ways functions are prepared.
    pub(crate) fn makers(&self) -> BTreeSet<Maker> {
        let calls = (!self.calls.is_empty()).then_some(Maker::Mcount);
        self.rooms.values().map(|room| room.maker).chain(calls).collect()
    }

    /// The room that begins there.
    pub(crate) fn room(&self, at: CodeAddr) -> Option<Room> {
        self.rooms.get(&at).copied()
    }

    /// Addresses in all functions that are prepared, and in some that are not.
    pub(crate) fn places(&self) -> impl Iterator<Item = CodeAddr> + '_ {
        self.rooms.keys().copied().chain(self.calls.iter().map(|(at, _)| *at))
    }

    /// The bytes of all that is prepared. They are taken before any function has a site: a pun at
    /// the end of another one might read them.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = Reservation> + '_ {
        let rooms = self.rooms().map(|room| Reservation::Room(room.at, room.len));
        rooms.chain(self.calls.iter().map(|(at, form)| Reservation::Call(*at, *form)))
    }

    /// Where calls of the compiler's profiler lead.
    pub(crate) fn profiler(&self) -> &Hooks {
        &self.profiler
    }
}

/// Whether a compiler may have prepared functions in a file that has these slots. Cheap: it is
/// checked for every module.
pub(in crate::discovery) fn may_be_prepared(image: &Image<'_>, slots: &[Named<'_>]) -> bool {
    slots.iter().any(|named| profilers(named.name).is_some())
        || [PATCHABLE, SLEDS, FENTRY].iter().any(|table| image.section(table).is_some())
}

/// The compilers' tables.
const PATCHABLE: &str = "__patchable_function_entries";
const SLEDS: &str = "xray_instr_map";
const FENTRY: &str = "__mcount_loc";

/// The profilers that compilers call at the beginning of functions.
pub(in crate::discovery) fn profilers(name: &str) -> Option<Kind> {
    matches!(name, "mcount" | "_mcount" | "__fentry__").then_some(Kind::Enter)
}

/// A file's tables, in addresses of the file.
struct Finder<'f, 'b> {
    image: &'f Image<'b>,
    frames: &'f Frames<'b>,
    code: Vec<Code<'b>>,
}

/// An instruction begins there, and as many bytes do nothing.
type Place = (u64, usize);

impl Finder<'_, '_> {
    /// Entries that were left patchable. If a function has room before it, the table holds the
    /// start of that room.
    fn patchable(&self) -> impl Iterator<Item = Place> {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let listed = self.image.addresses(PATCHABLE);
        listed.into_iter().filter_map(|listed| {
            let start = self.start_behind(listed)?;
            let marked = self.bytes(start)?.starts_with(&ENDBR64);
            let at = if marked { start + ENDBR64.len() as u64 } else { start };
            Some((at, self.room(at)?))
        })
    }

    /// Sleds of entries and of tail calls. That of a `ret` is a `ret` with padding.
    fn sleds(&self) -> impl Iterator<Item = Place> {
        const ENTRY: usize = 32;
        const ENTERED: u8 = 0;
        const TAIL_CALL: u8 = 2;
        const ENTERED_WITH_ARGUMENT: u8 = 3;
        const RELATIVE: u8 = 2;
        /// A short jump over a nop.
        const SLED: [u8; 5] = [0xeb, 0x09, 0x66, 0x0f, 0x1f];
        const LEN: usize = 11;
        let map = self.image.placed(SLEDS);
        let sleds = map.into_iter().flat_map(|map| {
            let entries = map.bytes.as_chunks::<ENTRY>().0;
            entries.iter().enumerate().filter_map(move |(i, entry)| {
                let [kind, _, version] = [entry[16], entry[17], entry[18]];
                let at = map.address + (i * ENTRY) as u64;
                let to = at.wrapping_add(u64::from_le_bytes(*entry.first_chunk()?));
                let is_room = matches!(kind, ENTERED | TAIL_CALL | ENTERED_WITH_ARGUMENT);
                (is_room && version >= RELATIVE).then_some(to)
            })
        });
        sleds.filter_map(|at| self.bytes(at)?.starts_with(&SLED).then_some((at, LEN)))
    }

    /// Places where a call of `__fentry__` was omitted.
    fn fentry(&self) -> impl Iterator<Item = Place> {
        let listed = self.image.addresses(FENTRY);
        listed.into_iter().filter_map(|at| Some((at, self.room(at)?)))
    }

    /// Where the function begins that an entry of the table belongs to: there, behind a mark for
    /// indirect branches, or behind the room that lies before it.
    fn start_behind(&self, listed: u64) -> Option<u64> {
        const FURTHEST: u64 = 256;
        if let Some(range) = self.frames.range_of(listed) {
            return (listed - range.start <= 4).then_some(range.start);
        }
        let code = self.bytes(listed)?;
        let mut decoder = Decoder::with_ip(64, code, listed, DecoderOptions::NONE);
        loop {
            let next = decoder.ip();
            if self.frames.range_of(next).is_some_and(|range| range.start == next) {
                return Some(next);
            }
            let is_padding = decoder.can_decode() && decoder.decode().mnemonic() == Mnemonic::Nop;
            if !is_padding || decoder.ip() > listed + FURTHEST {
                return None;
            }
        }
    }

    /// How long the nops are that a jump over their beginning would change.
    fn room(&self, at: u64) -> Option<usize> {
        let mut decoder = Decoder::with_ip(64, self.bytes(at)?, at, DecoderOptions::NONE);
        while decoder.position() < Form::Jump.len() {
            let is_nop = decoder.can_decode() && decoder.decode().mnemonic() == Mnemonic::Nop;
            if !is_nop {
                return None;
            }
        }
        Some(decoder.position())
    }

    /// Code, from an address to the end of its segment.
    fn bytes(&self, at: u64) -> Option<&[u8]> {
        let holds = |code: &&Code<'_>| (code.address..code.end()).contains(&at);
        let code = self.code.iter().find(holds)?;
        code.bytes.get((at - code.address) as usize..)
    }
}
