//! The instrumentation language: one script, two targets.
//!
//! A script says where in a program to act, under which condition, and what to do there:
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
//! [`instrument`] injects probes into a program's code; [`compile_monitor`] makes a separate
//! module, which an engine attaches to programs. Neither executes anything, except library calls
//! that a script wants evaluated at compile time.
//!
//! | to do | with |
//! |---|---|
//! | inject probes into a program, or compile them to a monitor | [`instrument`], [`compile_monitor`] |
//! | type-check scripts, without a program | [`check_scripts`] |
//! | list what a rule matches and which variables it can use | [`info`] |
//! | format a script | [`layout`] |
//!
//! They take a [`Source`] for each script, a [`LibraryFile`] for each library, and [`Options`], and
//! return an [`Output`] or [`Diagnostics`]. Nothing else is public; `wasm_aot_body::events` lists
//! instructions and variables.
#![forbid(unsafe_code)]

mod app;
mod check;
mod diagnostic;
mod emit;
mod fold;
mod hir;
mod info;
mod library;
mod merging;
mod monitor;
mod range;
mod rewrite;
mod rule;
mod source;
mod syntax;

pub use diagnostic::{Diagnostics, Kind, Severity};
pub use emit::report::Format;
pub use info::{Asked, info};
pub use library::{LibraryFile, binary};
pub use rewrite::{Destination, Link, Options};
pub use source::Source;
pub use whamm_rewrite::SourceMap;

use wasm_aot_body::{events, types};

use library::Library;

/// An emitted module, with warnings.
#[derive(Clone, Debug)]
pub struct Output {
    /// The module.
    pub module: Vec<u8>,
    /// The program's source map, if it has one.
    pub source_map: Option<String>,
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

/// Type-checks scripts; returns all errors and warnings.
pub fn check_scripts(scripts: &[Source], libraries: &[LibraryFile]) -> Diagnostics {
    front(scripts, libraries).map_or_else(|said| said, |(_, _, said)| said)
}

/// Lists constructs of valid scripts that an engine refuses, as warnings: the rewriting target
/// accepts them.
pub fn check_for_engines(scripts: &[Source], libraries: &[LibraryFile]) -> Diagnostics {
    let none = Diagnostics::new(scripts);
    let Ok((checked, libraries, _)) = front(scripts, libraries) else { return none };
    let declaration = merging::declaration(&checked, scripts);
    let (options, mut said) = (Options::default(), none.clone());
    let made = monitor::compile(&checked, &libraries, &options, &declaration, &mut said);
    made.map_or_else(Diagnostics::of_engine, |_| none)
}

/// Inserts the probes of scripts into a program, given in binary or text.
pub fn instrument(
    scripts: &[Source],
    libraries: &[LibraryFile],
    program: &[u8],
    options: &Options,
) -> Result<Output, Diagnostics> {
    let (checked, libraries, mut said) = front(scripts, libraries)?;
    let bytes = binary(program).map_err(|why| {
        Diagnostics::general(Kind::InvalidModule, format!("the program is not a module: {why}"))
    })?;
    let (module, source_map) = rewrite::rewrite(&checked, &libraries, &bytes, options, &mut said)?;
    Ok(Output { module, source_map, diagnostics: said })
}

/// Formats a script.
pub fn layout(script: &Source) -> Result<String, Diagnostics> {
    syntax::layout::layout(script)
}

/// Compiles scripts to a module that an engine attaches to programs.
pub fn compile_monitor(
    scripts: &[Source],
    libraries: &[LibraryFile],
    options: &Options,
) -> Result<Output, Diagnostics> {
    let (checked, libraries, mut said) = front(scripts, libraries)?;
    let declaration = merging::declaration(&checked, scripts);
    let module = monitor::compile(&checked, &libraries, options, &declaration, &mut said)?;
    Ok(Output { module, source_map: None, diagnostics: said })
}
