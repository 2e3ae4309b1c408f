//! Modules: the program and its libraries, as they are loaded, or as files.
//!
//! # Safety
//!
//! This module exists to be called back by the loader, and to map files.
#![allow(unsafe_code)]

use super::DiscoveryError;
use super::image::Image;
use super::points::PointNames;
use super::registered::Registered;
use std::ffi::{CStr, OsStr};
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wordpatch::CodeAddr;

/// A program or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its file.
    pub path: PathBuf,
    /// The last part of that.
    pub name: String,
    /// What is added to addresses of the file.
    pub bias: usize,
    /// From its first address to behind its last.
    pub span: Range<CodeAddr>,
    /// Whether it is loaded into this process.
    pub is_loaded: bool,
    /// Whether it is a program that no loader starts.
    pub is_static: bool,
    /// The runtime's description of the code, if a runtime has generated it.
    pub(crate) registered: Option<Arc<Registered>>,
    /// Its points, where they have probes: they are found by their names.
    pub(crate) points: Option<Arc<PointNames>>,
}

/// A file's contents.
#[derive(Debug)]
pub(crate) struct Contents {
    at: *mut libc::c_void,
    len: usize,
}

// SAFETY: (1) a mapping of this process, which no thread writes to.
unsafe impl Send for Contents {}

impl Deref for Contents {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: (1) mapped by `of` and not unmapped before `self` goes; (2) private: others'
        // writes to the file may show, as they would in any copy; bytes have no invalid values. (3)
        // A file that is cut short meanwhile faults: modules are not.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.len) }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: (1) mapped by `of`.
            unsafe { libc::munmap(self.at, self.len) };
        }
    }
}

impl Contents {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let file = std::fs::File::open(path)?;
        let data = file.metadata()?;
        if !data.is_file() {
            return Err(std::io::Error::other("it is no file"));
        }
        let len = data.len() as usize;
        if len == 0 {
            return Ok(Self { at: std::ptr::null_mut(), len: 0 });
        }
        // SAFETY: (1) a new mapping of an open file.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(Self { at, len })
        }
    }
}

impl Module {
    /// What is loaded into this process, the program first; without what the kernel provides, and
    /// without ourselves.
    pub fn loaded() -> Vec<Self> {
        let mut modules = Vec::new();
        // SAFETY: (1) the callback below, with the vector that it is written for.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut modules).cast()) };
        let ours = CodeAddr::new(visit as *const () as usize);
        modules.retain(|module: &Self| !module.span.contains(&ours) || module.is_program());
        modules
    }

    /// A file, as it would be loaded at address zero.
    pub fn of_file(path: &Path) -> Result<Self, DiscoveryError> {
        let contents = Contents::of(path)
            .map_err(|error| DiscoveryError::Read { path: path.to_owned(), error })?;
        let failed = |error| DiscoveryError::Image { path: path.to_owned(), error };
        let image = Image::parse(&contents).map_err(failed)?;
        let span = image.span().unwrap_or(0..0);
        Ok(Self {
            path: path.to_owned(),
            name: module_name(path),
            bias: 0,
            span: CodeAddr::new(span.start as usize)..CodeAddr::new(span.end as usize),
            is_loaded: false,
            is_static: image.is_static(),
            registered: None,
            points: None,
        })
    }

    /// The file's contents. Of the running program also when it was deleted meanwhile, and by a
    /// thread's own way: that of the process is closed when its first thread has ended.
    pub(crate) fn contents(&self) -> Result<Contents, DiscoveryError> {
        if self.registered.is_some() {
            let error = std::io::Error::other("a runtime generated this code; it has no file");
            return Err(DiscoveryError::Read { path: self.path.clone(), error });
        }
        let contents =
            if self.is_program() { self.program_contents() } else { Contents::of(&self.path) };
        contents.map_err(|error| DiscoveryError::Read { path: self.path.clone(), error })
    }

    /// The running program's file: the kernel's link to it, or where it was started from. If the
    /// program was started through a loader's or an emulator's command line, the link leads to
    /// that; and /proc may be missing. So a file is used only if its program headers equal those in
    /// memory.
    fn program_contents(&self) -> std::io::Result<Contents> {
        let started = started_as();
        let link = Contents::of(Path::new(LINK));
        let others = [Some(self.path.as_path()), started.as_deref()].into_iter().flatten();
        let mut found = std::iter::once(link).chain(others.map(Contents::of));
        let is_it = |contents: &std::io::Result<Contents>| {
            contents.as_ref().is_ok_and(|contents| has_headers_of_program(contents))
        };
        found.find(is_it).unwrap_or_else(|| {
            Err(std::io::Error::other(
                "the program's file is no longer at the path that it was started from",
            ))
        })
    }

    /// Whether it is the program of this process, and not a library.
    fn is_program(&self) -> bool {
        // SAFETY: (1) asks the kernel's vector.
        let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
        self.is_loaded && self.span.contains(&CodeAddr::new(headers))
    }

