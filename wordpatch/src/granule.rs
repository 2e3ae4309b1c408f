//! The granule: how many aligned bytes instruction fetch is trusted to see whole.
//!
//! The literature takes the cache line. Measurements show that this is wrong: a store inside one
//! line was torn at every 32-byte boundary on AMD Zen 5. AMD documents the naturally aligned
//! quadword (AMD64 Architecture Programmer's Manual, volume 2, section 7.6.1, "asynchronous
//! modification"), so eight bytes are the default; a larger granule has to be measured and enabled.

use crate::addr::CodeAddr;

/// A power of two between 1 and 64: a store inside one naturally aligned block of this size is seen
/// whole (assumption A1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Granule(u8);

impl Granule {
    /// One byte: nothing larger is trusted. Used if code can only be written byte by byte.
    pub const BYTE: Self = Self(1);
    /// The aligned quadword, which AMD documents. The default.
    pub const QUADWORD: Self = Self(8);
    /// The cache line, which the literature assumes. For comparison only.
    pub const LINE: Self = Self(64);

    /// A granule of `bytes`, if that is one of 1, 8, 16, 32 and 64.
    pub const fn new(bytes: usize) -> Option<Self> {
        match bytes {
            1 | 8 | 16 | 32 | 64 => Some(Self(bytes as u8)),
            _ => None,
        }
    }

    /// Its size in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// How many of the `len` bytes at `address` lie before the first boundary, if a boundary cuts
    /// them.
    pub const fn cut(self, address: CodeAddr, len: usize) -> Option<usize> {
        let room = self.bytes() - address.within(self.bytes());
        if room < len { Some(room) } else { None }
    }
}

impl Default for Granule {
    fn default() -> Self {
        Self::QUADWORD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_cut_exactly_where_a_boundary_lies_inside_it() {
        for granule in [1, 8, 16, 32, 64].map(|b| Granule::new(b).unwrap()) {
            for at in 0..128 {
                for len in 1..=8 {
                    let boundary = (at + 1..at + len).find(|b| b % granule.bytes() == 0);
                    assert_eq!(granule.cut(CodeAddr::new(at), len), boundary.map(|b| b - at));
                }
            }
        }
    }

    #[test]
    fn only_sizes_that_the_protocol_covers_are_granules() {
        let sizes: Vec<usize> = (0..=256).filter(|&b| Granule::new(b).is_some()).collect();
        assert_eq!(sizes, [1, 8, 16, 32, 64]);
    }
}
