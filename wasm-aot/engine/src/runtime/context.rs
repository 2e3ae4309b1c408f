//! The memory of a vmctx: the fields of the layout, followed by reserved bytes for counters that
//! may be needed while the program runs.
//!
//! Reserved bytes are untouched pages of zeroes: they occupy memory only where counters count.
//! Counters are read while the thread that they belong to adds to them.
//!
//! # Safety
//!
//! This module exists to own memory that machine code works on.
#![allow(unsafe_code)]

use super::instance::InstanceData;
use super::module::ModuleInner;
use super::store::StoreCore;
use super::targets::{Targets, Words};
use crate::compile::{BUFFER, Detours, MIDDLE, Sites};
use crate::error::Error;
use crate::exception::StoreId;
use crate::vm::{self, Layout};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, Place, Protection};

/// How many bytes of each instance are for plans that are attached while it runs.
pub(super) const WORDS: usize = 8 << 20;

/// A vmctx, full of zeroes at first.
#[derive(Debug)]
pub(crate) struct Context {
    base: CodeAddr,
    len: usize,
    /// The offset of the OSR buffer, for live state that is passed from one variant of the code to
    /// another.
    buffer: usize,
}

impl Context {
    /// Memory for an instance of a module.
    pub(crate) fn new(module: &ModuleInner) -> Result<Self, Error> {
        let buffer = (module.layout.size() + module.room_for_counters()).next_multiple_of(16);
        let len = if module.has_room_for_counters() { buffer + BUFFER } else { buffer };
        // SAFETY: (1) a mapping at a place that the kernel chooses overlaps nothing.
        let base =
            unsafe { pages::map_private(Place::Anywhere, len.max(1), Protection::ReadWrite) };
        Ok(Self { base: base.map_err(Error::system)?, len, buffer })
    }

    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.base.get() as *mut u8
    }

    /// Its address.
    pub(crate) fn address(&self) -> usize {
        self.base.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The middle of the buffer, as machine code knows it.
    pub(crate) fn buffer(&self) -> usize {
        self.base.get() + self.buffer + MIDDLE
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: (1) mapped in `new`; (2) the instance is gone, and with it all references to the
        // memory.
        let _ = unsafe { pages::unmap(self.base, self.len.max(1)) };
    }
}

impl ModuleInner {
    /// Whether instances have reserved bytes for counters. They have none where address space is
    /// scarce.
    pub(super) fn has_room_for_counters(&self) -> bool {
        self.options.sites != Sites::NONE && self.options.reservations
    }

    /// The most words for counters in variants that are compiled while the program runs. No more
    /// edges are counted than there are functions and bytes of code. A call whose target is
    /// counted, with two words, has two bytes and no edge of its own.
    pub(super) fn most_counters(&self) -> usize {
        match (self.info.bodies.first(), self.info.bodies.last()) {
            (Some(first), Some(last)) => self.info.bodies.len() + (last.end - first.start) as usize,
            _ => 0,
        }
    }

    /// How many bytes such variants may need: counters, followed by words of plans.
    pub(super) fn room_for_counters(&self) -> usize {
        if self.has_room_for_counters() { 8 * self.most_counters() + WORDS } else { 0 }
    }
}

/// The counters of all instances of a module.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Known>);

/// What is known of all instances.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The address of the vmctx of each living instance.
    pub(super) live: Vec<usize>,
    /// The sums of the counters of instances that have ended, and those of counters of detours.
    ended: Vec<u64>,
    ended_detours: BTreeMap<u32, u64>,
    /// The targets of calls that were accumulated.
    pub(super) targets: Targets,
}

impl Counters {
    /// An instance has begun.
    pub(crate) fn begin(&self, context: &Context) {
        self.0.lock().live.push(context.base.get());
    }

    /// An instance ends: what it has counted stays.
    pub(super) fn end(&self, context: &Context, module: &ModuleInner) {
        let (layout, words, base) = (&module.layout, module.words(), context.base.get());
        let detours = module.detours.read().clone();
        let mut known = self.0.lock();
        known.live.retain(|other| *other != base);
        add(&mut known.ended, base, layout, words);
        add_detours(&mut known.ended_detours, base, module, &detours);
        known.targets.add_words(base, layout, words);
    }

