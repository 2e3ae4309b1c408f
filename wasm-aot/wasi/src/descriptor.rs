//! Descriptors: the objects that a guest's numbers refer to.
//!
//! | kind | backed by | may keep a guest waiting |
//! |---|---|---|
//! | [`File`] | a descriptor of the host, opened by the guest or lent to it | unless it is a regular file or a disk |
//! | [`Directory`] | a descriptor of the host: the capability for all beneath it | never |
//! | [`Input`], [`Output`] | memory of the embedder | never |
//!
//! A file that the guest opened has its own open file description, whose position and flags are in
//! the kernel. A lent one shares these with the host and other processes: its flags are stored here
//! and emulated, since setting them would change the terminal of the user's shell.

use super::errno::Errno;
use super::positions::Positions;
use super::stream::Buffer;
use super::types::{FdFlags, Fdstat, Filestat, Filetype, Rights};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;

/// An open file of the host.
#[derive(Debug)]
pub(crate) struct File {
    fd: OwnedFd,
    pub(crate) filetype: Filetype,
    /// Reading or writing may wait for another process.
    pub(crate) waits: bool,
    /// The open file description is shared with the host.
    lent: bool,
    flags: FdFlags,
}

impl File {
    /// A file that was opened for the guest.
    pub(crate) fn opened(fd: OwnedFd, filetype: Filetype, flags: FdFlags) -> Self {
        Self { fd, filetype, waits: waits(filetype), lent: false, flags }
    }

    /// A file that the host lends.
    pub(crate) fn lent(fd: OwnedFd) -> Result<Self, Errno> {
        let filetype = Filestat::from(&rustix::fs::fstat(&fd)?).filetype;
        let append = rustix::fs::fcntl_getfl(&fd)?.contains(OFlags::APPEND);
        let flags = if append { FdFlags::APPEND } else { FdFlags::default() };
        Ok(Self { fd, filetype, waits: waits(filetype), lent: true, flags })
    }

    /// Changes the flags that can be changed after a file was opened.
    pub(crate) fn set_flags(&mut self, flags: FdFlags) -> Result<(), Errno> {
        if flags.synchronous() != self.flags.synchronous() {
            return Err(Errno::INVAL);
        }
        if self.lent && flags.contains(FdFlags::APPEND) != self.flags.contains(FdFlags::APPEND) {
            return Err(Errno::NOTSUP);
        }
        if !self.lent {
            let append =
                if flags.contains(FdFlags::APPEND) { OFlags::APPEND } else { OFlags::empty() };
            rustix::fs::fcntl_setfl(&self.fd, append)?;
        }
        self.flags = flags;
        Ok(())
    }

    /// Whether calls fail instead of waiting.
    pub(crate) fn impatient(&self) -> bool {
        self.flags.contains(FdFlags::NONBLOCK)
    }

    /// The rights of a lent stream. Terminals cannot seek: C libraries identify them by that.
    pub(crate) fn lent_rights(&self, direction: Rights) -> Rights {
        let stream = direction
            .or(Rights::POLL_FD_READWRITE)
            .or(Rights::FD_FILESTAT_GET)
            .or(Rights::FD_FDSTAT_SET_FLAGS)
            .or(Rights::FD_SYNC)
            .or(Rights::FD_DATASYNC);
        let seeks = match self.filetype {
            Filetype::RegularFile | Filetype::BlockDevice => true,
            Filetype::CharacterDevice => !rustix::termios::isatty(&self.fd),
            _ => false,
        };
        if seeks { stream.or(Rights::FD_SEEK).or(Rights::FD_TELL) } else { stream }
    }
}

/// Whether files of a kind may make their readers and writers wait for another process.
fn waits(filetype: Filetype) -> bool {
    !matches!(filetype, Filetype::RegularFile | Filetype::BlockDevice | Filetype::Directory)
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A directory: the capability for everything beneath it.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) fd: OwnedFd,
    /// Its name for the guest, if it was preopened.
    pub(crate) preopened: Option<String>,
    /// Whether anything beneath it may be changed.
    pub(crate) writable: bool,
    /// The positions of its listing.
    pub(crate) positions: Positions,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes that can be read once.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    taken: usize,
}

impl Input {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, taken: 0 }
    }

    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(crate) fn take(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.bytes.len());
    }
}

/// A destination of written bytes.
#[derive(Debug)]
pub(crate) enum Output {
    Discard,
    Buffer(Buffer),
}

/// The object that a guest's number refers to.
#[derive(Debug)]
pub(crate) enum Descriptor {
    File(File),
    Directory(Directory),
    Input(Input),
    Output(Output),
}

impl Descriptor {
    pub(crate) fn filetype(&self) -> Filetype {
        match self {
            Self::File(file) => file.filetype,
            Self::Directory(_) => Filetype::Directory,
            Self::Input(_) | Self::Output(_) => Filetype::Unknown,
        }
    }

    fn flags(&self) -> FdFlags {
        match self {
            Self::File(file) => file.flags,
            _ => FdFlags::default(),
        }
    }

    /// The host's descriptor that implements it.
    pub(crate) fn host(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::File(file) => Some(file.as_fd()),
            Self::Directory(directory) => Some(directory.as_fd()),
            Self::Input(_) | Self::Output(_) => None,
        }
    }
}

/// A descriptor, and its rights.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) descriptor: Descriptor,
    /// Its rights when it was opened.
    granted: Rights,
    /// Its present rights, without those that were dropped.
    base: Rights,
    /// The rights that descriptors opened through it can have.
    inheriting: Rights,
}

impl Entry {
    pub(crate) fn new(descriptor: Descriptor, base: Rights, inheriting: Rights) -> Self {
        Self { descriptor, granted: base, base, inheriting }
    }

    pub(crate) fn inheriting(&self) -> Rights {
        self.inheriting
    }

    pub(crate) fn has(&self, rights: Rights) -> bool {
        self.base.contains(rights)
    }

    /// Refuses a call for which the descriptor lacks the rights: because of its kind, or because
    /// the rights were dropped.
    pub(crate) fn allow(&self, rights: Rights) -> Result<(), Errno> {
        match (self.base.contains(rights), self.granted.contains(rights)) {
            (true, _) => Ok(()),
            (false, true) => Err(Errno::NOTCAPABLE),
            (false, false) => Err(Errno::BADF),
        }
    }

    /// Drops rights, which cannot be restored.
    pub(crate) fn restrict(&mut self, base: Rights, inheriting: Rights) -> Result<(), Errno> {
        if !self.base.contains(base) || !self.inheriting.contains(inheriting) {
            return Err(Errno::NOTCAPABLE);
        }
        self.base = base;
        self.inheriting = inheriting;
        Ok(())
    }

    pub(crate) fn stat(&self) -> Fdstat {
        let descriptor = &self.descriptor;
        Fdstat {
            filetype: descriptor.filetype(),
            flags: descriptor.flags(),
            base: self.base,
            inheriting: self.inheriting,
        }
    }
}
