//! Diagnostics of the compiler: errors and warnings with a place, a cause and a remedy.
//!
//! All phases push into one [`Diagnostics`], so that one run reports all errors of a script. The
//! kinds keep the names that users of existing scripts know.

use crate::source::{Source, Span};
use serde::Serialize;
use std::fmt;

/// How many characters of a line are shown.
const SHOWN: usize = 160;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No module is emitted.
    Error,
    /// A module is emitted, but perhaps not the intended one.
    Warning,
}

/// The kind of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// The text is not a script.
    ParsingError,
    /// A name, a type or an operator does not fit.
    TypeCheckError,
    /// A name has two meanings.
    DuplicateIdentifierError,
    /// A rule or a variable does not fit the event.
    InstrumentationError,
    /// The engine target cannot express it.
    WeiError,
    /// A constant computation has no value.
    ArithmeticError,
    /// A file, a library or an option is wrong.
    GeneralError,
    /// The input or the output is not a valid module.
    InvalidModule,
    /// A suspicious probe.
    ProbeWarning,
    /// A suspicious expression.
    TypeCheckWarning,
    /// An option without effect.
    OptionWarning,
    /// The engine target, which was not requested, cannot express it.
    WeiWarning,
}

impl Kind {
    /// Whether this stops the compilation.
    pub fn severity(self) -> Severity {
        match self {
            Self::ProbeWarning
            | Self::TypeCheckWarning
            | Self::OptionWarning
            | Self::WeiWarning => Severity::Warning,
            _ => Severity::Error,
        }
    }

    fn word(self) -> String {
        match self {
            Self::InvalidModule => "invalid-module".into(),
            other => format!("{other:?}"),
        }
    }
}

/// One diagnostic.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Its kind.
    pub kind: Kind,
    /// Its place, unless it does not refer to a script.
    pub span: Option<Span>,
    /// The error.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

/// A list of diagnostics, with the scripts they refer to.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    sources: Vec<Source>,
}

impl Diagnostics {
    /// An empty list for these scripts.
    pub fn new(sources: &[Source]) -> Self {
        Self { list: Vec::new(), sources: sources.to_vec() }
    }

    /// One error that does not refer to a script.
    pub fn general(kind: Kind, message: impl Into<String>) -> Self {
        let mut all = Self::default();
        all.push(kind, None, message);
        all
    }

    /// All results, or the diagnostics of those that failed.
    pub fn all<T>(results: impl IntoIterator<Item = Result<T, Self>>) -> Result<Vec<T>, Self> {
        let (mut list, mut said) = (Vec::new(), Self::default());
        for result in results {
            match result {
                Ok(one) => list.push(one),
                Err(why) => said.append(why),
            }
        }
        if said.is_empty() { Ok(list) } else { Err(said) }
    }

