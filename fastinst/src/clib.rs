//! The library's own C library: the functions of one that it needs and that a program may define.
//!
//! A symbol of a shared library is bound to the first definition in the loader's order, which is
//! the program's where it has one: `malloc`, `memcpy`, `log`, `read`. A preloaded library would
//! call the program's, on its own thread, at times that the program does not expect. So the
//! functions of this table, which the Rust standard library and this workspace's crates call by
//! name, are defined here, as `fastinst_own_NAME`, and `build.rs` makes the linker bind the names
//! to these definitions (`--defsym`): inside of the shared library only, which exports none of
//! them. Programs that link the Rust library keep their allocator and their C library.
//!
//! Functions that only the C library can provide stay with it; doc/isolation.md has the list, and a
//! test checks the shared library against it.
//!
//! - `memory`: bytes and strings, in assembly;
//! - `calls`: system calls, which are not cancellation points here;
//! - `clock`: the time;
//! - `signals`: sets, masks, actions;
//! - `folder`: directory listings;
//! - `surroundings`: the environment, paths, error messages, properties of the machine;
//! - `thread_data`: the addresses of thread-local variables;
//! - `unwinding`: what the linked unwinder asks for about this library's frames.
//!
//! Logarithms come from `libm`, memory blocks from the [heap](crate::heap).
//!
//! # Safety
//!
//! This module exists to replace functions of C. It is safe if its callers keep the rules of the C
//! library.
#![allow(unsafe_code)]

mod calls;
pub(crate) mod clock;
mod folder;
mod memory;
mod signals;
mod surroundings;
pub(crate) mod thread_data;
mod unwinding;

use crate::heap;
use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use wordpatch::os::set_errno;

/// Makes functions visible to the linker by name, and does not export them.
macro_rules! provide {
    ($($name:ident = $function:path;)*) => {
        $(global_asm!(
            concat!(".pushsection .text.fastinst_own_", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl fastinst_own_", stringify!($name)),
            concat!(".hidden fastinst_own_", stringify!($name)),
            concat!(".type fastinst_own_", stringify!($name), ",@function"),
            concat!("fastinst_own_", stringify!($name), ": jmp {}"),
            concat!(".size fastinst_own_", stringify!($name), ", . - fastinst_own_", stringify!($name)),
            ".popsection",
            sym $function,
        );)*
    };
}

// As in build.rs, which also lists: bcmp, memcpy (as memcmp, memmove), memcmp, memmove, memset,
// strlen, __tls_get_addr.
provide! {
    __cxa_thread_atexit_impl = thread_data::thread_atexit;
    __xpg_strerror_r = surroundings::strerror;
    _dl_find_object = unwinding::find_object;
    calloc = calloc;
    clock_gettime = clock::clock_gettime;
    clock_nanosleep = calls::clock_nanosleep;
    close = calls::close;
    closedir = folder::closedir;
    dirfd = folder::dirfd;
    exp = exp;
    exp2 = exp2;
    expm1 = expm1;
    fcntl = calls::fcntl;
    fcntl64 = calls::fcntl;
    free = free;
    fstat = calls::fstat;
    fstat64 = calls::fstat;
    fsync = calls::fsync;
    ftruncate = calls::ftruncate;
    getcwd = calls::getcwd;
    getenv = surroundings::getenv;
    getpid = calls::getpid;
    getppid = calls::getppid;
    getrandom = calls::getrandom;
    getrlimit = calls::getrlimit;
    gettid = calls::gettid;
    getuid = calls::getuid;
    ioctl = calls::ioctl;
    kill = calls::kill;
    log = log;
    log10 = log10;
    log1p = log1p;
    log2 = log2;
    lseek64 = calls::lseek;
    lstat64 = calls::lstat;
    madvise = calls::madvise;
    malloc = malloc;
    memfd_create = calls::memfd_create;
    mkdir = calls::mkdir;
    mmap = calls::mmap;
    mmap64 = calls::mmap;
    mprotect = calls::mprotect;
    mremap = calls::mremap;
    munlock = calls::munlock;
    munmap = calls::munmap;
    nanosleep = calls::nanosleep;
    open = calls::open;
    open64 = calls::open;
    openat64 = calls::openat;
    opendir = folder::opendir;
    pause = calls::pause;
    poll = calls::poll;
    posix_memalign = posix_memalign;
    pow = pow;
    prctl = calls::prctl;
    pthread_mutex_lock = unwinding::lock;
    pthread_once = unwinding::once;
    pthread_setname_np = surroundings::pthread_setname;
    pthread_sigmask = signals::pthread_sigmask;
    pwrite = calls::pwrite;
    read = calls::read;
    readdir64 = folder::readdir;
    readlink = calls::readlink;
    realloc = realloc;
    realpath = surroundings::realpath;
    rename = calls::rename;
    sched_getaffinity = calls::sched_getaffinity;
    sched_yield = calls::sched_yield;
    sigaction = signals::sigaction;
    sigaddset = signals::sigaddset;
    sigaltstack = calls::sigaltstack;
    sigdelset = signals::sigdelset;
    sigemptyset = signals::sigemptyset;
    sigfillset = signals::sigfillset;
    stat64 = calls::stat;
    statx = calls::statx;
    syscall = calls::syscall;
    sysconf = surroundings::sysconf;
    unlink = calls::unlink;
    write = calls::write;
    writev = calls::writev;
}

extern "C" fn malloc(len: usize) -> *mut u8 {
    or_enomem(heap::allocate(len, 1))
}

extern "C" fn calloc(count: usize, len: usize) -> *mut u8 {
    let block =
        count.checked_mul(len).map_or(std::ptr::null_mut(), |len| heap::allocate_zeros(len, 1));
    or_enomem(block)
}

unsafe extern "C" fn realloc(block: *mut u8, len: usize) -> *mut u8 {
    // SAFETY: (1) the caller.
    or_enomem(unsafe { heap::resize(block, len) })
}

unsafe extern "C" fn free(block: *mut u8) {
    // SAFETY: (1) the caller.
    unsafe { heap::release(block) };
}

unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, len: usize) -> c_int {
    let block = heap::allocate(len, align);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: (1) the caller.
    unsafe { to.write(block.cast()) };
    0
}

fn or_enomem(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        set_errno(libc::ENOMEM);
    }
    block
}

macro_rules! functions_of_libm {
    ($($name:ident($($argument:ident),*) = $path:path;)*) => {
        $(extern "C" fn $name($($argument: f64),*) -> f64 {
            $path($($argument),*)
        })*
    };
}

functions_of_libm! {
    exp(x) = libm::exp;
    exp2(x) = libm::exp2;
    expm1(x) = libm::expm1;
    log(x) = libm::log;
    log10(x) = libm::log10;
    log1p(x) = libm::log1p;
    log2(x) = libm::log2;
    pow(x, y) = libm::pow;
}
