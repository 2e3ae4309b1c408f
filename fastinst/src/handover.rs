//! Handover: how a profile survives the end of its process, however it ends.
//!
//! `fastinst run` makes a mapping, an anonymous file that is shared with the program. The agent
//! stores the profile there while the program runs, and `run` reads it when the program has ended.
//! So no signal handler is needed, and a process that was killed leaves as much as any other.
//!
//! ```text
//!   front │ slot of the first process │ slot of the second │ …
//!            ├ front      which copy is the latest, and where it lies
//!            ├ counts     entries of each function, at most a tenth of a second old, and when each copy was made
//!            └ copies     two profiles; the one that is not `latest` is being written, or is older
//! ```
//!
//! A whole profile takes some microseconds for each function that was called. So it is made as
//! often as a thousandth of a CPU allows, ten times a second for a program of some dozens of
//! functions. Counts are stored ten times a second in any case, which takes nanoseconds for each
//! function that was called; the reader adds what was counted since the latest copy. Unless the
//! process had its profile written after that, as it does when it ends by itself, it may have
//! called more since, or may call on: such counts are lower bounds.
//!
//! The file is larger than any profile, and has memory only where something was stored. A process
//! maps as much of its slot as its functions need. When there are more functions, it grows the
//! mappings, for which it needs no descriptor.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `claimed` | slots that are taken | any process, one up |
//! | `latest` | number of the latest whole copy (lowest bit: which); 0: none | the slot's agent |
//! | `copies` | where each copy lies, its bytes, and functions that were counted when it was made | the same, before `latest` |
//! | `is_settled` | 1: the process had its profile written, and nothing is newer | the slot's agent |
//!
//! Each process, and each program that it executes (exec), takes its own slot. If no slot is left,
//! or there is no mapping, the library writes files.
//!
//! # Safety
//!
//! This module exists to share memory between processes.
#![allow(unsafe_code)]

use profiler::{Figure, FileError, How, Profile};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wordpatch::CodeAddr;
use wordpatch::os::OsError;
use wordpatch::os::files;
use wordpatch::os::pages::{self, PAGE, Place, Protection};

/// Bytes of a slot: address space, and no memory.
const SLOT: usize = 4 << 30;
/// The part of them for the counts; copies follow.
const ENTRY_COUNTS: usize = 128 << 20;
/// Slots.
const SLOTS: u32 = 1024;
/// The first bytes of a front: a file without them is not touched.
const MAGIC: u64 = u64::from_le_bytes(*b"fasthnd3");
/// While a process runs, its counts are never older than this.
pub(crate) const AGE: Duration = Duration::from_millis(100);
/// Address space for copies at first: the profile of some hundred functions fits in it twice.
const COPIES: usize = 128 << 10;

/// The first page of the file.
#[repr(C)]
struct Front {
    magic: AtomicU64,
    /// The process that reads.
    reader: AtomicI32,
    claimed: AtomicU32,
    /// The state of the attachment of a process that was attached to (see [`Attachment`]).
    attachment: AtomicU32,
    /// The agent's thread there.
    agent: AtomicI32,
    /// Counted up by the reader as long as it lives.
    beats: AtomicU32,
}

/// The progress of the end of an attachment.
///
/// | value | meaning | stored by |
/// |---|---|---|
/// | `Runs` | the profiler is at work | zero at first |
/// | `Ending` | its end is requested | the reader |
/// | `Ended` | all code is as it was, and the profile is the last one | the agent |
/// | `Stuck` | some code could not be put back | the agent |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Attachment {
    /// See above.
    Runs = 0,
    /// See above.
    Ending = 1,
    /// See above.
    Ended = 2,
    /// See above.
    Stuck = 3,
}

impl Attachment {
    fn of(number: u32) -> Self {
        match number {
            1 => Self::Ending,
            2 => Self::Ended,
            3 => Self::Stuck,
            _ => Self::Runs,
        }
    }
}

/// The first page of a slot.
#[repr(C)]
struct SlotFront {
    process: AtomicI32,
    is_settled: AtomicU32,
    latest: AtomicU64,
    copies: [CopyPlace; 2],
}

/// Where a copy lies, from the first on.
#[repr(C)]
struct CopyPlace {
    start: AtomicU64,
    len: AtomicU64,
    functions: AtomicU64,
}

/// The counts of a function.
#[repr(C)]
struct EntryCount {
    now: AtomicU64,
    /// When each copy was made.
    counted: [AtomicU64; 2],
}

