//! Points: static tracepoints, which are places in code that a program's author has named for
//! tools.
//!
//! ```text
//! <sys/sdt.h>          nop │ .note.stapsdt: where, .stapsdt.base, semaphore; provider, name,
//! arguments __notify_intrinsic   any instruction │ .itt_notify_tab: where, bytes that may be
//! displaced, text, expression
//! ```
//!
//! A point does nothing until a tool uses it. A program may compute values for tools only if a
//! *semaphore* is not zero: a word of its data that each tool increments.
//!
//! Sources: SystemTap, "UserSpaceProbeImplementation"; LLVM's notify table, version 1.1 (Chamith,
//! Svensson, Dalessandro and Newton, *Living on the Edge*, PLDI 2016, plays such tables).

mod pairs;

pub use pairs::{Pair, PairError, pairs};

use super::{Code, DiscoveryError, Image, Module};
use goblin::elf::program_header::{PF_W, PT_LOAD};
use std::collections::BTreeMap;
use wordpatch::CodeAddr;

/// Which table a point is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointTable {
    /// Notes of `<sys/sdt.h>`.
    Notes,
    /// A notify table.
    Notify,
}

/// A point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where it is.
    pub at: CodeAddr,
    /// The word that shows the program whether a tool uses the point, if it has one.
    pub semaphore: Option<CodeAddr>,
    /// The group of the point: often a library.
    pub provider: String,
    /// Its name within that.
    pub name: String,
    /// Where its arguments are, as the table has it.
    pub arguments: String,
    /// Which table it is from.
    pub table: PointTable,
}

