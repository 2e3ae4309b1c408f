//! Marks the types whose values can be used in place, in a mapped file.
//!
//! # Safety
//!
//! This module exists to say of which types every pattern of bits is a value.
#![allow(unsafe_code)]

use crate::array::Plain;
use crate::compile::{Handler, OsrExit, PatchableSite, Span};
use crate::offsets::Block;

// SAFETY: (1) structures of `u32` alone, in the order that they are declared in.
unsafe impl Plain for Block {}
// SAFETY: as above.
unsafe impl Plain for Handler {}
// SAFETY: as above.
unsafe impl Plain for Span {}
// SAFETY: as above.
unsafe impl Plain for OsrExit {}
// SAFETY: as above.
unsafe impl Plain for PatchableSite {}
