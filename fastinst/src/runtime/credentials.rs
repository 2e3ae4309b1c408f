//! Users and groups: the interposed `setuid` and its like.
//!
//! The kernel knows credentials of threads only. The C library makes every thread of the process
//! change its own, and ends the program by `abort` if one thread may and another may not (glibc,
//! nptl_setxid.c). A program whose only thread keeps its capabilities (`PR_SET_KEEPCAPS`) while it
//! changes its user, or changes them by capset(2), does not expect another thread that has not: so
//! the agent's thread does not exist during the calls that follow. The next one has the
//! capabilities of the thread that starts it.
//!
//! A bare `syscall` instruction that changes capabilities is not seen.
//!
//! # Safety
//!
//! This module interposes functions of the C library.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches them, by name")]

use super::interposed::{self, alone};
use libc::{c_char, c_int, c_void, gid_t, size_t, uid_t};
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Whether the capabilities of the agent's thread may differ from those of another thread.
static DIFFER: AtomicBool = AtomicBool::new(false);

/// A thread is about to change its capabilities, or what happens to them with a change of its user.
pub(super) fn differ() {
    DIFFER.store(true, Relaxed);
}

/// Runs `act`, which changes the credentials of all threads: without the agent's, if it may have
/// other capabilities.
fn of_all(act: impl FnOnce() -> c_int) -> c_int {
    if DIFFER.swap(false, Relaxed) { alone(act) } else { act() }
}

macro_rules! interposed {
    ($($number:literal $name:ident $text:literal ($($argument:ident: $kind:ty),*);)*) => {
        const COUNT: usize = [$($number),*].len();
        static NEXT: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
        /// Where each of them continues.
        pub(super) static INTERPOSED: [(&AtomicUsize, &CStr); COUNT + 1] =
            [$((&NEXT[$number], $text),)* (&CAPSET, c"capset")];
        $(
            #[doc = concat!("The C library's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As for the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                type Next = unsafe extern "C" fn($($kind),*) -> c_int;
                let next = interposed::next(&NEXT[$number], $text);
                // SAFETY: (1) the C library's function has this type.
                let next = unsafe { std::mem::transmute::<usize, Next>(next) };
                // SAFETY: (1) the caller.
                of_all(|| unsafe { next($($argument),*) })
            }
        )*
    };
}

interposed! {
    0 setuid c"setuid" (user: uid_t);
    1 setgid c"setgid" (group: gid_t);
    2 seteuid c"seteuid" (user: uid_t);
    3 setegid c"setegid" (group: gid_t);
    4 setreuid c"setreuid" (real: uid_t, effective: uid_t);
    5 setregid c"setregid" (real: gid_t, effective: gid_t);
    6 setresuid c"setresuid" (real: uid_t, effective: uid_t, saved: uid_t);
    7 setresgid c"setresgid" (real: gid_t, effective: gid_t, saved: gid_t);
    8 setgroups c"setgroups" (number: size_t, groups: *const gid_t);
    9 initgroups c"initgroups" (user: *const c_char, group: gid_t);
}

type Capset = unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int;
static CAPSET: AtomicUsize = AtomicUsize::new(0);

/// `capset` of the C library.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn capset(of: *mut c_void, capabilities: *const c_void) -> c_int {
    differ();
    // SAFETY: (1) the C library's function has this type.
    let next: Capset = unsafe { std::mem::transmute(interposed::next(&CAPSET, c"capset")) };
    // SAFETY: (1) the caller.
    unsafe { next(of, capabilities) }
}
