//! Code that runtimes make and report to perf, in the clock's samples. Its names are read from the
//! files that runtimes write for perf, which exist only where a user has asked for them.
//!
//! ```text
//!   sample in memory that is executable and no file's ──▶ window: 4 GiB of addresses, for an epoch
//!                                                            │ address, and until when it was seen
//!   /tmp/perf-PID.map, jit-PID.dump ── follow ──▶ Codes ◀────┘ at a profile
//! ```
//!
//! A dump lags behind by as much as its writer buffers, and some maps are written when the program
//! ends. So samples are kept with their addresses, and named when a profile is made, by the code
//! that lay there in the samples' epoch. An epoch is a tenth of a second at first, and longer in
//! long runs, so that there are not too many. Files are read only after samples in such code.
//!
//! The functions have numbers above those of all functions with probes.

use super::mappings::Mappings;
use crate::discovery::jit::{Codes, JitDump, PerfMap};
use crate::runtime::functions;
use profiler::{FuncId, Label};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use wordpatch::os::{clocks, threads, trust};

/// Files are not read more often than this while the program runs.
const PAUSE: Duration = Duration::from_millis(100);
/// No more than this is read at a time then.
const PORTION: u64 = 4 << 20;
/// No more than this is read of a file.
const LARGEST: u64 = 1 << 30;
/// How long before its process began a map may seem to have been written, by the coarseness of a
/// clock.
const COARSENESS: Duration = Duration::from_millis(100);
/// How many functions are distinguished.
const MOST: usize = 1 << 16;
/// The number of the first function.
const FIRST: u32 = functions::MOST as u32;

/// The module of such functions, in a profile.
pub(crate) const MODULE: &str = "[jit]";

/// What runtimes have reported.
#[derive(Debug, Default)]
pub(crate) struct Jit {
    codes: Codes,
    sources: Vec<Source>,
    followed: Option<Instant>,
    /// The functions that were seen running.
    functions: Vec<Label>,
    numbers: HashMap<Box<str>, u32>,
    /// The share of the samples that is in code that no runtime has reported.
    unnamed: f64,
}

impl Jit {
    /// Reads what runtimes have written since, if it is time. Returns whether any runtime has
    /// written code, or is going to.
    pub(super) fn follow(&mut self, mappings: &Mappings) -> bool {
        let is_time = self.followed.is_none_or(|followed| followed.elapsed() >= PAUSE);
        if is_time && mappings.has_windows() {
            self.read(mappings, PORTION);
        }
        !self.codes.is_empty() || !mappings.dumps().is_empty()
    }

    /// Reads everything that was written.
    pub(super) fn catch_up(&mut self, mappings: &Mappings) {
        if mappings.has_windows() {
            self.read(mappings, LARGEST);
        }
    }

    fn read(&mut self, mappings: &Mappings, most: u64) {
        self.followed = Some(Instant::now());
        if self.sources.is_empty() {
            let path = PathBuf::from(format!("/tmp/perf-{}.map", threads::process()));
            let age = threads::process_age().unwrap_or_default() + COARSENESS;
            let began = SystemTime::now().checked_sub(age);
            self.sources.push(Source::new(&path, Reader::Map(PerfMap::default(), began)));
        }
        for path in mappings.dumps() {
            if !self.sources.iter().any(|source| source.path == *path) {
                self.sources.push(Source::new(path, Reader::Dump(JitDump::default())));
            }
        }
        let now = clocks::monotonic();
        let Self { sources, codes, .. } = self;
        sources.iter_mut().for_each(|source| source.follow(now, most, codes));
    }

    /// The function that lay at an address then, and where it begins.
    pub(super) fn function(&mut self, address: usize, when: u64) -> Option<(FuncId, usize)> {
        let made = self.codes.at(address as u64, when)?;
        let number = match self.numbers.get(made.name) {
            Some(&number) => number,
            None if self.functions.len() >= MOST => return None,
            None => {
                let (file, line) = made.place.unzip();
                let (name, file) = (made.name.to_owned(), file.map(str::to_owned));
                self.numbers.insert(name.as_str().into(), self.functions.len() as u32);
                self.functions.push(Label { name, file, line, ..Label::default() });
                self.functions.len() as u32 - 1
            }
        };
        Some((FuncId(FIRST + number), made.start as usize))
    }

    /// Notes how many of the samples are in code that no runtime has reported.
    pub(super) fn own_up(&mut self, unnamed: f64, all: f64) {
        self.unnamed = if all > 0.0 { unnamed / all } else { 0.0 };
    }

    /// The name of a function, if it is one of these.
    pub(crate) fn label(&self, function: FuncId) -> Option<&Label> {
        self.functions.get(function.0.checked_sub(FIRST)? as usize)
    }

    /// What a profile has to say about them.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.functions.is_empty() {
            let from = self.sources.iter().filter(|source| source.at > 0);
            let from: Vec<String> = from.map(|source| source.path.display().to_string()).collect();
            notes.push(format!(
                "functions of {MODULE} are named by {}: they are seen by the sampling clock only, and their calls are not counted",
                from.join(", ")
            ));
        }
        notes.extend(self.sources.iter().filter_map(|source| source.problem.clone()));
        let refused = self.codes.refused();
        if refused > 0 {
            notes.push(format!(
                "{refused} functions of {MODULE} have no name, because the table was full"
            ));
        }
        // From few samples nothing can be concluded.
        const MUCH: f64 = 0.02;
        if self.unnamed > MUCH {
            notes.push(format!(
                "{:.0} % of the samples are in generated code without names for perf (node --perf-basic-prof, java -XX:+UnlockDiagnosticVMOptions \
                 -XX:+DumpPerfMapAtExit)",
                self.unnamed * 100.0
            ));
        }
        notes
    }
}

