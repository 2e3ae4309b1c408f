//! Counts the targets of calls through tables and references.
//!
//! Each place of such a call has two words after the counters of its instance: the function that
//! was called last, and how often it was. Machine code adds to the second while the first is the
//! same; otherwise it calls [`retarget`](Counters::retarget), which accumulates the words in a map
//! and resets them.
//!
//! # Safety
//!
//! This module exists to read references to functions that machine code has stored; their vmctx
//! says what they belong to.
#![allow(unsafe_code)]

use super::context::Counters;
use super::instance::InstanceData;
use super::module::ModuleInner;
use crate::vm::{self, HOST_MAGIC, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A function, whichever instance it was called in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CallTarget {
    Host,
    /// Of the module with that address, its index there.
    Wasm(usize, u32),
}

/// In place of the index of a function that is not found by its code.
const NO_FUNCTION: u32 = u32::MAX;

impl CallTarget {
    /// The greatest target in the order.
    const LAST: Self = Self::Wasm(usize::MAX, u32::MAX);
}

/// How often each place called each target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    counts: BTreeMap<(u32, CallTarget), u64>,
    /// Whether code counts them.
    are_told: bool,
    /// The modules of all functions, which are kept until the functions are named.
    modules: HashMap<usize, Arc<ModuleInner>>,
}

impl Targets {
    fn add(&mut self, place: u32, function: u64, count: u64) {
        if function == 0 || count == 0 {
            return;
        }
        let (callee, module) = resolve(function as *const vm::FuncRef);
        if let (CallTarget::Wasm(address, _), Some(module)) = (callee, module) {
            self.modules.entry(address).or_insert(module);
        }
        *self.counts.entry((place, callee)).or_default() += count;
    }

    /// Adds the words of an instance.
    pub(super) fn add_words(&mut self, base: usize, layout: &Layout, words: Words) {
        for place in 0..words.places {
            let [function, count] = words.of(base, layout, place).map(|word| word.load(Relaxed));
            self.add(place, function, count);
        }
    }

    /// Subtracts earlier counts.
    pub(super) fn subtract(&mut self, earlier: &Self) {
        for (place, earlier) in &earlier.counts {
            if let Some(count) = self.counts.get_mut(place) {
                *count = count.saturating_sub(*earlier);
            }
        }
        self.counts.retain(|_, count| *count > 0);
    }

    /// Adds other counts.
    pub(super) fn join(&mut self, more: &Self) {
        for (place, count) in &more.counts {
            *self.counts.entry(*place).or_default() += count;
        }
        self.are_told |= more.are_told;
        for (address, module) in &more.modules {
            self.modules.entry(*address).or_insert_with(|| Arc::clone(module));
        }
    }

    /// Whether the targets of calls were counted.
    pub(crate) fn are_told(&self) -> bool {
        self.are_told
    }

    /// The targets of calls from a place of a module: names, indices of functions of the same
    /// module, and how often.
    pub(crate) fn of(&self, own: &ModuleInner, place: u32) -> Vec<(String, Option<u32>, u64)> {
        let own = std::ptr::from_ref(own) as usize;
        let index = |callee| match callee {
            CallTarget::Wasm(module, function) if module == own && function != NO_FUNCTION => {
                Some(function)
            }
            CallTarget::Wasm(..) | CallTarget::Host => None,
        };
        let here = self.counts.range((place, CallTarget::Host)..=(place, CallTarget::LAST));
        let mut named: Vec<_> =
            here.map(|((_, callee), count)| (self.name(*callee), index(*callee), *count)).collect();
        named.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        named
    }

    fn name(&self, callee: CallTarget) -> String {
        match callee {
            CallTarget::Host => "(host)".into(),
            CallTarget::Wasm(module, function) => self.modules[&module].label(function),
        }
    }
}

/// Where the words of an instance's places are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    /// How many words come before the counters.
    pub(super) first: u32,
    /// How many counters come before them.
    pub(super) counters: u32,
    pub(super) places: u32,
}

impl Words {
    fn of<'a>(self, base: usize, layout: &Layout, place: u32) -> [&'a AtomicU64; 2] {
        let word = |number: u32| {
            let address = (base
                + layout.counter(self.first + self.counters + 2 * place + number) as usize)
                as *mut u64;
            // SAFETY: (1) the layout, or the room behind it, keeps the words aligned and inside of
            // the memory of an instance that lives.
            unsafe { AtomicU64::from_ptr(address) }
        };
        [word(0), word(1)]
    }
}

/// Which function a reference leads to.
fn resolve(reference: *const vm::FuncRef) -> (CallTarget, Option<Arc<ModuleInner>>) {
    // SAFETY: (1) machine code has called through the reference, which lives as long as its store;
    // (2) every vmctx begins with a word that says what it is.
    let (vmctx, magic) = unsafe { ((*reference).vmctx, *(*reference).vmctx.cast::<u64>()) };
    if magic == HOST_MAGIC {
        return (CallTarget::Host, None);
    }
    // SAFETY: (1) the vmctx is an instance's, which it leads to, and which lives.
    let instance = unsafe { &**vmctx.add(vm::at::INSTANCE).cast::<*const InstanceData>() };
    let module = &instance.module;
    // A reference to an imported function may lie in the importing instance. The function is then
    // found by its code. SAFETY: (1) as above.
    let code = unsafe { (*reference).code } as usize;
    let function = module.function_of_code(code).unwrap_or(NO_FUNCTION);
    (CallTarget::Wasm(Arc::as_ptr(module) as usize, function), Some(Arc::clone(module)))
}

impl Counters {
    /// Called when a place calls another function than before: accumulates the old count.
    pub(crate) fn retarget(&self, instance: &InstanceData, place: u32, function: u64) {
        let module = &instance.module;
        let words = module.words();
        let [known, count] = words.of(instance.base(), &module.layout, place);
        let (before, counted) = (known.load(Relaxed), count.load(Relaxed));
        // First the count becomes 0, then the callee is replaced: no call is counted for the wrong
        // one.
        count.store(0, Relaxed);
        known.store(function, Relaxed);
        self.known().targets.add(place, before, counted);
    }

    /// The targets of all calls.
    pub(crate) fn targets(&self, module: &ModuleInner) -> Targets {
        let known = self.known();
        let mut targets = Targets { are_told: module.words().places > 0, ..known.targets.clone() };
        known.live.iter().for_each(|base| targets.add_words(*base, &module.layout, module.words()));
        targets
    }
}
