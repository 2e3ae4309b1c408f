//! The `wasm-aot` command.

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::main()
}
