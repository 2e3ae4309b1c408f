//! Probes of running programs, switched on and off in place while all of their threads run.
//!
//! A probe is a call that the compiler has put at the beginning or at an end of a function
//! (`-finstrument-functions`). This crate finds them, leads each over a trampoline of its own, and
//! from then on switches it by one store of one byte. It is
//!
//! - the **preload library** `libfastinst.so`, which profiles: `LD_PRELOAD=libfastinst.so ./app`;
//!   the environment is its [configuration](config::Config);
//! - the **interface** for programs that attach functions of their own: [`Session`], and the same
//!   for C;
//! - the command `fastinst`, which uses [`discovery`] and [`symbols`].
//!
//! ```
//! use fastinst::discovery::{Module, discover};
//!
//! // Which probes does this very program have? It was not compiled with any.
//! let program = Module::of_file(&std::env::current_exe()?)?;
//! assert!(discover(&program)?.sites.iter().all(|site| site.own));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it decides nothing about profiles, which is the `profiler`'s matter; and it
//! knows no instruction that it writes, which is `callpatch`'s.

pub mod api;
pub mod arguments;
pub mod attachment;
mod attribution;
pub mod capi;
mod clib;
pub mod config;
pub mod discovery;
pub mod format;
pub mod handover;
mod heap;
pub mod lines;
mod names;
mod output;
mod probe;
pub mod quantity;
mod runtime;
mod selection;
pub mod spelling;
pub mod symbols;
pub mod trigger;

pub use api::{Batch, Callback, Error, Probe, Session};
pub use probe::{Kind, ProbeId};
