//! Columns: all values of one kind are stored together, so that they compress well.
//!
//! Whole numbers are varints of seven bits a byte (LEB128). Other numbers are rounded to 24 bits,
//! seven digits: rounding keeps their order, so that no bound is violated. Many are equal to an
//! earlier one (a function that was called once has one time), so each has a reference, and only
//! new ones have four bytes. The upper byte compresses well, and is stored with the other upper
//! bytes. The lower three do not compress, and are stored in an uncompressed column.
//!
//! | reference | the number |
//! |---|---|
//! | 0 | a new number |
//! | 1 | zero |
//! | 2 | the previous one of its kind |
//! | 3 and above | the latest new number of this record, the one before it, … |

use super::FileError;

/// The columns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    /// The header and the modules, as JSON.
    Text,
    /// Which figures there are, and their certainty.
    Shape,
    /// IDs, modules and offsets of functions; lines.
    Place,
    /// For each name: the number of bytes in common with the previous name, and the number of other
    /// bytes.
    Shared,
    /// The other bytes of names.
    Name,
    /// Counts.
    Count,
    /// Buckets of histograms.
    Bucket,
    /// Return addresses, callers.
    Call,
    /// Slow calls, stacks.
    Stack,
    /// References of numbers.
    Reference,
    /// The upper bytes of numbers.
    Upper,
}

/// The number of compressed columns.
const PACKED: usize = 11;
/// The bytes of a number that are not compressed.
const LOWER: usize = 3;

const NEW: u8 = 0;
const ZERO: u8 = 1;
const AS_BEFORE: u8 = 2;
const LATEST: u8 = 3;

/// The number of earlier numbers of a record that are searched for an equal one.
const REMEMBERED: usize = 8;
/// The number of kinds of numbers: each number is compared with the previous one of its kind.
pub(super) const KINDS: usize = 40;

/// The numbers that references refer to, as bits.
#[derive(Debug)]
struct Recent {
    /// The new ones of this record; the latest is before `next`.
    new: [u32; REMEMBERED],
    next: usize,
    by_kind: [u32; KINDS],
}

impl Recent {
    const NONE: Self = Self { new: [0; REMEMBERED], next: 0, by_kind: [0; KINDS] };

    /// The new number `back` places before the latest; `None` if there is none.
    fn back(&self, back: usize) -> Option<u32> {
        (back < self.next.min(REMEMBERED)).then(|| self.new[(self.next - 1 - back) % REMEMBERED])
    }

    fn reference(&self, kind: usize, bits: u32) -> u8 {
        if bits == 0 {
            return ZERO;
        }
        if self.by_kind[kind] == bits {
            return AS_BEFORE;
        }
        let back = (0..self.next.min(REMEMBERED)).find(|back| self.back(*back) == Some(bits));
        back.map_or(NEW, |back| LATEST + back as u8)
    }

    fn passed(&mut self, kind: usize, bits: u32, is_new: bool) {
        if is_new {
            self.new[self.next % REMEMBERED] = bits;
            self.next += 1;
        }
        self.by_kind[kind] = bits;
    }
}

/// Columns that are being written.
#[derive(Debug)]
pub(super) struct Writer {
    packed: [Vec<u8>; PACKED],
    lower: Vec<u8>,
    recent: Recent,
    /// The previous name, if names share beginnings.
    latest: Option<Vec<u8>>,
    /// The bytes of all names.
    pub(super) names: usize,
}

impl Writer {
    /// Whether names are stored by their differences from the previous one, or whole.
    pub(super) fn new(names_share: bool) -> Self {
        Self {
            packed: Default::default(),
            lower: Vec::new(),
            recent: Recent::NONE,
            latest: names_share.then(Vec::new),
            names: 0,
        }
    }

    /// Begins a record.
    pub(super) fn begin(&mut self) {
        self.recent.next = 0;
    }

    pub(super) fn byte(&mut self, column: Column, byte: u8) {
        self.packed[column as usize].push(byte);
    }

    pub(super) fn number(&mut self, column: Column, mut number: u64) {
        let column = &mut self.packed[column as usize];
        while number >= 0x80 {
            column.push(number as u8 | 0x80);
            number >>= 7;
        }
        column.push(number as u8);
    }

    /// Writes a number that is close to another one.
    pub(super) fn near(&mut self, column: Column, number: u64, other: u64) {
        let by = number.wrapping_sub(other) as i64;
        self.number(column, ((by << 1) ^ (by >> 63)) as u64);
    }

    pub(super) fn real(&mut self, kind: usize, value: f64) {
        // Numbers that are too large for the format would become infinite, and the file would be
        // refused.
        let bits = (value as f32).clamp(f32::MIN, f32::MAX).to_bits();
        let reference = self.recent.reference(kind, bits);
        self.byte(Column::Reference, reference);
        if reference == NEW {
            let [upper, lower @ ..] = bits.to_be_bytes();
            self.byte(Column::Upper, upper);
            self.lower.extend(lower);
        }
        self.recent.passed(kind, bits, reference == NEW);
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.number(Column::Text, text.len() as u64);
        self.packed[Column::Text as usize].extend(text);
    }

    pub(super) fn name(&mut self, name: &str) {
        let name = name.as_bytes();
        let latest = self.latest.as_deref().unwrap_or_default();
        let shared = name.iter().zip(latest).take_while(|(a, b)| a == b).count();
        self.number(Column::Shared, shared as u64);
        self.number(Column::Shared, (name.len() - shared) as u64);
        self.packed[Column::Name as usize].extend(&name[shared..]);
        if let Some(latest) = &mut self.latest {
            latest.truncate(shared);
            latest.extend(&name[shared..]);
        }
        self.names += name.len();
    }

