//! Errors before a program runs, each with its place.

use crate::exception::ExnRef;
use crate::trap::Trap;
use std::fmt;

/// A place in a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The function, by index, and its name if it has one.
    pub function: Option<(u32, Option<String>)>,
    /// The offset from the module's start, in bytes.
    pub offset: Option<usize>,
}

impl Place {
    /// A place outside of functions.
    pub(crate) fn module(offset: usize) -> Self {
        Self { function: None, offset: Some(offset) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some((index, Some(name))) => write!(f, "function {index} ({})", Printable(name))?,
            Some((index, None)) => write!(f, "function {index}")?,
            None => f.write_str("the module")?,
        }
        self.offset.map_or(Ok(()), |offset| write!(f, ", offset {offset:#x}"))
    }
}

/// A name from a module, prepared for printing: it cannot end the line or contain terminal
/// commands.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Characters that reverse or hide text would make a name look like another.
        let is_hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        self.0.chars().try_for_each(|c| match c.is_control() || is_hidden(c) {
            true => write!(f, "{}", c.escape_unicode()),
            false => write!(f, "{c}"),
        })
    }
}

/// Why a module cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is not a valid module.
    #[error("invalid module: {message} (at {place})")]
    Invalid {
        /// What is wrong.
        message: String,
        /// The place.
        place: Place,
    },
    /// It is valid but uses a feature that this engine does not support.
    #[error("not supported: {what} (at {place})")]
    Unsupported {
        /// What it uses.
        what: String,
        /// The place.
        place: Place,
    },
    /// It is larger than this engine allows.
    #[error("too large: {what} (at {place})")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The place.
        place: Place,
    },
    /// The processor lacks a feature, or an option is unknown.
    #[error("this processor cannot be compiled for: {0}")]
    Target(String),
    /// Text that is not a module.
    #[error("{0}")]
    Text(String),
}

impl CompileError {
    /// Describes what is wrong with a text, and where, in one line.
    pub fn text(error: &wast::Error, text: &str) -> Self {
        let (line, column) = error.span().linecol_in(text);
        Self::Text(format!("line {}, column {}: {}", line + 1, column + 1, error.message()))
    }

    /// It is valid, but this engine does not support a feature that it uses.
    pub fn unsupported(what: impl Into<String>, place: Place) -> Self {
        Self::Unsupported { what: what.into(), place }
    }

    /// The same, with the function that it is in.
    #[must_use]
    pub fn within(mut self, index: u32, name: Option<&str>) -> Self {
        if let Self::Invalid { place, .. }
        | Self::Unsupported { place, .. }
        | Self::TooLarge { place, .. } = &mut self
        {
            place.function = Some((index, name.map(str::to_owned)));
        }
        self
    }
}

impl From<wasmparser::BinaryReaderError> for CompileError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        let message = error.message().to_owned();
        let place = Place::module(error.offset() as usize);
        // Validators report unsupported types by naming the proposal.
        match message.contains("gc proposal") || message.contains("requires `gc`") {
            true => Self::Unsupported { what: format!("gc: {message}"), place },
            false => Self::Invalid { message, place },
        }
    }
}

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A module is not compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A module is not instantiated: an import is missing or of another type.
    #[error("{0}")]
    Link(String),
    /// The program trapped.
    #[error("{0}")]
    Trap(TrapReport),
    /// A probe has ended the program.
    #[error("{0}")]
    Probe(ProbeReport),
    /// The program threw an exception that was not caught.
    #[error("uncaught exception{0}")]
    Exception(ExceptionReport),
    /// The program exited with that code.
    #[error("exit with code {0}")]
    Exit(i32),
    /// Values of other types than a function takes, or a handle of another store.
    #[error("{0}")]
    Type(String),
    /// The machine or a limit does not allow it.
    #[error("{0}")]
    Resource(String),
    /// A file of machine code was refused.
    #[error("{0}")]
    Artifact(String),
    /// Nothing can be attached to this running program.
    #[error("nothing can be attached: {0}")]
    Attach(String),
    /// A host function has failed.
    #[error(transparent)]
    Host(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps the failure of a host function.
    pub fn host(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Host(error.into())
    }

    /// Describes a failed system call.
    pub(crate) fn system(error: impl fmt::Display) -> Self {
        Self::Resource(error.to_string())
    }

    /// Returns the reason of the trap, if the program trapped.
    pub fn trap(&self) -> Option<Trap> {
        match self {
            Self::Trap(report) => Some(report.trap),
            _ => None,
        }
    }
}

