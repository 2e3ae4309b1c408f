//! The guest: how the preload library enters a program, lives through its forks, and leaves.
//!
//! Nothing here may make the program fail. The first error is reported in one line on standard
//! error, and switches the profiler off.
//!
//! # Safety
//!
//! This module is called by the loader, by `fork`, and by the kernel.
#![allow(unsafe_code)]

use super::agent::{self, Agent};
pub(super) use super::complaint::complain;
use super::functions::Id;
use super::measure::{self, Instants};
use super::registry::{self, ModuleRegistry};
use super::{arguments, arrivals, cancellation, complaint, doors, execution, functions, loader};
use super::{modes, registered, scope, sites, spans, threads, unloading};
use crate::clib::{clock, thread_data};
use crate::config::{Config, Provider};
use crate::discovery::Module;
use crate::heap;
use crate::output;
use crate::selection::Selector;
use crate::symbols::use_debug_files;
use crate::trigger::Trigger;
use profiler::Clock;
use std::arch::naked_asm;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize};
use std::time::Duration;
use wordpatch::Policy;
use wordpatch::os;
use wordpatch::os::pages::{self, PAGE, Place, Protection};
use wordpatch::os::signals;
use wordpatch::os::spare_stacks::{self, Onward};

mod wanted;

use wanted::install_before_run;
pub(super) use wanted::{
    installs_when_sampled, is_named, is_selected, opens_scope, role_of, wants,
};

/// Settings of the process, made at the beginning.
struct Guest {
    config: Config,
    policy: Policy,
    clock: Clock,
    selector: Option<Selector>,
    /// Functions that begin recording, and those that end it.
    starting: Option<Selector>,
    stopping: Option<Selector>,
    /// Functions that open a scope.
    under: Option<Selector>,
    /// The program's working directory when it was started: relative paths of output are relative
    /// to it.
    directory: PathBuf,
    /// Where its user's sockets are: the program may change its environment later.
    sockets: PathBuf,
}

/// Null before the beginning. Replaced each time that the profiler is attached, and never freed:
/// threads may be reading it.
static GUEST: AtomicPtr<Guest> = AtomicPtr::new(std::ptr::null_mut());
/// Whether hooks do anything.
pub(super) static RUNNING: AtomicBool = AtomicBool::new(false);
/// Whether hooks that are called as they were linked return at once: in a library that waits to be
/// attached, or was attached, or has given up.
pub(super) static DORMANT: AtomicBool = AtomicBool::new(false);
/// The process that the profiler runs in: a child made by `vfork` shares its memory, and is
/// another.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Whether a child was forked in which the profiler has not begun yet; and whether the thread that
/// has forked it was unloading a module.
static UNBEGUN: AtomicBool = AtomicBool::new(false);
static UNLOADS: AtomicBool = AtomicBool::new(false);
/// A byte on a page that the kernel clears in every child of a fork, however it was made: set in
/// processes that the profiler knows.
static KNOWN_PROCESS: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());
static MODULES_AT_START: AtomicUsize = AtomicUsize::new(0);
static LESSONS: AtomicBool = AtomicBool::new(false);
static NEW_FUNCTIONS: AtomicBool = AtomicBool::new(false);
/// The agent while no thread runs it.
static ASIDE: AtomicPtr<Agent> = AtomicPtr::new(std::ptr::null_mut());

/// How long the end of a program waits for its profile to be written.
const LAST_WORDS: Duration = Duration::from_secs(20);
/// How long an exec or an `_exit` waits, which may happen in a signal handler.
const HASTY_WORDS: Duration = Duration::from_secs(2);

#[used]
#[unsafe(link_section = ".init_array")]
static ENTER: extern "C" fn() = enter;

#[used]
#[unsafe(link_section = ".fini_array")]
static LEAVE: extern "C" fn() = leave;

/// Whether the loader, or a hook, has called [`enter`].
static ENTERED: AtomicBool = AtomicBool::new(false);

