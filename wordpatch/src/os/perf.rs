//! Sampling clocks of the kernel: the software event `task-clock` of perf_event_open(2), which
//! samples a thread each time that it has used a period of CPU time, and writes the sample into a
//! ring that is mapped here. It uses no signal and no timer, so waiting threads are not disturbed.
//!
//! There is one event and one ring per CPU: an inherited event cannot be mapped otherwise, and the
//! kernel refuses a ring for each thread beyond some hundred threads. `inherit_thread` (Linux 5.13)
//! passes the event to later threads, and not to child processes.
//!
//! ```text
//!   ring:  ┌──────────────┬──────────────────────────────────────────────┐
//!          │ control page │ data: records of 8-byte words, a power of two │
//!          └──────────────┴──────────────────────────────────────────────┘
//!           data_head: counted up by the kernel, read with acquire before records
//!           data_tail: counted up by us, stored with release behind them; what lies between is ours
//! ```
//!
//! The mapping alone keeps an event alive, so its descriptor is closed at once: the program sees no
//! descriptor of the library, may close all descriptors, and passes none of the library to its
//! children. A forked child does not have the mapping (the kernel marks it `VM_DONTCOPY`).
//!
//! # Safety
//!
//! This module exists because events are opened and mapped by system calls, and rings are read
//! while the kernel writes them. No unsafe interface leaves the module: a [`Ring`] hands out
//! copies.

use super::threads::Tid;
use super::{OsError, check};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// The parameters of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// CPU time between two samples of a thread.
    pub period: Duration,
    /// Time in the kernel is sampled, too: the kernel allows that with perf_event_paranoid up to 1,
    /// or to root.
    pub kernel: bool,
    /// Bytes of the user's stack in each sample, a multiple of 8; 0 for none.
    pub stack: u32,
    /// Threads that the sampled one starts are sampled, too.
    pub inherit: bool,
    /// Nothing is sampled until the thread that has opened the event calls [`resume`].
    pub is_paused: bool,
}

/// An open event. Other events can be directed into its ring while this lives.
#[derive(Debug)]
pub struct Opened(OwnedFd);

/// A ring of samples.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    /// The size of the data, a power of two.
    size: usize,
    sampling: Sampling,
    /// A copy of a record that wraps around the ring's end.
    whole: Vec<u8>,
    /// The largest fill level found, in bytes.
    fullest: usize,
}

// SAFETY: (1) the mapping belongs to the process, and only the owner of the `Ring` reads it and
// moves its tail.
unsafe impl Send for Ring {}

/// A sample of a thread, at the end of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'r> {
    /// The thread.
    pub thread: Tid,
    /// When it was taken: nanoseconds, as [`monotonic`](super::clocks::monotonic) counts them.
    pub time: u64,
    /// The address that was being executed, perhaps in the kernel.
    pub address: u64,
    /// The user's registers; `None` if the thread has no user context.
    pub user: Option<Registers>,
    /// The user's stack from its stack pointer on, as far as the kernel copied it.
    pub stack: &'r [u8],
}

/// The registers that stacks are unwound with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, if the code keeps one.
    pub bp: u64,
}

/// A record of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'r> {
    /// A sample.
    Sample(Seen<'r>),
    /// This many samples were lost because the ring was full.
    Lost(u64),
}

/// Advice to the user on how to permit events.
pub fn remedy(error: &OsError) -> &'static str {
    match error.errno {
        libc::EACCES => "sysctl kernel.perf_event_paranoid=2 allows it",
        libc::EPERM | libc::ENOSYS if error.call == OPEN => {
            "a filter of system calls forbids it; docker run --security-opt seccomp=unconfined, or a profile with perf_event_open, allows it"
        }
        libc::EPERM => "raise RLIMIT_MEMLOCK (ulimit -l) or sysctl kernel.perf_event_mlock_kb",
        libc::EINVAL => "it needs Linux 5.13",
        libc::EMFILE | libc::ENFILE => "raise the limit of open files (ulimit -n)",
        _ => "there is nothing known that helps",
    }
}

/// The system call that opens events.
const OPEN: &str = "perf_event_open";

/// The kernel's header in front of a ring (struct perf_event_mmap_page, linux/perf_event.h): the
/// fields in use have these offsets.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const PAGE: usize = super::pages::PAGE;

/// `struct perf_event_attr` (linux/perf_event.h), the fields in use; the rest is zero.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const TYPE_SOFTWARE: u32 = 1;
const COUNT_SW_TASK_CLOCK: u64 = 1;
const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_INHERIT_THREAD: u64 = 1 << 35;
const FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// bp, sp and ip, in this order in a record (asm/perf_regs.h).
const REGS_BP_SP_IP: u64 = 1 << 6 | 1 << 7 | 1 << 8;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

