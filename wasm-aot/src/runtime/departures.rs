//! Which instructions frames were at when they were taken away.
//!
//! Counters say how often a block was entered. A trap, an exception or a failure of the host's takes frames away in the middle of their blocks: whoever
//! does it notes here where each of them was, so that what comes behind in the block is not taken for executed.
//!
//! # Safety
//!
//! This module exists to follow frames of machine code.
#![allow(unsafe_code)]

use super::backtrace;
use super::store::StoreCore;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Departures of a store, by the address of the machine instruction.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// Whether anybody counts.
    wanted: Cell<bool>,
    places: RefCell<HashMap<usize, u64>>,
}

impl Departures {
    /// Has departures noted from now on.
    pub(crate) fn want(&self) {
        self.wanted.set(true);
    }

    /// Notes a frame that is taken away at the instruction at `pc`.
    pub(crate) fn note(&self, pc: usize) {
        if self.wanted.get() {
            *self.places.borrow_mut().entry(pc).or_default() += 1;
        }
    }

    /// Notes all frames of an activation. The innermost has the frame pointer `frame`, and is at `pc` if it has not counted its departure itself. Where a
    /// signal handler does it, the signal has interrupted machine code, and nothing of the host's.
    ///
    /// # Safety
    /// `frame` is the frame pointer of machine code of this store.
    pub(crate) unsafe fn note_all(&self, store: &StoreCore, pc: Option<usize>, frame: usize) {
        if !self.wanted.get() {
            return;
        }
        pc.into_iter().for_each(|pc| self.note(pc));
        // SAFETY: (1) the caller, see # Safety.
        unsafe { backtrace::walk(store, frame, |pc| (self.note(pc - 1), true).1) };
    }

    /// How many there were at each address in a range.
    pub(crate) fn within(&self, range: std::ops::Range<usize>) -> Vec<(usize, u64)> {
        let places = self.places.borrow();
        places.iter().filter(|(pc, _)| range.contains(pc)).map(|(pc, count)| (*pc, *count)).collect()
    }
}
