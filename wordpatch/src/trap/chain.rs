//! The program's handlers that the trap handler replaced, and how signals are passed on to them.
//!
//! | replaced action | a trap of the program | a signal that a process sent |
//! |---|---|---|
//! | `SIG_DFL` | the process dies of SIGTRAP | the process dies of SIGTRAP |
//! | `SIG_IGN` | the process dies: a trap cannot be ignored | nothing |
//! | a handler | it is called, under its own mask | it is called, under its own mask |
//!
//! The program may install a handler over the crate's, which passes signals on to the crate's; and
//! the crate may install its handler over that one again. So there may be several replaced actions.
//! A signal that a program's handler passes back goes to the action that was replaced before that
//! handler's. The signal's context records that action: a handler need not return, it may leave by
//! `siglongjmp`.

use super::TrapError;
use crate::lock::Lock;
use crate::os::spare_stacks::Onward;
use crate::os::{signals, threads};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// An action that the crate's handler replaced.
pub(super) struct Before {
    action: libc::sigaction,
    /// Whether its handler was to run once only, and has run.
    spent: AtomicBool,
    older: Option<&'static Before>,
}

/// The action that was replaced last. Actions are never freed, so a handler never reads a freed
/// one.
static NEWEST: AtomicPtr<Before> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) static INSTALLING: Lock<()> = Lock::new(());

fn newest() -> Option<&'static Before> {
    // SAFETY: (1) null, or leaked in `install` and never freed; (2) Acquire pairs with the Release
    // there.
    unsafe { NEWEST.load(Ordering::Acquire).as_ref() }
}

/// Installs `handler` over the current one, unless it is installed already.
pub(super) fn install(handler: signals::Handler) -> Result<(), TrapError> {
    let _one_at_a_time = INSTALLING.lock();
    if is_installed(handler)? {
        return Ok(());
    }
    let action = signals::action(libc::SIGTRAP)?;
    // The action is published before the handler is installed: a trap may happen at once.
    let before = Before { action, spent: AtomicBool::new(false), older: newest() };
    NEWEST.store(Box::into_raw(Box::new(before)), Ordering::Release);
    // SAFETY: (1) `handler` is `on_trap`, which does only what a handler may. SA_NODEFER: the
    // instruction that is emulated, and the program's own handler, may trap again.
    unsafe { signals::install(libc::SIGTRAP, handler, libc::SA_NODEFER | libc::SA_RESTART)? };
    Ok(())
}

/// Whether `handler` is the one that the kernel calls.
pub(super) fn is_installed(handler: signals::Handler) -> Result<bool, TrapError> {
    Ok(signals::action(libc::SIGTRAP)?.sa_sigaction == handler as *const () as usize)
}

/// The field of a signal's context that records which action's handler passed the signal on. The
/// kernel writes zero to it in every context that it makes, and never reads it.
fn mark_of(context: *mut libc::c_void) -> *mut *mut libc::ucontext_t {
    // SAFETY: (1) the kernel's context, valid during the handler.
    unsafe { &raw mut (*context.cast::<libc::ucontext_t>()).uc_link }
}

pub(super) fn mark(context: *mut libc::c_void) -> *mut libc::ucontext_t {
    // SAFETY: as above.
    unsafe { mark_of(context).read() }
}

pub(super) fn set_mark(context: *mut libc::c_void, came_from: *mut libc::ucontext_t) {
    // SAFETY: as above: the field is for the handler of the signal.
    unsafe { mark_of(context).write(came_from) };
}

/// The replaced action whose handler is to be called: the latest, or the one before the action
/// whose handler has passed this signal back. The context is marked with it. If there is no
/// handler, this does what the kernel would have done.
pub(super) fn next(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) -> Option<&'static Before> {
    let before = older_than(mark(context).cast());
    // SAFETY: (1) the kernel's information, valid during the handler.
    let is_fault = is_fault(unsafe { (*info).si_code });
    match before.map(|before| (before, before.action.sa_sigaction)) {
        Some((_, libc::SIG_IGN)) if !is_fault => None,
        None | Some((_, libc::SIG_DFL | libc::SIG_IGN)) => die(signal),
        Some((before, _))
            if before.action.sa_flags & libc::SA_RESETHAND != 0
                && before.spent.swap(true, Ordering::Relaxed) =>
        {
            die(signal)
        }
        Some((before, _)) => {
            set_mark(context, std::ptr::from_ref(before).cast_mut().cast());
            Some(before)
        }
    }
}

/// The action for a signal that the handler of `passed`, or the kernel, has delivered to the
/// crate's handler.
fn older_than(passed: *const Before) -> Option<&'static Before> {
    let mut all = std::iter::successors(newest(), |before| before.older);
    match all.find(|&before| std::ptr::eq(before, passed)) {
        Some(before) => before.older,
        None => newest(),
    }
}

/// Whether the kernel raised the signal because of what the thread did. Such a signal cannot be
/// ignored or blocked.
fn is_fault(code: libc::c_int) -> bool {
    code > 0
}

/// The signals that are blocked in that action's handler: those that the thread had blocked, and
/// those of the action's mask.
fn mask(before: &Before, context: *mut libc::c_void) -> u64 {
    // SAFETY: (1) the kernel's context, valid during the handler.
    let interrupted = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_sigmask };
    signals::word(interrupted) | signals::word(&before.action.sa_mask)
}

/// The handler and the mask with which the kernel would have called that action's handler.
pub(super) fn onward(before: &Before, context: *mut libc::c_void) -> Onward {
    Onward { handler: before.action.sa_sigaction, mask: mask(before, context) }
}

/// Calls that handler here.
pub(super) fn call(
    before: &Before,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let ours = signals::set_mask(&signals::set(mask(before, context)));
    // SAFETY: (1) the program has passed this address to sigaction as a handler; a handler with
    // fewer parameters does not read the other arguments.
    unsafe {
        std::mem::transmute::<usize, signals::Handler>(before.action.sa_sigaction)(
            signal, info, context,
        );
    };
    signals::set_mask(&ours);
}

/// Ends the process by the signal, as it would have ended without the trap handler.
fn die(signal: libc::c_int) -> Option<&'static Before> {
    let default = libc::sigaction {
        sa_sigaction: libc::SIG_DFL,
        sa_mask: signals::empty(),
        sa_flags: 0,
        sa_restorer: None,
    };
    // SAFETY: (1) the default action is no handler.
    let _ = unsafe { signals::replace(signal, &default) };
    signals::set_mask(&signals::empty());
    let _ = signals::send(threads::current(), signal);
    None
}
