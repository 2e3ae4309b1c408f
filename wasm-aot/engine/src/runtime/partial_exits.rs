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

/// Partial-block exits from the code of a module, by the address of the machine instruction.
#[derive(Debug, Default)]
pub(crate) struct PartialExits(Mutex<HashMap<usize, u64>>);

impl PartialExits {
    /// How many there were at each address.
    pub(crate) fn all(&self) -> HashMap<FramePlace, i64> {
        let all = self.0.lock();
        all.iter().map(|(pc, count)| (FramePlace::Machine(*pc), *count as i64)).collect()
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
            *module.partial_exits.0.lock().entry(pc).or_default() += 1;
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
