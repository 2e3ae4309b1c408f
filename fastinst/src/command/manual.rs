//! `fastinst manual`: manual pages and completions, from the one definition of the command line.

use super::Failure;
use crate::cli::Cli;
use clap::CommandFactory;
use manual::{Error, Manual};
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) fn run(manual: &Manual) -> Result<ExitCode, Failure> {
    let text = manual.text(Cli::command()).map_err(|error| match error {
        Error::NoSuchCommand { .. } => Failure::Usage(error.to_string()),
        Error::Page(why) => Failure::from(why),
    })?;
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
