//! `fastinst attach`: profiles a process that was started without the profiler for a while, and
//! then leaves it as it was.
//!
//! - `target` inspects the process: whether it can be attached to, or why not.
//! - `loaded` reads from its memory which modules are loaded; `thread_data` makes thread data for
//!   the thread that is started there, and `bootstrap` contains its code.
//! - `safe_point` says where a program of one thread can be held.
//! - `way_back` is how a stopped thread goes on if the command is killed; `gap` is where its
//!   instructions are until there is a mapping for them.
//! - `injection` injects all of it. `place` puts the library where the process finds it.

mod bootstrap;
mod gap;
mod injection;
mod loaded;
mod place;
mod safe_point;
mod target;
mod thread_data;
mod way_back;

use super::launch::Options;
use super::run::Kept;
use super::{Failure, say};
use fastinst::handover::{Attachment, Handover};
use fastinst::quantity::duration;
use fastinst::symbols::demangled;
use injection::{Injected, Refused};
use loaded::Vector;
use profiler::Profile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use target::Target;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    kept: Kept,
    /// Detach after this time, such as 10s [default: when the process ends, or with Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// Attach even if the process has a system-call filter, provided that it refuses system calls
    /// and does not kill
    #[arg(long)]
    force: bool,
    /// Folder for the library, as the process sees it, if it sees other files than this command
    /// (container, chroot)
    #[arg(long, value_name = "FOLDER", default_value = "/tmp")]
    place: PathBuf,
    /// Process ID
    #[arg(value_name = "PID")]
    process: i32,
}

const EXAMPLES: &str = "\
Examples:
  fastinst attach --for 10s 4711
  fastinst attach --for 1m -o server.profile $(pidof server)
  fastinst attach -F 'parse_*' --policy exact 4711

The process is stopped for less than a millisecond if a processor is free. At
the end its code is restored; the library stays mapped and does nothing. A
single-threaded process takes its locks for real from then on.";

/// The interval of the checks whether the process lives.
const LOOK: Duration = Duration::from_millis(20);
/// How long a process may take to begin its program, how long it may go on executing one program
/// after another, and the time between two checks of it.
const READY: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(2);
/// How long the profiler may take to leave.
const LEAVING: Duration = Duration::from_secs(30);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let time = args.time.as_deref().map(time).transpose()?;
    args.kept.check()?;
    super::filter::check_process(&args.options, args.process)?;
    let variables = args.options.variables()?;
    let settings = |target: &Target| {
        variables
            .iter()
            .filter(|(key, _)| *key != "FASTINST_RUN")
            .map(|(key, value)| format!("{key}={value}"))
            .chain([format!("FASTINST_RUN={}", reader(target))])
            .collect()
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        super::launch::set_handler(signal, interrupt as extern "C" fn(i32) as usize);
    }
    let (target, injected) = inject(args.process, args.force, &args.place, settings)?;
    let handover = opened(&target, injected.handover);
    injected.acknowledge(&target);
    let handover = handover?;
    say(&format!(
        "attached to {} in {:.1} ms; one of its threads was stopped for {:.2} ms",
        args.process,
        injected.took.as_secs_f64() * 1e3,
        injected.stopped.as_secs_f64() * 1e3
    ));
    let end = watch(&target, &handover, time);
    let Some(profile) = profile(&handover) else {
        let why = handover.read_all().find_map(Result::err).map_or_else(
            || "no profile: none of its functions was called, or it ended at once".to_owned(),
            |failure| format!("its profile cannot be read: {failure}"),
        );
        return Err(Failure::Refused(format!("process {}: {why}", args.process)));
    };
    args.kept.keep_at_end(&profile)?;
    end?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a process has the library loaded.
pub(crate) fn has_library(process: i32) -> bool {
    Target::look(process, false).is_ok_and(|target| place::is_loaded(&target))
}

/// Starts the profiler of a library that waits in a process, under the settings that the process
/// was started with, until the process ends. Without a setting for it, unmodified functions get
/// probes too, as with `fastinst attach`: by itself the library leaves programs alone that no
/// compiler has prepared, but here one was named.
pub(crate) fn arm(process: i32) -> Result<(), Failure> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let is_setting = |pair: &str| {
        let is_start = ["FASTINST_START=", "FASTINST_ENABLED="];
        pair.starts_with("FASTINST_") && !is_start.iter().any(|key| pair.starts_with(key))
    };
    let mut settings: Vec<String> = environment
        .split(|&byte| byte == 0)
        .map(|pair| String::from_utf8_lossy(pair).into_owned())
        .filter(|pair| is_setting(pair))
        .chain(["FASTINST_STAYS=1".to_owned()])
        .collect();
    if !settings.iter().any(|pair| pair.starts_with("FASTINST_PROVIDER=")) {
        settings.push("FASTINST_PROVIDER=auto".to_owned());
    }
    let (target, injected) = inject(process, false, Path::new("/tmp"), |_| settings.clone())?;
    injected.acknowledge(&target);
    Ok(())
}

