//! What memory says about the file that a module was loaded from. A file may be replaced while
//! programs execute it: an upgrade or a build does so. The file at a module's path is used only if
//! it is the one that was loaded. Another one would show sites where there are none, and would give
//! functions the names of others.
//!
//! # Safety
//!
//! This module exists to read what the loader has mapped.
#![allow(unsafe_code)]

use goblin::elf::program_header::{PF_R, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE};
use libc::Elf64_Phdr;

/// The parts of a file by which it is recognized: its program headers; its notes, which hold the
/// build ID; without that, the index of its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedImage {
    headers: Box<[u8]>,
    /// By their offsets in the file.
    parts: Vec<(usize, Box<[u8]>)>,
}

/// No more is compared of a part.
const MOST: usize = 16 << 10;

impl LoadedImage {
    /// # Safety
    /// The program headers of a module whose segments are mapped, at that distance from their
    /// addresses in the file.
    pub(super) unsafe fn of(headers: &[Elf64_Phdr], bias: usize) -> Self {
        let part = |header: &Elf64_Phdr| {
            let len = (header.p_filesz as usize).min(MOST);
            let is_readable = headers.iter().any(|segment| holds(segment, header.p_vaddr, len));
            is_readable.then(|| {
                let at = bias.wrapping_add(header.p_vaddr as usize) as *const u8;
                // SAFETY: (1) a segment that is mapped and can be read holds it, by the caller.
                (header.p_offset as usize, unsafe { std::slice::from_raw_parts(at, len) })
            })
        };
        let parts_of = |kind| headers.iter().filter(move |header| header.p_type == kind);
        let mut parts: Vec<(usize, &[u8])> = parts_of(PT_NOTE).filter_map(part).collect();
        if !parts.iter().any(|(_, notes)| super::image::build_id_in(notes).is_some()) {
            parts.extend(parts_of(PT_GNU_EH_FRAME).filter_map(part));
        }
        // SAFETY: (1) plain numbers without gaps.
        let headers = unsafe {
            std::slice::from_raw_parts(headers.as_ptr().cast::<u8>(), size_of_val(headers))
        };
        let parts = parts.into_iter().map(|(at, bytes)| (at, bytes.into())).collect();
        Self { headers: headers.into(), parts }
    }

    /// Its build id.
    pub(super) fn build_id(&self) -> Option<&[u8]> {
        self.parts.iter().find_map(|(_, part)| super::image::build_id_in(part))
    }

    /// Whether these are the contents of that file.
    pub(super) fn is_of(&self, contents: &[u8]) -> bool {
        has_headers(contents, &self.headers)
            && self.parts.iter().all(|(at, part)| {
                at.checked_add(part.len()).and_then(|end| contents.get(*at..end)) == Some(part)
            })
    }
}

/// Whether a segment is mapped and readable there.
fn holds(segment: &Elf64_Phdr, at: u64, len: usize) -> bool {
    segment.p_type == PT_LOAD
        && segment.p_flags & PF_R != 0
        && segment.p_vaddr <= at
        && at - segment.p_vaddr <= segment.p_filesz.saturating_sub(len as u64)
}

/// Whether a file has these program headers.
fn has_headers(contents: &[u8], headers: &[u8]) -> bool {
    /// Where `e_phoff` and `e_phnum` lie in an ELF header (elf.h).
    const OFFSET: usize = 32;
    const COUNT: usize = 56;
    let start = contents.get(OFFSET..).and_then(|rest| rest.first_chunk());
    let Some(start) = start.map(|bytes| u64::from_le_bytes(*bytes) as usize) else { return false };
    let count = (headers.len() / size_of::<Elf64_Phdr>()) as u16;
    contents.get(COUNT..COUNT + 2) == Some(&count.to_le_bytes()[..])
        && start.checked_add(headers.len()).and_then(|end| contents.get(start..end))
            == Some(headers)
}

#[cfg(test)]
mod tests {
    use crate::discovery::Module;

    #[test]
    fn modules_are_loaded_from_their_files_and_from_no_others() {
        for module in Module::loaded() {
            let contents = module.contents().unwrap();
            let loaded = module.loaded.as_ref().unwrap();
            assert!(loaded.is_of(&contents), "{}", module.path.display());
            assert_eq!(Module::of_file(&module.path).unwrap().build_id(), module.build_id());
            for (at, part) in &loaded.parts {
                let mut other = contents.to_vec();
                other[at + part.len() / 2] ^= 1;
                assert!(!loaded.is_of(&other) && !loaded.is_of(&other[..at + part.len() / 2]));
            }
            assert!(!loaded.is_of(&contents[..40]) && !loaded.is_of(b""));
        }
    }
}
