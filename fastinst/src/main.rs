//! The command `fastinst`.

mod cli;
mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The demo's own program: it is a hidden command, which is neither listed nor proposed to
    // users.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == command::sample::NAME) && words.next().is_none() {
        return command::sample::run();
    }
    command::main(manual::parse())
}
