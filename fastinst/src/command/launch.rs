//! Launching: runs a program with the preload library, and collects its profile and exit status.
//!
//! The program gets this command's standard input, output and error and its process group, so that
//! it can use the terminal; signals that are sent to this command alone are passed on. The
//! program's processes leave their profiles in a mapping, which the command reads when the program
//! has ended for any reason. Without a mapping they write files into a private folder.

use super::channel::Channel;
pub(crate) use super::library::library;
use super::program::{examine, find};
use super::{Failure, closed, filter, say};
use fastinst::arguments::{Question, QuestionError};
use fastinst::discovery::Module;
use fastinst::discovery::points::{Pair, PairError};
use fastinst::symbols::{check_debug_file, use_debug_files};
use fastinst::trigger::Trigger;
use profiler::{Header, Policy, Profile};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// The profiler's environment variables begin with this prefix; the program gets this one
/// unchanged.
const PREFIX: &str = "FASTINST_";
const KEPT: &str = "FASTINST_SIGNAL";

/// The provider of points.
pub(super) const POINTS: &str = "usdt";

/// How a program is profiled.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Which calls are timed: adaptive (as many as the budget allows), periodic, exact (all) or
    /// count (none)
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    pub(crate) policy: String,
    /// Share of the program's CPU time that measuring may take
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) budget: Option<f64>,
    /// Calls to time per epoch (policy periodic)
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) samples: Option<u32>,
    /// Length of an epoch, such as 10ms (policy periodic)
    #[arg(short, long, value_name = "TIME", value_parser = epoch)]
    pub(crate) epoch: Option<String>,
    /// Profile only these functions: a glob, /regex/, @library, file: or 'size<64' (may be
    /// repeated)
    #[arg(short = 'F', long = "include", value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Exclude these functions (may be repeated)
    #[arg(short = 'N', long = "exclude", value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Record only calls of these functions, and calls made inside them (may be repeated)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) under: Vec<String>,
    /// Record only calls down to this depth, counted in functions with probes: depth 1 is a
    /// thread's first call or, with --under, the matching call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: Option<u32>,
    /// Record nothing until this event: a function is entered (a pattern as for -F), a signal
    /// arrives (SIGUSR1), or a time has passed since profiling began (2s) (may be repeated)
    #[arg(long, value_name = "EVENT")]
    pub(crate) start_on: Vec<String>,
    /// Stop recording on this event, until a --start-on event happens again (may be repeated)
    #[arg(long, value_name = "EVENT")]
    pub(crate) stop_on: Vec<String>,
    /// Follow child processes (after `attach`: only if the program began with the library)
    #[arg(long, value_name = "WHOM", default_value = "children", value_parser = ["children", "none"])]
    pub(crate) follow: String,
    /// Source of CPU time shares: the kernel's clock, the calls being timed (frames), or none
    /// [default: auto]
    #[arg(long, value_name = "CLOCK", value_parser = ["auto", "kernel", "frames", "none"])]
    pub(crate) witness: Option<String>,
    /// Which functions have probes: those with compiled-in hooks, and besides none (hooks), those
    /// prepared by a compiler in one way (patchable, xray, mcount) or any (compiled), all
    /// (symbols), or all if none is prepared (auto); or static tracepoints of programs and
    /// libraries, and no functions (usdt)
    #[arg(long, value_name = "PROVIDER", default_value = "auto", value_parser = ["auto", "compiled", "hooks", "patchable", "xray", "mcount", "symbols", "usdt"])]
    pub(crate) provider: String,
    /// Read arguments of rarely called functions, and count calls by their values: arg1 to arg6 and
    /// retval, as /i, /u, /x (8 to 64 bits), /b, /c or /s, or as debug information says; without
    /// values, all that debug information describes (may be repeated)
    #[arg(short = 'A', long = "argument", value_name = "FUNCTION@VALUE,…", value_parser = question)]
    pub(crate) arguments: Vec<Question>,
    /// Time from one tracepoint to another, besides pairs implied by their names such as x__start
    /// and x__done (provider usdt; may be repeated)
    #[arg(long = "pair", value_name = "POINT,POINT", value_parser = pair)]
    pub(crate) pairs: Vec<Pair>,
    /// When functions without compiled-in hooks get probes: once they were seen to run, or all
    /// before profiling begins, so that every call is counted [default: all for those that a
    /// compiler has prepared or -F names, seen for others]
    #[arg(long, value_name = "WHEN", value_parser = ["seen", "all"])]
    pub(crate) plant: Option<String>,
    /// Read debug information from this file, too, for the program or library that has its build ID
    /// (may be repeated)
    #[arg(long = "debug-file", value_name = "FILE")]
    pub(crate) debug_files: Vec<PathBuf>,
    /// Whether `fastinst ctl` and `top` can reach the program: if possible (auto), even under a
    /// system-call filter that was installed before (on), or not (off) [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub(crate) control: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let words = |text: &str| text.to_owned();
        let (budget, samples, epoch, include, exclude) = Default::default();
        Self {
            policy: words("adaptive"),
            budget,
            samples,
            epoch,
            include,
            exclude,
            under: Vec::new(),
            depth: None,
            start_on: Vec::new(),
            stop_on: Vec::new(),
            follow: words("children"),
            witness: None,
            provider: words("auto"),
            pairs: Vec::new(),
            arguments: Vec::new(),
            plant: None,
            debug_files: Vec::new(),
            control: None,
        }
    }
}

