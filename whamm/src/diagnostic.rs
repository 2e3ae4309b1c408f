//! What the compiler has to say: errors and warnings with a place, a cause and a remedy.
//!
//! All phases push into one [`Diagnostics`], so that one run reports everything that is wrong with
//! a script. The kinds keep the names which existing scripts' users know.

use crate::source::{Source, Span};
use serde::Serialize;
use std::fmt;

/// How much of a line is shown.
const SHOWN: usize = 160;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is emitted.
    Error,
    /// Emitted, but perhaps not what was meant.
    Warning,
}

/// What sort of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// The text is not a script.
    ParsingError,
    /// A name, a type or an operator does not fit.
    TypeCheckError,
    /// A name means two things.
    DuplicateIdentifierError,
    /// A rule or a variable does not fit the event.
    InstrumentationError,
    /// The engine target cannot express it.
    WeiError,
    /// A constant computation has no value.
    ArithmeticError,
    /// A file, a library or an option is wrong.
    GeneralError,
    /// What was read or written is not a valid module.
    InvalidModule,
    /// A suspicious probe.
    ProbeWarning,
    /// A suspicious expression.
    TypeCheckWarning,
    /// An option that changes nothing.
    OptionWarning,
    /// The engine target cannot express it, and was not asked for.
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

/// One thing to say.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What sort of thing.
    pub kind: Kind,
    /// Where, unless it is about no place in a script.
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Everything that was said, with the scripts it is about.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    sources: Vec<Source>,
}

impl Diagnostics {
    /// Nothing said yet about these scripts.
    pub fn new(sources: &[Source]) -> Self {
        Self { list: Vec::new(), sources: sources.to_vec() }
    }

    /// One error that is about no script.
    pub fn general(kind: Kind, message: impl Into<String>) -> Self {
        let mut all = Self::default();
        all.push(kind, None, message);
        all
    }

    /// Everything, or what is wrong with any of it.
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

    /// Both, or what is wrong with either.
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

    /// Says something.
    pub fn push(&mut self, kind: Kind, span: Option<Span>, message: impl Into<String>) {
        self.list.push(Diagnostic { kind, span, message: message.into(), help: None });
    }

    /// Says something, and what to do about it.
    pub fn push_help(
        &mut self,
        kind: Kind,
        span: Option<Span>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.list.push(Diagnostic { kind, span, message: message.into(), help: Some(help.into()) });
    }

    /// Adds to messages from a number on.
    pub fn explain(&mut self, from: usize, more: &str) {
        for diagnostic in self.list.iter_mut().skip(from) {
            diagnostic.message += more;
        }
    }

    /// Whether anything stops the compilation.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.kind.severity() == Severity::Error)
    }

    /// Whether anything was said at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether so much was said that it is not worth the time to look for what else a name may have
    /// meant.
    pub(crate) fn is_long(&self) -> bool {
        self.list.len() >= 1000
    }

    /// How often something was said.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes back what was said since there were so many.
    pub(crate) fn split_off(&mut self, len: usize) -> Self {
        Self { list: self.list.split_off(len), sources: Vec::new() }
    }

    /// Everything that was said, each thing once, in the order of scripts and places.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        let mut seen = std::collections::HashSet::new();
        let mut all: Vec<_> =
            self.list.iter().filter(|d| seen.insert((d.span, &d.message))).collect();
        all.sort_by_key(|d| d.span.map_or((0, 0), |s| (s.script, s.start)));
        all.into_iter()
    }

    /// What the engine target refuses, as warnings.
    pub(crate) fn of_engine(mut self) -> Self {
        self.list.retain(|diagnostic| diagnostic.kind == Kind::WeiError);
        self.list.iter_mut().for_each(|diagnostic| diagnostic.kind = Kind::WeiWarning);
        self
    }

    /// Takes over what another phase said.
    pub fn append(&mut self, other: Self) {
        self.list.extend(other.list);
        if self.sources.is_empty() {
            self.sources = other.sources;
        }
    }

    /// Takes over what was said of other scripts.
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
        // A line of a megabyte would not help: show what is around the place.
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
    /// A script as a file has it; what is no text in UTF-8 is refused at its place.
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

/// A character as an excerpt shows it: what a terminal would obey, or what would change the order
/// of what is shown, is replaced.
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
