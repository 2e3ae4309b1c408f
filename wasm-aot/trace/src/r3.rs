//! The text form of Wasm-R3 (Baek et al., OOPSLA 2024), which records in browsers: a line for each
//! event, fields separated by `;`, values as JavaScript prints numbers.
//!
//! It has neither arguments of calls out nor results of calls in, and no end of a call in that is
//! inside of another. So a trace that was read from it has zeros in these places, and is for
//! replays that do not check themselves. There are two dialects, distinguished by how many fields a
//! line has: that of the thesis has names, too.

mod number;
mod read;
mod write;

pub use read::R3Reader;
pub use write::R3Writer;

/// Whether a text is in this form, by its first line.
pub fn is_r3(head: &[u8]) -> bool {
    const KINDS: [&str; 14] =
        ["EC", "TC", "ER", "IC", "IR", "L", "MG", "T", "TG", "G", "IG", "IM", "IT", "IF"];
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let kind = line.split(';').next().unwrap_or_default().trim_end();
    // One printer writes the function without a separator: ECFUNC;NAME;…
    let kind = kind.trim_end_matches(|c: char| c.is_ascii_digit());
    KINDS.contains(&kind) && (line.contains(';') || kind == "ER")
}
