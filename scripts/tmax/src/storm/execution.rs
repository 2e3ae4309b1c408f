//! One execution of code under test: a call that returns even after a fault.
//!
//! ```text
//!   execute ── armed: where to come back to ── call ── lead-in, word, ret ── disarmed: registers
//!                        ▲                                  │
//!                        └── SIGILL, SIGSEGV, SIGBUS ───────┘  rip, rsp as armed, rax = FAULT
//! ```
//!
//! While it is armed, every trap counts as one of the protocol under test: the executing thread
//! tries again until the byte is no trap any more (or the storm is over), as with the literature's
//! handler. A program with its own handler installs it after [`prepare`], and then decides itself.
//!
//! # Safety
//!
//! This module exists to run code whose bytes are being changed, and to recover from the
//! consequences. Its callers are responsible for the code; the handlers touch the interrupted
//! thread's registers only while that thread is inside of [`execute`].
#![allow(unsafe_code)]

use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use wordpatch::CodeAddr;
use wordpatch::os::{OsError, signals};

/// The registers after an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registers {
    /// rax.
    pub rax: u64,
    /// rcx.
    pub rcx: u64,
    /// rdx.
    pub rdx: u64,
    /// rsi.
    pub rsi: u64,
}

/// The value of rax after a fault.
const FAULT: u64 = 0xfa17_fa17_fa17_fa17;

/// The value of rax after an execution that was inside a trap when the storm ended.
const ENDED: u64 = 0xe0d0_e0d0_e0d0_e0d0;

impl Registers {
    /// Whether it was aborted because the storm is over.
    pub(super) fn ended(&self) -> bool {
        self.rax == ENDED
    }
}

/// The action on a trap in the code under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTrap {
    /// Execute the instruction again, until it is no trap any more.
    Retry,
    /// Continue after it: the least cost of a handler.
    GoOn,
}

/// The point where a thread resumes. `armed[1]` is zero while it is outside of [`execute`].
struct Recovery {
    armed: UnsafeCell<[u64; 2]>,
    over: Cell<*const AtomicBool>,
    on_trap: Cell<OnTrap>,
}

thread_local! {
    // Constant and without a destructor: reading it in a handler is a plain load.
    static RECOVERY: Recovery = const {
        Recovery {
            armed: UnsafeCell::new([0; 2]),
            over: Cell::new(std::ptr::null()),
            on_trap: Cell::new(OnTrap::Retry),
        }
    };
}

/// Runs `body`, in which this thread may [`execute`]. A trap after `over` was set ends the
/// execution.
pub(crate) fn recoverable<T>(over: &AtomicBool, on_trap: OnTrap, body: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            RECOVERY.with(|recovery| recovery.over.set(std::ptr::null()));
        }
    }
    let _leave = Leave;
    RECOVERY.with(|recovery| {
        recovery.over.set(over);
        recovery.on_trap.set(on_trap);
    });
    body()
}

/// Calls `entry` and returns its registers.
///
/// # Safety
/// 1. [`prepare`] has succeeded.
/// 2. At `entry` is a function of the system's calling convention without arguments. It returns or
///    faults, and neither writes memory nor changes a callee-saved register.
#[inline]
pub(crate) unsafe fn execute(entry: CodeAddr) -> Registers {
    let armed = RECOVERY.with(|recovery| recovery.armed.get());
    let (rax, rcx, rdx, rsi);
    // SAFETY: (1) the caller; (2) `armed` is this thread's own, and the handlers only read it; (3)
    // where the handler resumes, rsp has the value that it has here, and all caller-saved registers
    // are declared as clobbered.
    unsafe {
        asm!(
            "lea r11, [rip + 2f]",
            "mov qword ptr [r12], rsp",
            "mov qword ptr [r12 + 8], r11",
            "call rdi",
            "2:",
            "mov qword ptr [r12 + 8], 0",
            in("r12") armed,
            inout("rdi") entry.get() => _,
            out("rax") rax,
            out("rcx") rcx,
            out("rdx") rdx,
            out("rsi") rsi,
            clobber_abi("sysv64"),
        );
    }
    Registers { rax, rcx, rdx, rsi }
}

