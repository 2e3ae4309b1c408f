//! Trust in paths: files that are executed, or that decide how code is stored to, and the folders
//! that contain them, have to belong to the user or the system, as do all folders above them.
//!
//! If another user may write to a folder above a file, that user can replace the file. So the path
//! is walked down from the root. Each folder is opened relative to the one before (`openat` with
//! `O_NOFOLLOW`) and checked through its descriptor, so that the folder that is checked is the one
//! that is used.
//!
//! | above the leaf | trusted |
//! |---|---|
//! | owner | the super-user or the user |
//! | others may write | only if the sticky bit protects files of other users, as in /tmp |
//! | the group may write | the same, or if its number is the owner's: a user's private group |
//!
//! Links on the path are resolved first, so both paths are checked: the one to the link, and the
//! one that it leads to.
//!
//! # Safety
//!
//! This module exists to open folders relative to other folders.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

const STICKY: u32 = 0o1000;

/// Opens a file for reading, if only the user and the super-user can have written its contents.
/// Does not wait for any other process.
pub fn open(path: &Path) -> io::Result<File> {
    let resolved = path.canonicalize()?;
    let parent = |path: &Path| {
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or(PathBuf::from("."), PathBuf::from)
    };
    descend(&parent(path).canonicalize()?)?;
    let name = resolved.file_name().ok_or(ErrorKind::IsADirectory)?;
    let file = open_in(&descend(&parent(&resolved))?, name, libc::O_RDONLY | libc::O_NONBLOCK)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let kind =
            if metadata.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput };
        return Err(io::Error::new(kind, "not a file"));
    }
    // A file must not be writable by any group: the group may have other members.
    if metadata.mode() & 0o022 != 0 {
        return Err(refusal("others may write it: chmod go-w".to_owned()));
    }
    owner(&metadata).map_err(refusal)?;
    Ok(file)
}

/// Opens a file for reading that a program has written into a world-writable folder. The file must
/// belong to the user or the super-user, and no other user may write it. Follows no link, and does
/// not wait for any other process. Not for files that are executed.
pub fn open_own(path: &Path) -> io::Result<File> {
    let how = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(how).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a file"));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(refusal("others may write it: chmod o-w".to_owned()));
    }
    owner(&metadata).map_err(refusal)?;
    Ok(file)
}

/// The resolved path of a folder, if only the user and the super-user can replace it.
pub fn folder(path: &Path) -> io::Result<PathBuf> {
    let resolved = path.canonicalize()?;
    descend(&resolved)?;
    Ok(resolved)
}

/// The folder, or the nearest existing one above it, in which it can be created.
pub fn folder_to_be(path: &Path) -> io::Result<PathBuf> {
    for above in path.ancestors() {
        match folder(above) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            vetted => return vetted,
        }
    }
    folder(Path::new("."))
}

/// A new folder for temporary files, with an unpredictable name and accessible to the user only
/// (mkdtemp(3)), in the default directory.
pub fn temporary_folder(prefix: &str) -> io::Result<PathBuf> {
    let template = std::env::temp_dir().join(format!("{prefix}-XXXXXX"));
    let mut bytes = CString::new(template.as_os_str().as_bytes())?.into_bytes_with_nul();
    // SAFETY: (1) a zero-terminated string, which is overwritten and keeps its length.
    let made = unsafe { libc::mkdtemp(bytes.as_mut_ptr().cast()) };
    if made.is_null() {
        return Err(io::Error::last_os_error());
    }
    bytes.pop();
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}

/// Walks down a path without links from the root; fails where another user may replace the rest.
fn descend(path: &Path) -> io::Result<File> {
    const HOW: libc::c_int = libc::O_PATH | libc::O_DIRECTORY;
    let mut folder = File::open("/")?;
    let mut way = PathBuf::from("/");
    vet(&folder.metadata()?, &way)?;
    for component in path.components() {
        if let Component::Normal(name) = component {
            way.push(name);
            folder = open_in(&folder, name, HOW)?;
            vet(&folder.metadata()?, &way)?;
        }
    }
    Ok(folder)
}

