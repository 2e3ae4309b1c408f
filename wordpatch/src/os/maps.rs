//! The memory mappings of a process, from /proc/thread-self/maps, which still exists after the
//! process's first thread has ended.

use super::OsError;
use crate::addr::CodeAddr;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

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
    fn this_very_function_lies_in_an_executable_mapping() {
        let here =
            CodeAddr::new(this_very_function_lies_in_an_executable_mapping as *const () as usize);
        assert!(mapping_at(here).unwrap().unwrap().execute);
        assert_eq!(mapping_at(CodeAddr::new(8)).unwrap(), None);
    }
}
