//! Numbers and names in bytes that may be forged: missing data is an error, never a panic, and no
//! memory is allocated for a length that exceeds the bytes.

/// Why bytes are malformed.
pub(crate) type Wrong = String;

/// The bytes that are left to be read.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Wrong> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or("bytes are missing")?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        Ok(self.bytes(N)?.try_into().expect("as many as were asked for"))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Wrong> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads an unsigned number in LEB128.
    pub(crate) fn number(&mut self) -> Result<u64, Wrong> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".into())
    }

    pub(crate) fn index(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.number()?).map_err(|_| "an index of more than 32 bits".into())
    }

    /// Reads a length, and that number of bytes.
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], Wrong> {
        let len = self.number()?;
        self.bytes(usize::try_from(len).map_err(|_| "bytes are missing")?)
    }

    pub(crate) fn text(&mut self) -> Result<String, Wrong> {
        let bytes = self.counted()?;
        Ok(std::str::from_utf8(bytes).map_err(|_| "a text that is not UTF-8")?.to_owned())
    }
}

/// Appends a number to bytes, in LEB128.
pub(crate) fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a length and bytes to bytes.
pub(crate) fn put_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            let mut cursor = Cursor(&bytes);
            assert_eq!(cursor.number(), Ok(value));
            assert!(cursor.is_empty());
        }
    }

    #[test]
    fn what_is_too_long_or_too_short_is_refused() {
        assert!(Cursor(&[0xff; 9]).number().is_err());
        assert!(Cursor(&[0xff; 12]).number().is_err());
        assert!(Cursor(&[0x80, 0x80, 0x80, 0x80, 0x10]).index().is_err());
        assert!(Cursor(&[5, 1, 2]).counted().is_err());
        assert!(Cursor(&[2, 0xff, 0xfe]).text().is_err());
    }
}
