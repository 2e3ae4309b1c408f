//! The text format of Wasm-R3 (Baek et al., OOPSLA 2024), which records in browsers: a line for
//! each event, fields separated by `;`, values as numbers in JavaScript's notation.
//!
//! It contains neither arguments of calls to the host nor results of calls into the program, and no
//! end of a nested call into the program. So a trace that was read from it has zeros in these
//! places, and is only for replays that do not check themselves. There are two dialects,
//! distinguished by how many fields a line has: that of the thesis also has names.

mod number;
mod read;
mod write;

pub use read::R3Reader;
pub use write::R3Writer;

/// Whether a text is in this format, by its first line.
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
