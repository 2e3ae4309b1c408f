//! Probes in running programs, switched on and off in place while all threads run.
//!
//! A probe is a call that the compiler has inserted at the beginning or an end of a function
//! (`-finstrument-functions`), or a jump that this crate puts into an unmodified function. This
//! crate finds the places, connects each to a trampoline, and from then on switches it by one store
//! of one byte. It is
//!
//! - the **preload library** `libfastinst.so`, which profiles: `LD_PRELOAD=libfastinst.so ./app`;
//!   environment variables are its [configuration](config::Config);
//! - the **interface** for programs that attach callbacks of their own: [`Session`], and the same
//!   for C;
//! - the command `fastinst`, which uses [`discovery`] and [`symbols`].
//!
//! ```no_run
//! use fastinst::{ProbeId, Session};
//!
//! extern "C" fn entered(probe: ProbeId, _function: *const (), _call_site: *const ()) {
//!     eprintln!("probe {probe} was passed");
//! }
//!
//! let session = Session::start()?; // finds all probes, and switches them off
//! for probe in session.select("parse_*")? {
//!     session.activate(probe, entered)?; // one store of one byte
//! }
//! # Ok::<(), fastinst::Error>(())
//! ```
//!
//! It makes no decisions about profiles, which is the `profiler`'s task, and encodes no
//! instructions, which is `callpatch`'s.

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
