//! Compares our machine code with an interpreter, for as long as one likes: `differential FIRST LAST` goes through that range of seeds, each of which
//! stands for one module. What differs is told, with the seed.

#[path = "../tests/differential/body.rs"]
mod body;

use arbtest::arbitrary::Unstructured;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// As many bytes as decide about a module.
const DECISIONS: usize = 12 << 10;

/// Splitmix64 (Steele, Lea and Flood, 2014).
fn bytes(mut seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DECISIONS);
    while bytes.len() < DECISIONS {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = seed;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes
}

fn main() -> ExitCode {
    let mut seeds = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Some(Ok(first)), Some(Ok(last)), None) = (seeds.next(), seeds.next(), seeds.next()) else {
        eprintln!("differential: expected two seeds, the first and the last: differential 0 100000");
        return ExitCode::from(2);
    };
    let engines = body::engines();
    let (mut made, mut interpreted, mut different) = (0u64, 0u64, 0u64);
    for seed in first..=last {
        let decisions = bytes(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let compared = catch_unwind(AssertUnwindSafe(|| body::compare(&engines, &mut Unstructured::new(&decisions))));
        match compared {
            Ok(Ok(with_interpreter)) => {
                made += 1;
                interpreted += u64::from(with_interpreter);
            }
            // The bytes were too few for a module.
            Ok(Err(_)) => {}
            Err(_) => {
                eprintln!("differential: seed {seed} differs");
                different += 1;
            }
        }
    }
    println!("{made} modules, {interpreted} of them compared with the interpreter, {different} differ");
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
