//! Signals: masks, handlers, and sending to one thread.

use super::{OsError, check, threads::Tid};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A set of signals.
pub type Mask = libc::sigset_t;

/// Blocks the program's signals on this thread until it is dropped, so that none of the program's
/// handlers runs meanwhile. Synchronous signals (a fault, a trap) stay unblocked: the kernel kills
/// a thread that raises one while it is blocked. The signal barrier's signal stays unblocked, too,
/// since every thread must be able to answer it. Usable in a signal handler.
#[must_use = "signals are blocked only while this lives"]
pub struct Blocked {
    /// `None` if [`at_length`](Self::at_length) had blocked them.
    before: Option<Mask>,
}

/// The thread pointer of the thread for which [`Blocked::at_length`] is in effect; zero if there is
/// none.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | none | a thread: to its own |
/// | a thread pointer | that thread | that thread: to 0; the child of a fork: to 0 |
///
/// A thread compares it with its own thread pointer, which no other thread stores. So every access
/// is `Relaxed`.
static AT_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// The thread pointer of the calling thread, which no other living thread has.
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: (1) the ABI of x86-64 (System V, thread-local storage) has the thread pointer there.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer,
            options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// In a forked child: the recorded thread may be one of the parent's.
pub(crate) fn forget_at_length() {
    AT_LENGTH.store(0, Relaxed);
}

impl std::fmt::Debug for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocked")
    }
}

impl Blocked {
    /// Blocks all blockable signals.
    pub fn all() -> Self {
        if AT_LENGTH.load(Relaxed) == thread_pointer() {
            return Self { before: None };
        }
        Self { before: Some(block(&blockable())) }
    }

    /// Keeps the signals blocked while the thread takes thousands of locks: until the result is
    /// dropped, [`all`](Self::all) makes no system call on this thread. The result has to be
    /// dropped before `self`. One thread at a time can have it. A thread is identified by its
    /// thread pointer. A thread from a bare clone(2) that shares the pointer of its parent thread
    /// would be taken for that one, so no such thread may be created meanwhile.
    pub fn at_length(&self) -> AtLength {
        let taken = AT_LENGTH.compare_exchange(0, thread_pointer(), Relaxed, Relaxed);
        AtLength { is_taken: taken.is_ok() }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set_mask(before);
        }
    }
}

/// Signals that stay blocked: see [`Blocked::at_length`].
#[derive(Debug)]
#[must_use = "it lasts only while this lives"]
pub struct AtLength {
    is_taken: bool,
}

impl Drop for AtLength {
    fn drop(&mut self) {
        if self.is_taken {
            AT_LENGTH.store(0, Relaxed);
        }
    }
}

/// The signals that can safely be blocked: all but synchronous ones and the barrier's signal.
fn blockable() -> Mask {
    let mut mask = from_outside();
    if let Some(signal) = crate::barrier::reserved_signal() {
        // SAFETY: (1) a valid set and an existing signal.
        unsafe { libc::sigdelset(&mut mask, signal) };
    }
    mask
}

/// The synchronous signals, which a thread raises by its own instructions. The kernel kills a
/// thread that raises one while it is blocked.
const FROM_INSIDE: [i32; 5] =
    [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// A signal's bit in a signal set of the kernel.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The set of all other signals, in the kernel's representation.
pub(crate) const FROM_OUTSIDE: u64 = {
    let (mut set, mut at) = (!0, 0);
    while at < FROM_INSIDE.len() {
        set &= !bit(FROM_INSIDE[at]);
        at += 1;
    }
    set
};

/// The first word of a set, the only one that the kernel uses.
pub(crate) fn word(mask: &Mask) -> u64 {
    // SAFETY: (1) a set begins with that word.
    unsafe { std::ptr::from_ref(mask).cast::<u64>().read() }
}

/// The set with this first word.
pub(crate) fn set(word: u64) -> Mask {
    let mut mask = empty();
    // SAFETY: as in `word`.
    unsafe { std::ptr::from_mut(&mut mask).cast::<u64>().write(word) };
    mask
}

/// All other signals, except those that the C library reserves.
fn from_outside() -> Mask {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: (1) sigfillset initialises the whole set; (2) none of the calls fails on a valid set
    // and an existing signal.
    unsafe {
        libc::sigfillset(mask.as_mut_ptr());
        for signal in FROM_INSIDE {
            libc::sigdelset(mask.as_mut_ptr(), signal);
        }
        mask.assume_init()
    }
}

/// Unblocks one signal on this thread until it is dropped. Usable in a signal handler.
#[must_use = "the signal is let in only while this lives"]
pub struct LetIn {
    before: Mask,
}

impl std::fmt::Debug for LetIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LetIn")
    }
}

impl LetIn {
    /// Unblocks `signal`.
    pub fn one(signal: i32) -> Self {
        let mut mask = empty();
        // SAFETY: (1) a valid set and an existing signal.
        unsafe { libc::sigaddset(&mut mask, signal) };
        Self { before: change_mask(libc::SIG_UNBLOCK, &mask) }
    }
}

