//! `fastinst run`: a program with the preload library, and the table when it has ended.
//!
//! The program gets our standard input, output and error and our process group, so that the terminal is its own; signals that are
//! sent to us alone are passed on. We end as it ends.

use super::report::{Shape, show};
use super::{Failure, write_file};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fastinst::discovery::Module;
use fastinst::format::Format;
use profiler::{Policy, Profile};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How calls are chosen: adaptive, paper, exact or count
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    policy: String,
    /// The share of the program's processor time that measuring may take
    #[arg(long, value_name = "SHARE", value_parser = share)]
    budget: Option<f64>,
    /// Calls to time in an epoch (policy paper)
    #[arg(short = 'n', long, value_name = "N")]
    samples: Option<u32>,
    /// The length of an epoch, for instance 10ms (policy paper)
    #[arg(short, long, value_name = "TIME")]
    epoch: Option<String>,
    /// Probe these functions only: a glob, /regex/, @library or file: (may be repeated)
    #[arg(short = 'F', long = "include", value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave these functions out (may be repeated)
    #[arg(short = 'N', long = "exclude", value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Write to a file instead of standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write [default: a table; with -o the profile, for `fastinst report`]
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    format: Option<Format>,
    /// Write a snapshot this often while the program runs: it survives abort and kill
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Whether the program's children are profiled too
    #[arg(long, value_name = "WHOM", default_value = "children", value_parser = ["children", "none"])]
    follow: String,
    /// How many functions the table shows; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  fastinst run ./app input.txt
  fastinst run -o app.profile ./app && fastinst report app.profile
  fastinst run --policy exact --format csv -o calls.csv ./app
  fastinst run -F 'parse_*' -N '@libz*' ./app
  fastinst run --interval 1s -o app.profile ./server

Times are wall-clock times of single calls, callees included. Figures with ~ are estimates.";

/// A format, by its name.
pub(crate) fn format() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.purpose()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}

fn share(text: &str) -> Result<f64, String> {
    fastinst::config::share(text).ok_or_else(|| "a share such as 1% or 0.01".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let library = library()?;
    let program = find(&args.program[0])?;
    let note = examine(&program)?;
    if let Some(path) = &args.output {
        let writable = wordpatch::os::replace::Replacement::begin(path).map(drop);
        writable.map_err(|error| Failure::Write { path: path.clone(), error })?;
    }
    let folder = Folder::new()?;
    let status = launch(args, &program, &library, &folder.0)?;
    let profiles = folder.profiles()?;
    if profiles.is_empty() {
        let why =
            note.unwrap_or_else(|| "the program wrote no profile: it has no probes, or it was killed; see --interval".to_owned());
        eprintln!("fastinst: {why}");
    } else {
        finish(args, &profiles)?;
    }
    leave_as(status)
}

fn finish(args: &Args, profiles: &[Profile]) -> Result<(), Failure> {
    let profile = Profile::merge(profiles);
    let default = if args.output.is_some() { Format::Profile } else { Format::Table };
    let terminal = args.output.is_none() && io::stderr().is_terminal();
    let shape = Shape { rows: args.rows, color: terminal, width: Shape::width(terminal), ..Shape::default() };
    let text = show(&profile, args.format.unwrap_or(default), &shape)?;
    match &args.output {
        Some(path) => write_file(path, &text),
        None => Ok(io::stderr().write_all(&text)?),
    }
}

/// The preload library: beside the command, where cargo puts it, or where packages do.
pub(crate) fn library() -> Result<PathBuf, Failure> {
    let name = "libfastinst.so";
    let here =
        std::env::current_exe().map_err(|error| Failure::Refused(format!("cannot find out where this command lies: {error}")))?;
    let folder = here.parent().unwrap_or(Path::new("/"));
    // Cargo's own folder first: there it is as new as the command also when tests are run.
    let places = [
        folder.join("deps").join(name),
        folder.join(name),
        folder.join("../lib").join(name),
        folder.join("../lib/x86_64-linux-gnu").join(name),
    ];
    let found = places.iter().find(|place| place.is_file());
    found.cloned().ok_or_else(|| {
        Failure::Refused(format!("{name} is not beside {}: build it with cargo build --release -p fastinst", here.display()))
    })
}

/// Finds the program as a shell does.
fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return if path.exists() {
            Ok(path.to_owned())
        } else {
            Err(Failure::Refused(format!("there is no file {}", path.display())))
        };
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|folder| folder.join(path)).find(|candidate| candidate.is_file());
    found.ok_or_else(|| {
        Failure::Refused(format!("there is no program {} in PATH: for one in this folder write ./{0}", path.display()))
    })
}

/// Refuses what cannot be preloaded; notes what would explain an empty profile.
fn examine(program: &Path) -> Result<Option<String>, Failure> {
    let refused = |why: &str| Err(Failure::Refused(format!("{}: {why}", program.display())));
    match Module::of_file(program) {
        Ok(module) if module.is_static => {
            refused("a statically linked program loads no library, so it cannot be profiled this way: link it dynamically")
        }
        Ok(_) if is_setuid(program) => {
            refused("a setuid program ignores LD_PRELOAD: run a copy without that bit, or run it as its owner")
        }
        Ok(module) if !module.has_hooks() => Ok(Some(format!(
            "{} has no probes: compile it with -finstrument-functions, or with fastinst cc (see fastinst doctor)",
            program.display()
        ))),
        // A script, for instance: what it starts may have probes.
        Ok(_) | Err(_) => Ok(None),
    }
}

