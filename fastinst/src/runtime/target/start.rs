//! The start: the loader, or a hook, calls the library before the program runs.
//!
//! # Safety
//!
//! This module is called by the loader.
#![allow(unsafe_code)]

use super::fork::{after_fork, before_fork, in_child};
use super::probes::is_program_s_own;
use super::profile_path::keep_earlier_images;
use super::running::{PROCESS, make_process_known};
use super::settings::{Settings, settings};
use super::signal::take_signal;
use super::{
    DORMANT, MODULES_AT_START, RUNNING, give_up, install_initial_probes, is_running, start_agent,
    use_settings,
};
use crate::clib::{clock, thread_data};
use crate::config::Provider;
use crate::discovery::Module;
use crate::heap;
use crate::runtime::measure::Instants;
use crate::runtime::registry::{self, ModuleRegistry};
use crate::runtime::{
    arguments, cancellation, complaint, execution, functions, interposed, loader, scope, sites,
    threads, unloading,
};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use wordpatch::os;
use wordpatch::os::pages::{self, Place, Protection};
use wordpatch::os::spare_stacks;

#[used]
#[unsafe(link_section = ".init_array")]
static ENTER: extern "C" fn() = enter;

/// Whether the loader, or a hook, has called [`enter`].
static ENTERED: AtomicBool = AtomicBool::new(false);

/// A hook was called while the profiler is not running: possibly by a library whose constructors
/// the loader calls before ours. Returns whether the profiler runs now.
#[cold]
pub(in crate::runtime) fn enter_from_hook() -> bool {
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
    interposed::resolve();
    if let Err(why) = std::panic::catch_unwind(begin_profiling)
        .unwrap_or_else(|_| Err("an invariant of ours is broken".to_owned()))
    {
        give_up(&why);
    }
    os::set_errno(errno);
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

fn begin_profiling() -> Result<(), String> {
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
    let begun = install_loaded(settings, start, makers, |_| true)?;
    keep_earlier_images();
    take_signal();
    RUNNING.store(true, Release);
    install_initial_probes();
    if arguments::are_asked() {
        registry::lock_registry().report_unreadable();
    }
    if sites::count() > 0 || begun.is_open {
        start_agent()
    } else {
        begun.refusal.map_or(Ok(()), Err)
    }
}

/// What was found in the process.
pub(in crate::runtime) struct Begun {
    /// Why no probe can be switched, where none can.
    pub(in crate::runtime) refusal: Option<String>,
    /// Whether unmodified code may get probes.
    pub(in crate::runtime) is_open: bool,
}

/// Prepares clocks, before everything else. Returns when that was.
pub(in crate::runtime) fn prepare_clocks() -> Result<Instants, String> {
    complaint::prepare();
    if !os::clocks::has_counter() {
        return Err("the program forbids the time stamp counter (PR_SET_TSC): there is no profile"
            .to_owned());
    }
    clock::prepare();
    Ok(Instants::now())
}

/// Whether [`prepare_for_good`] was done.
pub(in crate::runtime) fn is_prepared() -> bool {
    PREPARED.load(Acquire)
}

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares tables, and registers handlers with the C library: once in a process.
pub(in crate::runtime) fn prepare_for_good() -> Result<(), String> {
    PREPARED.store(true, Release);
    if heap_is_all_memory() {
        os::maps::keep_low_addresses_for_heap();
    }
    prepare_tables()?;
    // Everything that queries the loader or makes keys of thread data: later that might allocate.
    loader::find_published_state();
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

/// Whether the program may have no other memory than a heap right behind its data: it has an
/// allocator of its own, and has asked the kernel for addresses that are not random, as Lisp
/// systems do that save their memory to a file. No place near such a heap is used.
fn heap_is_all_memory() -> bool {
    const AS_IT_IS: libc::c_ulong = 0xffff_ffff;
    // SAFETY: (1) changes nothing.
    let personality = unsafe { libc::syscall(libc::SYS_personality, AS_IT_IS) } as libc::c_int;
    if personality & libc::ADDR_NO_RANDOMIZE == 0 {
        return false;
    }
    // SAFETY: (1) a name, and no library that is loaded for it.
    let malloc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) } as usize;
    [malloc, os::maps::program_break().get()].iter().all(|address| *address < os::maps::LOW)
}

/// Installs the sites of the loaded modules, for these settings: first of those that stay as long
/// as the process (`stays`), then of the others. `makers` says which code is taken that compilers
/// have prepared by other means than hooks.
pub(in crate::runtime) fn install_loaded(
    settings: Settings,
    start: Instants,
    makers: Provider,
    stays: impl Fn(&Module) -> bool,
) -> Result<Begun, String> {
    let (config, policy, selector) = settings;
    scope::apply_settings(&config)?;
    // In unmodified programs, and in libraries that are loaded later.
    threads::room::expect_functions();
    let mut registry = unloading::lock_registry_between()?;
    let loaded = Module::loaded();
    let fixed: Vec<u64> = loaded
        .iter()
        .filter(|module| stays(module))
        .map(|module| module.span.start.get() as u64)
        .collect();
    registry.install_all(&policy, false, Some(&fixed));
    MODULES_AT_START.store(registry.entries.len(), Release);
    let mut others = loaded.iter().filter(|module| !stays(module)).peekable();
    if others.peek().is_some() && loader::listens() {
        registry.install_all(&policy, true, None);
    } else {
        // Another thread may be unloading them at this moment.
        registry.refusals.extend(others.filter(|module| module.has_hooks()).map(|module| {
            let name = &module.name;
            format!("{name} gets no probes: it may be unloaded, which the loader does not report")
        }));
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
    use_settings((config, policy, selector), start)?;
    Ok(Begun { refusal, is_open })
}

/// Whether unmodified code may get probes.
fn is_open(registry: &ModuleRegistry) -> bool {
    registry.unmodified.as_ref().is_some_and(|unmodified| unmodified.is_open())
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