/// A file that a runtime writes.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    reader: Reader,
    /// Which file it was, and its length.
    identity: Option<(u64, u64)>,
    len: u64,
    /// How far it was read.
    at: u64,
    /// Why it is not read.
    problem: Option<String>,
}

#[derive(Debug)]
enum Reader {
    /// A map that was written to since then: an older one belongs to another process that had the
    /// same number.
    Map(PerfMap, Option<SystemTime>),
    Dump(JitDump),
}

impl Source {
    fn new(path: &Path, reader: Reader) -> Self {
        Self { path: path.to_owned(), reader, identity: None, len: 0, at: 0, problem: None }
    }

    /// Reads what was added, at most so much.
    fn follow(&mut self, now: u64, most: u64, codes: &mut Codes) {
        match trust::open_own(&self.path) {
            Ok(file) => {
                self.problem = None;
                // What cannot be read now is read later.
                let _ = self.read(file, now, most, codes);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.problem = Some(format!("{}: {error}", self.path.display())),
        }
    }

    fn read(
        &mut self,
        mut file: File,
        now: u64,
        most: u64,
        codes: &mut Codes,
    ) -> std::io::Result<()> {
        let data = file.metadata()?;
        if let Reader::Map(_, Some(began)) = &self.reader
            && data.modified()? < *began
        {
            return Ok(());
        }
        let identity = Some((data.dev(), data.ino()));
        if self.identity != identity || data.len() < self.len {
            // The file was begun anew. What it said before holds until it says otherwise.
            (self.at, self.identity) = (0, identity);
            self.reader.begin();
        }
        self.len = data.len();
        let end = self.len.min(LARGEST).min(self.at.saturating_add(most));
        let mut buffer = vec![0; 1 << 16];
        while self.at < end && codes.refused() == 0 {
            file.seek(SeekFrom::Start(self.at))?;
            let wanted = (end - self.at).min(buffer.len() as u64) as usize;
            let read = file.read(&mut buffer[..wanted])?;
            if read == 0 {
                break;
            }
            self.at += read as u64;
            self.at = self.at.saturating_add(self.reader.read(&buffer[..read], now, codes));
        }
        Ok(())
    }
}

impl Reader {
    fn begin(&mut self) {
        match self {
            Self::Map(map, _) => *map = PerfMap::default(),
            Self::Dump(dump) => *dump = JitDump::default(),
        }
    }

    /// Returns how many of the following bytes are of no use.
    fn read(&mut self, bytes: &[u8], now: u64, codes: &mut Codes) -> u64 {
        match self {
            Self::Map(map, _) => {
                map.read(bytes, now, codes);
                0
            }
            Self::Dump(dump) => {
                dump.read(bytes, now, codes);
                dump.passes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn map(path: &Path, began: Option<SystemTime>) -> Source {
        Source::new(path, Reader::Map(PerfMap::default(), began))
    }

    fn name(codes: &mut Codes, address: u64) -> Option<&str> {
        codes.at(address, u64::MAX).map(|made| made.name)
    }

    #[test]
    fn a_file_is_followed_while_it_grows_and_when_it_is_begun_anew() {
        let folder = trust::temporary_folder("fastinst-jit").unwrap();
        let path = folder.join("map");
        let (mut codes, mut source) = (Codes::default(), map(&path, None));
        source.follow(1, LARGEST, &mut codes);
        assert!(codes.is_empty() && source.problem.is_none());
        fs::write(&path, "1000 10 one\n2000 10 tw").unwrap();
        source.follow(1, LARGEST, &mut codes);
        assert_eq!([0x1000, 0x2000].map(|at| name(&mut codes, at).is_some()), [true, false]);
        fs::write(&path, "1000 10 one\n2000 10 two\n").unwrap();
        // In portions, too.
        (2..10).for_each(|now| source.follow(now, 1, &mut codes));
        assert_eq!(name(&mut codes, 0x2000), Some("two"));
        assert_eq!(codes.len(), 2);
        fs::write(&path, "1000 10 other\n").unwrap();
        source.follow(10, LARGEST, &mut codes);
        assert_eq!(name(&mut codes, 0x1000), Some("other"));
        assert_eq!(codes.at(0x1000, 5).unwrap().name, "one");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_map_of_an_earlier_process_a_link_and_a_pipe_are_not_read() {
        let folder = trust::temporary_folder("fastinst-jit").unwrap();
        let path = folder.join("map");
        fs::write(&path, "1000 10 one\n").unwrap();
        let mut codes = Codes::default();
        let later = SystemTime::now() + Duration::from_secs(60);
        map(&path, Some(later)).follow(1, LARGEST, &mut codes);
        let link = folder.join("link");
        symlink(&path, &link).unwrap();
        let mut linked = map(&link, None);
        linked.follow(1, LARGEST, &mut codes);
        assert!(codes.is_empty() && linked.problem.is_some());
        let mut device = map(Path::new("/dev/null"), None);
        device.follow(1, LARGEST, &mut codes);
        assert!(device.problem.is_some());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_function_has_one_number_wherever_it_lies() {
        let mut jit = Jit::default();
        PerfMap::default().read(b"1000 10 one\n2000 10 two\n3000 10 one\n", 1, &mut jit.codes);
        let numbers = [0x1000, 0x2000, 0x3008].map(|at| jit.function(at, 2).unwrap());
        assert_eq!(numbers[0].0, numbers[2].0);
        assert_ne!(numbers[0].0, numbers[1].0);
        assert_eq!(numbers.map(|(_, start)| start), [0x1000, 0x2000, 0x3000]);
        assert_eq!(jit.label(numbers[1].0).unwrap().name, "two");
        assert!(jit.label(FuncId(1)).is_none() && jit.function(0x4000, 2).is_none());
    }
}