impl Drop for LetIn {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

/// The empty set.
pub fn empty() -> Mask {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: (1) sigemptyset initialises the whole set and cannot fail on a valid pointer.
    unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        mask.assume_init()
    }
}

/// Makes `mask` the thread's mask and returns the one before. Usable in a signal handler.
pub fn set_mask(mask: &Mask) -> Mask {
    change_mask(libc::SIG_SETMASK, mask)
}

/// Adds `mask` to the thread's mask and returns the mask before. Usable in a signal handler.
pub fn block(mask: &Mask) -> Mask {
    change_mask(libc::SIG_BLOCK, mask)
}

fn change_mask(how: libc::c_int, mask: &Mask) -> Mask {
    let mut before = empty();
    // SAFETY: (1) both sets are valid; (2) the call fails only for a `how` that does not exist.
    unsafe { libc::pthread_sigmask(how, mask, &mut before) };
    before
}

/// A handler with all three arguments (SA_SIGINFO).
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The kernel's record of the calling thread's signal stack. Usable in a signal handler.
pub fn stack() -> Result<libc::stack_t, OsError> {
    let mut stack = MaybeUninit::zeroed();
    // SAFETY: (1) the result is written before it is read, by `check`.
    unsafe {
        check("sigaltstack", libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr()).into())?;
        Ok(stack.assume_init())
    }
}

/// The action that is installed for `signal`. Usable in a signal handler.
pub fn action(signal: i32) -> Result<libc::sigaction, OsError> {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: (1) the result is written before it is read, by `check`.
    unsafe {
        check("sigaction", libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()).into())?;
        Ok(action.assume_init())
    }
}

/// The first signal whose handler, if it has one, blocks `signal` while it runs. Usable in a signal
/// handler.
pub fn handler_that_blocks(signal: i32) -> Option<i32> {
    const LAST: i32 = 64;
    (1..=LAST).find(|&other| {
        action(other).is_ok_and(|action| {
            !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
                && word(&action.sa_mask) & bit(signal) != 0
        })
    })
}

/// The name of a signal, as in signal(7).
pub fn name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let named = usize::try_from(signal - 1).ok().and_then(|at| NAMES.get(at));
    named.map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

/// Installs `handler` for `signal` with SA_SIGINFO, SA_ONSTACK and the further `flags`, and returns
/// the action before.
///
/// While the handler runs, every asynchronous signal is blocked: with large register sets, an
/// alternate stack may have space for one signal frame, and not for two.
///
/// # Safety
/// `handler` does only what a signal handler may.
pub unsafe fn install(
    signal: i32,
    handler: Handler,
    flags: libc::c_int,
) -> Result<libc::sigaction, OsError> {
    let ours = libc::sigaction {
        sa_sigaction: handler as *const () as usize,
        sa_mask: from_outside(),
        sa_flags: libc::SA_SIGINFO | libc::SA_ONSTACK | flags,
        sa_restorer: None,
    };
    // SAFETY: (1) the caller, see # Safety.
    unsafe { replace(signal, &ours) }
}

/// Installs `action` for `signal` and returns the one before. Usable in a signal handler.
///
/// # Safety
/// As for [`install`].
pub unsafe fn replace(signal: i32, action: &libc::sigaction) -> Result<libc::sigaction, OsError> {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: (1) both structures are valid; (2) the caller is responsible for the handler.
    unsafe {
        check("sigaction", libc::sigaction(signal, action, before.as_mut_ptr()).into())?;
        Ok(before.assume_init())
    }
}

/// Sends `signal` to one thread of this process. Usable in a signal handler.
pub fn send(thread: Tid, signal: i32) -> Result<(), OsError> {
    // SAFETY: (1) the call takes numbers only.
    check("tgkill", unsafe {
        libc::syscall(libc::SYS_tgkill, super::threads::process(), thread.0, signal)
    })
    .map(drop)
}

/// Sends `signal` with `value` to one thread of this process. Usable in a signal handler.
pub fn send_value(thread: Tid, signal: i32, value: usize) -> Result<(), OsError> {
    // SAFETY: (1) an all-zero siginfo_t is valid, and its fields below are those that
    // rt_sigqueueinfo(2) lets a process set for itself; (2) the kernel copies the structure during
    // the call.
    unsafe {
        let mut info: Queued = std::mem::zeroed();
        info.signal = signal;
        info.code = libc::SI_QUEUE;
        info.pid = super::threads::process();
        info.uid = libc::getuid();
        info.value = value;
        let sent =
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, info.pid, thread.0, signal, &raw const info);
        check("rt_tgsigqueueinfo", sent).map(drop)
    }
}

/// The kernel's layout of a queued signal's information on x86-64 (sigaction(2), `si_value`).
#[repr(C)]
struct Queued {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: usize,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());
