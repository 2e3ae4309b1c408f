//! Input files. A command looks at a file several times: at its beginning, to tell its format, and
//! from its beginning again, to read it. A pipe can be read only once, so what it gives is copied
//! to a file without a name first.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The copies of pipes, by the names under which the user gave them.
static COPIES: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Opens a file at its beginning; one that is a pipe, as often as it is asked for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut copies = COPIES.lock();
    if let Some(copy) = copies.get(path) {
        return again(copy);
    }
    let mut file = File::open(path)?;
    // What cannot be positioned cannot be read twice: pipes, sockets and terminals.
    if file.seek(SeekFrom::Start(0)).is_ok() {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file, &mut copy)?;
    let opened = again(&copy)?;
    copies.insert(path.to_owned(), copy);
    Ok(opened)
}

/// The same file with a position of its own.
fn again(copy: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))
}

/// All bytes of a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
