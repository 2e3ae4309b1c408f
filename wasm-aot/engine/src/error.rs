//! Errors before a program runs, each with its place.

use crate::exception::ExnRef;
use crate::trap::Trap;
use std::fmt;

/// Where in a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The function, by index, and its name if it has one.
    pub function: Option<(u32, Option<String>)>,
    /// How many bytes from the module's start.
    pub offset: Option<usize>,
}

impl Place {
    /// Somewhere outside of functions.
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

/// A name that a module gives, as it is printed: nothing in it ends the line or commands the
/// terminal.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What reverses or hides text would let a name pass for another.
        let is_hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        self.0.chars().try_for_each(|c| match c.is_control() || is_hidden(c) {
            true => write!(f, "{}", c.escape_unicode()),
            false => write!(f, "{c}"),
        })
    }
}

/// Why a module is not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is no valid module.
    #[error("invalid module: {message} (at {place})")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        place: Place,
    },
    /// It is valid and uses what this engine has not.
    #[error("not supported: {what} (at {place})")]
    Unsupported {
        /// What it uses.
        what: String,
        /// Where.
        place: Place,
    },
    /// It is larger than this engine takes.
    #[error("too large: {what} (at {place})")]
    TooLarge {
        /// What is too large.
        what: String,
        /// Where.
        place: Place,
    },
    /// The processor lacks something, or an option is unknown to it.
    #[error("this processor cannot be compiled for: {0}")]
    Target(String),
    /// Text that is no module.
    #[error("{0}")]
    Text(String),
}

impl CompileError {
    /// What is wrong with a text, and where, in one line.
    pub fn text(error: &wast::Error, text: &str) -> Self {
        let (line, column) = error.span().linecol_in(text);
        Self::Text(format!("line {}, column {}: {}", line + 1, column + 1, error.message()))
    }

    /// It is valid, and this engine lacks what it uses.
    pub fn unsupported(what: impl Into<String>, place: Place) -> Self {
        Self::Unsupported { what: what.into(), place }
    }

    /// The same, known to lie in a function.
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
        // Validators report what they do not know by naming the proposal.
        match message.contains("gc proposal") || message.contains("requires `gc`") {
            true => Self::Unsupported { what: format!("gc: {message}"), place },
            false => Self::Invalid { message, place },
        }
    }
}

/// Why something did not go well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A module is not compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A module is not instantiated: an import is missing or of another type.
    #[error("{0}")]
    Link(String),
    /// The program was stopped by its own doing.
    #[error("{0}")]
    Trap(TrapReport),
    /// A probe has ended the program.
    #[error("{0}")]
    Probe(ProbeReport),
    /// The program threw an exception that was not caught.
    #[error("uncaught exception{0}")]
    Exception(ExceptionReport),
    /// The program has ended itself with that code.
    #[error("exit with code {0}")]
    Exit(i32),
    /// Values of other types than a function takes, or a handle of another store.
    #[error("{0}")]
    Type(String),
    /// The machine, or a limit, does not allow it.
    #[error("{0}")]
    Resource(String),
    /// A file of machine code is not taken.
    #[error("{0}")]
    Artifact(String),
    /// Nothing can be attached to a program that runs.
    #[error("nothing can be attached: {0}")]
    Attach(String),
    /// A host function has failed.
    #[error(transparent)]
    Host(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The failure of a host function.
    pub fn host(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Host(error.into())
    }

    /// A call of the system has failed.
    pub(crate) fn system(error: impl fmt::Display) -> Self {
        Self::Resource(error.to_string())
    }

    /// Why the program was stopped, if that is what happened.
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
    /// Why the program was stopped.
    pub trap: Trap,
    /// Where.
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
    /// Where.
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
    /// How many bytes from the module's start the instruction is, if that is known.
    pub offset: Option<u32>,
    /// Whether a monitor's code is executed there, which stands at the instruction but is not what
    /// it does.
    pub aside: bool,
    /// File and line of the source, where the module has debug information.
    pub source: Option<(String, u32)>,
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A recursion without end has said enough by then.
        const SHOWN: usize = 24;
        for (i, frame) in self.frames.iter().take(SHOWN).enumerate() {
            write!(f, "\n  {i:3}: {frame}")?;
        }
        match self.frames.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, "\n  and {more} more"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for FrameInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.offset {
            write!(f, "{offset:#8x} - ")?;
        }
        let module = Printable(self.module.as_deref().unwrap_or("<module>"));
        match &self.name {
            Some(name) => write!(f, "{module}!{}", demangled(name))?,
            None => write!(f, "{module}!function {}", self.function)?,
        }
        self.source
            .as_ref()
            .map_or(Ok(()), |(file, line)| write!(f, " ({}:{line})", Printable(file)))
    }
}

/// A name as its language spells it, fit to be printed.
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
