//! Adds up the words of instances, those that live and those that have ended.

use wasm_aot_engine::instrument::compile::InstanceSlots;

/// What all instances have said so far.
#[derive(Debug, Default)]
pub(super) struct InstanceSums<T> {
    /// The instances that live.
    all_slots: Vec<InstanceSlots>,
    /// What others have said until they ended, or was taken out of words that are used again.
    pub(super) ended: T,
}

impl<T: Clone> InstanceSums<T> {
    /// An instance begins.
    pub(super) fn begin(&mut self, slots: InstanceSlots) {
        self.all_slots.push(slots);
    }

    /// An instance ends: what it has said is added.
    pub(super) fn end(&mut self, slots: InstanceSlots, add: impl FnOnce(InstanceSlots, &mut T)) {
        self.all_slots.retain(|other| *other != slots);
        add(slots, &mut self.ended);
    }

    /// The words of an instance that lives.
    pub(super) fn slots(&self, vmctx: usize) -> Option<InstanceSlots> {
        self.all_slots.iter().find(|slots| slots.vmctx == vmctx).copied()
    }

    /// What all have said so far, if `add` adds what one says.
    pub(super) fn so_far(&self, add: impl Fn(InstanceSlots, &mut T)) -> T {
        let mut sums = self.ended.clone();
        self.all_slots.iter().for_each(|slots| add(*slots, &mut sums));
        sums
    }
}
