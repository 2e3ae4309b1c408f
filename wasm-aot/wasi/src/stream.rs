//! Where a guest's standard input comes from, and where its output goes.

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// Where standard input comes from.
#[derive(Debug, Default)]
pub enum Source {
    /// It is at its end.
    #[default]
    Empty,
    /// The host's own.
    Inherit,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// A descriptor of the host: a pipe, a file, a terminal.
    Descriptor(OwnedFd),
}

/// Where standard output or standard error goes.
#[derive(Debug, Default)]
pub enum Sink {
    /// Nowhere.
    #[default]
    Discard,
    /// The host's own.
    Inherit,
    /// A buffer.
    Buffer(Buffer),
    /// A descriptor of the host: a pipe, a file, a terminal.
    Descriptor(OwnedFd),
}

/// Keeps what guests write. Copies are the same buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl Buffer {
    /// An empty buffer that takes so many bytes; for more there is "no space left".
    pub fn with_limit(limit: usize) -> Self {
        Self { bytes: Arc::default(), limit }
    }

    /// What was written so far.
    pub fn contents(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// What was written since it was last taken.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock())
    }

    /// Appends as much as there is room for; returns how much that was.
    pub(crate) fn append(&self, bytes: &[u8]) -> usize {
        let mut kept = self.bytes.lock();
        let fitting = bytes.len().min(self.limit.saturating_sub(kept.len()));
        kept.extend_from_slice(&bytes[..fitting]);
        fitting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_takes_no_more_than_its_limit() {
        let buffer = Buffer::with_limit(4);
        assert_eq!(buffer.append(b"abc"), 3);
        assert_eq!(buffer.clone().append(b"def"), 1);
        assert_eq!(buffer.append(b"g"), 0);
        assert_eq!(buffer.take(), b"abcd");
        assert!(buffer.contents().is_empty());
    }
}
