//! Looks for patterns in a text, and replaces them.

mod work;

use regex::Regex;

fn main() {
    let text = work::text(200_000);
    let patterns = [r"(\w+)@(\w+)\.example", r"\b\d{4}-(\d\d)-(\d\d)\b", r"(?i)(stone|river)\s+(under|and)", r"[a-z]+ly,\s", r"(?:\w+ ){3}lights"];
    let mut sum = 0u64;
    for _ in 0..work::rounds() {
        for pattern in patterns.map(|pattern| Regex::new(pattern).unwrap()) {
            sum = sum.wrapping_mul(31).wrapping_add(pattern.find_iter(&text).map(|found| found.len() as u64).sum::<u64>());
            sum = work::checksum(sum, pattern.replace_all(&text, "<$0>").as_bytes());
        }
    }
    println!("{sum:016x}");
}
