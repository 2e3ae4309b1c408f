//! The command: measures, and writes the requested output.

use crate::storm::Assignment;
use crate::{Args, Failure, Plan, Report, Summary, Watch, figure, interrupt};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wordpatch::os::replace::Replacement;
use wordpatch::{Calibration, CalibrationError};

/// The reason why the command has failed.
#[derive(Debug, thiserror::Error)]
enum Complaint {
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error(
        "no folder for the calibration, because neither XDG_CONFIG_HOME nor HOME is set; name a file with -o FILE"
    )]
    NoPlace,
    #[error("cannot write {}: {error}; choose another with {option} FILE", path.display())]
    Unwritable { path: PathBuf, option: &'static str, error: io::Error },
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    #[error(
        "the granule was not observed, and no calibration was written: the machine is busy, run again"
    )]
    NotSeen,
    #[error("cannot write to stdout: {0}")]
    Stdout(io::Error),
}

/// Runs the command with `args`; reports errors on standard error.
pub fn main(args: &Args) -> ExitCode {
    ended(run(args))
}

/// Prints a page; if there is none, the command line names a command that does not exist.
pub fn print(page: Result<Vec<u8>, impl std::fmt::Display>) -> ExitCode {
    match page {
        Ok(page) => ended(io::stdout().write_all(&page).map_err(Complaint::Stdout)),
        Err(error) => {
            say(&error);
            ExitCode::from(2)
        }
    }
}

/// Writes one line to standard error, under the name by which the user has called this: it is also
/// `fastinst calibrate`. A write error is ignored.
fn say(line: &impl std::fmt::Display) {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or("tmax".as_ref());
    let _ = writeln!(io::stderr(), "{}: {line}", name.to_string_lossy());
}

fn ended(result: Result<(), Complaint>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Complaint::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Complaint::Failure(Failure::Interrupted)) => {
            say(&"interrupted, nothing was written");
            ExitCode::from(interrupt::status())
        }
        Err(complaint) => {
            say(&complaint);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Complaint> {
    // Errors that can be detected early are reported before the time is spent.
    let output = output(args)?;
    output.iter().try_for_each(|path| check(path, "-o"))?;
    args.svg.iter().try_for_each(|path| check(path, "--svg"))?;
    Assignment::new().map_err(Failure::from)?;

    let report = measure(&args.plan())?;

    let calibration = report.calibration();
    if let (Some(path), Some(calibration)) = (&output, &calibration) {
        calibration.save(path)?;
    }
    if let Some(path) = &args.svg {
        let drawn =
            Replacement::begin(path).and_then(|file| file.finish(figure::draw(&report).as_bytes()));
        drawn.map_err(|error| Complaint::Unwritable {
            path: path.clone(),
            option: "--svg",
            error,
        })?;
    }
    let mut out = io::stdout().lock();
    let printed = match args.json {
        true => writeln!(out, "{}", report.to_json()),
        false => {
            let color = args.colors.are_on(io::stdout().is_terminal());
            let end = epilogue(&output, calibration.is_some());
            match color {
                true => write!(out, "{:#}{end}", Summary(&report)),
                false => write!(out, "{}{end}", Summary(&report)),
            }
        }
    };
    printed.and_then(|()| out.flush()).map_err(Complaint::Stdout)?;
    if output.is_some() && calibration.is_none() { Err(Complaint::NotSeen) } else { Ok(()) }
}

/// The last line, about the calibration.
fn epilogue(output: &Option<PathBuf>, seen: bool) -> String {
    match output {
        Some(path) if seen => format!("Calibration written to {}\n", path.display()),
        Some(_) => String::new(),
        None => {
            "No file was written. --save saves this calibration, -o FILE writes it elsewhere.\n"
                .to_owned()
        }
    }
}

/// The path of the calibration, if it is written. The default folder is created if needed.
fn output(args: &Args) -> Result<Option<PathBuf>, Complaint> {
    if !args.save {
        return Ok(args.output.clone());
    }
    let path = Calibration::default_path().ok_or(Complaint::NoPlace)?;
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.map_err(|error| Complaint::Unwritable { path: path.clone(), option: "-o", error })?;
    Ok(Some(path))
}

fn check(path: &Path, option: &'static str) -> Result<(), Complaint> {
    Replacement::begin(path).map(drop).map_err(|error| Complaint::Unwritable {
        path: path.to_owned(),
        option,
        error,
    })
}

fn measure(plan: &Plan) -> Result<Report, Complaint> {
    let stop = interrupt::prepare().map_err(Failure::from)?;
    // The bar hides itself if stderr is not a terminal.
    let bar = ProgressBar::with_draw_target(
        Some(plan.total().as_millis() as u64),
        ProgressDrawTarget::stderr(),
    );
    let style = ProgressStyle::with_template("{msg:14} [{wide_bar}] {percent:>3} %, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let watch = Watch::new(stop, |what, planned: Duration| {
        bar.set_message(what.to_owned());
        bar.inc(planned.as_millis() as u64);
    });
    let report = Report::measure(plan, &watch);
    bar.finish_and_clear();
    Ok(report?)
}
