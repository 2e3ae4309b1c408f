//! Command lines that mean nothing: one line on standard error and exit code 2, in every command.
//!
//! ```text
//! wasm-aot: unexpected argument '--jsno' found: a similar argument exists: '--json' (see …)
//! ```

use clap::error::{Error, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};
use std::io::Write;

/// What the process was asked for; one that was asked wrongly ends here.
pub fn parse<T: Parser + CommandFactory + FromArgMatches>() -> T {
    parsed(T::try_parse(), T::command().get_name())
}

/// What came of a command line of a tool; one that means nothing ends the process.
pub fn parsed<T>(result: Result<T, Error>, tool: &str) -> T {
    result.unwrap_or_else(|error| {
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                // A reader that has enough is no failure.
                let _ = error.print();
            }
            _ => {
                let line = complaint(&error.to_string(), tool);
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
        std::process::exit(error.exit_code())
    })
}

/// The line for an error that is told in several.
fn complaint(text: &str, tool: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let parts: Vec<&str> = text.split("\n\n").map(str::trim).collect();
    let usage = parts.iter().find_map(|part| part.strip_prefix("Usage: "));
    let command = usage.map_or(tool.to_owned(), command_in);
    let said = parts.iter().filter(|part| {
        !part.starts_with("Usage: ")
            && !part.starts_with("For more information")
            && !part.is_empty()
    });
    let said = said.map(|part| {
        let lines: Vec<&str> = part.lines().map(str::trim).collect();
        let (first, rest) = lines.split_first().unwrap_or((&"", &[]));
        let rest = rest.join(if rest.iter().all(|line| line.starts_with(['<', '-'])) {
            ", "
        } else {
            " "
        });
        format!("{first} {rest}").trim().trim_start_matches("tip: ").to_owned()
    });
    format!("{tool}: {} (see {command} --help)", said.collect::<Vec<_>>().join(": "))
}

/// The words of a usage that name a command.
fn command_in(usage: &str) -> String {
    let is_name = |word: &&str| !word.starts_with(['[', '<', '-']) && !word.contains('=');
    usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "tool")]
    enum Cli {
        Show {
            #[arg(long)]
            json: bool,
            #[arg(long)]
            sort: Option<u32>,
            file: String,
        },
        Send {
            #[arg(long)]
            to: String,
            file: String,
        },
    }

    #[test]
    fn an_error_is_one_line_with_the_place_of_help() {
        for (arguments, line) in [
            (
                &["show", "x", "--jsno"][..],
                "tool: unexpected argument '--jsno' found: a similar argument exists: '--json' \
                 (see tool show --help)",
            ),
            (
                &["show"],
                "tool: the following required arguments were not provided: <FILE> \
                 (see tool show --help)",
            ),
            (
                &["send"],
                "tool: the following required arguments were not provided: --to <TO>, <FILE> \
                 (see tool send --help)",
            ),
            (
                &["show", "x", "--sort", "y"],
                "tool: invalid value 'y' for '--sort <SORT>': invalid digit found in string \
                 (see tool --help)",
            ),
            (
                &["shwo"],
                "tool: unrecognized subcommand 'shwo': a similar subcommand exists: 'show' \
                 (see tool --help)",
            ),
        ] {
            let error = Cli::try_parse_from([&["tool"], arguments].concat()).expect_err("wrong");
            assert_eq!(complaint(&error.to_string(), "tool"), line);
            assert_eq!(error.exit_code(), 2);
        }
    }
}
