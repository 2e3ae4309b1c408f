//! Calls on paths: looking up, opening, creating, removing, renaming, linking.
//!
//! A call either opens the object that a path names (beneath its directory, see [`super::beneath`])
//! and then uses the descriptor, or opens the parent and passes the last name to a system call that
//! does not follow it. No path is looked up twice.

use super::WasiCtx;
use super::beneath::Parent;
use super::descriptor::{Descriptor, Directory, Entry, File};
use super::errno::Errno;
use super::file::times;
use super::guest::Guest;
use super::outcome::Answer;
use super::positions::Positions;
use super::types::{FdFlags, Filestat, Filetype, LookupFlags, OFlags, Rights};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, Timestamps};

/// The longest path that the kernel takes (`PATH_MAX`, less the zero).
const LONGEST: u32 = 4095;

/// The rights that files beneath a read-only directory lack.
const CHANGES: Rights = Rights::FD_WRITE
    .or(Rights::FD_ALLOCATE)
    .or(Rights::FD_FILESTAT_SET_SIZE)
    .or(Rights::FD_FILESTAT_SET_TIMES);

/// Reads a path of the guest.
fn path(memory: &Guest<'_>, address: u32, len: u32) -> Result<Vec<u8>, Errno> {
    memory.expect(address, len)?;
    if len > LONGEST {
        return Err(Errno::NAMETOOLONG);
    }
    let bytes = memory.bytes(address, len)?;
    match std::str::from_utf8(&bytes) {
        Err(_) => Err(Errno::ILSEQ),
        Ok(_) if bytes.contains(&0) => Err(Errno::INVAL),
        Ok(_) => Ok(bytes),
    }
}

/// The kernel's flags for a lookup with `O_PATH`.
fn place(lookup: LookupFlags) -> rustix::fs::OFlags {
    let flags = rustix::fs::OFlags::PATH;
    if lookup.contains(LookupFlags::SYMLINK_FOLLOW) {
        flags
    } else {
        flags | rustix::fs::OFlags::NOFOLLOW
    }
}

impl WasiCtx {
    /// Opens the place that a path names.
    fn place(&self, directory: &Directory, path: &[u8], lookup: LookupFlags) -> Answer<OwnedFd> {
        Ok(self.lookup.open(directory.as_fd(), path, place(lookup), Mode::empty())?)
    }

