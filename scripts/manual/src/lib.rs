//! Shared code of all commands: manual pages and completions from the one definition of a command
//! line, the error for an invalid one ([`parse`]), and the use of colours ([`Colors`]).
//!
//! Every command of this workspace that has commands of its own has `manual` among them, and it is
//! this one:
//!
//! ```
//! use clap::{CommandFactory, Parser};
//!
//! #[derive(Parser)]
//! enum Cli {
//!     /// Print a manual page, or completions for a shell
//!     Manual(manual::Manual),
//! }
//!
//! let Cli::Manual(manual) = Cli::parse_from(["tool", "manual", "manual"]);
//! let page = manual.text(Cli::command()).unwrap();
//! assert!(String::from_utf8(page).unwrap().contains("completions"));
//! ```
#![forbid(unsafe_code)]

mod color;
mod usage;

pub use color::{Color, Colors, bold, columns};
pub use usage::{parse, parsed};

use clap::{Args, Command};
use clap_complete::Shell;
use thiserror::Error;

/// What is wanted: a page, or completions.
#[derive(Debug, Args)]
pub struct Manual {
    /// Subcommand to print the page of, and those below it [default: the command itself]
    #[arg(value_name = "COMMAND")]
    path: Vec<String>,
    /// Print completions for this shell instead
    #[arg(long, value_name = "SHELL", conflicts_with = "path")]
    completions: Option<Shell>,
}

/// The completions that are wanted.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// The reason why there is no page.
#[derive(Debug, Error)]
pub enum Error {
    /// The tool has no such command.
    #[error("unknown command {command}: see {tool} --help")]
    NoSuchCommand {
        /// The requested command.
        command: String,
        /// The tool.
        tool: String,
    },
    /// The page could not be written.
    #[error("the page cannot be written: {0}")]
    Page(#[from] std::io::Error),
}

impl Manual {
    /// The text of the requested page.
    pub fn text(&self, mut whole: Command) -> Result<Vec<u8>, Error> {
        if let Some(shell) = self.completions {
            return Ok(Completions { shell }.text(whole));
        }
        let source = whole.render_version().trim_end().to_owned();
        // Pages name the pages of commands below, and there is none of `help`.
        whole = whole.disable_help_subcommand(true);
        // This sets the full name of every command.
        whole.build();
        let mut wanted = &whole;
        for name in &self.path {
            wanted = wanted.find_subcommand(name).ok_or_else(|| {
                let tool = wanted.get_bin_name().unwrap_or(wanted.get_name());
                Error::NoSuchCommand { command: name.clone(), tool: tool.to_owned() }
            })?;
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(wanted.clone()).source(source).render(&mut page)?;
        Ok(page)
    }
}

impl Completions {
    /// A script for the shell.
    pub fn text(&self, mut whole: Command) -> Vec<u8> {
        let mut script = Vec::new();
        let name = whole.get_name().to_string();
        clap_complete::generate(self.shell, &mut whole, name, &mut script);
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    #[command(name = "tool", version = "7.8")]
    enum Cli {
        Manual(Manual),
        Completions(Completions),
        #[command(subcommand)]
        Ctl(Ctl),
    }

    #[derive(Debug, clap::Subcommand)]
    enum Ctl {
        /// Show what is measured
        Status,
    }

    fn text(args: &[&str]) -> Result<String, String> {
        let text = match Cli::parse_from([&["tool"], args].concat()) {
            Cli::Manual(manual) => manual.text(Cli::command()).map_err(|e| e.to_string())?,
            Cli::Completions(completions) => completions.text(Cli::command()),
            Cli::Ctl(Ctl::Status) => unreachable!("it has a page only"),
        };
        String::from_utf8(text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_page_is_of_the_tool_or_of_one_of_its_commands() {
        assert!(text(&["manual"]).unwrap().contains("tool"));
        assert!(text(&["manual", "completions"]).unwrap().contains("shell"));
        assert_eq!(
            text(&["manual", "nothing"]).unwrap_err(),
            "unknown command nothing: see tool --help"
        );
    }

    #[test]
    fn every_page_that_a_page_names_is_there_and_says_of_what_version_it_is() {
        let above = text(&["manual", "ctl"]).unwrap();
        assert!(above.contains("tool\\-ctl\\-status(1)") && !above.contains("help(1)"), "{above}");
        assert!(!text(&["manual"]).unwrap().contains("help(1)"));
        let page = text(&["manual", "ctl", "status"]).unwrap();
        assert!(page.contains("Show what is measured"), "{page}");
        assert!(page.contains(".TH tool-ctl-status 1  \"tool 7.8\""), "{page}");
        assert_eq!(
            text(&["manual", "ctl", "stats"]).unwrap_err(),
            "unknown command stats: see tool ctl --help"
        );
    }

    #[test]
    fn completions_are_the_same_however_they_are_asked_for() {
        let script = text(&["completions", "bash"]).unwrap();
        assert!(script.contains("_tool()"));
        assert_eq!(script, text(&["manual", "--completions", "bash"]).unwrap());
    }
}
