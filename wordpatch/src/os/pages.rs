//! Pages: mapping and protecting memory, and memory files.

use super::{OsError, check};
use crate::addr::CodeAddr;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The size of a page on x86-64.
pub const PAGE: usize = 4096;

/// The protection of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// No access.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
    /// Read, write and execute.
    ReadWriteExecute,
}

impl Protection {
    fn flags(self) -> libc::c_int {
        match self {
            Self::None => libc::PROT_NONE,
            Self::Read => libc::PROT_READ,
            Self::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            Self::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
            Self::ReadWriteExecute => libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
        }
    }
}

/// `len` rounded up to whole pages.
pub const fn round_up(len: usize) -> usize {
    (len + PAGE - 1) & !(PAGE - 1)
}

/// Changes the protection of the pages that hold `[start, start + len)`. Usable in a signal
/// handler.
///
/// # Safety
/// The caller owns those pages, or keeps possible every access that other code makes to them.
pub unsafe fn protect(start: CodeAddr, len: usize, protection: Protection) -> Result<(), OsError> {
    let first = start.align_down(PAGE);
    let bytes = round_up(start.get() + len - first.get());
    // SAFETY: (1) the caller, see # Safety. A direct system call: the function that interposes the
    // C library's keeps the library's pages writable.
    let result =
        unsafe { libc::syscall(libc::SYS_mprotect, first.get(), bytes, protection.flags()) };
    check("mprotect", result).map(drop)
}

/// The address of a new mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The kernel chooses it.
    Anywhere,
    /// Exactly this one, and only if nothing is mapped there yet.
    Free(CodeAddr),
    /// Exactly this one, replacing any mapping.
    Over(CodeAddr),
}

/// The source of a mapping: flags, a file, and an offset in it.
type Source = (libc::c_int, libc::c_int, usize);

fn map(
    place: Place,
    len: usize,
    protection: Protection,
    (flags, fd, offset): Source,
) -> Result<CodeAddr, OsError> {
    let (hint, fixed) = match place {
        Place::Anywhere => (0, 0),
        Place::Free(at) => (at.get(), libc::MAP_FIXED_NOREPLACE),
        Place::Over(at) => (at.get(), libc::MAP_FIXED),
    };
    // SAFETY: (1) a new mapping touches nothing that exists, except with `Over`, which only the
    // unsafe functions below pass on.
    let at = unsafe {
        libc::mmap(
            hint as *mut libc::c_void,
            len,
            protection.flags(),
            flags | fixed,
            fd,
            offset as libc::off_t,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(OsError::last("mmap"));
    }
    let at = CodeAddr::new(at as usize);
    if let Place::Free(wanted) = place
        && at != wanted
    {
        // Kernels before 4.17 treat the address as a hint. SAFETY: (1) the call above made the
        // mapping, and no other code has its address.
        unsafe { unmap(at, len)? };
        return Err(OsError { call: "mmap", errno: libc::EEXIST });
    }
    Ok(at)
}

/// Maps fresh private memory.
///
/// # Safety
/// With [`Place::Over`], the caller owns what was mapped there.
pub unsafe fn map_private(
    place: Place,
    len: usize,
    protection: Protection,
) -> Result<CodeAddr, OsError> {
    map(place, len, protection, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0))
}

/// Maps a part of `file`, from a whole page on, shared with its other mappings. Usable in a signal
/// handler and after `fork`.
///
/// # Safety
/// With [`Place::Over`], the caller owns what was mapped there.
pub unsafe fn map_file_at(
    place: Place,
    len: usize,
    protection: Protection,
    file: &impl AsRawFd,
    offset: usize,
) -> Result<CodeAddr, OsError> {
    map(place, len, protection, (libc::MAP_SHARED, file.as_raw_fd(), offset))
}

/// Maps a part of `file`, from a whole page on, of which this process gets a private copy when it
/// writes to it.
///
/// # Safety
/// With [`Place::Over`], the caller owns what was mapped there.
pub unsafe fn map_file_private(
    place: Place,
    len: usize,
    protection: Protection,
    file: &impl AsRawFd,
    offset: usize,
) -> Result<CodeAddr, OsError> {
    map(place, len, protection, (libc::MAP_PRIVATE, file.as_raw_fd(), offset))
}

