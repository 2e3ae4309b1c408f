//! Attached: how the library enters a running process, and how it leaves.
//!
//! ```text
//!   fastinst attach ─▶ dlopen, on a thread of the C library's making ─▶ fastinst_attached: install, answer, be the agent
//!                                                                           │ asked to end, or its reader has gone
//!   dormant, mapped, until it is attached again ◀── every byte of code as it was ◀── last profile
//! ```
//!
//! - **Nothing happens in a constructor**: there the loader's lock is held, which the program's
//!   threads may want.
//! - **The thread that calls the entry point becomes the agent's**: no further thread is made, for
//!   which the C library would allocate.
//! - **Modules that the program names stay for ever; others may be unloaded**, and no interposed
//!   function reports that. So only the former's unmodified functions get probes; the loader
//!   reports the others, as it reports modules that are loaded (see [`loader`]).
//! - **Children of a fork are left alone**: no function of the C library is interposed.
//! - **The library is never unloaded.** Threads may be in a trampoline for any time, and thread
//!   data, keys and fork handlers lead to it. What stays: the library, trampolines, tables.
//!
//! # Safety
//!
//! This module is called by injected code.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "injected code reaches the entry point, by name")]

use super::agent::{self, Agent};
use super::stub::Stub;
use super::threads;
use super::{cancellation, functions, handover, loader, modes, scope, sites, target, unloading};
use crate::attachment::{REFUSED, Request, STARTED, ThreadData, VERSION, put};
use crate::config::{Config, Provider};
use crate::discovery::Module;
use crate::handover::{Attachment, Handover, Tether, is_there};
use crate::selection::Selector;
use crate::symbols::use_debug_files;
use crate::trigger::Trigger;
use std::collections::HashSet;
use std::ffi::{OsString, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};
use wordpatch::CodeAddr;
use wordpatch::os::pages;

/// What ties the profiler to its reader while it is attached; null otherwise.
static TETHER: AtomicPtr<Tether> = AtomicPtr::new(null_mut());
/// Whether the profiler was attached without a reader, to stay until the process ends.
static STAY: AtomicU32 = AtomicU32::new(NO);
const NO: u32 = 0;
const STAYS: u32 = 1;
/// It was requested to stop.
const ENDING: u32 = 2;
/// Whether a thread is attaching or profiling.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// How long the command has to take what it needs, as long as it lives.
const ACKNOWLEDGING: Duration = Duration::from_secs(10);
/// How long the bootstrap thread may take to end: it has nothing left to do.
const BOOTSTRAP: Duration = Duration::from_secs(5);

/// Whether the profiler was attached.
pub(super) fn is_tied() -> bool {
    !TETHER.load(Acquire).is_null()
}

/// Whether the profiler was attached, and is to leave.
pub(super) fn is_over() -> bool {
    // SAFETY: (1) null, or lives until the agent's thread has left it.
    let tether = unsafe { TETHER.load(Acquire).as_ref() };
    tether.map_or(STAY.load(Acquire) == ENDING, |tether| {
        tether.attachment() != Attachment::Runs || !tether.has_reader()
    })
}

/// Has it leave from now on, if it was attached; returns whether it was. By the agent, when it is
/// requested to stop.
pub(super) fn end() -> bool {
    // SAFETY: (1) null, or lives until the agent's thread has left it.
    if let Some(tether) = unsafe { TETHER.load(Acquire).as_ref() } {
        tether.set_attachment(Attachment::Ending);
        return true;
    }
    STAY.compare_exchange(STAYS, ENDING, AcqRel, Acquire).is_ok()
}

/// The entry point: injected code has loaded the library. Returns when the profiler has left, or
/// refuses.
///
/// # Safety
/// `request` is one that `fastinst attach` has made, and its mapping is the callee's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_attached(request: *mut Request) -> *mut c_void {
    // SAFETY: (1) a name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"fastinst".as_ptr(), 0, 0, 0) };
    target::block_signals();
    // SAFETY: (1) the caller: other threads write to it only by atomics.
    let request_ref = unsafe { &mut *request };
    let begun = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attach(request_ref)))
        .unwrap_or_else(|_| Err("an invariant of ours is broken".to_owned()));
    let agent = match begun {
        Ok((agent, handover)) => {
            // The process may end as soon as the command knows, before this thread continues.
            agent::arrives();
            let descriptor = handover.as_ref().map_or(-1, Handover::descriptor);
            request_ref.handover.store(descriptor, Release);
            request_ref.state.store(STARTED, Release);
            Some((agent, handover))
        }
        Err(why) => {
            let most = request_ref.answer.len() - 1;
            put(&mut request_ref.answer, &why.as_bytes()[..why.len().min(most)]);
            request_ref.state.store(REFUSED, Release);
            None
        }
    };
    let is_acknowledged = || request_ref.acknowledged.load(Acquire) != 0;
    let reader = pairs(&request_ref.settings).1;
    awaited(ACKNOWLEDGING, || is_acknowledged() || !is_there(reader));
    let acknowledged = is_acknowledged();
    // SAFETY: (1) the caller; it is not used any more.
    unsafe { release(request, acknowledged) };
    if let Some((agent, handover)) = agent {
        // Programs close all descriptors, count them, or expect the lowest number.
        drop(handover);
        // SAFETY: (1) null, or made by `begin`.
        if let Some(tether) = unsafe { TETHER.load(Acquire).as_ref() }
            && !acknowledged
        {
            tether.set_attachment(Attachment::Ending);
        }
        agent::run_as_agent(agent);
        leave();
    }
    null_mut()
}

