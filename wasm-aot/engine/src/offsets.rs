//! Compact tables from code offsets to numbers.
//!
//! Most instructions of a module have an entry: the Wasm instruction that they implement, and why
//! they may trap. In whole words such tables would be as large as the code. Here an entry is stored
//! as its difference from the one before, which takes two or three bytes; every [`STRIDE`] entries
//! a new block begins with absolute values, so that a lookup is a binary search and a few steps.
//!
//! ```text
//! blocks   offset, number, where its steps begin     of the first entry of each block
//! steps    offset − last offset                      seven bits a byte, the eighth: more follow
//!          0 for NOTHING, or 1 + the zigzag of number − last number
//! ```
//!
//! Looking up neither allocates nor panics, whatever the bytes are: signal handlers do it.

use crate::array::Array;

/// The number of code that has none.
pub const NOTHING: u32 = u32::MAX;
/// Set in the number of code that belongs to a Wasm instruction's place but does not implement the
/// instruction: a monitor's code there.
pub const ASIDE: u32 = 1 << 31;
/// Entries of a block.
const STRIDE: usize = 64;

/// A number that holds from an offset of code on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    pub(crate) offset: u32,
    pub number: u32,
}

/// The first entry of a block, and where the steps to the others begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Block {
    offset: u32,
    number: u32,
    steps: u32,
}

/// Numbers by offset of code.
#[derive(Debug)]
pub struct Offsets {
    pub(crate) blocks: Array<Block>,
    pub(crate) steps: Array<u8>,
}

impl Default for Offsets {
    fn default() -> Self {
        Self::of(std::iter::empty())
    }
}

impl Offsets {
    /// Builds the table of entries that are sorted by their offsets.
    pub(crate) fn of(entries: impl IntoIterator<Item = OffsetEntry>) -> Self {
        let (mut blocks, mut steps) = (Vec::new(), Vec::new());
        let mut last = OffsetEntry { offset: 0, number: 0 };
        for (i, entry) in entries.into_iter().enumerate() {
            let begins = i % STRIDE == 0;
            match begins {
                true => blocks.push(Block {
                    offset: entry.offset,
                    number: entry.number,
                    steps: steps.len() as u32,
                }),
                false => {
                    write(&mut steps, u64::from(entry.offset - last.offset));
                    write(&mut steps, step(last.number, entry.number));
                }
            }
            // A step is relative to the last number, skipping entries that have none; only a block
            // may begin with none.
            let number =
                if entry.number == NOTHING && !begins { last.number } else { entry.number };
            last = OffsetEntry { offset: entry.offset, number };
        }
        Self { blocks: Array::Owned(blocks), steps: Array::Owned(steps) }
    }

    /// The last entry at or before `offset`.
    pub fn at_or_before(&self, offset: u32) -> Option<OffsetEntry> {
        let after = self.blocks.partition_point(|block| block.offset <= offset);
        self.block(after.checked_sub(1)?).take_while(|entry| entry.offset <= offset).last()
    }

    /// The number of the entry at exactly that offset.
    pub fn at(&self, offset: u32) -> Option<u32> {
        self.at_or_before(offset).filter(|entry| entry.offset == offset).map(|entry| entry.number)
    }

    /// All entries from an offset on.
    pub(crate) fn from(&self, offset: u32) -> impl Iterator<Item = OffsetEntry> {
        let first = self.blocks.partition_point(|block| block.offset <= offset).saturating_sub(1);
        (first..self.blocks.len())
            .flat_map(|block| self.block(block))
            .skip_while(move |entry| entry.offset < offset)
    }

    /// The entries of a block.
    fn block(&self, index: usize) -> impl Iterator<Item = OffsetEntry> {
        let Block { offset, number, steps } = self.blocks[index];
        let end = self.blocks.get(index + 1).map_or(self.steps.len(), |next| next.steps as usize);
        let mut steps = self.steps.get(steps as usize..end).unwrap_or_default();
        let mut last = OffsetEntry { offset, number };
        let others = std::iter::from_fn(move || {
            last.offset = last.offset.wrapping_add(read(&mut steps)? as u32);
            let code = read(&mut steps)?.checked_sub(1);
            last.number =
                code.map_or(last.number, |code| last.number.wrapping_add(unzigzag(code as u32)));
            Some(OffsetEntry {
                offset: last.offset,
                number: if code.is_some() { last.number } else { NOTHING },
            })
        });
        std::iter::once(OffsetEntry { offset, number }).chain(others)
    }
}

/// The encoded step from one number to the next.
fn step(last: u32, number: u32) -> u64 {
    match number {
        NOTHING => 0,
        _ => 1 + u64::from(zigzag(number.wrapping_sub(last))),
    }
}

/// Zigzag encoding: small for numbers that are close to zero, positive or negative.
fn zigzag(difference: u32) -> u32 {
    (difference << 1) ^ ((difference as i32 >> 31) as u32)
}

fn unzigzag(code: u32) -> u32 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads the next number; `None` at the end, or if it is malformed.
fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random entries: near, far, backwards and without a number.
    fn entries(count: usize) -> Vec<OffsetEntry> {
        let (mut chance, mut offset) = (0x9E37_79B9_7F4A_7C15u64, 0);
        let mut below = |limit: u32| {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            (chance >> 33) as u32 % limit
        };
        let mut entry = || {
            let far = below(10) == 0;
            offset += 1 + below(if far { 100_000 } else { 9 });
            let number = match below(8) {
                0 => NOTHING,
                1 => below(NOTHING),
                2 => NOTHING - 1,
                _ => below(100),
            };
            OffsetEntry { offset, number }
        };
        (0..count).map(|_| entry()).collect()
    }

    #[test]
    fn what_was_put_in_comes_out_in_order() {
        for count in [0, 1, STRIDE - 1, STRIDE, STRIDE + 1, 1000] {
            let entries = entries(count);
            let table = Offsets::of(entries.iter().copied());
            assert_eq!(table.from(0).collect::<Vec<_>>(), entries);
            let middle = entries.get(count / 2).map_or(0, |entry| entry.offset);
            assert_eq!(table.from(middle).collect::<Vec<_>>(), entries[count / 2..]);
        }
    }

    #[test]
    fn an_offset_belongs_to_the_entry_at_it_or_before_it() {
        let entries = entries(500);
        let table = Offsets::of(entries.iter().copied());
        assert_eq!(table.at_or_before(entries[0].offset - 1), None);
        for pair in entries.windows(2) {
            assert_eq!(table.at(pair[0].offset), Some(pair[0].number));
            for offset in [pair[0].offset, pair[1].offset - 1] {
                assert_eq!(table.at_or_before(offset), Some(pair[0]));
            }
            let between = pair[0].offset + 1;
            assert!(between == pair[1].offset || table.at(between).is_none());
        }
        assert_eq!(table.at_or_before(u32::MAX), entries.last().copied());
    }

    #[test]
    fn bytes_that_are_no_steps_end_a_block() {
        let table = Offsets {
            blocks: Offsets::of(entries(200)).blocks,
            steps: Array::Owned(vec![0xFF; 90]),
        };
        assert!(table.from(0).count() <= 200);
        assert!(table.at_or_before(u32::MAX).is_some());
    }

    #[test]
    fn neighbours_take_two_bytes() {
        let table = Offsets::of(
            (0..6400).map(|i| OffsetEntry { offset: 4 * i, number: 1_000_000 + 2 * i }),
        );
        assert_eq!((table.blocks.len(), table.steps.len()), (100, 2 * 63 * 100));
    }
}
