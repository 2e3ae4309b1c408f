//! Columns: their names, their values, and the layout of these.
//!
//! Texts, whole numbers and times are required. Floating-point numbers are optional: a level of one
//! bit tells for each whether it exists. Lists have two levels of one bit: whether a value
//! continues a row, and whether there is a value, since an empty list takes an entry, too.

use super::thrift::Struct;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// A column of some rows.
#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    values: Values,
}

/// The values of a column.
#[derive(Debug)]
pub(super) enum Values {
    Text(Vec<String>),
    Long(Vec<i64>),
    /// Microseconds since 1970.
    Time(Vec<i64>),
    Number(Vec<Option<f64>>),
    List(Vec<Vec<f64>>),
}

/// The format's numbers for types, repetitions, logical types, encodings and codecs.
const LONG: i32 = 2;
const NUMBER: i32 = 5;
const BYTES: i32 = 6;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;
const UTF8: i32 = 0;
const LIST: i32 = 3;
const MICROSECONDS: i32 = 10;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const GZIP: i32 = 2;

impl Column {
    pub(super) const fn new(name: &'static str, values: Values) -> Self {
        Self { name, values }
    }

    const fn kind(&self) -> i32 {
        match self.values {
            Values::Text(_) => BYTES,
            Values::Long(_) | Values::Time(_) => LONG,
            Values::Number(_) | Values::List(_) => NUMBER,
        }
    }

    /// Its part of the schema; a list is a group within a group.
    pub(super) fn schema(&self) -> Vec<Struct> {
        let leaf = |repetition, name| {
            Struct::default().int(1, self.kind()).int(3, repetition).text(4, name)
        };
        match self.values {
            Values::Text(_) => vec![leaf(REQUIRED, self.name).int(6, UTF8)],
            Values::Long(_) => vec![leaf(REQUIRED, self.name)],
            Values::Time(_) => vec![leaf(REQUIRED, self.name).int(6, MICROSECONDS)],
            Values::Number(_) => vec![leaf(OPTIONAL, self.name)],
            Values::List(_) => vec![
                Struct::default().int(3, REQUIRED).text(4, self.name).int(5, 1).int(6, LIST),
                Struct::default().int(3, REPEATED).text(4, "list").int(5, 1),
                leaf(REQUIRED, "element"),
            ],
        }
    }

    /// Appends its page to the file; returns its metadata.
    pub(super) fn write(&self, file: &mut Vec<u8>) -> Option<Struct> {
        let (count, plain) = self.page();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&plain).ok()?;
        let packed = gzip.finish().ok()?;
        let header = Struct::default()
            .int(1, 0)
            .int(2, plain.len() as i32)
            .int(3, packed.len() as i32)
            .inner(5, Struct::default().int(1, count as i32).int(2, PLAIN).int(3, RLE).int(4, RLE))
            .finish();
        let begin = file.len() as i64;
        file.extend_from_slice(&header);
        file.extend_from_slice(&packed);
        let path = match self.values {
            Values::List(_) => vec![self.name, "list", "element"],
            _ => vec![self.name],
        };
        let more = Struct::default()
            .int(1, self.kind())
            .ints(2, &[PLAIN, RLE])
            .texts(3, &path)
            .int(4, GZIP)
            .long(5, count as i64)
            .long(6, (header.len() + plain.len()) as i64)
            .long(7, (header.len() + packed.len()) as i64)
            .long(9, begin);
        Some(Struct::default().long(2, begin).inner(3, more))
    }

    /// The number of its values, including nulls and empty lists; and its levels and values.
    fn page(&self) -> (usize, Vec<u8>) {
        let mut page = Vec::new();
        let count = match &self.values {
            Values::Text(texts) => {
                for text in texts {
                    page.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    page.extend_from_slice(text.as_bytes());
                }
                texts.len()
            }
            Values::Long(numbers) | Values::Time(numbers) => {
                numbers.iter().for_each(|number| page.extend_from_slice(&number.to_le_bytes()));
                numbers.len()
            }
            Values::Number(numbers) => {
                levels(numbers.iter().map(Option::is_some), &mut page);
                let known = numbers.iter().flatten();
                known.for_each(|number| page.extend_from_slice(&number.to_le_bytes()));
                numbers.len()
            }
            Values::List(lists) => {
                let places = || {
                    lists.iter().flat_map(|list| {
                        (0..list.len().max(1)).map(|at| (at > 0, !list.is_empty()))
                    })
                };
                levels(places().map(|place| place.0), &mut page);
                levels(places().map(|place| place.1), &mut page);
                let all = lists.iter().flatten();
                all.for_each(|number| page.extend_from_slice(&number.to_le_bytes()));
                places().count()
            }
        };
        (count, page)
    }
}

/// Levels of one bit, as one run of packed groups of eight, preceded by their length.
fn levels(levels: impl Iterator<Item = bool>, page: &mut Vec<u8>) {
    let levels: Vec<bool> = levels.collect();
    let mut run = Vec::new();
    super::thrift::varint((levels.len().div_ceil(8) as u64) << 1 | 1, &mut run);
    for eight in levels.chunks(8) {
        let bits = eight.iter().enumerate().map(|(at, level)| u8::from(*level) << at);
        run.push(bits.fold(0, |byte, bit| byte | bit));
    }
    page.extend_from_slice(&(run.len() as u32).to_le_bytes());
    page.extend_from_slice(&run);
}