impl From<Trap> for Error {
    fn from(trap: Trap) -> Self {
        Self::Trap(TrapReport { trap, backtrace: Backtrace::default() })
    }
}

/// A trap, and where it happened.
#[derive(Clone, Debug)]
pub struct TrapReport {
    /// The reason.
    pub trap: Trap,
    /// The frames.
    pub backtrace: Backtrace,
}

impl fmt::Display for TrapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wasm trap: {}{}", self.trap, self.backtrace)
    }
}

/// A probe that has ended the program, and where.
#[derive(Clone, Debug)]
pub struct ProbeReport {
    /// Which probe, and why.
    pub why: String,
    /// The frames.
    pub backtrace: Backtrace,
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.why, self.backtrace)
    }
}

/// An exception that left the program, and where it was thrown.
#[derive(Debug)]
pub struct ExceptionReport {
    /// The exception.
    pub exception: Option<ExnRef>,
    /// Where it was thrown.
    pub backtrace: Backtrace,
}

impl fmt::Display for ExceptionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backtrace.fmt(f)
    }
}

/// Frames of Wasm functions, innermost first.
#[derive(Clone, Debug, Default)]
pub struct Backtrace {
    /// The frames.
    pub frames: Vec<FrameInfo>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// The name of the module, if it has one.
    pub module: Option<String>,
    /// The function's index.
    pub function: u32,
    /// The function's name, or the one that it is exported by, if it has one.
    pub name: Option<String>,
    /// The offset of the instruction from the module's start, in bytes, if known.
    pub offset: Option<u32>,
    /// Whether the frame executes a monitor's code, which belongs to the instruction's place but
    /// does not implement the instruction.
    pub aside: bool,
    /// File and line of the source, if the module has debug information.
    pub source: Option<(String, u32)>,
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // More frames of an endless recursion would not be informative.
        const SHOWN: usize = 24;
        // Reports name functions without their module, and so do frames where one module is meant.
        let is_plain = self.frames.iter().all(|frame| frame.module == self.frames[0].module);
        for (i, frame) in self.frames.iter().take(SHOWN).enumerate() {
            match is_plain {
                true => write!(f, "\n  {i:3}: {frame}")?,
                false => write!(f, "\n  {i:3}: {frame:#}")?,
            }
        }
        match self.frames.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, "\n  and {more} more"),
            _ => Ok(()),
        }
    }
}

/// With `#`, the function's name is preceded by its module's.
impl fmt::Display for FrameInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.offset {
            write!(f, "{offset:#8x} - ")?;
        }
        if f.alternate() {
            write!(f, "{}!", Printable(self.module.as_deref().unwrap_or("<module>")))?;
        }
        match &self.name {
            Some(name) => f.write_str(&demangled(name))?,
            None => write!(f, "function {}", self.function)?,
        }
        self.source
            .as_ref()
            .map_or(Ok(()), |(file, line)| write!(f, " ({}:{line})", Printable(file)))
    }
}

/// A name as its source language spells it, fit to be printed.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Printable(&format!("{rust:#}")).to_string();
    }
    let cpp = name
        .starts_with("_Z")
        .then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok())
        .flatten();
    Printable(cpp.as_deref().unwrap_or(name)).to_string()
}
