//! Requests for arguments: `parse_*@arg1/s,arg2/i32,retval`.
//!
//! ```text
//!   FUNCTION@VALUE,VALUE;FUNCTION;…      FUNCTION: a pattern, as -F takes it; by itself, all values
//!   VALUE   arg1 … arg6 │ retval         in registers, as the C calling convention has them
//!           /i /i8 /i16 /i32 /i64        an integer with a sign
//!           /u /u8 … │ /x /x8 … │ /c     without a sign, hexadecimal, a character
//!           /b │ /s                      true or false; a text that ends with a zero
//! ```
//!
//! Without a format, debug information determines it, or it is `/i`.

mod signature;

pub(crate) use signature::{Signature, signature};

use crate::symbols::Pattern;
use std::fmt;
use std::str::FromStr;

/// The argument registers of the calling convention (System V ABI, AMD64 supplement, 3.2.3).
pub const REGISTERS: u8 = 6;

/// Which value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An argument, from one on.
    Argument(u8),
    /// The return value.
    Return,
}

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An integer with a sign, of so many bits.
    Signed(u8),
    /// One without.
    Unsigned(u8),
    /// In hexadecimal digits.
    Hexadecimal(u8),
    /// A character.
    Character,
    /// Zero is false.
    Truth,
    /// A number of so many bits, some of which have names.
    Named(u8, &'static [(u64, String)]),
    /// What an address leads to, up to a zero.
    Text,
}

/// A value of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) place: Place,
    pub(crate) form: Form,
}

/// A requested value, and its form, if that is given.
type Asked = (Place, Option<Form>);

/// The values requested of functions that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// As it was written.
    text: String,
    /// Empty: all values that debug information describes.
    values: Vec<Asked>,
}

/// Why a text is not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not an argument list: {why}; expected for instance 'parse_*@arg1/s,arg2/i32,retval'"
)]
pub struct QuestionError {
    text: String,
    why: String,
}

impl FromStr for Question {
    type Err = QuestionError;

