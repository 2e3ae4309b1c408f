//! The program of a trace.

use crate::canonical::canonical;
use crate::cursor::{Cursor, Wrong, put_counted, put_number};
use crate::error::Error;
use std::borrow::Cow;
use std::fmt;

/// The identity of a module: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleHash(pub [u8; 32]);

impl ModuleHash {
    /// Hashes a module in binary.
    pub fn new(module: &[u8]) -> Self {
        Self(*blake3::hash(module).as_bytes())
    }

    /// Parses its printed form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ModuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleHash({self})")
    }
}

/// The recorded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The identity of its module.
    pub hash: ModuleHash,
    /// The module in binary, if the trace contains it.
    pub module: Option<Vec<u8>>,
    /// The name of its file.
    pub name: String,
    /// Its arguments, its own name first.
    pub args: Vec<Vec<u8>>,
    /// The name of the recorder.
    pub recorder: String,
}

impl Program {
    /// Creates a program whose module is stored in the trace.
    pub fn new(module: Vec<u8>, name: impl Into<String>) -> Self {
        let hash = ModuleHash::new(&module);
        let recorder = concat!("fastinst ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { hash, module: Some(module), name: name.into(), args: Vec::new(), recorder }
    }

    /// Returns its module: the one inside, or the given one, if that is the recorded one. Relaxed
    /// vector instructions of the given one are replaced, as they were in the recorded one.
    pub fn module_or<'a>(&'a self, given: Option<&'a [u8]>) -> Result<Cow<'a, [u8]>, Error> {
        let Some(given) = given else {
            let missing = "the trace has no module inside: name the one that was recorded";
            let inside = self.module.as_deref().ok_or_else(|| Error::event(0, missing));
            return inside.map(Cow::Borrowed);
        };
        let found = ModuleHash::new(given);
        if found == self.hash {
            return Ok(Cow::Borrowed(given));
        }
        match canonical(given) {
            Ok(own) if ModuleHash::new(&own) == self.hash => Ok(own),
            _ => Err(Error::OtherModule {
                expected: self.hash.to_string(),
                found: found.to_string(),
            }),
        }
    }

    /// Encodes the contents of its block.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut bytes = self.hash.0.to_vec();
        put_number(&mut bytes, self.module.as_ref().map_or(0, |module| module.len() as u64));
        put_counted(&mut bytes, self.name.as_bytes());
        put_counted(&mut bytes, self.recorder.as_bytes());
        put_number(&mut bytes, self.args.len() as u64);
        self.args.iter().for_each(|arg| put_counted(&mut bytes, arg));
        bytes
    }

    /// Reads its block: the program without its module, and the module's length.
    pub(crate) fn unpack(bytes: &[u8]) -> Result<(Self, u64), Wrong> {
        let mut from = Cursor(bytes);
        let hash = ModuleHash(from.array()?);
        let len = from.number()?;
        let (name, recorder) = (from.text()?, from.text()?);
        let mut args = Vec::new();
        for _ in 0..from.number()? {
            args.push(from.counted()?.to_vec());
        }
        match from.is_empty() {
            true => Ok((Self { hash, module: None, name, args, recorder }, len)),
            false => Err("more than a program".into()),
        }
    }
}
