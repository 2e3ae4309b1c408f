//! All system calls of the workspace: mappings, protections, barriers, threads and signals.
//!
//! Functions that are usable in a signal handler are documented as such; they neither allocate nor
//! take a lock.
//!
//! # Safety
//!
//! This module exists because system calls are unsafe by nature. It contains no policy: its callers
//! decide what to map, protect or send, and are responsible for it.
#![allow(unsafe_code)]

pub mod affinity;
pub mod clocks;
pub mod cpu;
pub mod descriptors;
pub mod files;
pub mod limits;
pub mod maps;
pub mod membarrier;
pub mod pages;
pub mod perf;
pub mod replace;
pub mod signals;
pub mod sockets;
pub mod spare_stacks;
pub mod stacks;
pub mod threads;
pub mod tracing;
pub mod trust;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A system call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsError {
    /// The call, as its manual page names it.
    pub call: &'static str,
    /// The kernel's error number.
    pub errno: i32,
}

impl OsError {
    /// The failure of `call`, with the thread's current `errno`.
    pub fn last(call: &'static str) -> Self {
        Self { call, errno: errno() }
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, std::io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for OsError {}

/// The thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: (1) the C library returns a valid pointer to the calling thread's own variable.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's `errno`: a signal handler has to restore it.
pub fn set_errno(value: i32) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}

/// Whether this process has privileges that its caller lacks, as with setuid: then it ignores
/// settings of the environment.
pub fn is_privileged() -> bool {
    // SAFETY: (1) the call takes a number and touches no memory.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the loader keeps the library (RTLD_NODELETE), or never unloads it.
static STAYS: AtomicBool = AtomicBool::new(false);

/// Records that the shared library which contains this code was preloaded. The loader never unloads
/// it, so no call is needed to keep it.
pub(crate) fn is_preloaded() {
    STAYS.store(true, Ordering::Relaxed);
}

/// Keeps the shared library that contains this code, if there is one, mapped for as long as the
/// process lives: `dlclose` must not unmap functions that the kernel and the C library were given
/// to call.
pub fn stay_loaded() {
    if STAYS.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: (1) both calls take and return C strings and handles of the loader; (2) the handle is
    // leaked on purpose.
    unsafe {
        let mut here: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(stay_loaded as *const libc::c_void, &mut here) != 0 {
            libc::dlopen(here.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// The result of a call that reports failure by -1.
fn check(call: &'static str, result: libc::c_long) -> Result<libc::c_long, OsError> {
    if result == -1 { Err(OsError::last(call)) } else { Ok(result) }
}