    fn from_str(text: &str) -> Result<Self, QuestionError> {
        let wrong = |why: String| QuestionError { text: text.to_owned(), why };
        let (function, values) = match text.rsplit_once('@') {
            Some((function, values)) => (function, Some(values)),
            None => (text, None),
        };
        if function.is_empty() {
            return Err(wrong("FUNCTION is missing before the values".to_owned()));
        }
        Pattern::parse(function).map_err(|error| wrong(error.to_string()))?;
        let values = values.into_iter().flat_map(|values| values.split(','));
        let values = values.map(value).collect::<Result<Vec<Asked>, String>>().map_err(wrong)?;
        let twice = (1..values.len()).any(|at| values[..at].iter().any(|v| v.0 == values[at].0));
        if twice {
            return Err(wrong("a value is given twice".to_owned()));
        }
        Ok(Self { text: text.to_owned(), values })
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn value(text: &str) -> Result<Asked, String> {
    let (place, form) = match text.split_once('/') {
        Some((place, form)) => (place, Some(form)),
        None => (text, None),
    };
    let place = match place {
        "retval" => Place::Return,
        _ => {
            let number = place.strip_prefix("arg").and_then(|number| number.parse::<u8>().ok());
            match number {
                Some(number @ 1..=REGISTERS) => Place::Argument(number),
                Some(0) => return Err("the first argument is arg1".to_owned()),
                Some(_) => {
                    return Err(format!("{place} is not in a register; only arg1 to arg6 are"));
                }
                None if place.starts_with("fparg") => {
                    return Err(format!(
                        "{place} is a floating-point number; only integers and strings can be read"
                    ));
                }
                None => return Err(format!("'{place}' is neither arg1 to arg6 nor retval")),
            }
        }
    };
    Ok((place, form.map(form_of).transpose()?))
}

fn form_of(text: &str) -> Result<Form, String> {
    let unknown = || {
        format!("'/{text}' is not a format: use /i, /u, /x (with 8, 16, 32 or 64), /b, /c or /s")
    };
    let (kind, bits) = text.split_at_checked(1).unwrap_or((text, ""));
    let bits = match bits {
        "" | "64" => 64,
        "8" => 8,
        "16" => 16,
        "32" => 32,
        _ => return Err(unknown()),
    };
    match (kind, text.len()) {
        ("i" | "d", _) => Ok(Form::Signed(bits)),
        ("u", _) => Ok(Form::Unsigned(bits)),
        ("x" | "p", _) => Ok(Form::Hexadecimal(bits)),
        ("c", 1) => Ok(Form::Character),
        ("b", 1) => Ok(Form::Truth),
        ("s", 1) => Ok(Form::Text),
        _ => Err(unknown()),
    }
}

impl Question {
    /// Those of `text`, with semicolons between them.
    pub fn several(text: &str) -> Result<Vec<Self>, QuestionError> {
        text.split(';').map(str::parse).collect()
    }

    /// The pattern of its functions.
    pub fn function(&self) -> String {
        self.text.rsplit_once('@').map_or(&*self.text, |(function, _)| function).to_owned()
    }

    /// The arguments and the return value that are read of a function, by the request and its
    /// types; `None` if neither gives any.
    pub(crate) fn parts(
        &self,
        types: impl FnOnce() -> Option<Signature>,
    ) -> Option<[Vec<Value>; 2]> {
        let is_told = !self.values.is_empty() && self.values.iter().all(|(_, form)| form.is_some());
        let types = if is_told { None } else { types() };
        let all = || {
            let Signature { arguments, returned } = types.as_ref()?;
            let arguments = arguments.iter().map(|(number, _)| Place::Argument(*number));
            let returned = returned.iter().map(|_| Place::Return);
            Some(arguments.chain(returned).map(|place| (place, None)).collect())
        };
        let asked = if self.values.is_empty() { all()? } else { self.values.clone() };
        let known = |place| types.as_ref().and_then(|types| types.form_of(place));
        let values = asked.into_iter().map(|(place, form)| Value {
            place,
            form: form.or_else(|| known(place)).unwrap_or(Form::Signed(64)),
        });
        let (arguments, returned) = values.partition(|value| value.place != Place::Return);
        Some([arguments, returned])
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Argument(number) => write!(f, "arg{number}")?,
            Place::Return => f.write_str("retval")?,
        }
        match self.form {
            Form::Signed(bits) => write!(f, "/i{}", size(bits)),
            Form::Unsigned(bits) => write!(f, "/u{}", size(bits)),
            Form::Hexadecimal(bits) => write!(f, "/x{}", size(bits)),
            Form::Character => f.write_str("/c"),
            Form::Truth => f.write_str("/b"),
            Form::Named(..) => f.write_str("/enum"),
            Form::Text => f.write_str("/s"),
        }
    }
}

fn mask(bits: u8) -> u64 {
    u64::MAX >> (64 - bits)
}

fn size(bits: u8) -> String {
    if bits == 64 { String::new() } else { bits.to_string() }
}

impl Form {
    /// A word as people write it. Bits beyond its size are anything.
    pub(crate) fn shown(self, word: u64) -> String {
        let cut = |bits: u8| word & mask(bits);
        match self {
            Self::Signed(bits) => {
                let by = 64 - u32::from(bits);
                (((word << by) as i64) >> by).to_string()
            }
            Self::Unsigned(bits) => cut(bits).to_string(),
            Self::Hexadecimal(bits) => format!("{:#x}", cut(bits)),
            Self::Character => format!("'{}'", (word as u8).escape_ascii()),
            Self::Truth => (word as u8 != 0).to_string(),
            Self::Named(bits, names) => {
                let named = names.iter().find(|(value, _)| value & mask(bits) == cut(bits));
                named.map_or_else(|| Self::Signed(bits).shown(word), |(_, name)| name.clone())
            }
            Self::Text => format!("{word:#x}"),
        }
    }

