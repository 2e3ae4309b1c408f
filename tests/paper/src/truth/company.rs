//! Processes that make a machine busy: each runs this program, competes with the measured program
//! or stops it, and ends with this process, however that ends.
//!
//! A competitor makes the kernel kill it with its parent. A stopper detects that its parent has
//! ended, and then kills the group that it stops, since no process would ever continue it.

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

/// The time for which the group is stopped, out of 20 ms.
const STOPPED: Duration = Duration::from_millis(15);
const RUNNING: Duration = Duration::from_millis(5);

/// Performs the role until the parent has ended.
pub(crate) fn act(role: Role) -> Result<()> {
    let parent = process::getppid();
    match role {
        Role::Compete => {
            process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the call.
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

/// Such processes, killed on drop.
#[derive(Debug, Default)]
pub(super) struct Company(Vec<Child>);

impl Company {
    /// Starts busy loops.
    pub(super) fn of_competitors(count: usize) -> Result<Self> {
        let mut company = Self::default();
        for _ in 0..count {
            company.0.push(start(&["compete"])?);
        }
        Ok(company)
    }

    /// Starts a process that stops a process group.
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
