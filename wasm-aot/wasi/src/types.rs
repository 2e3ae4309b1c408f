//! The types that guest and host exchange: flags, tags, and records laid out byte by byte.
//!
//! Numbers are little-endian, records have the offsets of the interface's C header for 32-bit
//! targets. Flags and tags arrive as whole 32-bit values; bits without a meaning are refused, as
//! the interface requires.

use super::errno::Errno;
use rustix::fs::{FileType, Stat};

/// Rights of a descriptor: the calls that it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Rights(pub(crate) u64);

impl Rights {
    pub(crate) const FD_DATASYNC: Self = Self(1);
    pub(crate) const FD_READ: Self = Self(1 << 1);
    pub(crate) const FD_SEEK: Self = Self(1 << 2);
    pub(crate) const FD_FDSTAT_SET_FLAGS: Self = Self(1 << 3);
    pub(crate) const FD_SYNC: Self = Self(1 << 4);
    pub(crate) const FD_TELL: Self = Self(1 << 5);
    pub(crate) const FD_WRITE: Self = Self(1 << 6);
    pub(crate) const FD_ADVISE: Self = Self(1 << 7);
    pub(crate) const FD_ALLOCATE: Self = Self(1 << 8);
    pub(crate) const PATH_CREATE_DIRECTORY: Self = Self(1 << 9);
    pub(crate) const PATH_CREATE_FILE: Self = Self(1 << 10);
    pub(crate) const PATH_LINK_SOURCE: Self = Self(1 << 11);
    pub(crate) const PATH_LINK_TARGET: Self = Self(1 << 12);
    pub(crate) const PATH_OPEN: Self = Self(1 << 13);
    pub(crate) const FD_READDIR: Self = Self(1 << 14);
    pub(crate) const PATH_READLINK: Self = Self(1 << 15);
    pub(crate) const PATH_RENAME_SOURCE: Self = Self(1 << 16);
    pub(crate) const PATH_RENAME_TARGET: Self = Self(1 << 17);
    pub(crate) const PATH_FILESTAT_GET: Self = Self(1 << 18);
    pub(crate) const PATH_FILESTAT_SET_SIZE: Self = Self(1 << 19);
    pub(crate) const PATH_FILESTAT_SET_TIMES: Self = Self(1 << 20);
    pub(crate) const FD_FILESTAT_GET: Self = Self(1 << 21);
    pub(crate) const FD_FILESTAT_SET_SIZE: Self = Self(1 << 22);
    pub(crate) const FD_FILESTAT_SET_TIMES: Self = Self(1 << 23);
    pub(crate) const PATH_SYMLINK: Self = Self(1 << 24);
    pub(crate) const PATH_REMOVE_DIRECTORY: Self = Self(1 << 25);
    pub(crate) const PATH_UNLINK_FILE: Self = Self(1 << 26);
    pub(crate) const POLL_FD_READWRITE: Self = Self(1 << 27);
    const ALL: u64 = (1 << 30) - 1;

    /// The rights that a file can have.
    pub(crate) const FILE: Self = Self(
        Self::FD_DATASYNC.0
            | Self::FD_READ.0
            | Self::FD_SEEK.0
            | Self::FD_FDSTAT_SET_FLAGS.0
            | Self::FD_SYNC.0
            | Self::FD_TELL.0
            | Self::FD_WRITE.0
            | Self::FD_ADVISE.0
            | Self::FD_ALLOCATE.0
            | Self::FD_FILESTAT_GET.0
            | Self::FD_FILESTAT_SET_SIZE.0
            | Self::FD_FILESTAT_SET_TIMES.0
            | Self::POLL_FD_READWRITE.0,
    );

    /// The rights that a directory can have. The rights of files are not among them: C libraries
    /// recognise a directory by the absence of `FD_SEEK`.
    pub(crate) const DIRECTORY: Self = Self(
        Self::PATH_CREATE_DIRECTORY.0
            | Self::PATH_CREATE_FILE.0
            | Self::PATH_LINK_SOURCE.0
            | Self::PATH_LINK_TARGET.0
            | Self::PATH_OPEN.0
            | Self::FD_READDIR.0
            | Self::PATH_READLINK.0
            | Self::PATH_RENAME_SOURCE.0
            | Self::PATH_RENAME_TARGET.0
            | Self::PATH_FILESTAT_GET.0
            | Self::PATH_FILESTAT_SET_SIZE.0
            | Self::PATH_FILESTAT_SET_TIMES.0
            | Self::FD_FILESTAT_GET.0
            | Self::FD_FILESTAT_SET_TIMES.0
            | Self::FD_SYNC.0
            | Self::FD_DATASYNC.0
            | Self::PATH_SYMLINK.0
            | Self::PATH_REMOVE_DIRECTORY.0
            | Self::PATH_UNLINK_FILE.0,
    );