/// Loads the library into a process, under these settings, and starts the profiler. If the process
/// executes another program meanwhile, it is inspected again, whatever the reason for a refusal
/// was.
fn inject(
    process: i32,
    force: bool,
    place: &Path,
    settings: impl Fn(&Target) -> Vec<String>,
) -> Result<(Target, Injected), Failure> {
    let begun = Instant::now();
    let mut executed = begun;
    loop {
        let program = Vector::of(process, process).ok();
        let refused = match inject_once(process, force, place, &settings) {
            Ok(injected) => return Ok(injected),
            Err(refused) => refused,
        };
        let may_begin =
            refused.is_unready() || program.as_ref().is_some_and(|program| !program.is_whole());
        let is_another = program
            .is_some_and(|program| Vector::of(process, process).is_ok_and(|now| now != program));
        if is_another {
            executed = Instant::now();
            if begun.elapsed() >= LAST {
                return Err(Failure::Refused(format!(
                    "process {process} executes one program after another: try again when it has \
                     begun the last"
                )));
            }
        } else if !may_begin || executed.elapsed() >= READY {
            return Err(refused.into_failure());
        }
        std::thread::sleep(AGAIN);
    }
}

fn inject_once(
    process: i32,
    force: bool,
    place: &Path,
    settings: impl Fn(&Target) -> Vec<String>,
) -> Result<(Target, Injected), Refused> {
    let target = Target::take(process, force)?;
    let library = place::library_for(&target, place)?;
    let injected = injection::inject(&target, library.path(), &settings(&target));
    library.remove();
    Ok((target, injected?))
}

fn time(text: &str) -> Result<Duration, Failure> {
    duration(text)
        .ok_or_else(|| Failure::Usage(format!("--for {text}: give a time such as 10s or 500ms")))
}

/// This command's process ID in the view of the process: 0 where that is in another PID namespace.
fn reader(target: &Target) -> u32 {
    let namespace = |path: PathBuf| std::fs::read_link(path).ok();
    let theirs = format!("/proc/{}/task/{}/ns/pid", target.process, target.living);
    let ours = namespace(PathBuf::from("/proc/self/ns/pid"));
    if ours.is_some() && ours == namespace(PathBuf::from(theirs)) { std::process::id() } else { 0 }
}

/// The memory that the profiler in the process has made.
fn opened(target: &Target, descriptor: i32) -> Result<Handover, Failure> {
    let path = format!("/proc/{}/task/{}/fd/{descriptor}", target.process, target.living);
    let refused = |why: &dyn std::fmt::Display| {
        Failure::Refused(format!("process {}: cannot read its profile: {why}", target.process))
    };
    match Handover::open(Path::new(&path)) {
        Ok(Some(handover)) => Ok(handover),
        Ok(None) => Err(refused(&"it is something else")),
        Err(error) => Err(refused(&error)),
    }
}

/// Waits until the time is over, the process has ended, or the user interrupts; then makes the
/// profiler leave.
fn watch(target: &Target, handover: &Handover, time: Option<Duration>) -> Result<(), Failure> {
    let end = time.map(|time| Instant::now() + time);
    let agent = target.thread_called(handover.agent());
    let lives = || agent.as_deref().is_some_and(Path::exists);
    while lives() && !INTERRUPTED.load(Ordering::Relaxed) {
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            break;
        }
        handover.beat();
        std::thread::sleep(left.min(LOOK));
    }
    handover.end_attachment();
    if !lives() {
        return Ok(());
    }
    let patience = Instant::now() + LEAVING;
    loop {
        match handover.attachment() {
            Attachment::Ended => return Ok(()),
            Attachment::Stuck => {
                return Err(Failure::Refused(format!(
                    "process {}: some of its code could not be restored; its probes are off and stay in place",
                    target.process
                )));
            }
            Attachment::Runs | Attachment::Ending if !lives() => return Ok(()),
            _ if Instant::now() > patience => {
                return Err(Failure::Refused(format!(
                    "process {}: its profiler does not answer (is the process stopped?); it will detach when it can",
                    target.process
                )));
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn profile(handover: &Handover) -> Option<Profile> {
    let mut profile = handover.profiles().into_iter().next()?;
    profile.rename(demangled);
    Some(profile)
}
