//! Compares our machine code with an interpreter, for as long as one likes: `differential FIRST
//! LAST` goes through that range of seeds, each of which stands for one module. What differs is
//! told, with the seed.

#[path = "../tests/differential/body.rs"]
mod body;
#[path = "../tests/differential/seeds.rs"]
mod seeds;

use arbtest::arbitrary::Unstructured;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(range) = seeds::range() else {
        eprintln!(
            "differential: expected two seeds, the first and the last: differential 0 100000"
        );
        return ExitCode::from(2);
    };
    let engines = body::engines();
    let (mut made, mut interpreted, mut different) = (0u64, 0u64, 0u64);
    for seed in range {
        let decisions = seeds::bytes(seed);
        let compared = catch_unwind(AssertUnwindSafe(|| {
            body::compare(&engines, &mut Unstructured::new(&decisions))
        }));
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
    println!(
        "{made} modules, {interpreted} of them compared with the interpreter, {different} differ"
    );
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