fn open_in(folder: &File, name: &OsStr, how: libc::c_int) -> io::Result<File> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: (1) an open folder, and a string that lives across the call.
    let fd = unsafe {
        libc::openat64(folder.as_raw_fd(), name.as_ptr(), how | libc::O_NOFOLLOW | libc::O_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: (1) opened by the call above, and no other code has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn vet(folder: &Metadata, way: &Path) -> io::Result<()> {
    judge(folder.uid(), folder.gid(), folder.mode(), user())
        .map_err(|why| refusal(format!("{}: {why}", way.display())))
}

/// Why a folder on the path is not trusted, for this user.
fn judge(uid: u32, gid: u32, mode: u32, user: u32) -> Result<(), String> {
    if uid != 0 && uid != user {
        return Err(format!("it belongs to user {uid}"));
    }
    let others = mode & 0o002 != 0;
    let group = mode & 0o020 != 0 && gid != uid;
    if (others || group) && mode & STICKY == 0 {
        return Err("others may write to it: chmod go-w".to_owned());
    }
    Ok(())
}

fn owner(metadata: &Metadata) -> Result<(), String> {
    match metadata.uid() {
        0 => Ok(()),
        uid if uid == user() => Ok(()),
        uid => Err(format!("it belongs to user {uid}: copy it")),
    }
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: (1) reads a number. A direct system call: some programs define the function.
    unsafe { libc::syscall(libc::SYS_geteuid) as u32 }
}

fn refusal(why: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = temporary_folder("wordpatch-trust").unwrap();
            fs::create_dir_all(path.join("a/b")).unwrap();
            let scratch = Self(path);
            fs::write(scratch.file(), "held").unwrap();
            ["a/b", "a", "."].iter().for_each(|folder| scratch.mode(folder, 0o755));
            scratch.mode("a/b/file", 0o644);
            scratch
        }

        fn file(&self) -> PathBuf {
            self.0.join("a/b/file")
        }

        fn mode(&self, path: &str, mode: u32) {
            fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_opened_where_no_other_user_can_exchange_it() {
        let scratch = Scratch::new();
        assert_eq!(io::read_to_string(open(&scratch.file()).unwrap()).unwrap(), "held");
        for (path, mode) in [("a", 0o777), ("a/b", 0o757), ("a/b/file", 0o646), ("a/b/file", 0o664)]
        {
            scratch.mode(path, mode);
            let error = open(&scratch.file()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path} {mode:o}");
            assert!(error.to_string().contains("chmod go-w"), "{error}");
            scratch.mode(path, if path.ends_with("file") { 0o644 } else { 0o755 });
        }
        // The sticky bit: another user with write permission cannot replace files there.
        scratch.mode("a", 0o1777);
        open(&scratch.file()).unwrap();
        assert!(open(&scratch.0.join("a")).is_err() && open(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_file_that_was_left_for_others_is_opened_if_it_is_the_users_own_and_no_link() {
        let scratch = Scratch::new();
        let file = scratch.file();
        scratch.mode("a", 0o777);
        assert_eq!(io::read_to_string(open_own(&file).unwrap()).unwrap(), "held");
        scratch.mode("a/b/file", 0o646);
        assert_eq!(open_own(&file).unwrap_err().kind(), ErrorKind::PermissionDenied);
        let link = scratch.0.join("link");
        symlink(&file, &link).unwrap();
        assert!([&link, &scratch.0, Path::new("/dev/null")].iter().all(|no| open_own(no).is_err()));
    }

    #[test]
    fn a_link_is_as_good_as_the_worse_of_its_ways() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.0.join("c")).unwrap();
        let link = scratch.0.join("c/link");
        symlink(scratch.file(), &link).unwrap();
        scratch.mode("c", 0o755);
        open(&link).unwrap();
        for folder in ["c", "a"] {
            scratch.mode(folder, 0o777);
            assert_eq!(open(&link).unwrap_err().kind(), ErrorKind::PermissionDenied, "{folder}");
            scratch.mode(folder, 0o755);
        }
    }

    #[test]
    fn a_folder_that_is_still_to_be_made_is_as_good_as_what_is_above_it() {
        let scratch = Scratch::new();
        let to_be = scratch.0.join("a/b/new/newer");
        assert_eq!(folder_to_be(&to_be).unwrap(), scratch.0.join("a/b").canonicalize().unwrap());
        scratch.mode("a", 0o777);
        assert!(folder_to_be(&to_be).is_err() && folder(&scratch.0.join("a/b")).is_err());
    }

    #[test]
    fn owners_groups_and_others_are_judged_by_the_table() {
        let refused = |uid, gid, mode| judge(uid, gid, mode, 1000).is_err();
        assert!(!refused(0, 0, 0o755) && !refused(1000, 1000, 0o700) && refused(1001, 1000, 0o700));
        assert!(refused(0, 0, 0o777) && !refused(0, 0, 0o1777));
        assert!(
            refused(1000, 100, 0o775) && !refused(1000, 1000, 0o775) && !refused(1000, 100, 0o1775)
        );
    }

    #[test]
    fn temporary_folders_are_the_users_alone_and_never_the_same() {
        let [first, second] = [(); 2].map(|()| temporary_folder("wordpatch-alone").unwrap());
        assert_ne!(first, second);
        for folder in [first, second] {
            assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
            fs::remove_dir(folder).unwrap();
        }
    }
}
