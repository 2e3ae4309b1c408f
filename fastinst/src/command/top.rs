//! `fastinst top`: shows a program that is being profiled, as a table that is updated.

use super::{Failure, ctl, say};
use control::Request;
use control::registry::{Program, Tower};
use fastinst::quantity::duration;
use fastinst_top::{Source, check, show};
use profiler::Profile;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Time between updates; longer for programs with thousands of functions
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    #[command(flatten)]
    colors: manual::Colors,
    /// Process ID
    #[arg(value_name = "PID")]
    process: i32,
}

const EXAMPLES: &str = "\
Examples:
  fastinst top 4711
  fastinst top $(pidof server)
  ssh -t host fastinst top 4711

Keys: q quit, arrows select a function, Enter shows its histogram, callers and
slowest calls, s sorts, / filters, ? lists all keys. Works for programs profiled
by `fastinst run`, `fastinst attach` or the preload library, and for those of
`wasm-aot run`: there the monitor latency is attached meanwhile, unless a
monitor that measures times is attached already.";

fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    let interval = duration(text).filter(|interval| *interval >= least);
    interval.ok_or_else(|| "a time of 100ms or more, such as 1s".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let program = ctl::find(args.process)?;
    check().map_err(Failure::Refused)?;
    let monitor = Monitor::attach(&program)?;
    let title = title(&program);
    let end = show(Asked(program), title, args.interval, args.colors.are_on(true))?;
    drop(monitor);
    if let Some(why) = end {
        say(&why);
    }
    Ok(ExitCode::SUCCESS)
}

/// The program's command line without its folder, so that its arguments have room.
fn title(program: &Program) -> String {
    // If the program has just ended, the first request for its profile reports that.
    let command = program.runs().unwrap_or_default();
    let first = command.split(' ').next().unwrap_or_default();
    let folder = first.rfind('/').map_or(0, |end| end + 1);
    format!("{}, process {}", &command[folder..], program.process)
}

/// The monitor that measures times of a WebAssembly program, attached while `top` shows the
/// program.
struct Monitor(Option<Program>);

/// Its name in `wasm-aot ctl`.
const MONITOR: &str = "latency";

impl Monitor {
    fn attach(program: &Program) -> Result<Self, Failure> {
        if program.tower == Tower::Native || ctl::ask(program, &Request::Snapshot).is_ok() {
            return Ok(Self(None));
        }
        ctl::ask_by(program, &format!("attach {MONITOR}"))?;
        Ok(Self(Some(program.clone())))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Some(program) = &self.0 {
            // It may have ended.
            let _ = ctl::ask_by(program, &format!("detach {MONITOR}"));
        }
    }
}

/// A program's profiles.
struct Asked(Program);

impl Source for Asked {
    fn take(&mut self) -> Result<Profile, (String, bool)> {
        let profile = ctl::ask(&self.0, &Request::Snapshot)
            .and_then(|bytes| ctl::profile(self.0.process, &bytes));
        profile.map_err(|failure| (failure.to_string(), !self.0.listens()))
    }
}
