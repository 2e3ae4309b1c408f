//! Replaces up to eight bytes of x86-64 code while other threads execute it.
//!
//! A patch is atomic: every thread executes the old bytes or the new ones, never a mixture, and no
//! thread is stopped. A word inside an aligned quadword is replaced by one store. A word that
//! crosses a boundary is replaced behind a trap. For threads that hit the trap, a signal handler
//! emulates the old instruction, and they continue at once, even if the patching thread never
//! continues.
//!
//! ```
//! use wordpatch::{CodeMemory, Layout, PatchSite, Policy, Word};
//!
//! // A function that returns 1: mov eax, 1; ret.
//! let mut memory = CodeMemory::new(64)?;
//! memory.write(0, &[0xb8, 1, 0, 0, 0, 0xc3]);
//! // SAFETY: the bytes just written are a function of that type.
//! let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(memory.base().as_ptr()) };
//!
//! // Its first instruction is five bytes long; no thread jumps into the middle of it.
//! let site = unsafe { PatchSite::adopt(memory.base(), 5, Layout::One, &Policy::new()?)? };
//! let executer = std::thread::spawn(move || (0..100_000).map(|_| function()).collect::<std::collections::BTreeSet<_>>());
//! // SAFETY: mov eax, 2 is one instruction of five bytes, too.
//! unsafe { site.patch(Word::new(&[0xb8, 2, 0, 0, 0]).unwrap())? };
//! assert_eq!(function(), 2);
//!
//! // A thread that ran it meanwhile saw one or the other.
//! assert!(executer.join().unwrap().is_subset(&[1, 2].into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`PatchSite`] is a prepared site; [`Survey`] adopts many. [`PatchSite::patch`] waits until the
//!   patch is finished, [`PatchSite::start`] returns a [`Pending`], and a [`Batch`] replaces many
//!   words with one barrier.
//! - [`Policy`] sets the parameters: the unit of instruction fetch ([`Granule`]), how other cores
//!   are synchronised ([`Barrier`]), how text is made writable ([`Access`]). The defaults are the
//!   documented ones; [`Config`] reads others from the environment.
//! - [`PatchRegion`] is less than a site: bytes prepared for single stores, whose order is the
//!   caller's own protocol.
//! - [`CodeMemory`] is memory for generated code, executable at one address and writable at
//!   another.
//! - [`capi`] is the C interface: `include/wordpatch.h`.
//! - [`protocol`] is the order of the steps as a value, with the model that shows it correct;
//!   [`live`] is the only module that writes to live code; all system calls of the workspace are in
//!   [`os`].
//!
//! The crate does not decode programs (it knows only the few instructions that its trap handler
//! emulates), does not search for probes, and does not encode calls. It rests on five assumptions;
//! code that relies on one cites its tag:
//!
//! | tag | assumption |
//! |---|---|
//! | A1 | A store within one granule is seen whole by instruction fetch. |
//! | A2 | After a barrier, no core runs bytes that it fetched before it. |
//! | A3 | A store of one byte is never torn. |
//! | A4 | No thread resumes in the middle of an instruction that is replaced. |
//! | A5 | Where an instruction is replaced by one that changes the flags, no code reads them. |
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!(
    "wordpatch changes running x86-64 code on Linux; there is nothing it could do elsewhere"
);

pub mod os;

mod access;
mod addr;
mod address_map;
mod barrier;
mod batch;
mod calibration;
pub mod capi;
mod code_memory;
mod completion;
mod config;
mod effect;
mod error;
mod fork;
mod gate;
mod granule;
mod ledger;
pub mod live;
mod lock;
mod patch_in_progress;
mod patch_region;
mod pending;
mod policy;
pub mod protocol;
mod range_lock;
mod site;
#[cfg(test)]
mod specimen;
mod sync;
mod ticks;
mod trap;
mod vendor;
mod word;

pub use access::{Access, Refusal, forget_unlocked, lock_again, stays_writable, unlock_again};
pub use addr::CodeAddr;
pub use barrier::{Barrier, BarrierError, Silent};
pub use batch::{Batch, Committed};
pub use calibration::{Calibration, CalibrationError, FailedWait, Machine};
pub use code_memory::{CodeMemory, is_code_memory};
pub use completion::background_failures;
pub use config::{Config, ConfigError};
pub use error::{AdoptError, PatchError, TrapError};
pub use fork::{leave_forks_alone, owns_code};
pub use granule::Granule;
pub use ledger::Phase;
pub use patch_region::{Opening, PatchRegion};
pub use pending::Pending;
pub use policy::Policy;
pub use protocol::Layout;
pub use site::{PatchSite, Survey};
pub use ticks::Ticks;
pub use trap::install_trap_handler;
pub use vendor::FetchOrder;
pub use word::Word;

/// For a preloaded library, at its start: registers the fork handlers with the C library. Otherwise
/// the first patch does that, and also makes the loader keep the library, for which the loader
/// allocates.
pub fn prepare_preloaded() {
    os::is_preloaded();
    fork::prepare();
}
