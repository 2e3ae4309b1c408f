//! Slots of activations after a trap: functions of monitors that use them are called, and find them
//! in the table that machine code keeps in its frame (`compile/activation_slots.rs`).
//!
//! # Safety
//!
//! This module exists to read and write that table.
#![allow(unsafe_code)]

use crate::compile::{ENTRY_WORDS, owner_and_type};
use crate::types::ValType;
use std::cell::Cell;

/// The table of an activation, and the monitor whose function is called.
#[derive(Clone, Copy)]
struct Table {
    address: usize,
    monitor: u32,
}

thread_local! {
    /// The table that functions of monitors use on this thread.
    static PRESENT: Cell<Option<Table>> = const { Cell::new(None) };
}

/// Has functions of a monitor find the slots of an activation meanwhile.
///
/// # Safety
/// The table is one that machine code keeps, of an activation that waits.
pub(super) unsafe fn with_slots<R>(address: usize, monitor: u32, call: impl FnOnce() -> R) -> R {
    /// Gives back the table before, also if a host function panics.
    struct Before(Option<Table>);
    impl Drop for Before {
        fn drop(&mut self) {
            PRESENT.set(self.0);
        }
    }
    let _before = Before(PRESENT.replace(Some(Table { address, monitor })));
    call()
}

/// Reads a slot of the activation whose event is being completed, after it has written to it:
/// nothing if there is no such event on this thread. A slot that its function's code does not use
/// is zero.
pub fn activation_slot(number: i32, ty: ValType, written: Option<u64>) -> Option<u64> {
    let Table { address, monitor } = PRESENT.get()?;
    let name = [owner_and_type(monitor, ty), i64::from(number).cast_unsigned()];
    let table = address as *mut [u64; ENTRY_WORDS];
    // SAFETY: (1) the table begins with the number of its entries, see `with_slots`; (2) machine
    // code waits, so that nothing else uses it.
    let entries = unsafe { std::slice::from_raw_parts_mut(table.add(1), (*table)[0] as usize) };
    let entry = entries.iter_mut().find(|entry| entry[..2] == name);
    Some(entry.map_or(0, |[.., value, _]| {
        *value = written.unwrap_or(*value);
        *value
    }))
}