    /// Whether it calls the hooks.
    pub fn has_hooks(&self) -> bool {
        self.contents().is_ok_and(|contents| {
            Image::parse(&contents)
                .is_ok_and(|image| !super::Hooks::of(&image, self.bias, false).is_empty())
        })
    }

    /// Whether it calls a function of that name in another module.
    pub fn imports(&self, name: &str) -> bool {
        self.contents().is_ok_and(|contents| {
            Image::parse(&contents).is_ok_and(|image| image.slots().any(|slot| slot.name == name))
        })
    }

    /// Whether a text lies in its file.
    pub fn mentions(&self, text: &str) -> bool {
        let find = |contents: Contents| memchr::memmem::find(&contents, text.as_bytes()).is_some();
        self.contents().is_ok_and(find)
    }

    /// Which compilers made it (`.comment`); empty if it does not say.
    pub fn compilers(&self) -> Vec<String> {
        self.texts(".comment")
    }

    /// How the compilers were called (`.GCC.command.line`, by `-frecord-gcc-switches`); empty if it
    /// does not say.
    pub fn command_lines(&self) -> Vec<String> {
        self.texts(".GCC.command.line")
    }

    /// The texts of a section.
    fn texts(&self, section: &str) -> Vec<String> {
        let bytes =
            |contents: &Contents| Some(Image::parse(contents).ok()?.section(section)?.to_vec());
        let text = self.contents().ok().and_then(|contents| bytes(&contents)).unwrap_or_default();
        let lines = text.split(|&byte| byte == 0).filter(|line| !line.is_empty());
        lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    /// The loader that it names.
    pub fn interpreter(&self) -> Option<String> {
        let contents = self.contents().ok()?;
        Image::parse(&contents).ok()?.interpreter().map(str::to_owned)
    }

    /// The libraries that it names.
    pub fn libraries(&self) -> Vec<String> {
        let names = |contents: &Contents| {
            Some(Image::parse(contents).ok()?.libraries().into_iter().map(str::to_owned).collect())
        };
        self.contents().ok().and_then(|contents| names(&contents)).unwrap_or_default()
    }

    /// Its build id, in hexadecimal digits; empty if it has none.
    pub fn build_id(&self) -> String {
        let id = self.contents().ok().and_then(|contents| Image::parse(&contents).ok()?.build_id());
        id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The kernel's link to the running program. That of the process is closed when its first thread
/// has ended.
const LINK: &str = "/proc/thread-self/exe";

/// What the program was started as, relative perhaps.
fn started_as() -> Option<PathBuf> {
    // SAFETY: (1) asks the kernel's vector; (2) a text that lives as long as the process, or null.
    let name = unsafe {
        let name = libc::getauxval(libc::AT_EXECFN) as *const libc::c_char;
        (!name.is_null()).then(|| CStr::from_ptr(name))?
    };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Whether a file has the running program's headers, which the kernel, or the loader, has put into
/// the auxiliary vector.
fn has_headers_of_program(contents: &[u8]) -> bool {
    /// `sizeof(Elf64_Phdr)`; where `e_phoff` and `e_phnum` lie (elf.h).
    const HEADER: usize = 56;
    const OFFSET: usize = 32;
    const COUNT: usize = 56;
    // SAFETY: (1) asks the kernel's vector.
    let (at, count) = unsafe {
        (libc::getauxval(libc::AT_PHDR) as usize, libc::getauxval(libc::AT_PHNUM) as usize)
    };
    let Some(start) =
        contents.get(OFFSET..OFFSET + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok())
    else {
        return false;
    };
    let start = u64::from_le_bytes(start) as usize;
    let same_count = contents.get(COUNT..COUNT + 2) == Some(&(count as u16).to_le_bytes()[..]);
    // SAFETY: (1) the program's headers, which are loaded with it and stay.
    let loaded = || unsafe { std::slice::from_raw_parts(at as *const u8, count * HEADER) };
    at != 0
        && same_count
        && start.checked_add(count * HEADER).and_then(|end| contents.get(start..end))
            == Some(loaded())
}

pub(crate) fn module_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Called by the loader for every module.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    modules: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: (1) the loader's record; (2) the vector of `loaded`.
    let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<Module>>()) };
    // SAFETY: (1) as many headers as the record says.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let bias = info.dlpi_addr as usize;
    let start = loaded().map(|header| header.p_vaddr as usize).min().unwrap_or(0);
    let end = loaded().map(|header| (header.p_vaddr + header.p_memsz) as usize).max().unwrap_or(0);
    let name = match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: (1) a name.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    let path = match name.to_bytes() {
        // The program itself.
        b"" if modules.is_empty() => {
            std::env::current_exe().ok().or_else(started_as).unwrap_or_else(|| PathBuf::from(LINK))
        }
        b"" | b"linux-vdso.so.1" | b"linux-gate.so.1" => return 0,
        name => PathBuf::from(OsStr::from_bytes(name)),
    };
    let span = CodeAddr::new(bias + start)..CodeAddr::new(bias + end);
    modules.push(Module {
        name: module_name(&path),
        path,
        bias,
        span,
        is_loaded: true,
        is_static: false,
        registered: None,
        points: None,
    });
    0
}