    /// Both results, or the diagnostics of those that failed.
    pub fn both<A, B>(a: Result<A, Self>, b: Result<B, Self>) -> Result<(A, B), Self> {
        match (a, b) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(mut said), Err(more)) => {
                said.append(more);
                Err(said)
            }
            (Err(said), _) | (_, Err(said)) => Err(said),
        }
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, kind: Kind, span: Option<Span>, message: impl Into<String>) {
        self.list.push(Diagnostic { kind, span, message: message.into(), help: None });
    }

    /// Adds a diagnostic with a remedy.
    pub fn push_help(
        &mut self,
        kind: Kind,
        span: Option<Span>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.list.push(Diagnostic { kind, span, message: message.into(), help: Some(help.into()) });
    }

    /// Adds text to messages from an index on, which depends on the message.
    pub fn explain(&mut self, from: usize, more: impl Fn(&str) -> String) {
        for diagnostic in self.list.iter_mut().skip(from) {
            diagnostic.message += &more(&diagnostic.message);
        }
    }

    /// Whether anything stops the compilation.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.kind.severity() == Severity::Error)
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the list is so long that searching for names of similar spelling is not worth the
    /// time.
    pub(crate) fn is_long(&self) -> bool {
        self.list.len() >= 1000
    }

    /// The number of diagnostics.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Removes and returns the diagnostics from an index on.
    pub(crate) fn split_off(&mut self, len: usize) -> Self {
        Self { list: self.list.split_off(len), sources: Vec::new() }
    }

    /// All diagnostics without duplicates, in the order of scripts and places.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        let mut seen = std::collections::HashSet::new();
        let mut all: Vec<_> =
            self.list.iter().filter(|d| seen.insert((d.span, &d.message))).collect();
        all.sort_by_key(|d| d.span.map_or((0, 0), |s| (s.script, s.start)));
        all.into_iter()
    }

    /// The errors of the engine target, as warnings.
    pub(crate) fn of_engine(mut self) -> Self {
        self.list.retain(|diagnostic| diagnostic.kind == Kind::WeiError);
        self.list.iter_mut().for_each(|diagnostic| diagnostic.kind = Kind::WeiWarning);
        self
    }

    /// Adds the diagnostics of another phase.
    pub fn append(&mut self, other: Self) {
        self.list.extend(other.list);
        if self.sources.is_empty() {
            self.sources = other.sources;
        }
    }

    /// Adds the diagnostics of other scripts.
    pub fn merge(&mut self, other: Self) {
        let shift = u16::try_from(self.sources.len()).unwrap_or(u16::MAX);
        self.sources.extend(other.sources);
        self.list.extend(other.list.into_iter().map(|mut d| {
            if let Some(span) = &mut d.span {
                span.script = span.script.saturating_add(shift);
            }
            d
        }));
    }

    /// For editors: one object per line.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Entry<'a> {
            severity: Severity,
            kind: String,
            message: &'a str,
            help: Option<&'a str>,
            file: Option<&'a str>,
            line: Option<usize>,
            column: Option<usize>,
            end_line: Option<usize>,
            end_column: Option<usize>,
        }
        let entry = |d: &Diagnostic| {
            let source = d.span.and_then(|s| self.sources.get(usize::from(s.script)));
            let place = |at: u32| source.map(|s| s.place(at as usize));
            let (start, end) =
                (d.span.and_then(|s| place(s.start)), d.span.and_then(|s| place(s.end)));
            let entry = Entry {
                severity: d.kind.severity(),
                kind: d.kind.word(),
                message: &d.message,
                help: d.help.as_deref(),
                file: source.map(|s| s.name.as_str()),
                line: start.map(|p| p.0),
                column: start.map(|p| p.1),
                end_line: end.map(|p| p.0),
                end_column: end.map(|p| p.1),
            };
            serde_json::to_string(&entry).unwrap_or_default() + "\n"
        };
        self.iter().map(entry).collect()
    }

    fn excerpt(
        &self,
        f: &mut fmt::Formatter<'_>,
        span: Span,
        (begin, end): (&str, &str),
    ) -> fmt::Result {
        let Some(source) = self.sources.get(usize::from(span.script)) else { return Ok(()) };
        let (line, column) = source.place(span.start as usize);
        let text = source.line(line);
        let spare: usize = text.chars().count() + 1;
        let covered = source
            .text
            .get(span.start as usize..span.end as usize)
            .map_or(1, |t| t.split('\n').next().unwrap_or("").chars().count());
        let width = covered.clamp(1, (spare + 1).saturating_sub(column).max(1));
        let margin = line.to_string().len();
        // Of a very long line, only the part around the place is shown.
        let from = if spare > SHOWN { column.saturating_sub(SHOWN / 2) } else { 0 };
        let shown: String = text.chars().skip(from).take(SHOWN).map(visible).collect();
        writeln!(f, "{:margin$}--> {}:{line}:{column}", " ", source.name)?;
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{line} | {shown}")?;
        writeln!(
            f,
            "{:margin$} | {:>pad$}{begin}{}{end}",
            "",
            "",
            "^".repeat(width.min(SHOWN)),
            pad = column - 1 - from
        )
    }
}

impl Source {
    /// A script with the contents of a file; text that is not UTF-8 is an error at its place.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Diagnostics> {
        let name = name.into();
        String::from_utf8(bytes).map(|text| Self::new(name.as_str(), text)).map_err(|wrong| {
            let at = wrong.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(wrong.as_bytes()).into_owned();
            let mut said = Diagnostics::new(&[Self { name: name.clone(), text }]);
            let message = format!("{name} is not text in UTF-8");
            said.push(Kind::ParsingError, Some(Span::new(0, at..at)), message);
            said
        })
    }
}

/// A character as an excerpt shows it: control characters, and characters that change the order of
/// the text, are replaced.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// `{:#}` is for terminals: with colours.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 50;
        for d in self.iter().take(MOST) {
            let (word, color) = match d.kind.severity() {
                Severity::Error => ("error", "\x1b[1;31m"),
                Severity::Warning => ("warning", "\x1b[1;33m"),
            };
            let (begin, end) = if f.alternate() { (color, "\x1b[0m") } else { ("", "") };
            writeln!(f, "{begin}{word}[{}]{end}: {}", d.kind.word(), d.message)?;
            if let Some(span) = d.span {
                self.excerpt(f, span, (begin, end))?;
            }
            if let Some(help) = &d.help {
                writeln!(f, "  = help: {help}")?;
            }
        }
        match self.iter().count().saturating_sub(MOST) {
            0 => Ok(()),
            more => writeln!(f, "... and {more} more"),
        }
    }
}

impl std::error::Error for Diagnostics {}
