//! `fastinst diff`: what has changed from some runs to others, by their profiles.

use super::Failure;
use super::report::{print, read};
use profiler::Profile;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "fastinst diff [OPTIONS] BASE NEW\n       fastinst diff [OPTIONS] BASE... -- NEW...")]
pub(crate) struct Args {
    /// Profiles from before the change; without `--`, the profile from before and the one from
    /// after
    #[arg(required = true, value_name = "BASE")]
    before: Vec<PathBuf>,
    /// Profiles from after the change
    #[arg(last = true, value_name = "NEW")]
    after: Vec<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

/// How a comparison is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Shown {
    /// Number of functions to show; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) rows: usize,
    #[command(flatten)]
    pub(crate) colors: manual::Colors,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fastinst diff before.profile after.profile
  fastinst diff base*.profile -- new*.profile
  fastinst diff --json base*.profile -- new*.profile | jq '.functions[0]'

A change is significant if it is larger than the variation between runs of the
same side. With a single run on a side no change is significant;
`fastinst compare` makes the runs.";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (before, after) = match (&args.before[..], &args.after[..]) {
        ([before, after], []) => (std::slice::from_ref(before), std::slice::from_ref(after)),
        (_, []) => {
            return Err(Failure::Usage(
                "give two profiles, or several on each side of --: fastinst diff base*.profile -- new*.profile".to_owned(),
            ));
        }
        (before, after) => (before, after),
    };
    let read_all = |paths: &[PathBuf]| {
        paths.iter().map(|path| read(path)).collect::<Result<Vec<Profile>, _>>()
    };
    show(&read_all(before)?, &read_all(after)?, &args.shown)
}

/// Prints what has changed.
pub(crate) fn show(
    before: &[Profile],
    after: &[Profile],
    shown: &Shown,
) -> Result<ExitCode, Failure> {
    let comparison = Profile::compare(before, after);
    let text = if shown.json {
        comparison.json()
    } else {
        let terminal = io::stdout().is_terminal();
        comparison.table(&profiler::TableOptions {
            width: manual::columns(terminal),
            rows: shown.rows,
            color: shown.colors.are_on(terminal),
            ..Default::default()
        })
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
