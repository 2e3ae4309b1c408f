//! A writer for the part of Thrift's compact protocol that the file's metadata needs.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// The protocol's numbers for types.
const INT: u8 = 5;
const LONG: u8 = 6;
const TEXT: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A struct under construction; its fields are added in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    fn field(mut self, number: u8, kind: u8) -> Self {
        // The difference from the last number; none here is larger than 15.
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
        self
    }

    pub(super) fn int(self, number: u8, value: i32) -> Self {
        let mut all = self.field(number, INT);
        varint(zigzag(value.into()), &mut all.bytes);
        all
    }

    pub(super) fn long(self, number: u8, value: i64) -> Self {
        let mut all = self.field(number, LONG);
        varint(zigzag(value), &mut all.bytes);
        all
    }

    pub(super) fn text(self, number: u8, value: &str) -> Self {
        let mut all = self.field(number, TEXT);
        text(value, &mut all.bytes);
        all
    }

    pub(super) fn inner(self, number: u8, value: Self) -> Self {
        let mut all = self.field(number, STRUCT);
        all.bytes.extend(value.finish());
        all
    }

    pub(super) fn list(self, number: u8, values: Vec<Self>) -> Self {
        let mut all = self.begin_list(number, STRUCT, values.len());
        values.into_iter().for_each(|value| all.bytes.extend(value.finish()));
        all
    }

    pub(super) fn ints(self, number: u8, values: &[i32]) -> Self {
        let mut all = self.begin_list(number, INT, values.len());
        values.iter().for_each(|value| varint(zigzag((*value).into()), &mut all.bytes));
        all
    }

    pub(super) fn texts(self, number: u8, values: &[&str]) -> Self {
        let mut all = self.begin_list(number, TEXT, values.len());
        values.iter().for_each(|value| text(value, &mut all.bytes));
        all
    }

    fn begin_list(self, number: u8, kind: u8, length: usize) -> Self {
        let mut all = self.field(number, LIST);
        if length < 15 {
            all.bytes.push((length as u8) << 4 | kind);
        } else {
            all.bytes.push(0xf0 | kind);
            varint(length as u64, &mut all.bytes);
        }
        all
    }

    /// Its bytes, with the end mark.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn text(value: &str, bytes: &mut Vec<u8>) {
    varint(value.len() as u64, bytes);
    bytes.extend_from_slice(value.as_bytes());
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Seven bits a byte, the lowest first.
pub(super) fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
