//! The functions of the C library that the linked unwinder calls.
//!
//! `build.rs` links GCC's static unwinder, `libgcc_eh`, into the shared library, so that the
//! program need not have `libgcc_s`. Panics in the library are caught in the library: this unwinder
//! only has to find the library's own frames.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Release};

unsafe extern "C" {
    /// The ELF header of the file that contains this code; the linker defines it.
    static __ehdr_start: libc::Elf64_Ehdr;
}

/// glibc's `struct dl_find_object` (since version 2.35), without its reserved words.
#[repr(C)]
pub(super) struct Object {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    link_map: *const c_void,
    frames: *const c_void,
}

/// `_dl_find_object`: the unwind information of the file that contains a code address; -1 for all
/// files but this one, where unwinding ends.
pub(super) unsafe extern "C" fn find_object(place: *const c_void, to: *mut Object) -> c_int {
    let start: *const c_void = (&raw const __ehdr_start).cast();
    // SAFETY: (1) this file has these headers, and they are mapped: unwinders read them, too.
    let segments = unsafe {
        let first = start.byte_add(__ehdr_start.e_phoff as usize).cast::<libc::Elf64_Phdr>();
        std::slice::from_raw_parts(first, __ehdr_start.e_phnum.into())
    };
    let of = |kind| segments.iter().filter(move |segment| segment.p_type == kind);
    let ends = of(libc::PT_LOAD).map(|segment| segment.p_vaddr + segment.p_memsz);
    let end = start.wrapping_byte_add(ends.max().unwrap_or(0) as usize);
    let Some(frames) = of(libc::PT_GNU_EH_FRAME).next().filter(|_| (start..end).contains(&place))
    else {
        return -1;
    };
    let frames = start.wrapping_byte_add(frames.p_vaddr as usize);
    // SAFETY: (2) the caller.
    unsafe { to.write(Object { flags: 0, start, end, link_map: std::ptr::null(), frames }) };
    0
}

/// `pthread_once`. The unwinder initialises a table with it: threads that do so at the same time
/// store the same values.
pub(super) unsafe extern "C" fn once(done: *mut c_int, make: extern "C" fn()) -> c_int {
    // SAFETY: (1) the caller.
    let done = unsafe { AtomicI32::from_ptr(done) };
    if done.load(Acquire) == 0 {
        make();
        done.store(1, Release);
    }
    0
}

/// `pthread_mutex_lock` and `_unlock`, for the list of unwind information that is registered at run
/// time. No code registers any with this unwinder, so the list stays empty.
pub(super) extern "C" fn lock(_list: *mut c_void) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;

    fn found(place: *const c_void) -> Option<Object> {
        let mut object = MaybeUninit::uninit();
        // SAFETY: (1) a place to write to; (2) it was written to if the result is 0.
        unsafe { (find_object(place, object.as_mut_ptr()) == 0).then(|| object.assume_init()) }
    }

    #[test]
    fn frames_of_ours_are_found_and_those_of_others_are_not() {
        let Object { start, end, frames, .. } = found(find_object as *const c_void).unwrap();
        assert!((start..end).contains(&frames));
        // SAFETY: (1) it lies in this file, as asserted above, and begins with a version.
        assert_eq!(unsafe { *frames.cast::<u8>() }, 1);
        assert!(found(libc::getpid as *const c_void).is_none());
        assert!(found(end).is_none());
    }

    #[test]
    fn what_is_done_once_is_not_done_again() {
        static TIMES: AtomicI32 = AtomicI32::new(0);
        extern "C" fn count() {
            TIMES.fetch_add(1, Release);
        }
        let mut done = 0;
        for _ in 0..2 {
            // SAFETY: (1) a word that no other thread has.
            assert_eq!(unsafe { once(&raw mut done, count) }, 0);
        }
        assert_eq!(TIMES.load(Acquire), 1);
    }
}
