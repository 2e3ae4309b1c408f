//! Parses literals of numbers and texts.

use super::ast::ExprKind;
use super::cursor::{Cursor, Read, is_word};
use crate::source::Span;

/// Whether a point here belongs to the number: it may be at the end, but `..` and a point before a
/// name do not belong to it.
pub(super) fn has_fraction(rest: &str) -> bool {
    let Some(behind) = rest.strip_prefix('.') else { return false };
    let exponent = behind
        .strip_prefix(['e', 'E'])
        .is_some_and(|t| t.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)));
    exponent
        || behind.starts_with(|c: char| c.is_ascii_digit())
        || !behind.starts_with(|c: char| is_word(c) || c == '.')
}

impl Cursor<'_> {
    /// Parses a number, if one is next. `glued` allows a sign before it.
    pub(super) fn number(&mut self, glued: bool) -> Read<Option<ExprKind>> {
        let start = self.at;
        if let Some(float) = glued.then(|| self.named_float()).flatten() {
            return Ok(Some(float));
        }
        let negative = glued && self.rest().starts_with('-');
        let digits = &self.rest()[usize::from(negative)..];
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        self.at += usize::from(negative);
        for (prefixes, radix) in [(["0x", "0X"], 16), (["0b", "0B"], 2)] {
            if prefixes.iter().any(|p| digits.starts_with(p)) {
                self.at += 2;
                return self.radix(start, radix, negative).map(Some);
            }
        }
        let whole = self.digits();
        if let Some(float) = self.fraction(start, whole.clone()) {
            return Ok(Some(float));
        }
        let shown: String = whole.chars().filter(|&c| c != '_').collect();
        if shown.len() > 1 && shown.starts_with('0') {
            return self.fail_help(
                self.span(start),
                "a decimal number does not begin with 0",
                "write `0x` for hexadecimal or `0b` for binary",
            );
        }
        match shown.parse::<i128>() {
            Ok(n) => Ok(Some(ExprKind::Int(if negative { -n } else { n }))),
            Err(_) => self.fail(self.span(start), "this number is too large for every type"),
        }
    }

    /// Parses `-inf` and `-nan`: without the sign they would be names.
    fn named_float(&mut self) -> Option<ExprKind> {
        let rest = self.rest().strip_prefix('-')?;
        let word = rest.split(|c| !is_word(c)).next()?.to_ascii_lowercase();
        let value = match word.as_str() {
            "inf" | "infinity" => f64::NEG_INFINITY,
            "nan" => -f64::NAN,
            _ => return None,
        };
        self.at += 1 + word.len();
        Some(ExprKind::Float(value, true))
    }

    fn digits(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(rest.len());
        self.at += end;
        rest[..end].into()
    }

    fn radix(&mut self, start: usize, radix: u32, negative: bool) -> Read<ExprKind> {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        self.at += end;
        match i128::from_str_radix(&rest[..end], radix) {
            Ok(_) if negative => self.fail_help(
                self.span(start),
                "hexadecimal and binary numbers have no sign",
                "write `-(...)`",
            ),
            Ok(n) => Ok(ExprKind::Bits(n)),
            Err(_) => self.fail(
                self.span(start),
                format!("this is no number of base {radix}, or it is too large for every type"),
            ),
        }
    }

    fn fraction(&mut self, start: usize, mut whole: String) -> Option<ExprKind> {
        let rest = self.rest();
        let dot = has_fraction(rest);
        if dot {
            self.at += 1;
            whole.push('.');
            whole.push_str(&self.digits());
        }
        let exponent = self
            .rest()
            .strip_prefix(['e', 'E'])
            .filter(|t| t.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()));
        if let Some(tail) = exponent {
            let sign = tail.len() - tail.trim_start_matches(['+', '-']).len();
            whole.push('e');
            whole.push_str(&tail[..sign]);
            self.at += 1 + sign;
            whole.push_str(&self.digits());
        }
        if !dot && exponent.is_none() {
            return None;
        }
        let text: String = whole.chars().filter(|&c| c != '_').collect();
        let magnitude: f64 = text.parse().ok()?;
        let value = if self.text[start..].starts_with('-') { -magnitude } else { magnitude };
        #[expect(clippy::cast_possible_truncation, reason = "whether it fits is the question")]
        let fits = (value as f32).is_finite();
        Some(ExprKind::Float(value, fits))
    }

    /// Parses a text in quotes.
    pub(super) fn string(&mut self) -> Read<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return self.fail(
                    Span::new(self.script, start..start + 1),
                    "this text has no end: a `\"` is missing",
                );
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                other => text.push(other),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.at - 1;
        let c = self.peek().unwrap_or(' ');
        self.at += self.peek().map_or(0, char::len_utf8);
        let code = match c {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            '0' => return Ok('\0'),
            '"' | '\'' | '\\' => return Ok(c),
            'x' => self.rest().get(..2).map(|t| (t, 2)),
            'u' => self
                .rest()
                .strip_prefix('{')
                .and_then(|t| t.find('}').map(|end| (&t[..end], end + 2))),
            _ => None,
        };
        let found = code.and_then(|(digits, width)| {
            let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
            let c = plain
                .then(|| u32::from_str_radix(digits, 16).ok())
                .flatten()
                .and_then(char::from_u32)?;
            Some((c, width))
        });
        if let Some((c, width)) = found {
            self.at += width;
            return Ok(c);
        }
        self.fail_help(
            self.span(start),
            "this stands for no character",
            "known are \\n \\r \\t \\0 \\\" \\' \\\\ \\xHH \\u{H...}",
        )
    }
}