/// The actions that were replaced.
static BEFORE: OnceLock<Result<[(i32, libc::sigaction); 4], OsError>> = OnceLock::new();

/// Installs the handlers, once in the life of the process. Faults and traps outside of an execution
/// are passed on to the replaced actions.
///
/// [`Target::new`](super::Target::new) does this, too. Call it before another trap handler is
/// installed that must run first; wordpatch installs one at the first adoption that needs it.
pub fn prepare() -> Result<(), OsError> {
    let installed = BEFORE.get_or_init(|| {
        let install = |signal, handler| {
            // SAFETY: (1) the handlers read thread-local cells, change the interrupted context, and
            // call nothing that allocates or locks.
            unsafe { signals::install(signal, handler, 0).map(|before| (signal, before)) }
        };
        Ok([
            install(libc::SIGILL, on_fault)?,
            install(libc::SIGSEGV, on_fault)?,
            install(libc::SIGBUS, on_fault)?,
            install(libc::SIGTRAP, on_trap)?,
        ])
    });
    installed.as_ref().map(drop).map_err(|&error| error)
}

/// The resume point of the interrupted thread, if it is inside an execution.
fn armed() -> Option<[u64; 2]> {
    // SAFETY: (1) only the interrupted thread itself writes the array, and it does not run now.
    let armed = RECOVERY.with(|recovery| unsafe { recovery.armed.get().read_volatile() });
    (armed[1] != 0).then_some(armed)
}

/// The registers of the interrupted thread.
///
/// # Safety
/// `context` is what the kernel passed to a handler that has not returned.
unsafe fn registers<'a>(context: *mut libc::c_void) -> &'a mut [libc::greg_t; 23] {
    // SAFETY: (1) the caller.
    unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs }
}

fn come_back(registers: &mut [libc::greg_t; 23], [rsp, rip]: [u64; 2], rax: u64) {
    registers[libc::REG_RSP as usize] = rsp as i64;
    registers[libc::REG_RIP as usize] = rip as i64;
    registers[libc::REG_RAX as usize] = rax as i64;
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match armed() {
        // SAFETY: (1) the kernel's own context.
        Some(armed) => come_back(unsafe { registers(context) }, armed, FAULT),
        None => pass_on(signal, info, context),
    }
}

extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(armed) = armed() else { return pass_on(signal, info, context) };
    // SAFETY: (1) the kernel's own context.
    let registers = unsafe { registers(context) };
    RECOVERY.with(|recovery| {
        // SAFETY: (1) set by `recoverable`, whose borrow outlives every execution; null outside of
        // it, where nothing is armed.
        let over = unsafe { recovery.over.get().as_ref() }
            .is_some_and(|over| over.load(Ordering::Relaxed));
        match recovery.on_trap.get() {
            _ if over => come_back(registers, armed, ENDED),
            OnTrap::Retry => registers[libc::REG_RIP as usize] -= 1,
            OnTrap::GoOn => {}
        }
    });
}

/// Passes the signal on to the replaced action.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE
        .get()
        .and_then(|b| b.as_ref().ok())
        .and_then(|b| b.iter().find(|(s, _)| *s == signal));
    match before {
        Some((_, action))
            if action.sa_sigaction > libc::SIG_IGN && action.sa_flags & libc::SA_SIGINFO != 0 =>
        {
            // SAFETY: (1) installed with SA_SIGINFO, so it is a function of three arguments; (2)
            // the kernel passed them.
            unsafe {
                std::mem::transmute::<usize, signals::Handler>(action.sa_sigaction)(
                    signal, info, context,
                );
            }
        }
        // The instruction is executed again, with the default action.
        _ => {
            if signal == libc::SIGTRAP {
                // SAFETY: (1) the kernel's own context.
                unsafe { registers(context)[libc::REG_RIP as usize] -= 1 };
            }
            let default = libc::sigaction {
                sa_sigaction: libc::SIG_DFL,
                sa_mask: signals::empty(),
                sa_flags: 0,
                sa_restorer: None,
            };
            // SAFETY: (1) the default action runs no code of the process.
            let _ = unsafe { signals::replace(signal, &default) };
        }
    }
}
