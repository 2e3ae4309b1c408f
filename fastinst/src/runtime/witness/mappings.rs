//! Mappings: the code of files that is mapped into this process, with numbers that never change;
//! and windows: parts of the address space for code that lies in no file, each for an epoch.
//!
//! They are read from the kernel's table and not from the loader's list, which is under a lock that
//! a thread of the program may hold. The table is read again when a sample lies in no known
//! mapping, and now and then, since a library may be mapped where another one was.

use super::placements::Placements;
use crate::attribution::Place;
use crate::discovery::{Contents, Image, LINK};
use crate::runtime::registry::Placement;
use goblin::elf::program_header::{PF_X, PT_LOAD};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wordpatch::os::{clocks, maps, threads};

/// A file's code that is or was mapped; or a window.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    pub(super) path: PathBuf,
    /// Where the file can be read: elsewhere, if it was deleted or replaced.
    source: PathBuf,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where in the file it begins.
    offset: u64,
    image: Option<Option<Arc<Unwindable>>>,
    /// For a module that comes and goes: the number of its entry in the registry.
    pub(super) entry: Option<usize>,
    /// For a window: when a thread was last seen there, in nanoseconds of the monotonic clock.
    seen: Option<u64>,
}

impl Mapped {
    fn without_file() -> Self {
        let (path, source, image) = (PathBuf::new(), PathBuf::new(), Some(None));
        Self { path, source, start: 0, end: 0, offset: 0, image, entry: None, seen: None }
    }
}

/// Where a file is read, its load bias, and the entry of its module if that comes and goes: another
/// file may lie there when it comes again.
type ImageKey = (PathBuf, usize, Option<usize>);

/// What a file says about its code.
#[derive(Debug)]
pub(super) struct Unwindable {
    /// What is added to addresses of the file.
    pub(super) bias: usize,
    /// Where functions begin, in addresses of the file, as far as that is known without symbols.
    starts: Vec<u64>,
    /// Unwind information, and its index: where they are loaded, and their contents.
    pub(super) frames: Option<(u64, Arc<[u8]>)>,
    pub(super) index: Option<(u64, Arc<[u8]>)>,
}

#[derive(Debug, Default)]
pub(super) struct Mappings {
    known: Vec<Mapped>,
    /// The current ones, by address.
    current: Vec<u32>,
    read: Option<Instant>,
    /// Incremented when the current ones change, or the modules that come and go.
    pub(super) generation: u32,
    /// The generation after the table was read.
    read_as: u32,
    images: HashMap<ImageKey, Arc<Unwindable>>,
    /// Modules that come and go.
    placements: Placements,
    /// Other executable memory that belongs to no file, in the order of addresses.
    made: Vec<Range<usize>>,
    /// Dumps of code (jitdump), which runtimes map so that profilers find them.
    dumps: Vec<PathBuf>,
    /// The windows of this epoch.
    windows: Vec<u32>,
    epoch: Epoch,
}

/// A period within which code is not distinguished from what lay at its address before.
#[derive(Debug, Default)]
struct Epoch {
    /// Nanoseconds of the monotonic clock.
    began: u64,
    now: u64,
    /// How many epochs have ended.
    number: u32,
}

impl Epoch {
    /// Its length in nanoseconds, which doubles after every `MANY` epochs.
    fn length(&self) -> u64 {
        const FIRST: u64 = 100_000_000;
        const MANY: u32 = 64;
        FIRST << (self.number / MANY).min(20)
    }
}

/// The table is not read more often than this, even if samples lie in no mapping.
const SOONEST: Duration = Duration::from_millis(200);
/// It is read at least this often.
const LATEST: Duration = Duration::from_secs(2);
/// A window has so many addresses: a place in it has 32 bits.
const WINDOW: usize = 1 << 32;
/// Larger unwind information is not copied.
const LARGEST: usize = 64 << 20;

