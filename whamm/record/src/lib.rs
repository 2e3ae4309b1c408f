//! Records runs of WebAssembly on any engine: rewrites a module so that it writes a trace of
//! everything that passes between it and its host, in the format of `wasm-aot-trace`.
//!
//! ```
//! use whamm_record::{Options, record};
//!
//! let program = wat::parse_str(r#"(module (import "host" "read" (func $read (result i32)))
//!     (memory (export "memory") 1)
//!     (func (export "run") (result i32) (drop (call $read)) (i32.load (i32.const 4))))"#)?;
//! let recording = record(&program, &Options::default())?;
//! assert!(recording.module.len() > program.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The program cannot see when its host writes. So each memory that the host can reach has a
//! *shadow*, another memory that holds what the program and the trace know. If a load reads
//! something else, the host has written it, and it is recorded as found (`Event::Found`). Tables
//! and globals are treated likewise. Calls between the program's own functions cost nothing:
//! functions called by the host, and imports, are replaced by recording ones.
//!
//! The trace goes to a file through WASI, or is fetched by the host: `record:fetch` returns place
//! and length, in `record:memory`, of the data written since its last call; `record:finish` ends
//! the trace. [`glue`] makes a script that does this in browsers and node.
#![forbid(unsafe_code)]

mod access;
mod app;
mod body;
mod erasure;
mod gateway;
mod glue;
mod runs;
mod runtime;
mod trap;
mod types;
mod values;

use app::App;
use gateway::Gateways;
pub use glue::{Server, glue};
use runtime::Runtime;
use wasm_aot_trace::{Declared, Program as Traced};
use whamm_rewrite::{Plan, Program, emit};

/// What is recorded, and where the trace is written.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program's name in its trace.
    pub name: String,
    /// The file that the trace is written to, in a folder that the program may write to; otherwise
    /// the host fetches it.
    pub file: Option<String>,
    /// Whether every access and every function entry is recorded, without omissions.
    pub raw: bool,
}

/// A program that records itself.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The module.
    pub module: Vec<u8>,
    /// Notes about it, a sentence each.
    pub notes: Vec<String>,
}

/// Why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not a module that can be rewritten.
    #[error("{0}")]
    Rewrite(#[from] whamm_rewrite::Error),
    /// It is not valid.
    #[error("the program is not valid: {0}")]
    Invalid(#[from] wasm_aot_trace::Error),
    /// It was rewritten before.
    #[error("the program was already rewritten for recording: use the original")]
    Again,
    /// It uses a feature that cannot be recorded.
    #[error("the program uses {0}, which cannot be recorded by rewriting: use `wasm-aot record`")]
    Unsupported(&'static str),
    /// It uses a feature that no recorder supports.
    #[error("the program uses {0}, which cannot be recorded")]
    Refused(&'static str),
    /// The file cannot be written.
    #[error("{0}")]
    File(&'static str),
    /// The run-time support is broken.
    #[error("the run-time support cannot be assembled: {0}")]
    Runtime(String),
}

/// Rewrites a module so that it records its run.
pub fn record(bytes: &[u8], options: &Options) -> Result<Recording, Error> {
    // What relaxed vector instructions give depends on the processor.
    let canonical = wasm_aot_trace::canonical(bytes)?;
    let bytes = &*canonical;
    let declared = Declared::read(bytes)?;
    let program = Program::decode(bytes)?;
    let app = App::read(&program, declared, options.raw)?;
    let mut traced = Traced::new(bytes.to_vec(), options.name.clone());
    traced.module = None;
    let mut plan = Plan::new(&program);
    Runtime::import(&mut plan, &program, &app, options)?;
    let runtime = Runtime::link(&mut plan, &program, &app, &traced, options)?;
    let gateways = Gateways::new(&mut plan, &program, &app, &runtime, options)?;
    runtime.export(&mut plan, gateways.finish, options);
    for body in &program.bodies {
        plan.bodies.push(body::plan(body, &program, &app, &runtime, &gateways, options.raw)?);
    }
    let emitted = emit(&program, &plan)?;
    Ok(Recording { module: emitted.module, notes: emitted.lost })
}
