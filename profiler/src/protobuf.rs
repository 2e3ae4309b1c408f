//! Messages of protocol buffers, as far as profiles need them: they are written, and never read.

use std::collections::HashMap;

/// A message, as it grows.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field that is a number.
    pub fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A field that is a text, or bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A field that is a message.
    pub fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// A field that is a number with a sign (`sint32`, `sint64`).
    pub fn signed(&mut self, field: u32, value: i64) {
        self.number(field, zigzag(value));
    }

    /// A field that is a fraction.
    pub fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A message behind its length, as in streams of messages.
    pub fn delimited(&mut self, message: &Self) {
        self.varint(message.0.len() as u64);
        self.0.extend_from_slice(&message.0);
    }

    /// A field that is a row of numbers with signs.
    pub fn packed_signed(&mut self, field: u32, values: impl IntoIterator<Item = i64>) {
        self.packed(field, values.into_iter().map(zigzag));
    }

    /// A field that is a row of numbers.
    pub fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.message(field, &packed);
    }

    /// Its bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Small numbers are few bytes, whatever their sign.
const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Texts by their numbers; number 0 is the empty one.
#[derive(Clone, Debug)]
pub struct Strings {
    known: HashMap<String, u64>,
    all: Vec<String>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { known: HashMap::from([(String::new(), 0)]), all: vec![String::new()] }
    }
}

impl Strings {
    /// The number of a text, which is given out if it has none.
    pub fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.known.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }

    /// Writes all of them into a message, in the order of their numbers.
    pub fn write(&self, field: u32, message: &mut Message) {
        self.all.iter().for_each(|text| message.bytes(field, text.as_bytes()));
    }
}
