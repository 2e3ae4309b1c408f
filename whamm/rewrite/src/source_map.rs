//! The source map of a program whose instructions move.
//!
//! A map is a JSON file beside the module, whose address is in a custom section of the module. Its
//! one line has a segment for each place in the code, in order; the first field of a segment is the
//! distance from the previous place, in bytes of the file. All other fields stay as they are.

use crate::moves::Moves;
use wasmparser::{BinaryReader, Parser, Payload};

/// The custom section with the address of a program's map.
pub(crate) const SECTION: &str = "sourceMappingURL";
/// Six bits each; the sixth indicates that more follow.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A program's source map, and the address of the output's.
#[derive(Clone, Debug)]
pub struct SourceMap {
    /// The contents of its file.
    pub text: String,
    /// The address of the output's map, which its module contains.
    pub address: String,
}

impl SourceMap {
    /// The address of a program's map, from its custom section.
    pub fn address_in(bytes: &[u8]) -> Option<String> {
        let section = |payload| match payload {
            Payload::CustomSection(section) if section.name() == SECTION => Some(section.data()),
            _ => None,
        };
        let data = Parser::new(0).parse_all(bytes).flatten().find_map(section)?;
        BinaryReader::new(data, 0).read_string().ok().map(str::to_owned)
    }

    /// The contents of the section of the output.
    pub(crate) fn section(&self) -> Vec<u8> {
        let mut data = Vec::new();
        wasm_encoder::Encode::encode(self.address.as_str(), &mut data);
        data
    }

    /// The map of the output, whose code section begins elsewhere in the file; or the reason why
    /// there is none.
    pub(crate) fn moved(
        &self,
        (from, to): (u64, u64),
        moves: &dyn Moves,
    ) -> Result<String, &'static str> {
        let unreadable = "it is no map of version 3";
        let mut map: serde_json::Value =
            serde_json::from_str(&self.text).map_err(|_| unreadable)?;
        let mappings = map.get("mappings").and_then(|it| it.as_str()).ok_or(unreadable)?;
        if mappings.contains(';') {
            return Err("it speaks of several lines");
        }
        let (mut old, mut last, mut all) = (0, 0, String::with_capacity(mappings.len()));
        for segment in mappings.split(',').filter(|segment| !segment.is_empty()) {
            let (delta, rest) = number(segment).ok_or(unreadable)?;
            old += delta;
            let address = u64::try_from(old).ok().and_then(|old| old.checked_sub(from));
            let place = address.and_then(|address| moves.begin(address));
            // Code after the last instruction has no new place; later fields count from it.
            let new = place.map_or(last, |place| (place + to) as i64).max(last);
            if !all.is_empty() {
                all.push(',');
            }
            spell(new - last, &mut all);
            all += rest;
            last = new;
        }
        map["mappings"] = all.into();
        Ok(map.to_string())
    }
}

/// The number that a segment begins with, and the rest.
fn number(segment: &str) -> Option<(i64, &str)> {
    let (mut value, mut shift) = (0_i64, 0);
    for (at, digit) in segment.bytes().enumerate() {
        let digit = DIGITS.iter().position(|it| *it == digit)? as i64;
        value |= (digit & 31).checked_shl(shift)?;
        shift += 5;
        if digit & 32 == 0 {
            let sign = if value & 1 == 0 { 1 } else { -1 };
            return Some((sign * (value >> 1), &segment[at + 1..]));
        }
    }
    None
}

fn spell(number: i64, to: &mut String) {
    let mut rest = number.unsigned_abs() << 1 | u64::from(number < 0);
    loop {
        let digit = rest & 31;
        rest >>= 5;
        let more = if rest == 0 { 0 } else { 32 };
        to.push(char::from(DIGITS[(digit | more) as usize]));
        if rest == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_spelled() {
        for value in [0, 1, -1, 15, 16, -16, 1023, 1 << 20, -(1 << 31)] {
            let mut text = String::new();
            spell(value, &mut text);
            text += "CAA";
            assert_eq!(number(&text), Some((value, "CAA")), "{text}");
        }
        assert_eq!(number("gB"), Some((16, "")));
        assert_eq!(number("g"), None);
        assert_eq!(number(""), None);
        assert_eq!(number("?"), None);
        assert_eq!(number("ggggggggggggggggB"), None);
    }
}
