//! The command `tmax`.

use clap::{Args as _, Command, CommandFactory, FromArgMatches};
use manual::Manual;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut whole = command();
    let matches = whole.try_get_matches_from_mut(std::env::args_os());
    let matches = manual::parsed(matches, &whole);
    if let Some(page) = matches.subcommand_matches("manual") {
        let page = manual::parsed(Manual::from_arg_matches(page), &whole);
        return tmax::command::print(page.text(command()));
    }
    tmax::command::main(&manual::parsed(tmax::Args::from_arg_matches(&matches), &whole))
}

/// The command line: measurements, or the manual page.
fn command() -> Command {
    let page = Manual::augment_args(Command::new("manual"));
    tmax::Args::command()
        .args_conflicts_with_subcommands(true)
        .subcommand(page.about("Print the manual page or shell completions"))
}
