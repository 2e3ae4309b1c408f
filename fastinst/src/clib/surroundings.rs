//! The environment, paths, error messages, properties of the machine.

use super::calls::{answer, close, open, prctl, raw};
use crate::heap;
use std::ffi::{CStr, c_char, c_int, c_long};
use wordpatch::os::set_errno;

unsafe extern "C" {
    static environ: *const *const c_char;
}

pub(super) unsafe extern "C" fn getenv(name: *const c_char) -> *const c_char {
    // SAFETY: (1) the caller; (2) the environment is a null-terminated list of strings, and a
    // thread that changes it keeps others from reading.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes();
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if text.len() > name.len() && text[name.len()] == b'=' && text.starts_with(name) {
                return (*entry).add(name.len() + 1);
            }
            entry = entry.add(1);
        }
    }
    std::ptr::null()
}

/// An open descriptor has its path in /proc/self/fd.
pub(super) unsafe extern "C" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    // SAFETY: (1) the caller.
    let fd = unsafe { open(path, libc::O_PATH | libc::O_CLOEXEC, 0) };
    if fd < 0 {
        return std::ptr::null_mut();
    }
    let mut found = [0u8; libc::PATH_MAX as usize];
    let link = format!("/proc/self/fd/{fd}\0");
    let words = [
        link.as_ptr().expose_provenance(),
        found.as_mut_ptr().expose_provenance(),
        found.len() - 1,
        0,
        0,
        0,
    ];
    // SAFETY: (1) a zero-terminated string; a buffer and its length.
    let len = answer(unsafe { raw(libc::SYS_readlink, words) });
    // SAFETY: (1) opened above.
    unsafe { close(fd) };
    let Ok(len) = usize::try_from(len) else { return std::ptr::null_mut() };
    let to = if to.is_null() { heap::allocate(len + 1, 1) } else { to.cast() };
    if to.is_null() {
        set_errno(libc::ENOMEM);
    } else {
        // SAFETY: (1) made above, or the caller's, of PATH_MAX bytes.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), to, len + 1) };
    }
    to.cast()
}

/// Names the calling thread only, which suffices: all of the library's threads name themselves.
pub(super) unsafe extern "C" fn pthread_setname(
    _thread: libc::pthread_t,
    name: *const c_char,
) -> c_int {
    // SAFETY: (1) the caller.
    unsafe { prctl(libc::PR_SET_NAME, name.expose_provenance(), 0, 0, 0) }
}

pub(super) extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        libc::_SC_PAGESIZE => wordpatch::os::pages::PAGE as c_long,
        // The value that programs see, whatever the kernel uses internally (proc_pid_stat(5)).
        libc::_SC_CLK_TCK => 100,
        _ => {
            set_errno(libc::EINVAL);
            -1
        }
    }
}

/// The C library's function would look for a translation.
pub(super) unsafe extern "C" fn strerror(error: c_int, to: *mut c_char, room: usize) -> c_int {
    let name = name(error);
    let len = name.len().min(room.saturating_sub(1));
    if room > 0 {
        // SAFETY: (1) the caller; (2) one byte less than the buffer has.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), to.cast(), len);
            to.add(len).write(0);
        }
    }
    0
}

/// Messages for errors of files, memory and threads.
fn name(error: c_int) -> &'static str {
    match error {
        libc::EPERM => "Operation not permitted",
        libc::ENOENT => "No such file or directory",
        libc::ESRCH => "No such process",
        libc::EINTR => "Interrupted system call",
        libc::EIO => "Input/output error",
        libc::ENXIO => "No such device or address",
        libc::EBADF => "Bad file descriptor",
        libc::EAGAIN => "Resource temporarily unavailable",
        libc::ENOMEM => "Cannot allocate memory",
        libc::EACCES => "Permission denied",
        libc::EFAULT => "Bad address",
        libc::EBUSY => "Device or resource busy",
        libc::EEXIST => "File exists",
        libc::EXDEV => "Invalid cross-device link",
        libc::ENODEV => "No such device",
        libc::ENOTDIR => "Not a directory",
        libc::EISDIR => "Is a directory",
        libc::EINVAL => "Invalid argument",
        libc::ENFILE => "Too many open files in system",
        libc::EMFILE => "Too many open files",
        libc::ETXTBSY => "Text file busy",
        libc::EFBIG => "File too large",
        libc::ENOSPC => "No space left on device",
        libc::ESPIPE => "Illegal seek",
        libc::EROFS => "Read-only file system",
        libc::EPIPE => "Broken pipe",
        libc::ENAMETOOLONG => "File name too long",
        libc::ENOSYS => "Function not implemented",
        libc::ELOOP => "Too many levels of symbolic links",
        libc::EOPNOTSUPP => "Operation not supported",
        libc::ECONNREFUSED => "Connection refused",
        libc::ETIMEDOUT => "Connection timed out",
        libc::ESTALE => "Stale file handle",
        libc::EDQUOT => "Disk quota exceeded",
        _ => "Error",
    }
}
