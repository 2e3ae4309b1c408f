//! The header of a file of machine code: which compiler made it, for which processor and options,
//! and where each section is.

use crate::compile::Options;
use serde::{Deserialize, Serialize};

/// Where our header is.
pub(super) const AT: usize = 4096;
/// How much room it has.
pub(super) const ROOM: usize = 4096;
/// What it begins with.
pub(super) const MAGIC: [u8; 16] = *b"fastinst wasm 01";
/// Before it: the magic, its length, and the digest of header and parts.
pub(super) const PREFIX: usize = 16 + 8 + 16;

/// What makes files incompatible with each other.
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " layout 11, cranelift 0.135.8");

/// The parts of a file, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileSection {
    Text,
    Info,
    Functions,
    Trampolines,
    Traps,
    TrapSteps,
    Addresses,
    AddressSteps,
    Handlers,
    OsrExits,
    PatchableSites,
    Monitors,
    Module,
}

impl FileSection {
    pub(super) const ALL: [Self; 13] = [
        Self::Text,
        Self::Info,
        Self::Functions,
        Self::Trampolines,
        Self::Traps,
        Self::TrapSteps,
        Self::Addresses,
        Self::AddressSteps,
        Self::Handlers,
        Self::OsrExits,
        Self::PatchableSites,
        Self::Monitors,
        Self::Module,
    ];

    /// Its section.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Text => ".text",
            Self::Info => ".wasm-aot.info",
            Self::Functions => ".wasm-aot.functions",
            Self::Trampolines => ".wasm-aot.trampolines",
            Self::Traps => ".wasm-aot.traps",
            Self::TrapSteps => ".wasm-aot.traps.steps",
            Self::Addresses => ".wasm-aot.addresses",
            Self::AddressSteps => ".wasm-aot.addresses.steps",
            Self::Handlers => ".wasm-aot.handlers",
            Self::OsrExits => ".wasm-aot.osr-exits",
            Self::PatchableSites => ".wasm-aot.patchable-sites",
            Self::Monitors => ".wasm-aot.monitors",
            Self::Module => ".wasm",
        }
    }
}

/// Our header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: String,
    /// Features of the processor that the code uses.
    pub(super) features: String,
    pub(super) options: Options,
    /// How many counters instances have.
    pub(super) counters: u32,
    /// How many of their calls are counted by where they go.
    pub(super) calls: u32,
    /// How many loops there are at which threads can change the variant (OSR exits).
    pub(super) loops: u32,
    /// Offset and length of each part.
    pub(super) parts: [(u64, u64); FileSection::ALL.len()],
}

impl Header {
    /// Where the parts end.
    pub(super) fn end(&self) -> usize {
        self.range(FileSection::Module).end
    }

    pub(super) fn range(&self, part: FileSection) -> std::ops::Range<usize> {
        let (offset, len) = self.parts[part as usize];
        offset as usize..(offset as usize).saturating_add(len as usize)
    }
}
