//! Code of a module that was made after the module: pieces of other versions of its functions,
//! which only become more.
//!
//! # Safety
//!
//! This module exists because signal handlers look for code while another thread adds some: a list
//! whose nodes are never taken away while it lives.
#![allow(unsafe_code)]

use super::code::Code;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire};

/// A piece of code, and the pieces that were made before it.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) code: Code,
    /// Whether it counts.
    pub(crate) counts: bool,
    older: *mut Piece,
}

/// All pieces, the latest first.
#[derive(Debug, Default)]
pub(crate) struct Pieces(AtomicPtr<Piece>);

// SAFETY: (1) nodes are not changed once they are in the list, and what they hold may be used from
// all threads.
unsafe impl Send for Pieces {}
// SAFETY: as above.
unsafe impl Sync for Pieces {}

impl Pieces {
    /// Adds one. One thread at a time does.
    pub(crate) fn add(&self, code: Code, counts: bool) -> &Piece {
        let piece = Box::into_raw(Box::new(Piece { code, counts, older: self.0.load(Acquire) }));
        self.0.swap(piece, AcqRel);
        // SAFETY: (1) in the list, which owns it.
        unsafe { &*piece }
    }

    /// All of them. Usable in a signal handler.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Piece> {
        // SAFETY: (1) null, or a node that lives as long as the list.
        let first = unsafe { self.0.load(Acquire).as_ref() };
        // SAFETY: as above.
        std::iter::successors(first, |piece| unsafe { piece.older.as_ref() })
    }

    /// The one whose code is at `pc`. Usable in a signal handler.
    pub(crate) fn at(&self, pc: usize) -> Option<&Piece> {
        self.iter().find(|piece| piece.code.range().contains(&pc))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let mut next = *self.0.get_mut();
        while !next.is_null() {
            // SAFETY: (1) made by `Box::into_raw`, and no other code has the list.
            next = unsafe { Box::from_raw(next) }.older;
        }
    }
}
