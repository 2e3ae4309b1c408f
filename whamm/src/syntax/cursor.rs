//! A position in a text, with functions that every level of the grammar needs: blanks, comments,
//! words, symbols, and diagnostics.

use crate::diagnostic::{Diagnostics, Kind};
use crate::source::Span;
use std::collections::HashSet;

/// Indicates that a syntax error has been reported.
#[derive(Debug)]
pub(super) struct Unread;

pub(super) type Read<T> = Result<T, Unread>;

/// The maximum nesting of blocks, parentheses and chains of operators: functions that walk trees
/// may recurse.
pub(super) const DEEPEST: u32 = 120;

pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) script: u16,
    pub(super) depth: u32,
    pub(super) said: &'a mut Diagnostics,
    /// While this is set, diagnostics are discarded, because the parser tries a construct that may
    /// fail.
    pub(super) trying: bool,
    /// Names whose declarations could not be parsed.
    pub(super) broken: HashSet<String>,
}

pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'a> Cursor<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The span from a position to here, without trailing blanks.
    pub(super) fn span(&self, start: usize) -> Span {
        let text = &self.text[start..self.at];
        Span::new(self.script, start..start + text.trim_end().len())
    }

    pub(super) fn here(&self) -> Span {
        let width = self.peek().map_or(0, char::len_utf8);
        Span::new(self.script, self.at..self.at + width)
    }

    pub(super) fn fail<T>(&mut self, span: Span, message: impl Into<String>) -> Read<T> {
        if !self.trying {
            self.said.push(Kind::ParsingError, Some(span), message);
        }
        Err(Unread)
    }

    pub(super) fn fail_help<T>(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Read<T> {
        if !self.trying {
            self.said.push_help(Kind::ParsingError, Some(span), message, help);
        }
        Err(Unread)
    }

    pub(super) fn expected<T>(&mut self, what: &str) -> Read<T> {
        let assigns =
            matches!(what, "`)`" | "`/`") && self.word().is_empty() && self.rest().starts_with('=');
        self.expected_help(what, assigns.then_some("`==` compares"))
    }

    pub(super) fn expected_help<T>(&mut self, what: &str, help: Option<&str>) -> Read<T> {
        self.blanks();
        let found = match self.peek() {
            None => "the end of the script".into(),
            Some(c) if is_word(c) => {
                format!("`{}`", self.rest().split(|c| !is_word(c)).next().unwrap_or(""))
            }
            Some('"') => "a text".into(),
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        let message = format!("expected {what}, found {found}");
        match help {
            Some(help) => self.fail_help(self.here(), message, help),
            None => self.fail(self.here(), message),
        }
    }

    /// Parses the end of a statement. If it is missing at the end of a line or block, it is
    /// reported, and parsing continues as if it were there.
    pub(super) fn semicolon(&mut self) -> Read<()> {
        let start = self.at;
        if self.eat(";") {
            return Ok(());
        }
        let ends = self.rest().is_empty()
            || self.rest().starts_with('}')
            || self.text[start..self.at].contains('\n');
        let missing = self.expected_help("`;`", Some("every statement ends with `;`"));
        if ends && !self.trying && !self.rest().is_empty() { Ok(()) } else { missing }
    }

    /// Skips blanks and comments; block comments nest.
    pub(super) fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            self.at += blank;
            if self.rest().starts_with("//") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with("/*") {
                self.long_comment();
            } else if blank == 0 {
                return;
            }
        }
    }

    fn long_comment(&mut self) {
        let start = self.at;
        let mut open = 0;
        while let Some(c) = self.peek() {
            if self.rest().starts_with("/*") {
                open += 1;
                self.at += 2;
            } else if self.rest().starts_with("*/") {
                open -= 1;
                self.at += 2;
            } else {
                self.at += c.len_utf8();
            }
            if open == 0 {
                return;
            }
        }
        let opening = Span::new(self.script, start..start + 2);
        let _: Read<()> =
            self.fail_help(opening, "this comment has no end", "every `/*` needs its own `*/`");
    }

    /// Consumes a symbol if it is next.
    pub(super) fn eat(&mut self, symbol: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Read<()> {
        if self.eat(symbol) { Ok(()) } else { self.expected(&format!("`{symbol}`")) }
    }

    /// The next word, without consuming it.
    pub(super) fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        if word.starts_with(|c: char| c.is_ascii_digit()) { "" } else { word }
    }

    /// Consumes a word if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// Parses a construct that may fail; after a failure, restores the position and reports
    /// nothing.
    pub(super) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Option<T> {
        let (start, before, depth) = (self.at, self.trying, self.depth);
        self.trying = true;
        let result = read(self).ok();
        self.trying = before;
        self.depth = depth;
        if result.is_none() {
            self.at = start;
        }
        result
    }

    /// Parses one level deeper, unless that is too deep.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= DEEPEST {
            return self.fail_help(
                self.here(),
                "this is nested too deeply",
                format!("at most {DEEPEST} levels; use variables or functions"),
            );
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}
