//! A folder for one test, in which the command runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use test_support::Folder;

/// A folder with the command's cache and the files of a test, which is removed at the end of the
/// test.
pub(crate) struct Place(pub(crate) Folder);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        Self(Folder::new(&format!("wasm-aot-command-{name}")))
    }

    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, contents).expect("a file");
        path.display().to_string()
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.0.join("cache/fastinst/wasm-aot")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = test_support::interruptible(env!("CARGO_BIN_EXE_wasm-aot"));
        command
            .env("XDG_CACHE_HOME", self.0.join("cache"))
            .stdin(Stdio::null())
            .current_dir(&self.0);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("the command starts")
    }

    /// Runs a line in a shell, in which the command is `"$0"`.
    pub(crate) fn shell(&self, line: &str) -> Output {
        let mut shell = Command::new("bash");
        shell.args(["-c", line, env!("CARGO_BIN_EXE_wasm-aot")]).current_dir(&self.0);
        shell.env("XDG_CACHE_HOME", self.0.join("cache"));
        shell.output().expect("there is a shell")
    }

    /// Runs the command, which must succeed; returns its output.
    pub(crate) fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs the command, which must fail; returns its one-line error, and its exit code.
    pub(crate) fn bad(&self, args: &[&str]) -> (String, i32) {
        let output = self.run(args);
        let text = errors(&output);
        assert!(
            text.starts_with("wasm-aot: ") && text.lines().count() == 1,
            "{args:?}: one line: {text}"
        );
        (text, output.status.code().expect("it exits"))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command()
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts")
    }
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
