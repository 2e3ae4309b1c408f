//! The signal handler: turns faults of machine code into traps, and stops machine code on request.
//! All other signals go to the handler that was installed before.
//!
//! # Safety
//!
//! This module exists to handle signals: it reads and writes the registers of interrupted code, and
//! calls foreign handlers with the kernel's arguments.
#![allow(unsafe_code)]

use super::activation::{self, Activation};
use crate::error::Error;
use crate::trap::Trap;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::OnceLock;
use wordpatch::os::signals;
use wordpatch::os::threads::{self, Tid};

/// The signals that machine code can raise.
const TRAPS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// The signal that requests machine code to stop. Its default action is to be ignored.
pub(crate) const INTERRUPT: libc::c_int = libc::SIGURG;
/// Frames of handlers may be large on CPUs with large registers.
const ALTERNATE_STACK: usize = 64 << 10;

/// The actions that were installed before ours, by signal.
static BEFORE: OnceLock<[libc::sigaction; 5]> = OnceLock::new();

thread_local! {
    static READY: Cell<bool> = const { Cell::new(false) };
    /// The alternate stack that we gave this thread.
    static OURS: Cell<Option<AlternateStack>> = const { Cell::new(None) };
}

/// An alternate stack of ours.
struct AlternateStack(Box<[u8]>);

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let none =
            libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        let mut now = none;
        // SAFETY: (1) both structures are valid; (2) the stack is given up before it is freed, if
        // it is still ours.
        unsafe {
            libc::sigaltstack(std::ptr::null(), &raw mut now);
            if now.ss_sp == self.0.as_mut_ptr().cast() {
                libc::sigaltstack(&raw const none, std::ptr::null_mut());
            }
        }
    }
}

/// Prepares this thread for traps: handlers, and a stack for them.
pub(crate) fn prepare_thread() -> Result<(), Error> {
    if READY.get() {
        return Ok(());
    }
    install()?;
    let mut now = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: (1) the structure is valid.
    unsafe { libc::sigaltstack(std::ptr::null(), &raw mut now) };
    if now.ss_flags & libc::SS_DISABLE != 0 || now.ss_size < ALTERNATE_STACK / 4 {
        let mut stack = AlternateStack(vec![0; ALTERNATE_STACK].into_boxed_slice());
        let given = libc::stack_t {
            ss_sp: stack.0.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: ALTERNATE_STACK,
        };
        // SAFETY: (1) the memory is kept until the thread ends, by `OURS`.
        unsafe { libc::sigaltstack(&raw const given, std::ptr::null_mut()) };
        OURS.set(Some(stack));
    }
    READY.set(true);
    Ok(())
}

fn install() -> Result<(), Error> {
    static ONCE: Mutex<()> = Mutex::new(());
    let _turn = ONCE.lock();
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let each = [TRAPS[0], TRAPS[1], TRAPS[2], TRAPS[3], INTERRUPT];
    let mut before = Vec::new();
    for signal in each {
        before.push(signals::action(signal).map_err(Error::system)?);
    }
    // SAFETY: (1) what is called in the child touches a number of the calling thread's, and nothing
    // else.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => {}
        code => return Err(Error::system(std::io::Error::from_raw_os_error(code))),
    }
    let before: [libc::sigaction; 5] = before.try_into().expect("as many as there are signals");
    BEFORE.set(before).expect("under the lock");
    for signal in each {
        let flags = if signal == INTERRUPT { libc::SA_RESTART } else { libc::SA_NODEFER };
        // SAFETY: (1) `handle` reads and writes what belongs to this thread, and calls what was
        // there before.
        unsafe { signals::install(signal, handle, flags).map_err(Error::system)? };
    }
    Ok(())
}

thread_local! {
    /// The kernel's number of this thread, or 0 before it was queried.
    static NUMBER: Cell<i32> = const { Cell::new(0) };
}

/// This thread, which is [ready](prepare_thread); the kernel is queried only once.
pub(crate) fn this_thread() -> Tid {
    if NUMBER.get() == 0 {
        NUMBER.set(threads::current().0);
    }
    Tid(NUMBER.get())
}

/// The thread that has forked continues in the child, with another number.
extern "C" fn in_child() {
    NUMBER.set(0);
}

/// How many frames above the interrupted one are recorded at most.
const DEPTH: usize = 16;

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: (1) the kernel gives a valid context to a handler with SA_SIGINFO.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let activation = activation::current();
    // SAFETY: (1) the activation is this thread's and lives while it is the current one.
    if !activation.is_null() && unsafe { take(&mut *activation, signal, registers) } {
        return;
    }
    pass_on(signal, info, context);
}

/// Ends the activation if its code has caused the signal, or if the signal requests it to stop.
fn take(
    activation: &mut Activation,
    signal: libc::c_int,
    registers: &mut [libc::greg_t; 23],
) -> bool {
    let (pc, frame) =
        (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RBP as usize] as usize);
    // SAFETY: (1) the store outlives its activations.
    let store = unsafe { &*activation.store };
    let Some((code, offset)) = store.code_at(pc) else { return false };
    let trap = if signal == INTERRUPT {
        if !store.interruption().take() {
            let mut around = Vec::with_capacity(DEPTH);
            // SAFETY: (1) the frame pointer of machine code that was interrupted; (2) nothing of
            // the host's runs while machine code does, so that the allocator is not what was
            // interrupted.
            unsafe {
                super::backtrace::walk(store, frame, |pc| {
                    (around.push(pc - 1), around.len() < DEPTH).1
                });
            };
            store.interruption().note(std::iter::once(pc).chain(around));
            return true;
        }
        Trap::Interrupted
    } else {
        let Some(trap) = code.trap_at(offset) else { return false };
        trap
    };
    activation.trap(trap, pc, frame);
    let landing = activation.landing();
    registers[libc::REG_RIP as usize] = landing.pc as i64;
    registers[libc::REG_RDI as usize] = landing.stack as i64;
    registers[libc::REG_RSI as usize] = landing.status as i64;
    true
}

/// Passes a signal to the action that was installed before.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let position = TRAPS.iter().position(|known| *known == signal).unwrap_or(TRAPS.len());
    let Some(action) = BEFORE.get().map(|actions| &actions[position]) else { return };
    match action.sa_sigaction {
        libc::SIG_DFL if signal == INTERRUPT => {}
        libc::SIG_IGN if signal == INTERRUPT => {}
        // A signal that an instruction raises cannot be ignored: with the default action, the
        // instruction raises it again.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: (1) the default action is no function of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: (1) the code that installed the action with SA_SIGINFO gave a function of
            // this type.
            let handler: signals::Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: (1) the code that installed the action without SA_SIGINFO gave a function of
            // this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_its_own_number() {
        prepare_thread().expect("it can be made ready");
        let is_right = || this_thread() == threads::current();
        assert!(is_right() && is_right());
        // SAFETY: (1) the child only asks for its number, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(!is_right());
            // SAFETY: (1) the child has nothing of its own.
            unsafe { libc::_exit(status) };
        }
        let mut status = -1;
        // SAFETY: (1) a number to write to.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
