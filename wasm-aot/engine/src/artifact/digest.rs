//! Detects damaged files: a hash of the header and of every section.
//!
//! It finds damage, not hostility, so that it may be a fast one. The file is read for it, not
//! looked at through a mapping: what is mapped and touched counts as memory of the process, and
//! takes a fault for every few pages, though most of a large module's code is never executed.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use twox_hash::xxhash3_128::Hasher;

/// How much is read at a time: what the nearest caches hold.
const PIECE: usize = 128 << 10;

/// A hash that is being made.
pub(super) struct Digest(Hasher);

impl Digest {
    /// Begins with the header.
    pub(super) fn new(header: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.write(header);
        Self(hasher)
    }

    /// Goes on with bytes that are at hand.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Goes on with a part of a file.
    pub(super) fn read(&mut self, file: &File, range: Range<usize>) -> std::io::Result<()> {
        let mut piece = vec![0; PIECE.min(range.len())];
        let mut at = range.start;
        while at < range.end {
            let piece = &mut piece[..PIECE.min(range.end - at)];
            file.read_exact_at(piece, at as u64)?;
            self.write(piece);
            at += piece.len();
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> [u8; 16] {
        self.0.finish_128().to_le_bytes()
    }
}