/// A hook was called while the profiler is not running: possibly by a library whose constructors
/// the loader calls before ours. Returns whether the profiler runs now.
#[cold]
pub(super) fn awaken() -> bool {
    if !ENTERED.load(Acquire) {
        enter();
    }
    is_running()
}

/// Called by the loader.
extern "C" fn enter() {
    if ENTERED.swap(true, AcqRel) {
        return;
    }
    let errno = os::errno();
    if os::is_privileged() || !is_preloaded() {
        DORMANT.store(true, Release);
        os::set_errno(errno);
        return;
    }
    doors::resolve();
    if let Err(why) = std::panic::catch_unwind(begin)
        .unwrap_or_else(|_| Err("an invariant of ours is broken".to_owned()))
    {
        give_up(&why);
    }
    os::set_errno(errno);
}

/// Switches the profiler off, and reports why.
pub(super) fn give_up(why: &str) {
    stop_running();
    complain(why);
}

/// Whether this code lies in a library that the loader has preloaded: not in a program that links
/// it for the interface.
fn is_preloaded() -> bool {
    let here = enter as extern "C" fn() as usize;
    // SAFETY: (1) an address of ours, and room for the answer.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(here as *const libc::c_void, &raw mut info) == 0 || info.dli_fname.is_null()
        {
            return false;
        }
        CStr::from_ptr(info.dli_fname)
    };
    let Some(name) = Path::new(OsStr::from_bytes(name.to_bytes())).file_name() else {
        return false;
    };
    let preload = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    execution::paths(preload.as_bytes())
        .any(|path| Path::new(OsStr::from_bytes(path)).file_name() == Some(name))
}

fn begin() -> Result<(), String> {
    let start = prepare_clocks()?;
    cancellation::require_none()?;
    // An error is reported once: the processes that this one starts have the same settings.
    let settings = settings().inspect_err(|_| hide_from_children())?;
    let Some(settings) = settings else {
        DORMANT.store(true, Release);
        return Ok(());
    };
    if !settings.0.follow {
        hide_from_children();
    }
    prepare_for_good()?;
    let _hoard = heap::Hoard::begin();
    let makers = settings.0.provider;
    let begun = set_up(settings, start, makers, |_| true)?;
    keep_earlier_images();
    take_signal();
    RUNNING.store(true, Release);
    install_initial_probes();
    if arguments::are_asked() {
        registry::lock_registry().tell_unreadable();
    }
    if sites::count() > 0 || begun.is_open {
        start_agent()
    } else {
        begun.refusal.map_or(Ok(()), Err)
    }
}

/// The user's settings.
pub(super) type Settings = (Config, Policy, Option<Selector>);

/// What was found in the process.
pub(super) struct Begun {
    /// Why no probe can be switched, where none can.
    pub(super) refusal: Option<String>,
    /// Whether unmodified code may get probes.
    pub(super) is_open: bool,
}

/// Prepares clocks, before everything else. Returns when that was.
pub(super) fn prepare_clocks() -> Result<Instants, String> {
    complaint::prepare();
    if !os::clocks::has_counter() {
        return Err("the program forbids the time stamp counter (PR_SET_TSC): there is no profile"
            .to_owned());
    }
    clock::prepare();
    Ok(Instants::now())
}

/// Whether [`prepare_for_good`] was done.
pub(super) fn is_prepared() -> bool {
    PREPARED.load(Acquire)
}

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares tables, and what is registered with the C library: once in a process.
pub(super) fn prepare_for_good() -> Result<(), String> {
    PREPARED.store(true, Release);
    prepare_tables()?;
    // Everything that queries the loader or makes keys of thread data: later that might allocate.
    loader::look();
    wordpatch::prepare_preloaded();
    threads::prepare();
    spare_stacks::prepare();
    thread_data::prepare();
    PROCESS.store(os::threads::process(), Release);
    make_process_known();
    // SAFETY: (1) three functions that live as long as the process.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    Ok(())
}

