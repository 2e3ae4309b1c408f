//! Stubs and slots: for each function a jump through a slot, which holds the address of the current
//! variant. The entry byte of other variants leads there.
//!
//! A function that is to be compiled at its first call has a slot that leads to a second stub,
//! which has the function compiled and jumps through the slot again:
//!
//! ```text
//!   function:  jmp stub          stub:  jmp [slot]          late:  call keeping ── arrived(module, …)
//!                                                                  jmp [slot]
//! ```
//!
//! # Safety
//!
//! This module exists to write words that machine code reads.
#![allow(unsafe_code)]

use super::code::Code;
use super::module::ModuleInner;
use crate::error::Error;
use callpatch::x86::stubs::{KEEPING, keeping};
use callpatch::x86::{Form, jump_through};
use std::sync::atomic::{AtomicUsize, Ordering::Release};
use wordpatch::CodeMemory;

/// The jumps, followed by the slots.
#[derive(Debug)]
pub(super) struct Stubs {
    memory: CodeMemory,
    /// The offset of the slots.
    slots: usize,
    /// The stubs that slots of late functions lead to, if there were any.
    late: Option<CodeMemory>,
}

/// `jmp [rip + disp32]`, and two bytes of padding.
const STUB: usize = 8;
/// `call rel32`, the same jump, and padding.
const LATE: usize = 16;
/// The size of the routine before those, which all of them call.
const BEFORE: usize = KEEPING.next_multiple_of(LATE);

/// The function that is called when a function is to be compiled: with the module, and with the
/// address at which the stub continues.
pub(super) type Arrived = extern "C" fn(*const ModuleInner, usize);

impl Stubs {
    /// Makes the stubs of this many functions near their code.
    pub(super) fn near(code: &Code, count: usize) -> Result<Self, Error> {
        let slots = STUB * count;
        let mut memory = code.memory_near(slots + 8 * count)?;
        for function in 0..count {
            let at = STUB * function;
            let here = |offset: usize| memory.base().offset(offset as isize);
            let jump = jump_through(here(at), here(slots + 8 * function));
            memory.write(at, &jump.ok_or_else(|| Error::Attach("the slots are too far".into()))?);
        }
        Ok(Self { memory, slots, late: None })
    }

    /// Makes the stubs of late functions.
    pub(super) fn prepare_late(
        &mut self,
        module: &ModuleInner,
        arrived: Arrived,
    ) -> Result<(), Error> {
        if self.late.is_some() {
            return Ok(());
        }
        let count = self.slots / STUB;
        let mut memory = module.code.memory_near(BEFORE + LATE * count)?;
        memory.write(0, &keeping(arrived as *const () as u64, std::ptr::from_ref(module) as u64));
        for function in 0..count {
            let at = BEFORE + LATE * function;
            let jump_at = memory.base().offset((at + Form::Call.len()) as isize);
            let slot = self.memory.base().offset((self.slots + 8 * function) as isize);
            let too_far = || Error::Attach("the slots are too far".into());
            let jump = jump_through(jump_at, slot).ok_or_else(too_far)?;
            let distance = -((at + Form::Call.len()) as i32);
            memory.write(at, &Form::Call.bytes(distance));
            memory.write(at + Form::Call.len(), &jump);
        }
        self.late = Some(memory);
        Ok(())
    }

    /// The stub of a late function.
    pub(super) fn late(&self, function: usize) -> usize {
        let late = self.late.as_ref().expect("it was prepared");
        late.base().get() + BEFORE + LATE * function
    }

    /// The late function whose stub continues at an address.
    pub(super) fn late_function(&self, back: usize) -> usize {
        let late = self.late.as_ref().expect("it was prepared");
        (back - late.base().get() - BEFORE) / LATE
    }

    /// The address of the jump of a function.
    pub(super) fn address(&self, function: usize) -> usize {
        self.memory.base().get() + STUB * function
    }

    /// Stores the address of a function's current variant in its slot.
    pub(super) fn set(&self, function: usize, target: usize) {
        let slot = self.memory.writable(self.slots + 8 * function).get() as *mut usize;
        // SAFETY: (1) an aligned word of memory that lives as long as `self`; (2) threads read it
        // by one load.
        unsafe { AtomicUsize::from_ptr(slot) }.store(target, Release);
    }
}
