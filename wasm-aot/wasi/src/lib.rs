//! WASI preview 1: what a program sees of the world, and nothing besides.
//!
//! A guest names what it wants to use by numbers (descriptors) and by paths beneath directories
//! that it was given; it passes addresses within its own memory. All three may be invented. So:
//!
//! - numbers are looked up in a `table` that holds rights with each descriptor;
//! - paths are resolved `beneath` a directory's descriptor, by a lookup that cannot leave it,
//!   whatever links there are and other processes that rename meanwhile;
//! - addresses are checked and copied by `guest`, the only module besides `transfer` that touches
//!   memory of the guest. The places of results are checked before anything is done.
//!
//! The module knows no engine. [`functions`] lists every call with its type and a uniform entry; an
//! engine links them under [`MODULE`], and passes its linear memory as a [`Guest`]. What a call
//! returns is an [`Outcome`]: a number for the guest, the guest's own end, or the host's wish that
//! it stop.
//!
//! In reading order: `types` and `errno` (what is exchanged), `guest`, `descriptor`, `table`,
//! `beneath`; then the calls by what they are about: `environment`, `clock`, `random`, `process`,
//! `socket`, `file`, `listing`, `tree`, `poll`; then `function` and `builder`, which make it
//! usable.

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
    /// A world to be furnished. It begins with nothing: no arguments, no environment, no
    /// directories, no input; output is discarded.
    pub fn builder() -> WasiCtxBuilder {
        WasiCtxBuilder::default()
    }

    /// Whether the host wants the program to stop.
    pub fn interrupted(&self) -> bool {
        self.patience.interrupted()
    }
}
