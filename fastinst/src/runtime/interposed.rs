//! Interposed functions of the C library, after which the process is not what it was before.
//!
//! Each continues to the next definition in the loader's order, with all of its arguments, as if it
//! were not interposed: also with the caller's return address on the stack, by which `dlopen`
//! identifies its caller.
//!
//! | function | before it continues |
//! |---|---|
//! | `_exit`, `_Exit`, exec | the profile is written, the control socket removed (not for exec) |
//! | exec, `posix_spawn` | programs that cannot load the library: see [execution](super::execution) |
//! | `exit` | the same, where a child of `vfork` has used up the functions of the end |
//! | `dlopen`, `dlmopen` | the agent is started, and the loader made to report the module when it is complete |
//! | `dlclose` | no code switches sites that might be unloaded |
//! | `fork`, `forkpty`, `daemon` | nothing; the child's agent is made when they have returned in it |
//! | `unshare`, `setns` | the agent's thread ends, and is started again afterwards: some namespaces are for processes of one thread |
//!
//! Other files interpose `longjmp` and its like ([scope](super::scope)), `syscall` and `prctl`
//! ([sandbox](super::sandbox)), [`mprotect`](super::protection),
//! [`sigaltstack`](super::signal_stack), [`pthread_setcanceltype`](super::cancellation), and
//! `setuid` and its like ([credentials](super::credentials)).
//!
//! # Safety
//!
//! This module passes on calls whose arguments it does not know.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches them, by name")]

use super::stub::jump_if_foreign;
use super::{
    agent, cancellation, credentials, execution, load_handshake, loader, protection, sandbox,
    scope, signal_stack, stub, target, unloading,
};
use std::arch::naked_asm;
use std::ffi::CStr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;
use wordpatch::os;

/// How long a namespace waits for the agent.
const STEP_ASIDE: Duration = Duration::from_secs(1);

macro_rules! interposed {
    ($($number:literal $name:ident $text:literal $before:path;)*) => {
        const INTERPOSED: &[(&CStr, fn())] = &[$(($text, $before)),*];
        static NEXT: [AtomicUsize; INTERPOSED.len()] =
            [const { AtomicUsize::new(0) }; INTERPOSED.len()];
        $(
            #[doc = concat!("Does what is to be done before, and goes on to the C library's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As for the C library's.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "endbr64",
                    jump_if_foreign!("r11", "3f"),
                    "2:",
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "mov edi, {number}",
                    "mov rsi, rsp",
                    "lea rax, [rip + {pass}]",
                    "call {slowly}",
                    "mov r11, rax",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    "3:",
                    "mov r11, qword ptr [rip + {next} + 8*{number}]",
                    "test r11, r11",
                    "jz 2b",
                    "jmp r11",
                    number = const $number,
                    next = sym NEXT,
                    pass = sym pass,
                    slowly = sym stub::slowly,
                )
            }
        )*
    };
}

interposed! {
    0 _exit c"_exit" target::before_end;
    1 _Exit c"_Exit" target::before_end;
    2 execve c"execve" target::before_exec;
    3 execv c"execv" target::before_exec;
    4 execvp c"execvp" target::before_exec;
    5 execvpe c"execvpe" target::before_exec;
    6 execl c"execl" target::before_exec;
    7 execlp c"execlp" target::before_exec;
    8 execle c"execle" target::before_exec;
    9 fexecve c"fexecve" target::before_exec;
    10 dlopen c"dlopen" before_dlopen;
    11 dlmopen c"dlmopen" before_dlopen;
    12 quick_exit c"quick_exit" target::before_end;
    13 exit c"exit" target::before_exit;
    14 posix_spawn c"posix_spawn" before_spawn;
    15 posix_spawnp c"posix_spawnp" before_spawn;
}

/// The registers in which arguments are passed, as an interposed function stores them.
#[repr(C)]
pub(super) struct PassedRegisters {
    pub(super) rax: usize,
    pub(super) r9: usize,
    pub(super) r8: usize,
    pub(super) rcx: usize,
    pub(super) rdx: usize,
    pub(super) rsi: usize,
    pub(super) rdi: usize,
}

impl PassedRegisters {
    /// Where the other arguments are: behind the return address.
    pub(super) fn stack(&self) -> *const usize {
        std::ptr::from_ref(self).wrapping_add(1).cast::<usize>().wrapping_add(1)
    }
}

/// The parent continues as it is.
fn before_spawn() {}

/// Does what is to be done before; returns where the interposed function continues.
extern "C" fn pass(number: u32, given: &PassedRegisters) -> usize {
    let errno = os::errno();
    let (name, before) = INTERPOSED[number as usize];
    before();
    let instead = execution::instead(name, given);
    let next = instead.unwrap_or_else(|| next(&NEXT[number as usize], name));
    os::set_errno(errno);
    next
}

/// Where the interposed function of that name continues.
pub(super) fn next_of(name: &CStr) -> usize {
    let place = INTERPOSED.iter().position(|(known, _)| *known == name);
    place.map_or(0, |place| next(&NEXT[place], name))
}

/// Finds out where all of them continue, while the loader starts the program: a later search might
/// have to wait, or to allocate.
pub(super) fn resolve() {
    for ((name, _), next) in INTERPOSED.iter().zip(&NEXT) {
        look_up(next, name);
    }
    for (next, name) in OTHERS.iter().chain(&scope::INTERPOSED).chain(&credentials::INTERPOSED) {
        look_up(next, name);
    }
}

