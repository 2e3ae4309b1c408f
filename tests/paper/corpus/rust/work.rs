//! What the programs in Rust share: how much they do, and a text that is the same on every run.

pub fn rounds() -> u32 {
    std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).expect("the number of rounds")
}

#[allow(dead_code)]
pub fn text(length: usize) -> String {
    const WORDS: [&str; 10] =
        ["stone ", "river ", "under 17 ", "seven@harbour.example ", "lights\n", "and ", "2026-11-21 ", "went ", "slowly, ", "(a) "];
    let (mut text, mut chance) = (String::new(), 88_172_645_463_325_252u64);
    while text.len() < length {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        text.push_str(WORDS[(chance % 10) as usize]);
    }
    text
}

pub fn checksum(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211))
}
