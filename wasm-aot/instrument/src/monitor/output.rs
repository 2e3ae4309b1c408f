//! Files that monitors write. They are opened before the program is known, so that an unwritable
//! file is refused early, and keep their contents until the monitor has something to write: a run
//! that is refused leaves the files of earlier ones as they are.

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;
use wordpatch::os::replace::empty;

/// Opens a file, and creates it if it does not exist; its contents stay.
pub(super) fn open(path: impl AsRef<Path>) -> Result<File> {
    File::options().write(true).create(true).truncate(false).open(path)
}

/// A file that is written piece by piece, anew from the first one on.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    has_begun: bool,
}

impl Stream {
    /// A stream that writes to a file.
    pub(super) fn new(file: File) -> Self {
        Self { file, has_begun: false }
    }

    fn begin(&mut self) -> Result<()> {
        if !self.has_begun {
            empty(&self.file)?;
            self.has_begun = true;
        }
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.begin()?;
        self.file.write(bytes)
    }

    /// Afterwards the old contents have been removed, even if nothing was written.
    fn flush(&mut self) -> Result<()> {
        self.begin()?;
        self.file.flush()
    }
}
