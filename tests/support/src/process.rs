//! Runs programs that may hang.

use crate::poll::{PATIENCE, within};
use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

/// A command that SIGINT ends in every environment: a shell makes its background jobs ignore
/// SIGINT, and all programs that they start inherit that.
pub fn interruptible(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(program);
    command
}

/// The number of this process's memory mappings.
///
/// # Panics
/// If the kernel does not say.
pub fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("maps").lines().count()
}

/// The resident memory of this process, in kilobytes.
///
/// # Panics
/// If the kernel does not say.
pub fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Runs a command that must succeed; returns its output.
///
/// # Panics
/// If it fails, with its error output.
#[track_caller]
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Runs a command; if it hangs, it is killed and the test fails.
///
/// # Panics
/// If it cannot be started, or hangs.
#[track_caller]
pub fn patiently(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    finished(child.unwrap_or_else(|error| panic!("{command:?}: {error}")), &format!("{command:?}"))
}

/// Waits for the end of a child, and of its output if that goes to pipes.
///
/// # Panics
/// If it hangs; then it is killed.
#[track_caller]
pub fn finished(mut child: Child, what: &str) -> Output {
    let (stdout, stderr) = (child.stdout.take().map(read), child.stderr.take().map(read));
    let mut status = None;
    let has_ended = within(PATIENCE, || {
        status = child.try_wait().expect("it is a child");
        status.is_some()
    });
    if !has_ended {
        let _ = (child.kill(), child.wait());
        panic!("it hangs: {what}");
    }
    let bytes = |reader: Option<JoinHandle<Vec<u8>>>| {
        reader.map_or_else(Vec::new, |reader| reader.join().expect("it reads"))
    };
    Output { status: status.expect("it has ended"), stdout: bytes(stdout), stderr: bytes(stderr) }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

/// Whether a process has a handler for a signal.
pub fn catches(process: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(caught.trim(), 16).is_ok_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Sends a signal by the shell's own `kill`, so that tests need no unsafe code.
#[track_caller]
pub fn send(process: u32, signal: i32) {
    succeed(Command::new("kill").args([format!("-{signal}"), process.to_string()]));
}
