//! Compares what scripts say on both targets and in an interpreter, for as long as one likes:
//! `scripts FIRST LAST` goes through that range of seeds, each of which stands for one program and
//! one script; `scripts --minutes 60 FIRST` goes through as many as an hour has time for. What
//! differs is printed, with the seed.

#[path = "../tests/random_scripts/body.rs"]
mod body;
#[path = "../tests/differential/seeds.rs"]
mod seeds;

use arbtest::arbitrary::Unstructured;
use body::Compared;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(asked) = seeds::asked(&std::env::args().skip(1).collect::<Vec<_>>()) else {
        eprintln!("scripts: {}", seeds::USAGE);
        return ExitCode::from(2);
    };
    let (mut everywhere, mut rewritten, mut nothing, mut different) = (0u64, 0u64, 0u64, 0u64);
    let mut last = None;
    for seed in asked {
        last = Some(seed);
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
    if let Some(last) = last {
        println!("the last seed was {last}");
    }
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
