//! The command `tmax`.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    tmax::command::main(&tmax::Args::parse())
}
