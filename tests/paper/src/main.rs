//! `paper EXPERIMENT`: one table or figure of the literature, reproduced on the present machine.
//!
//! An experiment runs its subjects and their baselines in turn, so that disturbances of the machine
//! affect both. It prints a [`Report`]: a table for people, one JSON object for programs.

mod bench_code;
mod corpus;
mod costs;
mod engine;
mod fig10;
mod fig14;
mod fig9;
mod hostility;
mod journal;
mod latent;
mod monitors;
mod peers;
mod policies;
mod probes;
mod progress;
mod providers;
mod r3;
mod report;
mod sample;
mod selection;
mod sites;
mod start;
mod storms;
mod table1;
mod table2;
mod table3;
mod toggle_wasm;
mod toggling;
mod truth;
mod wasmprof;
mod whamm;
mod whamm_rewriting;
mod wizard;

use clap::{Parser, Subcommand};
use report::Report;
use std::process::ExitCode;
use toggling::Figure;

/// Reproduces the tables and figures of the literature on this machine.
///
/// Build it with --release: what it measures is a matter of nanoseconds. Leave the machine alone
/// while it runs.
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

#[derive(Clone, Debug, Subcommand)]
enum Experiment {
    /// How often fetch is torn, by the length of the wait (figure 9): the calibration, as an
    /// experiment.
    Fig9,
    /// Histograms of latency of the default policy, beside a complete record (figure 10).
    Fig10,
    /// What each kind of patch costs, beside a hot executer.
    Wordpatch,
    /// Throughput of calls that are switched by one byte, and what executers see (figure 11).
    Fig11,
    /// The same of words that straddle a line (figure 12).
    Fig12,
    /// The same of straddling calls, by the literature's four cases (figure 13).
    Fig13,
    /// What toggling a call costs by its place in a line (figure 14).
    Fig14,
    /// What inactive sites cost, by form and place.
    Latent,
    /// How right the policies are: complete traces of real programs, played against each.
    Policies {
        /// Only these programs.
        programs: Vec<String>,
    },
    /// What it costs to have twenty thousand probes at all (table 1).
    Table1,
    /// What switching and passing a probe costs, here and with peers (table 2).
    Table2 {
        /// Install the peers that are packaged, by name.
        #[arg(long)]
        peers: bool,
    },
    /// What the profiler costs real programs (table 3).
    Table3 {
        /// Only these programs.
        programs: Vec<String>,
    },
    /// What probes cost by what they are made of: hooks, room that compilers leave, nothing at all.
    Providers {
        /// Only these programs.
        programs: Vec<String>,
    },
    /// What our engine for WebAssembly makes of programs, beside others.
    Engine {
        /// Only these programs.
        programs: Vec<String>,
        /// Install the peers that are packaged, by name.
        #[arg(long)]
        peers: bool,
    },
    /// What the built-in monitors of WebAssembly cost, with the compilation that they need.
    Monitors {
        /// Only these programs, of those that `engine` runs.
        programs: Vec<String>,
    },
    /// Recording, reducing and replaying: costs, events, and whether a replay does the same.
    R3 {
        /// Only these programs, of those that `engine` runs.
        programs: Vec<String>,
    },
    /// What the built-in monitors of WebAssembly cost, and probes.
    Wizard {
        /// Only these programs.
        programs: Vec<String>,
    },
    /// What places for probes cost our engine's code while they are off, and what exact counts
    /// cost.
    Sites {
        /// Only these programs, of those that `engine` runs.
        programs: Vec<String>,
    },
    /// What switching probes costs while WebAssembly runs, and how soon they see something.
    ToggleWasm,
    /// What probes cost that were rewritten into programs, beside the existing compiler and a
    /// rewrite by hand.
    WhammRewriting {
        /// Only these programs, of those that `engine` runs.
        programs: Vec<String>,
        /// Install the existing compiler, by name.
        #[arg(long)]
        peers: bool,
        /// How often everything is run, rather than 31 times, or once with --quick.
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: Option<u16>,
    },
    /// What monitors cost that are modules, beside rewriting and what the engine has built in.
    Whamm {
        /// Only these programs, of those that `engine` runs.
        programs: Vec<String>,
    },
    /// Whether the profiler's figures are true, on a machine that is busy in four ways. It goes on
    /// where it was interrupted.
    Truth(truth::Args),
    /// A process that keeps the machine busy: what `truth` starts.
    #[command(hide = true)]
    Company {
        #[command(subcommand)]
        role: truth::Role,
    },
    /// Our engine in a process of its own: what `engine` starts.
    #[command(hide = true)]
    WasmAot {
        #[command(subcommand)]
        act: engine::Act,
        #[command(flatten)]
        making: engine::Making,
    },
    /// Programs in surroundings that make life hard, as they are and under the preload library.
    Hostility {
        /// Only situations whose name has one of these parts.
        situations: Vec<String>,
    },
    /// What the preload library costs short programs, many functions, and libraries that come and
    /// go.
    Start,
    /// What exact call profiles cost that are kept by rewritten programs, and whether they are
    /// true.
    Wasmprof {
        /// Only these programs: of those that `engine` runs, and some of its own.
        programs: Vec<String>,
    },
    /// Patches under fire: every offset and adversary, each mixture of old and new detectable.
    Storms,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Experiment::WasmAot { act, making } = &arguments.experiment {
        return ended(engine::act(act, making));
    }
    if let Experiment::Company { role } = &arguments.experiment {
        return ended(truth::act(*role).map_err(Into::into));
    }
    let outcome = match &arguments.experiment {
        Experiment::Fig9 => fig9::measure(arguments.quick),
        Experiment::Fig10 => fig10::measure(arguments.quick),
        Experiment::Wordpatch => costs::measure(arguments.quick),
        Experiment::Fig11 => toggling::measure(Figure::OneByte, arguments.quick),
        Experiment::Fig12 => toggling::measure(Figure::Word, arguments.quick),
        Experiment::Fig13 => toggling::measure(Figure::Paper, arguments.quick),
        Experiment::Fig14 => fig14::measure(arguments.quick),
        Experiment::Latent => latent::measure(arguments.quick),
        Experiment::Policies { programs } => policies::measure(arguments.quick, programs),
        Experiment::Table1 => table1::measure(arguments.quick),
        Experiment::Table2 { peers } => table2::measure(arguments.quick, *peers),
        Experiment::Table3 { programs } => table3::measure(arguments.quick, programs),
        Experiment::Providers { programs } => providers::measure(arguments.quick, programs),
        Experiment::Engine { programs, peers } => {
            engine::measure(arguments.quick, programs, *peers)
        }
        Experiment::Sites { programs } => sites::measure(arguments.quick, programs),
        Experiment::ToggleWasm => toggle_wasm::measure(arguments.quick),
        Experiment::Monitors { programs } => monitors::measure(arguments.quick, programs),
        Experiment::R3 { programs } => r3::measure(arguments.quick, programs),
        Experiment::Wizard { programs } => wizard::measure(arguments.quick, programs),
        Experiment::WhammRewriting { programs, peers, rounds } => {
            whamm_rewriting::measure(arguments.quick, programs, *peers, rounds.map(usize::from))
        }
        Experiment::Whamm { programs } => whamm::measure(arguments.quick, programs),
        Experiment::Truth(args) => truth::measure(arguments.quick, args),
        Experiment::WasmAot { .. } | Experiment::Company { .. } => {
            unreachable!("it was done above")
        }
        Experiment::Hostility { situations } => hostility::measure(situations),
        Experiment::Start => start::measure(arguments.quick),
        Experiment::Wasmprof { programs } => wasmprof::measure(arguments.quick, programs),
        Experiment::Storms => storms::measure(arguments.quick),
    };
    ended(outcome.and_then(|report| show(&report, arguments.json)))
}

fn ended(outcome: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match outcome {
        // The measurements before the interruption were printed.
        Ok(()) if tmax::interrupt::asked() => ExitCode::from(tmax::interrupt::status()),
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
