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
mod tests;
