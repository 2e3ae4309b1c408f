//! Transfers: bytes between files and the guest's memory, without a buffer in between.
//!
//! A guest names the spans to read into or write from by a list. Each span is checked, then passed
//! to the kernel directly: the kernel copies, and neither a Rust reference nor a second buffer is
//! needed. Spans may overlap, and other threads may write to them meanwhile; the transferred data
//! is then mixed, as on any system.
//!
//! # Safety
//!
//! The vectored system calls take raw pointers, which the safe wrappers of references cannot
//! express. A [`Spans`] holds only spans that [`Guest::span`] has checked, and cannot outlive the
//! memory (`'a`).
#![allow(unsafe_code)]

use super::errno::Errno;
use super::guest::Guest;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::{io, ptr};

/// The maximum number of spans per system call (`IOV_MAX`); if a guest passes more, the call
/// reports a partial transfer.
const MOST_SPANS: u32 = 1024;

/// Spans of a guest's memory, in the order in which they are filled or emptied.
#[derive(Debug)]
pub(crate) struct Spans<'a> {
    spans: Vec<libc::iovec>,
    memory: &'a Guest<'a>,
}

impl<'a> Spans<'a> {
    /// The spans that a list of addresses and lengths names. Empty ones are skipped, wherever they
    /// point.
    pub(crate) fn listed(memory: &'a Guest<'a>, list: u32, len: u32) -> Result<Self, Errno> {
        memory.expect(list, len.checked_mul(8).ok_or(Errno::FAULT)?)?;
        let mut spans = Vec::new();
        for at in 0..len.min(MOST_SPANS) {
            let [a, b, c, d, e, f, g, h] = memory.array(list + at * 8)?;
            let (address, len) =
                (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            if len > 0 {
                spans.push(libc::iovec {
                    iov_base: memory.span(address, len)?.cast(),
                    iov_len: len as usize,
                });
            }
        }
        Ok(Self { spans, memory })
    }

    pub(crate) fn total(&self) -> u64 {
        self.spans.iter().map(|span| span.iov_len as u64).sum()
    }

    /// Returns at most `most` bytes of them, from the `from`th on.
    pub(crate) fn piece(&self, mut from: u64, most: usize) -> Self {
        let mut rest = most;
        let mut spans = Vec::new();
        for span in &self.spans {
            let skipped = from.min(span.iov_len as u64) as usize;
            from -= skipped as u64;
            let len = (span.iov_len - skipped).min(rest);
            rest -= len;
            if len > 0 {
                // SAFETY: skipped <= iov_len, so the sum stays within the span, which was checked.
                let base = unsafe { span.iov_base.byte_add(skipped) };
                spans.push(libc::iovec { iov_base: base, iov_len: len });
            }
        }
        Self { spans, memory: self.memory }
    }

    /// Fills the spans from a file, at its position or at an offset.
    pub(crate) fn fill_from(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<i64>,
    ) -> rustix::io::Result<u32> {
        let (fd, spans, count) =
            (fd.as_raw_fd(), self.spans.as_ptr(), self.spans.len() as libc::c_int);
        // SAFETY: `spans` points to `count` spans of memory which the guest's owner vouched for and
        // `Guest::span` checked; the kernel writes to nothing else.
        let filled = unsafe {
            match offset {
                Some(offset) => libc::preadv(fd, spans, count, offset),
                None => libc::readv(fd, spans, count),
            }
        };
        let filled = told(filled)?;
        self.note(filled as usize);
        Ok(filled)
    }

    /// Writes the contents of the spans to a file, at its position or at an offset.
    pub(crate) fn empty_into(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<i64>,
    ) -> rustix::io::Result<u32> {
        let (fd, spans, count) =
            (fd.as_raw_fd(), self.spans.as_ptr(), self.spans.len() as libc::c_int);
        // SAFETY: as in `fill_from`; the kernel only reads.
        let emptied = unsafe {
            match offset {
                Some(offset) => libc::pwritev(fd, spans, count, offset),
                None => libc::writev(fd, spans, count),
            }
        };
        told(emptied)
    }

    /// Records that `count` bytes were written to them.
    fn note(&self, mut count: usize) {
        for span in &self.spans {
            let len = span.iov_len.min(count);
            self.memory.note(span.iov_base.cast::<u8>(), len);
            count -= len;
        }
    }

    /// Fills the spans with bytes of the host; returns how many fit.
    pub(crate) fn fill(&self, mut bytes: &[u8]) -> usize {
        let all = bytes.len();
        for span in &self.spans {
            let (now, later) = bytes.split_at(bytes.len().min(span.iov_len));
            // SAFETY: `now` is no longer than the span, which was checked; there are no references
            // into the guest.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), span.iov_base.cast(), now.len()) };
            bytes = later;
        }
        self.note(all - bytes.len());
        all - bytes.len()
    }

    /// Returns a copy of the spans' contents.
    pub(crate) fn copied(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.spans.iter().map(|span| span.iov_len).sum());
        for span in &self.spans {
            let start = bytes.len();
            bytes.resize(start + span.iov_len, 0);
            // SAFETY: the span was checked, and the vector was just given its length.
            unsafe {
                ptr::copy_nonoverlapping(
                    span.iov_base.cast(),
                    bytes[start..].as_mut_ptr(),
                    span.iov_len,
                );
            };
        }
        bytes
    }
}

