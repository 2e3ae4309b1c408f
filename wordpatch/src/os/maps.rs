//! The memory mappings of a process, from /proc/thread-self/maps, which still exists after the
//! process's first thread has ended.

use super::OsError;
use super::pages::PAGE;
use crate::addr::CodeAddr;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The heap, in the kernel's table.
const HEAP: &str = "[heap]";

/// Programs that are not position-independent lie below this address.
pub const LOW: usize = 1 << 32;

/// One mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first byte.
    pub start: CodeAddr,
    /// The byte after its last.
    pub end: CodeAddr,
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// Whether it can be executed.
    pub execute: bool,
    /// Its offset in its file.
    pub offset: u64,
    /// The file, a name in brackets, or nothing.
    pub path: String,
}

impl Mapping {
    /// Whether it contains `address`.
    pub fn contains(&self, address: CodeAddr) -> bool {
        self.start <= address && address < self.end
    }

    /// Its permissions, in the kernel's notation.
    pub fn permissions(&self) -> String {
        let letters = [(self.read, 'r'), (self.write, 'w'), (self.execute, 'x')];
        letters.map(|(allowed, letter)| if allowed { letter } else { '-' }).into_iter().collect()
    }

    /// The kernel's link to the mapped file, which may have been deleted (proc_pid_map_files(5)).
    pub fn file_link(&self) -> PathBuf {
        let (start, end) = (self.start.get(), self.end.get());
        PathBuf::from(format!("/proc/self/map_files/{start:x}-{end:x}"))
    }

    /// A line of the kernel's table (proc_pid_maps(5)).
    fn parse(line: &str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let mut fields = rest.splitn(5, ' ');
        let permissions = fields.next()?.as_bytes();
        let offset = fields.next()?;
        let (_device, _inode) = (fields.next()?, fields.next()?);
        let address = |text| usize::from_str_radix(text, 16).ok().map(CodeAddr::new);
        Some(Self {
            start: address(start)?,
            end: address(end)?,
            read: permissions.first() == Some(&b'r'),
            write: permissions.get(1) == Some(&b'w'),
            execute: permissions.get(2) == Some(&b'x'),
            offset: u64::from_str_radix(offset, 16).ok()?,
            path: fields.next().unwrap_or("").trim_start().to_owned(),
        })
    }
}

/// All mappings of this process, in the order of their addresses.
pub fn mappings() -> Result<Vec<Mapping>, OsError> {
    read("/proc/thread-self/maps", "open /proc/thread-self/maps")
}

/// The same, with the heap (brk(2)) where the program has none yet: the kernel lists no heap before
/// it is used, so an empty mapping stands where it will begin. In a program that is not
/// position-independent, or runs at fixed addresses (`setarch -R`, debuggers), this is right behind
/// its data. After [`keep_low_addresses_for_heap`] the heap reaches as far as it may grow.
pub fn mappings_and_heap() -> Result<Vec<Mapping>, OsError> {
    let mut mappings = mappings()?;
    insert_heap(&mut mappings, program_break());
    if LOW_ADDRESSES_ARE_HEAP.load(Relaxed) {
        extend_heap(&mut mappings);
    }
    Ok(mappings)
}

static LOW_ADDRESSES_ARE_HEAP: AtomicBool = AtomicBool::new(false);

/// From now on [`mappings_and_heap`] says that a heap below four gigabytes reaches to there, or to
/// the next mapping: some programs have no other memory, and no use for one that is elsewhere.
pub fn keep_low_addresses_for_heap() {
    LOW_ADDRESSES_ARE_HEAP.store(true, Relaxed);
}

fn extend_heap(mappings: &mut [Mapping]) {
    let Some(at) = mappings.iter().position(|mapping| mapping.path == HEAP) else { return };
    let next = mappings.get(at + 1).map_or(LOW, |next| next.start.get().min(LOW));
    let heap = &mut mappings[at];
    heap.end = heap.end.max(CodeAddr::new(next));
}

/// Where the heap ends: at its beginning, if there is none yet.
pub fn program_break() -> CodeAddr {
    // SAFETY: (1) no heap ends at zero: the kernel changes nothing, and returns where it ends.
    #[allow(unsafe_code)]
    let end = unsafe { libc::syscall(libc::SYS_brk, 0) };
    CodeAddr::new((end as usize).next_multiple_of(PAGE))
}