impl Mappings {
    /// The place of an address, at that instant of the monotonic clock.
    pub(super) fn place(&mut self, address: u64, when: u64) -> Place {
        let age = self.read.map_or(Duration::MAX, |read| read.elapsed());
        if age > LATEST {
            self.refresh();
        }
        self.find(address, when).unwrap_or_else(|| {
            // The profiler's own code lies in no file.
            let is_ours = wordpatch::is_code_memory(wordpatch::CodeAddr::new(address as usize));
            let is_due = age > SOONEST && age <= LATEST && !is_ours;
            if is_due || self.is_of_new_module(address, when) {
                self.refresh();
            }
            self.find(address, when).unwrap_or(Place::NOWHERE)
        })
    }

    /// Whether the address is in a module that was loaded since the table was read.
    fn is_of_new_module(&self, address: u64, when: u64) -> bool {
        self.placements.at(address as usize, when).is_some() && self.generation != self.read_as
    }

    fn find(&mut self, address: u64, when: u64) -> Option<Place> {
        let address = usize::try_from(address).ok()?;
        self.find_placed(address, when)
            .or_else(|| self.find_mapped(address))
            .or_else(|| self.find_window(address))
    }

    /// The place of an address in a module that lay there at that time, and may have gone.
    fn find_placed(&mut self, address: usize, when: u64) -> Option<Place> {
        let placement = self.placements.at(address, when)?.clone();
        let holds = |&number: &u32| {
            let mapped = &self.known[number as usize];
            (mapped.start..mapped.end).contains(&address)
        };
        let number = self.placements.mappings(&placement).iter().copied().find(holds);
        let mapping = number.or_else(|| self.add_placed(&placement, address))?;
        let start = self.known[mapping as usize].start;
        Some(Place { mapping, offset: (address - start) as u32 })
    }

    /// Makes the mapping of such a module that holds an address. Returns its number.
    fn add_placed(&mut self, placement: &Placement, address: usize) -> Option<u32> {
        let Range { start, end } = placement.span;
        let mapped = match placement.has_file {
            true => self.known[self.find_mapped(address)?.mapping as usize].clone(),
            false => Mapped { start, end, ..Mapped::without_file() },
        };
        self.known.push(Mapped { entry: Some(placement.entry), ..mapped });
        let number = self.known.len() as u32 - 1;
        self.placements.add_mapping(placement, number);
        // Its file may be replaced as soon as it has gone.
        self.image(number);
        Some(number)
    }

    fn find_mapped(&self, address: usize) -> Option<Place> {
        let at = self
            .current
            .partition_point(|&number| self.known[number as usize].start <= address)
            .checked_sub(1)?;
        let mapping = self.current[at];
        let mapped = &self.known[mapping as usize];
        (address < mapped.end).then(|| Place { mapping, offset: (address - mapped.start) as u32 })
    }

    /// The place of an address in executable memory that belongs to no file. The profiler's own
    /// code has no place.
    fn find_window(&mut self, address: usize) -> Option<Place> {
        let behind = self.made.partition_point(|made| made.start <= address);
        let holds = self.made.get(behind.checked_sub(1)?)?.contains(&address);
        if !holds || wordpatch::is_code_memory(wordpatch::CodeAddr::new(address)) {
            return None;
        }
        let start = address - address % WINDOW;
        let known = self.windows.iter().find(|window| self.known[**window as usize].start == start);
        let mapping = known.copied().unwrap_or_else(|| {
            let end = start.saturating_add(WINDOW);
            self.known.push(Mapped { start, end, ..Mapped::without_file() });
            let mapping = self.known.len() as u32 - 1;
            self.windows.push(mapping);
            mapping
        });
        self.known[mapping as usize].seen = Some(self.epoch.now);
        Some(Place { mapping, offset: (address - start) as u32 })
    }

    /// The samples that follow are taken now. If runtimes have reported the code that they make,
    /// begins a new epoch when it is time.
    pub(super) fn begin_epoch_if_due(&mut self, has_names: bool) {
        if self.made.is_empty() {
            return;
        }
        let epoch = &mut self.epoch;
        epoch.now = clocks::monotonic();
        if has_names && epoch.now.saturating_sub(epoch.began) >= epoch.length() {
            (epoch.began, epoch.number) = (epoch.now, epoch.number + 1);
            self.windows.clear();
        }
    }

    /// Whether a thread was seen in code that is in no file.
    pub(super) fn has_windows(&self) -> bool {
        self.epoch.number > 0 || !self.windows.is_empty()
    }

