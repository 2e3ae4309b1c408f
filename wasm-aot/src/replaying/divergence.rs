//! How a replay ends where it does not end as the recorded run did.

use std::fmt;
use wasm_aot_body::report::several;

/// The place at which a program diverges from its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the event, from 0 on.
    pub event: u64,
    /// Its subject.
    pub about: String,
    /// The value in the trace.
    pub expected: String,
    /// The value in the program.
    pub found: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, about, expected, found } = self;
        write!(
            f,
            "the replay leaves the trace at event {event}, {about}: expected {expected}, found {found}"
        )
    }
}

impl std::error::Error for Divergence {}

/// The trace ends before the program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEnds {
    /// How many events it has.
    pub events: u64,
}

impl fmt::Display for TraceEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the trace ends here, after {}, and the program does not",
            several(self.events, "event")
        )
    }
}

impl std::error::Error for TraceEnds {}

/// The error with which the host failed when the trace was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFailed(pub(super) String);

impl fmt::Display for HostFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the host's call did not return" } else { &self.0 })
    }
}

impl std::error::Error for HostFailed {}