/// Installs what is loaded, for these settings: modules that stay as long as the process (`stays`),
/// and then the others. `makers` says which code is taken that compilers have prepared by other
/// means than hooks.
pub(super) fn set_up(
    settings: Settings,
    start: Instants,
    makers: Provider,
    stays: impl Fn(&Module) -> bool,
) -> Result<Begun, String> {
    let (config, policy, selector) = settings;
    scope::begin(&config)?;
    // In unmodified programs, and in libraries that are loaded later.
    threads::room::expect_functions();
    let mut registry = registry::lock_registry();
    let loaded = Module::loaded();
    let fixed: Vec<u64> = loaded
        .iter()
        .filter(|module| stays(module))
        .map(|module| module.span.start.get() as u64)
        .collect();
    registry.install_all(&policy, false, Some(&fixed));
    MODULES_AT_START.store(registry.entries.len(), Release);
    if fixed.len() < loaded.len() {
        registry.install_all(&policy, true, None);
    }
    registry.know_all();
    // Where no probe can be switched there is no profile: the reason, as far as it is known.
    // SAFETY: (1) getppid has no arguments and cannot fail.
    let parent = unsafe { libc::getppid() };
    if config.provider == Provider::Points {
        registry.open_points(&policy, stays);
    } else if config.provider != Provider::Hooks {
        let takes_any = |has_others| config.takes_any(has_others, parent);
        let accepts = |module: &Module| is_program_s_own(module) && stays(module);
        registry.open_unmodified(&policy, makers, takes_any, accepts);
    }
    let refusal = registry
        .refusals
        .first()
        .filter(|_| sites::count() == 0 && !is_open(&registry))
        .map(|why| format!("no probe can be switched: {why}"));
    let is_open = is_open(&registry);
    drop(registry);
    begin_guest((config, policy, selector), start)?;
    Ok(Begun { refusal, is_open })
}

/// Whether unmodified code may get probes.
fn is_open(registry: &ModuleRegistry) -> bool {
    registry.unmodified.as_ref().is_some_and(|unmodified| unmodified.is_open())
}

/// Makes these settings the current ones.
pub(super) fn begin_guest(settings: Settings, start: Instants) -> Result<(), String> {
    let (config, policy, selector) = settings;
    if config.policy == profiler::Policy::Exact {
        modes::time_every_call();
    }
    arguments::ask(&config.arguments);
    let clock = measure::clock(start);
    let directory = std::env::current_dir().unwrap_or_default();
    let sockets = os::sockets::name_of_folder();
    let [starting, stopping, under] = Guest::special(&config)?;
    let guest =
        Guest { config, policy, clock, selector, starting, stopping, under, directory, sockets };
    GUEST.store(Box::into_raw(Box::new(guest)), Release);
    spans::begin(self::config())
}

impl Guest {
    /// Functions that begin recording, those that end it, and those that open a scope.
    fn special(config: &Config) -> Result<[Option<Selector>; 3], String> {
        let of =
            |patterns: &[String]| Selector::of(patterns, &[]).map_err(|error| error.to_string());
        let functions = |triggers: &[Trigger]| {
            of(&triggers.iter().filter_map(Trigger::pattern).collect::<Vec<_>>())
        };
        Ok([functions(&config.start_on)?, functions(&config.stop_on)?, of(&config.under)?])
    }
}

/// Changes the current settings; or returns why not. By the agent.
pub(super) fn change_settings(change: impl FnOnce(&mut Config)) -> Result<(), String> {
    let before = guest();
    let mut config = before.config.clone();
    change(&mut config);
    let selector =
        Selector::of(&config.include, &config.exclude).map_err(|error| error.to_string())?;
    let (policy, clock) = (before.policy, before.clock);
    let (directory, sockets) = (before.directory.clone(), before.sockets.clone());
    let [starting, stopping, under] = Guest::special(&config)?;
    let guest =
        Guest { config, policy, clock, selector, starting, stopping, under, directory, sockets };
    GUEST.store(Box::into_raw(Box::new(guest)), Release);
    Ok(())
}

