//! perf's map: a line of text a function, `START SIZE name`, numbers as hexadecimal ones
//! (linux/tools/perf/Documentation/jit-interface.txt).

use super::{Codes, Told};

/// A longer line is not a function's.
const LONGEST: usize = 64 << 10;

/// Reads a map that grows.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The line is too long: the rest of it is ignored.
    is_long: bool,
}

impl PerfMap {
    /// Takes the bytes that were received at a time, in nanoseconds of the monotonic clock.
    pub fn read(&mut self, mut bytes: &[u8], now: u64, codes: &mut Codes) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.extend(&bytes[..end]);
            bytes = &bytes[end + 1..];
            if let Some(told) = parse(&self.line).filter(|_| !self.is_long) {
                codes.add(&Told { since: now, ..told });
            }
            self.line.clear();
            self.is_long = false;
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.is_long |= self.line.len() + bytes.len() > LONGEST;
        if !self.is_long {
            self.line.extend_from_slice(bytes);
        }
    }
}

fn parse(line: &[u8]) -> Option<Told<'_>> {
    let (start, rest) = number(line)?;
    let (size, name) = number(rest)?;
    (!name.is_empty()).then_some(Told { start, size, name, ..Told::default() })
}

/// A number and the space behind it, and what follows.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = memchr::memchr(b' ', text)?;
    let digits = str::from_utf8(&text[..end]).ok()?;
    // Some runtimes write a prefix.
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_plain.then(|| u64::from_str_radix(digits, 16).ok())??;
    Some((number, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pieces: &[&str]) -> Vec<Option<String>> {
        let (mut codes, mut map) = (Codes::default(), PerfMap::default());
        pieces.iter().zip(1..).for_each(|(piece, now)| map.read(piece.as_bytes(), now, &mut codes));
        [0x1000, 0x2000, 0x3000]
            .map(|address| codes.at(address, u64::MAX).map(|made| made.name.to_owned()))
            .into()
    }

    #[test]
    fn lines_are_functions_however_they_come() {
        let text = "1000 40 JS:*hot /tmp/hot.js:1:13\n0x2000 0x8 stub\n3000 1 last\n";
        let all = ["JS:*hot /tmp/hot.js:1:13", "stub", "last"].map(|name| Some(name.to_owned()));
        for at in 0..=text.len() {
            assert_eq!(names(&[&text[..at], &text[at..]]), all, "cut at {at}");
        }
        // The last line has not ended.
        assert_eq!(names(&[text.trim_end()])[2], None);
    }

    #[test]
    fn what_is_no_line_of_a_function_is_passed_by() {
        let long = format!("1000 40 {}\n", "x".repeat(LONGEST));
        for line in [
            "\n",
            "1000\n",
            "1000 40\n",
            "1000 40 \n",
            "1000 0 none\n",
            "0 40 null\n",
            "+1000 40 f\n",
            "10000000000000000 1 f\n",
            "1000 ffffffffffffffff f\n",
            " 1000 40 f\n",
            "g 1000 40\n",
            &long,
        ] {
            let found = names(&[line, "2000 10 next\n"]);
            assert_eq!(found, [None, Some("next".to_owned()), None], "{line:.40}");
        }
    }
}
