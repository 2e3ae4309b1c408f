//! The modules of a process, read from its memory alone: files may have been deleted, replaced, or
//! lie in another namespace.

use goblin::elf64::dynamic::{DT_GNU_HASH, DT_NULL, DT_STRTAB, DT_SYMTAB, DT_VERSYM};
use goblin::elf64::program_header::{PT_DYNAMIC, PT_GNU_EH_FRAME, PT_LOAD, PT_TLS};
use std::io;
use std::ops::Range;
use wordpatch::os::tracing::Memory;

/// The most modules in a list: a damaged list is cut off there.
const MOST: usize = 4096;

/// The auxiliary vector that the kernel gave the program (getauxval(3)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vector {
    pub(super) headers: u64,
    pub(super) header_count: u64,
    /// The loader's address; zero in a program that needs none.
    pub(super) loader: u64,
    /// The address of the vDSO.
    pub(super) vdso: u64,
}

impl Vector {
    /// Whether it is complete: it is not while the kernel starts a program.
    pub(super) fn is_whole(&self) -> bool {
        self.headers != 0 && self.vdso != 0
    }

    pub(super) fn of(process: i32, thread: i32) -> io::Result<Self> {
        let bytes = std::fs::read(format!("/proc/{process}/task/{thread}/auxv"))
            .or_else(|_| std::fs::read(format!("/proc/{process}/auxv")))?;
        let mut vector = Self::default();
        for pair in bytes.chunks_exact(16) {
            let [key, value] = [0, 8].map(|at| word(pair, at).unwrap_or(0));
            match key {
                libc::AT_PHDR => vector.headers = value,
                libc::AT_PHNUM => vector.header_count = value,
                libc::AT_BASE => vector.loader = value,
                libc::AT_SYSINFO_EHDR => vector.vdso = value,
                _ => {}
            }
        }
        Ok(vector)
    }
}

/// A word of eight bytes, little-endian.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A module.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) bias: u64,
    /// The loader's record of it (`struct link_map`).
    pub(super) record: u64,
    /// Its program headers.
    headers: Vec<u8>,
    /// The initial contents of new threads' data: the address, the length, and the length with
    /// zeroes.
    pub(super) image: Option<Image>,
    tables: Tables,
}

/// The initial contents of a module's thread data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) at: u64,
    pub(super) filled: u64,
    pub(super) len: u64,
}

/// Where its symbols are.
#[derive(Clone, Copy, Debug, Default)]
struct Tables {
    symbols: u64,
    names: u64,
    hash: u64,
    versions: u64,
}

impl Loaded {
    /// The module whose header lies at an address.
    pub(super) fn at(memory: &Memory, base: u64) -> io::Result<Self> {
        let mut header = [0; 64];
        memory.read(base, &mut header)?;
        if !header.starts_with(b"\x7fELF") {
            return Err(io::Error::other("no module lies there"));
        }
        let (from, count) =
            (word(&header, 32).unwrap_or(0), half(&header, 56).unwrap_or(0) & 0xffff);
        let headers = read(memory, base + from, count as usize * 56)?;
        let dynamic = headers
            .chunks_exact(56)
            .find(|header| half(header, 0) == Some(PT_DYNAMIC))
            .and_then(|header| word(header, 16))
            .ok_or_else(|| io::Error::other("it has no dynamic section"))?;
        Self::new(memory, base, 0, base + dynamic, &headers)
    }

    fn new(
        memory: &Memory,
        bias: u64,
        record: u64,
        dynamic: u64,
        headers: &[u8],
    ) -> io::Result<Self> {
        let of = |header: &[u8]| {
            Some(Image {
                at: bias.wrapping_add(word(header, 16)?),
                filled: word(header, 32)?,
                len: word(header, 40)?,
            })
        };
        let image =
            headers.chunks_exact(56).find(|header| half(header, 0) == Some(PT_TLS)).and_then(of);
        let mut tables = Tables::default();
        // The loader has turned them into addresses, except where the section cannot be written.
        let placed = |value: u64| if value < bias { value.wrapping_add(bias) } else { value };
        for number in 0..MOST as u64 {
            let entry = read(memory, dynamic + number * 16, 16)?;
            let [tag, value] = [0, 8].map(|at| word(&entry, at).unwrap_or(0));
            match tag {
                DT_NULL => break,
                DT_SYMTAB => tables.symbols = placed(value),
                DT_STRTAB => tables.names = placed(value),
                DT_GNU_HASH => tables.hash = placed(value),
                DT_VERSYM => tables.versions = placed(value),
                _ => {}
            }
        }
        Ok(Self { bias, record, headers: headers.to_vec(), image, tables })
    }

    /// Ranges of memory that its headers of one kind describe.
    fn ranges(&self, kind: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        let headers = self.headers.chunks_exact(56);
        headers.filter(move |header| half(header, 0) == Some(kind)).filter_map(|header| {
            let start = self.bias.wrapping_add(word(header, 16)?);
            Some(start..start.checked_add(word(header, 40)?)?)
        })
    }

