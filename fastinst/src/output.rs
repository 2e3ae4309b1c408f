//! Output: the descriptive parts of a profile, and where the profile is written.

use crate::config::Config;
use crate::discovery::DiscoveryError;
use crate::format::Format;
use crate::names::Names;
use crate::runtime::functions::Id;
use crate::runtime::registry::ModuleRegistry;
use crate::runtime::scope;
use crate::runtime::spans::{self, Recorded};
use crate::runtime::witness::{JIT, Jit};
use crate::symbols::unused_debug_files;
use profiler::{Clock, ClockEvidence, Label, Module, Profile, Spent, TableOptions};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wordpatch::os::replace::{Replacement, is_same, is_stream};

/// Facts that the runtime has and the controller does not.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) clock: Clock,
    /// How long the program was observed; its CPU time, and that of the agent, in seconds.
    pub(crate) seconds: f64,
    pub(crate) processor: f64,
    /// When that was, if recording is switched.
    pub(crate) recorded: Option<Recorded>,
    /// The evidence of a sampling clock.
    pub(crate) evidence: ClockEvidence,
    pub(crate) toggles: u64,
    pub(crate) switching: u64,
    pub(crate) agent: f64,
    pub(crate) samples: u64,
    pub(crate) failures: u64,
    pub(crate) unobserved: u64,
    /// The most threads that were observed at the same time.
    pub(crate) threads: u32,
    pub(crate) refused: u64,
    pub(crate) probes: u64,
    /// When observation of the process began: nanoseconds since 1970.
    pub(crate) started: u64,
}

/// Why a profile was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {}", path.display(), reason(error))]
pub(crate) struct OutputError {
    path: PathBuf,
    error: std::io::Error,
}

fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        // The kernel has these system calls.
        Some(libc::ENOSYS) => {
            "the program's system-call filter forbids it; `fastinst run` needs no file".to_owned()
        }
        _ => format!("{error}; set FASTINST_OUTPUT to a place that can be written"),
    }
}

/// Adds names, and a description of how the profile was made. `entry_of` returns the number of the
/// module in which a function was found. Names stay as in the symbol tables if only our own command
/// reads the profile.
pub(crate) fn describe(
    profile: &mut Profile,
    registry: &ModuleRegistry,
    names: &mut Names,
    facts: &Facts,
    format: Format,
    jit: Option<&Jit>,
    entry_of: impl Fn(Id) -> Option<usize>,
) {
    let plain = format != Format::Profile;
    profile.set_hz(facts.clock.hz);
    let watched = f64::from(facts.threads) * facts.seconds;
    // The controller's clock is the program's CPU time, and does not advance in hooks.
    let worked = (profile.header.seconds * 1e9).min(facts.processor * 1e9);
    let times = [watched, watched - facts.processor].map(|seconds| seconds * 1e9);
    let by_probes = profile.evidence_of_probes(&facts.evidence, times, worked);
    let evidence = by_probes.as_ref().unwrap_or(&facts.evidence);
    profile.admit(evidence);
    profile.modules = registry.entries.iter().map(|entry| module(&entry.module)).collect();
    profile.modules.push(Module { path: JIT.to_owned(), build_id: String::new() });
    let made = |id| jit.and_then(|jit| jit.label(id));
    profile.label(|id| {
        if let Some(label) = made(id) {
            return Label { module: Some(registry.entries.len() as u32), ..label.clone() };
        }
        let id = Id(id.0);
        let address = id.start();
        names.label(registry, entry_of(id), address, plain)
    });
    for function in &mut profile.functions {
        let entry = entry_of(Id(function.id.0)).and_then(|number| registry.entries.get(number));
        function.by_runtime = entry.is_some_and(|entry| entry.module.registered.is_some());
    }
    profile.label_callers(|callee, site| {
        let callee = Id(callee.0);
        names.caller(registry, (callee, entry_of(callee)), site, plain)
    });
    keep_used_modules(profile, registry);
    let seconds = |ticks: u64| ticks as f64 / facts.clock.hz;
    let header = &mut profile.header;
    header.command = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    header.process = wordpatch::os::threads::process();
    // SAFETY: (1) getppid has no arguments and cannot fail.
    #[allow(unsafe_code)]
    let parent = unsafe { libc::getppid() };
    header.parent = parent;
    header.started = facts.started;
    header.seconds = facts.seconds;
    header.processor = facts.processor;
    header.recorded = facts.recorded.as_ref().map(|recorded| profiler::Recorded {
        spans: recorded.spans,
        first: recorded.first.iter().map(|&[from, to]| span(from, to, facts.clock.hz)).collect(),
    });
    header.threads = facts.threads;
    header.machine = wordpatch::os::cpu::brand();
    header.spent = Spent {
        probes: facts.probes,
        toggles: facts.toggles,
        samples: facts.samples,
        switching: seconds(facts.switching),
        agent: facts.agent,
        lost: header.spent.lost,
        counting: header.spent.counting,
    };
    header.notes.extend(notes(registry, facts));
    header.notes.extend(jit.map(Jit::notes).unwrap_or_default());
    let name = |id: Id| {
        let function = profile.functions.iter().find(|function| function.id.0 == id.0)?;
        Some(function.label.name.clone())
    };
    profile.header.arguments = crate::runtime::arguments::report(facts.clock.hz, name);
    profile.reconcile(evidence);
}

fn span(from: u64, to: u64, hz: f64) -> profiler::Span {
    let [from, to] = [from, to].map(|counter| spans::since_the_beginning(counter, hz));
    profiler::Span { from, to }
}

fn module(module: &crate::discovery::Module) -> Module {
    Module { path: module.path.to_string_lossy().into_owned(), build_id: String::new() }
}

