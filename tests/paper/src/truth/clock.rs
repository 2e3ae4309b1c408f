//! Samples a program without probes by the kernel's clock. The sampler is separate from the
//! profiler's, so that the true values do not depend on the code under test.
//!
//! A shell waits until the events are open, and then becomes the program, so that the events begin
//! with it. There is one event and one ring per processor, inherited by threads and children. Each
//! sample has the registers of user mode and a part of the stack; a sample in the kernel belongs to
//! the address from which the kernel was entered.
//!
//! # Safety
//!
//! This module exists for `perf_event_open` and the rings that it shares with the kernel.
#![allow(unsafe_code)]

use super::conditions::{Condition, Pressure};
use super::launch::{Group, NoProfile};
use std::fs::{self, File};
use std::io::{Error, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A sample of a thread.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Whether the thread was in the kernel.
    pub(super) kernel: bool,
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
    /// The bytes at `sp`.
    pub(super) stack: Vec<u8>,
}

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) path: String,
    /// The address of the file's beginning, and the end of the mapping.
    pub(super) base: u64,
    pub(super) end: u64,
}

/// The clock's observations of a run.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) samples: Vec<Sample>,
    pub(super) mappings: Vec<Mapping>,
    /// Whether time in the kernel was sampled.
    pub(super) kernel: bool,
    pub(super) lost: u64,
}

/// `struct perf_event_attr`, version 5 (linux/perf_event.h).
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branch: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    registers_at_interrupt: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;
const SAMPLE: u64 = (1 << 1) | (1 << 12) | (1 << 13);
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const ENABLE_ON_EXEC: u64 = 1 << 12;
/// bp, sp, ip.
const REGISTERS: u64 = 0b1_1100_0000;
const STACK: u32 = 4096;
const PERIOD: u64 = 1_000_000;
const PAGE: usize = 4096;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const IN_KERNEL: u16 = 1;

fn open(pid: u32, processor: i32, exclude: u64) -> Result<File> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: TASK_CLOCK,
        period: PERIOD,
        sample: SAMPLE,
        flags: DISABLED | INHERIT | ENABLE_ON_EXEC | exclude,
        registers: REGISTERS,
        stack: STACK,
        ..Attributes::default()
    };
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: (1) the attributes have the kernel's layout and the size that they state, and live
    // through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            processor,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: (1) the call has just opened it, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// A ring that the kernel fills.
#[derive(Debug)]
struct Ring {
    at: *mut u8,
    data: usize,
    _event: File,
}

impl Ring {
    fn of(event: File) -> Result<Self> {
        let mut refused = Error::other("no ring");
        for pages in [1024, 128, 32] {
            let length = (1 + pages) * PAGE;
            // SAFETY: (1) a new mapping at an address that the kernel chooses.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    event.as_raw_fd(),
                    0,
                )
            };
            if at != libc::MAP_FAILED {
                return Ok(Self { at: at.cast(), data: pages * PAGE, _event: event });
            }
            refused = Error::last_os_error();
        }
        Err(refused)
    }

    /// The words with the kernel's and the reader's positions (`data_head`, `data_tail`).
    fn positions(&self) -> [&AtomicU64; 2] {
        // SAFETY: (1) the first page of the mapping is the kernel's header, in which both are
        // aligned words; (2) it lives as long as `self`; (3) the kernel accesses them as atomics.
        unsafe { [&*self.at.add(1024).cast(), &*self.at.add(1032).cast()] }
    }

    /// Takes out all records: each record's kind, flags and contents.
    fn drain(&self, mut each: impl FnMut(u32, u16, &[u8])) {
        let [head, tail] = self.positions();
        // Pairs with the kernel's release of what it has written.
        let (end, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        while at < end {
            let header = self.bytes(at, 8);
            let length = usize::from(u16::from_le_bytes([header[6], header[7]]));
            if length < 8 {
                break;
            }
            let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            let record = self.bytes(at + 8, length - 8);
            each(kind, u16::from_le_bytes([header[4], header[5]]), &record);
            at += length as u64;
        }
        // Pairs with the kernel's acquire before it writes there again.
        tail.store(end, Ordering::Release);
    }

    /// A copy of some bytes, across the ring's end.
    fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        let from = (at as usize) & (self.data - 1);
        let first = length.min(self.data - from);
        let mut bytes = vec![0; length];
        // SAFETY: (1) both parts lie in the mapping: `from < data`, `first <= data - from`, `length
        // <= data` (a record is at most 64 kB, and no ring is smaller); (2) the kernel writes only
        // outside of tail..head, from which the caller takes them.
        unsafe {
            let data = self.at.add(PAGE);
            std::ptr::copy_nonoverlapping(data.add(from), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), length - first);
        }
        bytes
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: (1) mapped by `of` with this length.
        unsafe { libc::munmap(self.at.cast(), PAGE + self.data) };
    }
}

/// The rings of all processors; and whether they sample the kernel.
fn rings(pid: u32) -> Result<(Vec<Ring>, bool)> {
    let processors = std::thread::available_parallelism()?.get() as i32;
    let all = |exclude| {
        (0..processors)
            .map(|processor| Ring::of(open(pid, processor, exclude)?))
            .collect::<Result<Vec<_>>>()
    };
    all(0).map(|rings| (rings, true)).or_else(|_| Ok((all(EXCLUDE_KERNEL)?, false)))
}

