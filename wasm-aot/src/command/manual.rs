//! `wasm-aot manual`: manual pages and completions, from the one definition of the command line.

use super::{Cli, Failure, print};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a manual page, or completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// The command whose page is wanted; wasm-aot itself without
    command: Option<String>,
    /// Completions for a shell instead
    #[arg(long, value_name = "SHELL", conflicts_with = "command")]
    completions: Option<Shell>,
}

impl Manual {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut whole = Cli::command();
        whole.build();
        let mut out = Vec::new();
        if let Some(shell) = self.completions {
            clap_complete::generate(shell, &mut whole, "wasm-aot", &mut out);
            return print(out);
        }
        let command = match &self.command {
            None => whole,
            Some(name) => {
                let found = whole.find_subcommand(name).cloned();
                found.ok_or_else(|| Failure::usage(format!("there is no command {name}: see wasm-aot --help")))?
            }
        };
        clap_mangen::Man::new(command).render(&mut out).map_err(Failure::new)?;
        print(out)
    }
}