/// A part of the shared file, as long as it is mapped. One thread grows and uses it.
struct Mapped {
    at: AtomicUsize,
    len: AtomicUsize,
}

impl Mapped {
    fn new(file: &impl AsRawFd, offset: usize, len: usize) -> Result<Self, OsError> {
        let len = pages::round_up(len);
        // SAFETY: (1) a new mapping.
        let at = unsafe {
            pages::map_file_at(Place::Anywhere, len, Protection::ReadWrite, file, offset)?
        };
        Ok(Self { at: AtomicUsize::new(at.get()), len: AtomicUsize::new(len) })
    }

    /// Has room for `len` bytes, of at most `most`; twice that, so that it grows seldom.
    fn grow(&self, len: usize, most: usize) -> Result<(), OsError> {
        let (at, now) = (self.at.load(Relaxed), self.len.load(Relaxed));
        if len <= now {
            return Ok(());
        }
        if len > most {
            return Err(OsError { call: "mremap", errno: libc::ENOMEM });
        }
        let to = |len: usize| {
            let len = pages::round_up(len).min(most);
            // SAFETY: (1) mapped by `new` or here, and no reference into it is alive: the thread
            // that grows it is the only one that uses it, and here it does not.
            let at = unsafe { pages::grow(CodeAddr::new(at), now, len)? };
            self.at.store(at.get(), Relaxed);
            self.len.store(len, Relaxed);
            Ok(())
        };
        // If address space is limited, no more than is needed is mapped.
        to(2 * len).or_else(|_: OsError| to(len))
    }

    /// What lies there from an offset on, as far as it is mapped.
    fn all<T>(&self, offset: usize) -> &[T] {
        let (at, len) = (self.at.load(Relaxed), self.len.load(Relaxed));
        let count = len.saturating_sub(offset) / size_of::<T>();
        // SAFETY: (1) mapped by `new` or `grow`, page by page aligned, as are offsets, until `self`
        // grows or goes; (2) zeroes and anything else are values of atomics and bytes; (3) the file
        // is sealed: it cannot become shorter.
        unsafe { std::slice::from_raw_parts((at + offset) as *const T, count) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let (at, len) = (self.at.load(Relaxed), self.len.load(Relaxed));
        // SAFETY: (1) mapped by `new` or `grow`; references end with `self`. Nothing better can be
        // done about a failure.
        let _ = unsafe { pages::unmap(CodeAddr::new(at), len) };
    }
}

fn offset_of(slot: u32) -> usize {
    PAGE + slot as usize * SLOT
}

/// The reader's side: that of `fastinst run`.
pub struct Handover {
    file: File,
    front: Mapped,
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handover").field("claimed", &self.front().claimed).finish_non_exhaustive()
    }
}

impl Handover {
    /// Makes the mapping.
    pub fn new() -> Result<Self, OsError> {
        let file = pages::shared_file(c"fastinst-handover", offset_of(SLOTS))?;
        let front = Mapped::new(&file, 0, PAGE)?;
        let this = Self { file: file.into(), front };
        this.front().reader.store(wordpatch::os::threads::process(), Relaxed);
        this.front().magic.store(MAGIC, Release);
        Ok(this)
    }

    fn front(&self) -> &Front {
        &self.front.all(0)[0]
    }

    /// For a profiler in this process whose reader is another process, with the ID `reader`: that
    /// process opens the same file by [`descriptor`](Self::descriptor).
    pub fn for_reader(reader: i32) -> Result<Self, OsError> {
        let this = Self::new()?;
        this.front().reader.store(reader, Relaxed);
        Ok(this)
    }