    /// When a thread was last seen in a window.
    pub(super) fn seen_in_window(&self, mapping: u32) -> Option<u64> {
        self.get(mapping)?.seen
    }

    /// Dumps of code that are mapped.
    pub(super) fn dumps(&self) -> &[PathBuf] {
        &self.dumps
    }

    pub(super) fn get(&self, mapping: u32) -> Option<&Mapped> {
        self.known.get(mapping as usize)
    }

    /// Whether a mapping is there now, as far as is known.
    pub(super) fn is_current(&self, mapping: u32) -> bool {
        self.current.contains(&mapping)
    }

    /// The address that a place had.
    pub(super) fn address(&self, place: Place) -> Option<usize> {
        Some(self.get(place.mapping)?.start + place.offset as usize)
    }

    /// Informs it where modules lie that come and go, and lay.
    pub(super) fn set_placements(&mut self, placements: Vec<Placement>) {
        if self.placements.set(placements) {
            self.generation += 1;
        }
    }

    fn refresh(&mut self) {
        self.read = Some(Instant::now());
        let Ok(all) = maps::mappings() else { return };
        let (files, made): (Vec<_>, Vec<_>) =
            all.into_iter().filter(|mapping| mapping.execute).partition(is_file);
        // The kernel's own mappings are in brackets ([vdso]), and so is memory that the program has
        // named.
        let is_made =
            |made: &&maps::Mapping| !made.path.starts_with('[') || made.path.starts_with("[anon");
        let span = |made: &maps::Mapping| made.start.get()..made.end.get();
        self.made = made.iter().filter(is_made).map(span).collect();
        let dumps = files.iter().map(|mapping| Path::new(&mapping.path));
        self.dumps = dumps.filter(|path| is_dump(path)).map(Path::to_owned).collect();
        let mut found: Vec<Mapped> = Vec::new();
        for mapping in files {
            let (start, end) = (mapping.start.get(), mapping.end.get());
            let (path, source) = paths(&mapping);
            match found.last_mut() {
                // Pages whose protection was changed are listed by themselves.
                Some(last)
                    if last.end == start
                        && last.path == path
                        && last.offset + (start - last.start) as u64 == mapping.offset =>
                {
                    last.end = end;
                }
                _ => {
                    let offset = mapping.offset;
                    found.push(Mapped {
                        path,
                        source,
                        offset,
                        image: None,
                        start,
                        end,
                        ..Mapped::without_file()
                    });
                }
            }
        }
        found.sort_by_key(|mapped| mapped.start);
        let mut current = Vec::with_capacity(found.len());
        for new in found {
            let is_same = |&&number: &&u32| {
                let old = &self.known[number as usize];
                (old.start, old.end, old.offset, &old.path, &old.source)
                    == (new.start, new.end, new.offset, &new.path, &new.source)
            };
            let number = self.current.iter().find(is_same).copied();
            current.push(number.unwrap_or_else(|| {
                self.known.push(new);
                self.known.len() as u32 - 1
            }));
        }
        if current != self.current {
            self.current = current;
            self.generation += 1;
        }
        self.read_as = self.generation;
    }

    /// What a mapping's file says; read at the first request.
    pub(super) fn image(&mut self, mapping: u32) -> Option<Arc<Unwindable>> {
        let mapped = self.known.get_mut(mapping as usize)?;
        if let Some(image) = &mapped.image {
            return image.clone();
        }
        let image = read(mapped, &mut self.images);
        mapped.image = Some(image.clone());
        image
    }

    /// Where the function begins that a place lies in, as far as that is known without symbols.
    pub(super) fn start(&mut self, place: Place) -> Place {
        let begin = Place { mapping: place.mapping, offset: 0 };
        let (Some(image), Some(address)) = (self.image(place.mapping), self.address(place)) else {
            return begin;
        };
        let at = address.wrapping_sub(image.bias) as u64;
        let Some(before) = image.starts.partition_point(|&start| start <= at).checked_sub(1) else {
            return begin;
        };
        let mapped = &self.known[place.mapping as usize];
        let start = image.bias.wrapping_add(image.starts[before] as usize);
        Place { mapping: place.mapping, offset: start.saturating_sub(mapped.start) as u32 }
    }

