//! Output files: written completely or not at all, so that a full disk does not destroy an earlier
//! file.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Files that others may read, as far as the user's umask allows.
const MODE: u32 = 0o666;

pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = path.metadata().ok();
    if before.as_ref().is_some_and(|before| !before.is_file() && !before.is_dir()) {
        // A path that is not a regular file, such as /dev/stdout, is written directly.
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    // A symbolic link is kept, and its target is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Opened and written as a file of our own: an error then has no name that the user never gave.
    let open = |path: &Path| File::options().write(true).create_new(true).mode(MODE).open(path);
    let mut draft = tempfile::Builder::new();
    let draft = draft.prefix(".").suffix(".draft");
    let draft = match draft.make_in(folder.unwrap_or(Path::new(".")), open) {
        Ok(draft) => draft,
        // In another user's folder a draft cannot be created.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && before.is_some() => {
            return std::fs::write(&path, bytes);
        }
        Err(error) => return Err(error),
    };
    draft.as_file().write_all(bytes)?;
    if let Some(before) = before.filter(std::fs::Metadata::is_file) {
        draft.as_file().set_permissions(before.permissions())?;
    }
    draft.persist(&path).map(drop).map_err(|error| error.error)
}