    /// Opens the directory of a path's last name, and returns that name.
    fn parent<'a>(
        &self,
        directory: &'a Directory,
        path: &'a [u8],
    ) -> Answer<(Parent<'a>, &'a [u8])> {
        Ok(self.lookup.parent(directory.as_fd(), path)?)
    }

    /// Opens a file or a directory.
    #[allow(clippy::too_many_arguments, reason = "the interface's own")]
    pub fn path_open(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        lookup: u32,
        name: u32,
        len: u32,
        oflags: u32,
        base: u64,
        inheriting: u64,
        flags: u32,
        opened: u32,
    ) -> Answer {
        memory.expect(opened, 4)?;
        let wanted = Wanted {
            lookup: LookupFlags::from_raw(lookup)?,
            oflags: OFlags::from_raw(oflags)?,
            base: Rights::from_raw(base)?,
            flags: FdFlags::from_raw(flags)?,
        };
        Rights::from_raw(inheriting)?;
        let name = path(memory, name, len)?;
        let entry = self.table.get(fd)?;
        let directory = match &entry.descriptor {
            Descriptor::Directory(directory) => directory,
            Descriptor::File(_) => return Err(Errno::NOTDIR.into()),
            Descriptor::Input(_) | Descriptor::Output(_) => return Err(Errno::BADF.into()),
        };
        wanted.permitted(entry, directory)?;
        let new = self
            .patience
            .retry(|| self.lookup.open(directory.as_fd(), &name, wanted.host_flags(), MODE))?;
        let new = wanted.entry(new, entry.inheriting(), directory.writable)?;
        Ok(memory.write_u32(opened, self.table.insert(new)?)?)
    }

    /// Returns the attributes of a path.
    pub fn path_filestat_get(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        lookup: u32,
        name: u32,
        len: u32,
        stat: u32,
    ) -> Answer {
        memory.expect(stat, Filestat::SIZE)?;
        let lookup = LookupFlags::from_raw(lookup)?;
        let directory = self.table.directory(fd, Rights::PATH_FILESTAT_GET)?;
        let place = self.place(directory, &path(memory, name, len)?, lookup)?;
        Ok(memory.write(stat, &Filestat::from(&rustix::fs::fstat(place)?).to_bytes())?)
    }

    /// Sets the times of a path.
    #[allow(clippy::too_many_arguments, reason = "the interface's own")]
    pub fn path_filestat_set_times(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        lookup: u32,
        name: u32,
        len: u32,
        atim: u64,
        mtim: u64,
        flags: u32,
    ) -> Answer {
        let lookup = LookupFlags::from_raw(lookup)?;
        let times = times(atim, mtim, flags)?;
        let directory = self.table.writable(fd, Rights::PATH_FILESTAT_SET_TIMES)?;
        let place = self.place(directory, &path(memory, name, len)?, lookup)?;
        Ok(set_times(place.as_fd(), &times)?)
    }

    /// Creates a directory.
    pub fn path_create_directory(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        name: u32,
        len: u32,
    ) -> Answer {
        let directory = self.table.writable(fd, Rights::PATH_CREATE_DIRECTORY)?;
        let name = path(memory, name, len)?;
        let (parent, last) = self.parent(directory, &name)?;
        Ok(rustix::fs::mkdirat(parent, last, Mode::RWXU | Mode::RWXG | Mode::RWXO)?)
    }

    /// Removes an empty directory.
    pub fn path_remove_directory(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        name: u32,
        len: u32,
    ) -> Answer {
        let directory = self.table.writable(fd, Rights::PATH_REMOVE_DIRECTORY)?;
        let name = path(memory, name, len)?;
        let (parent, last) = self.parent(directory, &name)?;
        Ok(rustix::fs::unlinkat(parent, last, AtFlags::REMOVEDIR)?)
    }

    /// Removes a name that is not a directory.
    pub fn path_unlink_file(&mut self, memory: &Guest<'_>, fd: u32, name: u32, len: u32) -> Answer {
        let directory = self.table.writable(fd, Rights::PATH_UNLINK_FILE)?;
        let name = path(memory, name, len)?;
        let (parent, last) = self.parent(directory, &name)?;
        Ok(rustix::fs::unlinkat(parent, last, AtFlags::empty())?)
    }

    /// Renames a file or a directory, also from one preopened directory to another.
    #[allow(clippy::too_many_arguments, reason = "the interface's own")]
    pub fn path_rename(
        &mut self,
        memory: &Guest<'_>,
        old_fd: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Answer {
        let from = self.table.writable(old_fd, Rights::PATH_RENAME_SOURCE)?;
        let to = self.table.writable(new_fd, Rights::PATH_RENAME_TARGET)?;
        let (old, new) = (path(memory, old, old_len)?, path(memory, new, new_len)?);
        let (old_parent, old_last) = self.parent(from, &old)?;
        let (new_parent, new_last) = self.parent(to, &new)?;
        Ok(rustix::fs::renameat(old_parent, old_last, new_parent, new_last)?)
    }

    /// Gives a file another name. A symbolic link is not followed, but gets another name itself.
    #[allow(clippy::too_many_arguments, reason = "the interface's own")]
    pub fn path_link(
        &mut self,
        memory: &Guest<'_>,
        old_fd: u32,
        lookup: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Answer {
        let lookup = LookupFlags::from_raw(lookup)?;
        let from = self.table.writable(old_fd, Rights::PATH_LINK_SOURCE)?;
        let to = self.table.writable(new_fd, Rights::PATH_LINK_TARGET)?;
        let (old, new) = (path(memory, old, old_len)?, path(memory, new, new_len)?);
        if lookup.contains(LookupFlags::SYMLINK_FOLLOW) {
            return Err(Errno::INVAL.into());
        }
        if old.ends_with(b"/") {
            // A slash at its end makes the kernel follow the name, which may be a link; its target
            // can only be a directory.
            self.lookup.open(
                from.as_fd(),
                &old,
                rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY,
                Mode::empty(),
            )?;
            return Err(Errno::PERM.into());
        }
        let (old_parent, old_last) = self.parent(from, &old)?;
        let (new_parent, new_last) = self.parent(to, &new)?;
        Ok(rustix::fs::linkat(old_parent, old_last, new_parent, new_last, AtFlags::empty())?)
    }

    /// Creates a symbolic link. An absolute one is refused: the guest could never follow it, and it
    /// must not direct other programs to such a place.
    pub fn path_symlink(
        &mut self,
        memory: &Guest<'_>,
        old: u32,
        old_len: u32,
        fd: u32,
        new: u32,
        new_len: u32,
    ) -> Answer {
        let directory = self.table.writable(fd, Rights::PATH_SYMLINK)?;
        let (old, new) = (path(memory, old, old_len)?, path(memory, new, new_len)?);
        if old.starts_with(b"/") {
            return Err(Errno::PERM.into());
        }
        let (parent, last) = self.parent(directory, &new)?;
        Ok(rustix::fs::symlinkat(old.as_slice(), parent, last)?)
    }

    /// Reads a symbolic link, truncated at the end of the buffer.
    #[allow(clippy::too_many_arguments, reason = "the interface's own")]
    pub fn path_readlink(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        name: u32,
        len: u32,
        buffer: u32,
        buffer_len: u32,
        used: u32,
    ) -> Answer {
        memory.expect(used, 4)?;
        memory.expect(buffer, buffer_len)?;
        let directory = self.table.directory(fd, Rights::PATH_READLINK)?;
        let place = self.place(directory, &path(memory, name, len)?, LookupFlags::default())?;
        let said = match rustix::fs::readlinkat(place, "", Vec::new()) {
            // The kernel's error for a place that is not a link.
            Err(rustix::io::Errno::NOENT) => return Err(Errno::INVAL.into()),
            said => said?.into_bytes(),
        };
        let fitting = said.len().min(buffer_len as usize);
        memory.write(buffer, &said[..fitting])?;
        Ok(memory.write_u32(used, fitting as u32)?)
    }
}

/// The mode of new files, before the host's umask.
const MODE: Mode = Mode::RUSR
    .union(Mode::WUSR)
    .union(Mode::RGRP)
    .union(Mode::WGRP)
    .union(Mode::ROTH)
    .union(Mode::WOTH);

/// A guest's request to open a file.
struct Wanted {
    lookup: LookupFlags,
    oflags: OFlags,
    base: Rights,
    flags: FdFlags,
}

impl Wanted {
    /// Refuses requests that the directory's rights do not allow, and meaningless combinations.
    fn permitted(&self, entry: &Entry, directory: &Directory) -> Result<(), Errno> {
        let (creates, truncates) =
            (self.oflags.contains(OFlags::CREAT), self.oflags.contains(OFlags::TRUNC));
        let exclusive = self.oflags.contains(OFlags::EXCL);
        if self.oflags.contains(OFlags::DIRECTORY) && (creates || truncates || exclusive) {
            return Err(Errno::INVAL);
        }
        let needed = [
            (true, Rights::PATH_OPEN),
            (creates, Rights::PATH_CREATE_FILE),
            (truncates, Rights::PATH_FILESTAT_SET_SIZE),
        ];
        let lacking = needed.iter().any(|&(needs, right)| needs && !entry.has(right));
        let asked = self.base.and(Rights::FD_READ.or(Rights::FD_WRITE));
        let changes = creates || truncates || asked.contains(Rights::FD_WRITE);
        if lacking || !entry.inheriting().contains(asked) || (changes && !directory.writable) {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    /// The flags with which the host opens it. If a guest requests neither reading nor writing, the
    /// descriptor is open for reading, but without the right to read.
    fn host_flags(&self) -> rustix::fs::OFlags {
        use rustix::fs::OFlags as Host;
        let access =
            match (self.base.contains(Rights::FD_READ), self.base.contains(Rights::FD_WRITE)) {
                (true, true) => Host::RDWR,
                (false, true) => Host::WRONLY,
                (_, false) => Host::RDONLY,
            };
        let flags = [
            (!self.lookup.contains(LookupFlags::SYMLINK_FOLLOW), Host::NOFOLLOW),
            (self.oflags.contains(OFlags::CREAT), Host::CREATE),
            (self.oflags.contains(OFlags::DIRECTORY), Host::DIRECTORY),
            (self.oflags.contains(OFlags::EXCL) && self.oflags.contains(OFlags::CREAT), Host::EXCL),
            (self.oflags.contains(OFlags::TRUNC), Host::TRUNC),
            (self.flags.contains(FdFlags::APPEND), Host::APPEND),
            (self.flags.contains(FdFlags::DSYNC), Host::DSYNC),
            (self.flags.contains(FdFlags::RSYNC) || self.flags.contains(FdFlags::SYNC), Host::SYNC),
            (self.flags.contains(FdFlags::NONBLOCK), Host::NONBLOCK),
        ];
        flags.into_iter().filter(|(wanted, _)| *wanted).fold(access, |all, (_, flag)| all | flag)
    }

    /// Returns the entry for the opened file.
    fn entry(&self, fd: OwnedFd, inheriting: Rights, writable: bool) -> Result<Entry, Errno> {
        let filetype = Filestat::from(&rustix::fs::fstat(&fd)?).filetype;
        let changes = if writable { Rights::default() } else { CHANGES };
        if filetype == Filetype::Directory {
            let directory =
                Directory { fd, preopened: None, writable, positions: Positions::default() };
            return Ok(Entry::new(
                Descriptor::Directory(directory),
                Rights::DIRECTORY.and(inheriting),
                inheriting,
            ));
        }
        let unasked = Rights::FD_READ.or(Rights::FD_WRITE).without(self.base);
        let rights = Rights::FILE.and(inheriting).without(unasked).without(changes);
        Ok(Entry::new(Descriptor::File(File::opened(fd, filetype, self.flags)), rights, rights))
    }
}

/// Sets the times of a place. Kernels before 5.8 do not accept an empty path; there the place is
/// named by its descriptor, which does not work for links themselves.
fn set_times(place: BorrowedFd<'_>, times: &Timestamps) -> rustix::io::Result<()> {
    match rustix::fs::utimensat(place, "", times, AtFlags::EMPTY_PATH) {
        Err(rustix::io::Errno::INVAL) if !is_link(place)? => {
            let named = format!("/proc/self/fd/{}", place.as_raw_fd());
            rustix::fs::utimensat(rustix::fs::CWD, named, times, AtFlags::empty())
        }
        told => told,
    }
}

fn is_link(place: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    Ok(Filestat::from(&rustix::fs::fstat(place)?).filetype == Filetype::SymbolicLink)
}

#[cfg(test)]
mod tests {
    use super::super::Permissions;
    use super::super::beneath::Lookup;
    use super::super::scratch::{
        BUFFER, CREAT, DIRECTORY, EXCL, FOLLOW, NAME, READ, RESULT, ROOT, TRUNC, WRITE, World,
        both_ways,
    };
    use super::*;
    use std::fs;

    const FILE: u8 = 4;
    const DIR: u8 = 3;
    const LINK: u8 = 7;

    fn create(world: &mut World, path: &str) {
        let fd = world.open(path, CREAT).unwrap();
        world.close(fd).unwrap();
    }

    #[test]
    fn paths_with_dots_and_slashes_lead_where_they_say() {
        both_ways(|mut world| {
            world.on_path("path_create_directory", "dir").unwrap();
            world.on_path("path_create_directory", "dir/nested/").unwrap();
            create(&mut world, "dir/nested/file");
            for path in [
                "dir/nested/file",
                "dir/.//nested/../../dir/nested/../nested///./file",
                "./dir/nested/./file",
            ] {
                let fd = world.open(path, 0).unwrap();
                assert_eq!(world.fstat(fd).unwrap().filetype, FILE, "{path}");
                world.close(fd).unwrap();
            }
            for path in
                ["dir/nested", "dir/nested/", "dir/nested///", "dir/nested/.", "dir/nested/..", "."]
            {
                let fd = world.open_as(ROOT, 0, path, 0, 0, 0).unwrap();
                assert_eq!(world.fdstat(fd).unwrap().filetype, DIR, "{path}");
                world.close(fd).unwrap();
            }
            for path in [
                "dir/nested/file/",
                "dir/nested/file///",
                "dir/nested/file/.",
                "dir/nested/file/..",
            ] {
                assert_eq!(world.open(path, 0), Err(Errno::NOTDIR), "{path}");
            }
        });
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        both_ways(|mut world| {
            assert_eq!(world.open("none", 0), Err(Errno::NOENT));
            assert_eq!(world.open("none/file", CREAT), Err(Errno::NOENT));
            assert_eq!(world.open("", 0), Err(Errno::NOENT));
            assert_eq!(world.stat("none", FOLLOW), Err(Errno::NOENT));
            assert_eq!(world.readlink("none"), Err(Errno::NOENT));
            for call in ["path_unlink_file", "path_remove_directory"] {
                assert_eq!(world.on_path(call, "none"), Err(Errno::NOENT));
                assert_eq!(world.on_path(call, ""), Err(Errno::NOENT));
            }
            assert_eq!(world.on_path("path_create_directory", ""), Err(Errno::NOENT));
            assert_eq!(world.rename("none", "other"), Err(Errno::NOENT));
            assert_eq!(world.link("none", "other", 0), Err(Errno::NOENT));
            assert_eq!(world.symlink("", "link"), Err(Errno::NOENT));
        });
    }

    #[test]
    fn paths_that_are_no_text_are_refused() {
        both_ways(|mut world| {
            assert_eq!(world.open("file\0", CREAT), Err(Errno::INVAL));
            world.put(NAME, b"\xff\xfe");
            assert_eq!(world.call("path_unlink_file", &[ROOT, NAME, 2]), Err(Errno::ILSEQ));
            assert_eq!(world.call("path_unlink_file", &[ROOT, NAME, 1 << 31]), Err(Errno::FAULT));
            let long = "a/".repeat(2047) + "ab";
            assert_eq!(world.open(&long, 0), Err(Errno::NAMETOOLONG));
            assert_eq!(world.open(&"n".repeat(300), CREAT), Err(Errno::NAMETOOLONG));
        });
    }

    #[test]
    fn opening_creates_keeps_truncates_or_refuses() {
        both_ways(|mut world| {
            let fd = world.open("file", CREAT | EXCL).unwrap();
            world.write(fd, b"abc").unwrap();
            assert_eq!(world.open("file", CREAT | EXCL), Err(Errno::EXIST));
            world.open("file", CREAT).unwrap();
            assert_eq!(world.stat("file", 0).unwrap().size, 3);
            world.open("file", TRUNC).unwrap();
            assert_eq!(world.stat("file", 0).unwrap().size, 0);
            assert_eq!(world.open("file", DIRECTORY), Err(Errno::NOTDIR));
            for flags in [CREAT, EXCL, TRUNC] {
                assert_eq!(world.open("new", DIRECTORY | flags), Err(Errno::INVAL));
            }
            assert_eq!(world.open("file", 1 << 4), Err(Errno::INVAL));
            assert_eq!(world.open_as(ROOT, 2, "file", 0, 0, 0), Err(Errno::INVAL));
            assert_eq!(world.open_as(ROOT, 0, "file", 0, 1 << 30, 0), Err(Errno::INVAL));
            assert_eq!(world.open_as(ROOT, 0, "file", 0, 0, 1 << 5), Err(Errno::INVAL));
        });
    }

    #[test]
    fn directories_are_opened_to_read_only() {
        both_ways(|mut world| {
            assert_eq!(world.open_as(ROOT, 0, ".", DIRECTORY, READ | WRITE, 0), Err(Errno::ISDIR));
            assert_eq!(world.open_as(ROOT, 0, ".", 0, WRITE, 0), Err(Errno::ISDIR));
            let given = world.fdstat(ROOT).unwrap();
            let fd = world.open_as(ROOT, 0, ".", 0, given.base, 4).unwrap();
            let opened = world.fdstat(fd).unwrap();
            assert_eq!(
                (opened.base, opened.inheriting, opened.flags),
                (given.base, given.inheriting, 0)
            );
            assert_eq!(opened.base & Rights::FD_SEEK.0, 0);
        });
    }

    #[test]
    fn opening_needs_a_directory() {
        both_ways(|mut world| {
            let file = world.open("file", CREAT).unwrap();
            assert_eq!(world.open_as(file, 0, "x", CREAT, 0, 0), Err(Errno::NOTDIR));
            assert_eq!(world.open_as(0, 0, "x", CREAT, 0, 0), Err(Errno::BADF));
            assert_eq!(world.open_as(99, 0, "x", CREAT, 0, 0), Err(Errno::BADF));
            assert_eq!(world.call("path_unlink_file", &[file, NAME, 1]), Err(Errno::BADF));
        });
    }

    #[test]
    fn links_are_followed_only_when_asked() {
        both_ways(|mut world| {
            world.on_path("path_create_directory", "target").unwrap();
            create(&mut world, "file");
            world.symlink("target", "to_dir").unwrap();
            world.symlink("file", "to_file").unwrap();
            assert_eq!(world.open_as(ROOT, 0, "to_dir", 0, 0, 0), Err(Errno::LOOP));
            assert_eq!(world.open_as(ROOT, 0, "to_dir", DIRECTORY, 0, 0), Err(Errno::NOTDIR));
            assert!(world.open_as(ROOT, FOLLOW, "to_dir", DIRECTORY, 0, 0).is_ok());
            assert!(world.open_as(ROOT, 0, "to_dir/", 0, 0, 0).is_ok());
            assert_eq!(world.open("to_file", 0), Err(Errno::LOOP));
            assert_eq!(world.open_as(ROOT, FOLLOW, "to_file", DIRECTORY, 0, 0), Err(Errno::NOTDIR));
            assert!(world.open_as(ROOT, FOLLOW, "to_file", 0, READ, 0).is_ok());
            create(&mut world, "to_dir/inside");
            assert!(world.stat("target/inside", 0).is_ok());
            assert_eq!(world.stat("to_file", 0).unwrap().filetype, LINK);
            assert_eq!(world.stat("to_file", FOLLOW).unwrap().filetype, FILE);
            assert_eq!(world.readlink("to_file"), Ok(b"file".to_vec()));
            assert_eq!(world.readlink("file"), Err(Errno::INVAL));
        });
    }

    #[test]
    fn links_to_links_are_followed_and_circles_are_not() {
        both_ways(|mut world| {
            world.on_path("path_create_directory", "a").unwrap();
            world.on_path("path_create_directory", "a/b").unwrap();
            create(&mut world, "a/b/file");
            world.symlink("../a/./b", "a/up").unwrap();
            world.symlink("a/up/../up/", "around").unwrap();
            // `a/up` leads to `a/b`, whose parent is `a`.
            assert!(world.stat("around/file", 0).is_ok());
            world.symlink("me", "me").unwrap();
            assert_eq!(world.open_as(ROOT, FOLLOW, "me", 0, 0, 0), Err(Errno::LOOP));
            assert_eq!(world.open_as(ROOT, 0, "me", 0, 0, 0), Err(Errno::LOOP));
            assert_eq!(world.stat("me/x", FOLLOW), Err(Errno::LOOP));
        });
    }

    #[test]
    fn dangling_links_create_what_they_name() {
        both_ways(|mut world| {
            world.symlink("later", "link").unwrap();
            assert_eq!(world.open_as(ROOT, FOLLOW, "link", 0, READ, 0), Err(Errno::NOENT));
            assert_eq!(world.open_as(ROOT, 0, "link", 0, READ, 0), Err(Errno::LOOP));
            assert_eq!(
                world.open_as(ROOT, FOLLOW, "link", CREAT | EXCL, READ | WRITE, 0),
                Err(Errno::EXIST)
            );
            assert!(world.open_as(ROOT, FOLLOW, "link", CREAT, READ | WRITE, 0).is_ok());
            assert_eq!(world.stat("later", 0).unwrap().filetype, FILE);
        });
    }

    #[test]
    fn directories_are_made_and_removed() {
        both_ways(|mut world| {
            world.on_path("path_create_directory", "dir").unwrap();
            assert_eq!(world.on_path("path_create_directory", "dir"), Err(Errno::EXIST));
            create(&mut world, "dir/file");
            assert_eq!(world.on_path("path_remove_directory", "dir"), Err(Errno::NOTEMPTY));
            assert_eq!(world.on_path("path_remove_directory", "dir/file"), Err(Errno::NOTDIR));
            assert_eq!(world.on_path("path_remove_directory", "dir/file/"), Err(Errno::NOTDIR));
            assert_eq!(world.on_path("path_unlink_file", "dir"), Err(Errno::ISDIR));
            assert_eq!(world.on_path("path_unlink_file", "dir/"), Err(Errno::ISDIR));
            assert_eq!(world.on_path("path_unlink_file", "dir/file/"), Err(Errno::NOTDIR));
            world.on_path("path_unlink_file", "dir/file").unwrap();
            assert_eq!(world.on_path("path_remove_directory", "dir/"), Ok(()));
            assert!(world.on_path("path_remove_directory", ".").is_err());
            assert!(world.on_path("path_create_directory", ".").is_err());
        });
    }

    #[test]
    fn names_of_links_are_removed_not_what_they_name() {
        both_ways(|mut world| {
            create(&mut world, "file");
            world.symlink("file", "link").unwrap();
            world.on_path("path_unlink_file", "link").unwrap();
            assert!(world.stat("file", 0).is_ok());
            world.on_path("path_create_directory", "dir").unwrap();
            world.symlink("dir", "link").unwrap();
            assert_eq!(world.on_path("path_remove_directory", "link"), Err(Errno::NOTDIR));
            assert_eq!(world.on_path("path_unlink_file", "link/"), Err(Errno::NOTDIR));
            assert!(world.stat("dir", 0).is_ok());
        });
    }

    #[test]
    fn renaming_replaces_only_its_like() {
        both_ways(|mut world| {
            world.on_path("path_create_directory", "source").unwrap();
            world.rename("source/", "target").unwrap();
            world.rename("target", "source/").unwrap();
            world.rename("source/", "target/").unwrap();
            world.rename("target", "source").unwrap();
            world.on_path("path_create_directory", "target").unwrap();
            world.rename("source", "target").unwrap();
            world.on_path("path_create_directory", "source").unwrap();
            create(&mut world, "target/file");
            assert_eq!(world.rename("source", "target"), Err(Errno::NOTEMPTY));
            assert_eq!(world.rename("source", "target/file"), Err(Errno::NOTDIR));
            create(&mut world, "file");
            assert_eq!(world.rename("file", "source"), Err(Errno::ISDIR));
            assert_eq!(world.rename("file/", "other"), Err(Errno::NOTDIR));
            assert_eq!(world.rename("source", "source/beneath"), Err(Errno::INVAL));
            world.rename("file", "target/file").unwrap();
            assert_eq!(world.stat("file", 0), Err(Errno::NOENT));
            assert!(world.rename(".", "x").is_err());
        });
    }

    #[test]
    fn files_are_given_second_names() {
        both_ways(|mut world| {
            create(&mut world, "file");
            world.link("file", "link", 0).unwrap();
            assert_eq!(world.stat("file", 0).unwrap(), world.stat("link", 0).unwrap());
            assert_eq!(world.stat("link", 0).unwrap().nlink, 2);
            assert_eq!(world.link("file", "link", 0), Err(Errno::EXIST));
            assert_eq!(world.link("file", "file", 0), Err(Errno::EXIST));
            assert_eq!(world.link("file", "new/", 0), Err(Errno::NOENT));
            assert_eq!(world.link("file/", "new", 0), Err(Errno::NOTDIR));
            world.on_path("path_create_directory", "dir").unwrap();
            assert_eq!(world.link("dir", "new", 0), Err(Errno::PERM));
            assert_eq!(world.link("dir/", "new", 0), Err(Errno::PERM));
            assert_eq!(world.link("file", "dir", 0), Err(Errno::EXIST));
            world.symlink("nowhere", "dangling").unwrap();
            world.link("dangling", "second", 0).unwrap();
            assert_eq!(world.readlink("second"), Ok(b"nowhere".to_vec()));
            assert_eq!(world.link("file", "dangling", 0), Err(Errno::EXIST));
            assert_eq!(world.link("dangling", "third", FOLLOW), Err(Errno::INVAL));
        });
    }

    #[test]
    fn symbolic_links_are_made_where_nothing_is() {
        both_ways(|mut world| {
            assert_eq!(world.symlink("source", "target/"), Err(Errno::NOENT));
            world.on_path("path_create_directory", "target").unwrap();
            assert_eq!(world.symlink("source", "target"), Err(Errno::EXIST));
            assert_eq!(world.symlink("source", "target/"), Err(Errno::EXIST));
            create(&mut world, "file");
            assert!(matches!(world.symlink("source", "file/"), Err(Errno::NOTDIR | Errno::EXIST)));
            world.symlink("some/where", "link").unwrap();
            world.put(NAME, b"link");
            world.put(BUFFER, b"----------");
            world.call("path_readlink", &[ROOT, NAME, 4, BUFFER, 4, RESULT]).unwrap();
            assert_eq!((world.u32(RESULT), world.bytes(BUFFER, 6)), (4, &b"some--"[..]));
        });
    }

    #[test]
    fn times_of_links_and_of_what_they_name_are_set_apart() {
        both_ways(|mut world| {
            create(&mut world, "file");
            world.symlink("file", "link").unwrap();
            let (file, link) = (world.stat("file", 0).unwrap(), world.stat("link", 0).unwrap());
            let mut set = |lookup, mtim| {
                world.put(NAME, b"link");
                world
                    .call("path_filestat_set_times", &[ROOT, lookup, NAME, 4, 0, mtim, 1 << 2])
                    .unwrap();
                (world.stat("file", 0).unwrap().mtim, world.stat("link", 0).unwrap().mtim)
            };
            assert_eq!(set(0, link.mtim - 200), (file.mtim, link.mtim - 200));
            assert_eq!(set(FOLLOW, 77), (77, link.mtim - 200));
            let both =
                world.call("path_filestat_set_times", &[ROOT, 0, NAME, 4, 0, 0, 1 << 2 | 1 << 3]);
            assert_eq!(both, Err(Errno::INVAL));
        });
    }

    #[test]
    fn no_more_is_open_than_the_host_allows() {
        let limited = |builder: super::super::WasiCtxBuilder| builder.max_descriptors(2);
        let mut world = World::rooted_with(Lookup::Kernel, Permissions::ReadWrite, limited);
        let first = world.open("file", CREAT).unwrap();
        world.open("file", 0).unwrap();
        assert_eq!(world.open("file", 0), Err(Errno::MFILE));
        world.close(first).unwrap();
        assert_eq!(world.open("file", 0), Ok(first));
    }

    #[test]
    fn files_live_on_without_their_names() {
        both_ways(|mut world| {
            let fd = world.open("file", CREAT).unwrap();
            world.on_path("path_unlink_file", "file").unwrap();
            world.write(fd, b"still").unwrap();
            assert_eq!(world.read_at(fd, 9, 0), Ok(b"still".to_vec()));
            assert_eq!(world.fstat(fd).unwrap().nlink, 0);
            create(&mut world, "file");
            assert_eq!(world.stat("file", 0).unwrap().size, 0);
        });
    }

    #[test]
    fn rights_given_up_bind_what_is_opened_later() {
        both_ways(|mut world| {
            create(&mut world, "file");
            let root = world.fdstat(ROOT).unwrap();
            let less =
                root.base & !Rights::PATH_FILESTAT_SET_SIZE.0 & !Rights::PATH_CREATE_DIRECTORY.0;
            let inherited = root.inheriting & !WRITE & !Rights::PATH_UNLINK_FILE.0;
            world.call("fd_fdstat_set_rights", &[ROOT, less, inherited]).unwrap();
            assert_eq!(world.open_as(ROOT, 0, "file", TRUNC, 0, 0), Err(Errno::PERM));
            assert_eq!(world.on_path("path_create_directory", "dir"), Err(Errno::PERM));
            assert_eq!(world.open("file", 0), Err(Errno::PERM));
            let fd = world.open_as(ROOT, 0, "file", 0, READ, 0).unwrap();
            assert_eq!(world.fdstat(fd).unwrap().base & (READ | WRITE), READ);
            let below = world.open_as(ROOT, 0, ".", DIRECTORY, READ, 0).unwrap();
            world.put(NAME, b"file");
            assert_eq!(world.call("path_unlink_file", &[below, NAME, 4]), Err(Errno::PERM));
        });
    }

    #[test]
    fn nothing_changes_beneath_a_directory_that_is_given_to_read() {
        for lookup in [Lookup::Kernel, Lookup::Walk] {
            let mut world = World::rooted_with(lookup, Permissions::ReadOnly, |builder| builder);
            fs::create_dir(world.root().join("dir")).unwrap();
            fs::write(world.root().join("dir/file"), "abc").unwrap();
            let dir = world.open_as(ROOT, 0, "dir", DIRECTORY, READ, 0).unwrap();
            for (fd, path) in [(ROOT, "dir/file"), (dir, "file")] {
                assert_eq!(world.open_as(fd, 0, path, 0, READ | WRITE, 0), Err(Errno::PERM));
                assert_eq!(world.open_as(fd, 0, path, CREAT, READ, 0), Err(Errno::PERM));
                assert_eq!(world.open_as(fd, 0, path, TRUNC, READ, 0), Err(Errno::PERM));
                let file = world.open_as(fd, 0, path, 0, READ, 0).unwrap();
                assert_eq!(world.read(file, 9), Ok(b"abc".to_vec()));
                assert_eq!(world.call("fd_filestat_set_size", &[file, 0]), Err(Errno::BADF));
                assert_eq!(world.call("fd_filestat_set_times", &[file, 0, 0, 1]), Err(Errno::BADF));
                assert_eq!(world.call("fd_allocate", &[file, 0, 10]), Err(Errno::BADF));
            }
            for call in ["path_create_directory", "path_remove_directory", "path_unlink_file"] {
                assert_eq!(world.on_path(call, "dir/file"), Err(Errno::PERM), "{call}");
            }
            assert_eq!(world.rename("dir/file", "x"), Err(Errno::PERM));
            assert_eq!(world.link("dir/file", "x", 0), Err(Errno::PERM));
            assert_eq!(world.symlink("dir/file", "x"), Err(Errno::PERM));
            assert_eq!(
                world.call("path_filestat_set_times", &[ROOT, 0, NAME, 1, 0, 0, 1]),
                Err(Errno::PERM)
            );
            assert_eq!(world.call("fd_filestat_set_times", &[ROOT, 0, 0, 1]), Err(Errno::PERM));
            assert_eq!(world.call("fd_filestat_set_times", &[dir, 0, 0, 1]), Err(Errno::PERM));
            assert_eq!(world.stat("dir/file", 0).unwrap().size, 3);
        }
    }
}
