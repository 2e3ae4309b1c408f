//! A line of the text form, word by word.

use crate::value::Value;
use std::str::FromStr;

/// The remaining words of a line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Line<'a> {
    /// Splits a line into words; a quoted text is one word.
    pub(super) fn new(line: &'a str) -> Result<Self, String> {
        let (mut words, mut rest) = (Vec::new(), line.trim_start());
        while !rest.is_empty() {
            let len = match rest.starts_with('"') {
                true => quoted_len(rest).ok_or("a text without an end")?,
                false => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            };
            let (word, behind) = rest.split_at(len);
            words.push(word);
            rest = behind.trim_start();
        }
        Ok(Self { words, at: 0 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.words.len()
    }

    pub(super) fn word(&mut self) -> Result<&'a str, String> {
        let word = self.words.get(self.at).ok_or("something is missing at the end")?;
        self.at += 1;
        Ok(word)
    }

    /// Whether this is the next word; if so, it is consumed.
    pub(super) fn has_keyword(&mut self, word: &str) -> bool {
        let has = self.words.get(self.at) == Some(&word);
        self.at += usize::from(has);
        has
    }

    pub(super) fn keyword(&mut self, word: &str) -> Result<(), String> {
        match self.has_keyword(word) {
            true => Ok(()),
            false => Err(format!("expected {word}")),
        }
    }

    pub(super) fn number<N: FromStr>(&mut self) -> Result<N, String> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("{word}: not a number that can be here"))
    }

    pub(super) fn hex(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word()?;
        if word == "-" {
            return Ok(Vec::new());
        }
        let wrong = || format!("{word:.40}: not bytes in hexadecimal");
        if !word.is_ascii() || word.len() % 2 != 0 {
            return Err(wrong());
        }
        let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        word.as_bytes().chunks(2).map(byte).collect::<Option<_>>().ok_or_else(wrong)
    }

    /// Reads quoted bytes.
    pub(super) fn quoted(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word()?;
        let inside = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        let mut rest = inside.ok_or_else(|| format!("{word}: expected a text in quotes"))?;
        let mut bytes = Vec::new();
        while let Some((before, escaped)) = rest.split_once('\\') {
            bytes.extend_from_slice(before.as_bytes());
            let mut chars = escaped.chars();
            match chars.next() {
                Some(c @ ('"' | '\\')) => bytes.push(c as u8),
                Some('x') => {
                    let digits = escaped.get(1..3).filter(|digits| digits.is_ascii());
                    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    bytes.push(byte.ok_or_else(|| format!("{word}: expected \\xHH"))?);
                    chars.nth(1);
                }
                _ => return Err(format!("{word}: expected \\\", \\\\ or \\xHH")),
            }
            rest = chars.as_str();
        }
        bytes.extend_from_slice(rest.as_bytes());
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<String, String> {
        String::from_utf8(self.quoted()?).map_err(|_| "a text that is not UTF-8".into())
    }

    pub(super) fn value(&mut self) -> Result<Value, String> {
        let word = self.word()?;
        value(word)
            .ok_or_else(|| format!("{word}: not a value, as i32:5 or f64:0x3ff0000000000000"))
    }

    /// Reads all values up to the end.
    pub(super) fn values(&mut self) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        while !self.is_empty() {
            values.push(self.value()?);
        }
        Ok(values)
    }
}

/// The length of a quoted text, with the quotes.
fn quoted_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn value(word: &str) -> Option<Value> {
    let (ty, text) = word.split_once(':')?;
    let bits = || u128::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let reference = || match text {
        "null" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(match ty {
        "i32" => Value::I32(text.parse::<i32>().ok()?.cast_unsigned()),
        "i64" => Value::I64(text.parse::<i64>().ok()?.cast_unsigned()),
        "f32" => Value::F32(bits()?.try_into().ok()?),
        "f64" => Value::F64(bits()?.try_into().ok()?),
        "v128" => Value::V128(bits()?),
        "func" => Value::Func(reference()?),
        "extern" if text == "some" => Value::Object,
        "extern" => Value::Extern(reference()?),
        _ => return None,
    })
}
