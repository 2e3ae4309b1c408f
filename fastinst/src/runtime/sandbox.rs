//! Sandboxes that the program puts itself into: the interposed `syscall` and `prctl`, by
//! which it installs a filter of system calls.
//!
//! A filter that kills for one of the profiler's calls, or refuses memory, ends the profile: the
//! profile is written before the filter is installed, the agent's thread ends, the probes are
//! switched off, and from then on this library makes no system call. A filter that refuses such
//! calls is tolerated. The profile ends in the same way where the program forbids its threads the
//! time stamp counter, without which no hook works. A bare `syscall` instruction calls no
//! interposed function, and is not seen. A signal stack that changes through the function `syscall`
//! invalidates what is [known](super::signal_stack) of them, and one that changes the calling
//! thread's capabilities concerns its [credentials](super::credentials).
//!
//! Every call of either name passes the interposed function, so these compare a number and
//! continue; everything else is done in Rust.
//!
//! # Safety
//!
//! This module passes on calls whose arguments it does not know, and reads a filter that the
//! program points to.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches them, by name")]

use super::filter::{self, Instruction};
use super::interposed::PassedRegisters;
use super::stub::jump_if_foreign;
use super::{agent, credentials, interposed, signal_stack, target};
use std::arch::naked_asm;
use std::ffi::CStr;
use std::sync::atomic::AtomicUsize;
use wordpatch::os::{self, files};

pub(super) static SYSCALL: AtomicUsize = AtomicUsize::new(0);
pub(super) static PRCTL: AtomicUsize = AtomicUsize::new(0);
const NAMES: [(&AtomicUsize, &CStr); 2] = [(&SYSCALL, c"syscall"), (&PRCTL, c"prctl")];

macro_rules! interposed {
    ($number:literal $name:ident $next:ident
        $watched:path, $also:path, $third:path, $fourth:path) => {
        #[doc = concat!("Looks whether a filter is coming, and goes on to the C library's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                "cmp edi, {watched}",
                "je 2f",
                "cmp edi, {also}",
                "je 2f",
                "cmp edi, {third}",
                "je 2f",
                "cmp edi, {fourth}",
                "je 2f",
                "3:",
                "mov r11, [rip + {next}]",
                "test r11, r11",
                "jz 4f",
                "jmp r11",
                "2:",
                jump_if_foreign!("r11", "3b"),
                "4:",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "mov edi, {number}",
                "mov rsi, rsp",
                "call {pass}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                number = const $number,
                watched = const $watched,
                also = const $also,
                third = const $third,
                fourth = const $fourth,
                next = sym $next,
                pass = sym pass,
            )
        }
    };
}

interposed!(0 syscall SYSCALL
    libc::SYS_seccomp, libc::SYS_prctl, libc::SYS_sigaltstack, libc::SYS_capset);
interposed!(1 prctl PRCTL
    libc::PR_SET_SECCOMP, libc::PR_SET_TSC, libc::PR_SET_KEEPCAPS, libc::PR_SET_SECUREBITS);

const FILTERED: &str =
    "the program's system-call filter forbids calls that profiling needs: the profile ends there";
const NO_COUNTER: &str =
    "the program forbids the time stamp counter (PR_SET_TSC): the profile ends there";

/// Does what is to be done before; returns where the interposed function continues.
extern "C" fn pass(number: u32, given: &PassedRegisters) -> usize {
    let errno = os::errno();
    let (next, name) = NAMES[number as usize];
    let end = match (number, given.rdi as libc::c_long) {
        (0, libc::SYS_seccomp) => match given.rsi as u32 {
            libc::SECCOMP_SET_MODE_STRICT => Some(FILTERED),
            libc::SECCOMP_SET_MODE_FILTER => is_deadly(given.rcx).then_some(FILTERED),
            _ => None,
        },
        (0, libc::SYS_prctl) => before_prctl(given.rsi, given.rdx, given.rcx),
        (0, libc::SYS_sigaltstack) => {
            signal_stack::know_nothing();
            None
        }
        (0, libc::SYS_capset) => {
            credentials::differ();
            None
        }
        (1, _) => before_prctl(given.rdi, given.rsi, given.rdx),
        _ => None,
    };
    if let Some(why) = end {
        target::stand_down(why);
    } else if target::is_observed() && installs_filter(number, given) {
        // Installing takes more calls than a profile does: it makes new, writable code.
        agent::do_with_less();
    }
    let next = interposed::next(next, name);
    os::set_errno(errno);
    next
}

/// Whether a filter is about to be installed.
fn installs_filter(number: u32, given: &PassedRegisters) -> bool {
    let [first, second] = [given.rdi, given.rsi].map(|argument| argument as libc::c_long);
    let by_prctl = |option| option == libc::c_long::from(libc::PR_SET_SECCOMP);
    match (number, first) {
        (0, libc::SYS_seccomp) => second as u32 == libc::SECCOMP_SET_MODE_FILTER,
        (0, libc::SYS_prctl) => by_prctl(second),
        (1, option) => by_prctl(option),
        _ => false,
    }
}

/// Why the profile ends with this call of `prctl`, if it does.
fn before_prctl(option: usize, value: usize, filter: usize) -> Option<&'static str> {
    match (option as libc::c_int, value as libc::c_int) {
        (libc::PR_SET_SECCOMP, mode) if mode as u32 == libc::SECCOMP_MODE_STRICT => Some(FILTERED),
        (libc::PR_SET_SECCOMP, mode) if mode as u32 == libc::SECCOMP_MODE_FILTER => {
            is_deadly(filter).then_some(FILTERED)
        }
        (libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) => Some(NO_COUNTER),
        (libc::PR_SET_KEEPCAPS | libc::PR_SET_SECUREBITS, _) => {
            credentials::differ();
            None
        }
        _ => None,
    }
}

/// Whether the filter at an address (`struct sock_fprog`) kills. One that cannot be read is refused
/// by the kernel, too.
fn is_deadly(program: usize) -> bool {
    if !target::is_observed() {
        return false;
    }
    let mut front = [0u64; 2];
    if files::read_own(program, as_bytes(&mut front)).is_err() {
        return false;
    }
    let len = usize::from(front[0] as u16);
    let mut filter = vec![Instruction::default(); len.min(filter::LONGEST)];
    len > 0
        && files::read_own(front[1] as usize, as_bytes(&mut filter)).is_ok()
        && filter::kills(&filter)
}

fn as_bytes<T: Copy>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: (1) as long as they are; (2) both kinds that are asked for are numbers without gaps.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
