//! Invalid command lines: every command prints one line on standard error and ends with exit code
//! 2.
//!
//! ```text
//! wasm-aot: unexpected argument '--jsno' found: a similar argument exists: '--json' (see …)
//! ```

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
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
                let line = complaint(&plain(error, tool), tool, words);
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

/// The message, without suggestions that do not help: hidden commands and aliases, which no help
/// text explains, and how to pass an unknown option as a value.
fn plain(mut error: Error, tool: &Command) -> String {
    if let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) {
        let listed: Vec<String> = names.into_iter().filter(|name| is_listed(tool, name)).collect();
        if !listed.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(listed));
        }
    }
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    let text = error.to_string();
    PARSING.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours))
}

/// The standard library's words for a text that is no number, and ours.
const PARSING: [(&str, &str); 4] = [
    ("invalid digit found in string", "give a whole number"),
    ("cannot parse integer from empty string", "give a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
];

/// Whether the help text of a command, or of one below it, lists a command of this name.
fn is_listed(command: &Command, name: &str) -> bool {
    command.get_subcommands().filter(|below| !below.is_hide_set()).any(|below| {
        let is_alias = || below.get_visible_aliases().any(|alias| alias == name);
        below.get_name() == name || is_alias() || is_listed(below, name)
    })
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
        #[command(hide = true)]
        Shop,
        #[command(alias = "sent")]
        Sort,
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
                "tool: invalid value 'y' for '--sort <SORT>': give a whole number \
                 (see tool show --help)",
            ),
            (
                &["shwo"],
                "tool: unrecognized subcommand 'shwo': a similar subcommand exists: 'show' \
                 (see tool --help)",
            ),
            (&["shup"], "tool: unrecognized subcommand 'shup' (see tool --help)"),
            (
                &["sendt"],
                "tool: unrecognized subcommand 'sendt': a similar subcommand exists: 'send' \
                 (see tool --help)",
            ),
            (
                &["show", "x", "--csv"],
                "tool: unexpected argument '--csv' found (see tool show --help)",
            ),
        ] {
            let error = Cli::try_parse_from([&["tool"], arguments].concat()).expect_err("wrong");
            let words = arguments.iter().map(|&word| word.to_owned());
            assert_eq!(error.exit_code(), 2);
            let tool = Cli::command();
            assert_eq!(complaint(&plain(error, &tool), &tool, words), line);
        }
    }
}
