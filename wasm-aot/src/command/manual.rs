//! `wasm-aot manual`: manual pages and completions, from the one definition of the command line.

use super::{Cli, Failure, print};
use clap::CommandFactory;
use manual::{Error, Manual};

pub(crate) fn run(manual: &Manual) -> Result<(), Failure> {
    let text = manual.text(Cli::command()).map_err(|error| match error {
        Error::NoSuchCommand { .. } => Failure::usage(error),
        Error::Page(_) => Failure::new(error),
    })?;
    print(text)
}
