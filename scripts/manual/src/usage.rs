//! Invalid command lines: every command prints one line on standard error and ends with exit code
//! 2.
//!
//! ```text
//! wasm-aot: unexpected argument '--jsno' found: a similar argument exists: '--json' (see …)
//! ```

use clap::error::{Error, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser};
use std::io::{self, Write};

/// Parses the process's command line; ends the process if it is invalid.
pub fn parse<T: Parser + CommandFactory + FromArgMatches>() -> T {
    parsed(T::try_parse(), &T::command())
}

/// The result of parsing a tool's command line; ends the process if the line is invalid.
pub fn parsed<T>(result: Result<T, Error>, tool: &Command) -> T {
    result.unwrap_or_else(|error| {
        let mut code = error.exit_code();
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                if let Err(why) = printed(&error)
                    && !error.use_stderr()
                {
                    let _ = writeln!(
                        io::stderr(),
                        "{}: cannot write to stdout: {why}",
                        tool.get_name()
                    );
                    code = 1;
                }
            }
            _ => {
                let words = std::env::args_os().skip(1);
                let words = words.map(|word| word.to_string_lossy().into_owned());
                let line = complaint(&error.to_string(), tool, words);
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
        std::process::exit(code)
    })
}

/// Prints a help text. A reader that closes the pipe early is no failure.
fn printed(error: &Error) -> io::Result<()> {
    let done = error.print().and_then(|()| io::stdout().flush());
    done.or_else(|why| if why.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(why) })
}

/// One line for an error whose message has several.
fn complaint(text: &str, tool: &Command, words: impl Iterator<Item = String>) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let parts: Vec<&str> = text.split("\n\n").map(str::trim).collect();
    let usage = parts.iter().find_map(|part| part.strip_prefix("Usage: "));
    let command = usage.map_or_else(|| asked(tool, words), command_in);
    let tool = tool.get_name();
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

/// The words in a usage text that name a command.
fn command_in(usage: &str) -> String {
    let is_name = |word: &&str| !word.starts_with(['[', '<', '-']) && !word.contains('=');
    usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ")
}

/// The command that the arguments name, for errors that do not contain it.
fn asked(tool: &Command, words: impl Iterator<Item = String>) -> String {
    let (mut command, mut names) = (tool, tool.get_name().to_owned());
    for word in words {
        if let Some(below) = command.find_subcommand(&word) {
            names = format!("{names} {}", below.get_name());
            command = below;
        }
    }
    names
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
                 (see tool show --help)",
            ),
            (
                &["shwo"],
                "tool: unrecognized subcommand 'shwo': a similar subcommand exists: 'show' \
                 (see tool --help)",
            ),
        ] {
            let error = Cli::try_parse_from([&["tool"], arguments].concat()).expect_err("wrong");
            let words = arguments.iter().map(|&word| word.to_owned());
            assert_eq!(complaint(&error.to_string(), &Cli::command(), words), line);
            assert_eq!(error.exit_code(), 2);
        }
    }
}
