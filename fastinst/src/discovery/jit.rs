//! JIT code: code that a runtime generates at run time, as the runtime reports it to perf:
//! functions with their addresses, in a text map or a dump of records.
//!
//! Code changes: a runtime frees a function's memory and uses it for another one, or moves a
//! function. So each function has a time from which on it is there, and an address is looked up
//! together with the time at which a thread was there. A later report is valid from its time on.
//!
//! - [`PerfMap`] reads text without times (`/tmp/perf-PID.map`): they are those of reading.
//! - [`JitDump`] reads records with times (`jit-PID.dump`).
//!
//! Both are given bytes as they come, since files grow while they are read. Whatever the bytes are,
//! a table does not exceed its limits, and a look-up takes a limited number of steps.

mod jitdump;
mod perf_map;

pub use jitdump::JitDump;
pub use perf_map::PerfMap;

/// A table has no more functions: a browser's page has some ten thousand.
const MOST: usize = 1 << 19;
/// Nor longer texts, all together.
const MOST_TEXT: usize = 32 << 20;
/// A longer name is cut.
const LONGEST_NAME: usize = 4 << 10;
/// The longest function: the longest existing ones hold all of a runtime's stubs.
const LARGEST: u64 = 256 << 20;
/// The most functions that a look-up passes which begin before an address and do not reach it.
const FARTHEST: usize = 1 << 12;

/// Functions that a runtime has made.
#[derive(Debug, Default)]
pub struct Codes {
    /// In order up to `sorted`.
    rows: Vec<Row>,
    sorted: usize,
    /// How far each row and those before it reach, at most.
    reach: Vec<u64>,
    /// Names, each with a zero behind it. Place 0 has none.
    text: Vec<u8>,
    refused: u64,
}

/// A function's code, from a time on.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u64,
    end: u64,
    /// Nanoseconds of the monotonic clock.
    since: u64,
    /// Functions with a greater number were reported later.
    number: u32,
    name: u32,
    /// Its source file, and the line in it; 0 where it is not known.
    file: u32,
    line: u32,
}

/// The function at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made<'c> {
    /// The function's name, as its runtime has it.
    pub name: &'c str,
    /// Where it begins.
    pub start: u64,
    /// Its source file and line.
    pub place: Option<(&'c str, u32)>,
}

/// A runtime's report of a function.
#[derive(Clone, Copy, Debug, Default)]
struct Told<'t> {
    start: u64,
    size: u64,
    since: u64,
    name: &'t [u8],
    place: Option<(&'t [u8], u32)>,
}

impl Codes {
    /// Adds a function, if it can be one and there is room.
    fn add(&mut self, told: &Told<'_>) {
        let is_one = told.size > 0 && told.size <= LARGEST && told.start > 0;
        let Some(end) = told.start.checked_add(told.size).filter(|_| is_one) else { return };
        let has_room = self.rows.len() < MOST && self.text.len() < MOST_TEXT;
        if !has_room {
            self.refused += 1;
            return;
        }
        let name = self.keep(told.name);
        let (file, line) = told.place.map_or((0, 0), |(file, line)| (self.keep(file), line));
        let number = self.rows.len() as u32;
        let Told { start, since, .. } = *told;
        self.rows.push(Row { start, end, since, number, name, file, line });
    }

    /// Keeps a text, and says where.
    fn keep(&mut self, text: &[u8]) -> u32 {
        let text = &text[..text.len().min(LONGEST_NAME)];
        let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
        if self.text.is_empty() {
            self.text.push(0);
        }
        let at = self.text.len() as u32;
        self.text.extend_from_slice(text.trim().as_bytes());
        self.text.push(0);
        at
    }

    fn text(&self, at: u32) -> &str {
        let rest = self.text.get(at as usize..).unwrap_or_default();
        let end = memchr::memchr(0, rest).unwrap_or(rest.len());
        str::from_utf8(&rest[..end]).unwrap_or_default()
    }