    pub(crate) fn from_raw(raw: u64) -> Result<Self, Errno> {
        if raw & !Self::ALL == 0 { Ok(Self(raw)) } else { Err(Errno::INVAL) }
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A set of flags of at most 16 bits; converted from a guest's value if all of its bits have a
/// meaning.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $flag:ident = $bit:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub(crate) struct $name(pub(crate) u16);

        impl $name {
            $($(#[$doc])* pub(crate) const $flag: Self = Self(1 << $bit);)*

            pub(crate) fn from_raw(raw: u32) -> Result<Self, Errno> {
                const ALL: u32 = $((1 << $bit))|*;
                if raw & !ALL == 0 { Ok(Self(raw as u16)) } else { Err(Errno::INVAL) }
            }

            pub(crate) const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }
    };
}

flags! {
    /// How a descriptor behaves.
    FdFlags {
        APPEND = 0,
        DSYNC = 1,
        NONBLOCK = 2,
        RSYNC = 3,
        SYNC = 4,
    }
}

impl FdFlags {
    /// The flags that cannot be changed after a file was opened.
    pub(crate) const fn synchronous(self) -> u16 {
        self.0 & (Self::DSYNC.0 | Self::RSYNC.0 | Self::SYNC.0)
    }
}

flags! {
    /// How to open.
    OFlags {
        CREAT = 0,
        DIRECTORY = 1,
        EXCL = 2,
        TRUNC = 3,
    }
}

flags! {
    /// How to look up the last name of a path.
    LookupFlags {
        SYMLINK_FOLLOW = 0,
    }
}

flags! {
    /// Which times to set, and to what.
    FstFlags {
        ATIM = 0,
        ATIM_NOW = 1,
        MTIM = 2,
        MTIM_NOW = 3,
    }
}

flags! {
    /// How the time of a clock's subscription is interpreted.
    ClockFlags {
        ABSTIME = 0,
    }
}

/// The type of the file that a descriptor or a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Filetype {
    Unknown = 0,
    BlockDevice = 1,
    CharacterDevice = 2,
    Directory = 3,
    RegularFile = 4,
    SocketStream = 6,
    SymbolicLink = 7,
}

impl From<FileType> for Filetype {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::RegularFile,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::SymbolicLink,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Socket => Self::SocketStream,
            // The interface has no number for pipes.
            FileType::Fifo | FileType::Unknown => Self::Unknown,
        }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filestat {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) filetype: Filetype,
    pub(crate) nlink: u64,
    pub(crate) size: u64,
    pub(crate) atim: u64,
    pub(crate) mtim: u64,
    pub(crate) ctim: u64,
}

impl Filestat {
    pub(crate) const SIZE: u32 = 64;

    /// The attributes of a stream that is not a file.
    pub(crate) const fn of_stream() -> Self {
        Self {
            dev: 0,
            ino: 0,
            filetype: Filetype::Unknown,
            nlink: 0,
            size: 0,
            atim: 0,
            mtim: 0,
            ctim: 0,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE as usize] {
        let mut bytes = [0; Self::SIZE as usize];
        put(&mut bytes, 0, self.dev.to_le_bytes());
        put(&mut bytes, 8, self.ino.to_le_bytes());
        bytes[16] = self.filetype as u8;
        put(&mut bytes, 24, self.nlink.to_le_bytes());
        put(&mut bytes, 32, self.size.to_le_bytes());
        put(&mut bytes, 40, self.atim.to_le_bytes());
        put(&mut bytes, 48, self.mtim.to_le_bytes());
        put(&mut bytes, 56, self.ctim.to_le_bytes());
        bytes
    }
}

impl From<&Stat> for Filestat {
    fn from(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            filetype: FileType::from_raw_mode(stat.st_mode).into(),
            nlink: stat.st_nlink,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            atim: nanoseconds(stat.st_atime, stat.st_atime_nsec),
            mtim: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ctim: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// A time in one number. Times before 1970 cannot be represented and become zero; times that are
/// too late become the latest one.
pub(crate) fn nanoseconds(seconds: i64, rest: impl TryInto<u64>) -> u64 {
    let Ok(seconds) = u64::try_from(seconds) else { return 0 };
    seconds.saturating_mul(1_000_000_000).saturating_add(rest.try_into().unwrap_or(0))
}

/// Attributes of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fdstat {
    pub(crate) filetype: Filetype,
    pub(crate) flags: FdFlags,
    pub(crate) base: Rights,
    pub(crate) inheriting: Rights,
}

impl Fdstat {
    pub(crate) const SIZE: u32 = 24;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE as usize] {
        let mut bytes = [0; Self::SIZE as usize];
        bytes[0] = self.filetype as u8;
        put(&mut bytes, 2, self.flags.0.to_le_bytes());
        put(&mut bytes, 8, self.base.0.to_le_bytes());
        put(&mut bytes, 16, self.inheriting.0.to_le_bytes());
        bytes
    }
}

/// The header of a name in a directory's listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dirent {
    pub(crate) next: u64,
    pub(crate) ino: u64,
    pub(crate) namlen: u32,
    pub(crate) filetype: Filetype,
}

