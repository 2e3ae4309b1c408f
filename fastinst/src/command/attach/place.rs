//! Puts the library where the process finds it: the process may see other files than this command.

use super::target::Target;
use crate::command::{Failure, launch};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wordpatch::os::replace::is_same;

/// The library, by its path in the process.
#[derive(Debug)]
pub(super) struct Placed {
    path: PathBuf,
    /// A copy made by this command, by the path at which the command reaches it.
    copy: Option<PathBuf>,
}

impl Placed {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A copy is needed only until it is loaded.
    pub(super) fn remove(mut self) {
        self.take_away();
    }

    fn take_away(&mut self) {
        if let Some(copy) = self.copy.take() {
            let _ = std::fs::remove_file(copy);
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.take_away();
    }
}

/// The path at which the process finds the library: the one that it was loaded from before, the
/// library's own, or that of a copy in a `folder` in the process's view.
pub(super) fn library_for(target: &Target, folder: &Path) -> Result<Placed, Failure> {
    let ours = launch::library()?;
    let ours = std::fs::canonicalize(&ours).unwrap_or(ours);
    if let Some(path) = loaded_before(target) {
        return Ok(Placed { path, copy: None });
    }
    if is_same(&ours, &target.seen(&ours)) {
        return Ok(Placed { path: ours, copy: None });
    }
    copy(target, &ours, folder)
}

/// Whether the process has loaded the library.
pub(super) fn is_loaded(target: &Target) -> bool {
    loaded_before(target).is_some()
}

/// The loader compares the names of loaded modules, even those of deleted files.
fn loaded_before(target: &Target) -> Option<PathBuf> {
    let mappings = wordpatch::os::maps::mappings_of(target.process, target.living).ok()?;
    let path = mappings.into_iter().map(|mapping| mapping.path).find(|path| {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("libfastinst") && name.ends_with(".so"))
    })?;
    let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(&path));
    // The kernel shows the path relative to this command's root.
    let root = format!("/proc/{}/task/{}/root", target.process, target.living);
    let root = std::fs::read_link(root).unwrap_or_else(|_| "/".into());
    Some(Path::new("/").join(path.strip_prefix(&root).unwrap_or(path)))
}

fn copy(target: &Target, ours: &Path, folder: &Path) -> Result<Placed, Failure> {
    let mut random = [0u8; 8];
    // SAFETY: (1) a buffer and its length. If it stays zero, the process ID makes the name unique.
    #[allow(unsafe_code)]
    unsafe {
        libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0);
    }
    let name = format!("libfastinst-{}-{:016x}.so", std::process::id(), u64::from_ne_bytes(random));
    let path = folder.join(&name);
    let seen = target.seen(&path);
    let write = || -> std::io::Result<()> {
        let contents = std::fs::read(ours)?;
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o555).open(&seen)?;
        file.write_all(&contents)
    };
    let placed = Placed { path, copy: Some(seen.clone()) };
    write().map_err(|error| {
        Failure::Refused(format!(
            "process {} is in another file system (container, chroot), and the library cannot be copied to its {}: {error}; name another folder with --place",
            target.process,
            folder.display()
        ))
    })?;
    Ok(placed)
}
