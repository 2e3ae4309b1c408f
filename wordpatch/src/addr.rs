//! Addresses of code.
//!
//! Live code is never borrowed: another core may be executing it and another thread may be changing
//! it, so a `&[u8]` to it would make a promise that no code can keep. A [`CodeAddr`] makes none;
//! only [`live`](crate::live) reads and writes through it.

use std::fmt;

/// The address of a byte of machine code, as the processor fetches it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeAddr(usize);

impl CodeAddr {
    /// An address from its number.
    pub const fn new(address: usize) -> Self {
        Self(address)
    }

    /// An address from a pointer.
    pub fn from_ptr<T>(pointer: *const T) -> Self {
        Self(pointer as usize)
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.0
    }

    /// The address as a pointer, for functions that take one.
    pub const fn as_ptr(self) -> *const u8 {
        self.0 as *const u8
    }

    /// The address `bytes` further on; wraps like the processor does.
    #[must_use]
    pub const fn offset(self, bytes: isize) -> Self {
        Self(self.0.wrapping_add_signed(bytes))
    }

    /// The distance from `origin` to here.
    pub const fn distance_from(self, origin: Self) -> isize {
        self.0.wrapping_sub(origin.0) as isize
    }

    /// The offset within a naturally aligned block of `size` bytes, `size` a power of two.
    pub const fn within(self, size: usize) -> usize {
        self.0 & (size - 1)
    }

    /// The start of the naturally aligned block of `size` bytes that this address lies in.
    #[must_use]
    pub const fn align_down(self, size: usize) -> Self {
        Self(self.0 & !(size - 1))
    }
}

impl fmt::Debug for CodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for CodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
