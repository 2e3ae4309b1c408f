//! `fastinst merge`: several profiles as one, for instance of all processes of a service.

use super::report::{print, read};
use super::{Failure, write_file};
use profiler::{Packing, Profile};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Profiles, of any processes and machines
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst merge -o service.profile fastinst.*
  fastinst merge host1/*.profile host2/*.profile | fastinst report /dev/stdin

Functions are the same if they have the same name at the same offset of the same
file (build ID). Calls, CPU times and histograms are added up; intervals are
those of the sums.";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "a profile is binary: give a file with -o, or print the sum with fastinst report"
                .to_owned(),
        ));
    }
    let profiles = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let bytes = Profile::merge(&profiles).to_bytes(Packing::Deflated);
    match &args.output {
        Some(path) => write_file(path, &bytes)?,
        None => print(&bytes)?,
    }
    Ok(ExitCode::SUCCESS)
}