fn look_up(known: &AtomicUsize, name: &CStr) -> usize {
    // SAFETY: (1) a name; (2) the loader's own search.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    known.store(next, Release);
    next
}

/// The next definition after this one.
pub(super) fn next(known: &AtomicUsize, name: &CStr) -> usize {
    let mut next = known.load(Relaxed);
    if next == 0 {
        // Called by a constructor that the loader runs before ours.
        next = look_up(known, name);
    }
    if next == 0 {
        // What does not exist could not have been called.
        std::process::abort();
    }
    next
}

fn before_dlopen() {
    if let Err(why) = target::start_agent() {
        target::complain(&why);
    }
    if target::is_observed() {
        loader::listen(target::policy());
    }
    load_handshake::expect_module();
}

static DLCLOSE: AtomicUsize = AtomicUsize::new(0);
static UNSHARE: AtomicUsize = AtomicUsize::new(0);
static SETNS: AtomicUsize = AtomicUsize::new(0);
static FORK: AtomicUsize = AtomicUsize::new(0);
static FORKPTY: AtomicUsize = AtomicUsize::new(0);
static DAEMON: AtomicUsize = AtomicUsize::new(0);
/// Functions that also do something after the call.
static OTHERS: [(&AtomicUsize, &CStr); 11] = [
    (&cancellation::SETCANCELTYPE, c"pthread_setcanceltype"),
    (&signal_stack::SIGALTSTACK, c"sigaltstack"),
    (&protection::MPROTECT, c"mprotect"),
    (&sandbox::SYSCALL, c"syscall"),
    (&sandbox::PRCTL, c"prctl"),
    (&DLCLOSE, c"dlclose"),
    (&UNSHARE, c"unshare"),
    (&SETNS, c"setns"),
    (&FORK, c"fork"),
    (&FORKPTY, c"forkpty"),
    (&DAEMON, c"daemon"),
];

/// Forks. Our fork handler has left the child as it is, since handlers of others run after it: now
/// all have run.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> libc::pid_t {
    // SAFETY: (1) the C library's function has this type.
    let next: unsafe extern "C" fn() -> libc::pid_t =
        unsafe { std::mem::transmute(next(&FORK, c"fork")) };
    // SAFETY: (1) the caller.
    let result = unsafe { next() };
    target::begin_in_child();
    result
}

/// Forks into a terminal of its own.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forkpty(
    terminal: *mut libc::c_int,
    name: *mut libc::c_char,
    settings: *const libc::termios,
    size: *const libc::winsize,
) -> libc::pid_t {
    type Next = unsafe extern "C" fn(
        *mut libc::c_int,
        *mut libc::c_char,
        *const libc::termios,
        *const libc::winsize,
    ) -> libc::pid_t;
    // SAFETY: (1) the C library's function has this type.
    let next: Next = unsafe { std::mem::transmute(next(&FORKPTY, c"forkpty")) };
    // SAFETY: (1) the caller.
    let result = unsafe { next(terminal, name, settings, size) };
    target::begin_in_child();
    result
}

/// Continues in a child, without a terminal.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(stay: libc::c_int, keep_open: libc::c_int) -> libc::c_int {
    // SAFETY: (1) the C library's function has this type.
    let next: unsafe extern "C" fn(libc::c_int, libc::c_int) -> libc::c_int =
        unsafe { std::mem::transmute(next(&DAEMON, c"daemon")) };
    // SAFETY: (1) the caller.
    let result = unsafe { next(stay, keep_open) };
    target::begin_in_child();
    result
}

/// Unloads a library, while no code switches sites that might be unloaded with it.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut libc::c_void) -> libc::c_int {
    // SAFETY: (1) the C library's function has this type.
    let next: unsafe extern "C" fn(*mut libc::c_void) -> libc::c_int =
        unsafe { std::mem::transmute(next(&DLCLOSE, c"dlclose")) };
    // SAFETY: (1) the caller.
    let close = || unsafe { next(handle) };
    if target::is_running() { unloading::during(close) } else { close() }
}

/// Leaves namespaces, without the agent's thread.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: libc::c_int) -> libc::c_int {
    // SAFETY: (1) the C library's function has this type.
    let next: unsafe extern "C" fn(libc::c_int) -> libc::c_int =
        unsafe { std::mem::transmute(next(&UNSHARE, c"unshare")) };
    // SAFETY: (1) the caller.
    alone(|| unsafe { next(flags) })
}

/// Enters a namespace, without the agent's thread.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(fd: libc::c_int, kind: libc::c_int) -> libc::c_int {
    // SAFETY: (1) the C library's function has this type.
    let next: unsafe extern "C" fn(libc::c_int, libc::c_int) -> libc::c_int =
        unsafe { std::mem::transmute(next(&SETNS, c"setns")) };
    // SAFETY: (1) the caller.
    alone(|| unsafe { next(fd, kind) })
}

/// Runs `act` while the agent's thread does not exist.
pub(super) fn alone(act: impl FnOnce() -> libc::c_int) -> libc::c_int {
    if !agent::is_there() {
        return act();
    }
    agent::dismiss(STEP_ASIDE);
    let result = act();
    let errno = os::errno();
    if let Err(why) = target::start_agent() {
        target::complain(&why);
    }
    os::set_errno(errno);
    result
}
