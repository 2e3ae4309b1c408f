//! The host's writes to memories before the program can read them: bytes, merged where they touch.

use std::collections::BTreeMap;

/// Writes that may be made in any order.
#[derive(Debug, Default)]
pub(crate) struct Patch {
    /// By memory and address; no two of a memory touch.
    ranges: BTreeMap<(u32, u64), Vec<u8>>,
}

impl Patch {
    /// Adds a write, which replaces earlier ones where they overlap.
    pub(crate) fn write(&mut self, memory: u32, address: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = address + bytes.len() as u64;
        // The range that begins before it, and may touch it.
        let before = self.ranges.range_mut((memory, 0)..=(memory, address)).next_back();
        let (start, mut merged) = match before {
            Some((&(_, start), own)) if start + own.len() as u64 >= address => {
                let (at, own_end) = ((address - start) as usize, start + own.len() as u64);
                if own_end >= end {
                    own[at..at + bytes.len()].copy_from_slice(bytes);
                    return;
                }
                own.truncate(at);
                own.extend_from_slice(bytes);
                (start, std::mem::take(own))
            }
            _ => (address, bytes.to_vec()),
        };
        // The ranges that begin inside it or where it ends.
        let met: Vec<u64> = self
            .ranges
            .range((memory, start + 1)..=(memory, end))
            .map(|((_, at), _)| *at)
            .collect();
        for at in met {
            let own = self.ranges.remove(&(memory, at)).expect("found just now");
            let covered = (end - at) as usize;
            merged.extend_from_slice(own.get(covered..).unwrap_or_default());
        }
        self.ranges.insert((memory, start), merged);
    }

    /// Takes all writes, by memory and address.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u32, u64, Vec<u8>)> + use<> {
        let ranges = std::mem::take(&mut self.ranges);
        ranges.into_iter().map(|((memory, address), bytes)| (memory, address, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbtest::arbitrary::{Result, Unstructured};

    #[test]
    fn any_writes_leave_what_they_would_leave_one_by_one() {
        arbtest::arbtest(|u: &mut Unstructured<'_>| -> Result<()> {
            let (mut plain, mut known) = ([0u8; 64], [false; 64]);
            let mut patch = Patch::default();
            for _ in 0..u.int_in_range(0..=24)? {
                let address = u.int_in_range(0..=63usize)?;
                let len = u.int_in_range(0..=64 - address)?.min(u.int_in_range(0..=20)?);
                let bytes: Vec<u8> = (0..len).map(|_| u.arbitrary()).collect::<Result<_>>()?;
                plain[address..address + len].copy_from_slice(&bytes);
                known[address..address + len].fill(true);
                patch.write(0, address as u64, &bytes);
                patch.write(1, address as u64, &[1]);
            }
            let (mut found, mut told) = ([0u8; 64], [false; 64]);
            let mut last = None;
            for (memory, address, bytes) in patch.take().filter(|(memory, ..)| *memory == 0) {
                let at = address as usize;
                assert!(last.is_none_or(|last| last < address), "{memory}: they touch");
                last = Some(address + bytes.len() as u64);
                found[at..at + bytes.len()].copy_from_slice(&bytes);
                told[at..at + bytes.len()].fill(true);
            }
            assert_eq!((found, told), (plain, known));
            assert_eq!(patch.take().count(), 0);
            Ok(())
        });
    }
}
