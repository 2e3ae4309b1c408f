//! The loader, which notifies debuggers: whenever modules are complete, or are about to be
//! unloaded, it calls a function that does nothing (`r_brk`, link.h), where debuggers set a
//! breakpoint.
//!
//! The profiler sets no breakpoint. A function that does nothing is a `ret`, and a tail jump that
//! is off looks like that. So it is adopted as a site, redirected to [`changed`], and switched on.
//! It is called by the thread that loads, which holds the loader: a new module is mapped whole, its
//! constructors have not run, and no code has its addresses. So the module is installed with no
//! thread inside.
//!
//! It also reports that modules are about to be unloaded, and that they are gone. Between the two
//! no site of a module that may be unloaded is touched ([`unloading`]). An attached profiler has no
//! other way to learn that: so the site is switched on before modules are installed, and off after
//! their code is restored.
//!
//! This is done when the program is about to load its first library, or when the profiler attaches.
//! If it is not possible there (another loader, a breakpoint, no room after the `ret`), [first
//! calls wait](super::load_handshake), and an attached profiler leaves modules alone that may be
//! unloaded.
//!
//! # Safety
//!
//! This module reads what the loader publishes for debuggers, and is called by the loader.
#![allow(unsafe_code)]

use super::{agent, load_handshake, registry, target, unloading};
use callpatch::{CallSite, Form, Islands, Retarget, Role, Survey, Switch, x86};
use goblin::elf64::dynamic::{DT_NULL, DT_STRSZ, DT_STRTAB, DT_TEXTREL, Dyn};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::time::Duration;
use wordpatch::os;
use wordpatch::os::membarrier;
use wordpatch::os::pages::PAGE;
use wordpatch::{CodeAddr, Policy};

/// What the loader publishes (`struct r_debug`, link.h).
#[repr(C)]
struct Shown {
    version: i32,
    map: *mut Link,
    brk: usize,
    state: i32,
    base: usize,
}

/// All listed modules are complete.
const CONSISTENT: i32 = 0;
/// Some modules are about to be unloaded.
const DELETE: i32 = 2;

/// A module, as the loader lists it (`struct link_map`, link.h).
#[repr(C)]
struct Link {
    bias: usize,
    name: *const libc::c_char,
    dynamic: *const Dyn,
    next: *mut Link,
}

/// Where the loader publishes it; null if nowhere.
static SHOWN: AtomicPtr<Shown> = AtomicPtr::new(std::ptr::null_mut());
/// The latest module that was looked at. Written by the thread that has the loader.
static LATEST: AtomicPtr<Link> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the loader is unloading modules.
static DELETING: AtomicBool = AtomicBool::new(false);
/// Whether it does so by itself: modules that could not be loaded completely.
static UNASKED: AtomicBool = AtomicBool::new(false);

/// The site that leads from the loader to the profiler.
struct Ear {
    site: CallSite,
    /// Where it leads, and where its padding would.
    stub: CodeAddr,
    home: CodeAddr,
    _islands: Islands,
}

/// Finds where the loader publishes its state, while it starts the program.
pub(crate) fn find_published_state() {
    // SAFETY: (1) a name; the loader's own search.
    let shown: *mut Shown = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) }.cast();
    SHOWN.store(shown, Release);
}

/// Never freed, once it was made.
static EAR: AtomicPtr<Ear> = AtomicPtr::new(std::ptr::null_mut());

fn ear() -> Option<&'static Ear> {
    // SAFETY: (1) null, or made by `listen` and never freed.
    unsafe { EAR.load(Acquire).as_ref() }
}

/// Has the loader call `changed` from the first call of this on.
pub(crate) fn listen(policy: &Policy) {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if !ASKED.swap(true, AcqRel)
        && let Some(ear) = Ear::make(policy)
    {
        EAR.store(Box::into_raw(Box::new(ear)), Release);
    }
}

/// Whether modules that call no hooks may get probes, too.
static LISTENS_FOR_ALL: AtomicBool = AtomicBool::new(false);

/// Sets whether modules that call no hooks get probes when they are loaded.
pub(super) fn listen_for_all_modules(all: bool) {
    LISTENS_FOR_ALL.store(all, Release);
}

/// A further function that is called when modules were loaded. Set once.
static LISTENER: OnceLock<fn()> = OnceLock::new();

/// Has the thread that loads modules call `listener`, before their code runs.
pub(crate) fn announce(policy: &Policy, listener: fn()) {
    listen(policy);
    let _ = LISTENER.set(listener);
}

/// Whether modules may have sites of an attached profiler, so that it has to hear of their
/// unloading. Cleared while the registry is locked.
static HAS_ATTACHED_SITES: AtomicBool = AtomicBool::new(false);

/// Whether the loader reports modules that it unloads.
pub(super) fn listens() -> bool {
    HAS_ATTACHED_SITES.load(Acquire) && ear().is_some()
}