    /// Opens a mapping that another process has made; `None` if the file is something else.
    pub fn open(path: &Path) -> std::io::Result<Option<Self>> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() != offset_of(SLOTS) as u64 {
            return Ok(None);
        }
        let front = Mapped::new(&file, 0, PAGE)
            .map_err(|error| std::io::Error::from_raw_os_error(error.errno))?;
        let this = Self { file, front };
        let is_it = this.front().magic.load(Acquire) == MAGIC;
        Ok(is_it.then_some(this))
    }

    /// How far the end of the attachment has come.
    pub fn attachment(&self) -> Attachment {
        self.front().attachment()
    }

    /// Asks the profiler to leave the process.
    pub fn end_attachment(&self) {
        self.front().set_attachment(Attachment::Ending);
    }

    /// Shows that the reader lives. To be called at least every few seconds.
    pub fn beat(&self) {
        self.front().beats.fetch_add(1, Relaxed);
    }

    /// The thread of the agent in the process that was attached to.
    pub fn agent(&self) -> i32 {
        self.front().agent.load(Acquire)
    }

    /// What the profiler's side keeps. The calling thread is the agent's.
    pub(crate) fn tether(&self) -> Result<Tether, OsError> {
        let front = Mapped::new(&self.file, 0, PAGE)?;
        let tether = Tether { front, seen: Mutex::new((0, Instant::now())) };
        tether.front().agent.store(wordpatch::os::threads::current().0, Release);
        Ok(tether)
    }

    /// The number of the file in this process.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// A slot for a profiler in this process.
    pub(crate) fn writer(&self) -> Option<Writer> {
        Writer::of(&self.file)
    }

    /// The path by which other processes find it, as long as this one lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", wordpatch::os::threads::process(), self.file.as_raw_fd())
    }

    /// What every process has left so far, in the order in which they began.
    pub fn profiles(&self) -> Vec<Profile> {
        self.read_all().filter_map(Result::ok).collect()
    }

    /// The same, with the reason where one cannot be read.
    pub fn read_all(&self) -> impl Iterator<Item = Result<Profile, FileError>> {
        let claimed = self.front().claimed.load(Acquire).min(SLOTS);
        (0..claimed).filter_map(|number| self.profile(offset_of(number)))
    }

    /// Processes that found no slot.
    pub fn turned_away(&self) -> u32 {
        self.front().claimed.load(Acquire).saturating_sub(SLOTS)
    }

    /// The latest profile in a slot, with what was counted since.
    fn profile(&self, slot: usize) -> Option<Result<Profile, FileError>> {
        let mapped = Mapped::new(&self.file, slot, PAGE).ok()?;
        let front: &SlotFront = &mapped.all(0)[0];
        // It is read again if the writer has overwritten the copy meanwhile.
        (0..100).find_map(|_| {
            let latest = front.latest.load(Acquire);
            if latest == 0 {
                return Some(None);
            }
            let which = (latest & 1) as usize;
            let copy = &front.copies[which];
            let start = copy.start.load(Relaxed).min(SLOT as u64);
            let bytes = self.read(slot + ENTRY_COUNTS, start, copy.len.load(Relaxed))?;
            let counts = self.read(
                slot + PAGE,
                0,
                copy.functions.load(Relaxed).saturating_mul(size_of::<EntryCount>() as u64),
            )?;
            fence(Acquire);
            (front.latest.load(Relaxed) == latest).then(|| {
                let mut profile = Profile::from_file(&bytes);
                if let Ok(profile) = &mut profile {
                    add_counts(profile, &counts, which);
                    if front.is_settled.load(Relaxed) == 0 {
                        leave_open(profile);
                    }
                }
                Some(profile)
            })
        })?
    }

    /// Reads `len` bytes, but no more than the file has memory for: a program may store any number
    /// there.
    fn read(&self, offset: usize, start: u64, len: u64) -> Option<Vec<u8>> {
        const BLOCK: u64 = 512;
        let held = self.file.metadata().ok()?.blocks().saturating_mul(BLOCK);
        let mut bytes = vec![0; len.min(held) as usize];
        self.file.read_exact_at(&mut bytes, offset as u64 + start).ok()?;
        Some(bytes)
    }
}

/// Adds what was counted since a copy was made.
fn add_counts(profile: &mut Profile, counts: &[u8], which: usize) {
    let (words, _) = counts.as_chunks::<{ size_of::<u64>() }>();
    let word = |at: usize| words.get(at).copied().map(u64::from_ne_bytes);
    const WORDS: usize = size_of::<EntryCount>() / size_of::<u64>();
    for function in &mut profile.functions {
        let at = function.id.0 as usize * WORDS;
        let (Some(now), Some(then)) = (word(at), word(at + 1 + which)) else { continue };
        let more = now.saturating_sub(then);
        if more > 0 {
            function.calls = function.calls.plus(&Figure::exact(more as f64));
        }
    }
}

