//! Registered code: functions that a runtime has made in this process, besides those of its files.
//!
//! ```text
//!   runtime ── register ──▶ entry of the registry: names, and where the functions lie
//!      ▲                    functions with numbers, as any other's
//!      │ set(which, state)
//!   agent ◀── has_changed ── modes: what a function's probes shall do
//!
//!   its machine code ── enter, leave ──▶ event: the rules that native functions have
//! ```
//!
//! The runtime switches its probes itself, on the agent's thread, when the agent calls its `set`
//! function. A hook that retires a function therefore only records that. It follows the function's
//! state until the agent has seen the record.
//!
//! # Safety
//!
//! This module exists to call functions of the program, and to read what the program hands over.
#![allow(unsafe_code)]

use super::functions::{self, Id};
use super::layout::Function;
use super::modes;
use super::registry::{ModuleEntry, ModuleRegistry, lock_registry};
use super::sites::SiteList;
use super::{agent, event, target, threads};
use crate::discovery::Module;
use crate::discovery::registered::{self, Registered};
use fastinst_code::c;
use profiler::{Counting, FuncId};
use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64};
use std::time::Duration;
use wordpatch::CodeAddr;
use wordpatch::os::membarrier;
use wordpatch::os::pages::PAGE;
use wordpatch::os::threads::current;

/// How long a runtime that registers code waits until its probes are on; and one that unregisters
/// code, until no thread is in an event of it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long unregistering waits for the runtime's own function to return.
const LONG_PATIENCE: Duration = Duration::from_secs(20);

/// The cost of counting an entry, as a multiple of the cost of one of our stubs: where the runtime
/// counts itself, and where it reports every entry to the library. The functions of Wasm modules
/// count themselves: that adds 0 to 3 ns to a call, in the same program too (AMD of family 25,
/// model 17; 12 runs of up to 200 M calls); a stub adds 1 ns. A call of which both ends
/// are reported takes 91 ns (a run of 200 M calls), its entry about half of that.
const COUNTS_ITSELF: Counting = Counting { times: 1.0, deviation: 1.0 };
const TELLS: Counting = Counting { times: 60.0, deviation: 0.5 };

/// Whether any registration may have a function whose runtime was not yet given its current state:
/// most processes have none, and the agent checks at every look.
static HAS_NEWS: AtomicBool = AtomicBool::new(false);

/// Whether any runtime counts itself.
static COUNT_THEMSELVES: AtomicBool = AtomicBool::new(false);

/// Numbers of registrations, from one on.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Code that was registered. Never freed: hooks may be reading it.
#[derive(Debug)]
pub(crate) struct Registration {
    number: u64,
    set: c::Set,
    counts: Option<c::Counts>,
    this: *mut c_void,
    /// In the order of registration.
    functions: Box<[Id]>,
    /// A bit for each function whose runtime may not have been given its current state.
    changed: Box<[AtomicU64]>,
    /// Whether any of these bits may be set.
    has_news: AtomicBool,
    /// For each function, the state that the runtime was given last.
    told: Box<[AtomicU8]>,
    /// Where the runtime counts itself: a bit for each function that may have been entered since
    /// its count was taken, and what was taken.
    counting: Box<[AtomicU64]>,
    taken: Box<[AtomicU64]>,
    /// Whether the runtime was given states yet.
    is_settled: AtomicBool,
    /// The thread that is calling `set` or `counts`; zero if there is none.
    caller: AtomicI32,
    is_gone: AtomicBool,
}

