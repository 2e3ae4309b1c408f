//! System calls, with the interface of the C library's functions of the same names: -1 and `errno`
//! on an error.
//!
//! Structures are the kernel's: on x86-64 the C library's are the same. Variadic arguments are
//! passed like others.

use std::arch::asm;
use std::ffi::{c_char, c_int, c_long, c_void};
use wordpatch::os::set_errno;

/// The kernel's result as it is: below zero, it is an error number.
///
/// # Safety
/// As for the call.
#[inline]
pub(super) unsafe fn raw(number: c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: (1) the kernel changes these two registers and the memory that the call writes; (2)
    // the caller.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// -1 and `errno`, or the result.
#[inline]
pub(super) fn answer(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        set_errno(-result as i32);
        return -1;
    }
    result
}

/// An argument as one machine word.
trait Word {
    fn word(self) -> usize;
}

impl<T> Word for *const T {
    fn word(self) -> usize {
        self.addr()
    }
}

impl<T> Word for *mut T {
    fn word(self) -> usize {
        self.addr()
    }
}

macro_rules! words {
    ($($number:ty),*) => {
        $(impl Word for $number {
            fn word(self) -> usize {
                self as usize
            }
        })*
    };
}

words!(c_int, u32, usize, i64, u64);

macro_rules! calls {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $number:ident;)*) => {
        $(pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            let mut words = [0; 6];
            let given: &[usize] = &[$($argument.word()),*];
            words[..given.len()].copy_from_slice(given);
            // SAFETY: (1) the caller.
            answer(unsafe { raw(libc::$number, words) }) as $result
        })*
    };
}

type Ptr = *mut c_void;
type Text = *const c_char;

calls! {
    close(fd: c_int) -> c_int = SYS_close;
    fstat(fd: c_int, data: Ptr) -> c_int = SYS_fstat;
    fsync(fd: c_int) -> c_int = SYS_fsync;
    ftruncate(fd: c_int, len: i64) -> c_int = SYS_ftruncate;
    getpid() -> c_int = SYS_getpid;
    getppid() -> c_int = SYS_getppid;
    getrandom(to: Ptr, len: usize, flags: u32) -> isize = SYS_getrandom;
    getrlimit(resource: c_int, limit: Ptr) -> c_int = SYS_getrlimit;
    gettid() -> c_int = SYS_gettid;
    getuid() -> u32 = SYS_getuid;
    ioctl(fd: c_int, request: u64, argument: usize) -> c_int = SYS_ioctl;
    kill(process: c_int, signal: c_int) -> c_int = SYS_kill;
    lseek(fd: c_int, offset: i64, from: c_int) -> i64 = SYS_lseek;
    lstat(path: Text, data: Ptr) -> c_int = SYS_lstat;
    madvise(start: Ptr, len: usize, advice: c_int) -> c_int = SYS_madvise;
    memfd_create(name: Text, flags: u32) -> c_int = SYS_memfd_create;
    mkdir(path: Text, mode: u32) -> c_int = SYS_mkdir;
    mmap(hint: Ptr, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> isize = SYS_mmap;
    mprotect(start: Ptr, len: usize, protection: c_int) -> c_int = SYS_mprotect;
    mremap(start: Ptr, old: usize, new: usize, flags: c_int, to: Ptr) -> isize = SYS_mremap;
    munlock(start: Ptr, len: usize) -> c_int = SYS_munlock;
    munmap(start: Ptr, len: usize) -> c_int = SYS_munmap;
    nanosleep(time: Ptr, rest: Ptr) -> c_int = SYS_nanosleep;
    open(path: Text, flags: c_int, mode: u32) -> c_int = SYS_open;
    openat(folder: c_int, path: Text, flags: c_int, mode: u32) -> c_int = SYS_openat;
    pause() -> c_int = SYS_pause;
    poll(descriptors: Ptr, count: u64, patience: c_int) -> c_int = SYS_poll;
    prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = SYS_prctl;
    pwrite(fd: c_int, from: Ptr, len: usize, offset: i64) -> isize = SYS_pwrite64;
    read(fd: c_int, to: Ptr, len: usize) -> isize = SYS_read;
    readlink(path: Text, to: Ptr, len: usize) -> isize = SYS_readlink;
    rename(from: Text, to: Text) -> c_int = SYS_rename;
    sched_yield() -> c_int = SYS_sched_yield;
    sigaltstack(new: Ptr, old: Ptr) -> c_int = SYS_sigaltstack;
    stat(path: Text, data: Ptr) -> c_int = SYS_stat;
    statx(folder: c_int, path: Text, flags: c_int, mask: u32, data: Ptr) -> c_int = SYS_statx;
    unlink(path: Text) -> c_int = SYS_unlink;
    write(fd: c_int, from: Ptr, len: usize) -> isize = SYS_write;
    writev(fd: c_int, parts: Ptr, count: c_int) -> isize = SYS_writev;
}

pub(super) unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: (1) the caller; the call does not read words that were not given.
    answer(unsafe { raw(number, [a, b, c, d, e, f]) }) as c_long
}

/// Before the standard library closes a descriptor, it reads the descriptor's flags, and aborts the
/// process if it is not open, which it treats as a bug. Here it is no bug, since the program may
/// close all descriptors at any time.
pub(super) unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: (1) the caller.
    let result = unsafe { raw(libc::SYS_fcntl, [fd.word(), command.word(), argument, 0, 0, 0]) };
    if command == libc::F_GETFD && result == -(libc::EBADF as isize) {
        return 0;
    }
    answer(result) as c_int
}

/// Returns an error number as its result.
pub(super) unsafe extern "C" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    time: Ptr,
    rest: Ptr,
) -> c_int {
    // SAFETY: (1) the caller.
    let result = unsafe {
        raw(libc::SYS_clock_nanosleep, [clock.word(), flags.word(), time.word(), rest.word(), 0, 0])
    };
    -(result as c_int)
}

pub(super) unsafe extern "C" fn getcwd(to: *mut c_char, len: usize) -> *mut c_char {
    // SAFETY: (1) the caller.
    let result = answer(unsafe { raw(libc::SYS_getcwd, [to.word(), len, 0, 0, 0, 0]) });
    if result < 0 { std::ptr::null_mut() } else { to }
}

/// The kernel returns how many bytes it has filled; the C library clears the others.
pub(super) unsafe extern "C" fn sched_getaffinity(
    process: c_int,
    len: usize,
    set: *mut u8,
) -> c_int {
    // SAFETY: (1) the caller.
    let filled = answer(unsafe {
        raw(libc::SYS_sched_getaffinity, [process.word(), len, set.word(), 0, 0, 0])
    });
    let Ok(filled) = usize::try_from(filled) else { return -1 };
    // SAFETY: (1) the set is `len` bytes, of which the kernel has filled `filled`.
    unsafe { set.add(filled).write_bytes(0, len.saturating_sub(filled)) };
    0
}
