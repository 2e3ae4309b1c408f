//! Processes that make a machine busy: each of this very program, started to compete with what is
//! measured or to stop it, and ended with this process, however that ends.
//!
//! A competitor asks the kernel to be killed with its parent. A stopper sees that its parent is
//! gone, and then kills the group that it stops, since nothing would ever continue it.

use rustix::process::{self, Pid, Signal};
use std::io::{Error, Result};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What such a process does.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub(crate) enum Role {
    /// Use a processor.
    Compete,
    /// Stop a process group three quarters of the time.
    Stop {
        /// The group's number.
        group: i32,
    },
}

/// Of 20 ms, so many are stopped.
const STOPPED: Duration = Duration::from_millis(15);
const RUNNING: Duration = Duration::from_millis(5);

/// Does it, until the parent is gone.
pub(crate) fn act(role: Role) -> Result<()> {
    let parent = process::getppid();
    match role {
        Role::Compete => {
            process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the kernel was asked.
            if process::getppid() != parent {
                return Ok(());
            }
            let mut value = 1_u64;
            loop {
                value = std::hint::black_box(
                    value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1),
                );
            }
        }
        Role::Stop { group } => {
            let group = Pid::from_raw(group).ok_or_else(|| Error::other("no process group"))?;
            while process::getppid() == parent {
                process::kill_process_group(group, Signal::STOP)?;
                std::thread::sleep(STOPPED);
                process::kill_process_group(group, Signal::CONT)?;
                std::thread::sleep(RUNNING);
            }
            Ok(process::kill_process_group(group, Signal::KILL)?)
        }
    }
}

/// Such processes, killed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Company(Vec<Child>);

impl Company {
    /// Busy loops.
    pub(super) fn of_competitors(count: usize) -> Result<Self> {
        let mut company = Self::default();
        for _ in 0..count {
            company.0.push(start(&["compete"])?);
        }
        Ok(company)
    }

    /// One that stops a process group.
    pub(super) fn of_stopper(group: u32) -> Result<Self> {
        Ok(Self(vec![start(&["stop", &group.to_string()])?]))
    }
}

fn start(arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("company").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Company {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
