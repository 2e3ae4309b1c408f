//! The handler before ours, and what passing a signal on to it means.
//!
//! | before us | a trap of the program's own | a signal that somebody sent |
//! |---|---|---|
//! | `SIG_DFL` | the process dies of SIGTRAP | the process dies of SIGTRAP |
//! | `SIG_IGN` | the process dies: a trap cannot be ignored | nothing |
//! | a handler | it is called, under its own mask | it is called, under its own mask |

use super::TrapError;
use crate::lock::Lock;
use crate::os::{signals, threads};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The action that ours replaced. Each one ever replaced stays, so that a handler never reads one that is gone.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) static INSTALLING: Lock<()> = Lock::new(());

thread_local! {
    /// The signal that this thread is passing on, so that a program's handler which passes it back to us gets no second round.
    static PASSING: Cell<*const libc::siginfo_t> = const { Cell::new(std::ptr::null()) };
}

/// Puts `handler` in front of whatever is installed, unless it is there already.
pub(super) fn install(handler: signals::Handler) -> Result<(), TrapError> {
    let _one_at_a_time = INSTALLING.lock();
    if is_installed(handler)? {
        return Ok(());
    }
    let before = signals::action(libc::SIGTRAP)?;
    // Known before the handler is: a trap may come at once.
    BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    // SAFETY: (1) `handler` is `on_trap`, which does only what a handler may. SA_NODEFER: what we carry out, and the program's
    // own handler, may trap again.
    unsafe { signals::install(libc::SIGTRAP, handler, libc::SA_NODEFER | libc::SA_RESTART)? };
    Ok(())
}

/// Whether `handler` is the one that the kernel calls.
pub(super) fn is_installed(handler: signals::Handler) -> Result<bool, TrapError> {
    Ok(signals::action(libc::SIGTRAP)?.sa_sigaction == handler as *const () as usize)
}

/// Does what the handler before ours would have done.
pub(super) fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: (1) null or an action that lives for ever, complete since the Release in `install`.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    let again = PASSING.with(|passing| passing.replace(info) == info.cast_const());
    let Some(before) = before.filter(|_| !again) else { return die(signal) };
    match before.sa_sigaction {
        libc::SIG_DFL => die(signal),
        libc::SIG_IGN => {
            // SAFETY: (1) the kernel's information, valid during the handler.
            if is_fault(unsafe { (*info).si_code }) {
                die(signal);
            }
        }
        handler => call(before, handler, signal, info, context),
    }
    PASSING.with(|passing| passing.set(std::ptr::null()));
}

/// Whether the kernel raised the signal because of what the thread did. Such a signal cannot be ignored or blocked.
fn is_fault(code: libc::c_int) -> bool {
    code > 0
}

/// Calls the handler before ours as the kernel would have: with what the thread had blocked and what that handler wants blocked.
fn call(before: &libc::sigaction, handler: usize, signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if before.sa_flags & libc::SA_RESETHAND != 0 {
        let once = libc::sigaction { sa_sigaction: libc::SIG_DFL, ..*before };
        BEFORE.store(leak_in_place(once), Ordering::Release);
    }
    // SAFETY: (1) the kernel's context, valid during the handler.
    let mask = signals::set_mask(unsafe { &(*context.cast::<libc::ucontext_t>()).uc_sigmask });
    signals::block(&before.sa_mask);
    // SAFETY: (1) the program gave this address to sigaction as a handler of the form that its flags say.
    unsafe {
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, signals::Handler>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal);
        }
    }
    signals::set_mask(&mask);
}

/// The action after a handler that was to be called once. There is one such place: a handler must not allocate.
fn leak_in_place(action: libc::sigaction) -> *mut libc::sigaction {
    static mut ONCE: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::uninit();
    // SAFETY: (1) every writer writes the same thing in the field that is read, SIG_DFL.
    unsafe {
        let place = (&raw mut ONCE).cast::<libc::sigaction>();
        place.write(action);
        place
    }
}

/// Ends the process by the signal, as it would have ended without us.
fn die(signal: libc::c_int) {
    let default = libc::sigaction { sa_sigaction: libc::SIG_DFL, sa_mask: signals::empty(), sa_flags: 0, sa_restorer: None };
    // SAFETY: (1) the default action is no handler.
    let _ = unsafe { signals::replace(signal, &default) };
    signals::set_mask(&signals::empty());
    let _ = signals::send(threads::current(), signal);
}