/// Where the sockets of this user's processes are.
pub(super) fn folder_of_sockets() -> &'static Path {
    &guest().sockets
}

/// Installs probes in functions without compiled-in hooks, except where these must be seen running
/// first.
pub(super) fn install_initial_probes() {
    let mut registry = registry::lock_registry();
    let takes_late = registry.unmodified.as_ref().is_some_and(|unmodified| unmodified.takes_late());
    loader::tell_all_modules(takes_late);
    install_before_run(&mut registry, |_| true);
}

/// The same, for modules that the loader's listener knows.
pub(super) fn reinstall_initial_probes() {
    install_before_run(&mut registry::lock_registry(), |_| true);
}

/// Modules were loaded, no thread is inside, and the loader reports when they are unloaded: those
/// without compiled-in hooks get their probes as the initial ones did. Returns the functions that
/// have new probes. By the agent.
pub(super) fn install_late(registry: &mut ModuleRegistry) -> BTreeSet<Id> {
    let new = registry.open_late(policy(), config().provider, is_program_s_own);
    install_before_run(registry, |number| new.contains(&number))
}

/// Whether a module is not one of the libraries whose code is left as it is: those that a process
/// or the profiler depends on, and those that read or patch their own code.
fn is_program_s_own(module: &Module) -> bool {
    const OTHERS: [&str; 12] = [
        "ld-linux",
        "libc.so",
        "libm.so",
        "libpthread",
        "libdl",
        "librt",
        "libgcc_s",
        "libresolv",
        "libcrypto",
        "libfips",
        "libsoftokn",
        "libfreebl",
    ];
    const TOOLS: [&str; 5] = ["libasan", "libtsan", "libubsan", "liblsan", "libjemalloc"];
    !OTHERS.iter().chain(&TOOLS).any(|name| module.name.starts_with(name))
}

/// The settings of the environment, `None` if the profiler is disabled; or one line that says why
/// they are invalid.
fn settings() -> Result<Option<Settings>, String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    if !config.enabled {
        return Ok(None);
    }
    let policy = wordpatch::Config::from_env()
        .and_then(|config| config.policy())
        .map_err(|error| error.to_string())?;
    let selector =
        Selector::of(&config.include, &config.exclude).map_err(|error| error.to_string())?;
    use_debug_files(&config.debug_files);
    Ok(Some((config, policy, selector)))
}

/// Reserves the tables, for the first user of them: the profiler, or a program that attaches
/// functions of its own.
pub(crate) fn prepare_tables() -> Result<(), String> {
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    let prepare = || {
        look_for_room()?;
        functions::prepare()
            .and_then(|()| sites::prepare())
            .and_then(|()| threads::reserve())
            .map_err(|error| error.to_string())
    };
    PREPARED.get_or_init(prepare).clone()
}

/// Checks that there is room for the tables, and for what the profiler and the program allocate
/// later: a failing allocation of the profiler would end the program.
fn look_for_room() -> Result<(), String> {
    const LIMITS: [(libc::__rlimit_resource_t, usize, Protection, &str, &str); 2] = [
        (libc::RLIMIT_AS, 80 << 20, Protection::None, "address space", "-v"),
        (libc::RLIMIT_DATA, 16 << 20, Protection::ReadWrite, "writable memory", "-d"),
    ];
    for (limit, room, protection, what, option) in LIMITS {
        let Some(limit) = os::limits::of(limit).map(|limit| limit as usize) else { continue };
        // SAFETY: (1) a new mapping, which no other code uses.
        let found = unsafe {
            pages::map_private(Place::Anywhere, room, protection)
                .and_then(|start| pages::unmap(start, room))
        };
        if found.is_err() {
            return Err(format!(
                "the program's probes take {} MB of {what}, more than its limit of {} MB leaves: raise it to {} MB (ulimit {option} {})",
                room >> 20,
                limit >> 20,
                (limit + room).div_ceil(1 << 20),
                (limit + room).div_ceil(1 << 10),
            ));
        }
    }
    Ok(())
}