/// Removes the modules without functions, and identifies the others.
fn keep_used_modules(profile: &mut Profile, registry: &ModuleRegistry) {
    let mut numbers = BTreeMap::new();
    let all = std::mem::take(&mut profile.modules);
    let (mut kept, mut unread) = (Vec::new(), BTreeMap::new());
    let labels = profile.functions.iter_mut().flat_map(|function| {
        function.arcs.iter_mut().filter_map(|arc| arc.caller.as_mut()).chain([&mut function.label])
    });
    for label in labels {
        let Some(key) = label.module else { continue };
        let number = *numbers.entry(key).or_insert_with(|| {
            let mut module = all.get(key as usize).cloned().unwrap_or_default();
            if let Some(entry) = registry.entries.get(key as usize) {
                let error = identify(&mut module, &entry.module).err();
                unread.extend(error.map(|error| (kept.len() as u32, error)));
            }
            kept.push(module);
            kept.len() as u32 - 1
        });
        // Names that were read before the file was replaced are known.
        if label.name.contains("+0x")
            && let Some(error) = unread.remove(&number)
        {
            profile.header.notes.push(format!("some functions have no names: {error}"));
        }
        label.module = Some(number);
    }
    profile.modules = kept;
}

/// Adds what readers of the profile recognize a module's file by.
fn identify(module: &mut Module, loaded: &crate::discovery::Module) -> Result<(), DiscoveryError> {
    module.build_id = loaded.build_id();
    if loaded.registered.is_some() {
        return Ok(());
    }
    // Another file may lie there, which no build ID distinguishes from the one that was loaded.
    loaded.contents().map(drop).inspect_err(|_| module.path += " (deleted)")
}

fn notes(registry: &ModuleRegistry, facts: &Facts) -> Vec<String> {
    const SHOWN: usize = 5;
    let mut notes: Vec<String> = registry.refusals.iter().take(SHOWN).cloned().collect();
    if registry.refusals.len() > SHOWN {
        notes.push(format!(
            "{} further probes or modules were refused",
            registry.refusals.len() - SHOWN
        ));
    }
    let modules: Vec<_> = registry.entries.iter().filter(|entry| entry.has_file()).collect();
    let modules: Vec<_> = modules.iter().map(|entry| &entry.module).collect();
    notes.extend(unused_debug_files(&modules).iter().map(|path| {
        format!(
            "{} is no debug file of any module of the program: its build ID differs",
            path.display()
        )
    }));
    notes.extend(registry.note_of_unmodified());
    notes.extend(spans::notes());
    notes.extend(scope::notes());
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    };
    tell(facts.failures, "times a function could not be switched");
    tell(facts.unobserved, "threads were not observed, because memory was exhausted");
    tell(facts.refused, "calls of functions are missing, because the table was full");
    notes
}

/// Whether a profile is being made or written, and the agent waits for nothing but the CPU and the
/// disk.
static UNHINDERED: AtomicBool = AtomicBool::new(false);

/// Whether the agent, which makes the profile, does not wait for a lock that another thread may
/// hold.
pub(crate) fn is_unhindered() -> bool {
    UNHINDERED.load(Relaxed)
}

/// While this lives, the agent's work waits for nothing but the CPU and the disk.
#[derive(Debug)]
pub(crate) struct Unhindered(());

impl Unhindered {
    /// By the agent.
    pub(crate) fn begin() -> Self {
        UNHINDERED.store(true, Relaxed);
        Self(())
    }
}

impl Drop for Unhindered {
    fn drop(&mut self) {
        UNHINDERED.store(false, Relaxed);
    }
}

/// In a forked child: the thread that was writing exists only in the parent.
pub(crate) fn forget() {
    UNHINDERED.store(false, Relaxed);
    crate::runtime::handover::forget();
}

/// Writes the profile, in the configured format.
pub(crate) fn write(profile: &Profile, config: &Config, path: PathBuf) -> Result<(), OutputError> {
    let bytes = config.format.bytes(profile, &TableOptions::default());
    let bytes = bytes.map_err(|error| OutputError { path: path.clone(), error })?;
    if config.handover.is_some() {
        // The mapping had no free slot: the folder is for this case, and the command that reads it
        // removes it.
        let _ = path.parent().map(|folder| std::fs::DirBuilder::new().mode(0o700).create(folder));
    }
    let is_named = path.as_os_str().as_bytes().ends_with(config.output.as_os_str().as_bytes());
    // A device or a pipe is written to only if its exact path was configured: one that another user
    // or an accident has put at a profile's path is left alone.
    let written =
        if is_named && is_stream(&path) { pour(&path, &bytes) } else { replace(&path, &bytes) };
    written.map_err(|error| OutputError { path, error })
}

/// How long a write may wait for the reader.
const READER: Duration = Duration::from_secs(2);

/// Writes to a device or a pipe, as far as it takes it in time. A pipe without a reader is refused.
fn pour(path: &Path, mut bytes: &[u8]) -> std::io::Result<()> {
    // Only the system's own links are followed, `/dev/stdout` for instance.
    let follow = if path.starts_with("/dev") { 0 } else { libc::O_NOFOLLOW };
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | follow;
    let mut stream = std::fs::OpenOptions::new().append(true).custom_flags(flags).open(path)?;
    if stream.metadata()?.is_dir() || (follow != 0 && stream.metadata()?.is_file()) {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it was replaced by another file",
        ));
    }
    let end = Instant::now() + READER;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error)
                if error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end =>
            {
                wordpatch::os::files::await_room(
                    &stream,
                    end.saturating_duration_since(Instant::now()),
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if is_same(path, Path::new("/proc/self/exe")) {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it is the program itself: name another file",
        ));
    }
    Replacement::begin(path)?.finish(bytes)
}
