//! The bytes that a patch replaces: one to eight of them.

use std::fmt;
use std::ops::Range;

/// One to eight bytes of code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Word {
    bytes: [u8; 8],
    len: u8,
}

impl Word {
    /// A word of these bytes, or `None` if there are none or more than eight.
    pub const fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > 8 {
            return None;
        }
        let mut whole = [0; 8];
        let mut i = 0;
        while i < bytes.len() {
            whole[i] = bytes[i];
            i += 1;
        }
        Some(Self { bytes: whole, len: bytes.len() as u8 })
    }

    /// The first `len` bytes of `value` as stored in memory, least significant first.
    pub const fn from_u64(value: u64, len: usize) -> Option<Self> {
        let bytes = value.to_le_bytes();
        if len > 8 { None } else { Self::new(bytes.split_at(len).0) }
    }

    /// The bytes as a little-endian number; bytes beyond the word are zero.
    pub const fn to_u64(self) -> u64 {
        u64::from_le_bytes(self.bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Its length: one to eight.
    #[allow(clippy::len_without_is_empty, reason = "a word is never empty")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// The bytes of `range` as a word of their own, or `None` if there are none or the range
    /// exceeds this word.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        Self::new(self.bytes().get(range)?)
    }

    /// The smallest range outside which `self` and `other` agree; `None` if they are the same.
    pub fn difference(&self, other: &Self) -> Option<Range<usize>> {
        let differs = self.to_u64() ^ other.to_u64();
        if differs == 0 {
            return None;
        }
        let first = differs.trailing_zeros() as usize / 8;
        let last = 7 - differs.leading_zeros() as usize / 8;
        Some(first..last + 1)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.bytes().iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_one_to_eight_bytes() {
        assert_eq!(Word::new(&[]), None);
        assert_eq!(Word::new(&[0; 9]), None);
        assert_eq!(Word::from_u64(0, 9), None);
        for len in 1..=8 {
            assert_eq!(Word::from_u64(u64::MAX, len).unwrap().bytes(), vec![0xff; len]);
        }
    }

    #[test]
    fn the_difference_is_the_smallest_range_that_holds_every_changed_byte() {
        arbtest::arbtest(|u| {
            let len = u.int_in_range(1..=8)?;
            let (a, b): (u64, u64) = (u.arbitrary()?, u.arbitrary()?);
            // Few bytes differ, so that ranges of all lengths occur.
            let b =
                if u.arbitrary()? { b } else { a ^ (b & 0xff) << (8 * u.int_in_range(0..=7)?) };
            let (a, b) = (Word::from_u64(a, len).unwrap(), Word::from_u64(b, len).unwrap());
            let differ: Vec<usize> = (0..len).filter(|&i| a.bytes()[i] != b.bytes()[i]).collect();
            let range = differ.first().map(|&first| first..differ[differ.len() - 1] + 1);
            assert_eq!(a.difference(&b), range);
            Ok(())
        });
    }
}
