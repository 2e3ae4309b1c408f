//! Small files read and written without allocating, for signal handlers and forked children.

use super::{OsError, check};
use crate::addr::CodeAddr;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Opens `path` for reading, without a wait for the other end of a pipe. Usable in a signal
/// handler.
pub fn open(path: &CStr) -> Result<OwnedFd, OsError> {
    open_with(path, libc::O_RDONLY | libc::O_NONBLOCK)
}

/// Opens `path` for reading and writing. Usable in a signal handler.
pub fn open_for_writing(path: &CStr) -> Result<OwnedFd, OsError> {
    open_with(path, libc::O_RDWR)
}

fn open_with(path: &CStr, flags: libc::c_int) -> Result<OwnedFd, OsError> {
    // SAFETY: (1) `path` is a C string that lives across the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    check("open", fd.into())?;
    // SAFETY: (1) `fd` was opened by the call above and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The largest size of a file that this process may write (RLIMIT_FSIZE). Beyond it the kernel
/// refuses to write and sends SIGXFSZ, which kills the process: code that extends a file checks
/// this first. Usable in a signal handler.
pub fn largest() -> u64 {
    super::limits::of(libc::RLIMIT_FSIZE).unwrap_or(u64::MAX)
}

/// The size of a file. Usable in a signal handler.
pub fn size(file: &impl AsRawFd) -> Result<u64, OsError> {
    // SAFETY: (1) a record to write to.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        check("fstat", libc::fstat(file.as_raw_fd(), &raw mut data).into())?;
        Ok(data.st_size as u64)
    }
}

/// Reads as much of the file's beginning as fits into `buffer`. Usable in a signal handler.
pub fn read_start<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], OsError> {
    let file = open(path)?;
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: (1) `rest` is writable for its length.
        let n = unsafe { libc::read(file.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
        match check("read", n as libc::c_long) {
            Ok(0) => break,
            Ok(n) => filled += n as usize,
            Err(error) if error.errno == libc::EINTR => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

/// Writes `bytes` at offset `to`, as /proc/self/mem expects. Usable in a signal handler.
///
/// # Safety
/// `file` is the process's own memory, and the caller may change the bytes at `to`.
pub unsafe fn write_memory(file: &impl AsRawFd, to: CodeAddr, bytes: &[u8]) -> Result<(), OsError> {
    // SAFETY: (1) `bytes` is readable; (2) the caller is responsible for the bytes that the kernel
    // changes.
    let n = unsafe {
        libc::pwrite(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), to.get() as libc::off_t)
    };
    match check("pwrite", n as libc::c_long)? {
        n if n as usize == bytes.len() => Ok(()),
        _ => Err(OsError { call: "pwrite", errno: libc::EFAULT }),
    }
}

/// Reads memory of this process by its address; unmapped memory is an error.
pub fn read_own(address: usize, buffer: &mut [u8]) -> Result<(), OsError> {
    let to = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: (1) one buffer each, and the first is writable for its length; (2) the kernel reads
    // the second, or returns an error.
    let read = unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            super::threads::process(),
            &raw const to,
            1usize,
            &raw const from,
            1usize,
            0usize,
        )
    };
    match check("process_vm_readv", read)? {
        n if n as usize == buffer.len() => Ok(()),
        _ => Err(OsError { call: "process_vm_readv", errno: libc::EFAULT }),
    }
}

/// Waits until a stream accepts more bytes, for `patience` at most.
pub fn await_room(writing: &impl AsRawFd, patience: Duration) {
    await_event(writing, libc::POLLOUT, patience);
}

fn await_event(file: &impl AsRawFd, events: libc::c_short, patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
        // SAFETY: (1) one structure, valid across the call.
        let ready = unsafe { libc::poll(&mut poll, 1, left.as_millis() as libc::c_int) };
        // Interrupted: wait for the rest of the time.
        if ready != -1 || super::errno() != libc::EINTR {
            return;
        }
    }
}
