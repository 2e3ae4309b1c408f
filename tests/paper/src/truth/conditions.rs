//! The conditions under which profiles are taken.
//!
//! | condition | |
//! |---|---|
//! | `alone` | no additional load |
//! | `competitors` | four busy loops beside it |
//! | `quota` | a quarter of a processor: by the kernel's quota if a control group can be made, otherwise stopped 15 of 20 ms |
//! | `nice` | at nice 10, beside two busy loops |

use super::company::Company;
use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    Alone,
    Competitors,
    Quota,
    Nice,
}

impl Condition {
    pub(super) const ALL: [Self; 4] = [Self::Alone, Self::Competitors, Self::Quota, Self::Nice];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Competitors => "competitors",
            Self::Quota => "quota",
            Self::Nice => "nice",
        }
    }

    /// The factor by which a run may take longer than alone.
    pub(super) const fn patience(self) -> u32 {
        match self {
            Self::Alone => 2,
            Self::Competitors => 6,
            Self::Quota => 10,
            Self::Nice => 30,
        }
    }
}

/// The processes and limits that create the condition, for as long as this lives.
#[derive(Debug)]
pub(super) struct Pressure {
    condition: Condition,
    group: Option<ControlGroup>,
    company: Company,
}

impl Pressure {
    pub(super) fn begin(condition: Condition) -> Result<Self> {
        let company = match condition {
            Condition::Competitors => Company::of_competitors(4)?,
            Condition::Nice => Company::of_competitors(2)?,
            Condition::Alone | Condition::Quota => Company::default(),
        };
        let group = (condition == Condition::Quota).then(ControlGroup::with_a_quarter).flatten();
        Ok(Self { condition, group, company })
    }

    /// A command that runs another under the condition.
    pub(super) fn wrap(&self, program: &Path) -> Command {
        let mut command = match (self.condition, &self.group) {
            (Condition::Nice, _) => Command::new("nice"),
            (Condition::Quota, Some(_)) => Command::new("sh"),
            _ => return Command::new(program),
        };
        match &self.group {
            Some(group) => command
                .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
                .arg(group.0.join("cgroup.procs")),
            None => command.args(["-n", "10"]),
        };
        command.arg(program);
        command
    }

    /// Registers the started command, which has its own process group.
    pub(super) fn started(&mut self, group: u32) -> Result<()> {
        if self.condition == Condition::Quota && self.group.is_none() {
            self.company = Company::of_stopper(group)?;
        }
        Ok(())
    }
}

/// A control group of the experiment, removed on drop.
#[derive(Debug)]
struct ControlGroup(PathBuf);

/// The files of a quota, and their contents: version 2 and version 1.
const QUOTAS: [(&str, &[(&str, &str)]); 2] = [
    ("/sys/fs/cgroup", &[("cpu.max", "25000 100000")]),
    ("/sys/fs/cgroup/cpu", &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "25000")]),
];

impl ControlGroup {
    /// A control group with a quarter of a processor, if it can be made.
    fn with_a_quarter() -> Option<Self> {
        QUOTAS.iter().find_map(|(root, files)| {
            let path = Path::new(root).join(format!("fastinst-paper-{}", std::process::id()));
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            let written = files.iter().try_for_each(|(file, text)| {
                // A missing file must not be created: the folder may be in an ordinary file system.
                let path = group.0.join(file);
                path.exists().then(|| fs::write(path, text).ok()).flatten()
            });
            written.map(|()| group)
        })
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
