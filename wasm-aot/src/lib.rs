//! An ahead-of-time WebAssembly engine whose machine code carries probe sites.

mod artifact;
mod cache;
mod compile;
mod engine;
mod error;
mod features;
pub mod inspection;
mod module;
mod registry;
mod runtime;
pub mod script;
mod trap;
mod types;
mod verification;
mod vm;
pub mod wasi;

pub use cache::Cache;
pub use compile::{Optimize, Options};
pub use engine::{Config, Engine};
pub use error::{Backtrace, CompileError, Error, ExceptionReport, FrameInfo, Place, TrapReport, demangled};
pub use features::{Proposal, Specification};
pub use runtime::*;
pub use trap::Trap;
pub use types::*;
pub use verification::verify;
