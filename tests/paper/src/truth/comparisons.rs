//! Comparisons: the changes that are reported between runs of the same program, and whether a
//! planted slowdown is found.
//!
//! | row | |
//! |---|---|
//! | `aa/changed` | functions reported as changed between two groups of runs of the same program, in per cent |
//! | `compare/found` | comparisons in which a function that was slowed down by 20 % is reported as slower, in per cent |
//! | `compare/wrong` | functions that were not slowed down and are reported as changed in these, in per cent |

use super::conditions::Condition;
use super::launch::Launcher;
use super::programs::{Subject, Variant};
use super::truths::{PATIENCE, command};
use crate::corpus::Corpus;
use crate::journal::Journal;
use crate::report::{Report, Row};
use serde_json::Value;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

/// The function that takes more turns on request (corpus/truth/burn.c).
const PLANTED: &str = "planted";

/// The results of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Verdicts {
    /// The number of functions that did not change, and of those among them that were reported as
    /// changed.
    same: u64,
    wrong: u64,
    /// The number of comparisons with a planted slowdown, and of those that found it.
    planted: u64,
    found: u64,
}

impl Verdicts {
    /// A comparison of two groups of runs, or its kept result; `slower` plants the slowdown in the
    /// second group.
    pub(super) fn compare(
        corpus: &Corpus,
        launcher: &Launcher,
        journal: &Journal,
        subject: &Subject,
        (runs, slower, number): (usize, bool, usize),
    ) -> Result<Self, Box<dyn Error>> {
        let name = format!("compare-{}-{slower}-{number}", subject.name());
        if let Some(verdicts) = journal.get(&name) {
            return Ok(verdicts);
        }
        let mut sides: [Vec<PathBuf>; 2] = Default::default();
        for run in 0..runs {
            // The sides take turns, so that disturbances of the machine affect both.
            for (side, files) in sides.iter_mut().enumerate() {
                let mut program = command(corpus, subject, Variant::Probed)?;
                if slower && side == 1 {
                    program.arg("120");
                }
                let file = launcher.folder.join(format!("side-{side}-{run}.profile"));
                launcher.keep(Condition::Alone, &mut program, &file, PATIENCE)?;
                files.push(file);
            }
        }
        let mut diff = Command::new(&launcher.fastinst);
        diff.args(["diff", "--json"]).args(&sides[0]).arg("--").args(&sides[1]);
        let output = diff.output()?;
        let answer: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
            format!(
                "fastinst diff: {}",
                String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no JSON")
            )
        })?;
        let verdicts =
            Self::of(&answer, slower).ok_or("fastinst diff --json prints no functions")?;
        journal.put(&name, &verdicts)?;
        Ok(verdicts)
    }

    /// Reads the output of `fastinst diff --json`.
    fn of(answer: &Value, slower: bool) -> Option<Self> {
        let mut verdicts = Self { planted: u64::from(slower), ..Self::default() };
        for function in answer["functions"].as_array()? {
            // With the slowdown, callers of the planted function take longer, too.
            let name = function["name"].as_str()?;
            let changed = is_changed(function);
            match (slower, name) {
                (true, PLANTED) => verdicts.found = u64::from(function["verdict"] == "slower"),
                (true, "main" | "all") => {}
                _ => {
                    verdicts.same += 1;
                    verdicts.wrong += u64::from(changed);
                }
            }
        }
        Some(verdicts)
    }

    pub(super) fn join(&mut self, other: Self) {
        self.same += other.same;
        self.wrong += other.wrong;
        self.planted += other.planted;
        self.found += other.found;
    }

    /// The rows for comparisons of the same program, and for those with a slowdown.
    pub(super) fn rows(aa: Self, planted: Self, report: &mut Report) {
        let mut row = |name: &str, part: u64, whole: u64| {
            if whole > 0 {
                report.rows.push(Row::plain(name, 100.0 * part as f64 / whole as f64, "%", whole));
            }
        };
        row("aa/changed", aa.wrong, aa.same);
        row("compare/found", planted.found, planted.planted);
        row("compare/wrong", planted.wrong, planted.same);
    }
}

/// Whether a function is called changed; `untested` and `unchanged` are not.
fn is_changed(function: &Value) -> bool {
    matches!(function["verdict"].as_str(), Some("slower" | "faster" | "new" | "gone"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_comparison_is_right_about_the_planted_function_and_wrong_about_others() {
        let answer = json!({"functions": [
            {"name": "planted", "verdict": "slower"},
            {"name": "all", "verdict": "slower"},
            {"name": "burn_2", "verdict": "faster"},
            {"name": "burn_8", "verdict": "untested"},
        ]});
        let planted = Verdicts::of(&answer, true).unwrap();
        assert_eq!(planted, Verdicts { same: 2, wrong: 1, planted: 1, found: 1 });
        let aa = Verdicts::of(&answer, false).unwrap();
        assert_eq!(aa, Verdicts { same: 4, wrong: 3, planted: 0, found: 0 });
        assert_eq!(Verdicts::of(&json!({}), false), None);
    }
}
