//! Replacing a file: its readers see the old contents or the new ones, and never a part.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is being replaced. Until [`finish`](Self::finish) the old one stays; dropped, it leaves nothing behind.
#[must_use = "nothing is replaced until `finish`"]
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
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?);
        name.push(format!(".{}.draft", std::process::id()));
        match fs::metadata(target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            // A device or a pipe would be lost, not written to.
            Ok(found) if !found.is_file() => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            _ => {}
        }
        let draft = target.with_file_name(name);
        // Follows no link that somebody put there, and never shares a draft.
        let file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
        Ok(Self { file, draft, target: target.to_owned(), renamed: false })
    }

    /// Writes `contents` and puts them in the target's place.
    pub fn finish(mut self, contents: &[u8]) -> io::Result<()> {
        self.file.write_all(contents)?;
        self.file.sync_all()?;
        fs::rename(&self.draft, &self.target)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing better can be done about a draft that cannot be removed.
            let _ = fs::remove_file(&self.draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let directory = std::env::temp_dir().join(format!("wordpatch-replace-{}", std::process::id()));
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
        assert!(Replacement::begin(&directory.join("nowhere/file")).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