fn insert_heap(mappings: &mut Vec<Mapping>, end: CodeAddr) {
    let at = mappings.partition_point(|mapping| mapping.end <= end);
    let is_listed = mappings.iter().any(|mapping| mapping.path == HEAP);
    if is_listed || mappings.get(at).is_some_and(|mapping| mapping.start < end) {
        return;
    }
    let heap = Mapping {
        start: end,
        end,
        read: true,
        write: true,
        execute: false,
        offset: 0,
        path: HEAP.to_owned(),
    };
    mappings.insert(at, heap);
}

/// All mappings of another process, through any of its threads: the first may have ended.
pub fn mappings_of(process: i32, thread: i32) -> Result<Vec<Mapping>, OsError> {
    read(&format!("/proc/{process}/task/{thread}/maps"), "open /proc/PID/task/TID/maps")
}

fn read(path: &str, call: &'static str) -> Result<Vec<Mapping>, OsError> {
    // The kernel does not report the table's length; with enough space it is read at once.
    const USUAL: usize = 16 << 10;
    let mut table = Vec::with_capacity(USUAL);
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut table))
        .map_err(|error| OsError { call, errno: error.raw_os_error().unwrap_or(libc::EIO) })?;
    Ok(String::from_utf8_lossy(&table).lines().filter_map(Mapping::parse).collect())
}

/// The mapping that contains `address`.
pub fn mapping_at(address: CodeAddr) -> Result<Option<Mapping>, OsError> {
    Ok(mappings()?.into_iter().find(|m| m.contains(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels_table_is_read() {
        let line = "7f12a000-7f12c000 r-xp 0001f000 fe:00 1234567                    /usr/lib/with a blank.so";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start.get(), mapping.end.get()), (0x7f12_a000, 0x7f12_c000));
        assert_eq!((mapping.read, mapping.write, mapping.execute), (true, false, true));
        assert_eq!((mapping.offset, mapping.path.as_str()), (0x1f000, "/usr/lib/with a blank.so"));
        assert_eq!(Mapping::parse("1000-2000 rw-p 00000000 00:00 0").unwrap().path, "");
    }

    #[test]
    fn a_heap_that_is_not_used_yet_stands_where_it_will_begin() {
        let parse = |lines: &[&str]| -> Vec<Mapping> {
            lines.iter().map(|line| Mapping::parse(line).unwrap()).collect()
        };
        let program = "18000-20000 rw-p 00000000 fe:00 7 /bin/x";
        let library = "7f0000-7f1000 r-xp 00000000 fe:00 8 /lib/y.so";
        let mut mappings = parse(&[program, library]);
        insert_heap(&mut mappings, CodeAddr::new(0x20000));
        let places: Vec<_> =
            mappings.iter().map(|m| (m.start.get(), m.end.get(), m.path.as_str())).collect();
        assert_eq!(places[1], (0x20000, 0x20000, "[heap]"));
        assert_eq!((places.len(), places[0].2, places[2].2), (3, "/bin/x", "/lib/y.so"));
        extend_heap(&mut mappings);
        assert_eq!(mappings[1].end.get(), 0x7f0000);
        mappings.pop();
        mappings[1].end = CodeAddr::new(0x20000);
        extend_heap(&mut mappings);
        assert_eq!(mappings[1].end.get(), LOW);
        let mut used = parse(&[program, "20000-41000 rw-p 00000000 00:00 0 [heap]", library]);
        let known = used.clone();
        insert_heap(&mut used, CodeAddr::new(0x41000));
        assert_eq!(used, known);
        assert!(mappings_and_heap().unwrap().iter().any(|mapping| mapping.path == HEAP));
    }

    #[test]
    fn this_very_function_lies_in_an_executable_mapping() {
        let here =
            CodeAddr::new(this_very_function_lies_in_an_executable_mapping as *const () as usize);
        assert!(mapping_at(here).unwrap().unwrap().execute);
        assert_eq!(mapping_at(CodeAddr::new(8)).unwrap(), None);
    }
}