/// The reason why the kernel does not permit sampling; `None` if it does.
pub(super) fn refused() -> Option<String> {
    rings(std::process::id()).err().map(|error| error.to_string())
}

/// Runs a program to its end in a condition, and samples it. `usual` is the longest time that it
/// may take alone.
pub(super) fn watch(
    condition: Condition,
    program: &Command,
    usual: Duration,
) -> std::result::Result<Watched, NoProfile> {
    let mut pressure = Pressure::begin(condition)?;
    let wrapped = pressure.wrap(program.get_program().as_ref());
    let mut command = Command::new("sh");
    command
        .args(["-c", "read go; exec \"$@\"", "sh"])
        .arg(wrapped.get_program())
        .args(wrapped.get_args())
        .args(program.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let (pid, mut go) = (child.id(), child.stdin.take().expect("a pipe"));
    let mut group = Group::of(child);
    let (rings, kernel) = rings(pid)?;
    pressure.started(pid)?;
    go.write_all(b"go\n")?;
    drop(go);
    let mut watched = Watched { kernel, ..Watched::default() };
    let patience = usual * condition.patience();
    let (begin, mut round) = (Instant::now(), 0_u32);
    loop {
        let ended = group.ended()?;
        for ring in &rings {
            ring.drain(|kind, flags, record| watched.take(kind, flags, record));
        }
        // On a busy machine the shell may have to wait for a processor before it becomes the
        // program.
        if round < 20 || round.is_multiple_of(50) || !watched.has_mapped(program) {
            watched.look_at_mappings(pid, program);
        }
        match ended {
            Some(true) => return Ok(watched),
            Some(false) => return Err(NoProfile::Failed("under the kernel's clock".into())),
            None if begin.elapsed() > patience => return Err(NoProfile::Late(patience)),
            None => std::thread::sleep(Duration::from_millis(4)),
        }
        round += 1;
    }
}

impl Watched {
    fn take(&mut self, kind: u32, flags: u16, record: &[u8]) {
        match kind {
            RECORD_LOST => self.lost += word(record, 8).unwrap_or(0),
            RECORD_SAMPLE => self.samples.extend(sample(flags, record)),
            _ => {}
        }
    }

    /// Reads the program's mappings, and keeps them if there are more than before: the shell has
    /// others, and a process that ends has none.
    fn look_at_mappings(&mut self, pid: u32, program: &Command) {
        let now = mappings(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default());
        if now.len() >= self.mappings.len() && is_mapped(program, &now) {
            self.mappings = now;
        }
    }

    fn has_mapped(&self, program: &Command) -> bool {
        is_mapped(program, &self.mappings)
    }
}

fn is_mapped(program: &Command, mappings: &[Mapping]) -> bool {
    mappings.iter().any(|mapping| program.get_program() == &*mapping.path)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Parses pid and tid, the registers' ABI, the registers, the stack's size, the stack, and the
/// number of valid bytes.
fn sample(flags: u16, record: &[u8]) -> Option<Sample> {
    if word(record, 8)? == 0 {
        return None;
    }
    let [bp, sp, ip] = [word(record, 16)?, word(record, 24)?, word(record, 32)?];
    let size = word(record, 40)? as usize;
    let used = if size > 0 { word(record, 48 + size)? as usize } else { 0 };
    let stack = record.get(48..48 + used.min(size))?.to_vec();
    Some(Sample { kernel: flags & 7 == IN_KERNEL, ip, sp, bp, stack })
}

/// The files in a list of mappings, each once.
fn mappings(list: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    for line in list.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(path)) = (fields.next(), fields.nth(4)) else { continue };
        let Some((Ok(start), Ok(end))) = range
            .split_once('-')
            .map(|(start, end)| (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16)))
        else {
            continue;
        };
        match all.iter_mut().find(|known| known.path == path) {
            Some(known) => known.end = end,
            None if path.starts_with('/') => {
                all.push(Mapping { path: path.to_owned(), base: start, end });
            }
            None => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_from_its_first_page_to_its_last() {
        let list = "1000-2000 r--p 00000000 fe:01 5 /bin/x\n2000-5000 r-xp 00001000 fe:01 5 /bin/x\n6000-7000 rw-p 0 00:00 0 [heap]\n";
        assert_eq!(mappings(list), [Mapping { path: "/bin/x".into(), base: 0x1000, end: 0x5000 }]);
    }

    #[test]
    fn a_sample_has_registers_and_as_much_of_the_stack_as_there_is() {
        let words = [1_u64, 2, 0xb, 0x5, 0x1, 16, 7, 8, 8];
        let record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sample = sample(IN_KERNEL, &record).unwrap();
        assert_eq!(
            (sample.bp, sample.sp, sample.ip, sample.kernel, sample.stack.len()),
            (0xb, 0x5, 0x1, true, 8)
        );
        assert!(super::sample(0, &record[..20]).is_none());
    }
}