impl Sampling {
    fn attributes(&self) -> Attributes {
        let mut flags = FLAG_EXCLUDE_HV | FLAG_USE_CLOCKID;
        flags |= if self.kernel { 0 } else { FLAG_EXCLUDE_KERNEL };
        flags |= if self.is_paused { FLAG_DISABLED } else { 0 };
        flags |= if self.inherit { FLAG_INHERIT | FLAG_INHERIT_THREAD } else { 0 };
        let (registers, stack) = (self.has_registers(), self.stack > 0);
        let asked = |yes: bool, what: u64| if yes { what } else { 0 };
        Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: COUNT_SW_TASK_CLOCK,
            sample_period: self.period.as_nanos() as u64,
            sample_type: SAMPLE_IP
                | SAMPLE_TID
                | SAMPLE_TIME
                | asked(registers, SAMPLE_REGS_USER)
                | asked(stack, SAMPLE_STACK_USER),
            flags,
            sample_regs_user: asked(registers, REGS_BP_SP_IP),
            sample_stack_user: self.stack,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        }
    }

    fn has_registers(&self) -> bool {
        self.kernel || self.stack > 0
    }
}

/// Samples by all events that the calling thread has opened and that have a ring, and by those that
/// threads have inherited from them (PR_TASK_PERF_EVENTS_ENABLE(2const)).
pub fn resume() {
    switch(libc::PR_TASK_PERF_EVENTS_ENABLE);
}

/// Stops sampling by these events.
pub fn pause() {
    switch(libc::PR_TASK_PERF_EVENTS_DISABLE);
}

fn switch(option: libc::c_int) {
    // SAFETY: (1) no memory is passed; only events of the calling thread change.
    unsafe { libc::syscall(libc::SYS_prctl, option, 0, 0, 0, 0) };
}

/// Opens the event for a thread on a processor.
fn open(sampling: &Sampling, thread: Tid, processor: u32) -> Result<OwnedFd, OsError> {
    let attributes = sampling.attributes();
    // SAFETY: (1) the attributes live across the call and contain their own size.
    let fd = unsafe {
        let no_group: libc::c_int = -1;
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread.0,
            processor as libc::c_int,
            no_group,
            FD_CLOEXEC,
        )
    };
    check(OPEN, fd)?;
    // SAFETY: (1) `fd` was opened by the call above and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

impl Ring {
    /// Opens the event for a thread on a processor, with a ring of `size` bytes; if the kernel
    /// refuses to map that much, of half, a quarter and so on, down to `least`.
    pub fn open(
        sampling: Sampling,
        thread: Tid,
        processor: u32,
        size: usize,
        least: usize,
    ) -> Result<(Self, Opened), OsError> {
        let event = open(&sampling, thread, processor)?;
        let mut size = size.next_power_of_two();
        loop {
            match map(&event, size) {
                Ok(base) => {
                    return Ok((
                        Self { base, size, sampling, whole: Vec::new(), fullest: 0 },
                        Opened(event),
                    ));
                }
                Err(error) if size / 2 < least.max(PAGE) => return Err(error),
                Err(_) => size /= 2,
            }
        }
    }

