//! One run of a program under `fastinst run`, in a condition, with a time-out.

use super::conditions::{Condition, Pressure};
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The judged `fastinst`, and the folder for files of runs.
#[derive(Debug)]
pub(super) struct Launcher {
    pub(super) fastinst: PathBuf,
    pub(super) folder: PathBuf,
}

/// The reason why a run gave no profile.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoProfile {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it did not end within {0:?}")]
    Late(Duration),
    #[error("it failed: {0}")]
    Failed(String),
    #[error("what it printed is no profile: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Launcher {
    /// The profile of one run, as JSON. `usual` is the longest time that the program may take
    /// alone.
    pub(super) fn profile(
        &self,
        condition: Condition,
        options: &[&str],
        program: &mut Command,
        usual: Duration,
    ) -> Result<Value, NoProfile> {
        let output = self.folder.join("run.json");
        self.run(condition, &[&["--format", "json"], options].concat(), program, (&output, usual))?;
        Ok(serde_json::from_slice(&fs::read(&output)?)?)
    }

    /// A run whose profile is kept in a file.
    pub(super) fn keep(
        &self,
        condition: Condition,
        program: &mut Command,
        file: &Path,
        usual: Duration,
    ) -> Result<(), NoProfile> {
        self.run(condition, &[], program, (file, usual))
    }

    fn run(
        &self,
        condition: Condition,
        options: &[&str],
        program: &Command,
        (output, usual): (&Path, Duration),
    ) -> Result<(), NoProfile> {
        let _ = fs::remove_file(output);
        let mut pressure = Pressure::begin(condition)?;
        let mut command = pressure.wrap(&self.fastinst);
        command.args(["run", "-o"]).arg(output).args(options);
        command.arg("--").arg(program.get_program()).args(program.get_args());
        let said = self.folder.join("run.err");
        let child = start(&mut command, &said)?;
        pressure.started(child.0.id())?;
        if child.wait(usual * condition.patience())? {
            return Ok(());
        }
        let said = fs::read_to_string(&said).unwrap_or_default();
        Err(NoProfile::Failed(said.lines().next().unwrap_or("it said nothing").to_owned()))
    }
}

/// A process group that is killed on drop.
#[derive(Debug)]
pub(super) struct Group(Child);

/// Starts a command in its own group; its standard output is discarded, its error output is kept.
pub(super) fn start(command: &mut Command, said: &Path) -> io::Result<Group> {
    for (key, _) in
        std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("FASTINST_"))
    {
        command.env_remove(key);
    }
    let complaints = File::create(said)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints)
        .process_group(0)
        .spawn()
        .map(Group::of)
}

impl Group {
    /// The group of a child that leads it.
    pub(super) fn of(child: Child) -> Self {
        Self(child)
    }

    /// Whether it succeeded; `None` while it runs.
    pub(super) fn ended(&mut self) -> io::Result<Option<bool>> {
        Ok(self.0.try_wait()?.map(|status| status.success()))
    }

    /// Waits for its end; returns whether it succeeded.
    pub(super) fn wait(mut self, patience: Duration) -> Result<bool, NoProfile> {
        let begin = Instant::now();
        loop {
            if let Some(success) = self.ended()? {
                return Ok(success);
            }
            if begin.elapsed() > patience {
                return Err(NoProfile::Late(patience));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait()
            && let Some(group) = rustix::process::Pid::from_raw(self.0.id().cast_signed())
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.0.wait();
        }
    }
}
