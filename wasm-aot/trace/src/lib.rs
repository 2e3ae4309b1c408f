//! Runs of WebAssembly programs as values.
//!
//! A run depends on the program and on its host's actions at the boundary between them. A *trace*
//! is the program and a sequence of [`Event`]s: calls across the boundary in both directions, and
//! the host's changes to memories, tables and globals, with exact bits. This crate writes and reads
//! traces ([`Writer`], [`Reader`], [`TextReader`]), checks them ([`Conformance`]), and converts a
//! trace and its module to one module without imports, whose `_start` repeats the run anywhere
//! ([`generate`]).
//!
//! ```
//! use wasm_aot_trace::{Change, Door, End, Event, Generation, Program, Reader, Value, Writer};
//!
//! let module = wat::parse_str(
//!     r#"(module (import "host" "read" (func $read (result i32))) (memory (export "memory") 1)
//!         (func (export "_start") (drop (call $read)) (i32.store (i32.const 8) (i32.load (i32.const 4)))))"#,
//! )?;
//! // What a recorder sees: the program calls its host, which writes to its memory and returns.
//! let mut writer = Writer::new(Vec::new(), &Program::new(module, "app.wasm"))?;
//! writer.push(&Event::Enter { function: 1, door: Door::Export("_start".into()), args: vec![] });
//! writer.push(&Event::Call { function: 0, args: vec![] });
//! writer.push(&Event::Host(Change::Write { memory: 0, address: 4, bytes: vec![1, 2, 3, 4] }));
//! writer.push(&Event::Return(End::Values(vec![Value::I32(4)])));
//! writer.push(&Event::Leave(End::Values(vec![])));
//! let (_, trace, _) = writer.finish();
//!
//! // The same run, without the host.
//! let reader = Reader::new(&trace[..])?;
//! let module = reader.program().module_or(None)?.to_vec();
//! let replay = wasm_aot_trace::generate(&module, reader, Generation::default())?;
//! wasmparser::Validator::new().validate_all(&replay)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate neither runs nor records programs: `wasm-aot record` does. `docs/trace-format.md` has
//! the format byte by byte.
#![forbid(unsafe_code)]

mod binary;
mod block;
mod canonical;
mod conformance;
mod cursor;
mod declared;
mod error;
mod event;
mod exits;
mod generate;
mod javascript;
mod linked;
mod patch;
mod placement;
mod program;
mod r3;
mod reader;
mod reduction;
mod replay;
mod text;
mod value;
mod writer;

pub use canonical::{canonical, is_canonical};
pub use conformance::Conformance;
pub use declared::{Declared, Imported};
pub use error::Error;
pub use event::{Change, Door, End, Event, Frame};
pub use generate::{Generation, Wrong, generate};
pub use javascript::{base64, javascript};
pub use linked::{Linked, Part, PartIndices};
pub use placement::Placed;
pub use program::{ModuleHash, Program};
pub use r3::{R3Reader, R3Writer, is_r3};
pub use reader::{Ending, Reader};
pub use reduction::{Effect, Reduced};
pub use text::{TEXT_MAGIC, TextReader, heading, is_text};
pub use value::{Signature, Value};
pub use writer::{Sink, Writer, beginning, end};

/// The first bytes of a trace.
pub const MAGIC: &[u8; 8] = b"fi-trace";
/// The version of the format.
pub const VERSION: u32 = 1;
