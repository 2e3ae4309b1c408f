//! Properties that tests check briefly, and a fuzzer for days: any bytes are read as a map or a
//! dump of code or refused, and the way in which they are split makes no difference.

use arbtest::arbitrary::{Result, Unstructured};
use fastinst::discovery::jit::{Codes, JitDump, PerfMap};

/// The beginning of a dump, and a function.
const SEED: &[u8] = b"DTiJ\x01\0\0\0\x28\0\0\0\x3e\0\0\0\0\0\0\0\x01\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
\0\0\0\0\x3a\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\
\x01\0\0\0\0\0\0\0f\0";

type Read = fn(&[&[u8]]) -> Codes;

/// Reads bytes in both forms, at once and in several parts.
pub(crate) fn told(u: &mut Unstructured<'_>) -> Result<()> {
    let begun = *u.choose(&[&b""[..], b"1000 10 f\n", &SEED[..40], SEED])?;
    let cuts: [u16; 3] = u.arbitrary()?;
    let bytes = [begun, u.bytes(u.len())?].concat();
    let mut cuts = cuts.map(|cut| usize::from(cut) % (bytes.len() + 1));
    cuts.sort_unstable();
    let [first, second, third] = cuts;
    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..third], &bytes[third..]];
    for read in [map as Read, dump] {
        let (mut whole, mut cut) = (read(&[&bytes]), read(&pieces));
        assert_eq!((whole.len(), whole.refused()), (cut.len(), cut.refused()));
        for address in [0, 1, 0x1000, 0x100f, u64::MAX].into_iter().chain(words(&bytes)) {
            let found = whole.at(address, 5);
            assert!(found.is_none_or(|made| made.start <= address));
            assert_eq!(found, cut.at(address, 5));
        }
    }
    Ok(())
}

/// Words that may be addresses in the records.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.windows(8).take(64).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

fn map(pieces: &[&[u8]]) -> Codes {
    let (mut codes, mut reader) = (Codes::default(), PerfMap::default());
    pieces.iter().for_each(|piece| reader.read(piece, 7, &mut codes));
    codes
}

fn dump(pieces: &[&[u8]]) -> Codes {
    let (mut codes, mut reader) = (Codes::default(), JitDump::default());
    pieces.iter().for_each(|piece| reader.read(piece, 7, &mut codes));
    codes
}
