//! Compiled modules as ELF files: debuggers and profilers read them, and the engine maps them
//! without parsing them.
//!
//! ```text
//!        0  ELF header, program headers
//!     4096  our header: version, processor, options, where everything is, a digest
//!     8192  .text                        page-aligned, executed where it is mapped
//!           .wasm-aot.info               declarations
//!           .wasm-aot.functions …        tables: sorted, read where they lie
//!           .wasm-aot.monitors           modules that look at it, as the code that runs it understands them
//!           .wasm                        the module, from which segments of data are copied
//!           .symtab .strtab .debug_*     for debuggers and profilers alone
//! ```
//!
//! A file is trusted as an executable is. So one that others may write is refused; the digest is
//! there to find damage.

mod digest;
mod header;
mod lines;
mod load;
mod plain;
mod write;

pub(crate) use header::VERSION;
pub(crate) use load::{FileOrigin, Loaded, is_machine_code, load, load_bytes, origin};
pub(crate) use write::write;
