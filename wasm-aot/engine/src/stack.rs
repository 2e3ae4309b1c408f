//! How deep machine code may use a thread's stack.
//!
//! # Safety
//!
//! This module exists to ask the C library where the thread's stack is.
#![allow(unsafe_code)]

use std::cell::Cell;

/// Bytes reserved for host functions, and for signal handlers on this stack.
const RESERVE: usize = 128 << 10;

thread_local! {
    /// The lowest address of this thread's stack, or 0 if not yet known.
    static LOWEST: Cell<usize> = const { Cell::new(0) };
}

/// The lowest address for frames of machine code if they may take `size` bytes from here on; they
/// get less if the thread's stack ends before.
#[inline(never)]
pub(crate) fn limit(size: usize) -> usize {
    let here = here();
    let end = lowest().map_or(0, |lowest| lowest + RESERVE);
    here.saturating_sub(size).max(end)
}

/// How many bytes of this thread's stack are left.
pub(crate) fn left() -> usize {
    lowest().map_or(0, |lowest| here().saturating_sub(lowest))
}

#[inline(never)]
fn here() -> usize {
    let here = 0u8;
    &raw const here as usize
}

fn lowest() -> Option<usize> {
    if LOWEST.get() == 0 {
        LOWEST.set(lowest_address()?);
    }
    Some(LOWEST.get())
}

fn lowest_address() -> Option<usize> {
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: (1) the attributes are initialised by the first call, read by the second, and
    // destroyed by the third; (2) the pointers are to locals.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let got = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        (got == 0).then_some(start as usize)
    }
}