fn is_setuid(program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(program).is_ok_and(|data| data.mode() & 0o6000 != 0)
}

/// A private folder for the profiles, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = std::env::temp_dir();
        for attempt in 0..100 {
            let path = parent.join(format!("fastinst-{}-{attempt}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::Write { path, error }),
            }
        }
        Err(Failure::Refused(format!("{} is full of our own folders: remove them", parent.display())))
    }

    /// What the processes have written, in the order of their numbers.
    fn profiles(&self) -> Result<Vec<Profile>, Failure> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(&self.0)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        paths.iter().map(|path| super::report::read(path)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn launch(args: &Args, program: &Path, library: &Path, folder: &Path) -> Result<ExitStatus, Failure> {
    let mut command = Command::new(program);
    command.arg0(&args.program[0]).args(&args.program[1..]);
    let mut preload = library.as_os_str().to_owned();
    // A sanitizer's runtime insists on coming first.
    if let Some(runtime) = sanitizer(program) {
        preload = [OsStr::new(&runtime), OsStr::new(":"), &preload].into_iter().collect();
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let policy: Policy = args
        .policy
        .parse()
        .map_err(|_| Failure::Refused(format!("--policy {}: the policies are adaptive, paper, exact and count", args.policy)))?;
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("FASTINST_")) {
        if key != "FASTINST_SIGNAL" {
            command.env_remove(key);
        }
    }
    command.env("LD_PRELOAD", preload).env("FASTINST_OUTPUT", folder.join("profile.%p"));
    command.env("FASTINST_POLICY", &args.policy).env("FASTINST_FOLLOW", &args.follow);
    let is_paper = matches!(policy, Policy::Paper { .. });
    if !is_paper && (args.samples.is_some() || args.epoch.is_some()) {
        return Err(Failure::Refused("-n and -e belong to --policy paper".to_owned()));
    }
    let options = [
        ("FASTINST_BUDGET", args.budget.map(|budget| budget.to_string())),
        ("FASTINST_SAMPLES", args.samples.map(|samples| samples.to_string())),
        ("FASTINST_EPOCH", args.epoch.clone()),
        ("FASTINST_INTERVAL", args.interval.clone()),
        ("FASTINST_INCLUDE", (!args.include.is_empty()).then(|| args.include.join(","))),
        ("FASTINST_EXCLUDE", (!args.exclude.is_empty()).then(|| args.exclude.join(","))),
    ];
    for (key, value) in options {
        if let Some(value) = value {
            command.env(key, value);
        }
    }
    check(&command)?;
    listen();
    let child = command.spawn();
    let child = child.map_err(|error| Failure::Refused(format!("cannot run {}: {error}", program.display())))?;
    attend(child)
}

/// The runtime of a sanitizer that the program names among its libraries.
fn sanitizer(program: &Path) -> Option<String> {
    let libraries = Module::of_file(program).ok()?.libraries();
    libraries.into_iter().find(|name| name.starts_with("lib") && name.contains("san.so"))
}

/// Whether the program's process will understand the environment: what it would complain of is told here.
fn check(command: &Command) -> Result<(), Failure> {
    let vars = command.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    fastinst::config::Config::from_vars(vars).map(drop).map_err(|error| Failure::Refused(error.to_string()))
}

/// The program, for the handler below; and a signal that came before there was one.
static CHILD: AtomicI32 = AtomicI32::new(0);
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Takes the signals that are passed on. What the terminal sends goes to both, and is the program's matter.
fn listen() {
    for signal in
        [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT, libc::SIGWINCH]
    {
        set_handler(signal, pass_on as extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) as usize);
    }
}

/// Waits for the program.
fn attend(mut child: Child) -> Result<ExitStatus, Failure> {
    CHILD.store(child.id() as i32, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        send(early);
    }
    Ok(child.wait()?)
}

/// To the program, or to who will be it.
fn send(signal: i32) {
    match CHILD.load(Ordering::SeqCst) {
        0 => EARLY.store(signal, Ordering::SeqCst),
        child => {
            // SAFETY: (1) kill may be called in a handler.
            #[allow(unsafe_code)]
            unsafe {
                libc::kill(child, signal);
            }
        }
    }
}

extern "C" fn pass_on(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // SAFETY: (1) what the kernel hands to a handler.
    #[allow(unsafe_code)]
    let code = unsafe { (*info).si_code };
    // A key of the terminal, or its window: the kernel has told the program, too.
    let by_terminal = code == libc::SI_KERNEL && matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGWINCH);
    if !by_terminal {
        send(signal);
    }
}

fn set_handler(signal: i32, handler: usize) {
    // SAFETY: (1) an action of zeroes is one; (2) the handler above calls nothing but kill.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART | if handler == libc::SIG_DFL { 0 } else { libc::SA_SIGINFO };
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// Ends as the program has ended: with its status, or by its signal.
fn leave_as(status: ExitStatus) -> Result<ExitCode, Failure> {
    if let Some(code) = status.code() {
        return Ok(ExitCode::from(code as u8));
    }
    let signal = status.signal().unwrap_or(libc::SIGKILL);
    set_handler(signal, libc::SIG_DFL);
    // SAFETY: (1) no core of ours beside the program's; (2) ends this process.
    #[allow(unsafe_code)]
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::raise(signal);
    }
    Ok(ExitCode::from(128 + signal as u8))
}
