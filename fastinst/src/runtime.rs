//! What runs inside of the observed program.
//!
//! ```text
//!   site ──► trampoline (one a site, on an island near the module: its numbers, a jump through its slot)
//!                 └─► stub (assembly: count, time, or user) ──► event (Rust: whatever is rare) ──► agent (a thread: sums up, decides)
//! ```
//!
//! - [`layout`] is what stubs and Rust agree on: a thread's block with its frames, its ring and a
//!   record for each function.
//! - [`stub`] is the assembly of the hot path, [`event`] the whole of an event's rules, for
//!   everything that the stubs leave out.
//! - [`drain`] takes finished calls out of a thread's ring; [`tally`] is what a thread adds up
//!   itself when its ring is full.
//! - [`functions`], [`sites`] with their `boards`, and [`threads`] are the tables; [`modes`]
//!   carries out what functions' probes shall do.
//! - [`clock`] is the program's processor clock, which the policy lives by; [`measure`] knows the
//!   counter, and what the stubs cost.
//! - [`plant`] leads the sites of a module to their trampolines. `arrivals` has that done for
//!   modules that come later, `loader` says when; `unloading` is how they go.
//!   [`registered`] is code that a runtime has made and switches itself.
//!   [`unmodified`] plants functions that no compiler has prepared, with stubs of `keeping`.
//! - [`agent`] is the thread that drains, decides and writes; `handover` is how `fastinst run` gets
//!   the profile; `wishes` is how others ask it for something. [`guest`] is what the program sees
//!   of us: beginning, end, fork; `attached` is how we come into a process that runs already, and
//!   leave it; [`doors`] are the functions of the C library that we stand
//!   before, `sandbox` those through which filters of system calls come, which `filter` judges.
//! - [`witness`] is the sampling clock: which functions the processor time went to, told by
//!   something else than probes.

pub(crate) mod agent;
pub(crate) mod arguments;
mod arrivals;
mod attached;
mod boards;
mod cancellation;
pub(crate) mod clock;
mod complaint;
pub(crate) mod doors;
pub(crate) mod drain;
pub(crate) mod event;
mod filter;
pub(crate) mod functions;
pub(crate) mod guest;
pub(crate) mod handover;
mod keeping;
pub(crate) mod layout;
pub(crate) mod loader;
pub(crate) mod measure;
pub(crate) mod modes;
pub(crate) mod plant;
mod protection;
pub(crate) mod registered;
mod sandbox;
pub(crate) mod scope;
mod sharing;
mod signal_stack;
pub(crate) mod sites;
pub(crate) mod skip;
pub(crate) mod spans;
pub(crate) mod stub;
pub(crate) mod tally;
pub(crate) mod threads;
mod unloading;
pub(crate) mod unmodified;
mod wishes;
pub(crate) mod witness;
