//! Seeds, and the bytes that determine the compared modules.

use std::time::{Duration, Instant};

/// The number of bytes that determine a module.
const DECISIONS: usize = 12 << 10;

/// The error for arguments that are no seeds.
pub(crate) const USAGE: &str = "expected two seeds, the first and the last (0 100000), or minutes \
    and a seed to begin with (--minutes 60 0)";

/// The seeds of a command line: from the first to the last, or from the first on for the given
/// number of minutes.
pub(crate) fn asked(args: &[String]) -> Option<Box<dyn Iterator<Item = u64>>> {
    match args {
        [option, minutes, first] if option == "--minutes" => {
            let length = Duration::from_secs(minutes.parse::<u64>().ok()?.checked_mul(60)?);
            let end = Instant::now().checked_add(length)?;
            let first = first.parse::<u64>().ok()?;
            Some(Box::new((first..).take_while(move |_| Instant::now() < end)))
        }
        [first, last] => Some(Box::new(first.parse::<u64>().ok()?..=last.parse::<u64>().ok()?)),
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
