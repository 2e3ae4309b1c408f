//! Signals: a set is a word of 64 bits in a structure of 128 bytes. The C library reserves two
//! signals, and never blocks them.

use super::calls::{answer, raw};
use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use wordpatch::os::set_errno;

/// The part of a set that the kernel reads.
type Set = u64;
/// Its size in bytes.
const SET: usize = size_of::<Set>();
/// The reserved signals: cancellation, and the change of users in all threads (nptl(7)).
const KEPT: Set = 1 << 31 | 1 << 32;

fn bit(signal: c_int) -> Option<Set> {
    let bit = (1..=64).contains(&signal).then(|| 1 << (signal - 1)).filter(|bit| bit & KEPT == 0);
    if bit.is_none() {
        set_errno(libc::EINVAL);
    }
    bit
}

pub(super) unsafe extern "C" fn sigemptyset(set: *mut libc::sigset_t) -> c_int {
    // SAFETY: (1) the caller; (2) zeroes are a set.
    unsafe { set.write(std::mem::zeroed()) };
    0
}

pub(super) unsafe extern "C" fn sigfillset(set: *mut libc::sigset_t) -> c_int {
    // SAFETY: (1) the caller.
    unsafe {
        set.cast::<u8>().write_bytes(0xFF, size_of::<libc::sigset_t>());
        set.cast::<Set>().write(!KEPT);
    }
    0
}

pub(super) unsafe extern "C" fn sigaddset(set: *mut Set, signal: c_int) -> c_int {
    let Some(bit) = bit(signal) else { return -1 };
    // SAFETY: (1) the caller.
    unsafe { *set |= bit };
    0
}

pub(super) unsafe extern "C" fn sigdelset(set: *mut Set, signal: c_int) -> c_int {
    let Some(bit) = bit(signal) else { return -1 };
    // SAFETY: (1) the caller.
    unsafe { *set &= !bit };
    0
}

/// Returns an error number as its result.
pub(super) unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const Set,
    old: *mut Set,
) -> c_int {
    // SAFETY: (1) the caller.
    let mask = unsafe { new.as_ref() }
        .map(|&mask| if how == libc::SIG_UNBLOCK { mask } else { mask & !KEPT });
    let new = mask.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: (1) a set that lives across the call; (2) the caller.
    let result =
        unsafe { raw(libc::SYS_rt_sigprocmask, [how as usize, new.addr(), old.addr(), SET, 0, 0]) };
    -(result as c_int)
}

/// As the kernel lays it out (sigaction(2), "C library/kernel differences").
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: Set,
}

const SA_RESTORER: u64 = 0x0400_0000;

// The return address of handlers: with the exact bytes by which debuggers and unwinders recognise
// it.
global_asm!(
    ".pushsection .text.fastinst_own_restore,\"ax\",@progbits",
    ".globl fastinst_own_restore",
    ".hidden fastinst_own_restore",
    ".type fastinst_own_restore,@function",
    // An unwinder looks up the address minus one.
    "nop",
    ".balign 16",
    "fastinst_own_restore:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05",
    ".size fastinst_own_restore, . - fastinst_own_restore",
    ".popsection",
);

unsafe extern "C" {
    fn fastinst_own_restore();
}

pub(super) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if bit(signal).is_none() {
        return -1;
    }
    // SAFETY: (1) the caller; (2) sets begin with the part that the kernel reads.
    let given = unsafe { new.as_ref() }.map(|new| Action {
        handler: new.sa_sigaction,
        flags: new.sa_flags as u32 as u64 | SA_RESTORER,
        restorer: fastinst_own_restore as *const c_void as usize,
        // SAFETY: (2) above.
        mask: unsafe { *std::ptr::from_ref(&new.sa_mask).cast() },
    });
    let given = given.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut found = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    let words = [
        signal as usize,
        given.addr(),
        std::ptr::from_mut(&mut found).expose_provenance(),
        SET,
        0,
        0,
    ];
    // SAFETY: (1) both live across the call; (2) the handler is the caller's.
    let result = answer(unsafe { raw(libc::SYS_rt_sigaction, words) }) as c_int;
    if result == 0 && !old.is_null() {
        // SAFETY: (1) the caller; zeroes are an action.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = found.handler;
            action.sa_flags = found.flags as c_int;
            action.sa_restorer = (found.restorer != 0)
                .then(|| std::mem::transmute::<usize, extern "C" fn()>(found.restorer));
            std::ptr::from_mut(&mut action.sa_mask).cast::<Set>().write(found.mask);
            old.write(action);
        }
    }
    result
}
