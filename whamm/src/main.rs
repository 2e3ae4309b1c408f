//! The command `whamm`.
#![forbid(unsafe_code)]

mod command;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    command::run(command::Command::parse())
}
