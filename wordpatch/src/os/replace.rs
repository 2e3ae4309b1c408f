//! Replaces a file atomically: its readers see the old contents or the new ones, and never a part.
//!
//! That holds even if the process is killed at any time. After a power failure a file system may
//! have the new name and not the contents yet. The code does not wait until the file is on the disk
//! (fsync), since a profile is replaced many times a second, and the program would have to wait at
//! its end.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The most draft names that are tried.
const MOST: u32 = 100;

/// A file that is being replaced. Until [`finish`](Self::finish) or [`place`](Self::place) the old
/// one stays. If this is dropped before, the draft is removed.
#[must_use = "nothing is replaced until `finish` or `place`"]
#[derive(Debug)]
pub struct Replacement {
    file: File,
    draft: PathBuf,
    target: PathBuf,
    renamed: bool,
}

impl Replacement {
    /// Opens a draft beside `target`, which shows whether the directory can be written to.
    pub fn begin(target: &Path) -> io::Result<Self> {
        let file =
            target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        if target.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A device or a pipe would be lost, not written to.
        if is_open_file(target) || is_stream(target) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // A draft that an earlier process with the same process ID has left does not matter.
        for attempt in 0..MOST {
            let number = if attempt == 0 { String::new() } else { format!(".{attempt}") };
            let name = [
                OsStr::new("."),
                file,
                OsStr::new(&format!(".{}{number}.draft", std::process::id())),
            ]
            .into_iter()
            .collect::<OsString>();
            let draft = target.with_file_name(name);
            // Follows no link that another user put there, and never shares a draft. The reader of
            // the file refuses a file that a group may write, so the mode must exclude that with
            // any umask.
            match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&draft) {
                Ok(file) => {
                    return Ok(Self { file, draft, target: target.to_owned(), renamed: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Makes the file executable.
    pub fn executable(self) -> io::Result<Self> {
        self.file.set_permissions(fs::Permissions::from_mode(0o755))?;
        Ok(self)
    }

    /// Writes `contents` and replaces the target.
    pub fn finish(mut self, contents: &[u8]) -> io::Result<()> {
        if super::files::largest() < contents.len() as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        self.file.write_all(contents)?;
        self.place()
    }

    /// The draft, for contents that are written by several writes.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Replaces the target by the draft, which can still be written to. A second call has no
    /// effect.
    pub fn place(&mut self) -> io::Result<()> {
        if !self.renamed {
            fs::rename(&self.draft, &self.target)?;
            self.renamed = true;
        }
        Ok(())
    }
}

/// Whether a path leads to something that is written to and cannot be replaced: a device, a pipe,
/// or an open file by its name in `/dev`.
pub fn is_stream(path: &Path) -> bool {
    let found = fs::metadata(path);
    found.is_ok_and(|found| !found.is_dir() && (is_open_file(path) || !found.is_file()))
}

/// Names there refer to open files or to devices: `/dev/stdout` is a link to the process's standard
/// output.
fn is_open_file(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// Whether two paths lead to one file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// Writes the contents of an open file anew, for files that cannot be replaced.
pub fn overwrite(mut file: &File, contents: &[u8]) -> io::Result<()> {
    empty(file)?;
    file.write_all(contents)
}

/// Removes the contents of an open file. Devices and pipes have neither a length nor a place.
pub fn empty(mut file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    Ok(())
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.renamed {
            // A draft that cannot be removed is left.
            let _ = fs::remove_file(&self.draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_was_left_is_no_obstacle() {
        let directory =
            std::env::temp_dir().join(format!("wordpatch-draft-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let target = directory.join("file");
        let left = directory.join(format!(".file.{}.draft", std::process::id()));
        fs::write(&left, "left").unwrap();
        Replacement::begin(&target).unwrap().finish(b"whole").unwrap();
        assert_eq!(
            (fs::read(&target).unwrap(), fs::read(&left).unwrap()),
            (b"whole".to_vec(), b"left".to_vec())
        );
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let directory =
            std::env::temp_dir().join(format!("wordpatch-replace-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let target = directory.join("file");
        Replacement::begin(&target).unwrap().finish(b"first").unwrap();
        drop(Replacement::begin(&target).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"first");
        Replacement::begin(&target).unwrap().finish(b"second").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"second");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert!(Replacement::begin(&directory).is_err());
        assert!(Replacement::begin(Path::new("/dev/null")).is_err());
        assert!(is_stream(Path::new("/dev/null")) && !is_stream(&target));
        assert!(!is_stream(&directory) && !is_stream(&directory.join("nowhere")));
        assert!(is_same(
            &target,
            &directory.join("../").join(directory.file_name().unwrap()).join("file")
        ));
        assert!(
            !is_same(&target, &directory) && !is_same(&directory.join("a"), &directory.join("b"))
        );
        assert!(
            Replacement::begin(Path::new("/dev/stdout")).is_err(),
            "the link would be replaced"
        );
        assert!(Replacement::begin(&directory.join("nowhere/file")).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
