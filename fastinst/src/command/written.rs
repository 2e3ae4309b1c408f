//! Files that the commands write. A regular file is replaced as a whole, so that a full disk
//! destroys nothing. What is no regular file, such as `/dev/stdout` or a pipe, is written to: a
//! replacement would remove it.

use super::Failure;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wordpatch::os::replace::{Replacement, is_stream};

/// Writes all of a file, or none of it.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), Failure> {
    let written = match is_stream(path) {
        // Standard output may be a file to which the program has written.
        true => File::options()
            .append(true)
            .open(path)
            .and_then(|mut stream| stream.write_all(contents)),
        false => Replacement::begin(path).and_then(|file| file.finish(contents)),
    };
    written.map_err(|error| Failure::Write { path: path.to_owned(), error })
}

/// Checks that a file can be written, before a program is started for it. Opening a pipe would
/// wait for its reader.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    if is_stream(path) {
        return Ok(());
    }
    let begun = Replacement::begin(path).map(drop);
    begun.map_err(|error| Failure::Write { path: path.to_owned(), error })
}

/// Writes a profile to a new file among the temporary ones, which only this user can read. Returns
/// the file, if it could be written.
pub(crate) fn keep_elsewhere(profile: &[u8]) -> Option<PathBuf> {
    let path = std::env::temp_dir().join(format!("fastinst.{}.profile", std::process::id()));
    let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| {
        file.write_all(profile).inspect_err(|_| drop(std::fs::remove_file(&path)))
    });
    written.is_ok().then_some(path)
}
