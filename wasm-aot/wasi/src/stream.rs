//! The sources of a guest's standard input, and the destinations of its output.

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// The source of standard input.
#[derive(Debug, Default)]
pub enum Source {
    /// It is empty.
    #[default]
    Empty,
    /// The host's own.
    Inherit,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// A descriptor of the host: a pipe, a file, a terminal.
    Descriptor(OwnedFd),
}

/// The destination of standard output or standard error.
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

/// Stores the output of guests. Clones share the buffer.
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
    /// Creates an empty buffer that takes `limit` bytes; more fail with "no space left".
    pub fn with_limit(limit: usize) -> Self {
        Self { bytes: Arc::default(), limit }
    }

    /// Returns the bytes written so far.
    pub fn contents(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// Takes the bytes written since the last call.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock())
    }

    /// Appends as many bytes as fit; returns their number.
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