/// Starts the agent, if none is running and it is needed. Not in a signal handler.
pub(super) fn start_agent() -> Result<(), String> {
    if !is_running() || agent::is_there() || !is_own_process() || UNBEGUN.load(Acquire) {
        return Ok(());
    }
    let aside = ASIDE.swap(std::ptr::null_mut(), AcqRel);
    let agent = if aside.is_null() {
        Agent::new(clock(), u64::from(os::threads::process() as u32))
    } else {
        // SAFETY: (1) made by `agent_leaves`, and taken once.
        *unsafe { Box::from_raw(aside) }
    };
    agent::start(agent).map_err(|error| format!("cannot start a thread: {error}"))
}

/// The agent's thread ends, and leaves the agent to the next thread.
pub(super) fn agent_leaves(agent: Agent) {
    ASIDE.store(Box::into_raw(Box::new(agent)), Release);
}

/// Whether a child of `vfork` has ended by `exit`, and so used up what its parent would have called
/// at the end.
static END_LOST: AtomicBool = AtomicBool::new(false);

/// Whether the end of the process will not be reported: then the profile is written now and then.
pub(super) fn end_is_lost() -> bool {
    END_LOST.load(Relaxed)
}

/// Called by the loader at the end of the process.
extern "C" fn leave() {
    if !is_running() {
        return;
    }
    if !is_own_process() {
        // The memory is the parent's, in which the agent is.
        END_LOST.store(true, Relaxed);
        agent::write_now(LAST_WORDS);
        return;
    }
    // The agent may have ended because its thread was the only one left, and that thread makes this
    // call.
    if !ASIDE.load(Acquire).is_null() {
        let _ = start_agent();
    }
    agent::write_now(LAST_WORDS);
    agent::control::remove();
    RUNNING.store(false, Release);
}

/// Before `exit`, which runs functions of the program first. Their end is waited for, unless the
/// loader does not call `leave` after them.
pub(super) fn before_exit() {
    if end_is_lost() {
        before_exec();
    }
}

/// Before the process image is replaced or ends: by `_exit`, or by exec, which may fail.
pub(super) fn before_exec() {
    if is_observed() {
        agent::write_now(HASTY_WORDS);
    }
}

/// Before the process ends by `_exit`.
pub(super) fn before_end() {
    before_exec();
    if is_observed() {
        agent::control::remove();
    }
}

/// The program is about to forbid itself what the profiler needs: the profile is written as it is,
/// and from here on the profiler makes no system call.
pub(super) fn stand_down(why: &str) {
    if !is_observed() {
        return;
    }
    agent::write_now(LAST_WORDS);
    agent::dismiss(LAST_WORDS);
    modes::silence_all();
    wordpatch::leave_forks_alone();
    give_up(why);
}

/// The user has stopped the profiler: from here on hooks do nothing, and nothing is written at the
/// end.
pub(super) fn end_for_good() {
    stop_running();
}

/// Whether hooks do anything.
pub(crate) fn is_running() -> bool {
    RUNNING.load(Relaxed) && is_known_process()
}

/// Whether this process has begun with our constructor, or run our fork handler; or shares the
/// memory of one that has.
pub(super) fn is_known_process() -> bool {
    known_process().is_none_or(|known| known.load(Relaxed))
}

fn known_process() -> Option<&'static AtomicBool> {
    // SAFETY: (1) null, or mapped for ever.
    unsafe { KNOWN_PROCESS.load(Relaxed).as_ref() }
}