    /// The address ranges of its segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges(PT_LOAD)
    }

    /// Its address range: the end is exclusive.
    pub(super) fn span(&self) -> Range<u64> {
        let start = self.segments().map(|range| range.start).min().unwrap_or(0);
        start..self.segments().map(|range| range.end).max().unwrap_or(0)
    }

    /// The ranges of its index of unwind information, and of the segment that holds it.
    pub(super) fn unwind_index(&self) -> Option<(Range<u64>, Range<u64>)> {
        let index = self.ranges(PT_GNU_EH_FRAME).next()?;
        let segment = self.ranges(PT_LOAD).find(|range| range.contains(&index.start))?;
        Some((index, segment))
    }

    /// The range of a function that it defines.
    pub(super) fn function(&self, memory: &Memory, name: &str) -> Option<Range<u64>> {
        let (start, len) = self.find(memory, name)?;
        Some(start..start + len)
    }

    /// The address of a symbol of the module, in the version that new programs get.
    pub(super) fn symbol(&self, memory: &Memory, name: &str) -> Option<u64> {
        self.find(memory, name).map(|(address, _)| address)
    }

    /// The same, with its length.
    fn find(&self, memory: &Memory, name: &str) -> Option<(u64, u64)> {
        const SYMBOL: u64 = 24;
        const HIDDEN: u16 = 0x8000;
        let Tables { symbols, names, hash, versions } = self.tables;
        if hash == 0 || symbols == 0 || names == 0 {
            return None;
        }
        let head = read(memory, hash, 16).ok()?;
        let [buckets, first, blooms] = [0, 4, 8].map(|at| half(&head, at).unwrap_or(0));
        let buckets_at = hash + 16 + u64::from(blooms) * 8;
        let wanted = gnu_hash(name);
        let bucket = u64::from(wanted.checked_rem(buckets)?);
        let mut number = half(&read(memory, buckets_at + bucket * 4, 4).ok()?, 0)?;
        let chains = buckets_at + u64::from(buckets) * 4;
        let mut found = None;
        while number >= first && number != 0 {
            let chain = read(memory, chains + u64::from(number - first) * 4, 4).ok()?;
            let chain = half(&chain, 0)?;
            if chain | 1 == wanted | 1 {
                let symbol = read(memory, symbols + u64::from(number) * SYMBOL, 24).ok()?;
                let (at, defined) = (half(&symbol, 0)?, half(&symbol, 4)? >> 16 != 0);
                let its = memory.text(names + u64::from(at), name.len() + 1).ok()?;
                if defined && its == name.as_bytes() {
                    let address = (self.bias.wrapping_add(word(&symbol, 8)?), word(&symbol, 16)?);
                    let version = if versions == 0 {
                        0
                    } else {
                        half(&read(memory, versions + u64::from(number) * 2, 4).ok()?, 0)? as u16
                    };
                    if version & HIDDEN == 0 {
                        return Some(address);
                    }
                    found = Some(address);
                }
            }
            if chain & 1 == 1 {
                break;
            }
            number += 1;
        }
        found
    }
}

/// The hash of a name in `.gnu.hash`, the successor of the generic ABI's hash.
fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

fn read(memory: &Memory, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    memory.read(at, &mut bytes)?;
    Ok(bytes)
}

/// All loaded modules, in the order of the loader's list: the program first.
pub(super) fn all(memory: &Memory, vector: &Vector) -> io::Result<Vec<Loaded>> {
    let loader = Loaded::at(memory, vector.loader)?;
    let shown = loader
        .symbol(memory, "_r_debug")
        .ok_or_else(|| io::Error::other("its loader shows no list of modules"))?;
    let mut record = memory.word(shown + 8)?;
    let mut modules = Vec::new();
    while record != 0 && modules.len() < MOST {
        let fields = read(memory, record, 32)?;
        let [bias, dynamic, next] = [0, 16, 24].map(|at| word(&fields, at).unwrap_or(0));
        let headers = if modules.is_empty() {
            read(memory, vector.headers, vector.header_count as usize * 56)?
        } else {
            headers_of(memory, bias).unwrap_or_default()
        };
        if let Ok(module) = Loaded::new(memory, bias, record, dynamic, &headers) {
            modules.push(module);
        }
        record = next;
    }
    Ok(modules)
}

fn headers_of(memory: &Memory, base: u64) -> io::Result<Vec<u8>> {
    let header = read(memory, base, 64)?;
    if !header.starts_with(b"\x7fELF") {
        return Err(io::Error::other("no module lies there"));
    }
    let count = half(&header, 56).unwrap_or(0) & 0xffff;
    read(memory, base + word(&header, 32).unwrap_or(0), count as usize * 56)
}