    /// All compressed columns, each preceded by its length; and the uncompressed one.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u8>) {
        let mut all = Vec::with_capacity(
            self.packed.iter().map(Vec::len).sum::<usize>() + PACKED * size_of::<u64>(),
        );
        for column in &self.packed {
            all.extend((column.len() as u64).to_le_bytes());
        }
        self.packed.iter().for_each(|column| all.extend(column));
        (all, self.lower)
    }
}

/// Columns that are being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    packed: [&'a [u8]; PACKED],
    lower: &'a [u8],
    recent: Recent,
    latest: Vec<u8>,
    /// The number of bytes that all further names may still have together.
    pub(super) names: usize,
}

impl<'a> Reader<'a> {
    /// Reads the result of [`Writer::finish`]; names have at most `names` bytes together.
    pub(super) fn new(all: &'a [u8], lower: &'a [u8], names: usize) -> Result<Self, FileError> {
        let (lengths, mut rest) =
            all.split_at_checked(PACKED * size_of::<u64>()).ok_or(FileError::Damaged)?;
        let (lengths, _) = lengths.as_chunks::<{ size_of::<u64>() }>();
        let mut packed = [&[][..]; PACKED];
        for (column, length) in packed.iter_mut().zip(lengths) {
            let length = usize::try_from(u64::from_le_bytes(*length));
            let split = length.ok().and_then(|length| rest.split_at_checked(length));
            (*column, rest) = split.ok_or(FileError::Damaged)?;
        }
        Ok(Self { packed, lower, recent: Recent::NONE, latest: Vec::new(), names })
    }

    /// Begins a record.
    pub(super) fn begin(&mut self) {
        self.recent.next = 0;
    }

    pub(super) fn byte(&mut self, column: Column) -> Result<u8, FileError> {
        let column = &mut self.packed[column as usize];
        let (byte, rest) = column.split_first().ok_or(FileError::Damaged)?;
        *column = rest;
        Ok(*byte)
    }

    pub(super) fn number(&mut self, column: Column) -> Result<u64, FileError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(column)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(FileError::Damaged)
    }

    /// Reads a number of a smaller type.
    pub(super) fn small<T: TryFrom<u64>>(&mut self, column: Column) -> Result<T, FileError> {
        T::try_from(self.number(column)?).map_err(|_| FileError::Damaged)
    }

    pub(super) fn near(&mut self, column: Column, other: u64) -> Result<u64, FileError> {
        let by = self.number(column)?;
        Ok(other.wrapping_add(((by >> 1) as i64 ^ -((by & 1) as i64)) as u64))
    }

    pub(super) fn real(&mut self, kind: usize) -> Result<f64, FileError> {
        let reference = self.byte(Column::Reference)?;
        let bits = match reference {
            NEW => {
                let upper = self.byte(Column::Upper)?;
                let (lower, rest) =
                    self.lower.split_first_chunk::<LOWER>().ok_or(FileError::Damaged)?;
                self.lower = rest;
                u32::from_be_bytes([upper, lower[0], lower[1], lower[2]])
            }
            ZERO => 0,
            AS_BEFORE => self.recent.by_kind[kind],
            _ => self.recent.back((reference - LATEST).into()).ok_or(FileError::Damaged)?,
        };
        self.recent.passed(kind, bits, reference == NEW);
        Ok(f32::from_bits(bits).into())
    }

    pub(super) fn text(&mut self) -> Result<&'a [u8], FileError> {
        let length = self.small(Column::Text)?;
        self.take(Column::Text, length)
    }

    pub(super) fn name(&mut self) -> Result<String, FileError> {
        let (shared, others) = (self.small(Column::Shared)?, self.small(Column::Shared)?);
        let rest = self.take(Column::Name, others)?;
        if shared > self.latest.len() {
            return Err(FileError::Damaged);
        }
        self.names = self.names.checked_sub(shared + others).ok_or(FileError::Damaged)?;
        self.latest.truncate(shared);
        self.latest.extend(rest);
        str::from_utf8(&self.latest).map(str::to_owned).map_err(|_| FileError::Damaged)
    }

    fn take(&mut self, column: Column, length: usize) -> Result<&'a [u8], FileError> {
        let column = &mut self.packed[column as usize];
        let (taken, rest) = column.split_at_checked(length).ok_or(FileError::Damaged)?;
        *column = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_the_same_order() {
        arbtest::arbtest(|u| {
            let records: Vec<Vec<(u64, f32, String)>> = u.arbitrary()?;
            let mut writer = Writer::new(u.arbitrary()?);
            for record in &records {
                writer.begin();
                for (number, value, name) in record {
                    writer.number(Column::Count, *number);
                    writer.near(Column::Place, *number, 77);
                    writer.real(3, f64::from(*value));
                    writer.name(name);
                }
            }
            let names = writer.names;
            let (packed, lower) = writer.finish();
            let mut reader = Reader::new(&packed, &lower, names).unwrap();
            for record in &records {
                reader.begin();
                for (number, value, name) in record {
                    assert_eq!(reader.number(Column::Count).unwrap(), *number);
                    assert_eq!(reader.near(Column::Place, 77).unwrap(), *number);
                    let read = reader.real(3).unwrap() as f32;
                    let finite = value.clamp(f32::MIN, f32::MAX);
                    assert!(read == finite || finite.is_nan(), "{read} for {value}");
                    assert_eq!(reader.name().unwrap(), *name);
                }
            }
            assert!(reader.byte(Column::Count).is_err() && reader.real(3).is_err());
            Ok(())
        });
    }
}
