//! Why a trace cannot be read, or cannot be converted to a module.

use std::io;

/// The errors, with their places.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin like a trace.
    #[error("not a trace: it does not begin with \"fi-trace\"")]
    NotATrace,
    /// A version that this reader does not know.
    #[error("a trace of version {0}, and this is a reader of version {known}: use the release that has recorded it", known = crate::VERSION)]
    Version(u32),
    /// Bytes that differ from those that were written.
    #[error("damaged at byte {offset}: {what}; what stands before it is whole")]
    Damaged {
        /// Where in the file the block begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// An invalid line of the text form.
    #[error("line {line}: {what}")]
    Line {
        /// Which line, from 1 on.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The file ends before the program is complete.
    #[error("cut off before the program is complete: it cannot be used")]
    Empty,
    /// The module is not the recorded one.
    #[error(
        "another module than was recorded: it has the hash {found}, and the trace is of {expected}: name the module that was recorded"
    )]
    OtherModule {
        /// The recorded one.
        expected: String,
        /// The given one.
        found: String,
    },
    /// Modules that cannot be linked.
    #[error("{0}")]
    Unlinked(String),
    /// Events that contradict each other, or the module.
    #[error("event {event}: {what}")]
    Event {
        /// Which event, from 0 on.
        event: u64,
        /// What is wrong.
        what: String,
    },
    /// The module is invalid.
    #[error("the module: {0}")]
    Module(#[from] wasmparser::Error),
    /// The module cannot be encoded again.
    #[error("the module: {0}")]
    Unwritten(#[from] wasm_encoder::reencode::Error),
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// An event that cannot occur at its place.
    pub(crate) fn event(event: u64, what: impl Into<String>) -> Self {
        Self::Event { event, what: what.into() }
    }
}
