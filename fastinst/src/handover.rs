//! Handing over: how a profile survives the end of its process, whatever that is.
//!
//! `fastinst run` makes a mapping, an anonymous file that is shared with the program. The agent
//! puts the profile there while the program runs, and `run` reads it when the program has ended: no
//! signal is caught for it, and a process that was killed has left as much as any other.
//!
//! ```text
//!   front │ slot of the first process │ slot of the second │ …
//!            ├ counts     entries of each function, at most a tenth of a second old
//!            ├ counted    the same when each copy was made
//!            └ copies     two profiles; the one that is not `latest` is being written, or is older
//! ```
//!
//! A whole profile takes time to make: some microseconds for each function that was called. So it
//! is made as often as a thousandth of a processor allows, ten times a second for a program of some
//! dozens of functions. Counts are stored ten times a second in any case, which takes nanoseconds
//! for each function; the reader adds what was counted since the latest copy.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `claimed` | slots that are taken | any process, one up |
//! | `latest` | number of the latest whole copy, which lies at its lowest bit; 0 if there is none | the agent that has the slot |
//! | `lengths`, `functions` | bytes of each copy; functions that were counted when it was made | the same, before `latest` |
//!
//! Each process and each image that it becomes by exec takes a slot of its own. Where there is none
//! left, or no mapping, the library writes files.
//!
//! # Safety
//!
//! This module exists to share memory between processes.
#![allow(unsafe_code)]

use profiler::{Figure, Profile};
use std::cell::UnsafeCell;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, fence};
use wordpatch::CodeAddr;
use wordpatch::os::OsError;
use wordpatch::os::files;
use wordpatch::os::pages::{self, PAGE, Place, Protection};

/// Functions whose counts have a place. Those behind them are in the copies only.
const FUNCTIONS: usize = 1 << 14;
/// No copy is larger.
const COPY: usize = 2 << 20;
/// Slots. What is not used takes no memory.
const SLOTS: u32 = 1024;
/// What a front begins with: a file that is something else is left alone.
const MAGIC: u64 = u64::from_le_bytes(*b"fasthnd1");

/// The first page.
#[repr(C)]
struct Front {
    magic: AtomicU64,
    /// The process that reads.
    reader: AtomicI32,
    claimed: AtomicU32,
}

/// What one process has.
#[repr(C, align(4096))]
struct Slot {
    process: AtomicI32,
    latest: AtomicU64,
    lengths: [AtomicU64; 2],
    functions: [AtomicU32; 2],
    counts: [AtomicU64; FUNCTIONS],
    counted: [[AtomicU64; FUNCTIONS]; 2],
    copies: [UnsafeCell<[u8; COPY]>; 2],
}

const SLOT: usize = size_of::<Slot>();

/// A part of the shared file, as long as it is mapped.
struct Mapped<T> {
    at: CodeAddr,
    kind: std::marker::PhantomData<T>,
}

// SAFETY: (1) both kinds of content are atomics, and copies that one process writes at a time and
// readers check.
unsafe impl<T> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    fn of(file: &impl AsRawFd, offset: usize) -> Result<Self, OsError> {
        // SAFETY: (1) a new mapping.
        let at = unsafe {
            pages::map_file_at(
                Place::Anywhere,
                size_of::<T>(),
                Protection::ReadWrite,
                file,
                offset,
            )?
        };
        Ok(Self { at, kind: std::marker::PhantomData })
    }

    fn get(&self) -> &T {
        // SAFETY: (1) mapped by `of`, page by page aligned, until `self` goes; (2) zeroes and
        // anything else are values of atomics and bytes; (3) the file is sealed: it cannot become
        // shorter.
        unsafe { &*(self.at.get() as *const T) }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: (1) mapped by `of`; references end with `self`. Nothing better can be done about
        // a failure.
        let _ = unsafe { pages::unmap(self.at, size_of::<T>()) };
    }
}

fn offset_of(slot: u32) -> usize {
    PAGE + slot as usize * SLOT
}

/// The reader's side: what `fastinst run` has.
pub struct Handover {
    file: OwnedFd,
    front: Mapped<Front>,
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handover")
            .field("claimed", &self.front.get().claimed)
            .finish_non_exhaustive()
    }
}

impl Handover {
    /// Makes the mapping.
    pub fn new() -> Result<Self, OsError> {
        let file = pages::shared_file(c"fastinst-handover", offset_of(SLOTS))?;
        let front = Mapped::<Front>::of(&file, 0)?;
        front.get().reader.store(wordpatch::os::threads::process(), Relaxed);
        front.get().magic.store(MAGIC, Release);
        Ok(Self { file, front })
    }

    /// By what path other processes find it, as long as this one lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", wordpatch::os::threads::process(), self.file.as_raw_fd())
    }

    /// What every process has left so far, in the order in which they began.
    pub fn profiles(&self) -> Vec<Profile> {
        let claimed = self.front.get().claimed.load(Acquire).min(SLOTS);
        let slot = |number| Mapped::<Slot>::of(&self.file, offset_of(number)).ok();
        (0..claimed).filter_map(|number| slot(number)?.get().read()).collect()
    }

    /// Processes that found no slot.
    pub fn turned_away(&self) -> u32 {
        self.front.get().claimed.load(Acquire).saturating_sub(SLOTS)
    }
}

