//! The command `fastinst`.

mod cli;
mod command;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    command::main(cli::Cli::parse())
}