/// Counts of a process that was killed, or still runs: it may have called more in the last moment.
fn leave_open(profile: &mut Profile) {
    let seconds = profile.header.seconds;
    // As if functions were called on at twice the rate that they had so far.
    let part = 2.0 * AGE.as_secs_f64() / seconds.max(AGE.as_secs_f64());
    for function in profile.functions.iter_mut().filter(|function| function.calls.is_exact()) {
        let calls = function.calls.value;
        let how = How::Estimated { lo: calls, hi: calls + (part * calls).max(1.0) };
        function.calls = Figure { value: calls, how };
    }
    // The same for all processes of a sum.
    profile.header.notes.push(
        "a process was killed, or has not ended yet: its calls are counted until a tenth of a \
         second ago, its times for as long as this profile says that it ran"
            .to_owned(),
    );
}

impl Front {
    fn attachment(&self) -> Attachment {
        Attachment::of(self.attachment.load(Acquire))
    }

    fn set_attachment(&self, to: Attachment) {
        self.attachment.store(to as u32, Release);
    }
}

/// The connection of an attached profiler to its reader; it needs no descriptor.
pub(crate) struct Tether {
    front: Mapped,
    /// The latest beat that was new, and when it was seen.
    seen: Mutex<(u32, Instant)>,
}

/// A reader in another PID namespace is taken to have ended when it has not beaten for this long.
const SILENCE: Duration = Duration::from_secs(10);

impl Tether {
    fn front(&self) -> &Front {
        &self.front.all(0)[0]
    }

    /// How far the end has come.
    pub(crate) fn attachment(&self) -> Attachment {
        self.front().attachment()
    }

    /// Stores its state.
    pub(crate) fn set_attachment(&self, to: Attachment) {
        self.front().set_attachment(to);
    }

    /// Whether the reader lives, as far as this process can determine it.
    pub(crate) fn has_reader(&self) -> bool {
        let reader = self.front().reader.load(Relaxed);
        if reader != 0 {
            return is_there(reader);
        }
        let beats = self.front().beats.load(Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 != beats {
            *seen = (beats, Instant::now());
        }
        seen.1.elapsed() < SILENCE
    }
}

/// The writer's side: the slot of this process. The agent's thread uses it.
pub(crate) struct Writer {
    /// The front of the slot, and counts.
    slot: Mapped,
    copies: Mapped,
    reader: i32,
}

impl Writer {
    /// Takes a slot of the mapping at a path; `None` if there is none left, or no mapping. Opens
    /// and closes a descriptor, allocates a path.
    pub(crate) fn claim(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        Self::of(&files::open_for_writing(&path).ok()?)
    }

    /// The same, of an open file.
    pub(crate) fn of(file: &impl AsRawFd) -> Option<Self> {
        if files::size(file).ok()? != offset_of(SLOTS) as u64 {
            return None;
        }
        let mapped = Mapped::new(file, 0, PAGE).ok()?;
        let front: &Front = &mapped.all(0)[0];
        if front.magic.load(Acquire) != MAGIC {
            return None;
        }
        let number = front.claimed.fetch_add(1, AcqRel);
        if number >= SLOTS {
            return None;
        }
        let offset = offset_of(number);
        let slot = Mapped::new(file, offset, 2 * PAGE).ok()?;
        let copies = Mapped::new(file, offset + ENTRY_COUNTS, COPIES).ok()?;
        let writer = Self { slot, copies, reader: front.reader.load(Relaxed) };
        writer.front().process.store(wordpatch::os::threads::process(), Relaxed);
        Some(writer)
    }

    fn front(&self) -> &SlotFront {
        &self.slot.all(0)[0]
    }

    fn entry_counts(&self) -> &[EntryCount] {
        self.slot.all(PAGE)
    }

    /// Makes room for the counts of so many functions, as far as possible: the counts of the others
    /// are in the copies only.
    pub(crate) fn reserve(&self, functions: usize) {
        let _ = self.slot.grow(PAGE + functions * size_of::<EntryCount>(), ENTRY_COUNTS);
    }

    /// How often a function was entered.
    pub(crate) fn count(&self, function: usize, entries: u64) {
        if let Some(entry) = self.entry_counts().get(function)
            && entry.now.load(Relaxed) != entries
        {
            entry.now.store(entries, Relaxed);
        }
    }