/// Has the loader call an attached profiler. Returns when no thread is unloading modules that it
/// did not announce. By the agent's thread.
pub(super) fn begin_listening(policy: &Policy) -> Result<(), String> {
    /// The loader unmaps what it unloads, and runs no code of the program meanwhile.
    const PATIENCE: Duration = Duration::from_secs(5);
    HAS_ATTACHED_SITES.store(true, Release);
    listen(policy);
    let Some(ear) = ear() else { return Ok(()) };
    if ear.site.destination().address() != ear.stub {
        // SAFETY: (1) the loader's code, which is never unloaded.
        unsafe { wordpatch::unlock_again(&ear.page()) }.map_err(|error| failed(&error))?;
        ear.lead_to(ear.stub)?;
    }
    ear.site.set(Switch::On).map_err(|error| failed(&error))?;
    // From here on no thread executes what was there before.
    let _ = membarrier::sync_core();
    let is_deleting = || {
        let shown = SHOWN.load(Acquire);
        // SAFETY: (1) null, or what the loader shows, for as long as the process lives.
        !shown.is_null() && unsafe { std::ptr::read_volatile(&raw const (*shown).state) } == DELETE
    };
    // Those that were announced are waited for elsewhere.
    let is_done = || !is_deleting() || DELETING.load(Acquire);
    match agent::await_until(PATIENCE, is_done) {
        true => Ok(()),
        false => Err("a thread is unloading a library: try again".to_owned()),
    }
}

/// An attached profiler has restored all code. By the thread that holds the registry.
pub(super) fn attached_sites_are_gone() {
    HAS_ATTACHED_SITES.store(false, Release);
}

/// Restores the loader's code. By the agent's thread.
pub(super) fn end_listening() -> Result<(), String> {
    let Some(ear) = ear() else { return Ok(()) };
    // The loader's code may have been locked with that of all modules.
    // SAFETY: (1) the loader's code, which is never unloaded.
    unsafe { wordpatch::unlock_again(&ear.page()) }.map_err(|error| failed(&error))?;
    ear.site.set(Switch::Off).map_err(|error| failed(&error))?;
    ear.lead_to(ear.home)?;
    // SAFETY: (1) the loader's code, which is never unloaded; (2) it is off, and this thread is the
    // one that stores there.
    unsafe { wordpatch::lock_again(&ear.page()) }.map_err(|error| failed(&error))
}

fn failed(error: &dyn std::fmt::Display) -> String {
    format!("the loader's code: {error}")
}

impl Ear {
    fn make(policy: &Policy) -> Option<Self> {
        let shown = SHOWN.load(Acquire);
        // SAFETY: (1) null, or what the loader shows, for as long as the process lives.
        let (brk, base) = unsafe { shown.as_ref().map(|shown| (shown.brk, shown.base))? };
        let (base, ret) = (CodeAddr::new(base), empty_function(CodeAddr::new(brk))?);
        let mut survey = Survey::new(*policy).ok()?;
        let mut islands = Islands::near(base..ret.offset(16)).ok()?;
        let stub = islands
            .stub(14, |_| {
                x86::far_jump(CodeAddr::new(changed as extern "C" fn() as usize)).to_vec()
            })
            .ok()?;
        // SAFETY: (1) the loader is never unloaded; (2) its function begins there, or behind its
        // `endbr64`; what follows the `ret` is never executed; (3) debuggers excepted, no code
        // writes there; (4) off it is what it was; (5) we are called as a function without
        // arguments, and are never unloaded, as the loader preloaded us.
        let mut site = unsafe { survey.adopt_off(ret, Form::Jump, Role::TailJump).ok()? };
        let home = site.destination().address();
        let mut batch = Retarget::new(*policy);
        // SAFETY: (1) see (5) above; (2) see (1).
        unsafe { batch.push(&mut site, stub.address()).ok()? };
        batch.commit().ok()?;
        site.set(Switch::On).ok()?;
        Some(Self { site, stub: stub.address(), home, _islands: islands })
    }

    /// The page of its code.
    fn page(&self) -> Range<CodeAddr> {
        let start = self.site.address();
        start.align_down(PAGE)..start.offset(Form::Jump.len() as isize)
    }

    fn lead_to(&self, to: CodeAddr) -> Result<(), String> {
        let mut batch = Retarget::new(*target::policy());
        // SAFETY: (1) our function, or what is never jumped to as it stays off; (2) the loader is
        // never unloaded; (3) no other thread switches it.
        unsafe { batch.push_shared(&self.site, to) }.map_err(|error| failed(&error))?;
        batch.commit().map(drop).map_err(|error| failed(&error))
    }
}

