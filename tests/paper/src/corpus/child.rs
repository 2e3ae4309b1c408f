//! A run of a program: its output and its cost.
//!
//! # Safety
//!
//! This module exists to wait for a child with its resource usage, which only the C library offers.
#![allow(unsafe_code)]

use std::io::{Error, Read, Result};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The CPU time of the program and its children, user and system together.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    /// The largest resident memory, in bytes.
    pub(crate) resident: u64,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) success: bool,
}

impl Outcome {
    /// The first line of its error output.
    pub(crate) fn said(&self) -> String {
        let said = String::from_utf8_lossy(&self.stderr);
        said.lines().next().unwrap_or("it said nothing").to_owned()
    }
}

/// Runs a command to its end.
#[allow(clippy::zombie_processes, reason = "wait4 waits for it")]
pub(crate) fn run(command: &mut Command) -> Result<Outcome> {
    let begin = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stderr = child.stderr.take().expect("a pipe");
    let complaints = std::thread::spawn(move || {
        let mut said = Vec::new();
        stderr.read_to_end(&mut said).map(|_| said)
    });
    let mut stdout = Vec::new();
    child.stdout.take().expect("a pipe").read_to_end(&mut stdout)?;
    let stderr = complaints.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::uninit());
    // SAFETY: (1) buffers to write to; a child of this process that no other thread waits for.
    let usage = unsafe {
        if libc::wait4(child.id().cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) < 0 {
            return Err(Error::last_os_error());
        }
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(Outcome {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        wall: begin.elapsed(),
        resident: usage.ru_maxrss as u64 * 1024,
        stdout,
        stderr,
        success: libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_and_how_it_ends_is_told() {
        let outcome = run(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"])).unwrap();
        assert_eq!(
            (outcome.stdout, outcome.stderr, outcome.success),
            (b"a\n".to_vec(), b"b\n".to_vec(), false)
        );
        assert!(outcome.resident > 0);
    }
}
