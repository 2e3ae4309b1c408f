//! Texts of the run-time support, which its functions contain as they are printed.
//!
//! `(call $say "text")` prints a text. `(call $tell "text" (base))` prints one with figures in it:
//!
//! | in the text | what is printed |
//! |---|---|
//! | `{8:12}` | the number of 64 bits at `base` + 8, right-aligned in 12 columns |
//! | `{i32 8}` | the number of 32 bits at `base` + 8 |
//! | `{.9 8}` | the number with its last nine digits after the decimal point |
//! | `{ms 8}` | nanoseconds as milliseconds, with three digits after the decimal point |
//! | `{name 8}`, `{quoted 8}` | the name of the function with the number at `base` + 8; in quotes |
//! | `{=8}` | the value at the address 8 |
//! | `{{` | a brace |
//!
//! So a line of a report is a few bytes of data, and one call: engines compile code, not data.

use crate::Error;
use std::fmt::Write;

/// Replaces texts by the addresses at which `put` stores them.
pub(crate) fn replace(part: &str, mut put: impl FnMut(&[u8]) -> u32) -> Result<String, Error> {
    let (mut out, mut rest) = (String::new(), part);
    while let Some((before, quoted, has_figures)) = next(rest) {
        let (text, length) = unquoted(quoted);
        let mut bytes = match has_figures {
            true => {
                encoded(&text).ok_or_else(|| Error::Runtime(format!("a figure in {text:?}")))?
            }
            false => text.into_bytes(),
        };
        bytes.push(0);
        out += before;
        let _ = write!(out, "(i32.const {})", put(&bytes));
        rest = &quoted[length..];
    }
    Ok(out + rest)
}

/// The source before the next text, the source from there on, and whether the text has figures.
fn next(rest: &str) -> Option<(&str, &str, bool)> {
    const CALLS: [(&str, bool); 2] = [("(call $say \"", false), ("(call $tell \"", true)];
    let found = CALLS.iter().filter_map(|(call, has_figures)| {
        let end = rest.find(call)? + call.len();
        Some((end, *has_figures))
    });
    let (end, has_figures) = found.min()?;
    Some((&rest[..end - 1], &rest[end..], has_figures))
}

/// A text up to its quotation mark, and its length including the mark.
fn unquoted(quoted: &str) -> (String, usize) {
    let (mut text, mut is_escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            'n' if is_escaped => text.push('\n'),
            _ if is_escaped => text.push(c),
            '\\' => {}
            '"' => return (text, at + 1),
            c => text.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    (text, quoted.len())
}

/// A text with figures, as `$tell` in `runtime/write.wat` reads it.
fn encoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find('{') {
        bytes.extend(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('{') {
            bytes.push(b'{');
            rest = behind;
            continue;
        }
        let (figure, behind) = rest.split_once('}')?;
        bytes.extend(figure_bytes(figure)?);
        rest = behind;
    }
    bytes.extend(rest.as_bytes());
    Some(bytes)
}

/// The kind of a figure, its offset, its number of decimals, and the width of the column.
fn figure_bytes(figure: &str) -> Option<[u8; 4]> {
    let (figure, width) = figure.split_once(':').unwrap_or((figure, "0"));
    let (what, at) = figure.split_once(' ').unwrap_or(("", figure));
    let (what, digits) = match what {
        "" => (1, 0),
        "i32" => (2, 0),
        "ms" => (3, 3),
        "name" => (4, 0),
        "quoted" => (5, 0),
        digits => (1, digits.strip_prefix('.')?.parse().ok()?),
    };
    let (is_absolute, at) = at.strip_prefix('=').map_or((0, at), |at| (128, at));
    let at: u8 = if at.is_empty() { 0 } else { at.parse().ok()? };
    at.is_multiple_of(4).then_some([what, (at / 4) | is_absolute, digits, width.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_addresses_and_figures_bytes() {
        let part =
            r#"(call $say "a\n\"b\"") (call $tell "{{{i32 8:12}, {.9 =16}}" (local.get $x))"#;
        let mut texts = Vec::new();
        let put = |bytes: &[u8]| {
            texts.push(bytes.to_vec());
            100 * texts.len() as u32
        };
        let replaced = replace(part, put).expect("texts");
        assert_eq!(
            replaced,
            "(call $say (i32.const 100)) (call $tell (i32.const 200) (local.get $x))"
        );
        let figures = [b"{\x02\x02\x00\x0c, \x01\x84\x09\x00}\0".to_vec()];
        assert_eq!(texts[0], b"a\n\"b\"\0");
        assert_eq!(texts[1..], figures);
    }

    #[test]
    fn a_figure_that_is_none_is_an_error() {
        for text in ["{", "{eight}", "{i64 8}", "{9}", "{8:wide}"] {
            assert_eq!(encoded(text), None, "{text}");
        }
    }
}
