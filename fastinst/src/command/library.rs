//! The preload library: beside the command, where packages put it, or carried in the command.
//!
//! `cargo install` installs commands and no libraries. With the feature `carried` the command has
//! the library's bytes in it, which cargo has just built, since a command waits for all forms of
//! the library of its package; at first use it writes them into the user's cache.

use super::Failure;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use wordpatch::os::replace::Replacement;
use wordpatch::os::trust;

const NAME: &str = "libfastinst.so";

#[cfg(feature = "carried")]
const CARRIED: Option<&[u8]> =
    Some(include_bytes!(concat!(env!("OUT_DIR"), "/../../../deps/libfastinst.so")));
#[cfg(not(feature = "carried"))]
const CARRIED: Option<&[u8]> = None;

/// Where the library is.
pub(crate) fn library() -> Result<PathBuf, Failure> {
    let here = std::env::current_exe().map_err(|error| {
        Failure::Refused(format!("cannot find this command's own path: {error}"))
    })?;
    let folder = here.parent().unwrap_or(Path::new("/"));
    // Cargo's own folder first: there it is as new as the command also when tests are run.
    let places = [
        folder.join("deps").join(NAME),
        folder.join(NAME),
        folder.join("../lib").join(NAME),
        folder.join("../lib/x86_64-linux-gnu").join(NAME),
    ];
    let found = match (places.iter().find(|place| place.is_file()), CARRIED) {
        (Some(place), _) => place.canonicalize().unwrap_or_else(|_| place.clone()),
        (None, Some(bytes)) => unpacked(bytes, &here, &cache()?)?,
        (None, None) => {
            return Err(Failure::Refused(format!(
                "{NAME} is not beside {}: scripts/install installs both, and cargo install --path fastinst --features carried embeds the library in the command",
                here.display()
            )));
        }
    };
    // The loader takes both for the end of a name, and knows no way to write them (ld.so(8)).
    if found.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(Failure::Refused(format!(
            "{} cannot be preloaded, because its path contains a space or colon: install it elsewhere",
            found.display()
        )));
    }
    Ok(found)
}

/// The user's cache: `$XDG_CACHE_HOME/fastinst` or `~/.cache/fastinst`.
fn cache() -> Result<PathBuf, Failure> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    base.map(|base| base.join("fastinst")).ok_or_else(|| {
        Failure::Refused("no folder for the library: set HOME or XDG_CACHE_HOME".to_owned())
    })
}

/// The library that a command carries, as a file of its own. Another build of the command has
/// another file; running programs keep the one that they have.
fn unpacked(bytes: &[u8], command: &Path, cache: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| {
        Failure::Refused(format!(
            "cannot write the library to {}: {error}; set XDG_CACHE_HOME to another folder",
            cache.display()
        ))
    };
    let build = command.metadata().map_err(failed)?;
    let build = format!("{:x}-{:x}", build.len(), build.mtime() as u64 ^ build.mtime_nsec() as u64);
    let folder = cache.join(format!("library-{}-{build}", env!("CARGO_PKG_VERSION")));
    let file = folder.join(NAME);
    // A file that another user may change would run with this user's rights.
    let length = || trust::open(&file)?.metadata().map(|found| found.len());
    if !length().is_ok_and(|length| length == bytes.len() as u64) {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        Replacement::begin(&file).and_then(|draft| draft.finish(bytes)).map_err(failed)?;
        length().map_err(failed)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::Folder;

    #[test]
    fn a_carried_library_is_written_once_and_again_where_it_is_damaged() {
        let cache = Folder::new("carried");
        let command = std::env::current_exe().unwrap();
        let file = unpacked(b"library", &command, &cache).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"library");
        let inode = || file.metadata().unwrap().ino();
        let first = inode();
        assert_eq!(unpacked(b"library", &command, &cache).unwrap(), file);
        assert_eq!(inode(), first);
        std::fs::write(&file, b"lib").unwrap();
        assert_eq!(unpacked(b"library", &command, &cache).unwrap(), file);
        assert_eq!(std::fs::read(&file).unwrap(), b"library");
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let command = std::env::current_exe().unwrap();
        let error = unpacked(b"library", &command, Path::new("/proc/none")).unwrap_err();
        assert!(
            error.to_string().contains("/proc/none")
                && error.to_string().contains("XDG_CACHE_HOME")
        );
    }
}
