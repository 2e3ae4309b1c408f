//! Sums the words of instances, of living ones and of those that have ended.

use wasm_aot_engine::instrument::compile::InstanceSlots;

/// The sums over all instances so far.
#[derive(Debug, Default)]
pub(super) struct InstanceSums<T> {
    /// The living instances.
    all_slots: Vec<InstanceSlots>,
    /// The sums of instances that have ended, and of words that were reset to be used again.
    pub(super) ended: T,
}

impl<T: Clone> InstanceSums<T> {
    /// An instance begins.
    pub(super) fn begin(&mut self, slots: InstanceSlots) {
        self.all_slots.push(slots);
    }

    /// An instance ends: its words are added.
    pub(super) fn end(&mut self, slots: InstanceSlots, add: impl FnOnce(InstanceSlots, &mut T)) {
        self.all_slots.retain(|other| *other != slots);
        add(slots, &mut self.ended);
    }

    /// Visits the words of all living instances.
    pub(super) fn each(&self, visit: impl FnMut(InstanceSlots)) {
        self.all_slots.iter().copied().for_each(visit);
    }

    /// The words of a living instance.
    pub(super) fn slots(&self, vmctx: usize) -> Option<InstanceSlots> {
        self.all_slots.iter().find(|slots| slots.vmctx == vmctx).copied()
    }

    /// The sums over all instances so far; `add` adds the words of one.
    pub(super) fn so_far(&self, add: impl Fn(InstanceSlots, &mut T)) -> T {
        let mut sums = self.ended.clone();
        self.all_slots.iter().for_each(|slots| add(*slots, &mut sums));
        sums
    }
}