/// Makes the kernel populate writable pages now, instead of each at the first touch. Kernels before
/// 5.14 cannot, which only affects the time of the first touch.
pub fn populate(start: CodeAddr, len: usize) {
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    let first = start.align_down(PAGE);
    let bytes = round_up(start.get() + len - first.get());
    // SAFETY: (1) advice that changes no contents: the kernel refuses memory that is not mapped or
    // not writable.
    unsafe { libc::madvise(first.get() as *mut libc::c_void, bytes, MADV_POPULATE_WRITE) };
}

/// Makes the kernel fill the pages with zeros in every child process, however it is made. Kernels
/// before 4.14 cannot.
pub fn wipe_on_fork(start: CodeAddr, len: usize) -> Result<(), OsError> {
    // SAFETY: (1) advice that changes nothing in this process; the kernel refuses memory that is
    // not private and anonymous.
    let result =
        unsafe { libc::madvise(start.get() as *mut libc::c_void, len, libc::MADV_WIPEONFORK) };
    check("madvise", result.into()).map(drop)
}

/// Reserves address space without memory: [`protect`] makes parts of it usable. Until then it is
/// not charged to the process, and not locked, even if the program has locked all of its memory
/// (mlockall(2)).
pub fn reserve(len: usize) -> Result<CodeAddr, OsError> {
    // SAFETY: (1) a new mapping.
    let at = unsafe { map_private(Place::Anywhere, len, Protection::None)? };
    unlock(at, len);
    Ok(at)
}

/// Keeps untouched pages from taking memory if all memory is locked. If nothing is locked, it does
/// nothing.
pub fn unlock(start: CodeAddr, len: usize) {
    // SAFETY: (1) numbers; the call changes no contents of any memory.
    unsafe { libc::munlock(start.get() as *const libc::c_void, len) };
}

/// The memory that is available to the process: the machine's, or what is left of its container's.
pub fn memory() -> usize {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    // MemTotal is its first line, in kilobytes (proc_meminfo(5)).
    let machine = read("/proc/meminfo")
        .split_whitespace()
        .nth(1)
        .map_or(0, |kilobytes| kilobytes.parse().unwrap_or(0usize) << 10);
    let container = read("/sys/fs/cgroup/memory.max");
    container.trim().parse().map_or(machine, |most: usize| most.min(machine))
}

/// Whether private memory that is never touched costs the process nothing: the kernel charges it
/// when it is touched (vm.overcommit_memory), and no limit counts it (RLIMIT_AS, RLIMIT_DATA).
pub fn untouched_is_free() -> bool {
    let is_unlimited = |resource| super::limits::of(resource).is_none();
    let charges_at_once = std::fs::read("/proc/sys/vm/overcommit_memory")
        .is_ok_and(|mode| mode.first() == Some(&b'2'));
    !charges_at_once && is_unlimited(libc::RLIMIT_AS) && is_unlimited(libc::RLIMIT_DATA)
}

/// Maps private memory at a free place, of which only a few pages will be touched. Untouched pages
/// take no memory, even if the program has locked all of its memory (mlockall(2)); no huge page
/// replaces them, and they are not part of a core dump.
pub fn map_sparse(at: CodeAddr, len: usize, protection: Protection) -> Result<(), OsError> {
    // SAFETY: (1) a new mapping, of a place that is free.
    unsafe { map_private(Place::Free(at), len, Protection::None)? };
    unlock(at, len);
    let start = at.get() as *mut libc::c_void;
    // SAFETY: (1) numbers, and advice that changes no contents of the new mapping.
    unsafe {
        libc::madvise(start, len, libc::MADV_NOHUGEPAGE);
        libc::madvise(start, len, libc::MADV_DONTDUMP);
    }
    // SAFETY: (1) the call above made the mapping, and no other code has its address.
    let protected = unsafe { protect(at, len, protection) };
    if protected.is_err() {
        // SAFETY: as above.
        unsafe { unmap(at, len)? };
    }
    protected
}

