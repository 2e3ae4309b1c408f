//! Partial-block exits: at which instructions frames were unwound in the middle of a block.
//!
//! Counters say how often a block was entered; they imply that it was left at its end. A trap, an
//! exception or a failure of the host unwinds frames in the middle of their blocks: the code that
//! does so records here where each of them was, so that the instructions after that place in the
//! block do not count as executed.
//!
//! # Safety
//!
//! This module exists to follow frames of machine code.
#![allow(unsafe_code)]

use super::backtrace;
use super::counts::FramePlace;
use super::store::StoreCore;
use parking_lot::Mutex;
use std::collections::HashMap;
use wasm_aot_body::ExitPlace;

/// Partial-block exits from the code of a module.
#[derive(Debug, Default)]
pub(crate) struct PartialExits(Mutex<HashMap<FramePlace, i64>>);

impl PartialExits {
    /// How many there were at each place.
    pub(crate) fn all(&self) -> HashMap<FramePlace, i64> {
        self.0.lock().clone()
    }

    /// An exit that was recorded at a machine instruction was before an instruction of a function,
    /// by its place among the defined ones.
    pub(super) fn correct(&self, pc: usize, defined: usize, before: u32) {
        let mut all = self.0.lock();
        if let Some(count) = all.get_mut(&FramePlace::Machine(pc)).filter(|count| **count > 0) {
            *count -= 1;
            let place = ExitPlace::before(before);
            *all.entry(FramePlace::Wasm { defined, place }).or_default() += 1;
        }
    }
}

impl StoreCore {
    /// Records a frame that is unwound at the instruction at `pc`, if its code counts.
    /// Usable in a signal handler that has interrupted machine code: no thread that has the lock
    /// runs machine code, and no thread that runs it is in the allocator.
    pub(crate) fn exit_partially(&self, pc: usize) {
        if let Some((module, ..)) = self.module_at(pc)
            && module.notes_exits_at(pc)
        {
            *module.partial_exits.0.lock().entry(FramePlace::Machine(pc)).or_default() += 1;
        }
    }

    /// Records all frames of an activation. The innermost has the frame pointer `frame`, and is at
    /// `pc` if it has not counted that partial exit itself. Usable in a signal handler that has
    /// interrupted machine code.
    ///
    /// # Safety
    /// `frame` is the frame pointer of machine code of this store.
    pub(crate) unsafe fn exit_all(&self, pc: Option<usize>, frame: usize) {
        if !self.notes_partial_exits() {
            return;
        }
        pc.into_iter().for_each(|pc| self.exit_partially(pc));
        // SAFETY: (1) the caller, see # Safety.
        unsafe { backtrace::walk(self, frame, |pc| (self.exit_partially(pc - 1), true).1) };
    }
}
