//! The option `--color`, which has the same meaning in all commands that print tables or
//! diagnostics.

use clap::{Args, ValueEnum};

/// The option, for commands to take over.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Colors {
    /// When to use colours, and bars in tables
    #[arg(long = "color", value_name = "WHEN", default_value = "auto")]
    when: Color,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Colors {
    /// Whether colours are on, for a terminal or other output.
    pub fn are_on(self, terminal: bool) -> bool {
        self.when.is_on(terminal)
    }
}

impl Color {
    /// Whether colours are on, for a terminal or other output. <https://no-color.org>: NO_COLOR
    /// counts if it is not empty.
    pub fn is_on(self, terminal: bool) -> bool {
        let is_set = |name: &str, is_meant: fn(&str) -> bool| {
            std::env::var_os(name).is_some_and(|value| is_meant(&value.to_string_lossy()))
        };
        match self {
            Self::Auto => {
                terminal
                    && !is_set("NO_COLOR", |value| !value.is_empty())
                    && !is_set("TERM", |value| value == "dumb")
            }
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// A line, in bold type if colours are on.
pub fn bold(line: &str, color: bool) -> String {
    if color { format!("\x1b[1m{line}\x1b[0m") } else { line.to_owned() }
}

/// The width of a table in columns: that of the terminal, or very large without one. COLUMNS
/// overrides it.
pub fn columns(terminal: bool) -> usize {
    const LEAST: usize = 40;
    const USUAL: usize = 80;
    const MANY: usize = 160;
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || {
        let size = terminal_size::terminal_size_of(std::io::stderr())
            .or_else(|| terminal_size::terminal_size_of(std::io::stdout()));
        Some(usize::from(size?.0.0))
    };
    match terminal {
        true => said.or_else(asked).unwrap_or(USUAL).max(LEAST),
        false => said.unwrap_or(MANY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        colors: Colors,
    }

    #[test]
    fn colours_are_where_they_are_asked_for() {
        let are_on = |words: &[&str], terminal| {
            Cli::try_parse_from([&["tool"], words].concat())
                .map(|cli| cli.colors.are_on(terminal))
                .ok()
        };
        assert_eq!(are_on(&["--color", "always"], false), Some(true));
        assert_eq!(are_on(&["--color=never"], true), Some(false));
        assert_eq!(
            (are_on(&[], false), are_on(&["--color=auto"], false)),
            (Some(false), Some(false))
        );
        assert_eq!(are_on(&["--color=yes"], true), None);
        assert_eq!((bold("a", true).len(), bold("a", false).len()), (9, 1));
    }
}
