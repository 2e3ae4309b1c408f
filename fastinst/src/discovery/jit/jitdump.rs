//! jitdump: records of functions that were made or moved, with times and lines of source
//! (linux/tools/perf/Documentation/jitdump-specification.txt).
//!
//! ```text
//!   header  magic "JiTD" · version · size · machine · 0 · pid · time · flags
//!   record  kind · size · time · …
//!     0 load   pid · tid · vma · address · size · index · name\0 · the code itself
//!     1 move   pid · tid · vma · from · to · size · index
//!     2 lines  address · count · { address · line · column · file\0 } …, before its load
//!     3 close
//! ```

use super::{Codes, Told};
use std::collections::HashMap;

const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER: usize = 40;
/// Times are not of the monotonic clock.
const ARCHITECTURES_TIME: u64 = 1;
/// Kind, size and time.
const FRONT: usize = 16;
/// The bytes of a load before its name.
const LOAD: usize = FRONT + 40;
/// The most bytes of a record that are read; the code itself is skipped.
const LONGEST: usize = 64 << 10;
/// The most functions whose names are kept in case they are moved, and whose lines are kept until
/// they are loaded.
const MOST: usize = 1 << 16;

/// Reads a dump that grows.
#[derive(Debug, Default)]
pub struct JitDump {
    /// The bytes received of a record, up to the number that is read of it.
    record: Vec<u8>,
    /// Bytes to skip.
    skip: u64,
    stage: Stage,
    /// Whether times are those of reading.
    is_timeless: bool,
    /// The names of functions, by their index.
    names: HashMap<u64, Box<[u8]>>,
    /// The source locations of functions to be loaded, by address.
    places: HashMap<u64, (Box<[u8]>, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Header,
    Records,
    /// It was closed, or is not a dump: nothing more is read.
    End,
}

impl JitDump {
    /// Takes the bytes that were received at a time, in nanoseconds of the monotonic clock.
    pub fn read(&mut self, mut bytes: &[u8], now: u64, codes: &mut Codes) {
        while !bytes.is_empty() && self.stage != Stage::End {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len() as u64);
                self.skip -= passed;
                bytes = &bytes[passed as usize..];
                continue;
            }
            let wanted = self.wanted() - self.record.len();
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            self.record.extend_from_slice(taken);
            bytes = rest;
            if self.record.len() == self.wanted() {
                self.take(now, codes);
            }
        }
    }

    /// How many of the next bytes are not needed: a reader of a file continues after them.
    pub fn passes(&mut self) -> u64 {
        std::mem::take(&mut self.skip)
    }

    /// Whether nothing more is read.
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::End
    }

    /// How many bytes of the header or record have to be there before it is read.
    fn wanted(&self) -> usize {
        match self.stage {
            Stage::Header => HEADER,
            _ if self.record.len() < FRONT => FRONT,
            _ => self.size().clamp(FRONT, LONGEST),
        }
    }

    /// The record's own size field.
    fn size(&self) -> usize {
        word(&self.record, 4).unwrap_or(0) as usize
    }

    /// Takes the header or a record, as much of it as is read.
    fn take(&mut self, now: u64, codes: &mut Codes) {
        let record = std::mem::take(&mut self.record);
        let size = word(&record, 4).unwrap_or(0) as usize;
        if self.stage == Stage::Header {
            let is_one = word(&record, 0) == Some(MAGIC) && word(&record, 4) == Some(VERSION);
            let size = word(&record, 8).unwrap_or(0) as usize;
            self.stage = if is_one && size >= HEADER { Stage::Records } else { Stage::End };
            self.is_timeless =
                long(&record, 32).is_none_or(|flags| flags & ARCHITECTURES_TIME != 0);
            self.skip = size.saturating_sub(HEADER) as u64;
            return;
        }
        if size < FRONT {
            // After it records can no longer be separated.
            self.stage = Stage::End;
            return;
        }
        if record.len() == FRONT && size > FRONT {
            // Its front said how long it is.
            self.record = record;
            return;
        }
        self.skip = (size - record.len()) as u64;
        let told = long(&record, 8).unwrap_or(0);
        let since = if self.is_timeless { now } else { told.min(now) };
        let taken = match word(&record, 0) {
            Some(0) => self.load(&record, since, codes),
            Some(1) => self.moved(&record, since, codes),
            Some(2) => self.lines(&record),
            Some(3) => {
                self.stage = Stage::End;
                Some(())
            }
            _ => Some(()),
        };
        // A malformed record is skipped: its size leads to the next one.
        taken.unwrap_or_default();
    }

    fn load(&mut self, record: &[u8], since: u64, codes: &mut Codes) -> Option<()> {
        let [start, size, index] = [FRONT + 16, FRONT + 24, FRONT + 32].map(|at| long(record, at));
        let (start, size) = (start?, size?);
        let name = text(record.get(LOAD..)?)?;
        let place = self.places.remove(&start);
        let place = place.as_ref().map(|(file, line)| (&file[..], *line));
        codes.add(&Told { start, size, since, name, place });
        if self.names.len() < MOST {
            self.names.insert(index?, name.into());
        }
        Some(())
    }

    fn moved(&mut self, record: &[u8], since: u64, codes: &mut Codes) -> Option<()> {
        let [start, size, index] = [FRONT + 24, FRONT + 32, FRONT + 40].map(|at| long(record, at));
        let name = self.names.get(&index?)?;
        codes.add(&Told { start: start?, size: size?, since, name, place: None });
        Some(())
    }

    /// Keeps the first line, which is the function's.
    fn lines(&mut self, record: &[u8]) -> Option<()> {
        let (code, count) = (long(record, FRONT)?, long(record, FRONT + 8)?);
        let (first, line) = (FRONT + 16, word(record, FRONT + 24)?);
        let file = text(record.get(first + 16..)?)?;
        if count > 0 && line > 0 && self.places.len() < MOST {
            self.places.insert(code, (file.into(), line));
        }
        Some(())
    }
}

