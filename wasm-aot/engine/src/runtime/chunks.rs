//! The code chunks of a module: code of variants that was compiled after the module. Chunks are
//! only added. There may be one for each function, so most of them are in an index.
//!
//! # Safety
//!
//! This module exists because signal handlers search for code while another thread adds some: a
//! list whose nodes are never removed while it lives.
#![allow(unsafe_code)]

use super::code::Code;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// A chunk, and the chunks that were added before it.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) code: Code,
    /// Whether it counts.
    pub(crate) counts: bool,
    older: *mut Chunk,
}

/// All chunks, the latest first, and the latest index of them.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    latest: AtomicPtr<Chunk>,
    index: AtomicPtr<Index>,
}

/// The addresses of chunks, in order: all chunks up to `newest`.
#[derive(Debug)]
struct Index {
    places: Vec<(Range<usize>, *const Chunk)>,
    newest: *const Chunk,
    older: *mut Index,
}

/// This many chunks, or this fraction of those in the index, are searched one by one.
const FEW: usize = 16;
const PART: usize = 8;

// SAFETY: (1) nodes are not changed once they are in the list, and what they hold may be used from
// all threads.
unsafe impl Send for Chunks {}
// SAFETY: as above.
unsafe impl Sync for Chunks {}

impl Chunks {
    /// Adds a chunk. Only one thread at a time may do this.
    pub(crate) fn add(&self, code: Code, counts: bool) -> &Chunk {
        let older = self.latest.load(Acquire);
        let piece = Box::into_raw(Box::new(Chunk { code, counts, older }));
        self.latest.swap(piece, AcqRel);
        let (indexed, fresh) = (self.indexed(), self.fresh().count());
        if fresh > FEW.max(indexed.map_or(0, |index| index.places.len()) / PART) {
            let place = |piece: &Chunk| (piece.code.range(), std::ptr::from_ref(piece));
            let mut places: Vec<_> = self.iter().map(place).collect();
            places.sort_unstable_by_key(|(range, _)| range.start);
            // Older indices are kept: a signal handler may be reading them.
            let older = self.index.load(Acquire);
            let index = Index { places, newest: piece, older };
            self.index.store(Box::into_raw(Box::new(index)), Release);
        }
        // SAFETY: (1) in the list, which owns it.
        unsafe { &*piece }
    }

    fn indexed(&self) -> Option<&Index> {
        // SAFETY: (1) null, or an index that lives as long as the list.
        unsafe { self.index.load(Acquire).as_ref() }
    }

    /// The chunks that were added after the index was made.
    fn fresh(&self) -> impl Iterator<Item = &Chunk> {
        let newest = self.indexed().map_or(std::ptr::null(), |index| index.newest);
        self.iter().take_while(move |piece| !std::ptr::eq(*piece, newest))
    }

    /// All chunks. Usable in a signal handler.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        // SAFETY: (1) null, or a node that lives as long as the list.
        let first = unsafe { self.latest.load(Acquire).as_ref() };
        // SAFETY: as above.
        std::iter::successors(first, |piece| unsafe { piece.older.as_ref() })
    }

    /// The chunk whose code is at `pc`. Usable in a signal handler.
    pub(crate) fn at(&self, pc: usize) -> Option<&Chunk> {
        let is_there = |piece: &&Chunk| piece.code.range().contains(&pc);
        // The index is read first: chunks that are added meanwhile are found as fresh ones.
        let indexed = self.indexed();
        self.fresh().find(is_there).or_else(|| {
            let places = &indexed?.places;
            let behind = places.partition_point(|(range, _)| range.start <= pc);
            // SAFETY: (1) in the list, which owns it.
            let piece = unsafe { &*places[behind.checked_sub(1)?].1 };
            Some(piece).filter(is_there)
        })
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut index = *self.index.get_mut();
        while !index.is_null() {
            // SAFETY: (1) made by `Box::into_raw`, and no other code has the list.
            index = unsafe { Box::from_raw(index) }.older;
        }
        let mut next = *self.latest.get_mut();
        while !next.is_null() {
            // SAFETY: (1) made by `Box::into_raw`, and no other code has the list.
            next = unsafe { Box::from_raw(next) }.older;
        }
    }
}
