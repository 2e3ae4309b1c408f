//! WASI preview 1: the world that a program can access, and nothing else.
//!
//! A guest refers to objects by numbers (descriptors) and by paths beneath its preopened
//! directories; it passes addresses within its own memory. All three may be arbitrary. So:
//!
//! - numbers are looked up in a `table` that holds rights with each descriptor;
//! - paths are resolved `beneath` a directory's descriptor, by a lookup that cannot leave it, even
//!   if there are links, or other processes rename files meanwhile;
//! - addresses are checked and copied by `guest`, the only module besides `transfer` that touches
//!   memory of the guest. The addresses of results are checked before a call has effects.
//!
//! The crate does not depend on an engine. [`functions`] lists every call with its type and a
//! uniform entry; an engine links them under [`MODULE`], and passes its linear memory as a
//! [`Guest`]. A call returns an [`Outcome`]: a number for the guest, the guest's exit, or the
//! host's request that it stop.
//!
//! In reading order: `types` and `errno` (the data that is exchanged), `guest`, `descriptor`,
//! `table`, `beneath`; then the calls by subject: `environment`, `clock`, `random`, `process`,
//! `socket`, `file`, `listing`, `tree`, `poll`; then `function` and `builder`, which are its
//! interface.

mod beneath;
mod builder;
mod clock;
mod descriptor;
mod environment;
mod errno;
mod file;
mod function;
mod guest;
mod interruption;
mod link;
mod listing;
mod outcome;
mod poll;
mod positions;
mod process;
mod random;
mod shared;
mod socket;
mod stream;
mod table;
mod transfer;
mod tree;
mod types;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod scratch;

pub use builder::{BuildError, Permissions, WasiCtxBuilder};
pub use clock::ManualClock;
pub use errno::Errno;
pub use function::{Function, MODULE, ValueType, functions};
pub use guest::{Guest, Written};
pub use interruption::Interruption;
pub use link::{add_shared_to_linker, add_to_linker};
pub use outcome::{Answer, Outcome};
pub use random::Randomness;
pub use shared::Shared;
pub use stream::{Buffer, Sink, Source};

/// The world of one program: its arguments, its environment, its descriptors, its clocks.
#[derive(Debug)]
pub struct WasiCtx {
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    table: table::Table,
    lookup: beneath::Lookup,
    clock: clock::Clock,
    randomness: Randomness,
    patience: interruption::Patience,
}

impl WasiCtx {
    /// Builds a world. It begins empty: no arguments, no environment, no directories, no input;
    /// output is discarded.
    pub fn builder() -> WasiCtxBuilder {
        WasiCtxBuilder::default()
    }

    /// Whether the host wants the program to stop.
    pub fn interrupted(&self) -> bool {
        self.patience.interrupted()
    }
}
