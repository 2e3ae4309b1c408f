//! Blocks: the units of a trace, each with its own checksum.
//!
//! ```text
//!     kind (1) │ stored (4) │ plain (4) │ check (4) │ `stored` bytes, deflated
//! ```
//!
//! All numbers are little-endian. `check` is the CRC-32 of the nine bytes before it and of the
//! bytes after it. A truncated file ends in the middle of a block: the blocks before it are
//! complete.

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};
use std::io::{self, Read};

/// The size of a block's header.
pub(crate) const HEAD: usize = 13;
/// The maximum size of a block, inflated: a forged one takes no more memory than that.
pub(crate) const LARGEST: usize = 1 << 20;

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// The recorded program.
    Program = 1,
    /// A piece of its module.
    Module = 2,
    /// Events.
    Events = 3,
    /// The end of the trace.
    End = 4,
}

impl BlockKind {
    fn read(byte: u8) -> Option<Self> {
        [Self::Program, Self::Module, Self::Events, Self::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Encodes a block.
pub(crate) fn pack(kind: BlockKind, plain: &[u8]) -> Vec<u8> {
    debug_assert!(plain.len() <= LARGEST);
    let mut block = vec![0; HEAD];
    block.reserve(plain.len() + plain.len() / 1000 + 64);
    let mut deflate = Compress::new(Compression::fast(), false);
    let status = deflate.compress_vec(plain, &mut block, FlushCompress::Finish);
    assert!(matches!(status, Ok(Status::StreamEnd)), "there was room for bytes as they are");
    let stored = (block.len() - HEAD) as u32;
    block[0] = kind as u8;
    block[1..5].copy_from_slice(&stored.to_le_bytes());
    block[5..9].copy_from_slice(&(plain.len() as u32).to_le_bytes());
    let check = check(&block[..9], &block[HEAD..]);
    block[9..13].copy_from_slice(&check.to_le_bytes());
    block
}

fn check(head: &[u8], stored: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(head);
    crc.update(stored);
    crc.sum()
}

/// The result of reading a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A block, and its size in the file.
    Block(BlockKind, Vec<u8>, u64),
    /// The file's end, with or without an incomplete block.
    End {
        /// Whether a block has begun.
        is_cut: bool,
    },
}

/// Reads the next block.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Result<Found, String>> {
    let mut head = [0; HEAD];
    let len = fill(from, &mut head)?;
    if len < HEAD {
        return Ok(Ok(Found::End { is_cut: len > 0 }));
    }
    let number =
        |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four of them")) as usize;
    let (stored_len, plain_len) = (number(1), number(5));
    let Some(kind) = BlockKind::read(head[0]) else {
        return Ok(Err(format!("{:#04x} is no kind of a block", head[0])));
    };
    if plain_len > LARGEST || stored_len > LARGEST + LARGEST / 1000 + 64 {
        return Ok(Err("a block that is larger than blocks are".into()));
    }
    let mut stored = vec![0; stored_len];
    if fill(from, &mut stored)? < stored_len {
        return Ok(Ok(Found::End { is_cut: true }));
    }
    if check(&head[..9], &stored) as usize != number(9) {
        return Ok(Err("a block whose bytes are not those that were written".into()));
    }
    Ok(inflate(&stored, plain_len)
        .map(|plain| Found::Block(kind, plain, (HEAD + stored_len) as u64))
        .ok_or_else(|| "a block that does not inflate".into()))
}

fn inflate(stored: &[u8], len: usize) -> Option<Vec<u8>> {
    // One byte more, so that data that is longer than the header says is detected.
    let mut plain = Vec::with_capacity(len + 1);
    let status = Decompress::new(false).decompress_vec(stored, &mut plain, FlushDecompress::Finish);
    (status.ok()? == Status::StreamEnd && plain.len() == len).then_some(plain)
}

/// Reads until the end of the input, or until the buffer is full.
fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < to.len() {
        match from.read(&mut to[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Found, String> {
        read(&mut &bytes[..]).expect("memory can be read")
    }

    #[test]
    fn what_is_packed_is_read() {
        for len in [0, 1, 1000, LARGEST] {
            let plain: Vec<u8> = (0..len).map(|i| ((i * i) >> 3) as u8).collect();
            let block = pack(BlockKind::Events, &plain);
            let whole = Found::Block(BlockKind::Events, plain, block.len() as u64);
            assert_eq!(read_all(&block), Ok(whole));
        }
    }

    #[test]
    fn a_block_that_is_cut_off_anywhere_is_the_end() {
        let block = pack(BlockKind::End, b"some bytes, some bytes");
        for len in 0..block.len() {
            assert_eq!(read_all(&block[..len]), Ok(Found::End { is_cut: len > 0 }), "{len}");
        }
    }

    #[test]
    fn every_bit_is_checked() {
        let block = pack(BlockKind::Module, b"some bytes, some bytes");
        for bit in 0..block.len() * 8 {
            let mut other = block.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            match read_all(&other) {
                // A length that exceeds the file.
                Err(_) | Ok(Found::End { is_cut: true }) => {}
                found => panic!("bit {bit}: {found:?}"),
            }
        }
    }
}