    /// The parameters of the sampling.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Its size, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether it was ever nearly full, so that samples may be missing.
    pub fn was_full(&self) -> bool {
        self.fullest + self.fullest / 4 > self.size
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: (1) the control page is mapped while `self` lives; (2) both fields are 8 aligned
        // bytes that only change atomically.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Hands out new records, oldest first, and returns their space to the kernel.
    pub fn drain(&mut self, mut visit: impl FnMut(Found<'_>)) {
        // Acquire pairs with the kernel's barrier before its store of the head: everything below
        // the head is written.
        let head = self.counter(DATA_HEAD).load(Acquire);
        let mut tail = self.counter(DATA_TAIL).load(Acquire);
        self.fullest = self.fullest.max(head.wrapping_sub(tail) as usize);
        let mut whole = std::mem::take(&mut self.whole);
        while tail < head {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let [kind @ .., _, _, low, high] = header;
            let (kind, len) =
                (u32::from_le_bytes(kind), usize::from(u16::from_le_bytes([low, high])));
            if len < header.len() || len as u64 > head - tail {
                // The kernel does not write such a record, so the ring's contents cannot be
                // trusted.
                tail = head;
                break;
            }
            whole.resize(len, 0);
            self.copy(tail, &mut whole);
            if let Some(found) = parse(&self.sampling, kind, &whole[header.len()..]) {
                visit(found);
            }
            tail += len as u64;
        }
        self.whole = whole;
        // Release: the kernel writes there only after this thread has read.
        self.counter(DATA_TAIL).store(tail, Release);
    }

    /// Copies the bytes at a position. Positions count up beyond the ring's size and wrap around.
    fn copy(&self, position: u64, to: &mut [u8]) {
        let at = position as usize & (self.size - 1);
        let first = to.len().min(self.size - at);
        // SAFETY: (1) the data is mapped for `size` bytes after the control page; (2) the kernel
        // writes between head and tail only after the tail has moved past, which it has not.
        unsafe {
            let data = self.base.as_ptr().add(PAGE);
            std::ptr::copy_nonoverlapping(data.add(at), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, to.as_mut_ptr().add(first), to.len() - first);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: (1) mapped by `open`; (2) no other code has the address.
        unsafe { libc::munmap(self.base.as_ptr().cast(), PAGE + self.size) };
    }
}

fn map(event: &OwnedFd, size: usize) -> Result<NonNull<u8>, OsError> {
    let (protection, len) = (libc::PROT_READ | libc::PROT_WRITE, PAGE + size);
    // SAFETY: (1) a new mapping of an open event.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
    };
    let failed = OsError { call: "mmap of perf_event_open", ..OsError::last("mmap") };
    if at == libc::MAP_FAILED { Err(failed) } else { NonNull::new(at.cast()).ok_or(failed) }
}

impl Opened {
    /// Samples another thread into the same ring. The new event's descriptor stays open, at a high
    /// number, as long as the process lives.
    pub fn join(&self, sampling: &Sampling, thread: Tid, processor: u32) -> Result<(), OsError> {
        const SET_OUTPUT: libc::c_ulong = 0x2405;
        let event = open(sampling, thread, processor)?;
        // SAFETY: (1) two open events; no memory is passed.
        let led = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT as _, self.0.as_raw_fd()) };
        check("ioctl(PERF_EVENT_IOC_SET_OUTPUT)", led.into())?;
        let lowest = super::descriptors::highest()
            .ok_or(OsError { call: "getrlimit", errno: libc::EMFILE })?;
        // SAFETY: (1) an open descriptor; no memory is passed.
        let high = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
        check("fcntl(F_DUPFD_CLOEXEC)", high.into()).map(drop)
    }
}

/// Parses a record's contents. For the order of the fields see perf_event_open(2), "MMAP layout".
fn parse<'r>(sampling: &Sampling, kind: u32, contents: &'r [u8]) -> Option<Found<'r>> {
    let mut words = Words(contents);
    match kind {
        RECORD_LOST => {
            let _event = words.next()?;
            Some(Found::Lost(words.next()?))
        }
        RECORD_SAMPLE => {
            let address = words.next()?;
            let thread = Tid((words.next()? >> 32) as i32);
            let time = words.next()?;
            let mut seen = Seen { thread, time, address, user: None, stack: &[] };
            if !sampling.has_registers() {
                seen.user = Some(Registers { ip: address, sp: 0, bp: 0 });
            } else if words.next()? != 0 {
                let [bp, sp, ip] = [words.next()?, words.next()?, words.next()?];
                seen.user = Some(Registers { ip, sp, bp });
            }
            if sampling.stack > 0 {
                seen.stack = words.stack()?;
            }
            Some(Found::Sample(seen))
        }
        _ => None,
    }
}

/// The words of a record that are not parsed yet.
struct Words<'r>(&'r [u8]);

