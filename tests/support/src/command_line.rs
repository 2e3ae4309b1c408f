//! Rules that all commands of the workspace follow, checked by walking over their commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// An option that no command has.
const UNKNOWN: &str = "--no-such-option";

/// Checks a command and all commands below it:
///
/// - an option that it does not have is one line on standard error that names it, and exit code 2;
/// - `-o` is short for `--output`, and nothing else;
/// - `--color` takes auto, always and never, and is auto by itself; `--json` takes nothing;
/// - help fits into a terminal of 80 columns, and a failed write of it is reported;
/// - examples name the command as its user calls it, and the first help names the exit status;
/// - `manual` prints a page for each command, and completions, and refuses unknown commands;
/// - readers that close early are no failure.
///
/// `others` are commands that pass their options on to another program.
#[track_caller]
pub fn follows_the_rules(command: &Path, others: &[&str]) {
    let tool = command.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut walk = Walk { command: command.to_owned(), tool, others, seen: 0 };
    walk.visit(&mut Vec::new());
    let manual = walk.run(&["manual".into(), "--completions".into(), "bash".into()]);
    assert!(manual.status.success() && !manual.stdout.is_empty(), "{manual:?}");
    walk.leaves_quietly(&["manual".into()], 0);
    let none = walk.run(&["manual".into(), "nothing".into()]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    let says = format!("{0}: unknown command nothing: see {0} --help\n", walk.tool);
    assert_eq!((none.status.code(), said), (Some(2), says));
    assert!(walk.seen > 1, "no command below {} was seen", command.display());
}

struct Walk<'a> {
    command: PathBuf,
    tool: String,
    others: &'a [&'a str],
    seen: usize,
}

impl Walk<'_> {
    fn visit(&mut self, path: &mut Vec<String>) {
        self.seen += 1;
        let with =
            |option: &str| path.iter().cloned().chain([option.to_owned()]).collect::<Vec<_>>();
        let help = self.run(&with("--help"));
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success() && !text.is_empty(), "{path:?}: {help:?}");
        self.leaves_quietly(&with("--help"), 0);
        self.fits(&with("--help"));
        if path.last().is_some_and(|name| self.others.contains(&name.as_str())) {
            return;
        }
        let called = [std::slice::from_ref(&self.tool), &path[..]].concat().join(" ");
        let examples = text.split_once("Examples:").map(|(_, examples)| examples);
        assert!(examples.is_none_or(|it| it.contains(&format!("{called} "))), "{called}: {text}");
        assert!(!path.is_empty() || text.contains("Exit status: "), "{text}");
        let wrong = self.run(&with(UNKNOWN));
        let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert_eq!(wrong.status.code(), Some(2), "{path:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{path:?}: {said}");
        let begins = said.starts_with(&format!("{}: ", self.tool));
        assert!(begins && said.contains(UNKNOWN) && said.contains("--help"), "{path:?}: {said}");
        self.leaves_quietly(&with(UNKNOWN), 2);
        for line in text.lines().map(str::trim) {
            let is_output = line.starts_with("-o") || line.starts_with("--output");
            let is_both = line.starts_with("-o, --output <");
            assert!(!is_output || is_both, "{path:?}: {line}");
            assert!(!line.starts_with("--json") || !line.contains('<'), "{path:?}: {line}");
        }
        if text.contains("--color") {
            self.colors(&text, &with("--color"));
        }
        let page = self.run(
            &["manual".to_owned()].into_iter().chain(path.iter().cloned()).collect::<Vec<_>>(),
        );
        assert!(page.status.success() && page.stdout.starts_with(b".ie"), "{path:?}: {page:?}");
        for name in commands(&text) {
            path.push(name);
            self.visit(path);
            path.pop();
        }
    }

    fn run(&self, arguments: &[String]) -> Output {
        self.asked(arguments).output().expect("it starts")
    }

    fn asked(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.command);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Checks `--color WHEN` in all positions.
    fn colors(&self, help: &str, arguments: &[String]) {
        let said: String = help.split("--color <WHEN>").skip(1).take(1).collect();
        let (said, _) = said.split_once("\n      --").unwrap_or((&said, ""));
        for word in ["auto", "always", "never", "[default: auto]"] {
            assert!(said.contains(word), "{arguments:?}: {word} is missing: {said}");
        }
        let wrong = self.run(&[arguments, &["sometimes".into()]].concat());
        let why = String::from_utf8_lossy(&wrong.stderr).into_owned();
        let is_refused = wrong.status.code() == Some(2) && why.contains("'sometimes' for '--color");
        assert!(is_refused, "{arguments:?}: {why}");
    }

    /// Checks a help text in a terminal of 80 columns, and without space to write it.
    fn fits(&self, arguments: &[String]) {
        const COLUMNS: usize = 80;
        let help = self.asked(arguments).env("COLUMNS", COLUMNS.to_string()).output();
        let text = String::from_utf8_lossy(&help.expect("it starts").stdout).into_owned();
        // A line without a blank cannot be broken.
        let is_broken = |line: &&str| line.trim().contains(' ');
        let wide = text.lines().filter(is_broken).find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{arguments:?}");
        // Examples are not wrapped, so that they can be copied as commands.
        let examples = text.lines().skip_while(|line| !line.starts_with("Examples:")).skip(1);
        let of_it = examples.take_while(|line| !line.is_empty());
        for line in of_it {
            assert!(line.starts_with("  "), "{arguments:?}: {line}");
            let is_command = !line.starts_with("   ");
            assert!(is_command, "{arguments:?}: {line}");
        }
        let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let lost = self.asked(arguments).stdout(full).output().expect("it starts");
        let why = String::from_utf8_lossy(&lost.stderr).into_owned();
        let is_told = why.starts_with(&format!("{}: ", self.tool)) && why.lines().count() == 1;
        assert!(lost.status.code() == Some(1) && is_told, "{arguments:?}: {why}");
    }

    /// Checks that the command ends quietly if both streams have lost their readers before it
    /// writes.
    fn leaves_quietly(&self, arguments: &[String], code: i32) {
        let closed = || {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            writer
        };
        let status = self.asked(arguments).stdout(closed()).stderr(closed()).status();
        let status = status.expect("it starts");
        assert_eq!(status.code(), Some(code), "{arguments:?}, whose readers have left: {status}");
    }
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}
