//! Outcomes: how a call ends.

use super::errno::Errno;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returns this to the guest.
    Errno(Errno),
    /// The guest exits, with this code; nothing is returned to it.
    Exit(u32),
    /// The call was blocked when the host wanted the guest to stop: nothing is returned to it.
    Interrupted,
    /// The call was blocked when the host needed the guest's thread for a task: the host performs
    /// the task, and repeats the call.
    Knocked,
}

impl Outcome {
    /// The call was successful.
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

/// The result of an internal function: a value, or the outcome that ends the call.
pub type Answer<T = ()> = Result<T, Outcome>;