/// Where the kernel cannot clear pages, children that run no fork handlers are taken for their
/// parents.
fn make_process_known() {
    // SAFETY: (1) a new mapping.
    let page = unsafe { pages::map_private(Place::Anywhere, PAGE, Protection::ReadWrite) };
    if let Ok(page) = page
        && pages::wipe_on_fork(page, PAGE).is_ok()
    {
        // SAFETY: (1) mapped, and not known to any other code.
        let known: &AtomicBool = unsafe { &*page.as_ptr().cast() };
        known.store(true, Relaxed);
        KNOWN_PROCESS.store(std::ptr::from_ref(known).cast_mut(), Release);
    }
}

/// From now on hooks are active.
pub(super) fn run() {
    DORMANT.store(false, Release);
    RUNNING.store(true, Release);
}

/// From now on hooks do nothing.
pub(super) fn stop_running() {
    RUNNING.store(false, Release);
    DORMANT.store(true, Release);
}

/// Tests call hooks without being preloaded.
#[cfg(test)]
pub(super) fn run_hooks() {
    RUNNING.store(true, Release);
}

/// Whether hooks do anything, in the process that the profiler was started in.
pub(super) fn is_observed() -> bool {
    is_running() && is_own_process()
}

/// Where this process is the first of its namespace, a child that shares its memory may be the
/// first of another one.
fn is_own_process() -> bool {
    const FIRST: i32 = 1;
    let process = os::threads::process();
    PROCESS.load(Relaxed) == process && (process != FIRST || os::threads::is_set_up())
}

fn guest() -> &'static Guest {
    // SAFETY: (1) null, or made by `begin_guest` and never freed.
    let guest = unsafe { GUEST.load(Acquire).as_ref() };
    guest.unwrap_or_else(|| unreachable!("the agent is started when this is set"))
}

pub(super) fn config() -> &'static Config {
    &guest().config
}

pub(super) fn policy() -> &'static Policy {
    &guest().policy
}

pub(super) fn clock() -> Clock {
    guest().clock
}

/// How many modules were loaded at the beginning: they are never unloaded.
pub(super) fn modules_at_start() -> usize {
    MODULES_AT_START.load(Relaxed)
}

/// Whether the process has any probes or functions.
pub(super) fn has_probes() -> bool {
    sites::count() > 0 || functions::count() > 1
}

pub(super) fn saw_new_function() {
    if !NEW_FUNCTIONS.swap(true, Release) {
        agent::call();
    }
}

/// A hook has received another function than its site is believed to have.
pub(super) fn saw_lesson() {
    if !LESSONS.swap(true, Release) {
        agent::call();
    }
}

/// What hooks have recorded is to be read again, at the next tick.
pub(super) fn keep_lessons() {
    LESSONS.store(true, Release);
}

pub(super) fn take_lessons() -> bool {
    LESSONS.swap(false, Acquire)
}

pub(super) fn take_new_functions() -> bool {
    NEW_FUNCTIONS.swap(false, Acquire)
}

/// Where the profile of this process is written.
pub(super) fn output_path() -> PathBuf {
    let template = guest().config.output.as_os_str().as_bytes();
    let mut path = Vec::with_capacity(template.len() + 16);
    let mut bytes = template.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, byte == b'%') {
            (_, true) => match bytes.next() {
                Some(b'p') => path.extend_from_slice(os::threads::process().to_string().as_bytes()),
                Some(b'e') => path.extend_from_slice(program_name().as_bytes()),
                Some(other) => path.push(other),
                None => path.push(b'%'),
            },
            (byte, false) => path.push(byte),
        }
    }
    match IMAGE.load(Relaxed) {
        0 => {}
        image => path.extend_from_slice(format!(".{image}").as_bytes()),
    }
    guest().directory.join(OsStr::from_bytes(&path))
}

/// Where it is written if the `fastinst run` that was going to read it was killed.
pub(super) fn orphans_path() -> PathBuf {
    guest().directory.join(format!("fastinst.{}", os::threads::process()))
}

