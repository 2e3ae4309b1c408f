//! The C interface: `include/callpatch.h`, one to one.
//!
//! A C caller names a call by its address. The first function that names it adopts it, under the
//! policy set in the environment (the keys of `wordpatch`), and keeps it until
//! [`callpatch_forget`].
//!
//! # Safety
//!
//! This module exists because C has no lifetimes. Every function is safe if its caller keeps the
//! promises that the header lists.
#![allow(unsafe_code)]

use crate::error::{AdoptError, RetargetError, SetError};
use crate::site::CallSite;
use crate::survey::Survey;
use crate::x86::{Form, Role, Switch};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock, PoisonError, RwLock};
use wordpatch::{CodeAddr, Config, Policy};

/// The calls that C callers have named. The lock is taken for reading to switch a call, and for
/// writing to adopt, retarget and forget one.
type Registry = RwLock<BTreeMap<CodeAddr, CallSite>>;

/// Null before the first use. Null in a forked child, too: a thread that the child does not have
/// may have held the lock. The child adopts the sites again, in the state that they are in.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The reasons for which a call fails.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Config(&'static str),
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error(transparent)]
    Set(#[from] SetError),
    #[error(transparent)]
    Retarget(#[from] RetargetError),
}

/// Makes the call at `address` lead to `offset` bytes after its end, and switches it on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callpatch_activate_call(address: *mut c_void, offset: i32) -> bool {
    let at = CodeAddr::from_ptr(address);
    answer(|| {
        let leads_there = |site: &CallSite| {
            site.is_settled() && site.destination().address() == site.form().destination(at, offset)
        };
        // SAFETY: (1) the caller.
        let switched =
            unsafe { with_site(at, |site| leads_there(site).then(|| site.set(Switch::On)))? };
        if let Some(result) = switched {
            return Ok(result?);
        }
        let mut sites = registry().write().unwrap_or_else(PoisonError::into_inner);
        let Some(site) = sites.get_mut(&at) else {
            return Err(SetError::Unsettled { address: at }.into());
        };
        let target = site.form().destination(at, offset);
        // SAFETY: (1) and (2) the caller.
        unsafe { site.retarget(target, policy()?)? };
        Ok(site.set(Switch::On)?)
    })
}

/// Switches the call at `address` off.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callpatch_deactivate_call(address: *mut c_void) -> bool {
    // SAFETY: (1) the caller.
    answer(|| unsafe { Ok(with_site(CodeAddr::from_ptr(address), |site| site.set(Switch::Off))??) })
}

/// Forgets the calls in `[address, address + len)`: their code is about to be unmapped.
#[unsafe(no_mangle)]
pub extern "C" fn callpatch_forget(address: *mut c_void, len: usize) {
    let _ = catch_unwind(|| {
        let start = address as usize;
        let range = CodeAddr::new(start)..CodeAddr::new(start.saturating_add(len));
        registry()
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|at, _| !range.contains(at));
    });
}

/// The error message, in one line, of the latest function that failed on this thread; empty before
/// the first failure. Valid until the next failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn callpatch_last_error() -> *const c_char {
    // After the thread's local data is destroyed, no error can be stored.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs `act`, keeps its failure for [`callpatch_last_error`], and never unwinds into C.
fn answer(act: impl FnOnce() -> Result<(), Failure>) -> bool {
    let failure = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => return true,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => "callpatch broke one of its own invariants; please report this".to_owned(),
    };
    let text = CString::new(failure.replace('\0', " ")).unwrap_or_default();
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    false
}

fn registry() -> &'static Registry {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: (1) the function stores one pointer.
        unsafe { libc::pthread_atfork(None, None, Some(start_anew)) };
    });
    // SAFETY: (1) null, or leaked below.
    if let Some(registry) = unsafe { REGISTRY.load(Ordering::Acquire).as_ref() } {
        return registry;
    }
    let fresh = Box::into_raw(Box::default());
    match REGISTRY.compare_exchange(
        std::ptr::null_mut(),
        fresh,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        // SAFETY: (1) leaked above and never freed.
        Ok(_) => unsafe { &*fresh },
        Err(other) => {
            // SAFETY: (1) made above, and no other thread has its address; (2) a registry that
            // another thread has put there is leaked.
            unsafe {
                drop(Box::from_raw(fresh));
                &*other
            }
        }
    }
}

/// Runs in a forked child.
extern "C" fn start_anew() {
    REGISTRY.store(std::ptr::null_mut(), Ordering::Release);
}

/// Calls `act` with the site at `at`, and adopts the site first if it is new.
///
/// # Safety
/// As the header says.
unsafe fn with_site<T>(at: CodeAddr, act: impl Fn(&CallSite) -> T) -> Result<T, Failure> {
    let known = registry().read().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = known.get(&at) {
        return Ok(act(site));
    }
    drop(known);
    let mut sites = registry().write().unwrap_or_else(PoisonError::into_inner);
    let site = match sites.entry(at) {
        std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
        // SAFETY: (1) the caller.
        std::collections::btree_map::Entry::Vacant(new) => new.insert(unsafe { adopt(at)? }),
    };
    Ok(act(site))
}

/// Adopts a call that is on, or one that is off.
///
/// # Safety
/// As the header says.
unsafe fn adopt(at: CodeAddr) -> Result<CallSite, Failure> {
    let mut survey = Survey::new(*policy()?)?;
    // SAFETY: (1) the caller, which also guarantees that the site may be switched, whatever its
    // target.
    let refused = match unsafe { survey.adopt(at, Role::Call, |_| true) } {
        Ok(site) => return Ok(site),
        Err(refused) => refused,
    };
    let calls = [Form::Call, Form::PrefixedCall, Form::CallMemory];
    // SAFETY: (1) the caller: the bytes are the off state of a former call.
    let off =
        calls.into_iter().find_map(|form| unsafe { survey.adopt_off(at, form, Role::Call) }.ok());
    off.ok_or(refused.into())
}

fn policy() -> Result<&'static Policy, Failure> {
    static POLICY: OnceLock<Result<Policy, String>> = OnceLock::new();
    let policy = POLICY.get_or_init(|| {
        let policy = Config::from_env().and_then(|config| config.policy());
        policy.map_err(|error| error.to_string())
    });
    policy.as_ref().map_err(|error| Failure::Config(error))
}