/// How often a snapshot is taken while the program runs, and what it is for.
pub(crate) type Snapshots<'a> = (Duration, &'a (dyn Fn(&Profile) + Sync));

/// Further settings of one launch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Surroundings<'a> {
    /// Snapshots while the program runs.
    pub(crate) snapshots: Option<Snapshots<'a>>,
    /// Whether the standard output of the program is discarded, and its standard input is empty.
    pub(crate) silent: bool,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The profile of all of its processes; `None` if none was left.
    pub(crate) profile: Option<Profile>,
    /// Why there may be none.
    pub(crate) note: Option<String>,
}

fn question(text: &str) -> Result<Question, String> {
    text.parse().map_err(|error: QuestionError| error.to_string())
}

fn pair(text: &str) -> Result<Pair, String> {
    text.parse().map_err(|error: PairError| error.to_string())
}

fn epoch(text: &str) -> Result<String, String> {
    let time = fastinst::quantity::duration(text).filter(|time| !time.is_zero());
    time.map(|_| text.to_owned()).ok_or_else(|| "give a time such as 10ms".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    fastinst::quantity::share(text).ok_or_else(|| "a share such as 1% or 0.01".to_owned())
}

/// Runs a program, the first of these words, under the profiler; the others are its arguments.
pub(crate) fn profile_of(
    options: &Options,
    words: &[OsString],
    around: Surroundings<'_>,
) -> Result<Ended, Failure> {
    check_environment()?;
    let library = library()?;
    let (program, note) = admit(options, words)?;
    debug_files(&options.debug_files)?;
    filter::check(options, &program)?;
    let channel = Channel::open()?;
    let mut command = prepared(options, &program, words, &library, &channel)?;
    if around.silent {
        command.stdout(Stdio::null()).stdin(Stdio::null());
    }
    listen();
    let child = command.spawn();
    let child = child.map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::ENOEXEC) => {
                "it is no program, and has no first line #! that names an interpreter".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::NotExecutable(format!("cannot run {}: {why}", program.display()))
    })?;
    let (status, others) = while_watching(&channel, around, || attend(child))?;
    let (mut profile, failure) = channel.read();
    // Of other programs, `auto` profiles only code that a compiler has prepared.
    let leaves_some_out = options.provider == "auto" && options.follow != "none";
    if let Some(profile) = profile.as_mut().filter(|_| leaves_some_out) {
        profile.header.notes.extend(note_of_others(&profile.header, others));
    }
    if let (Some(_), Some(failure)) = (&profile, &failure) {
        // There is at least another process's.
        say(failure);
    }
    // Removes the entries of processes that were killed.
    control::registry::sweep();
    Ok(Ended { status, profile, note: failure.or(note) })
}

/// What to know if nearly all CPU time of the processes that the program has waited for, so much in
/// all, is in no profile: the program is a script, or a compiler's driver.
fn note_of_others(header: &Header, others: Duration) -> Option<String> {
    const MUCH: f64 = 0.1;
    const PROFILED: f64 = 0.1;
    let others = others.as_secs_f64();
    (others > MUCH && header.processor < PROFILED * others).then(|| {
        format!(
            "programs that it started took {others:.1} s of CPU time and have no probes: \
             --provider symbols gives probes to those that are linked dynamically"
        )
    })
}

/// The program, if it exists and can be profiled; and what would explain an empty profile.
pub(crate) fn admit(
    options: &Options,
    words: &[OsString],
) -> Result<(PathBuf, Option<String>), Failure> {
    let program = find(&words[0])?;
    let note = examine(&program, &options.provider)?;
    Ok((program, note))
}