/// How often this process has become another program, as far as profiles show.
static IMAGE: AtomicUsize = AtomicUsize::new(0);

/// If a profile of this process exists already, it is of the program that it was before it became
/// this one by `exec`. That profile is kept.
fn keep_earlier_images() {
    const MOST: usize = 10_000;
    if !guest().config.output.as_os_str().as_bytes().windows(2).any(|pair| pair == b"%p") {
        return;
    }
    // Files have the time of the latest tick of the kernel's clock.
    const TICK: Duration = Duration::from_millis(20);
    let Some(age) = os::threads::process_age() else { return };
    let is_ours = |path: PathBuf| {
        let written = std::fs::metadata(path).and_then(|data| data.modified()).ok();
        written.and_then(|at| at.elapsed().ok()).is_some_and(|elapsed| elapsed <= age + TICK)
    };
    while is_ours(output_path()) && IMAGE.load(Relaxed) < MOST {
        IMAGE.fetch_add(1, Relaxed);
    }
}

fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name()
        .map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().replace('/', "_"))
}

/// Blocks all signals on the calling thread, for good, except for those that the C library keeps
/// for itself.
pub(super) fn block_signals() {
    // SAFETY: (1) a set to fill and to read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Installs the handler of the signal that requests the profile, unless the program has a use for
/// that signal already.
fn take_signal() {
    let signal = config().signal;
    if signal == 0 || sites::count() == 0 {
        return;
    }
    if signals::action(signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_DFL) {
        let _ = hear(signal);
    }
}

/// Installs the profiler's handler of a signal.
pub(super) fn hear(signal: i32) -> Result<(), os::OsError> {
    // SAFETY: (1) the handler is safe in a signal.
    unsafe { signals::install(signal, asked, libc::SA_RESTART) }.map(drop)
}

/// Whether it is still installed: the program may have replaced it.
pub(super) fn hears(signal: i32) -> bool {
    let ours = asked as *const () as usize;
    signals::action(signal).is_ok_and(|action| action.sa_sigaction == ours)
}

/// Called by the kernel, on the signal stack, if the thread has one: the program may run on stacks
/// with no room for a frame.
#[unsafe(naked)]
extern "C" fn asked(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    naked_asm!(
        "endbr64",
        "lea rax, [rip + {}]",
        "lea r11, [rip + {}]",
        "jmp {}",
        sym asked_with_room,
        sym asked_by_handler,
        sym spare_stacks::handle,
    )
}

extern "C" fn asked_with_room(
    signal: i32,
    _: *mut libc::siginfo_t,
    _: *mut libc::c_void,
    _: &mut Onward,
    _: usize,
) -> bool {
    let errno = os::errno();
    if is_own_process() && !spans::came(signal) {
        agent::ask_to_write();
    }
    os::set_errno(errno);
    false
}

/// Called by a handler that the program has installed later, and that passes the signal on.
extern "C" fn asked_by_handler(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    asked_with_room(signal, info, context, &mut Onward { handler: 0, mask: 0 }, 0);
}

/// Removes the library from the environment that children get. It is changed in place, since some
/// programs have functions of their own that change it.
fn hide_from_children() {
    const KEY: &[u8] = b"LD_PRELOAD=";
    unsafe extern "C" {
        static environ: *const *mut libc::c_char;
    }
    let Some(preload) = std::env::var_os("LD_PRELOAD") else { return };
    let others: Vec<&[u8]> =
        execution::paths(preload.as_bytes()).filter(|path| !execution::is_ours(path)).collect();
    let text = others.join(&b':');
    // SAFETY: (1) called while the loader starts the program: no other threads exist yet; (2) the
    // list ends with null, its texts with zero; (3) what is left of one is no longer than it was.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let known = CStr::from_ptr(*entry).to_bytes();
            if known.starts_with(KEY) && known.len() >= KEY.len() + text.len() {
                let value = (*entry).add(KEY.len()).cast::<u8>();
                std::ptr::copy_nonoverlapping(text.as_ptr(), value, text.len());
                value.add(text.len()).write(0);
            }
            entry = entry.add(1);
        }
    }
}

