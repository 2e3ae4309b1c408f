//! Directory listings, without the C library's streams.

use super::calls::{answer, close, open, raw};
use std::ffi::{c_char, c_int};

/// A directory that is being read.
#[repr(C, align(8))]
pub(super) struct Folder {
    /// The entries that the kernel has written, each with its length.
    entries: [u8; 4096],
    fd: c_int,
    next: usize,
    filled: usize,
}

/// The offset of an entry's length (getdents(2)).
const LENGTH: usize = 16;

pub(super) unsafe extern "C" fn opendir(path: *const c_char) -> *mut Folder {
    // SAFETY: (1) the caller.
    let fd = unsafe { open(path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0) };
    if fd < 0 {
        return std::ptr::null_mut();
    }
    Box::into_raw(Box::new(Folder { entries: [0; 4096], fd, next: 0, filled: 0 }))
}

/// The next entry, valid until the next call; null at the end.
pub(super) unsafe extern "C" fn readdir(folder: *mut Folder) -> *mut u8 {
    // SAFETY: (1) the caller.
    let folder = unsafe { &mut *folder };
    if folder.next == folder.filled {
        let words = [
            folder.fd as usize,
            folder.entries.as_mut_ptr().expose_provenance(),
            folder.entries.len(),
            0,
            0,
            0,
        ];
        // SAFETY: (1) a buffer and its length.
        let filled = answer(unsafe { raw(libc::SYS_getdents64, words) });
        (folder.next, folder.filled) = (0, usize::try_from(filled).unwrap_or(0));
        if folder.filled == 0 {
            return std::ptr::null_mut();
        }
    }
    let at = folder.next;
    folder.next += usize::from(u16::from_le_bytes([
        folder.entries[at + LENGTH],
        folder.entries[at + LENGTH + 1],
    ]));
    folder.entries[at..].as_mut_ptr()
}

pub(super) unsafe extern "C" fn dirfd(folder: *const Folder) -> c_int {
    // SAFETY: (1) the caller.
    unsafe { (*folder).fd }
}

pub(super) unsafe extern "C" fn closedir(folder: *mut Folder) -> c_int {
    // SAFETY: (1) made by `opendir`; the caller.
    unsafe { close(Box::from_raw(folder).fd) };
    // The program may have closed it; the standard library would treat an error as a bug.
    0
}
