//! Calls the receivers of hooks, and keeps the words of instances for them.
//!
//! A panic of a receiver is reported to the receiver, and the program continues, as the program did
//! nothing wrong.
//!
//! # Safety
//!
//! This module exists to read and write words of a vmctx, and values that machine code has put into
//! its frame.
#![allow(unsafe_code)]

use super::instance::InstanceData;
use super::store::StoreCore;
use crate::compile::{Call, Firing, InstanceSlots, Receiver};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Passes captured values to a receiver.
///
/// # Safety
/// `values` has room for what the call captures.
pub(super) unsafe fn fire(call: &Call, vmctx: usize, frame: usize, values: *mut [u64; 2]) {
    // SAFETY: (1) the caller, see # Safety; there is always room for one value.
    let values = unsafe { std::slice::from_raw_parts_mut(values, call.captures.len().max(1)) };
    let mut firing = Firing { number: call.number, vmctx, frame, values };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| call.receiver.fire(&mut firing))) {
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        call.receiver.failed(why.unwrap_or("it does not say why"));
    }
}

thread_local! {
    /// Why a probe ends the program of this thread.
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records that a probe ends the program: the trap that follows is reported with this reason.
pub fn note_probe_failure(why: String) {
    FAILURE.set(Some(why));
}

/// Why a probe has ended the program.
pub(super) fn probe_failure() -> Option<String> {
    FAILURE.take()
}

impl StoreCore {
    /// The frames that a trap or a failure of the host unwinds, the innermost first, as addresses
    /// inside of the instructions that they are at; none if no receiver has to be notified. Usable
    /// in a signal handler that has interrupted machine code.
    ///
    /// # Safety
    /// `frame` is the frame pointer of machine code of this store, which is at `pc`; of a function
    /// that has not begun, nothing of which is at any.
    pub(super) unsafe fn taken_away(&self, pc: Option<usize>, frame: usize) -> Vec<usize> {
        if !super::attached_plan::any_tells() {
            return Vec::new();
        }
        let mut frames = Vec::from_iter(pc);
        // SAFETY: (1) the caller, see # Safety.
        unsafe { super::backtrace::walk(self, frame, |pc| (frames.push(pc - 1), true).1) };
        frames
    }

    /// Notifies receivers that frames were [unwound](Self::taken_away): of those that were in code
    /// with their hooks.
    pub(super) fn tell_trapped(&self, frames: &[usize]) {
        for pc in frames {
            let Some((module, code, offset)) = self.module_at(*pc) else { continue };
            let Some(defined) = code.function_at(offset) else { continue };
            let (plan, function) = (code.plan(), module.info.imported.functions + defined as u32);
            if plan.concerns(function) {
                let attached: Vec<Arc<dyn Receiver>> = module.attached_receivers();
                attached
                    .iter()
                    .chain(plan.receivers())
                    .for_each(|receiver| receiver.trapped(function));
            }
        }
    }
}

/// A word of an instance, and what it was.
pub(super) type KeptWord<'a> = (&'a AtomicU64, u64);

impl InstanceData {
    /// Notifies receivers that it begins.
    pub(super) fn begin_hooks(&self) {
        let (module, vmctx) = (&self.module, self.base());
        let own = module.code.plan().receivers().iter();
        own.for_each(|receiver| receiver.begin(module.own_slots(vmctx)));
        module.plans.read().iter().for_each(|plan| plan.begin(module, vmctx));
    }

    /// Notifies receivers that it ends.
    pub(super) fn end_hooks(&self) {
        self.module.plans.read().iter().for_each(|plan| plan.forget(self.base()));
        self.module.each_plan(self.base(), |plan, slots| {
            plan.receivers().iter().for_each(|receiver| receiver.end(slots));
        });
    }
}

/// The callers of an activation, the nearest first, as far as they are functions of its module:
/// which function, and the place of the call in the module.
pub fn callers(vmctx: usize, frame: usize, most: usize) -> Vec<(u32, u32)> {
    // SAFETY: as below.
    let (instance, store) = unsafe {
        let instance = &**((vmctx + crate::vm::at::INSTANCE) as *const *const InstanceData);
        (instance, &*instance.store)
    };
    let mut callers = Vec::new();
    let visit = |pc: usize| {
        let Some((module, code, offset)) = store.module_at(pc - 1) else { return false };
        if std::ptr::eq(module, &raw const *instance.module)
            && let (Some(defined), Some(at)) = (code.function_at(offset), code.wasm_offset(offset))
        {
            callers.push((module.info.imported.functions + defined as u32, at));
        }
        callers.len() < most
    };
    // SAFETY: (1) machine code that waits for us has passed its frame pointer.
    unsafe { super::backtrace::walk(store, frame, visit) };
    callers
}

/// The contents of an instance's memory at a place that machine code has just accessed.
pub fn memory_of(vmctx: usize, memory: u32, address: u64, len: usize) -> Vec<u8> {
    // SAFETY: (1) the word at that place of a vmctx is the instance that owns it, which lives, and
    // whose store waits for us.
    let (instance, store) = unsafe {
        let instance = &**((vmctx + crate::vm::at::INSTANCE) as *const *const InstanceData);
        (instance, &*instance.store)
    };
    let Some(memory) = instance.memories.get(memory as usize) else { return Vec::new() };
    let (base, size) = store.memories[*memory].extent();
    match address.checked_add(len as u64) {
        Some(end) if end <= size as u64 => {
            // SAFETY: (1) inside of the memory. Other threads that share it may write at the same
            // time: then a byte is what one of them has written.
            (0..len).map(|i| unsafe { base.add(address as usize + i).read_volatile() }).collect()
        }
        _ => Vec::new(),
    }
}

impl InstanceSlots {
    /// One of its words.
    pub fn word<'a>(self, word: crate::compile::Word) -> &'a AtomicU64 {
        // SAFETY: (1) the layout keeps words aligned, and inside of the memory of an instance that
        // lives: the owner of the slots forgets it when it ends.
        unsafe { AtomicU64::from_ptr(self.address(word) as *mut u64) }
    }
}

impl StoreCore {
    /// Notifies receivers, for each instance, that machine code is left by a trap or a failure.
    pub(super) fn tell_cut_off(&self) {
        for instance in &self.instances {
            instance.module.each_plan(instance.base(), |plan, slots| {
                plan.receivers().iter().for_each(|receiver| receiver.cut_off(slots));
            });
        }
    }

    /// The words that are restored to their present values if machine code that is entered now is
    /// left early.
    pub(super) fn keep_words(&self) -> Vec<KeptWord<'_>> {
        if !self.restores && !super::attached_plan::any_restores() {
            return Vec::new();
        }
        let mut kept: Vec<KeptWord<'_>> = Vec::new();
        for instance in &self.instances {
            instance.module.each_plan(instance.base(), |plan, slots| {
                let words = plan.restored().iter().map(|word| slots.word(*word));
                kept.extend(words.map(|word| (word, word.load(Relaxed))));
            });
        }
        kept
    }
}

/// Restores words to their saved values.
pub(super) fn restore(kept: &[KeptWord<'_>]) {
    kept.iter().for_each(|(word, was)| word.store(*was, Relaxed));
}

#[cfg(test)]
mod tests;