impl Dirent {
    pub(crate) const SIZE: u32 = 24;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE as usize] {
        let mut bytes = [0; Self::SIZE as usize];
        put(&mut bytes, 0, self.next.to_le_bytes());
        put(&mut bytes, 8, self.ino.to_le_bytes());
        put(&mut bytes, 16, self.namlen.to_le_bytes());
        bytes[20] = self.filetype as u8;
        bytes
    }
}

/// The event to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Clock { id: u32, timeout: u64, flags: u16 },
    Readable(u32),
    Writable(u32),
}

/// An event to wait for, and the value that identifies it when it has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) userdata: u64,
    pub(crate) awaited: Awaited,
}

impl Subscription {
    pub(crate) const SIZE: u32 = 48;

    pub(crate) fn from_bytes(bytes: &[u8; Self::SIZE as usize]) -> Result<Self, Errno> {
        let awaited = match bytes[8] {
            0 => Awaited::Clock {
                id: u32::from_le_bytes(take(bytes, 16)),
                timeout: u64::from_le_bytes(take(bytes, 24)),
                flags: u16::from_le_bytes(take(bytes, 40)),
            },
            1 => Awaited::Readable(u32::from_le_bytes(take(bytes, 16))),
            2 => Awaited::Writable(u32::from_le_bytes(take(bytes, 16))),
            _ => return Err(Errno::INVAL),
        };
        Ok(Self { userdata: u64::from_le_bytes(take(bytes, 0)), awaited })
    }
}

/// An event that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) userdata: u64,
    pub(crate) errno: Errno,
    pub(crate) kind: u8,
    pub(crate) bytes: u64,
    pub(crate) hangup: bool,
}

impl Event {
    pub(crate) const SIZE: u32 = 32;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE as usize] {
        let mut bytes = [0; Self::SIZE as usize];
        put(&mut bytes, 0, self.userdata.to_le_bytes());
        put(&mut bytes, 8, self.errno.number().to_le_bytes());
        bytes[10] = self.kind;
        put(&mut bytes, 16, self.bytes.to_le_bytes());
        put(&mut bytes, 24, u16::from(self.hangup).to_le_bytes());
        bytes
    }
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_without_meaning_are_refused() {
        assert_eq!(FdFlags::from_raw(0b1_1111).map(|flags| flags.0), Ok(0b1_1111));
        assert_eq!(FdFlags::from_raw(0b10_0000), Err(Errno::INVAL));
        assert_eq!(OFlags::from_raw(1 << 16), Err(Errno::INVAL));
        assert_eq!(Rights::from_raw(1 << 30), Err(Errno::INVAL));
    }

    #[test]
    fn subscriptions_are_read_at_the_offsets_of_the_header() {
        let mut bytes = [0; 48];
        put(&mut bytes, 0, 7u64.to_le_bytes());
        put(&mut bytes, 16, 1u32.to_le_bytes());
        put(&mut bytes, 24, 99u64.to_le_bytes());
        put(&mut bytes, 40, 1u16.to_le_bytes());
        let clock = Awaited::Clock { id: 1, timeout: 99, flags: 1 };
        assert_eq!(
            Subscription::from_bytes(&bytes),
            Ok(Subscription { userdata: 7, awaited: clock })
        );
        bytes[8] = 3;
        assert_eq!(Subscription::from_bytes(&bytes), Err(Errno::INVAL));
    }

    #[test]
    fn times_that_guests_cannot_know_are_clamped() {
        assert_eq!(nanoseconds(-1, 5u64), 0);
        assert_eq!(nanoseconds(2, 5u64), 2_000_000_005);
        assert_eq!(nanoseconds(i64::MAX, 0u64), u64::MAX);
    }
}