// SAFETY: (1) `this` is only handed back to the runtime, which declares that any thread may do so.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    fn new(number: u64, code: &c::Code, set: c::Set, functions: Box<[Id]>) -> Self {
        let words = functions.len().div_ceil(64);
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let counts = code.counts;
        COUNT_THEMSELVES.fetch_or(counts.is_some(), AcqRel);
        Self {
            number,
            set,
            counts,
            this: code.this,
            changed: zeros(words),
            counting: zeros(words),
            taken: zeros(if counts.is_some() { functions.len() } else { 0 }),
            told: functions.iter().map(|_| AtomicU8::new(0)).collect(),
            functions,
            has_news: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            caller: AtomicI32::new(0),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Notes that the function at that place shall get another state. Usable in a signal handler.
    pub(crate) fn has_changed(&self, place: u32) {
        self.changed[place as usize / 64].fetch_or(1 << (place % 64), AcqRel);
        self.has_news.store(true, Release);
        HAS_NEWS.store(true, Release);
    }

    /// Passes the states of its functions to the runtime. Returns for how many functions it
    /// refused. By the agent, with nothing locked: the runtime takes locks of its own.
    fn notify_runtime(&self) -> usize {
        if !self.has_news.swap(false, AcqRel) {
            return 0;
        }
        let mut wanted: [Vec<u32>; 3] = Default::default();
        for (word, changed) in self.changed.iter().enumerate() {
            let mut bits = changed.swap(0, AcqRel);
            while bits != 0 {
                let place = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let state = state_of(self.functions[place as usize].function());
                if self.told[place as usize].load(Relaxed) != state {
                    wanted[usize::from(state)].push(place);
                }
            }
        }
        let refused =
            (0u8..).zip(&wanted).filter(|(_, which)| !which.is_empty()).map(|(state, which)| {
                match self.pass_states(which, state) {
                    true => 0,
                    false => which.len(),
                }
            });
        let refused = refused.sum();
        self.is_settled.store(true, Release);
        refused
    }

    fn pass_states(&self, which: &[u32], state: u8) -> bool {
        self.caller.store(current().0, SeqCst);
        // SAFETY: (1) the runtime's own function, with the pointer that it has asked to be given,
        // as long as it has not unregistered the code, which waits for us; (2) places of its
        // functions.
        let done = !self.is_gone.load(SeqCst)
            && unsafe { (self.set)(self.this, which.as_ptr(), which.len(), state.into()) };
        self.caller.store(0, SeqCst);
        if done {
            for &place in which {
                self.told[place as usize].store(state, Relaxed);
                let is_counted = u64::from(state == COUNTED) << (place % 64);
                self.counting[place as usize / 64].fetch_or(is_counted, Relaxed);
            }
        }
        done
    }

    /// Takes what the runtime has counted since: functions, and their numbers of entries. By the
    /// agent, and by a thread that unregisters the code, with nothing locked.
    fn take_counts(&self) -> Vec<(Id, u64)> {
        let Some(counts) = self.counts else { return Vec::new() };
        let mut which = Vec::new();
        for (word, counting) in self.counting.iter().enumerate() {
            let mut bits = counting.load(Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let place = word * 64 + bit.trailing_zeros() as usize;
                bits ^= bit;
                which.push(place as u32);
                // A function that has been switched since is queried once more, now.
                if self.told[place].load(Relaxed) != COUNTED {
                    counting.fetch_and(!bit, Relaxed);
                }
            }
        }
        let mut entries = vec![0; which.len()];
        if which.is_empty() {
            return Vec::new();
        }
        // SAFETY: (1) the runtime's own function, as in `tell`; (2) places of its functions, and
        // room for a number for each.
        unsafe { counts(self.this, which.as_ptr(), which.len(), entries.as_mut_ptr()) };
        let new = which.iter().zip(entries).map(|(&place, entries)| {
            let before = self.taken[place as usize].fetch_max(entries, Relaxed);
            (self.functions[place as usize], entries.saturating_sub(before))
        });
        new.filter(|(_, new)| *new > 0).collect()
    }

    /// In a forked child: the thread that called is the parent's, and the child's agent passes all
    /// states anew.
    fn inherit(&self) {
        self.caller.store(0, Relaxed);
        (0..self.functions.len() as u32).for_each(|place| self.has_changed(place));
    }
}

/// The state in which entries are counted.
const COUNTED: u8 = 1;

