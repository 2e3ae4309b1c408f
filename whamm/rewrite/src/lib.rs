//! Inserts code into WebAssembly modules, in three passes.
//!
//! ```text
//!     bytes ─ decode ─▶ Program ─ (yours) ─▶ Plan ─ emit ─▶ bytes
//! ```
//!
//! [`Program::decode`] finds the bodies of a program's functions. A [`Plan`] describes the output:
//! for each body a [`BodyPlan`], which contains the program's instructions in order with our code
//! between them, and additional functions, globals and memories after the existing ones. [`emit`]
//! applies the plan. Instructions are copied byte by byte, except for indices that move because
//! something is imported; names and debug information are adjusted.
//!
//! This makes a program count how often its functions are called:
//!
//! ```
//! use wasm_encoder::{ConstExpr, ExportKind, GlobalType, ValType};
//! use whamm_rewrite::{BodyPlan, Plan, Program, emit};
//!
//! let bytes = wat::parse_str("(module (func (export \"f\") (nop)))")?;
//! let program = Program::decode(&bytes)?;
//! let mut plan = Plan::new(&program);
//! for body in &program.bodies {
//!     let calls = program.globals + plan.globals.len() as u32;
//!     let ty = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
//!     plan.globals.push((ty, ConstExpr::i64_const(0)));
//!     plan.exports.push((format!("calls:{}", body.function), ExportKind::Global, calls));
//!     let mut own = BodyPlan::empty(body)?;
//!     own.put().global_get(calls).i64_const(1).i64_add().global_set(calls);
//!     body.instructions()?.into_iter().for_each(|instruction| own.keep(instruction.place));
//!     plan.bodies.push(own);
//! }
//! let counting = emit(&program, &plan)?.module;
//! wasmparser::Validator::new().validate_all(&counting)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It validates nothing: a plan with wrongly typed code gives an invalid module. It knows nothing
//! of scripts, events or reports.
#![forbid(unsafe_code)]

mod debug;
mod decode;
mod emit;
mod erasure;
pub mod folder;
mod indices;
mod lines;
mod link;
mod moves;
mod names;
mod plan;
mod source_map;

pub use decode::{Body, Instruction, Program};
pub use emit::{Emitted, emit};
pub use erasure::Erasure;
pub use indices::Indices;
pub use lines::Lines;
pub use link::Linked;
pub use plan::{BodyPlan, Plan, Spot};
pub use source_map::SourceMap;

use std::ops::Range;

/// Why a program cannot be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not a module.
    #[error("{0}")]
    Malformed(#[from] wasmparser::Error),
    /// Something in it cannot be written.
    #[error("{0}")]
    Unwritten(#[from] wasm_encoder::reencode::Error),
    /// There is no room for the plan's data.
    #[error("{0}")]
    NoRoom(#[from] wasm_aot_body::data::NoRoom),
    /// A plan keeps an instruction where the program has none.
    #[error("there is no instruction at {} to {} of the program", .0.start, .0.end)]
    Place(Range<u64>),
    /// A module to be linked imports an item that the program does not provide.
    #[error("the module that is linked in imports {0}, which is not given")]
    Unbound(String),
    /// A module to be linked has more than functions, globals, memories and their data.
    #[error("the module that is linked in has {0}")]
    Unlinkable(&'static str),
}