    /// Whether the instruction before a place enters the kernel (`syscall`).
    pub(super) fn is_behind_system_call(&self, place: Place) -> bool {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let Some(mapped) = self.get(place.mapping).filter(|_| place.offset >= 2) else {
            return false;
        };
        let mut bytes = [0; 2];
        let at = mapped.offset + u64::from(place.offset) - 2;
        let read = |file: std::fs::File| {
            (&file).seek(SeekFrom::Start(at)).and_then(|_| (&file).read_exact(&mut bytes))
        };
        std::fs::File::open(&mapped.source).and_then(read).is_ok() && bytes == SYSCALL
    }
}

/// Whether it is code of a file.
fn is_file(mapping: &maps::Mapping) -> bool {
    mapping.path.starts_with('/') && !mapping.path.starts_with("/memfd:")
}

/// Whether it is this process's dump of code, by its name: `jit-PID.dump`.
fn is_dump(path: &Path) -> bool {
    path.file_name().is_some_and(|name| *name == *format!("jit-{}.dump", threads::process()))
}

fn read(
    mapped: &Mapped,
    known: &mut HashMap<ImageKey, Arc<Unwindable>>,
) -> Option<Arc<Unwindable>> {
    let contents = Contents::of(&mapped.source).ok()?;
    let image = Image::parse(&contents).ok()?;
    let code = image
        .segments
        .iter()
        .filter(|segment| segment.p_type == PT_LOAD && segment.p_flags & PF_X != 0);
    let holds = |offset: u64, len: u64| {
        offset <= mapped.offset + 0xfff && mapped.offset < offset.saturating_add(len)
    };
    let segment = code.into_iter().find(|segment| holds(segment.p_offset, segment.p_filesz))?;
    let address = segment.p_vaddr.wrapping_sub(segment.p_offset).wrapping_add(mapped.offset);
    let bias = mapped.start.wrapping_sub(address as usize);
    let key = (mapped.source.clone(), bias, mapped.entry);
    if let Some(known) = known.get(&key) {
        return Some(known.clone());
    }
    let section = |name| {
        let section = image.placed(name).filter(|section| section.bytes.len() <= LARGEST)?;
        Some((section.address, Arc::from(section.bytes)))
    };
    let starts = image.unwind_starts();
    let read = Arc::new(Unwindable {
        bias,
        starts,
        frames: section(".eh_frame"),
        index: section(".eh_frame_hdr"),
    });
    known.insert(key, read.clone());
    Some(read)
}

/// The path that a mapping's file had, and where it can be read. What lies at the path of a file
/// that was deleted is another file. That of the program can always be read.
fn paths(mapping: &maps::Mapping) -> (PathBuf, PathBuf) {
    let Some(path) = mapping.path.strip_suffix(" (deleted)") else {
        return (PathBuf::from(&mapping.path), PathBuf::from(&mapping.path));
    };
    let program = Path::new(LINK);
    let is_program = std::fs::read_link(program).is_ok_and(|to| to == Path::new(&mapping.path));
    (PathBuf::from(path), if is_program { program.to_owned() } else { mapping.file_link() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_function_lies_in_this_programs_code_and_begins_where_it_begins() {
        let mut mappings = Mappings::default();
        let here = this_function_lies_in_this_programs_code_and_begins_where_it_begins as *const ()
            as usize;
        let place = mappings.place(here as u64 + 5, 0);
        assert_ne!(place, Place::NOWHERE);
        assert_eq!(mappings.address(place), Some(here + 5));
        assert_eq!(mappings.address(mappings.start_for_test(place)), Some(here));
        assert_eq!(mappings.place(here as u64 + 5, 0), place);
        assert_eq!(mappings.get(place.mapping).unwrap().path, std::env::current_exe().unwrap());
        assert_eq!(mappings.place(8, 0), Place::NOWHERE);
    }

    impl Mappings {
        fn start_for_test(&self, place: Place) -> Place {
            let mut other = Self::default();
            let again = other.place(self.address(place).unwrap() as u64, 0);
            Place { mapping: place.mapping, ..other.start(again) }
        }
    }
}