/// What a function's probe does in its state.
fn state_of(function: &Function) -> u8 {
    match (modes::mode_is_sample(function), modes::mode_counts(function)) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

/// Passes the states of registered functions to their runtimes. Returns for how many functions they
/// refused. By the agent, which holds no lock.
pub(super) fn notify_runtimes() -> usize {
    if !HAS_NEWS.swap(false, AcqRel) {
        return 0;
    }
    let registrations = lock_registry().registrations.clone();
    registrations.into_iter().map(Registration::notify_runtime).sum()
}

/// What runtimes have counted themselves since. By the agent, which holds no lock.
pub(super) fn take_counts() -> Vec<(Id, u64)> {
    if !COUNT_THEMSELVES.load(Acquire) {
        return Vec::new();
    }
    let (registrations, mut counts) = {
        let mut registry = lock_registry();
        (registry.registrations.clone(), std::mem::take(&mut registry.counted))
    };
    for registration in registrations {
        registration.caller.store(current().0, SeqCst);
        if !registration.is_gone.load(SeqCst) {
            counts.extend(registration.take_counts());
        }
        registration.caller.store(0, SeqCst);
    }
    counts
}

/// The cost of counting an entry of the function at that address, if it is registered.
pub(super) fn counting_at(registry: &ModuleRegistry, at: CodeAddr) -> Option<Counting> {
    if registry.registrations.is_empty() {
        return None;
    }
    let (_, entry) = registry.entry_of(at)?;
    let known =
        registry.registrations.iter().find(|known| entry.is_of_registration(known.number))?;
    Some(if known.counts.is_some() { COUNTS_ITSELF } else { TELLS })
}

/// How many places in registered code are switched.
pub(super) fn probes(registry: &ModuleRegistry) -> u64 {
    let functions = registry.registrations.iter().map(|known| known.functions.len() as u64);
    u64::from(PROBES) * functions.sum::<u64>()
}

/// In a forked child.
pub(super) fn inherit(registry: &ModuleRegistry) {
    registry.registrations.iter().for_each(|registration| registration.inherit());
}

/// A registered function has a probe at its entry, and one for all its exits, switched together.
pub(super) const PROBES: u32 = 2;

/// Registers code. Returns its number.
///
/// # Safety
/// `code` is as `fastinst.h` asks for.
pub(crate) unsafe fn register(code: *const c::Code) -> Result<u64, String> {
    // SAFETY: (1) the caller.
    let told = unsafe { code.as_ref() }.ok_or("the pointer is null")?;
    if (told.size as usize) < size_of::<c::Code>() {
        return Err(format!("fastinst_code.size is {}: set it to its sizeof", told.size));
    }
    let set = told.set.ok_or("the function pointer that switches probes (set) is null")?;
    // SAFETY: (1) the caller.
    let functions = unsafe { functions_of(told)? };
    if !target::is_running() {
        return Err("no profiler is running in this process: preload libfastinst.so".to_owned());
    }
    target::begin_in_child();
    // SAFETY: (1) the caller.
    let name = unsafe { text(told.module) }.unwrap_or_else(|| "registered code".to_owned());
    let number = NUMBERS.fetch_add(1, Relaxed);
    let registration = install(number, told, set, &name, functions)?;
    target::saw_new_function();
    target::start_agent()?;
    agent::call();
    let is_settled = || registration.is_settled.load(Acquire) || !agent::is_there();
    agent::await_until(PATIENCE, is_settled);
    Ok(number)
}

/// The functions as the runtime lists them, with their places in that list.
///
/// # Safety
/// As for [`register`].
unsafe fn functions_of(code: &c::Code) -> Result<Vec<(registered::Function, u32)>, String> {
    if code.functions.is_null() || code.count == 0 {
        return Err("it has no functions".to_owned());
    }
    // SAFETY: (1) there is one at least.
    let stride = unsafe { (*code.functions).size } as usize;
    if stride < size_of::<c::Function>() || !stride.is_multiple_of(align_of::<c::Function>()) {
        return Err(format!("fastinst_code_function.size is {stride}: set it to its sizeof"));
    }
    let mut functions = Vec::with_capacity(code.count.min(functions::MOST));
    for place in 0..code.count.min(functions::MOST + 1) {
        // SAFETY: (1) as many as `count` says, each as long as the first says.
        let function = unsafe { &*code.functions.byte_add(place * stride).cast::<c::Function>() };
        // SAFETY: (1) the caller.
        let (name, file) = unsafe { (text(function.name), text(function.file)) };
        let name = name.unwrap_or_else(|| format!("function {place}"));
        let start = CodeAddr::new(function.code.addr());
        let end = function.code.addr().checked_add(function.length);
        let Some(end) = end.filter(|_| start.get() > 0xffff && function.length > 0) else {
            return Err(format!("{name} has no code"));
        };
        let line = (function.line != 0).then_some(function.line);
        let span = start..CodeAddr::new(end);
        let id = FuncId(0);
        functions.push((registered::Function { span, name, file, line, start, id }, place as u32));
    }
    functions.sort_by_key(|(function, _)| function.span.start);
    match functions.windows(2).find(|pair| pair[0].0.span.end > pair[1].0.span.start) {
        Some(pair) => Err(format!("{} and {} overlap", pair[0].0.name, pair[1].0.name)),
        None => Ok(functions),
    }
}

/// A string of the program.
///
/// # Safety
/// Null, or a C string.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: (1) the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Adds the functions and their module.
fn install(
    number: u64,
    told: &c::Code,
    set: c::Set,
    name: &str,
    functions: Vec<(registered::Function, u32)>,
) -> Result<&'static Registration, String> {
    let (mut functions, places): (Vec<_>, Vec<u32>) = functions.into_iter().unzip();
    let span = functions[0].span.start..functions[functions.len() - 1].span.end;
    let mut registry = lock_registry();
    if let Some(other) = registry.entries.iter().find(|entry| lies_in(entry, &span)) {
        return Err(format!("{name} overlaps {}", other.module.name));
    }
    let first = Id(functions::count());
    let mut ids = vec![Id(0); places.len()];
    for (function, &place) in functions.iter_mut().zip(&places) {
        let Some(id) = functions::add(function.span.start.get() as u64) else {
            functions::forget(&span, first);
            return Err(format!("more than {} functions", functions::MOST));
        };
        (ids[place as usize], function.id) = (id, FuncId(id.0));
    }
    let registration = Registration::new(number, told, set, ids.into());
    let registration: &'static Registration = Box::leak(Box::new(registration));
    let site_lists: &'static [SiteList] = Box::leak(
        (0..places.len() as u32)
            .map(|place| SiteList::registered(registration, place))
            .collect::<Box<[_]>>(),
    );
    for (id, list) in registration.functions.iter().zip(site_lists) {
        id.function().sites.store(std::ptr::from_ref(list).cast_mut(), Release);
    }
    (0..places.len() as u32).for_each(|place| registration.has_changed(place));
    let registered = Registered::new(number, None, functions);
    registry.entries.push(ModuleEntry::of_registered(module(Path::new(name), registered), first));
    registry.registrations.push(registration);
    Ok(registration)
}

