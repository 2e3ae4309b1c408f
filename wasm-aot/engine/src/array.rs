//! Tables of plain values that are owned, or part of a mapped file.
//!
//! # Safety
//!
//! This module exists to read a mapped file in place. Lengths and alignment are checked when an
//! array is made; the file is mapped privately, and is trusted not to be cut short.
#![allow(unsafe_code)]

use crate::error::Error;
use std::fs::File;
use std::ops::{Deref, Range};
use std::sync::Arc;
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, Place, Protection};

/// A file that is mapped to be read.
#[derive(Debug)]
pub struct Mapping {
    base: CodeAddr,
    len: usize,
}

impl Mapping {
    pub(crate) fn new(file: &File, len: usize) -> Result<Self, Error> {
        // SAFETY: (1) a mapping at a place that the kernel chooses overlaps nothing.
        let base =
            unsafe { pages::map_file_private(Place::Anywhere, len, Protection::Read, file, 0) };
        Ok(Self { base: base.map_err(Error::system)?, len })
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: (1) mapped in `new` and unmapped in `drop`.
        unsafe { std::slice::from_raw_parts(self.base.get() as *const u8, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: (1) mapped in `new`, and every array keeps the mapping.
        let _ = unsafe { pages::unmap(self.base, self.len) };
    }
}

/// Values for which every bit pattern is valid.
///
/// # Safety
/// The type has no padding and no invalid bit patterns.
pub unsafe trait Plain: Copy + 'static {}

// SAFETY: (1) integers.
unsafe impl Plain for u8 {}

/// An array of values.
#[derive(Debug)]
pub enum Array<T> {
    /// In memory of its own.
    Owned(Vec<T>),
    /// Part of a file.
    Mapped(Arc<Mapping>, Range<usize>),
}

impl<T: Plain> Array<T> {
    /// Returns that part of a file, if it is within the file and aligned.
    pub(crate) fn mapped(file: &Arc<Mapping>, range: Range<usize>) -> Option<Self> {
        let bytes = file.bytes().get(range.clone())?;
        let fits = bytes.len().is_multiple_of(size_of::<T>())
            && (bytes.as_ptr() as usize).is_multiple_of(align_of::<T>());
        fits.then(|| Self::Mapped(Arc::clone(file), range))
    }
}

impl<T: Plain> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(values) => values,
            Self::Mapped(file, range) => {
                let bytes = &file.bytes()[range.clone()];
                // SAFETY: (1) length and alignment were checked in `mapped`; (2) every bit pattern
                // is a value.
                unsafe {
                    std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>())
                }
            }
        }
    }
}

/// The bytes of an array.
pub(crate) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: (1) plain values have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