fn word(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?))
}

fn long(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*record.get(at..)?.first_chunk()?))
}

/// A text up to its zero.
fn text(bytes: &[u8]) -> Option<&[u8]> {
    Some(&bytes[..memchr::memchr(0, bytes)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u64) -> Vec<u8> {
        let words = [MAGIC, VERSION, HEADER as u32, 62, 0, 4711];
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        words.chain([7, flags].iter().flat_map(|long: &u64| long.to_le_bytes())).collect()
    }

    fn record(kind: u32, time: u64, longs: &[u64], rest: &[u8]) -> Vec<u8> {
        let size = (FRONT + longs.len() * 8 + rest.len()) as u32;
        let front = [kind, size].into_iter().flat_map(u32::to_le_bytes);
        let longs = [&[time], longs].concat().into_iter().flat_map(u64::to_le_bytes);
        front.chain(longs).chain(rest.iter().copied()).collect()
    }

    fn load(time: u64, start: u64, index: u64, name: &str, code: usize) -> Vec<u8> {
        let rest = [name.as_bytes(), &[0], &vec![0xcc; code]].concat();
        record(0, time, &[4711, start, start, code as u64, index], &rest)
    }

    /// The same code for ten functions, of which the second was moved, with lines of the first.
    fn dump() -> Vec<u8> {
        let line = [&0x1000u64.to_le_bytes()[..], &[3, 0, 0, 0, 9, 0, 0, 0], b"hot.js\0"].concat();
        [
            header(0),
            record(2, 10, &[0x1000, 1], &line),
            load(10, 0x1000, 1, "JS:*hot", 100),
            record(99, 11, &[1, 2, 3], b"of another version"),
            load(12, 0x2000, 2, "JS:*cold", LONGEST * 2),
            record(1, 20, &[4711, 0x2000, 0x2000, 0x9000_0000, 50, 2], &[]),
            record(3, 30, &[], &[]),
            load(40, 0x900_0000, 3, "behind the end", 10),
        ]
        .concat()
    }

    fn found(codes: &mut Codes, address: u64, when: u64) -> Option<String> {
        let made = codes.at(address, when)?;
        let place = made.place.map(|(file, line)| format!(" {file}:{line}")).unwrap_or_default();
        Some(format!("{} {:#x}{place}", made.name, made.start))
    }

    fn agrees(codes: &mut Codes) {
        let expected = [
            (0x1063, Some("JS:*hot 0x1000 hot.js:3")),
            (0x1064, None),
            (0x2000, Some("JS:*cold 0x2000")),
            (0x9000_0031, Some("JS:*cold 0x90000000")),
            (0x0900_0000, None),
        ];
        for (address, name) in expected {
            assert_eq!(found(codes, address, 100).as_deref(), name, "{address:#x}");
        }
    }

    #[test]
    fn records_are_functions_however_they_come() {
        let dump = dump();
        for step in [1, 7, 15, 16, 17, 40, 56, 4096, dump.len()] {
            let (mut codes, mut reader) = (Codes::default(), JitDump::default());
            dump.chunks(step).for_each(|piece| reader.read(piece, 1000, &mut codes));
            assert!(reader.has_ended());
            agrees(&mut codes);
        }
    }

    #[test]
    fn a_reader_of_a_file_goes_on_behind_the_code() {
        let (dump, mut codes, mut reader) = (dump(), Codes::default(), JitDump::default());
        let (mut at, mut read) = (0, 0);
        while at < dump.len() {
            let piece = &dump[at..dump.len().min(at + 64)];
            reader.read(piece, 1000, &mut codes);
            (at, read) = (at + piece.len() + reader.passes() as usize, read + piece.len());
        }
        agrees(&mut codes);
        assert!(read < LONGEST + 1024, "{read}");
    }

    #[test]
    fn times_are_the_dumps_or_those_of_reading_and_never_later() {
        let both = [load(10, 0x1000, 1, "first", 8), load(20, 0x1000, 2, "second", 8)].concat();
        for (flags, when, expected) in
            [(0, 15, "first"), (0, 25, "second"), (ARCHITECTURES_TIME, 25, "second")]
        {
            let (mut codes, mut reader) = (Codes::default(), JitDump::default());
            reader.read(&[header(flags), both.clone()].concat(), 22, &mut codes);
            assert_eq!(codes.at(0x1000, when).unwrap().name, expected, "{flags} {when}");
        }
        // A record that is to come is there now.
        let (mut codes, mut reader) = (Codes::default(), JitDump::default());
        reader.read(&[header(0), load(10, 0x1000, 1, "first", 8)].concat(), 50, &mut codes);
        reader.read(&load(u64::MAX, 0x1000, 2, "second", 8), 50, &mut codes);
        assert_eq!(codes.at(0x1000, 50).unwrap().name, "second");
    }

    #[test]
    fn what_is_no_dump_ends_and_a_record_of_no_size_does() {
        let mut other = header(0);
        other[0] ^= 1;
        let hollow = [header(0), vec![0; 64], load(10, 0x1000, 1, "f", 8)].concat();
        for bytes in [other, hollow] {
            let (mut codes, mut reader) = (Codes::default(), JitDump::default());
            reader.read(&bytes, 100, &mut codes);
            assert!(reader.has_ended() && codes.is_empty());
        }
    }
}