    /// Whether no instance lives, so that no thread is in the code.
    pub(super) fn are_idle(&self) -> bool {
        self.0.lock().live.is_empty()
    }

    /// Visits the vmctx of each living instance.
    pub(super) fn each(&self, visit: impl FnMut(usize)) {
        self.0.lock().live.iter().copied().for_each(visit);
    }

    /// Visits the vmctx of each instance of a store.
    pub(super) fn each_of(&self, store: *const StoreCore, visit: impl FnMut(usize)) {
        let known = self.0.lock();
        known.live.iter().copied().filter(|vmctx| store_of(*vmctx) == Some(store)).for_each(visit);
    }

    /// The stores of living instances.
    pub(super) fn stores(&self) -> Vec<StoreId> {
        let known = self.0.lock();
        // SAFETY: (1) a store outlives its instances, none of which ends while the lock is held;
        // (2) its identity never changes.
        known
            .live
            .iter()
            .filter_map(|vmctx| store_of(*vmctx))
            .map(|store| unsafe { (*store).id })
            .collect()
    }

    /// The stacks of the threads that execute code of the instances, the innermost activation
    /// first.
    pub(super) fn stacks(&self) -> Vec<Vec<usize>> {
        let known = self.0.lock();
        // One store has one thread.
        let mut stores: Vec<*const StoreCore> =
            known.live.iter().filter_map(|vmctx| store_of(*vmctx)).collect();
        stores.sort_unstable();
        stores.dedup();
        // SAFETY: (1) a store outlives its instances, none of which ends while the lock is held;
        // (2) its interruption may be used from other threads.
        stores.into_iter().map(|store| unsafe { (*store).interruption() }.look()).collect()
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }

    /// The sums over all instances.
    pub(super) fn sums(&self, layout: &Layout, words: Words) -> Vec<u64> {
        let known = self.0.lock();
        let mut sums = known.ended.clone();
        sums.resize(words.counters as usize, 0);
        known.live.iter().for_each(|base| add(&mut sums, *base, layout, words));
        sums
    }

    /// The sums of the counters of detours over all instances, by their words.
    pub(super) fn detours(&self, module: &ModuleInner) -> BTreeMap<u32, u64> {
        let detours = module.detours.read().clone();
        let known = self.0.lock();
        let mut sums = known.ended_detours.clone();
        known.live.iter().for_each(|base| add_detours(&mut sums, *base, module, &detours));
        sums
    }
}

/// The store of the instance with that vmctx, once the vmctx holds it.
fn store_of(vmctx: usize) -> Option<*const StoreCore> {
    // SAFETY: (1) the word of an instance that lives: zero, or the instance that owns it; (2) the
    // instance's store does not change.
    unsafe {
        let instance = AtomicUsize::from_ptr((vmctx + vm::at::INSTANCE) as *mut usize).load(Acquire)
            as *const InstanceData;
        instance.as_ref().map(|instance| instance.store.cast_const())
    }
}

/// The identity of the store of an instance that lives and is being used, by its vmctx.
pub fn store_id_of(vmctx: usize) -> Option<StoreId> {
    // SAFETY: (1) a store outlives its instances; (2) its identity never changes.
    store_of(vmctx).map(|store| unsafe { (*store).id })
}

fn add(sums: &mut Vec<u64>, base: usize, layout: &Layout, words: Words) {
    sums.resize(words.counters as usize, 0);
    for (number, sum) in sums.iter_mut().enumerate() {
        *sum += counter(base, layout, words.first + number as u32);
    }
}

fn add_detours(
    sums: &mut BTreeMap<u32, u64>,
    base: usize,
    module: &ModuleInner,
    detours: &Detours,
) {
    let first = module.attached_words();
    for word in detours.words() {
        *sums.entry(word).or_default() += counter(base, &module.layout, first + word);
    }
}

/// The value of a counter of the instance with that vmctx.
fn counter(base: usize, layout: &Layout, word: u32) -> u64 {
    let place = (base + layout.counter(word) as usize) as *mut u64;
    // SAFETY: (1) the layout keeps counters aligned and inside of the memory of an instance that
    // lives, see `begin` and `end`; (2) others only add to them.
    unsafe { AtomicU64::from_ptr(place) }.load(Relaxed)
}
