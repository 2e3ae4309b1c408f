//! Seeds, and the bytes that decide about what is compared.

use std::ops::RangeInclusive;

/// As many bytes as decide about a module.
const DECISIONS: usize = 12 << 10;

/// The two seeds of the command line, the first and the last.
pub(crate) fn range() -> Option<RangeInclusive<u64>> {
    let mut seeds = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    match (seeds.next(), seeds.next(), seeds.next()) {
        (Some(Ok(first)), Some(Ok(last)), None) => Some(first..=last),
        _ => None,
    }
}

/// The bytes of a seed: Splitmix64 (Steele, Lea and Flood, 2014).
pub(crate) fn bytes(seed: u64) -> Vec<u8> {
    let mut seed = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut bytes = Vec::with_capacity(DECISIONS);
    while bytes.len() < DECISIONS {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = seed;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes
}