/// The `ret` of a function that does nothing, if there is room after it for the displacement of a
/// jump.
fn empty_function(start: CodeAddr) -> Option<CodeAddr> {
    const ROOM: usize = 16;
    // SAFETY: (1) functions begin at multiples of sixteen, as is asked; so all of these bytes are
    // on a page of code.
    let code: [u8; ROOM] = (start.get() != 0 && start.get().is_multiple_of(ROOM))
        .then(|| unsafe { std::ptr::read_volatile(start.get() as *const [u8; ROOM]) })?;
    let mut decoder = Decoder::with_ip(64, &code, start.get() as u64, DecoderOptions::NONE);
    let first = decoder.decode();
    let ret = if first.mnemonic() == Mnemonic::Endbr64 { decoder.decode() } else { first };
    if ret.mnemonic() != Mnemonic::Ret || ret.len() != 1 {
        return None;
    }
    let needed = ret.ip() + Form::Jump.len() as u64;
    while decoder.ip() < needed {
        let is_padding = |mnemonic| matches!(mnemonic, Mnemonic::Nop | Mnemonic::Int3);
        if !decoder.can_decode() || !is_padding(decoder.decode().mnemonic()) {
            return None;
        }
    }
    Some(CodeAddr::new(ret.ip() as usize))
}

/// Whether modules may have sites that this process touches. An attached profiler is no longer
/// active when it restores them, and leaves forked children alone.
fn has_sites() -> bool {
    target::is_observed()
        || LISTENER.get().is_some()
        || HAS_ATTACHED_SITES.load(Acquire) && target::is_own_process()
}

fn show_new_modules(first: *mut Link) {
    let (is_observed, listener) = (target::is_observed(), LISTENER.get());
    if !is_observed && listener.is_none() || !has_news(first) {
        return;
    }
    if is_observed {
        load_handshake::install_now();
    }
    if let Some(listener) = listener {
        listener();
    }
}

/// Called by the loader, on the thread that holds it.
extern "C" fn changed() {
    if !has_sites() {
        return;
    }
    let errno = os::errno();
    // SAFETY: (1) set before the loader was led here.
    let shown = unsafe { &*SHOWN.load(Acquire) };
    match shown.state {
        CONSISTENT if DELETING.swap(false, AcqRel) => {
            // Before other modules can be mapped there.
            if UNASKED.swap(false, AcqRel) {
                unloading::end_unloading();
            } else {
                registry::lock_registry().mark_unloaded();
            }
        }
        CONSISTENT => show_new_modules(shown.map),
        DELETE => {
            LATEST.store(std::ptr::null_mut(), Relaxed);
            // Where the program unloads, the interposed `dlclose` has done this already.
            if !DELETING.swap(true, AcqRel) && !unloading::is_by_caller() {
                let begins = unloading::begin_unloading_if(has_sites);
                UNASKED.store(begins, Release);
                DELETING.store(begins, Release);
            }
        }
        _ => {}
    }
    os::set_errno(errno);
}

/// Whether the list has modules that may get probes and were not loaded before.
fn has_news(first: *mut Link) -> bool {
    let mut links = Vec::new();
    let mut next = first;
    // SAFETY: (1) the loader's list, which only the calling thread changes.
    while let Some(link) = unsafe { next.as_ref() } {
        links.push(link);
        next = link.next;
    }
    let latest = LATEST.load(Relaxed).cast_const();
    let known = links.iter().position(|&link| std::ptr::eq(link, latest)).map_or(0, |at| at + 1);
    LATEST.store(
        links.last().map_or(std::ptr::null_mut(), |&link| std::ptr::from_ref(link).cast_mut()),
        Relaxed,
    );
    let new = &links[known..];
    !new.is_empty() && LISTENS_FOR_ALL.load(Acquire) || new.iter().any(|link| link.calls_hooks())
}

impl Link {
    /// Whether the module names the hooks, is not installed yet, and is complete: a module with
    /// relocations in its code is not.
    fn calls_hooks(&self) -> bool {
        if self.dynamic.is_null() || registry::is_installed(self.dynamic.addr() as u64) {
            return false;
        }
        let (mut names, mut len, mut entry) = (0, 0, self.dynamic);
        loop {
            // SAFETY: (1) the module's dynamic section, which ends with such an entry.
            let Dyn { d_tag, d_val } = unsafe { *entry };
            match d_tag {
                DT_NULL => break,
                DT_STRTAB => names = d_val as usize,
                DT_STRSZ => len = d_val as usize,
                DT_TEXTREL => return false,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        // The loader has replaced it by an address, except where the section cannot be written.
        let names = if names < self.bias { names.wrapping_add(self.bias) } else { names };
        if names == 0 {
            return false;
        }
        // SAFETY: (1) the module's table of names, which is mapped and not written.
        let names = unsafe { std::slice::from_raw_parts(names as *const u8, len) };
        memchr::memmem::find(names, b"__cyg_profile_func_").is_some()
    }
}
