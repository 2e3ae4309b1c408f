//! The instrumentation language: one script, two targets.
//!
//! A script says where something is of interest, under which condition, and what to do there:
//!
//! ```
//! use whamm::{Options, Source, instrument};
//!
//! let script = Source::new("calls.mm", "report var calls: u32; wasm:opcode:call:before { calls++; }");
//! let program = br#"(module (func $f) (func (export "main") call $f call $f))"#;
//! let output = instrument(&[script], &[], program, &Options::default())?;
//! assert!(output.module.starts_with(b"\0asm") && output.diagnostics.is_empty());
//! # Ok::<(), whamm::Diagnostics>(())
//! ```
//!
//! [`instrument`] puts probes into a program's code; [`compile_monitor`] makes a module of its own,
//! which an engine attaches to programs. Neither runs anything, except for library calls that a
//! script wants to be evaluated while compiling.
#![forbid(unsafe_code)]

pub mod app;
pub mod check;
pub mod diagnostic;
pub mod dwarf;
pub mod emit;
pub mod fold;
pub mod hir;
pub mod library;
pub mod merging;
pub mod monitor;
pub mod range;
pub mod rewrite;
pub mod rule;
pub mod source;
pub mod syntax;

pub use diagnostic::{Diagnostics, Kind, Severity};
pub use emit::report::Format;
pub use library::LibraryFile;
pub use rewrite::{Destination, Link, Options};
pub use source::Source;
pub use wasm_aot_body::{events, types};

use library::Library;

/// A module that was written, and what there is to say about it.
#[derive(Clone, Debug)]
pub struct Output {
    /// The module.
    pub module: Vec<u8>,
    /// Warnings.
    pub diagnostics: Diagnostics,
}

fn front(
    scripts: &[Source],
    libraries: &[LibraryFile],
) -> Result<(hir::Program, Vec<Library>, Diagnostics), Diagnostics> {
    let mut said = Diagnostics::new(scripts);
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for file in libraries {
        match Library::read(file) {
            Ok(library) if read.iter().any(|other: &Library| other.name == library.name) => {
                said.push(
                    Kind::GeneralError,
                    None,
                    format!("the library `{}` is given twice: give it once", library.name),
                );
            }
            Ok(library) => read.push(library),
            Err(why) => {
                said.append(why);
                unread.push(file.name.as_str());
            }
        }
    }
    let libraries = read;
    let program = check::check(scripts, &libraries, &unread, &mut said);
    if said.has_errors() { Err(said) } else { Ok((program, libraries, said)) }
}

/// Everything that is wrong with scripts, and everything that is suspicious.
pub fn check_scripts(scripts: &[Source], libraries: &[LibraryFile]) -> Diagnostics {
    front(scripts, libraries).map_or_else(|said| said, |(_, _, said)| said)
}

/// Puts the probes of scripts into a program, given in binary or text.
pub fn instrument(
    scripts: &[Source],
    libraries: &[LibraryFile],
    program: &[u8],
    options: &Options,
) -> Result<Output, Diagnostics> {
    let (checked, libraries, mut said) = front(scripts, libraries)?;
    let bytes = library::module(program).map_err(|why| {
        Diagnostics::general(Kind::InvalidModule, format!("the program is not a module: {why}"))
    })?;
    let module = rewrite::rewrite(&checked, &libraries, &bytes, options, &mut said)?;
    Ok(Output { module, diagnostics: said })
}

/// A script in the usual layout.
pub fn layout(script: &Source) -> Result<String, Diagnostics> {
    syntax::layout::layout(script)
}

/// Makes a module of scripts that an engine attaches to programs.
pub fn compile_monitor(
    scripts: &[Source],
    libraries: &[LibraryFile],
    options: &Options,
) -> Result<Output, Diagnostics> {
    let (checked, libraries, mut said) = front(scripts, libraries)?;
    let module = monitor::compile(&checked, &libraries, options, &mut said)?;
    Ok(Output { module, diagnostics: said })
}
