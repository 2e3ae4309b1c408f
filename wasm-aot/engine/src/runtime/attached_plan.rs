//! Plans that are attached while instances run: their words, and their receivers.

use super::late::Due;
use super::module::ModuleInner;
use crate::compile::{InstanceSlots, Plan, Receiver};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A plan that was attached once: where its words are in instances, and the instances that its
/// receivers were notified of.
#[derive(Debug)]
pub(crate) struct AttachedPlan {
    pub(super) plan: Plan,
    /// How many words of such plans come before its own.
    pub(super) base: u32,
    /// Decides whether a function that is called for the first time needs the plan.
    pub(super) due: Option<Weak<dyn Due>>,
    told: Mutex<HashSet<usize>>,
}

/// Whether any plan that was attached restores words.
static RESTORES: AtomicBool = AtomicBool::new(false);

/// Whether any plan that was attached has receivers.
static TELLS: AtomicBool = AtomicBool::new(false);

/// Whether a receiver may have to be notified of frames that are unwound. Usable in a signal
/// handler.
pub(super) fn any_tells() -> bool {
    TELLS.load(Relaxed)
}

/// Whether any plan that was attached needs partial-block exits recorded.
static PARTIAL_EXITS: AtomicBool = AtomicBool::new(false);

/// Whether the places of unwound frames may have to be recorded. Usable in a signal handler.
pub(super) fn any_partial_exits() -> bool {
    PARTIAL_EXITS.load(Relaxed)
}

/// Whether words of plans that were attached are saved while machine code runs.
pub(super) fn any_restores() -> bool {
    RESTORES.load(Relaxed)
}

impl AttachedPlan {
    /// Makes an attached plan of one that has not been attached before.
    pub(super) fn new(plan: Plan, base: u32, due: Option<Weak<dyn Due>>) -> Self {
        if !plan.restored().is_empty() {
            RESTORES.store(true, Relaxed);
        }
        if !plan.receivers().is_empty() {
            TELLS.store(true, Relaxed);
        }
        if plan.notes_partial_exits() {
            PARTIAL_EXITS.store(true, Relaxed);
        }
        Self { plan, base, due, told: Mutex::default() }
    }

    /// Its words in an instance.
    pub(super) fn slots(&self, module: &ModuleInner, vmctx: usize) -> InstanceSlots {
        // After all possible counters.
        let first = module.layout.counter(module.attached_words() + self.base);
        InstanceSlots { vmctx, words: vmctx + first as usize }
    }

    /// Notifies its receivers of an instance.
    pub(super) fn begin(&self, module: &ModuleInner, vmctx: usize) {
        if !self.told.lock().insert(vmctx) {
            return;
        }
        self.plan.receivers().iter().for_each(|receiver| receiver.begin(self.slots(module, vmctx)));
    }

    /// Notifies its receivers that an instance's thread was paused for this long by a compilation.
    pub(super) fn paused(&self, module: &ModuleInner, vmctx: usize, ticks: u64) {
        let receivers = self.plan.receivers().iter();
        receivers.for_each(|receiver| receiver.paused(self.slots(module, vmctx), ticks));
    }

    /// Forgets an instance that ends: another one may get the same address.
    pub(super) fn forget(&self, vmctx: usize) {
        self.told.lock().remove(&vmctx);
    }
}

impl ModuleInner {
    /// Visits the plans whose hooks are in its code, its own first, each with its words in an
    /// instance.
    pub(super) fn each_plan(&self, vmctx: usize, mut visit: impl FnMut(&Plan, InstanceSlots)) {
        visit(self.code.plan(), self.own_slots(vmctx));
        let attached = self.plans.read();
        attached.iter().for_each(|plan| visit(&plan.plan, plan.slots(self, vmctx)));
    }

    /// The receivers of plans that are attached.
    pub(super) fn attached_receivers(&self) -> Vec<Arc<dyn Receiver>> {
        self.plans.read().iter().flat_map(|plan| plan.plan.receivers().to_vec()).collect()
    }

    /// The words of its own plan in an instance.
    pub(super) fn own_slots(&self, vmctx: usize) -> InstanceSlots {
        let first = self.layout.counter(self.counters + 2 * self.calls);
        InstanceSlots { vmctx, words: vmctx + first as usize }
    }
}