impl Point {
    /// Its name, as people write it.
    pub fn title(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

/// The names of a module's points, by their places.
pub(crate) type PointNames = BTreeMap<CodeAddr, String>;

/// The points of a module, by address.
pub fn points(module: &Module) -> Result<Vec<Point>, DiscoveryError> {
    let contents = module.contents()?;
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    Ok(points_of(&Image::parse(&contents).map_err(failed)?, module.bias))
}

/// The points of a file that is loaded `bias` from its addresses. A note that is damaged or leads
/// out of the code is left out.
pub(crate) fn points_of(image: &Image<'_>, bias: usize) -> Vec<Point> {
    let loaded = |address: u64| CodeAddr::new(bias.wrapping_add(address as usize));
    let code = image.code();
    let is_code =
        |at: u64| code.iter().any(|code: &Code<'_>| (code.address..code.end()).contains(&at));
    let place = |found: Found<'_>| {
        let semaphore = found.semaphore.filter(|&at| image.is_data(at, SEMAPHORE));
        // A semaphore that cannot be incremented leaves its point off.
        (is_code(found.at) && semaphore.is_some() == found.semaphore.is_some()).then(|| Point {
            at: loaded(found.at),
            semaphore: semaphore.map(loaded),
            provider: found.provider.to_owned(),
            name: found.name.to_owned(),
            arguments: found.arguments,
            table: found.table,
        })
    };
    let notes = image.section(NOTES).unwrap_or_default();
    let base = image.placed(BASE).map(|base| base.address);
    let notify = image.relocated(NOTIFY).map(|(_, bytes)| bytes).unwrap_or_default();
    let mut points: Vec<Point> =
        noted(notes, base).chain(listed(&notify)).filter_map(place).collect();
    points.sort_by_key(|point| point.at);
    points.dedup_by(|a, b| a.at == b.at && a.title() == b.title());
    points
}

const NOTES: &str = ".note.stapsdt";
const BASE: &str = ".stapsdt.base";
const NOTIFY: &str = ".itt_notify_tab";
/// The size of a semaphore.
const SEMAPHORE: u64 = 2;

/// A point, in addresses of the file.
struct Found<'b> {
    at: u64,
    semaphore: Option<u64>,
    provider: &'b str,
    name: &'b str,
    arguments: String,
    table: PointTable,
}

/// The points of `.note.stapsdt`. A tool that has moved the file's addresses (prelink) has left the
/// notes alone: each says where `.stapsdt.base` was when it was written.
fn noted(notes: &[u8], base: Option<u64>) -> impl Iterator<Item = Found<'_>> {
    const HEADER: usize = 12;
    const OWNER: &[u8] = b"stapsdt\0";
    const POINT: u32 = 3;
    let mut rest = notes;
    let next = move || {
        let header = rest.first_chunk::<HEADER>()?;
        let [name, len, kind] = [0, 4, 8].map(|at| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        });
        let body = HEADER.checked_add((name as usize).checked_next_multiple_of(4)?)?;
        let end = body.checked_add(len as usize)?;
        let is_point = kind == POINT && rest.get(HEADER..HEADER + name as usize)? == OWNER;
        let point = rest.get(body..end)?;
        rest = rest.get(end.checked_next_multiple_of(4)?..).unwrap_or_default();
        Some(is_point.then_some(point))
    };
    let notes = std::iter::from_fn(next).flatten();
    notes
        .filter_map(move |note| {
            let (words, text) = note.split_at_checked(24)?;
            let [at, its_base, semaphore] = [0, 8, 16]
                .map(|at| words[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
            let moved = base.map_or(0, |base| base.wrapping_sub(its_base));
            let mut texts = text.split(|&byte| byte == 0);
            let mut text = || std::str::from_utf8(texts.next()?).ok();
            let (provider, name) = (text()?, text()?);
            Some(Found {
                at: at.wrapping_add(moved),
                semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
                provider,
                name,
                arguments: text().unwrap_or_default().to_owned(),
                table: PointTable::Notes,
            })
        })
        .filter(|found| !found.name.is_empty())
}

/// The points of notify tables. The linker has put those of all objects behind one another, each
/// with a header: a magic text, version and count of entries (16 bits each), then place and length
/// of texts and of expressions. An entry has where it is, how many bytes may be displaced, and
/// where its text and its expression lie.
fn listed(tables: &[u8]) -> impl Iterator<Item = Found<'_>> {
    const MAGIC: &[u8] = b".itt_notify_tab\0";
    const HEADER: usize = MAGIC.len() + 20;
    const ENTRY: usize = 20;
    const VERSION: u32 = 0x101;
    let starts = (0..tables.len()).filter(|&at| tables[at..].starts_with(MAGIC));
    starts.flat_map(move |start| {
        let table = &tables[start..];
        let word = move |at: usize, len: usize| -> Option<u64> {
            let bytes = table.get(at..at.checked_add(len)?)?;
            Some(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
        };
        let is_known = word(16, 2) == Some(VERSION.into());
        let count = word(18, 2).filter(|_| is_known).unwrap_or(0) as usize;
        let (texts, texts_len) = (word(20, 4), word(24, 4));
        (0..count).filter_map(move |entry| {
            let from = HEADER + entry * ENTRY;
            let (at, room) = (word(from, 8)?, word(from + 8, 4)?);
            let text = texts?.checked_add(word(from + 12, 4)?)?;
            let end = texts?.checked_add(texts_len?)?;
            let text = table.get(text as usize..end as usize)?;
            let name = std::ffi::CStr::from_bytes_until_nul(text).ok()?.to_str().ok()?;
            (!name.is_empty()).then(|| Found {
                at,
                semaphore: None,
                provider: "notify",
                name,
                arguments: format!("{room} bytes"),
                table: PointTable::Notify,
            })
        })
    })
}

impl Image<'_> {
    /// Whether so many bytes are data that the program writes.
    fn is_data(&self, at: u64, len: u64) -> bool {
        self.segments.iter().any(|segment| {
            let end = segment.p_vaddr.saturating_add(segment.p_memsz);
            segment.p_type == PT_LOAD
                && segment.p_flags & PF_W != 0
                && segment.p_vaddr <= at
                && at.checked_add(len).is_some_and(|last| last <= end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note of `<sys/sdt.h>`.
    fn note(owner: &[u8], kind: u32, words: [u64; 3], texts: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        let len = 24 + texts.len();
        for word in [owner.len() as u32, len as u32, kind] {
            note.extend_from_slice(&word.to_le_bytes());
        }
        note.extend_from_slice(owner);
        note.resize(note.len().next_multiple_of(4), 0);
        words.iter().for_each(|word| note.extend_from_slice(&word.to_le_bytes()));
        note.extend_from_slice(texts);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn a_point_of_a_moved_file_is_where_it_was_moved_to() {
        let mut notes =
            note(b"stapsdt\0", 3, [0x1000, 0x3000, 0x4000], b"app\0go__begin\x004@%edi\0");
        notes.extend(note(b"other\0", 3, [0x1000, 0x3000, 0], b"a\0b\0\0"));
        notes.extend(note(b"stapsdt\0", 4, [0x1000, 0x3000, 0], b"a\0b\0\0"));
        notes.extend(note(b"stapsdt\0", 3, [0x1004, 0x3000, 0], b"app\0go__end\0\0"));
        let found: Vec<_> = noted(&notes, Some(0x13000)).collect();
        let shown = |found: &Found<'_>| (found.at, found.semaphore, found.name.to_owned());
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            [
                (0x11000, Some(0x14000), "go__begin".to_owned()),
                (0x11004, None, "go__end".to_owned())
            ]
        );
        assert_eq!((found[0].provider, &*found[0].arguments), ("app", "4@%edi"));
        // Without the section nothing was moved.
        assert_eq!(noted(&notes, None).next().map(|found| found.at), Some(0x1000));
    }

    #[test]
    fn damaged_notes_end_the_list() {
        let whole = note(b"stapsdt\0", 3, [1, 0, 0], b"app\0go\0\0");
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            assert!(noted(&cut, None).count() <= 1, "{len}");
            cut.iter_mut().take(12).for_each(|byte| *byte = 0xff);
            assert_eq!(noted(&cut, None).count(), 0, "{len}");
        }
    }

    #[test]
    fn notify_tables_of_two_objects_are_one_list() {
        let table = |version: u16, at: u64, text: &[u8]| {
            let mut table = b".itt_notify_tab\0".to_vec();
            table.extend_from_slice(&version.to_le_bytes());
            table.extend_from_slice(&1u16.to_le_bytes());
            let strings = 36 + 20;
            for word in [strings, text.len() as u32, strings + text.len() as u32, 2] {
                table.extend_from_slice(&word.to_le_bytes());
            }
            table.extend_from_slice(&at.to_le_bytes());
            for word in [6u32, 0, 0] {
                table.extend_from_slice(&word.to_le_bytes());
            }
            table.extend_from_slice(text);
            table.extend_from_slice(&[1, 0x50, 0, 0]);
            table
        };
        let mut tables = table(0x101, 0x1000, b"first\0");
        tables.extend(table(0x102, 0x2000, b"of another version\0"));
        tables.extend(table(0x101, 0x3000, b"second\0"));
        let found: Vec<_> =
            listed(&tables).map(|found| (found.at, found.name.to_owned())).collect();
        assert_eq!(found, [(0x1000, "first".to_owned()), (0x3000, "second".to_owned())]);
        for len in 0..tables.len() {
            assert!(listed(&tables[..len]).count() <= 2);
        }
    }
}
