//! The library's descriptors in another program's process: with high numbers, closed on exec, and
//! never confused with the program's.
//!
//! A program may close all descriptors, count them, or expect the lowest number. So a descriptor
//! that stays open is moved at once to the top of the numbers that the process may use. The program
//! may still close it at any time, and reuse its number for a file of its own. So before each use,
//! and before it is closed, the descriptor is compared with what was opened.
//!
//! From its creation on, a descriptor is a plain number here. The standard library's owned
//! descriptors are closed without such a check, and abort the process if the program has closed
//! them.
//!
//! # Safety
//!
//! This module exists because descriptors are plain numbers.
#![allow(unsafe_code)]

use super::{OsError, check};

/// A descriptor of the library, valid as long as it refers to the file that was opened.
#[derive(Debug)]
pub struct Own {
    number: i32,
    identity: (u64, u64),
}

/// The kernel's table extends to the highest number, and is copied at every fork; so it must not
/// exceed a page or two.
const MOST: libc::c_int = 1000;

impl Own {
    /// Moves a socket's descriptor, which a system call has just returned, to a high number. Fails
    /// if the program has closed it meanwhile, and does not touch a file of the program that has
    /// got its number.
    pub fn take_socket(low: i32) -> Result<Self, OsError> {
        let (identity, kind) = look(low)?;
        if kind != libc::S_IFSOCK {
            return Err(OsError { call: "fstat", errno: libc::ENOTSOCK });
        }
        // Closed on drop, if it still refers to the same file.
        let low = Self { number: low, identity };
        let highest = highest().ok_or(OsError { call: "getrlimit", errno: libc::EMFILE })?;
        let lowest = highest.min(MOST);
        // SAFETY: (1) numbers only.
        let number = unsafe { libc::fcntl(low.number, libc::F_DUPFD_CLOEXEC, lowest) };
        check("fcntl(F_DUPFD_CLOEXEC)", number.into())?;
        let own = Self { number, identity: low.identity };
        match own.number() {
            Some(_) => Ok(own),
            None => Err(OsError { call: "fcntl(F_DUPFD_CLOEXEC)", errno: libc::EBADF }),
        }
    }

    /// The descriptor with these parts: for a forked child, which has a copy.
    pub fn inherited(number: i32, identity: (u64, u64)) -> Self {
        Self { number, identity }
    }

    /// Its number and the identity of its file, for [`inherited`](Self::inherited).
    pub fn parts(&self) -> (i32, (u64, u64)) {
        (self.number, self.identity)
    }

    /// Its number, if it still refers to the file that was opened.
    pub fn number(&self) -> Option<i32> {
        look(self.number).is_ok_and(|(is, _)| is == self.identity).then_some(self.number)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(number) = self.number() {
            // SAFETY: (1) the library's descriptor, no longer used.
            unsafe { libc::close(number) };
        }
    }
}

/// The start of the upper half of the numbers that descriptors of this process may have; `None` if
/// there are few.
pub(super) fn highest() -> Option<libc::c_int> {
    let limit = super::limits::of(libc::RLIMIT_NOFILE).unwrap_or(u64::MAX);
    (limit >= 256).then_some(limit.min(1 << 20) as libc::c_int / 2)
}

/// The file under a number: its device, its inode and its kind.
fn look(number: i32) -> Result<((u64, u64), libc::mode_t), OsError> {
    // SAFETY: (1) a record to write to.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        check("fstat", libc::fstat(number, &raw mut data).into())?;
        Ok(((data.st_dev, data.st_ino), data.st_mode & libc::S_IFMT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
    use std::os::unix::net::UnixDatagram;

    fn opened() -> Own {
        Own::take_socket(UnixDatagram::unbound().unwrap().into_raw_fd()).unwrap()
    }

    #[test]
    fn ours_are_high_and_closed_on_exec() {
        let own = opened();
        let number = own.number().unwrap();
        assert!(number >= highest().unwrap().min(MOST), "{number}");
        // SAFETY: (1) reads flags.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        drop(own);
        // SAFETY: (1) reads flags.
        assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
    }

    #[test]
    fn one_that_the_program_has_closed_already_or_has_for_a_file_is_refused() {
        let low = File::open("/dev/null").unwrap();
        // Higher than any number of another test. SAFETY: (1) numbers only.
        let number =
            unsafe { libc::fcntl(low.as_raw_fd(), libc::F_DUPFD, highest().unwrap() + 99) };
        // SAFETY: (1) as a program that closes all descriptors.
        unsafe { libc::close(number) };
        assert_eq!(Own::take_socket(number).unwrap_err().errno, libc::EBADF);
        assert_eq!(Own::take_socket(low.as_raw_fd()).unwrap_err().errno, libc::ENOTSOCK);
        assert!(low.metadata().is_ok(), "it is open");
    }

    #[test]
    fn what_has_taken_the_place_of_ours_is_left_alone() {
        let own = opened();
        let number = own.number().unwrap();
        let other = File::open("/proc/self/maps").unwrap();
        // SAFETY: (1) as a program that closes an unknown descriptor, and reuses the number for a
        // file.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert_eq!(own.number(), None);
        drop(own);
        // SAFETY: (1) the copy made above.
        let copy = unsafe { File::from_raw_fd(number) };
        assert!(copy.metadata().is_ok(), "it is open");
    }
}