/// A module without a file.
fn module(path: &Path, registered: Registered) -> Module {
    let (name, span) = (path.file_name().unwrap_or(path.as_os_str()), registered.span());
    Module {
        name: name.to_string_lossy().into_owned(),
        path: path.to_owned(),
        bias: span.start.get(),
        span,
        is_loaded: true,
        loaded: None,
        is_static: false,
        registered: Some(Arc::new(registered)),
        points: None,
    }
}

/// Whether code lies where a module does.
fn lies_in(entry: &ModuleEntry, span: &Range<CodeAddr>) -> bool {
    !entry.gone && entry.module.span.start < span.end && span.start < entry.module.span.end
}

/// Adds a variant of a function: code of it that lies at another address. Variants side by side are
/// one module: with less than a whole page between them, no other code lies there.
pub(crate) fn also(number: u64, place: u32, code: usize, length: usize) -> Result<(), String> {
    let end = code.checked_add(length).filter(|_| code > 0xffff && length > 0);
    let span = CodeAddr::new(code)..CodeAddr::new(end.ok_or("the variant has no code")?);
    let mut registry = lock_registry();
    let registration = registry.registrations.iter().find(|known| known.number == number);
    let registration = registration.ok_or_else(|| format!("unknown registration {number}"))?;
    let id = registration.functions.get(place as usize);
    let id = id.ok_or_else(|| format!("registration {number} has no function {place}"))?;
    let start = id.start();
    let home = registry.entries.iter().position(|entry| entry.is_of_registration(number));
    let home = home.ok_or_else(|| format!("unknown registration {number}"))?;
    let known = registry.entries[home].module.registered.as_ref();
    let known = known.and_then(|registered| registered.at(start));
    let known = known.ok_or_else(|| format!("registration {number} has no function {place}"))?;
    let is_variants = |entry: &ModuleEntry| {
        let registered = entry.module.registered.as_ref();
        !entry.gone && registered.is_some_and(|registered| registered.home == Some(home))
    };
    let elsewhere = |entry: &&ModuleEntry| !is_variants(entry) && lies_in(entry, &span);
    if let Some(other) = registry.entries.iter().find(elsewhere) {
        return Err(format!("a variant of {} overlaps {}", known.name, other.module.name));
    }
    let variant = registered::Function { span: span.clone(), ..known };
    let is_beside = |entry: &&mut ModuleEntry| {
        let of = &entry.module.span;
        is_variants(entry)
            && of.start.align_down(PAGE).get() <= span.end.get().next_multiple_of(PAGE)
            && span.start.align_down(PAGE).get() <= of.end.get().next_multiple_of(PAGE)
    };
    let path = registry.entries[home].module.path.clone();
    match registry.entries.iter_mut().find(is_beside) {
        Some(entry) => {
            let Some(registered) = entry.module.registered.clone() else { return Ok(()) };
            registered.add(variant)?;
            entry.module.span = registered.span();
        }
        None => {
            let registered = Registered::new(number, Some(home), vec![variant]);
            let module = module(&path, registered);
            registry.entries.push(ModuleEntry::of_registered(module, Id(functions::count())));
        }
    }
    drop(registry);
    // The agent informs the sampling clock where they lie.
    target::saw_new_function();
    Ok(())
}

