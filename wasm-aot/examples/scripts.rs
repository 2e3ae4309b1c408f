//! Compares what scripts say on both targets and in an interpreter, for as long as one likes:
//! `scripts FIRST LAST` goes through that range of seeds, each of which stands for one program and
//! one script. What differs is told, with the seed.

#[path = "../tests/random_scripts/body.rs"]
mod body;
#[path = "../tests/differential/seeds.rs"]
mod seeds;

use arbtest::arbitrary::Unstructured;
use body::Compared;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(range) = seeds::range() else {
        eprintln!("scripts: expected two seeds, the first and the last: scripts 0 100000");
        return ExitCode::from(2);
    };
    let (mut everywhere, mut rewritten, mut nothing, mut different) = (0u64, 0u64, 0u64, 0u64);
    for seed in range {
        let decisions = seeds::bytes(seed);
        match catch_unwind(AssertUnwindSafe(|| body::compare(&mut Unstructured::new(&decisions)))) {
            Ok(Ok(Compared::Everywhere)) => everywhere += 1,
            Ok(Ok(Compared::Rewritten)) => rewritten += 1,
            // Or the bytes were too few for a module.
            Ok(Ok(Compared::Nothing) | Err(_)) => nothing += 1,
            Err(_) => {
                eprintln!("scripts: seed {seed} differs");
                different += 1;
            }
        }
    }
    println!(
        "{everywhere} compared on both targets, {rewritten} rewritten only, {nothing} not at all; {different} differ"
    );
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