impl<'r> Words<'r> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// A size, that many bytes, and the number of them that were filled. If the size is 0, nothing
    /// follows it.
    fn stack(&mut self) -> Option<&'r [u8]> {
        let size = self.next()? as usize;
        if size == 0 {
            return Some(&[]);
        }
        let (stack, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let filled = self.next()? as usize;
        stack.get(..filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::threads::current;
    use std::hint::black_box;

    const PLAIN: Sampling = Sampling {
        period: Duration::from_micros(997),
        kernel: false,
        stack: 0,
        inherit: true,
        is_paused: false,
    };

    fn record(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_sample_has_what_was_asked_for() {
        let plain = record(&[0x1234, 7 << 32 | 5, 99]);
        let seen = Seen {
            thread: Tid(7),
            time: 99,
            address: 0x1234,
            user: Some(Registers { ip: 0x1234, sp: 0, bp: 0 }),
            stack: &[],
        };
        assert_eq!(parse(&PLAIN, RECORD_SAMPLE, &plain), Some(Found::Sample(seen)));
        let stacks = Sampling { stack: 16, ..PLAIN };
        let full = record(&[0xffff_8000_0000_0000, 7 << 32, 99, 2, 30, 20, 10, 16, 1, 2, 8]);
        let Some(Found::Sample(seen)) = parse(&stacks, RECORD_SAMPLE, &full) else {
            panic!("a sample")
        };
        assert_eq!(seen.user, Some(Registers { ip: 10, sp: 20, bp: 30 }));
        assert_eq!(seen.stack, &1u64.to_le_bytes());
        let bare = record(&[0x1234, 7 << 32, 99, 0, 0]);
        let Some(Found::Sample(seen)) = parse(&stacks, RECORD_SAMPLE, &bare) else {
            panic!("a sample")
        };
        assert_eq!((seen.user, seen.stack), (None, &[][..]));
    }

    #[test]
    fn a_record_that_is_cut_short_is_no_sample() {
        let stacks = Sampling { stack: 16, ..PLAIN };
        let full = record(&[1, 7 << 32, 99, 2, 30, 20, 10, 16, 1, 2, 8]);
        for len in 0..full.len() {
            assert_eq!(parse(&stacks, RECORD_SAMPLE, &full[..len]), None, "{len}");
        }
        assert_eq!(parse(&PLAIN, RECORD_LOST, &record(&[1, 3])), Some(Found::Lost(3)));
        assert_eq!(parse(&PLAIN, 77, &record(&[1, 3])), None);
    }

    #[test]
    fn every_refusal_names_a_remedy() {
        let says = |call, errno| remedy(&OsError { call, errno });
        assert!(says(OPEN, libc::EACCES).contains("perf_event_paranoid=2"));
        assert!(says(OPEN, libc::EPERM).contains("seccomp"));
        assert!(says("mmap of perf_event_open", libc::EPERM).contains("RLIMIT_MEMLOCK"));
        assert!(says(OPEN, libc::EINVAL).contains("Linux 5.13"));
    }

    fn work() {
        let (mut sum, end) = (0u64, crate::os::clocks::of_caller() + Duration::from_millis(20));
        while crate::os::clocks::of_caller() < end {
            (0..100_000u64).for_each(|turn| sum = black_box(sum.wrapping_add(turn)));
        }
    }

    #[test]
    fn a_paused_clock_samples_between_resume_and_pause_also_a_thread_that_began_before() {
        let sampling = Sampling { is_paused: true, ..PLAIN };
        let processors = std::thread::available_parallelism().unwrap().get() as u32;
        let open = |processor| Ring::open(sampling, Tid(0), processor, 1 << 16, PAGE);
        let rings: Result<Vec<_>, _> = (0..processors).map(open).collect();
        let Ok(rings) = rings else {
            println!("SKIPPED: {}", rings.unwrap_err());
            return;
        };
        let mut rings: Vec<Ring> = rings.into_iter().map(|(ring, _)| ring).collect();
        let mut samples = || -> usize {
            let mut count = 0;
            let mut add =
                |found: Found<'_>| count += usize::from(matches!(found, Found::Sample(_)));
            rings.iter_mut().for_each(|ring| ring.drain(&mut add));
            count
        };
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (done, is_done) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            while gone.recv().is_ok() {
                work();
                done.send(()).unwrap();
            }
        });
        let mut round = || {
            go.send(()).unwrap();
            is_done.recv().unwrap();
            samples()
        };
        assert_eq!(round(), 0);
        resume();
        assert!(round() > 3);
        pause();
        round();
        assert_eq!(round(), 0);
        drop(go);
        other.join().unwrap();
    }

    /// In a container the kernel may refuse; then the test checks the error.
    #[test]
    fn a_thread_that_works_is_seen_and_so_are_those_it_starts() {
        let processors = std::thread::available_parallelism().unwrap().get() as u32;
        let open = |processor| Ring::open(PLAIN, Tid(0), processor, 1 << 16, PAGE);
        let rings: Result<Vec<_>, _> = (0..processors).map(open).collect();
        let Ok(rings) = rings else {
            println!("SKIPPED: {}", rings.unwrap_err());
            return;
        };
        let mut rings: Vec<Ring> = rings.into_iter().map(|(ring, _)| ring).collect();
        let work = || {
            let mut sum = 0u64;
            while crate::os::clocks::of_caller() < Duration::from_millis(100) {
                (0..100_000u64).for_each(|turn| sum = black_box(sum.wrapping_add(turn)));
            }
            current()
        };
        let other = std::thread::spawn(work).join().unwrap();
        let here = work();
        let mut seen = Vec::new();
        for ring in &mut rings {
            ring.drain(|found| {
                if let Found::Sample(sample) = found {
                    seen.push(sample.thread);
                }
            });
            assert!(!ring.was_full());
        }
        let count = |thread| seen.iter().filter(|&&seen| seen == thread).count();
        assert!(
            count(here) > 10 && count(other) > 10,
            "{} and {} of {}",
            count(here),
            count(other),
            seen.len()
        );
    }
}
