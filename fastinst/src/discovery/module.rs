//! Modules: the program and its libraries, as they are loaded, or as files.
//!
//! # Safety
//!
//! This module exists to be called back by the loader, and to map files.
#![allow(unsafe_code)]

use super::DiscoveryError;
use super::image::Image;
use super::loaded_image::LoadedImage;
use super::points::PointNames;
use super::registered::Registered;
use std::ffi::{CStr, OsStr};
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wordpatch::CodeAddr;
use wordpatch::os::maps;

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
    /// What its file is recognized by, if the loader has loaded it.
    pub(crate) loaded: Option<Arc<LoadedImage>>,
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
            loaded: None,
            is_static: image.is_static(),
            registered: None,
            points: None,
        })
    }

    /// The file's contents.
    pub(crate) fn contents(&self) -> Result<Contents, DiscoveryError> {
        self.file().map(|(_, contents)| contents)
    }

    /// The file that it was loaded from, or would be: where it is, and its contents.
    pub(crate) fn file(&self) -> Result<(PathBuf, Contents), DiscoveryError> {
        let failed = |error| DiscoveryError::Read { path: self.path.clone(), error };
        if self.registered.is_some() {
            let why = "a runtime generated this code; it has no file";
            return Err(failed(std::io::Error::other(why)));
        }
        let found = Contents::of(&self.path);
        let Some(loaded) = &self.loaded else {
            return found.map(|contents| (self.path.clone(), contents)).map_err(failed);
        };
        match found {
            Ok(contents) if loaded.is_of(&contents) => Ok((self.path.clone(), contents)),
            found => self.file_elsewhere(loaded).ok_or_else(|| {
                let replaced = "another file lies there than the one that was loaded; restart \
                                the program to see its functions";
                failed(found.err().unwrap_or_else(|| std::io::Error::other(replaced)))
            }),
        }
    }

    /// The file that was loaded, if it can be had by another way than its path.
    fn file_elsewhere(&self, loaded: &LoadedImage) -> Option<(PathBuf, Contents)> {
        let of_program = if self.is_program() {
            [Some(PathBuf::from(LINK)), started_as()]
        } else {
            [None, None]
        };
        let ways = of_program
            .into_iter()
            .flatten()
            .chain(std::iter::once_with(|| self.mapped_file()).flatten());
        let open = |path: PathBuf| Contents::of(&path).ok().map(|contents| (path, contents));
        ways.filter_map(open).find(|(_, contents)| loaded.is_of(contents))
    }

    /// The kernel's link to the file behind a mapping. It leads to files that were deleted, too,
    /// and is for privileged users (proc_pid_map_files(5)).
    fn mapped_file(&self) -> Option<PathBuf> {
        let mappings = maps::mappings().ok()?;
        let mapping = mappings
            .iter()
            .find(|mapping| self.span.contains(&mapping.start) && mapping.path.starts_with('/'))?;
        Some(mapping.file_link())
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
        let of_file =
            || self.contents().ok().and_then(|contents| Image::parse(&contents).ok()?.build_id());
        let id = match &self.loaded {
            Some(loaded) => loaded.build_id().map(<[u8]>::to_vec),
            None => of_file(),
        };
        id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The kernel's link to the running program, by a thread's own way: that of the process is closed
/// when its first thread has ended.
pub(crate) const LINK: &str = "/proc/thread-self/exe";

/// The path of the running program's file; that which it had, if it was deleted or replaced.
fn executed() -> Option<PathBuf> {
    let path = std::fs::read_link(LINK).ok()?;
    let path = path.as_os_str().as_bytes();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// What the program was started as, relative perhaps.
fn started_as() -> Option<PathBuf> {
    // SAFETY: (1) asks the kernel's vector; (2) a text that lives as long as the process, or null.
    let name = unsafe {
        let name = libc::getauxval(libc::AT_EXECFN) as *const libc::c_char;
        (!name.is_null()).then(|| CStr::from_ptr(name))?
    };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
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
            executed().or_else(started_as).unwrap_or_else(|| PathBuf::from(LINK))
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
        // SAFETY: (1) the loader keeps what it shows mapped until we return.
        loaded: Some(unsafe { Arc::new(LoadedImage::of(headers, bias)) }),
        is_static: false,
        registered: None,
        points: None,
    });
    0
}
