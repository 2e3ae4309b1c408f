//! For each function of a module a jump to wherever its slot says: what stands before functions
//! leads there, and slots are data.
//!
//! # Safety
//!
//! This module exists to write words that are read by code.
#![allow(unsafe_code)]

use super::code::Code;
use crate::error::Error;
use callpatch::x86::jump_through;
use std::sync::atomic::{AtomicUsize, Ordering::Release};
use wordpatch::CodeMemory;

/// The jumps, and behind them the slots.
#[derive(Debug)]
pub(super) struct Stubs {
    memory: CodeMemory,
    /// How many bytes there are before the slots.
    slots: usize,
}

/// `jmp [rip + disp32]`, and two bytes of nothing.
const STUB: usize = 8;

impl Stubs {
    /// Near code that leads there.
    pub(super) fn near(code: &Code, count: usize) -> Result<Self, Error> {
        let slots = STUB * count;
        let mut memory = code.memory_near(slots + 8 * count)?;
        for function in 0..count {
            let at = STUB * function;
            let here = |offset: usize| memory.base().offset(offset as isize);
            let jump = jump_through(here(at), here(slots + 8 * function));
            memory.write(at, &jump.ok_or_else(|| Error::Attach("the slots are too far".into()))?);
        }
        Ok(Self { memory, slots })
    }

    /// Where the jump of a function is.
    pub(super) fn address(&self, function: usize) -> usize {
        self.memory.base().get() + STUB * function
    }

    /// Has the jump of a function lead there.
    pub(super) fn set(&self, function: usize, target: usize) {
        let slot = self.memory.writable(self.slots + 8 * function).get() as *mut usize;
        // SAFETY: (1) an aligned word of memory that lives as long as `self`; (2) threads read it
        // by one load.
        unsafe { AtomicUsize::from_ptr(slot) }.store(target, Release);
    }
}
