//! Completes an event in which a hook has trapped: the hooks after it fire, then the trap ends the
//! program.
//!
//! That happens on the program's stack, below the frame that has trapped, so hooks find everything
//! that they could read before. What the code keeps for it is described in
//! `compile/pending_event.rs`.
//!
//! # Safety
//!
//! This module exists to read what machine code has kept in its frame, and to call functions with
//! it.
#![allow(unsafe_code)]

use super::activation_slots::with_slots;
use super::hooks;
use super::instance::InstanceData;
use super::store::StoreCore;
use super::tasks::with_store_of;
use crate::compile::{Action, Firing, Guest, Hook};
use crate::error::Error;
use crate::module::Space;
use crate::vm::StoreCell;
use std::sync::atomic::Ordering::Relaxed;

/// The hook of a store whose code is executed, and where its event's values are: 0 if no other hook
/// comes after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    hook: usize,
    values: usize,
}

impl Pending {
    /// Takes what is pending in a store: nothing is from now on.
    pub(super) fn take(cell: &StoreCell) -> Self {
        let hook = cell.pending_hook.load(Relaxed);
        // No other thread writes to the cell; an exchange would lock its line at each entry.
        cell.pending_hook.store(0, Relaxed);
        Self { hook, values: cell.pending_values.load(Relaxed) }
    }

    /// Gives back what was taken.
    pub(super) fn give_back(self, cell: &StoreCell) {
        cell.pending_values.store(self.values, Relaxed);
        cell.pending_hook.store(self.hook, Relaxed);
    }

    /// Whether something is pending in a store. Usable in a signal handler.
    pub(super) fn is_in(cell: &StoreCell) -> bool {
        cell.pending_hook.load(Relaxed) != 0
    }
}

/// Fires the hooks that are still to fire in the event that is pending in a store, if one is.
///
/// # Safety
/// The frame of the event's machine code still exists, and machine code waits.
pub(super) unsafe fn complete(store: &StoreCore) {
    let Pending { hook, values } = Pending::take(store.cell());
    if hook == 0 {
        return;
    }
    // SAFETY: (1) machine code names hooks of its plan, which is kept together with it, and which
    // has `after` others in the same place behind it.
    let after = unsafe {
        let hook = hook as *const Hook;
        std::slice::from_raw_parts(hook.add(1), (*hook).after as usize)
    };
    let mut values = values as *mut [u64; 2];
    // SAFETY: (1) the frame's slot begins with these, see the caller's # Safety.
    let [vmctx, frame] = unsafe { *values }.map(|word| word as usize);
    // The last hook's values come first.
    let mut given: Vec<(&Hook, *mut [u64; 2])> = Vec::with_capacity(after.len());
    for hook in after.iter().rev() {
        // SAFETY: (1) as many values were kept for each hook as it says.
        values = unsafe { values.add(given.last().map_or(1, |(other, _)| keeps(other))) };
        given.push((hook, values));
    }
    for (hook, values) in given.into_iter().rev() {
        // SAFETY: (1) as above; (2) machine code waits, so that nothing else uses the slot.
        let values = unsafe { std::slice::from_raw_parts_mut(values, keeps(hook)) };
        fire(hook, vmctx, frame, values);
    }
}

fn keeps(hook: &Hook) -> usize {
    hook.action.keeps()
}

fn fire(hook: &Hook, vmctx: usize, frame: usize, values: &mut [[u64; 2]]) {
    match &hook.action {
        // SAFETY: (1) as many values as the call captures, and one at least.
        Action::Call(call) => unsafe {
            let mut none = [[0; 2]];
            let values = if values.is_empty() { &mut none } else { values };
            hooks::fire(call, vmctx, frame, values.as_mut_ptr());
        },
        Action::Inline(sequence) => {
            let mut firing = Firing { number: 0, vmctx, frame, values };
            sequence.0.complete(&mut firing);
        }
        // It has fired before all others.
        Action::OneShot(_) => {}
    }
}

/// Calls a function of a guest for an instance of the program, with values as machine code passes
/// them. With the guest comes the vmctx of its instance, if that is not the same in all threads. If
/// the function uses slots of activations, the first value is the address of their table.
pub fn call_guest(
    vmctx: usize,
    (guest, guest_vmctx): (&Guest, Option<usize>),
    function: u32,
    values: &[[u64; 2]],
) -> Result<(), Error> {
    let enter = |values| enter_guest(vmctx, (guest, guest_vmctx), function, values);
    match values.split_first() {
        Some(([table, _], values)) if guest.is_framed(function) => {
            // SAFETY: (1) the code has kept the address of its activation's table, and waits.
            unsafe { with_slots(*table as usize, guest.number, || enter(values)) }
        }
        _ => enter(values),
    }
}

fn enter_guest(
    vmctx: usize,
    (guest, guest_vmctx): (&Guest, Option<usize>),
    function: u32,
    values: &[[u64; 2]],
) -> Result<(), Error> {
    let Some(own) = guest.vmctx.or(guest_vmctx) else { return Ok(()) };
    let results = guest.info().function_type(function).results().len();
    let mut raw: Vec<u128> =
        values.iter().map(|[low, high]| u128::from(*high) << 64 | u128::from(*low)).collect();
    raw.resize(raw.len().max(results), 0);
    with_store_of(vmctx, |mut store| {
        let core = store.core();
        core.make_room();
        // SAFETY: (1) the word at that place of a vmctx is the instance that owns it, which lives
        // as long as its store.
        let instance =
            unsafe { &**((own + crate::vm::at::INSTANCE) as *const *const InstanceData) };
        let function = instance.item(core, Space::Func, function).into_func();
        let function = function.expect("an index of a function");
        // SAFETY: (1) the values are what the function's type asks for, as its hook's code would
        // have passed them.
        unsafe { function.enter(core, raw.as_mut_ptr()) }
    })
}
