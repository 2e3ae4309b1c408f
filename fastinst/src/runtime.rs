//! The part that runs inside of the observed program.
//!
//! ```text
//!   site ──► trampoline (one a site, on an island near the module: its numbers, a jump through its slot)
//!                 └─► stub (assembly: count, time, or user) ──► event (Rust: whatever is rare) ──► agent (a thread: sums up, decides)
//! ```
//!
//! - [`layout`] is what stubs and Rust agree on: a thread's block with its frames, its ring and a
//!   record for each function.
//! - [`stub`] is the assembly of the hot path; [`event`] has all of an event's rules, for
//!   everything that the stubs leave out.
//! - [`drain`] takes finished calls out of a thread's ring; [`thread_sums`] is what a thread sums
//!   up itself when its ring is full.
//! - [`functions`], [`sites`] with `site_lists`, and [`threads`] are the tables; [`modes`]
//!   applies what functions' probes shall do.
//! - [`clock`] is the program's CPU clock, on which the policy depends; [`measure`] knows the
//!   counter, and the cost of the stubs.
//! - [`registry`] has an entry for each module; [`install`] redirects the sites of a module to
//!   their trampolines. `load_handshake` requests that for modules that are loaded later, `loader`
//!   reports when; `unloading` handles their removal. [`registered`] is code that a runtime has
//!   made and switches itself. [`unmodified`] installs probes in functions that no compiler has
//!   prepared, with stubs of `keeping`.
//! - [`agent`] is the thread that drains, decides and writes; `handover` passes the profile to
//!   `fastinst run`; `request_queue` holds other threads' requests to the agent. [`target`] is the
//!   target process: start, end, fork; `attached` is how the profiler enters a running process, and
//!   leaves it. [`interposed`] has the interposed functions of the C library, `sandbox` those that
//!   install filters of system calls, which `filter` judges, `credentials` those that change users
//!   and groups.
//! - [`witness`] is the sampling clock: it shows which functions used the CPU time, independently
//!   of probes.

pub(crate) mod agent;
pub(crate) mod arguments;
mod attached;
mod cancellation;
pub(crate) mod clock;
mod complaint;
mod credentials;
pub(crate) mod drain;
pub(crate) mod event;
mod execution;
mod filter;
pub(crate) mod functions;
pub(crate) mod handover;
pub(crate) mod install;
pub(crate) mod interposed;
mod keeping;
pub(crate) mod layout;
mod load_handshake;
pub(crate) mod loader;
pub(crate) mod measure;
pub(crate) mod modes;
mod protection;
pub(crate) mod registered;
pub(crate) mod registry;
mod request_queue;
mod sandbox;
pub(crate) mod scope;
mod sharing;
mod signal_stack;
mod site_lists;
pub(crate) mod sites;
pub(crate) mod skip;
pub(crate) mod spans;
pub(crate) mod stub;
pub(crate) mod target;
pub(crate) mod thread_sums;
pub(crate) mod threads;
mod unloading;
pub(crate) mod unmodified;
pub(crate) mod witness;