/// Maps anonymous zeroed memory, which can be mapped again by [`again`], and which forked children
/// share. Limits of files do not apply to it: neither their size, nor the number of open ones, nor
/// whether memory files may be executed.
pub fn map_shared(place: Place, len: usize, protection: Protection) -> Result<CodeAddr, OsError> {
    let place = match place {
        // The mapping there would be lost: see `move_over`.
        Place::Over(_) => return Err(OsError { call: "mmap", errno: libc::EEXIST }),
        place => place,
    };
    map(
        place,
        len,
        protection,
        (libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
    )
}

/// Maps shared memory a second time, at another address, by a length of zero (mremap(2)).
///
/// # Safety
/// The caller owns the `len` bytes at `start`, which [`map_shared`] has mapped.
pub unsafe fn again(
    start: CodeAddr,
    len: usize,
    protection: Protection,
) -> Result<CodeAddr, OsError> {
    // SAFETY: (1) a new mapping; (2) the caller.
    let second =
        unsafe { libc::mremap(start.get() as *mut libc::c_void, 0, len, libc::MREMAP_MAYMOVE) };
    if second == libc::MAP_FAILED {
        return Err(OsError::last("mremap"));
    }
    let second = CodeAddr::new(second as usize);
    // SAFETY: (1) new, and no other code has its address.
    unsafe {
        if let Err(error) = protect(second, len, protection) {
            unmap(second, len)?;
            return Err(error);
        }
    }
    Ok(second)
}

/// Moves a mapping over another one, which is removed: a thread that executes there meanwhile
/// waits. Usable after `fork`.
///
/// # Safety
/// The caller owns both, `len` bytes each.
pub unsafe fn move_over(from: CodeAddr, to: CodeAddr, len: usize) -> Result<(), OsError> {
    const FLAGS: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: (1) the caller.
    let moved = unsafe {
        libc::mremap(
            from.get() as *mut libc::c_void,
            len,
            len,
            FLAGS,
            to.get() as *mut libc::c_void,
        )
    };
    if moved == libc::MAP_FAILED { Err(OsError::last("mremap")) } else { Ok(()) }
}

/// Makes a mapping longer or shorter. It moves if there is no room after it. If a file is mapped,
/// more of the file is mapped.
///
/// # Safety
/// The caller owns it, and nothing points into it.
pub unsafe fn grow(start: CodeAddr, len: usize, to: usize) -> Result<CodeAddr, OsError> {
    // SAFETY: (1) the caller.
    let moved =
        unsafe { libc::mremap(start.get() as *mut libc::c_void, len, to, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        return Err(OsError::last("mremap"));
    }
    Ok(CodeAddr::new(moved as usize))
}

/// Removes a mapping.
///
/// # Safety
/// No code uses `[start, start + len)` any more, and the caller owns it.
pub unsafe fn unmap(start: CodeAddr, len: usize) -> Result<(), OsError> {
    // SAFETY: (1) the caller, see # Safety.
    let result = unsafe { libc::munmap(start.get() as *mut libc::c_void, len) };
    check("munmap", result.into()).map(drop)
}

/// Returns the memory of private pages to the kernel; they stay mapped and are zero from now on.
///
/// # Safety
/// No code uses the contents of `[start, start + len)`, and the caller owns it.
pub unsafe fn discard(start: CodeAddr, len: usize) -> Result<(), OsError> {
    // SAFETY: (1) the caller, see # Safety.
    let result =
        unsafe { libc::madvise(start.get() as *mut libc::c_void, len, libc::MADV_DONTNEED) };
    check("madvise", result.into()).map(drop)
}

/// An anonymous file of `len` bytes for data that processes share: it cannot become shorter, so
/// that its mappings never fault.
pub fn shared_file(name: &CStr, len: usize) -> Result<OwnedFd, OsError> {
    // Kernels since 6.3 may be configured to refuse files that can be executed (memfd_create(2));
    // older kernels do not know the flag.
    const MFD_NOEXEC_SEAL: libc::c_uint = 0x8;
    let create = |flags| {
        // SAFETY: (1) `name` is a C string that lives across the call.
        unsafe { libc::memfd_create(name.as_ptr(), flags) }
    };
    let mut fd = create(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if fd == -1 && super::errno() == libc::EINVAL {
        fd = create(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    }
    check("memfd_create", fd.into())?;
    // SAFETY: (1) `fd` was opened by the call above and no other code has it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    resize(&file, len)?;
    // SAFETY: (1) the file opened above.
    let sealed = unsafe {
        libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)
    };
    check("fcntl", sealed.into())?;
    Ok(file)
}

/// Gives a file its length. A length above the process's limit (RLIMIT_FSIZE) is an error here: the
/// kernel would also send SIGXFSZ, which kills.
fn resize(file: &OwnedFd, len: usize) -> Result<(), OsError> {
    if super::files::largest() < len as u64 {
        return Err(OsError { call: "ftruncate", errno: libc::EFBIG });
    }
    // SAFETY: (1) an open file of the caller.
    check("ftruncate", unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) }.into())
        .map(drop)
}