/// Runs `act`, and takes snapshots meanwhile.
fn while_watching<T>(channel: &Channel, around: Surroundings<'_>, act: impl FnOnce() -> T) -> T {
    let Some((interval, take)) = around.snapshots else { return act() };
    std::thread::scope(|scope| {
        let (until, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(interval) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some(profile) = channel.profile() {
                    take(&profile);
                }
            }
        });
        let result = act();
        drop(until);
        result
    })
}

/// The command that runs the program with the library.
fn prepared(
    options: &Options,
    program: &Path,
    words: &[OsString],
    library: &Path,
    channel: &Channel,
) -> Result<Command, Failure> {
    let mut command = Command::new(program);
    command.arg0(&words[0]).args(&words[1..]);
    let mut preload = library.as_os_str().to_owned();
    // A sanitizer's runtime has to be loaded first.
    if let Some(runtime) = sanitizer(program) {
        preload = [OsStr::new(&runtime), OsStr::new(":"), &preload].into_iter().collect();
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with(PREFIX))
    {
        if key != KEPT {
            command.env_remove(key);
        }
    }
    command.env("LD_PRELOAD", preload).envs(channel.variables());
    for (key, value) in options.variables()? {
        command.env(key, value);
    }
    check(&command)?;
    closed::close_again(&mut command);
    Ok(command)
}

impl Options {
    /// The options as environment variables.
    pub(super) fn variables(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let policy: Policy = self.policy.parse().map_err(|_| {
            Failure::Usage(format!(
                "--policy {}: the policies are adaptive, periodic (paper), exact and count",
                self.policy
            ))
        })?;
        let is_paper = matches!(policy, Policy::Paper { .. });
        if !is_paper && (self.samples.is_some() || self.epoch.is_some()) {
            return Err(Failure::Usage("-n and -e belong to --policy periodic".to_owned()));
        }
        if !self.pairs.is_empty() && self.provider != POINTS {
            return Err(Failure::Refused(format!("--pair belongs to --provider {POINTS}")));
        }
        if !self.arguments.is_empty() && matches!(&*self.provider, POINTS | "hooks") {
            return Err(Failure::Refused(format!(
                "-A reads arguments at the beginning of functions, where --provider {} installs no probes: use --provider symbols",
                self.provider
            )));
        }
        let debug_files = debug_files(&self.debug_files)?;
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        let pairs: Vec<String> = self.pairs.iter().map(ToString::to_string).collect();
        let optional = [
            ("FASTINST_POLICY", Some(self.policy.clone())),
            ("FASTINST_FOLLOW", Some(self.follow.clone())),
            ("FASTINST_BUDGET", self.budget.map(|budget| budget.to_string())),
            ("FASTINST_SAMPLES", self.samples.map(|samples| samples.to_string())),
            ("FASTINST_EPOCH", self.epoch.clone()),
            ("FASTINST_WITNESS", self.witness.clone()),
            ("FASTINST_PROVIDER", Some(self.provider.clone())),
            ("FASTINST_PLANT", self.plant.clone()),
            ("FASTINST_CONTROL", self.control.clone()),
            ("FASTINST_ARGUMENTS", (!arguments.is_empty()).then(|| arguments.join(";"))),
            ("FASTINST_PAIRS", (!pairs.is_empty()).then(|| pairs.join(";"))),
            ("FASTINST_DEBUG_FILE", debug_files),
            ("FASTINST_RUN", Some(std::process::id().to_string())),
            ("FASTINST_UNDER", joined(&self.under)),
            ("FASTINST_DEPTH", self.depth.map(|depth| depth.to_string())),
            ("FASTINST_START_ON", joined(&self.start_on)),
            ("FASTINST_STOP_ON", joined(&self.stop_on)),
            ("FASTINST_INCLUDE", joined(&self.include)),
            ("FASTINST_EXCLUDE", joined(&self.exclude)),
        ];
        Ok(optional.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
    }

    /// Patterns of functions that switch recording.
    pub(super) fn triggers(&self) -> Result<Vec<String>, Failure> {
        let mut patterns = Vec::new();
        for (option, events) in [("--start-on", &self.start_on), ("--stop-on", &self.stop_on)] {
            for event in events {
                let refused = |error| Failure::Usage(format!("{option} {event}: {error}"));
                patterns.extend(event.parse::<Trigger>().map_err(refused)?.pattern());
            }
        }
        Ok(patterns)
    }
}

/// Files of debug information, which this process reads from now on, as the value of the program's
/// variable. Paths are absolute, since the program may change its folder.
pub(super) fn debug_files(files: &[PathBuf]) -> Result<Option<String>, Failure> {
    let mut absolute = Vec::new();
    for file in files {
        let refused = |why: &dyn std::fmt::Display| {
            Failure::Refused(format!("--debug-file {}: {why}", file.display()))
        };
        check_debug_file(file).map_err(|why| refused(&why))?;
        absolute.push(std::path::absolute(file).map_err(|why| refused(&why))?);
    }
    use_debug_files(&absolute);
    let joined = std::env::join_paths(&absolute)
        .map_err(|_| Failure::Refused("--debug-file: the path has a colon".to_owned()))?;
    let text = joined.into_string().map_err(|path| {
        Failure::Refused(format!("--debug-file {}: the path is not UTF-8", path.display()))
    })?;
    Ok((!text.is_empty()).then_some(text))
}

/// Several values in one variable.
fn joined(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join(","))
}

