//! Outcomes: how a call ends.

use super::errno::Errno;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returns this to the guest.
    Errno(Errno),
    /// The guest ends itself, with this code; nothing is returned to it.
    Exit(u32),
    /// The call was blocked when the host wanted the guest to stop: nothing is returned to it.
    Interrupted,
    /// The call was blocked when the host wanted the guest's thread for something: the host does
    /// that, and makes the same call again.
    Knocked,
}

impl Outcome {
    /// The call did what it was asked.
    pub const SUCCESS: Self = Self::Errno(Errno::SUCCESS);
}

impl From<Errno> for Outcome {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<rustix::io::Errno> for Outcome {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Errno(errno.into())
    }
}

/// Of a call within: done, or why it ends otherwise.
pub type Answer<T = ()> = Result<T, Outcome>;
