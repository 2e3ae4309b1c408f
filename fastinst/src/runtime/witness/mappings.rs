//! Mappings: the code of files that is mapped into this process, numbered for good.
//!
//! They are read from the kernel's table and not from the loader's list, which is under a lock that
//! a thread of the program may hold. The table is read again when a sample lies nowhere, and now
//! and then, since one library may come to lie where another was.

use crate::attribution::Place;
use crate::discovery::{Contents, Image};
use goblin::elf::program_header::{PF_X, PT_LOAD};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wordpatch::os::maps;

/// A file's code that is or was mapped.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) path: PathBuf,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where in the file it begins.
    offset: u64,
    image: Option<Option<Arc<Unwindable>>>,
}

/// What a file tells about its code.
#[derive(Debug)]
pub(super) struct Unwindable {
    /// What is added to addresses of the file.
    pub(super) bias: usize,
    /// Where functions begin, in addresses of the file, as far as they can be told without symbols.
    starts: Vec<u64>,
    /// Unwind information, and its index: where they are loaded, and their contents.
    pub(super) frames: Option<(u64, Arc<[u8]>)>,
    pub(super) index: Option<(u64, Arc<[u8]>)>,
}

#[derive(Debug, Default)]
pub(super) struct Mappings {
    known: Vec<Mapped>,
    /// Those that are there, by address.
    current: Vec<u32>,
    read: Option<Instant>,
    /// Counted up when others are there than before.
    pub(super) generation: u32,
    images: HashMap<(PathBuf, usize), Arc<Unwindable>>,
    /// Code that lies in no file: what runtimes call it, where it begins and ends.
    registered: Vec<(PathBuf, usize, usize)>,
}

/// The table is not read more often, whatever lies nowhere.
const SOONEST: Duration = Duration::from_millis(200);
/// And at least so often.
const LATEST: Duration = Duration::from_secs(2);
/// More unwind information is not copied.
const LARGEST: usize = 64 << 20;

impl Mappings {
    /// The place of an address.
    pub(super) fn place(&mut self, address: u64) -> Place {
        let age = self.read.map_or(Duration::MAX, |read| read.elapsed());
        if age > LATEST {
            self.refresh();
        }
        self.find(address).unwrap_or_else(|| {
            // Code of ours lies in no file.
            let is_ours = wordpatch::is_code_memory(wordpatch::CodeAddr::new(address as usize));
            if age > SOONEST && age <= LATEST && !is_ours {
                self.refresh();
            }
            self.find(address).unwrap_or(Place::NOWHERE)
        })
    }

    fn find(&self, address: u64) -> Option<Place> {
        let address = usize::try_from(address).ok()?;
        let at = self
            .current
            .partition_point(|&number| self.known[number as usize].start <= address)
            .checked_sub(1)?;
        let mapping = self.current[at];
        let mapped = &self.known[mapping as usize];
        (address < mapped.end).then(|| Place { mapping, offset: (address - mapped.start) as u32 })
    }

    pub(super) fn get(&self, mapping: u32) -> Option<&Mapped> {
        self.known.get(mapping as usize)
    }

    /// The address that a place had.
    pub(super) fn address(&self, place: Place) -> Option<usize> {
        Some(self.get(place.mapping)?.start + place.offset as usize)
    }

    /// Where code lies that runtimes have made.
    pub(super) fn knows(&mut self, registered: Vec<(PathBuf, usize, usize)>) {
        if self.registered != registered {
            (self.registered, self.read) = (registered, None);
        }
    }

    fn refresh(&mut self) {
        self.read = Some(Instant::now());
        let Ok(all) = maps::mappings() else { return };
        let is_file = |mapping: &maps::Mapping| {
            mapping.execute && mapping.path.starts_with('/') && !mapping.path.starts_with("/memfd:")
        };
        let mut found: Vec<Mapped> = Vec::new();
        for mapping in all.into_iter().filter(is_file) {
            let (start, end) = (mapping.start.get(), mapping.end.get());
            let path =
                PathBuf::from(mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path));
            match found.last_mut() {
                // Pages whose protection was changed are listed by themselves.
                Some(last)
                    if last.end == start
                        && last.path == path
                        && last.offset + (start - last.start) as u64 == mapping.offset =>
                {
                    last.end = end;
                }
                _ => found.push(Mapped { path, start, end, offset: mapping.offset, image: None }),
            }
        }
        found.extend(self.registered.iter().map(|(path, start, end)| {
            let (path, start, end) = (path.clone(), *start, *end);
            Mapped { path, start, end, offset: 0, image: Some(None) }
        }));
        found.sort_by_key(|mapped| mapped.start);
        let mut current = Vec::with_capacity(found.len());
        for new in found {
            let is_same = |&&number: &&u32| {
                let old = &self.known[number as usize];
                (old.start, old.end, old.offset, &old.path)
                    == (new.start, new.end, new.offset, &new.path)
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
    }

    /// What a mapping's file tells; read when it is asked for the first time.
    pub(super) fn image(&mut self, mapping: u32) -> Option<Arc<Unwindable>> {
        let mapped = self.known.get_mut(mapping as usize)?;
        if let Some(image) = &mapped.image {
            return image.clone();
        }
        let image = read(mapped, &mut self.images);
        mapped.image = Some(image.clone());
        image
    }

    /// Where the function begins that a place lies in, as far as that can be told without symbols.
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
        std::fs::File::open(&mapped.path).and_then(read).is_ok() && bytes == SYSCALL
    }
}

fn read(
    mapped: &Mapped,
    known: &mut HashMap<(PathBuf, usize), Arc<Unwindable>>,
) -> Option<Arc<Unwindable>> {
    let contents = Contents::of(file_of(&mapped.path)).ok()?;
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
    let key = (mapped.path.clone(), bias);
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

/// The program's own file is there also when it was deleted.
fn file_of(path: &Path) -> &Path {
    if path.exists() { path } else { Path::new("/proc/thread-self/exe") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_function_lies_in_this_programs_code_and_begins_where_it_begins() {
        let mut mappings = Mappings::default();
        let here = this_function_lies_in_this_programs_code_and_begins_where_it_begins as *const ()
            as usize;
        let place = mappings.place(here as u64 + 5);
        assert_ne!(place, Place::NOWHERE);
        assert_eq!(mappings.address(place), Some(here + 5));
        assert_eq!(mappings.address(mappings.start_for_test(place)), Some(here));
        assert_eq!(mappings.place(here as u64 + 5), place);
        assert_eq!(mappings.get(place.mapping).unwrap().path, std::env::current_exe().unwrap());
        assert_eq!(mappings.place(8), Place::NOWHERE);
    }

    impl Mappings {
        fn start_for_test(&self, place: Place) -> Place {
            let mut other = Self::default();
            let again = other.place(self.address(place).unwrap() as u64);
            Place { mapping: place.mapping, ..other.start(again) }
        }
    }
}