/// Unregisters code. What the profile has of its functions is kept.
pub(crate) fn unregister(number: u64) -> Result<(), String> {
    let registration = {
        let mut registry = lock_registry();
        let at = registry.registrations.iter().position(|known| known.number == number);
        let at = at.ok_or_else(|| format!("unknown registration {number}"))?;
        if registry.registrations[at].caller.load(SeqCst) == current().0 {
            return Err("the function that unregisters it is switching it".to_owned());
        }
        registry.registrations.remove(at)
    };
    registration.is_gone.store(true, SeqCst);
    let is_left = agent::await_until(LONG_PATIENCE, || registration.caller.load(SeqCst) == 0);
    registration.functions.iter().for_each(|&id| modes::allow(id, false));
    let counts = if is_left { registration.take_counts() } else { Vec::new() };
    {
        let mut registry = lock_registry();
        registry.counted.extend(counts);
        unload(&mut registry, number);
    }
    target::saw_new_function();
    // When this returns, threads whose event began earlier have announced it.
    let _ = membarrier::sync_core();
    let this = threads::observed().map(std::ptr::from_ref);
    let others = || threads::all().filter(|block| Some(std::ptr::from_ref(*block)) != this);
    let is_empty = others().all(|block| agent::await_until(PATIENCE, || !event::is_in_code(block)));
    match is_left && is_empty {
        true => Ok(()),
        false => Err("a thread is still executing it".to_owned()),
    }
}

fn unload(registry: &mut ModuleRegistry, number: u64) {
    let all = registry.entries.iter_mut().filter(|entry| entry.is_of_registration(number));
    all.for_each(ModuleEntry::mark_registered_unloaded);
}

/// The number of a function's probe.
pub(crate) fn probe(number: u64, function: u32) -> Option<u32> {
    let registry = lock_registry();
    let registration = registry.registrations.iter().find(|known| known.number == number)?;
    registration.functions.get(function as usize).map(|id| id.0)
}

/// A probe's function, if the number can be one.
pub(crate) fn of_probe(probe: u32) -> Option<Id> {
    (probe > 0 && probe < functions::count()).then_some(Id(probe))
}
