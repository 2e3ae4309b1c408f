//! `paper EXPERIMENT`: one table or figure of the literature, reproduced on the present machine.
//!
//! An experiment runs what it measures and what it is compared with in turn, so that whatever else the machine does meets both. What
//! it prints is a [`Report`]: a table for people, one JSON object for programs.

mod costs;
mod fig9;
mod report;
mod sample;
mod storms;

use clap::{Parser, Subcommand};
use report::Report;
use std::process::ExitCode;

/// Reproduces the tables and figures of the literature on this machine.
///
/// Build it with --release: what it measures is a matter of nanoseconds. Leave the machine alone while it runs.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  cargo run --release -p paper -- wordpatch\n  cargo run --release -p paper -- storms --quick --json"
)]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
    /// Print one JSON object instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// Take fewer samples: seconds instead of minutes, and wider intervals.
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Experiment {
    /// How often fetch is torn, by the length of the wait (figure 9): the calibration, as an experiment.
    Fig9,
    /// What each kind of patch costs, beside a hot executer.
    Wordpatch,
    /// Patches under fire: every offset and adversary, each mixture of old and new detectable.
    Storms,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.experiment {
        Experiment::Fig9 => fig9::measure(arguments.quick),
        Experiment::Wordpatch => costs::measure(arguments.quick),
        Experiment::Storms => storms::measure(arguments.quick),
    };
    match outcome.and_then(|report| show(&report, arguments.json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paper: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(report: &Report, json: bool) -> Result<(), Box<dyn std::error::Error>> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}
