//! Opening beneath a directory, and nowhere else.
//!
//! A directory's descriptor is the capability for everything beneath it. A path may try to leave by
//! `..`, by a slash at its beginning, or by a symbolic link that does either; and another process
//! may turn a directory into a link, or move it elsewhere, at any time. Checking first and opening
//! afterwards is therefore not enough: the lookup itself must not leave the directory.
//!
//! `openat2` with `RESOLVE_BENEATH` is such a lookup (Linux 5.6; man page openat2(2)). Otherwise
//! (older kernels, filters that refuse the call) [`walk`] looks up one name after the other: each
//! is opened without following links, links are read and their names walked in turn, and `..` goes
//! back to the descriptor that was left, never to the kernel's current parent. So no step can
//! leave, whatever other processes do between steps.
//!
//! Both ways return "operation not permitted" to a guest that tries to leave.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2, readlinkat};
use rustix::io::{Errno, Result};
use std::collections::VecDeque;

/// How many links a lookup follows: as many as the kernel.
const MAX_LINKS: usize = 40;

/// How names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// By one system call that stays beneath.
    Kernel,
    /// Name by name.
    Walk,
}

impl Lookup {
    /// The better one of those that this kernel supports.
    pub(crate) fn available(directory: BorrowedFd<'_>) -> Self {
        match kernel(directory, b".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(_) => Self::Kernel,
            Err(_) => Self::Walk,
        }
    }

    /// Opens the object that a path names beneath a directory. The last name is followed unless
    /// `flags` hold `NOFOLLOW`.
    pub(crate) fn open(
        self,
        directory: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = match self {
            Self::Kernel => kernel(directory, path, flags, mode),
            Self::Walk => walk(directory, path, flags, mode),
        };
        // An attempt to leave is reported like a different device.
        opened.map_err(|errno| if errno == Errno::XDEV { Errno::PERM } else { errno })
    }

    /// The directory that holds a path's last name, and that name, with the slashes that follow it.
    /// The name is for calls that do not follow it: those that create, remove and rename.
    pub(crate) fn parent<'a>(
        self,
        directory: BorrowedFd<'a>,
        path: &'a [u8],
    ) -> Result<(Parent<'a>, &'a [u8])> {
        let named =
            path.iter().rposition(|&byte| byte != b'/').map_or(&path[..0], |last| &path[..=last]);
        if named.is_empty() {
            return Err(if path.is_empty() { Errno::NOENT } else { Errno::PERM });
        }
        let Some(slash) = named.iter().rposition(|&byte| byte == b'/') else {
            return Ok((Parent::Given(directory), path));
        };
        let parent =
            self.open(directory, &path[..=slash], OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok((Parent::Opened(parent), &path[slash + 1..]))
    }
}

/// The directory that holds a name.
#[derive(Debug)]
pub(crate) enum Parent<'a> {
    Given(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Given(fd) => *fd,
            Self::Opened(fd) => fd.as_fd(),
        }
    }
}

fn kernel(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    const RACES: usize = 64;
    // The kernel refuses a mode if no file is created, and flags that have no meaning for `O_PATH`.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    let flags = if flags.contains(OFlags::PATH) { flags - OFlags::NOCTTY } else { flags };
    for _ in 0..RACES {
        // It fails if something was renamed during its lookup of `..`.
        match openat2(
            directory,
            path,
            flags,
            mode,
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        ) {
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    walk(directory, path, flags, mode)
}

fn walk(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let mut walk = Walk { root: directory, passed: Vec::new(), ahead: VecDeque::new(), links: 0 };
    walk.ahead_of(path)?;
    loop {
        let Some(name) = walk.ahead.pop_front() else { return Err(Errno::NOENT) };
        let last = walk.ahead.is_empty();
        match (name.as_slice(), last) {
            (b".", false) => {}
            (b"..", _) => {
                walk.passed.pop().ok_or(Errno::XDEV)?;
                // The directory to which `..` returned is still to be opened.
                if last {
                    walk.ahead.push_back(b".".to_vec());
                }
            }
            (_, false) => walk.enter(&name)?,
            (b".", true) => return openat(walk.here(), ".", flags | OFlags::NOFOLLOW, mode),
            (_, true) => {
                // An exclusive creation does not follow links either.
                let stays = flags.contains(OFlags::NOFOLLOW)
                    || flags.contains(OFlags::CREATE | OFlags::EXCL);
                if stays || !walk.follow(&name)? {
                    return openat(walk.here(), name.as_slice(), flags | OFlags::NOFOLLOW, mode);
                }
            }
        }
    }
}

/// A lookup in progress.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// The directories entered and not left, from the root on.
    passed: Vec<OwnedFd>,
    ahead: VecDeque<Vec<u8>>,
    links: usize,
}

impl Walk<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.passed.last().map_or(self.root, AsFd::as_fd)
    }

    /// Puts the names of a path before the remaining ones. A slash at its end requires a directory,
    /// as if a dot followed.
    fn ahead_of(&mut self, path: &[u8]) -> Result<()> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        if path.ends_with(b"/") && self.ahead.is_empty() {
            self.ahead.push_front(b".".to_vec());
        }
        for name in path.rsplit(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            self.ahead.push_front(name.to_vec());
        }
        Ok(())
    }

    /// Walks the target of a name instead of the name, if it is a link.
    fn follow(&mut self, name: &[u8]) -> Result<bool> {
        let target = match readlinkat(self.here(), name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        self.ahead_of(&target).map(|()| true)
    }

    /// Enters a directory, or walks the target of its name.
    fn enter(&mut self, name: &[u8]) -> Result<()> {
        if self.follow(name)? {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entered = openat(self.here(), name, flags, Mode::empty())?;
        self.passed.push(entered);
        Ok(())
    }
}