    /// How many functions were reported.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Functions for which there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The function that was at an address at a time. If none had been reported there until then,
    /// the first one that was reported later: a runtime may report a function after it was called.
    pub fn at(&mut self, address: u64, when: u64) -> Option<Made<'_>> {
        self.sort();
        let behind = self.rows.partition_point(|row| row.start <= address);
        let reaching = self.rows[..behind].iter().zip(&self.reach).rev().take(FARTHEST);
        let reaching = reaching.take_while(|(_, reach)| **reach > address);
        let here = reaching.map(|(row, _)| row).filter(|row| row.end > address);
        let (mut before, mut after) = (None::<&Row>, None::<&Row>);
        for row in here {
            let age = |row: &Row| (row.since, row.number);
            if row.since <= when && before.is_none_or(|before| age(before) < age(row)) {
                before = Some(row);
            } else if row.since > when && after.is_none_or(|after| age(row) < age(after)) {
                after = Some(row);
            }
        }
        let row = before.or(after)?;
        let place = (row.file != 0).then(|| (self.text(row.file), row.line));
        Some(Made { name: self.text(row.name), start: row.start, place })
    }

    /// Puts rows that were added into their places.
    fn sort(&mut self) {
        if self.sorted == self.rows.len() {
            return;
        }
        // Merges what is in order already with what was added.
        self.rows.sort_by_key(|row| (row.start, row.number));
        self.sorted = self.rows.len();
        self.reach.clear();
        let mut reach = 0;
        self.reach.extend(self.rows.iter().map(|row| {
            reach = reach.max(row.end);
            reach
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(codes: &mut Codes, start: u64, size: u64, since: u64, name: &str) {
        codes.add(&Told { start, size, since, name: name.as_bytes(), place: None });
    }

    fn name(codes: &mut Codes, address: u64, when: u64) -> Option<String> {
        codes.at(address, when).map(|made| made.name.to_owned())
    }

    #[test]
    fn an_address_is_that_functions_which_lay_there_at_the_time() {
        let mut codes = Codes::default();
        for (start, size, since, what) in [
            (0x2000, 0x100, 10, "second"),
            (0x1000, 0x100, 10, "first"),
            // The memory of the first one was used again, for two.
            (0x0ff0, 0x50, 20, "third"),
            (0x1040, 0x40, 20, "fourth"),
            // Of two reports with the same time the latter is valid.
            (0x2000, 0x100, 10, "renamed"),
        ] {
            add(&mut codes, start, size, since, what);
        }
        let found = |codes: &mut Codes, address, when| name(codes, address, when);
        for (address, when, expected) in [
            (0x1000, 10, Some("first")),
            (0x10ff, 15, Some("first")),
            (0x1000, 20, Some("third")),
            (0x103f, 99, Some("third")),
            (0x1040, 99, Some("fourth")),
            // The rest of it is still the first one.
            (0x1080, 99, Some("first")),
            // A thread was there before the first report.
            (0x1000, 3, Some("first")),
            (0x0ff0, 3, Some("third")),
            (0x2000, 11, Some("renamed")),
            (0x0fef, 99, None),
            (0x1100, 99, None),
            (0x2100, 99, None),
            (0, 99, None),
            (u64::MAX, 99, None),
        ] {
            assert_eq!(
                found(&mut codes, address, when).as_deref(),
                expected,
                "{address:#x} {when}"
            );
        }
    }

    #[test]
    fn what_can_be_no_function_is_none() {
        let mut codes = Codes::default();
        let cases =
            [(0x1000, 0), (0, 16), (u64::MAX - 3, 16), (0x1000, u64::MAX), (8, LARGEST + 1)];
        cases.iter().for_each(|&(start, size)| add(&mut codes, start, size, 1, "f"));
        assert!(codes.is_empty());
        add(&mut codes, 0x1000, 1, 1, &"x".repeat(LONGEST_NAME + 1));
        assert_eq!(codes.at(0x1000, 1).unwrap().name.len(), LONGEST_NAME);
    }

    #[test]
    fn a_table_that_is_full_says_so_and_a_look_ends() {
        let mut codes = Codes::default();
        // One that overlaps all others, which makes every look-up long.
        add(&mut codes, 1, LARGEST, 1, "all");
        (0..MOST as u64 + 4).for_each(|at| add(&mut codes, 0x1000 + at * 4, 2, 1, ""));
        assert_eq!((codes.len(), codes.refused()), (MOST, 5));
        assert_eq!(name(&mut codes, 0x1000, 1).as_deref(), Some(""));
        let far = 0x1000 + (MOST as u64 / 2) * 4;
        assert_eq!(name(&mut codes, far + 1, 1).as_deref(), Some(""));
        assert_eq!(name(&mut codes, far + 2, 1), None);
    }
}
