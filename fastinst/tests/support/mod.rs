//! Shared code of the tests of whole programs: compiling, running, counting.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The command under test.
pub fn fastinst() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_fastinst")))
}

/// The preload library, at cargo's path for tests.
pub fn library() -> PathBuf {
    let library =
        Path::new(env!("CARGO_BIN_EXE_fastinst")).with_file_name("deps").join("libfastinst.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// Cargo's library paths would lead to other libraries, and variables in the environment of the
/// tests must not have an effect.
pub fn clean(mut command: Command) -> Command {
    command.env_remove("LD_LIBRARY_PATH");
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("FASTINST_") || key.starts_with("WORDPATCH_") {
            command.env_remove(key);
        }
    }
    command
}

/// Whether a tool is installed; if not, the test is skipped with a message.
pub fn has(tool: &str) -> bool {
    test_support::is_there(tool)
}

/// A new folder for each caller; it is kept for the analysis of failures.
pub fn folder(name: &str) -> PathBuf {
    test_support::Folder::below(Path::new(env!("CARGO_TARGET_TMPDIR")), name).keep()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles a program of the tests.
pub fn compile(source_name: &str, to: &Path, flags: &[&str]) -> PathBuf {
    let compiler = if source_name.ends_with(".cc") { "g++" } else { "gcc" };
    compile_with(compiler, source_name, to, flags)
}

pub fn compile_with(compiler: &str, source_name: &str, to: &Path, flags: &[&str]) -> PathBuf {
    let stem = Path::new(source_name).file_stem().unwrap().to_str().unwrap();
    let program = to.join(stem);
    let mut command = Command::new(compiler);
    command.arg(source(source_name)).arg("-o").arg(&program).args(flags).args(["-pthread", "-ldl"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs `program` under the preload library.
pub fn preloaded(program: &Path, policy: &str, output: &Path) -> Command {
    let mut command = clean(Command::new(program));
    command
        .env("LD_PRELOAD", library())
        .env("FASTINST_POLICY", policy)
        .env("FASTINST_FORMAT", "json")
        .env("FASTINST_OUTPUT", output);
    command
}

pub fn run(command: &mut Command) -> Output {
    loop {
        match command.output() {
            // A child that another test's thread has just forked holds the copied file open until
            // its exec.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            output => return output.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        }
    }
}

/// A program that runs until the test ends it.
pub struct Victim(Child);

impl Victim {
    /// The number of its threads. An ended thread may still be listed for a short time.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.number())).unwrap().count()
    }

    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        // The program prints nothing more before its end.
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    pub fn number(&self) -> u32 {
        self.0.id()
    }

    /// Ends the program, which must succeed; returns its output.
    pub fn end(mut self) -> String {
        let output = self.0.stdout.take().unwrap();
        self.ended(output)
    }

    /// The same; returns its error output.
    pub fn end_with_errors(mut self) -> String {
        let errors = self.0.stderr.take().unwrap();
        self.ended(errors)
    }

    fn ended(&mut self, mut writes: impl std::io::Read) -> String {
        test_support::send(self.number(), libc::SIGTERM);
        let mut text = String::new();
        writes.read_to_string(&mut text).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status} {text}");
        text
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The calls of every function, by its offset, from the independent counter.
pub fn counted(program: &Path, args: &[&OsStr]) -> BTreeMap<u64, u64> {
    let to = folder("counts");
    let counter = compile("counter.c", &to, &["-shared", "-fPIC", "-O2"]);
    let counts = to.join("counts.txt");
    let mut command = clean(Command::new(program));
    run(command.args(args).env("LD_PRELOAD", counter).env("COUNTS", &counts));
    let text = std::fs::read_to_string(counts).unwrap();
    let line = |line: &str| {
        let (offset, calls) = line.split_once(' ').unwrap();
        (u64::from_str_radix(offset, 16).unwrap(), calls.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// A profile, as JSON.
pub fn profile(path: &Path) -> serde_json::Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// All profiles in a folder.
pub fn profiles(folder: &Path) -> Vec<serde_json::Value> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("p."));
    paths.iter().map(|path| profile(path)).collect()
}

/// The calls of every function of a profile, by its offset; all have to be exact.
pub fn exact_calls(profile: &serde_json::Value) -> BTreeMap<u64, u64> {
    let functions = profile["functions"].as_array().unwrap().iter();
    functions
        .map(|function| {
            assert_eq!(function["calls"]["how"], "exact", "{function}");
            (
                function["offset"].as_u64().unwrap(),
                function["calls"]["value"].as_f64().unwrap() as u64,
            )
        })
        .collect()
}

/// The function with that name.
pub fn function<'p>(profile: &'p serde_json::Value, name: &str) -> &'p serde_json::Value {
    let mut functions = profile["functions"].as_array().unwrap().iter();
    functions
        .find(|function| function["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not in {profile}"))
}

pub fn calls(profile: &serde_json::Value, name: &str) -> f64 {
    function(profile, name)["calls"]["value"].as_f64().unwrap()
}