/// Waits, but not longer than this; returns whether it is done.
fn awaited(patience: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !done() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

/// What the command searches when it attaches again.
#[unsafe(export_name = "fastinst_bootstrap_data")]
static BOOTSTRAP_DATA: ThreadData =
    ThreadData { pointer: AtomicU64::new(0), number: AtomicU64::new(0) };

/// Unmaps the mapping, except for thread data, when the bootstrap thread has left it. If the
/// command was killed, the thread that it had stopped may still be on its way back in there, so the
/// mapping stays.
///
/// # Safety
/// As for [`fastinst_attached`]; the request is not used any more.
unsafe fn release(request: *mut Request, acknowledged: bool) {
    // SAFETY: (1) the caller.
    let (at, len, bootstrap, pointer) =
        unsafe { ((*request).mapping, (*request).len, (*request).bootstrap, (*request).pointer) };
    BOOTSTRAP_DATA.number.store(bootstrap, Release);
    BOOTSTRAP_DATA.pointer.store(pointer, Release);
    // SAFETY: (1) a word of the mapping, which the kernel clears.
    let number: &AtomicU32 = unsafe { &*std::ptr::with_exposed_provenance(bootstrap as usize) };
    if awaited(BOOTSTRAP, || number.load(Acquire) == 0) && acknowledged {
        // SAFETY: (1) the mapping, in which no thread is any more.
        let _ = unsafe { pages::unmap(CodeAddr::new(at as usize), len as usize) };
    }
}

/// Returns the agent, and the memory in which its profile lies.
fn attach(request: &Request) -> Result<(Agent, Option<Handover>), String> {
    if request.version != VERSION {
        return Err(
            "the library in the process has another version than this command: use the command of that version"
                .to_owned(),
        );
    }
    if target::is_running() || TAKEN.swap(true, AcqRel) {
        return Err("it is already being profiled".to_owned());
    }
    let begun = begin_alone(request);
    if begun.is_err() {
        target::deactivate_hooks();
        // A thread that has announced that it unloads has to find the profiler when it is done.
        let registry = unloading::lock_registry_between();
        loader::attached_sites_are_gone();
        drop(registry);
        let _ = loader::end_listening();
        handover::release();
        untie();
        TAKEN.store(false, Release);
    }
    begun
}

fn begin_alone(request: &Request) -> Result<(Agent, Option<Handover>), String> {
    static CAME: AtomicBool = AtomicBool::new(false);
    let start = target::prepare_clocks()?;
    cancellation::require_none()?;
    let (settings, reader) = settings(&request.settings)?;
    let stays = settings.0.stays;
    let memory = if stays { None } else { Some(tie(reader)?) };
    STAY.store(if stays { STAYS } else { NO }, Release);
    if CAME.swap(true, AcqRel) {
        attach_again(settings, start)?;
    } else if target::is_prepared() {
        return Err("its profiling was stopped: restart the program".to_owned());
    } else {
        target::prepare_for_good()?;
        if !threads::key_is_free_to_set() {
            return Err(
                "the program has used the first 32 thread-specific keys, which are needed to see threads end: start it with fastinst run".to_owned(),
            );
        }
        loader::begin_listening(&settings.1)?;
        let own = own_modules();
        // What compilers have prepared otherwise than by calls has to be rewritten before it is
        // executed for the first time.
        let makers = Provider::Hooks;
        let takes_any = settings.0.takes_any(false, 0);
        let stays = |module: &Module| own.contains(&module.span.start);
        let begun = target::install_loaded(settings, start, makers, stays)?;
        if let Some(why) = begun.refusal {
            return Err(why);
        }
        if sites::count() == 0 && !begun.is_open {
            return Err(without_probes(takes_any).to_owned());
        }
        target::activate_hooks();
        target::install_initial_probes();
    }
    let mut agent =
        Agent::late(target::clock(), u64::from(wordpatch::os::threads::process() as u32));
    agent.open_control();
    Ok((agent, memory))
}

/// Why no function of the program can get a probe.
const fn without_probes(takes_any: bool) -> &'static str {
    match takes_any {
        true => {
            "none of its functions can get a probe: it has no code compiled with -finstrument-functions, and none with unwind information"
        }
        false => {
            "none of its functions can get a probe: it has no code compiled with -finstrument-functions; other functions get probes with --provider auto (FASTINST_PROVIDER=auto)"
        }
    }
}

