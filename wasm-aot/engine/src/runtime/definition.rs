//! Where machine code finds a memory or a table: in the vmctx of the instance that defines it, or
//! in a separate allocation.
//!
//! # Safety
//!
//! This module exists to write to a place in a vmctx, which its instance keeps.
#![allow(unsafe_code)]

/// Puts `value` into `place`, or into a box that has to be kept. Returns its address.
///
/// # Safety
/// `place` may be written to, and stays for as long as the value is used.
pub(crate) unsafe fn define<T>(value: T, place: Option<*mut T>) -> (*mut T, Option<Box<T>>) {
    match place {
        Some(place) => {
            // SAFETY: (1) the caller, see # Safety.
            unsafe { place.write(value) };
            (place, None)
        }
        None => {
            let mut own = Box::new(value);
            (&raw mut *own, Some(own))
        }
    }
}
