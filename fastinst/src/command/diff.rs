//! `fastinst diff`: what has changed from one profile to another.

use super::Failure;
use super::report::{Shape, read};
use profiler::Profile;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile from before
    before: PathBuf,
    /// The profile from after
    after: PathBuf,
    /// How many functions to show; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fastinst diff before.profile after.profile
  fastinst diff --json before.profile after.profile | jq '.functions[0]'

A change is marked where the intervals of the two means do not meet: everything else may be chance.";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let diff = Profile::diff(&before, &after);
    let text = if args.json {
        diff.json()
    } else {
        let terminal = io::stdout().is_terminal();
        let sort = profiler::Sort::Total;
        diff.table(&profiler::TableOptions {
            width: Shape::width(terminal),
            sort,
            rows: args.rows,
            color: terminal,
            ..Default::default()
        })
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