    /// The bits that distinguish values of this form.
    pub(crate) fn key(self, word: u64) -> u64 {
        match self {
            Self::Signed(bits)
            | Self::Unsigned(bits)
            | Self::Hexadecimal(bits)
            | Self::Named(bits, _) => word & mask(bits),
            Self::Character | Self::Truth => word & 0xff,
            Self::Text => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let question: Question = text.parse().unwrap();
        let parts = question.parts(|| None).unwrap().concat();
        parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_not_told_is_what_types_say() {
        let names = vec![(1, "one".to_owned()), (u64::MAX, "none".to_owned())].leak();
        let types = Signature {
            arguments: vec![(1, Form::Text), (2, Form::Named(32, names))],
            returned: Some(Form::Truth),
        };
        let shown = |text: &str, types: Option<Signature>| {
            let parts = text.parse::<Question>().unwrap().parts(|| types)?;
            let parts = parts.map(|part| part.iter().map(ToString::to_string).collect::<Vec<_>>());
            Some(parts.map(|part| part.join(" ")).join(" | "))
        };
        let known = |text| shown(text, Some(types.clone())).unwrap();
        assert_eq!(known("f"), "arg1/s arg2/enum | retval/b");
        assert_eq!(known("f@arg1,arg2/u8,retval"), "arg1/s arg2/u8 | retval/b");
        assert_eq!(known("f@arg3"), "arg3/i | ");
        assert_eq!(shown("f", None), None);
        assert_eq!(shown("f@retval", None).unwrap(), " | retval/i");
        let form = Form::Named(32, names);
        assert_eq!([1, 0xffff_ffff, 7].map(|word| form.shown(word)), ["one", "none", "7"]);
        assert_eq!(
            (Form::Truth.shown(0xff00), Form::Truth.shown(1)),
            ("false".into(), "true".into())
        );
    }

    #[test]
    fn questions_are_read_as_they_are_written() {
        assert_eq!(shown("parse_*@arg1/s,arg2/i32"), "arg1/s arg2/i32");
        assert_eq!(shown("f@arg6,retval/x8"), "arg6/i retval/x8");
        assert_eq!(shown("/^a@b$/@arg1/u,arg3/c,retval/i64"), "arg1/u arg3/c retval/i");
        assert_eq!(Question::several("f@arg1;g@retval").unwrap().len(), 2);
        let [arguments, returned] =
            "f@retval,arg2".parse::<Question>().unwrap().parts(|| None).unwrap();
        assert_eq!((arguments.len(), returned.len()), (1, 1));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        for (text, why) in [
            ("", "FUNCTION is missing"),
            ("@arg1", "FUNCTION is missing"),
            ("f@", "'' is neither"),
            ("f@arg0", "first argument is arg1"),
            ("f@arg7/s", "arg7 is not in a register"),
            ("f@fparg1", "floating-point"),
            ("f@arg1/q", "'/q' is not a format"),
            ("f@arg1/i7", "'/i7' is not a format"),
            ("f@arg1/s8", "'/s8' is not a format"),
            ("f@arg1/ä", "is not a format"),
            ("f@arg1,arg1/s", "twice"),
            ("/[/@arg1", "invalid pattern"),
        ] {
            let error = text.parse::<Question>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn words_are_cut_to_their_size() {
        let word = 0xffff_ffff_ffff_fffe;
        assert_eq!(Form::Signed(32).shown(word & 0xffff_ffff), "-2");
        assert_eq!(Form::Signed(64).shown(word), "-2");
        assert_eq!(Form::Unsigned(8).shown(word), "254");
        assert_eq!(Form::Hexadecimal(16).shown(word), "0xfffe");
        assert_eq!(Form::Character.shown(u64::from(b'\n')), "'\\n'");
        assert_eq!(Form::Signed(8).key(word), 0xfe);
    }
}
