//! The address space that a linear memory reserves, so that machine code need not check its
//! accesses.
//!
//! # Safety
//!
//! This module exists to test whether the process may reserve it.
#![allow(unsafe_code)]

use wordpatch::os::pages::{self, PAGE, Place, Protection};

/// The address space that a memory with 32-bit addresses reserves: any index plus any offset, and
/// the widest access.
pub(crate) const RESERVATION: usize = (8 << 30) + PAGE;

/// Whether the process may reserve the address space of a memory.
pub(crate) fn reservations_are_possible() -> bool {
    // SAFETY: (1) a mapping at a place that the kernel chooses overlaps nothing; (2) it is unmapped
    // at once.
    unsafe {
        pages::map_private(Place::Anywhere, RESERVATION, Protection::None)
            .is_ok_and(|at| pages::unmap(at, RESERVATION).is_ok())
    }
}