    /// Stores a new copy, with the counts of the functions that it was made from. Returns whether
    /// there was room.
    pub(crate) fn put(&self, bytes: &[u8], functions: usize) -> bool {
        let latest = self.front().latest.load(Relaxed);
        let next = latest + 1;
        let start = if latest == 0 { 0 } else { self.beside(latest, bytes.len()) };
        if self.copies.grow(start + bytes.len(), SLOT - ENTRY_COUNTS).is_err() {
            return false;
        }
        let front = self.front();
        let which = (next & 1) as usize;
        // The stores below must not become visible before the previous copy was published.
        fence(AcqRel);
        let at = self.copies.at.load(Relaxed) + start;
        // SAFETY: (1) room for that many, by `grow`; (2) no other thread writes there: the slot is
        // one agent's; (3) readers take the other copy.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        let counts = self.entry_counts();
        let counts = &counts[..functions.min(counts.len())];
        for entry in counts {
            let count = entry.now.load(Relaxed);
            if entry.counted[which].load(Relaxed) != count {
                entry.counted[which].store(count, Relaxed);
            }
        }
        let copy = &front.copies[which];
        copy.start.store(start as u64, Relaxed);
        copy.len.store(bytes.len() as u64, Relaxed);
        copy.functions.store(counts.len() as u64, Relaxed);
        front.latest.store(next, Release);
        true
    }

    /// Where so many bytes lie beside a copy: in front of it, or behind.
    fn beside(&self, copy: u64, len: usize) -> usize {
        let copy = &self.front().copies[(copy & 1) as usize];
        let [start, taken] = [&copy.start, &copy.len].map(|word| word.load(Relaxed) as usize);
        if len <= start { 0 } else { start + taken }
    }

    /// Records whether the latest copy and counts are all that there is.
    pub(crate) fn settle(&self, is_settled: bool) {
        self.front().is_settled.store(u32::from(is_settled), Release);
    }