/// Shares memory with the process that reads the profile.
fn tie(reader: i32) -> Result<Handover, String> {
    let failed = |error| format!("no memory can be shared with this command: {error}");
    let memory = Handover::for_reader(reader).map_err(failed)?;
    let tether = memory.tether().map_err(failed)?;
    if !handover::claim_of(&memory) {
        return Err("no memory can be shared with this command".to_owned());
    }
    TETHER.store(Box::into_raw(Box::new(tether)), Release);
    Ok(memory)
}

/// Settings as the environment has them; and the process that reads the profile.
fn settings(field: &[u8]) -> Result<(target::Settings, i32), String> {
    let (pairs, reader) = pairs(field);
    let mut config = Config::from_vars(pairs.into_iter()).map_err(|error| error.to_string())?;
    if let Provider::Only(_) = config.provider {
        return Err("attach supports --provider hooks, symbols and auto only".to_owned());
    }
    if config.triggers().any(|trigger| matches!(trigger, Trigger::Signal(_))) {
        return Err(
            "attach installs no signal handlers: use functions or times with --start-on and --stop-on"
                .to_owned(),
        );
    }
    use_debug_files(&config.debug_files);
    // The parent process does not matter.
    config.run = None;
    config.follow = false;
    config.signal = 0;
    let policy = wordpatch::Config::default().policy().map_err(|error| error.to_string())?;
    let selector =
        Selector::of(&config.include, &config.exclude).map_err(|error| error.to_string())?;
    Ok(((config, policy, selector), reader))
}

/// The settings' keys and values, and the process that reads the profile, or zero.
fn pairs(field: &[u8]) -> (Vec<(OsString, OsString)>, i32) {
    let end = field.windows(2).position(|pair| pair == [0, 0]).unwrap_or(field.len());
    let pairs = field[..end].split(|&byte| byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        let owned = |part: &[u8]| OsString::from_vec(part.to_vec());
        Some((owned(&pair[..at]), owned(&pair[at + 1..])))
    });
    let pairs: Vec<(OsString, OsString)> = pairs.collect();
    let reader = pairs.iter().find(|(key, _)| key == "FASTINST_RUN");
    let reader = reader.and_then(|(_, value)| value.to_str()?.parse().ok()).unwrap_or(0);
    (pairs, reader)
}

/// Where the modules lie that stay loaded as long as the process: the program, and what it needs.
fn own_modules() -> HashSet<CodeAddr> {
    let loaded = Module::loaded();
    let mut own: HashSet<CodeAddr> = HashSet::new();
    let mut next: Vec<&Module> = loaded.first().into_iter().collect();
    while let Some(module) = next.pop() {
        if own.insert(module.span.start) {
            let needed = module.libraries();
            let is_needed = |other: &&Module| needed.contains(&other.name);
            next.extend(loaded.iter().filter(is_needed));
        }
    }
    own
}

/// Attaches again, to a process in which the profiler was before.
fn attach_again(settings: target::Settings, start: super::measure::Instants) -> Result<(), String> {
    let policy = settings.1;
    scope::apply_settings(&settings.0)?;
    for (_, site) in sites::all().filter(|(_, site)| site.is_shared_exit()) {
        site.lead_to(Stub::SharedExit);
    }
    target::use_settings(settings, start)?;
    modes::close_open_calls();
    loader::begin_listening(&policy)?;
    let mut registry = unloading::lock_registry_between()?;
    // Modules that were unloaded meanwhile.
    registry.mark_unloaded();
    registry.redirect_again(&policy)?;
    drop(registry);
    modes::let_hooks_switch(true);
    target::activate_hooks();
    modes::end_silence();
    for id in functions::all() {
        modes::allow(id, true);
    }
    // More functions may be wanted now.
    target::reinstall_initial_probes();
    Ok(())
}

/// Restores all code; the library stays.
fn leave() {
    let left = put_back();
    // SAFETY: (1) made by `begin_alone`; no other thread stores it.
    let tether = unsafe { TETHER.load(Acquire).as_ref() };
    if let Some(tether) = tether {
        tether.set_attachment(match left {
            Ok(()) => Attachment::Ended,
            Err(_) => Attachment::Stuck,
        });
    }
    handover::release();
    untie();
    TAKEN.store(false, Release);
}

fn put_back() -> Result<(), String> {
    target::deactivate_hooks();
    let are_out = modes::let_hooks_switch(false);
    modes::silence_all();
    if !are_out {
        return Err("a hook does not come back".to_owned());
    }
    let mut registry = unloading::lock_registry_between()?;
    // Those that were left alone because a thread was unloading.
    modes::silence_all();
    registry.withdraw(target::policy())?;
    loader::attached_sites_are_gone();
    drop(registry);
    loader::end_listening()
}

fn untie() {
    STAY.store(NO, Release);
    let tether = TETHER.swap(null_mut(), AcqRel);
    // SAFETY: (1) null, or made by `begin_alone`, and taken once: by the thread that is the
    // agent's.
    unsafe { (!tether.is_null()).then(|| drop(Box::from_raw(tether))) };
}
