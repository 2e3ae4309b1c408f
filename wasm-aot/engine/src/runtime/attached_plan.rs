//! Plans that are attached while instances run: their words, and their receivers.

use super::late::Due;
use super::module::ModuleInner;
use crate::compile::{InstanceSlots, Plan, Receiver};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A plan that was attached once: where its words are in instances, and which of them its receivers
/// were notified of.
#[derive(Debug)]
pub(crate) struct AttachedPlan {
    pub(super) plan: Plan,
    /// How many words of such plans come before its own.
    pub(super) base: u32,
    /// Is asked whether a function that is called for the first time is wanted.
    pub(super) due: Option<Weak<dyn Due>>,
    told: Mutex<HashSet<usize>>,
}

/// Whether any plan that was attached restores words.
static RESTORES: AtomicBool = AtomicBool::new(false);

/// Whether any plan that was attached has receivers.
static TELLS: AtomicBool = AtomicBool::new(false);

/// Whether a receiver may have to be notified of frames that are taken away. Usable in a signal
/// handler.
pub(super) fn any_tells() -> bool {
    TELLS.load(Relaxed)
}

/// Whether any plan that was attached wants partial exits noted.
static PARTIAL_EXITS: AtomicBool = AtomicBool::new(false);

/// Whether it may have to be noted where frames were that are taken away. Usable in a signal
/// handler.
pub(super) fn any_partial_exits() -> bool {
    PARTIAL_EXITS.load(Relaxed)
}

/// Whether words of plans that were attached are kept while machine code runs.
pub(super) fn any_restores() -> bool {
    RESTORES.load(Relaxed)
}

impl AttachedPlan {
    /// A plan that has not been attached before.
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
        // Behind all counters that there may be.
        let first = module.layout.counter(module.attached_words() + self.base);
        InstanceSlots { vmctx, words: vmctx + first as usize }
    }

    /// Tells its receivers of an instance.
    pub(super) fn begin(&self, module: &ModuleInner, vmctx: usize) {
        if !self.told.lock().insert(vmctx) {
            return;
        }
        self.plan.receivers().iter().for_each(|receiver| receiver.begin(self.slots(module, vmctx)));
    }

    /// Tells its receivers that the thread of an instance had something compiled for so long.
    pub(super) fn paused(&self, module: &ModuleInner, vmctx: usize, ticks: u64) {
        let receivers = self.plan.receivers().iter();
        receivers.for_each(|receiver| receiver.paused(self.slots(module, vmctx), ticks));
    }

    /// An instance ends: another one may lie there.
    pub(super) fn forget(&self, vmctx: usize) {
        self.told.lock().remove(&vmctx);
    }
}

impl ModuleInner {
    /// Visits the plans that hooks in its code are of, its own first, each with its words in an
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
