//! A writer of protocol-buffer messages, with the features that profiles need.

use std::collections::HashMap;

/// A message under construction.
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

    /// Adds a field that is a number.
    pub fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// Adds a field that is a string or bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a field that is a message.
    pub fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// Adds a field that is a signed number (`sint32`, `sint64`).
    pub fn signed(&mut self, field: u32, value: i64) {
        self.number(field, zigzag(value));
    }

    /// Adds a field that is a floating-point number.
    pub fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a message preceded by its length, as in streams of messages.
    pub fn delimited(&mut self, message: &Self) {
        self.varint(message.0.len() as u64);
        self.0.extend_from_slice(&message.0);
    }

    /// Adds a field that is a packed list of signed numbers.
    pub fn packed_signed(&mut self, field: u32, values: impl IntoIterator<Item = i64>) {
        self.packed(field, values.into_iter().map(zigzag));
    }

    /// Adds a field that is a packed list of numbers.
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

/// Zigzag encoding: small numbers take few bytes, whatever their sign.
const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// The string table; index 0 is the empty string.
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
    /// The index of a string, which is added if it is new.
    pub fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.known.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }

    /// Writes all strings into a message, in the order of their indices.
    pub fn write(&self, field: u32, message: &mut Message) {
        self.all.iter().for_each(|text| message.bytes(field, text.as_bytes()));
    }
}
