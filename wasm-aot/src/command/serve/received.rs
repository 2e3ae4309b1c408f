//! A trace that is received in pieces, which may arrive in any order.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use wasm_aot::trace::{MAGIC, Reader, Sink as _, end};

/// The maximum number of bytes kept of pieces that have arrived early.
const EARLY: usize = 128 << 20;

/// A file, and the pieces that belong after its end.
#[derive(Debug)]
pub(super) struct Received {
    path: PathBuf,
    file: File,
    /// Its length, and that before its last piece.
    len: u64,
    before: u64,
    early: BTreeMap<u64, Vec<u8>>,
    /// The length of the trace, once known.
    end: Option<u64>,
}

impl Received {
    /// Creates a file with a unique name.
    pub(super) fn create(folder: &Path, name: &str) -> io::Result<Self> {
        let mut number = 1u32;
        loop {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let path = folder.join(format!("{name}{suffix}.r3"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let early = BTreeMap::new();
                    return Ok(Self { path, file, len: 0, before: 0, early, end: None });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a piece; returns the trace's length when it is complete. If the disk is full, the trace
    /// ends with a message that says so.
    pub(super) fn take(
        &mut self,
        offset: u64,
        piece: Vec<u8>,
        is_last: bool,
    ) -> Result<Option<u64>, String> {
        if offset < self.len || (offset == 0 && !piece.starts_with(MAGIC)) {
            return Err(self.ended("a piece that is no part of a trace".into()));
        }
        if is_last {
            self.end = offset.checked_add(piece.len() as u64);
        }
        self.early.insert(offset, piece);
        while let Some(piece) = self.early.remove(&self.len) {
            if let Err(error) = self.file.append(&piece) {
                // The part of the piece that was written is not a block.
                let _ = self.file.cut(self.len);
                return Err(self.ended(error.to_string()));
            }
            if piece.is_empty() {
                break;
            }
            self.before = self.len;
            self.len += piece.len() as u64;
        }
        if self.early.values().map(Vec::len).sum::<usize>() > EARLY {
            return Err(self.ended("a piece is missing".into()));
        }
        Ok(self.end.filter(|end| *end == self.len))
    }

    /// Ends the trace at its present end, or before its last piece if there is no room for the end
    /// block.
    fn ended(&mut self, why: String) -> String {
        for len in [self.len, self.before] {
            let ended = self.file.cut(len).and_then(|()| {
                let events = events(&self.path)?;
                self.file.append(&end(events, &why, None))
            });
            if ended.is_ok() {
                break;
            }
            let _ = self.file.cut(len);
        }
        why
    }
}

/// Returns the number of events of a truncated trace.
fn events(path: &Path) -> io::Result<u64> {
    let reader = Reader::new(io::BufReader::new(File::open(path)?)).map_err(io::Error::other)?;
    Ok(reader.take_while(Result::is_ok).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_aot::trace::{Ending, Event, Program, Writer};

    /// Returns a trace in pieces.
    fn pieces() -> Vec<Vec<u8>> {
        let mut writer = Writer::new(Vec::new(), &Program::new(vec![1], "a")).expect("room");
        let call = Event::Call { function: 0, args: Vec::new() };
        (0..1000).for_each(|_| writer.push(&call));
        let (_, trace, _) = writer.finish();
        trace.chunks(trace.len().div_ceil(3)).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn pieces_may_come_in_any_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let pieces = pieces();
        let [one, two, three] =
            [0, 1, 2].map(|at| pieces[..at].iter().map(Vec::len).sum::<usize>() as u64);
        let mut trace = Received::create(folder.path(), "a").expect("a file");
        assert_eq!(trace.take(three, pieces[2].clone(), true), Ok(None));
        assert_eq!(trace.take(one, pieces[0].clone(), false), Ok(None));
        let whole = pieces.concat();
        assert_eq!(trace.take(two, pieces[1].clone(), false), Ok(Some(whole.len() as u64)));
        assert_eq!(std::fs::read(trace.path()).expect("a file"), whole);
        // The next one gets another name.
        let mut other = Received::create(folder.path(), "a").expect("a file");
        assert_eq!(other.path(), folder.path().join("a-2.r3"));
        // An empty piece may be the last one.
        assert_eq!(other.take(0, whole.clone(), false), Ok(None));
        assert_eq!(other.take(whole.len() as u64, Vec::new(), true), Ok(Some(whole.len() as u64)));
    }

    #[test]
    fn what_is_no_part_ends_the_trace_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut trace = Received::create(folder.path(), "a").expect("a file");
        assert!(trace.take(0, b"hello".to_vec(), false).is_err());
        let mut trace = Received::create(folder.path(), "b").expect("a file");
        let mut writer = Writer::new(Vec::new(), &Program::new(vec![1], "a")).expect("room");
        writer.push(&Event::Call { function: 0, args: Vec::new() });
        writer.flush();
        let (events, whole, _) = writer.finish();
        // Without the end, which is a separate block.
        let begun = whole.len() - end(events, "", None).len();
        assert_eq!(trace.take(0, whole[..begun].to_vec(), false), Ok(None));
        assert!(trace.take(3, vec![1], false).is_err());
        let file = File::open(trace.path()).expect("a file");
        let mut reader = Reader::new(file).expect("a trace");
        assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 1);
        let why = "a piece that is no part of a trace".to_owned();
        assert_eq!(reader.ending(), Some(&Ending::Stopped(why)));
    }
}