/// The runtime of a sanitizer that the program names among its libraries.
fn sanitizer(program: &Path) -> Option<String> {
    let libraries = Module::of_file(program).ok()?.libraries();
    libraries.into_iter().find(|name| name.starts_with("lib") && name.contains("san.so"))
}

/// Checks that the program's process will accept the environment: errors that it would report are
/// reported here.
fn check(command: &Command) -> Result<(), Failure> {
    let vars =
        command.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    fastinst::config::Config::from_vars(vars)
        .map(drop)
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// Refuses unknown variables, which are probably misspelt. The known ones have no effect on the
/// program that is started; this is reported unless another `fastinst run` has set them.
fn check_environment() -> Result<(), Failure> {
    if let Err(error @ fastinst::config::ConfigError::UnknownKey { .. }) =
        fastinst::config::Config::from_vars(std::env::vars_os())
    {
        return Err(Failure::Refused(error.to_string()));
    }
    let keys = std::env::vars_os().filter_map(|(key, _)| key.into_string().ok());
    let is_ignored = |key: &String| {
        key.starts_with(PREFIX) && ![KEPT, "FASTINST_CC", "FASTINST_CXX"].contains(&&**key)
    };
    let mut ignored: Vec<String> = keys.filter(is_ignored).collect();
    ignored.sort_unstable();
    if !ignored.is_empty() && std::env::var_os("FASTINST_RUN").is_none() {
        say(&format!("note: {} ignored: use options (--help lists them)", ignored.join(", ")));
    }
    Ok(())
}

/// The program, for the handler below; and a signal that arrived before the program was started.
static CHILD: AtomicI32 = AtomicI32::new(0);
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Installs the handler for signals that are passed on. The kernel sends a terminal's signals to
/// both processes; the program handles those.
fn listen() {
    for signal in [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGCONT,
        libc::SIGWINCH,
    ] {
        set_handler(
            signal,
            pass_on as extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) as usize,
        );
    }
}

/// Waits for the program. Returns how it ended, and the CPU time of the processes that it has waited
/// for.
fn attend(mut child: Child) -> Result<(ExitStatus, Duration), Failure> {
    CHILD.store(child.id() as i32, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        send(early);
    }
    let others = others_at_end(child.id());
    let status = child.wait();
    // Another program may be launched: signals that arrive until then are for that one.
    CHILD.store(0, Ordering::SeqCst);
    Ok((status?, others))
}

/// Waits until a child has ended, and leaves it to be waited for. Returns the CPU time of the
/// processes that it has waited for; zero if that is not known.
fn others_at_end(child: u32) -> Duration {
    let until_ended = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: (1) a record to write to; (2) the child is this process's.
    #[allow(unsafe_code)]
    let waits = || unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, child, &raw mut info, until_ended)
    };
    while waits() == -1 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {}
    // Behind the name, which may contain anything: cutime and cstime, in ticks (proc_pid_stat(5)).
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: f64 = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    // SAFETY: (1) a number.
    #[allow(unsafe_code)]
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_secs_f64(ticks / a_second.max(1) as f64)
}

/// Sends the signal to the program, or keeps it until the program has been started.
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
    // A key of the terminal, or its window: the kernel has sent the signal to the program, too.
    let by_terminal =
        code == libc::SI_KERNEL && matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGWINCH);
    if !by_terminal {
        send(signal);
    }
}

pub(super) fn set_handler(signal: i32, handler: usize) {
    // SAFETY: (1) an action of zeroes is one; (2) the handler above calls nothing but kill.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags =
            libc::SA_RESTART | if handler == libc::SIG_DFL { 0 } else { libc::SA_SIGINFO };
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}