    /// Whether the process that reads it lives.
    pub(crate) fn has_reader(&self) -> bool {
        is_there(self.reader)
    }
}

/// Whether a reader lives. A reader that this process cannot see has no process ID here, and is
/// taken to live.
pub(crate) fn is_there(reader: i32) -> bool {
    // SAFETY: (1) sends nothing.
    reader == 0 || unsafe { libc::kill(reader, 0) == 0 || wordpatch::os::errno() != libc::ESRCH }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler::{Clock, Controller, Costs, FuncId, Mark, Packing, Policy, Ticks};

    /// A profile of two functions that were entered equally often.
    fn profile(entries: u64) -> Vec<u8> {
        profile_of(2, entries)
    }

    fn profile_of(functions: u32, entries: u64) -> Vec<u8> {
        let costs = Costs { pair: 18.0, bias: 9.0, count: 1.0, toggle: 180.0, skip: 2.0 };
        let mut controller =
            Controller::new(Policy::Count, Clock { hz: 1e9, step: 1 }, costs, 1, Ticks(0));
        for id in 1..=functions {
            controller.discovered(FuncId(id), 2);
            controller.entered(FuncId(id), entries);
        }
        controller.profile(Ticks(entries)).to_bytes(Packing::Plain)
    }

    fn calls(profile: &Profile) -> Vec<f64> {
        profile.functions.iter().map(|function| function.calls.value).collect()
    }

    #[test]
    fn what_was_put_and_counted_is_read_and_the_older_copy_stays_whole() {
        let handover = Handover::new().unwrap();
        assert!(handover.profiles().is_empty());
        let writer = Writer::claim(Path::new(&handover.path())).unwrap();
        assert!(handover.profiles().is_empty() && writer.has_reader());
        for function in [1, 2] {
            writer.count(function, 10);
        }
        assert!(writer.put(&profile(10), 3));
        writer.count(1, 13);
        assert_eq!(calls(&handover.profiles()[0]), [13.0, 10.0]);
        // A copy that was begun and not published: its bytes are not read.
        let behind = writer.beside(1, 1000);
        // SAFETY: (1) behind the latest copy.
        unsafe {
            let at = writer.copies.at.load(Relaxed) + behind;
            std::ptr::write_bytes(at as *mut u8, 0xff, 1000);
        };
        assert_eq!(calls(&handover.profiles()[0]), [13.0, 10.0]);
        // Another process has a slot of its own.
        let other = Writer::claim(Path::new(&handover.path())).unwrap();
        assert!(other.put(&profile(4), 0));
        assert_eq!(
            handover.profiles().iter().map(calls).collect::<Vec<_>>(),
            [vec![13.0, 10.0], vec![4.0, 4.0]]
        );
    }

    #[test]
    fn counts_are_exact_only_if_the_process_had_its_profile_written() {
        let handover = Handover::new().unwrap();
        let writer = Writer::claim(Path::new(&handover.path())).unwrap();
        writer.count(1, 10);
        assert!(writer.put(&profile(10), 2));
        let read = |settled| {
            writer.settle(settled);
            let profile = handover.profiles().remove(0);
            let is_exact = profile.functions[0].calls.is_exact();
            (is_exact, profile.functions[0].calls.value, profile.header.notes.len())
        };
        assert_eq!((read(false), read(true)), ((false, 10.0, 1), (true, 10.0, 0)));
        assert_eq!(handover.profiles()[0].functions[0].calls.mark(), Mark::Exact);
        writer.settle(false);
        assert_eq!(handover.profiles()[0].functions[0].calls.mark(), Mark::AtLeast);
    }

    #[test]
    fn profiles_grow_and_all_functions_have_counts() {
        const MANY: u32 = 150_000;
        let handover = Handover::new().unwrap();
        let writer = Writer::claim(Path::new(&handover.path())).unwrap();
        for (functions, entries) in [(2, 1), (MANY, 2), (MANY, 3), (3, 4), (MANY, 5)] {
            writer.reserve(functions as usize + 1);
            (1..=functions).for_each(|function| writer.count(function as usize, entries));
            assert!(writer.put(&profile_of(functions, entries), functions as usize + 1));
            writer.count(functions as usize, entries + 7);
            let calls = calls(&handover.profiles()[0]);
            assert_eq!(calls.len(), functions as usize);
            let (last, others) = calls.split_last().unwrap();
            assert_eq!(*last, (entries + 7) as f64);
            assert!(others.iter().all(|calls| *calls == entries as f64));
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_not_believed() {
        let handover = Handover::new().unwrap();
        let writer = Writer::claim(Path::new(&handover.path())).unwrap();
        assert!(writer.put(&profile(1), 3));
        let copy = &writer.front().copies[1];
        for word in [&copy.len, &copy.start, &copy.functions] {
            let before = word.swap(u64::MAX, Relaxed);
            assert!(handover.profiles().len() <= 1);
            word.store(before, Relaxed);
        }
        assert_eq!(calls(&handover.profiles()[0]), [1.0, 1.0]);
    }

    #[test]
    fn a_profile_that_cannot_be_read_is_reported() {
        let handover = Handover::new().unwrap();
        let writers = [(); 2].map(|()| Writer::claim(Path::new(&handover.path())).unwrap());
        assert!(writers[0].put(&profile(1), 0) && handover.read_all().all(|read| read.is_ok()));
        assert!(writers[1].put(b"no profile", 0));
        assert!(handover.profiles().len() == 1 && handover.read_all().any(|read| read.is_err()));
    }

    #[test]
    fn readers_see_whole_copies_while_one_is_written_after_another() {
        let handover = Handover::new().unwrap();
        let writer = Writer::claim(Path::new(&handover.path())).unwrap();
        assert!(writer.put(&profile(1), 0));
        let copies: Vec<Vec<u8>> = (1..200).map(profile).collect();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                (0..20).for_each(|_| copies.iter().for_each(|copy| assert!(writer.put(copy, 0))));
            });
            let mut seen = 0;
            while !writing.is_finished() || seen == 0 {
                for profile in handover.profiles() {
                    let calls = calls(&profile);
                    assert!(calls.len() == 2 && calls[0] == calls[1], "{calls:?}");
                    seen += 1;
                }
            }
        });
        assert_eq!(calls(&handover.profiles()[0]), [199.0, 199.0]);
    }

    #[test]
    fn a_file_that_is_something_else_is_left_alone_and_slots_run_out() {
        assert!(
            Writer::claim(Path::new("/dev/null")).is_none()
                && Writer::claim(Path::new("/proc/1/fd/999")).is_none()
        );
        let other = pages::shared_file(c"other", offset_of(SLOTS)).unwrap();
        let path = format!("/proc/self/fd/{}", other.as_raw_fd());
        assert!(Writer::claim(Path::new(&path)).is_none());
        let handover = Handover::new().unwrap();
        handover.front().claimed.store(SLOTS - 1, Relaxed);
        assert!(Writer::claim(Path::new(&handover.path())).is_some());
        assert!(Writer::claim(Path::new(&handover.path())).is_none());
        assert_eq!(handover.turned_away(), 1);
    }
}
