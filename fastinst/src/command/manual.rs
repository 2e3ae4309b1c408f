//! `fastinst manual`: manual pages and completions, from the one definition of the command line.

use super::Failure;
use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command whose page is wanted; fastinst itself without
    command: Option<String>,
    /// Completions for a shell instead
    #[arg(long, value_name = "SHELL", conflicts_with = "command")]
    completions: Option<Shell>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut whole = Cli::command();
    whole.build();
    let mut text = Vec::new();
    if let Some(shell) = args.completions {
        clap_complete::generate(shell, &mut whole, "fastinst", &mut text);
    } else {
        let command = match &args.command {
            None => whole,
            Some(name) => {
                let found = whole.find_subcommand(name).cloned();
                let found = found.ok_or_else(|| Failure::Refused(format!("there is no command {name}: see fastinst --help")))?;
                // After `build` it knows its full name already.
                found
            }
        };
        clap_mangen::Man::new(command).render(&mut text)?;
    }
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
