//! Compiles functions with hooks when they are called for the first time.
//!
//! Most functions of a large program are never called, and compiling them with hooks takes longer
//! than compiling them at first. So a layer that is attached before anything was executed may leave
//! functions *late*: the slot of a late function leads to a stub that calls this file. The calling
//! thread compiles the function and continues in it; other threads that call it meanwhile wait for
//! the lock. Nothing of the function was executed before, so the monitor misses nothing. Monitors
//! that measure time are notified of how long the compilation took.
//!
//! The monitor may say that a function is not [due](Due) yet. Then its hooks are left out, until
//! they are [put back](super::Module::leave_out).
//!
//! # Safety
//!
//! This module exists because machine code calls it.
#![allow(unsafe_code)]

use super::activation;
use super::module::{Module, ModuleInner};
use super::variant::{Current, Origin, TakesEffect, Variants};
use super::variant_compilation::Late;
use std::sync::Weak;
use wordpatch::Ticks;

/// Decides whether a function is compiled with a plan's hooks when it is called for the first
/// time.
pub trait Due: std::fmt::Debug + Send + Sync {
    /// Whether it is. The module is locked during the call, so that this must not use functions
    /// that lock it.
    fn is_due(&self, function: u32) -> bool;
}

impl Module {
    /// Functions that could not be compiled for what is observed when they were called, and why.
    pub fn unmade(&self) -> Vec<(u32, String)> {
        self.inner.variants.lock().unmade.clone()
    }

    /// The functions that threads are in at this moment, one for each thread.
    pub fn innermost_functions(&self) -> Vec<u32> {
        let first = self.inner.info.imported.functions;
        self.inner.innermost().iter().map(|(function, _)| first + *function as u32).collect()
    }
}

/// Called by stubs: when it has returned, the slot leads to the function.
pub(super) extern "C" fn arrived(module: *const ModuleInner, back: usize) {
    // SAFETY: (1) the stub is the module's, which lives as long as its code is executed.
    unsafe { &*module }.arrive(back);
}

impl ModuleInner {
    fn arrive(&self, back: usize) {
        let begun = Ticks::now();
        self.make_late(back);
        let (ticks, activation) = (Ticks::now().since(begun).0, activation::current());
        // SAFETY: (1) null, or this thread's, which is in code of a store.
        let Some(activation) = (unsafe { activation.as_ref() }) else { return };
        let plans = self.plans.read();
        self.counted.each_of(activation.store, |vmctx| {
            plans.iter().for_each(|plan| plan.paused(self, vmctx, ticks));
        });
    }

    fn make_late(&self, back: usize) {
        let mut variants = self.variants.lock();
        let Some(function) = variants.stubs.as_ref().map(|stubs| stubs.late_function(back)) else {
            return;
        };
        // Another thread was faster, or nothing is observed any longer.
        if variants.current[function] != Current::Late {
            return;
        }
        self.leave_out_undue(&mut variants, function);
        let made = self.follow_until(&mut variants, &[function], TakesEffect::NextCall, Late::Ends);
        if let Err(error) = made {
            let index = self.info.imported.functions + function as u32;
            variants.unmade.push((index, error.to_string()));
            variants.switch(self, function, Current::Variant(function));
        }
    }

    /// Leaves hooks out of a function where it is not due.
    fn leave_out_undue(&self, variants: &mut Variants, function: usize) {
        let index = self.info.imported.functions + function as u32;
        for number in variants.observed.plans.clone() {
            let plan = variants.plans[number].clone();
            if !plan.concerns(index) {
                continue;
            }
            let asked = self.plans.read()[number].due.as_ref().and_then(Weak::upgrade);
            if asked.is_some_and(|asked| !asked.is_due(index)) {
                for hook in plan.hooks_of(index) {
                    variants.leave_out(function, (Origin::Plan(number), hook), true);
                }
            }
        }
    }
}
