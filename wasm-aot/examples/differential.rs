//! Compares our machine code with an interpreter, for as long as one likes: `differential FIRST
//! LAST` goes through that range of seeds, each of which stands for one module; `differential
//! --minutes 60 FIRST` goes through as many as an hour has time for. What differs is printed, with
//! the seed.

#[path = "../tests/differential/body.rs"]
mod body;
#[path = "../tests/differential/seeds.rs"]
mod seeds;

use arbtest::arbitrary::Unstructured;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(asked) = seeds::asked(&std::env::args().skip(1).collect::<Vec<_>>()) else {
        eprintln!("differential: {}", seeds::USAGE);
        return ExitCode::from(2);
    };
    let engines = body::engines();
    let (mut made, mut interpreted, mut different) = (0u64, 0u64, 0u64);
    let mut last = None;
    for seed in asked {
        last = Some(seed);
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
    if let Some(last) = last {
        println!("the last seed was {last}");
    }
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