/// The registry, held across a fork; and whether the thread that forks is unloading a module.
static HELD: HeldRegistry = HeldRegistry(std::cell::UnsafeCell::new(None));

struct HeldRegistry(std::cell::UnsafeCell<Option<(registry::LockedRegistry, bool)>>);

// SAFETY: (1) used only by the thread that forks, between its handlers, while it holds the
// registry.
unsafe impl Sync for HeldRegistry {}

extern "C" fn before_fork() {
    if !is_running() {
        return;
    }
    let held = (registry::lock_registry(), unloading::is_by_caller());
    // SAFETY: (1) we hold the registry, so that no other thread is here.
    unsafe { *HELD.0.get() = Some(held) };
}

extern "C" fn after_fork() {
    // SAFETY: (1) this thread holds the registry since `before_fork`.
    drop(unsafe { (*HELD.0.get()).take() });
}

/// Releases what was held, and leaves the rest for [`begin_in_child`]: other handlers follow,
/// possibly of allocators, which still hold their locks. Stores only to the profiler's memory. What
/// probes count meanwhile, they count into the child's own memory.
extern "C" fn in_child() {
    heap::inherit();
    // SAFETY: (1) this thread holds the registry since `before_fork`. Nothing is held where the
    // profiler is not running: in a process that has forbidden itself our system calls, or that we
    // do not know.
    let Some((registry, unloads)) = (unsafe { (*HELD.0.get()).take() }) else { return };
    drop(registry);
    UNLOADS.store(unloads, Relaxed);
    functions::inherit();
    PROCESS.store(os::threads::process(), Release);
    IMAGE.store(0, Relaxed);
    agent::forget();
    spans::inherit();
    arrivals::forget();
    output::forget();
    ASIDE.store(std::ptr::null_mut(), Release);
    threads::forget_all();
    functions::all().for_each(|id| id.function().late.store(0, Relaxed));
    modes::ACCOUNT.clear();
    arguments::clear();
    modes::forget_hooks();
    if !config().follow {
        RUNNING.store(false, Release);
    }
    UNBEGUN.store(true, Release);
    if let Some(known) = known_process() {
        known.store(true, Release);
    }
}

/// A function that forks has returned, possibly in the child, where all handlers have run: there
/// the child is observed as a process of its own from now on, or left alone. What else a child
/// needs of its own is made here, before its agent.
///
/// A child of `_Fork` or of the system call has run no handlers. In it the profiler is not running,
/// and it is left alone.
pub(crate) fn begin_in_child() {
    if !UNBEGUN.load(Acquire) || !is_own_process() || !UNBEGUN.swap(false, AcqRel) {
        return;
    }
    let errno = os::errno();
    agent::control::close_copy();
    let begun = std::panic::catch_unwind(|| {
        let mut registry = registry::lock_registry();
        registry.inherit(UNLOADS.load(Relaxed));
        registered::inherit(&registry);
        drop(registry);
        if !wordpatch::owns_code() {
            // Switching here would switch the parent's code, too.
            RUNNING.store(false, Release);
            return Err("there was no memory for a copy of its code".to_owned());
        }
        functions::all().for_each(modes::inherit);
        if !config().follow {
            functions::all().for_each(|id| modes::allow(id, false));
        } else if has_probes() {
            // Before the program continues: calls that are open when functions get their first
            // modes are not timed.
            return start_agent();
        }
        Ok(())
    });
    if let Err(why) = begun.unwrap_or_else(|_| Err("an invariant of ours is broken".to_owned())) {
        complain(&format!("a forked child is not profiled: {why}"));
    }
    os::set_errno(errno);
}
