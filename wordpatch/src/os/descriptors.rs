//! Descriptors of ours in another program's process: high, closed on exec, and never taken for the
//! program's.
//!
//! A program closes all descriptors that there are, counts them, or expects the lowest number. A
//! descriptor that stays open is moved to the top of what the process may have. The program may
//! close it all the same, and get its number for a file of its own: so before each use, and before
//! it is closed, it is compared with what was opened.
//!
//! # Safety
//!
//! This module exists because descriptors are numbers.
#![allow(unsafe_code)]

use super::{OsError, check};
use std::os::fd::{AsRawFd, OwnedFd};

/// A descriptor of ours, as long as it is that.
#[derive(Debug)]
pub struct Own {
    number: i32,
    identity: (u64, u64),
}

/// The kernel's table reaches up to the highest number, and is copied at every fork: no more than a
/// page or two.
const MOST: libc::c_int = 1000;

impl Own {
    /// Moves a descriptor up.
    pub fn new(low: OwnedFd) -> Result<Self, OsError> {
        let highest = highest().ok_or(OsError { call: "getrlimit", errno: libc::EMFILE })?;
        let lowest = highest.min(MOST);
        // SAFETY: (1) numbers only.
        let number = unsafe { libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
        drop(low);
        check("fcntl(F_DUPFD_CLOEXEC)", number.into())?;
        let identity = identity(number)?;
        Ok(Self { number, identity })
    }

    /// The one of these parts: in a forked child, which has a copy.
    pub fn inherited(number: i32, identity: (u64, u64)) -> Self {
        Self { number, identity }
    }

    /// Its number, and what it is, for [`inherited`](Self::inherited).
    pub fn parts(&self) -> (i32, (u64, u64)) {
        (self.number, self.identity)
    }

    /// Its number, if it is still ours.
    pub fn number(&self) -> Option<i32> {
        (identity(self.number) == Ok(self.identity)).then_some(self.number)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(number) = self.number() {
            // SAFETY: (1) ours, and not used any more.
            unsafe { libc::close(number) };
        }
    }
}

/// Where the upper half of the numbers begins that descriptors of this process may have; `None` if
/// there are few.
pub(super) fn highest() -> Option<libc::c_int> {
    // SAFETY: (1) a limit to write to.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return None;
        }
        limit.rlim_cur
    };
    (limit >= 256).then_some(limit.min(1 << 20) as libc::c_int / 2)
}

/// What is open under a number: the device and the number of the file.
fn identity(number: i32) -> Result<(u64, u64), OsError> {
    // SAFETY: (1) a record to write to.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        check("fstat", libc::fstat(number, &raw mut data).into())?;
        Ok((data.st_dev, data.st_ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::FromRawFd;

    fn opened() -> Own {
        Own::new(File::open("/dev/null").unwrap().into()).unwrap()
    }

    #[test]
    fn ours_are_high_and_closed_on_exec() {
        let own = opened();
        let number = own.number().unwrap();
        assert!(number >= highest().unwrap().min(MOST), "{number}");
        // SAFETY: (1) asks for flags.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        drop(own);
        // SAFETY: (1) asks for flags.
        assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
    }

    #[test]
    fn what_has_taken_the_place_of_ours_is_left_alone() {
        let own = opened();
        let number = own.number().unwrap();
        let other = File::open("/proc/self/maps").unwrap();
        // SAFETY: (1) as a program closes what it does not know, and gets the number for a file.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert_eq!(own.number(), None);
        drop(own);
        // SAFETY: (1) the copy that was made above.
        let copy = unsafe { File::from_raw_fd(number) };
        assert!(copy.metadata().is_ok(), "it is open");
    }
}