/// Converts the result of a system call, which always fits, since it transfers less than 2 GiB at
/// once.
fn told(returned: isize) -> rustix::io::Result<u32> {
    match u32::try_from(returned) {
        Ok(count) => Ok(count),
        Err(_) => Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(list: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        for (at, (address, len)) in list.iter().enumerate() {
            bytes[at * 8..at * 8 + 4].copy_from_slice(&address.to_le_bytes());
            bytes[at * 8 + 4..at * 8 + 8].copy_from_slice(&len.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn spans_are_filled_and_emptied_in_order() {
        let mut bytes = memory(&[(100, 3), (0xffff_0000, 0), (200, 4)]);
        let guest = Guest::exclusive(&mut bytes);
        let spans = Spans::listed(&guest, 0, 3).unwrap();
        assert_eq!(spans.total(), 7);
        assert_eq!(spans.fill(b"abcdefghi"), 7);
        assert_eq!(spans.copied(), b"abcdefg");
        assert_eq!(spans.piece(2, 3).copied(), b"cde");
        assert_eq!(spans.piece(3, 100).copied(), b"defg");
        assert_eq!(spans.piece(7, 1).copied(), b"");
        assert_eq!((&bytes[100..104], &bytes[200..205]), (&b"abc\0"[..], &b"defg\0"[..]));
    }

    #[test]
    fn spans_beyond_memory_are_refused() {
        for list in [(200, 57), (256, 1), (u32::MAX, 1), (1, u32::MAX)] {
            let mut bytes = memory(&[list]);
            let guest = Guest::exclusive(&mut bytes);
            assert_eq!(Spans::listed(&guest, 0, 1).err(), Some(Errno::FAULT), "{list:?}");
        }
        let guest = Guest::exclusive(&mut []);
        assert_eq!(Spans::listed(&guest, 0, 1).err(), Some(Errno::FAULT));
        assert_eq!(Spans::listed(&guest, 0, 1 << 29).err(), Some(Errno::FAULT));
        assert_eq!(Spans::listed(&guest, u32::MAX, u32::MAX).err(), Some(Errno::FAULT));
    }

    #[test]
    fn more_spans_than_the_kernel_takes_are_left_for_later() {
        let mut bytes = vec![0; 65536];
        for at in 0..2000 {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        }
        let guest = Guest::exclusive(&mut bytes);
        assert_eq!(Spans::listed(&guest, 0, 2000).unwrap().total(), 1024);
    }
}
