//! Scripts, and places in them.
//!
//! A span is a range of bytes in one of the scripts of a run. Scripts are numbered in the order in
//! which they were given; a report shows that number as `script_id`.

use std::ops::Range;

/// A script: its name in diagnostics, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its origin: a path, or any name.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// A script with a name. A byte order mark before the text is removed.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text: String = text.into();
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        Self { name: name.into(), text }
    }

    /// Line and column of a byte, both counted from one, the column in characters.
    pub fn place(&self, at: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
    }

    /// The line with this number, without its end.
    pub fn line(&self, number: usize) -> &str {
        self.text.split('\n').nth(number.saturating_sub(1)).unwrap_or("").trim_end_matches('\r')
    }
}

/// A range of bytes in a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The script's number.
    pub script: u16,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl Span {
    /// A range in a script.
    pub fn new(script: u16, range: Range<usize>) -> Self {
        let short = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { script, start: short(range.start), end: short(range.end) }
    }

    /// From the beginning of this to the end of the other.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { script: self.script, start: self.start, end: other.end.max(self.start) }
    }
}
