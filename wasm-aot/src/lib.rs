//! An ahead-of-time WebAssembly engine whose machine code carries probe sites.

mod compile;
mod engine;
mod error;
mod features;
mod module;
mod registry;
mod runtime;
pub mod script;
mod trap;
mod types;
mod vm;

pub use compile::{Optimize, Options};
pub use engine::{Config, Engine};
pub use error::{Backtrace, CompileError, Error, ExceptionReport, FrameInfo, Place, TrapReport, demangled};
pub use features::{Proposal, Specification};
pub use runtime::*;
pub use trap::Trap;
pub use types::*;
