//! `fastinst compare`: two programs run in turn under the profiler, and what differs between them.
//!
//! The runs are interleaved, and every other round begins with the new program: a machine that gets
//! slower or warmer affects both alike. Each run is launched as `fastinst run` does it. The
//! programs' standard output is discarded, since it would be the same twenty times; standard error
//! is passed on.

use super::diff::{Shown, show};
use super::launch::{Ended, Options, Surroundings, admit, profile_of};
use super::{Failure, write_file};
use profiler::Profile;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "fastinst compare [OPTIONS] -- OLD [ARGS]... -- NEW [ARGS]..."
)]
pub(crate) struct Args {
    /// Runs of each program
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Which calls are timed: adaptive, periodic, exact or count
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    policy: String,
    /// Probe these functions only: a glob, /regex/, @library, file: or 'size<64' (may be repeated)
    #[arg(short = 'F', long = "include", value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave these functions out (may be repeated)
    #[arg(short = 'N', long = "exclude", value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Keep the profiles in this folder, as old.1.profile, new.1.profile and so on
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
    /// The two programs with their arguments, separated by --
    #[arg(last = true, required = true, value_name = "PROGRAMS")]
    programs: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst compare -n 10 -- ./old input.txt -- ./new input.txt
  fastinst compare --keep runs -- ./app --cache=off -- ./app --cache=on
  fastinst diff runs/old.*.profile -- runs/new.*.profile

The programs run in turn. Their standard input is empty, their standard output
is discarded, and both must end with the same exit status every time. To
find a change of 20 % in a function that takes 5 %, use ten runs with eight
seconds of CPU time for each program.";

/// One of the two programs.
#[derive(Clone, Copy, Debug)]
struct Side<'a> {
    name: &'static str,
    program: &'a [OsString],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let sides = sides(&args.programs)?;
    // Both are checked before the first one runs.
    sides.iter().try_for_each(|side| admit(&options(args), side.program).map(drop))?;
    if let Some(folder) = &args.keep {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Write { path: folder.clone(), error })?;
    }
    let mut profiles: [Vec<Profile>; 2] = Default::default();
    let mut first: Option<ExitStatus> = None;
    for round in 1..=args.runs {
        for side in if round % 2 == 1 { [0, 1] } else { [1, 0] } {
            progress(args, profiles.iter().map(Vec::len).sum());
            let (status, profile) = once(args, sides[side], round)?;
            let program = sides[side].program[0].to_string_lossy();
            match first {
                // A signal that ends this command ends the comparison.
                _ if matches!(
                    status.signal(),
                    Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT)
                ) =>
                {
                    return Err(Failure::Refused(format!("{program} was interrupted: {status}")));
                }
                Some(first) if first != status => {
                    return Err(Failure::Refused(format!(
                        "{program} ended with {status}, a run before with {first}"
                    )));
                }
                _ => first = Some(status),
            }
            profiles[side].push(profile);
        }
    }
    progress(args, 2 * args.runs as usize);
    show(&profiles[0], &profiles[1], &args.shown)
}

/// The arguments before `--`, and those after it.
fn sides(programs: &[OsString]) -> Result<[Side<'_>; 2], Failure> {
    let mut parts = programs.splitn(2, |word| word == "--");
    match (parts.next(), parts.next()) {
        (Some(old @ [_, ..]), Some(new @ [_, ..])) => {
            Ok([Side { name: "old", program: old }, Side { name: "new", program: new }])
        }
        _ => Err(Failure::Usage(
            "give two programs: fastinst compare -- ./old ARGS -- ./new ARGS".to_owned(),
        )),
    }
}

fn options(args: &Args) -> Options {
    let (policy, include, exclude) =
        (args.policy.clone(), args.include.clone(), args.exclude.clone());
    Options { policy, include, exclude, ..Options::default() }
}

/// Runs a program once, and saves the profile if that is requested.
fn once(args: &Args, side: Side<'_>, round: u32) -> Result<(ExitStatus, Profile), Failure> {
    let Ended { status, profile, note } =
        profile_of(&options(args), side.program, Surroundings { snapshots: None, silent: true })?;
    let Some(profile) = profile.filter(|profile| !profile.functions.is_empty()) else {
        let none =
            "none of its functions was called, or none ran long enough to be seen".to_owned();
        let ended = if status.success() { none } else { format!("it ended with {status}") };
        let why = note.unwrap_or(ended);
        return Err(Failure::Refused(format!(
            "no profile of {}: {why}",
            side.program[0].to_string_lossy()
        )));
    };
    if let Some(folder) = &args.keep {
        let mut bytes = Vec::new();
        profile.to_file(&mut bytes)?;
        write_file(&folder.join(format!("{}.{round}.profile", side.name)), &bytes)?;
    }
    Ok((status, profile))
}

/// Shows the progress, on a terminal.
fn progress(args: &Args, done: usize) {
    let mut out = io::stderr();
    if out.is_terminal() {
        let all = 2 * args.runs as usize;
        let text =
            if done < all { format!("\r{done} of {all} runs ") } else { "\r\x1b[K".to_owned() };
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