impl Slot {
    /// The latest profile with what was counted since.
    fn read(&self) -> Option<Profile> {
        // Again, if the writer has come round meanwhile.
        (0..100).find_map(|_| {
            let latest = self.latest.load(Acquire);
            if latest == 0 {
                return Some(None);
            }
            let at = (latest & 1) as usize;
            let len = (self.lengths[at].load(Relaxed) as usize).min(COPY);
            let mut bytes = vec![0; len];
            // SAFETY: (1) `len` bytes of a copy; (2) a write meanwhile is noticed below, before
            // they are used.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.copies[at].get().cast::<u8>(),
                    bytes.as_mut_ptr(),
                    len,
                );
            };
            let functions = (self.functions[at].load(Relaxed) as usize).min(FUNCTIONS);
            let counted: Vec<u64> =
                self.counted[at][..functions].iter().map(|count| count.load(Relaxed)).collect();
            fence(Acquire);
            (self.latest.load(Relaxed) == latest).then(|| {
                let mut profile = Profile::from_file(&bytes).ok()?;
                self.add_counts(&mut profile, &counted);
                Some(profile)
            })
        })?
    }

    fn add_counts(&self, profile: &mut Profile, counted: &[u64]) {
        for function in &mut profile.functions {
            let number = function.id.0 as usize;
            let (Some(now), Some(then)) = (self.counts.get(number), counted.get(number)) else {
                continue;
            };
            let more = now.load(Relaxed).saturating_sub(*then);
            if more > 0 {
                function.calls = function.calls.plus(&Figure::exact(more as f64));
            }
        }
    }
}

/// The writer's side: the slot of this process.
pub(crate) struct Writer {
    slot: Mapped<Slot>,
    reader: i32,
}

impl Writer {
    /// Takes a slot of the mapping at a path; `None` if there is none left, or no mapping. Opens
    /// and closes a descriptor, allocates a path.
    pub(crate) fn claim(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let file = files::open_for_writing(&path).ok()?;
        if files::size(&file).ok()? != offset_of(SLOTS) as u64 {
            return None;
        }
        let front = Mapped::<Front>::of(&file, 0).ok()?;
        if front.get().magic.load(Acquire) != MAGIC {
            return None;
        }
        let number = front.get().claimed.fetch_add(1, AcqRel);
        if number >= SLOTS {
            return None;
        }
        let slot = Mapped::<Slot>::of(&file, offset_of(number)).ok()?;
        slot.get().process.store(wordpatch::os::threads::process(), Relaxed);
        Some(Self { slot, reader: front.get().reader.load(Relaxed) })
    }

    /// How often a function was entered.
    pub(crate) fn count(&self, function: usize, entries: u64) {
        if let Some(count) = self.slot.get().counts.get(function)
            && count.load(Relaxed) != entries
        {
            count.store(entries, Relaxed);
        }
    }

    /// A new copy, with the counts of so many functions that it was made of. Returns whether it has
    /// found room.
    pub(crate) fn put(&self, bytes: &[u8], functions: usize) -> bool {
        if bytes.len() > COPY {
            return false;
        }
        let slot = self.slot.get();
        let next = slot.latest.load(Relaxed) + 1;
        let at = (next & 1) as usize;
        // What is stored below must not be seen before the copy before it was published.
        fence(AcqRel);
        // SAFETY: (1) room for that many; (2) no other thread writes there: the slot is one
        // agent's; (3) readers take the other copy.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                slot.copies[at].get().cast::<u8>(),
                bytes.len(),
            );
        };
        slot.lengths[at].store(bytes.len() as u64, Relaxed);
        let functions = functions.min(FUNCTIONS);
        slot.functions[at].store(functions as u32, Relaxed);
        for (count, counted) in slot.counts.iter().zip(&slot.counted[at]).take(functions) {
            let count = count.load(Relaxed);
            if counted.load(Relaxed) != count {
                counted.store(count, Relaxed);
            }
        }
        slot.latest.store(next, Release);
        true
    }

    /// Whether the process that reads it lives.
    pub(crate) fn has_reader(&self) -> bool {
        // SAFETY: (1) sends nothing.
        unsafe { libc::kill(self.reader, 0) == 0 || wordpatch::os::errno() != libc::ESRCH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler::{Clock, Conductor, Costs, FuncId, Policy, Ticks};

    /// A profile of two functions that were entered equally often.
    fn profile(entries: u64) -> Vec<u8> {
        let costs = Costs { pair: 18.0, bias: 9.0, count: 1.0, toggle: 180.0, skip: 2.0 };
        let mut conductor =
            Conductor::new(Policy::Count, Clock { hz: 1e9, step: 1 }, costs, 1, Ticks(0));
        for id in [1, 2] {
            conductor.discovered(FuncId(id), 2);
            conductor.entered(FuncId(id), entries);
        }
        let mut bytes = Vec::new();
        conductor.profile(Ticks(entries)).to_file(&mut bytes).unwrap();
        bytes
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
        // One that was begun and not published: its bytes are not looked at.
        let slot = writer.slot.get();
        // SAFETY: (1) the copy that is not the latest.
        unsafe { slot.copies[0].get().cast::<u8>().write_bytes(0xff, 1000) };
        assert_eq!(calls(&handover.profiles()[0]), [13.0, 10.0]);
        assert!(!writer.put(&vec![0; COPY + 1], 3), "too large");
        // Another process has a slot of its own.
        let other = Writer::claim(Path::new(&handover.path())).unwrap();
        assert!(other.put(&profile(4), 0));
        assert_eq!(
            handover.profiles().iter().map(calls).collect::<Vec<_>>(),
            [vec![13.0, 10.0], vec![4.0, 4.0]]
        );
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
        handover.front.get().claimed.store(SLOTS - 1, Relaxed);
        assert!(Writer::claim(Path::new(&handover.path())).is_some());
        assert!(Writer::claim(Path::new(&handover.path())).is_none());
        assert_eq!(handover.turned_away(), 1);
    }
}
