//! `alloc`: what the program allocates, where, and how much of it is still live.
//!
//! Allocators are recognised by the names of their functions, exported or not, also inside of a
//! module such as `c.malloc`, as Zig has it; the meaning of the arguments follows from the name. Of
//! allocators that call each other, the outermost counts. A site is the place that the allocator
//! was called from, with the callers of that place.

use super::hooked::HookedMonitor;
use super::outline::Outline;
use super::{Choice, MonitorError, Report};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use wasm_aot_body::report::several;
use wasm_aot_engine::instrument::compile::{
    Action, Call, Capture, Draft, Firing, InstanceSlots, Mode, Receiver,
};
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};
use wasm_aot_engine::instrument::runtime::{Module, Places, callers};

/// How many callers a site consists of by default.
const DEPTH: usize = 4;

/// What an allocator's function does; numbers are those of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// Allocates memory of a size, or of a number of times a size.
    Allocate { size: u32, times: Option<u32> },
    /// Frees memory.
    Free { pointer: u32 },
    /// Allocates other memory, and frees the old one.
    Reallocate { pointer: u32, size: u32 },
}

/// Names, and how many parameters and results a function of that name has.
const ALLOCATORS: &[(&str, u32, u32, Deed)] = &[
    ("malloc", 1, 1, Deed::Allocate { size: 0, times: None }),
    ("calloc", 2, 1, Deed::Allocate { size: 1, times: Some(0) }),
    ("aligned_alloc", 2, 1, Deed::Allocate { size: 1, times: None }),
    ("memalign", 2, 1, Deed::Allocate { size: 1, times: None }),
    ("realloc", 2, 1, Deed::Reallocate { pointer: 0, size: 1 }),
    ("free", 1, 0, Deed::Free { pointer: 0 }),
    ("cabi_realloc", 4, 1, Deed::Reallocate { pointer: 0, size: 3 }),
    ("__rust_alloc", 2, 1, Deed::Allocate { size: 0, times: None }),
    ("__rust_alloc_zeroed", 2, 1, Deed::Allocate { size: 0, times: None }),
    ("__rust_dealloc", 3, 0, Deed::Free { pointer: 0 }),
    ("__rust_realloc", 4, 1, Deed::Reallocate { pointer: 0, size: 3 }),
    ("__rdl_alloc", 2, 1, Deed::Allocate { size: 0, times: None }),
    ("__rdl_alloc_zeroed", 2, 1, Deed::Allocate { size: 0, times: None }),
    ("__rdl_dealloc", 3, 0, Deed::Free { pointer: 0 }),
    ("__rdl_realloc", 4, 1, Deed::Reallocate { pointer: 0, size: 3 }),
    ("operator new(unsigned long)", 1, 1, Deed::Allocate { size: 0, times: None }),
    ("operator new[](unsigned long)", 1, 1, Deed::Allocate { size: 0, times: None }),
    ("operator delete(void*)", 1, 0, Deed::Free { pointer: 0 }),
    ("operator delete[](void*)", 1, 0, Deed::Free { pointer: 0 }),
    ("operator delete(void*, unsigned long)", 2, 0, Deed::Free { pointer: 0 }),
    ("operator delete[](void*, unsigned long)", 2, 0, Deed::Free { pointer: 0 }),
    ("__new", 2, 1, Deed::Allocate { size: 0, times: None }),
    ("runtime.alloc", 2, 1, Deed::Allocate { size: 0, times: None }),
];

/// The monitor.
#[derive(Debug)]
pub(super) struct Allocations {
    choice: Choice,
    depth: usize,
    state: Mutex<AllocState>,
}

#[derive(Debug, Default)]
struct AllocState {
    /// Which functions are allocators.
    deeds: Vec<(u32, Deed)>,
    instances: HashMap<usize, InstanceBlocks>,
    sites: HashMap<Vec<(u32, u32)>, AllocSite>,
    live: u64,
    peak: u64,
    /// How often a block was freed whose allocation was not seen.
    strange: u64,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct InstanceBlocks {
    /// Calls of allocators that have not returned: frame, operation, arguments.
    open: Vec<(usize, Deed, Vec<u64>)>,
    /// Blocks that were allocated and not freed: size, and site.
    blocks: HashMap<u64, (u64, Vec<(u32, u32)>)>,
}

#[derive(Debug, Default)]
struct AllocSite {
    count: u64,
    bytes: u64,
    live: u64,
    live_bytes: u64,
}

/// Makes the monitor.
pub(super) fn alloc_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let depth = choice.number("depth").map_or(DEPTH, |depth| depth as usize);
    Ok(Arc::new(Allocations { choice: choice.clone(), depth, state: Mutex::default() }))
}

/// What a function does, by its name or one that it is exported by.
fn deed(info: &ModuleInfo, index: u32, label: &str) -> Option<Deed> {
    let exported =
        info.exports.iter().filter(|export| export.space == Space::Func && export.index == index);
    let ty = info.function_type(index);
    let shape = (ty.params().len() as u32, ty.results().len() as u32);
    let mut names = exported.map(|export| export.name.as_str()).chain([label]);
    names.find_map(|name| {
        // Paths, and hashes in them, come before.
        let bare = if name.starts_with("operator") {
            name
        } else {
            let bare = name.rsplit("::").next().unwrap_or(name);
            match bare.rsplit_once('.') {
                Some((module, bare)) if module.ends_with("malloc") => bare,
                _ => bare,
            }
        };
        let known = ALLOCATORS
            .iter()
            .find(|(known, params, results, _)| *known == bare && (*params, *results) == shape);
        known.map(|(.., deed)| *deed)
    })
}

impl HookedMonitor for Allocations {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let mut deeds = Vec::new();
        draft.add_receiver(Arc::<Self>::clone(&self));
        for function in &outline.functions {
            let Some(deed) = deed(outline.info, function.index, &function.label) else { continue };
            let ty = outline.info.function_type(function.index);
            let number = 2 * deeds.len() as u64;
            deeds.push((function.index, deed));
            let call = |number, captures: Vec<Capture>| {
                Action::Call(Call {
                    receiver: Arc::<Self>::clone(&self),
                    number,
                    captures,
                    writes: false,
                })
            };
            let params = (0..ty.params().len() as u32).map(Capture::Local).collect();
            let results = (0..ty.results().len() as u32).map(Capture::Operand).collect();
            draft.hook_function(function.index, Mode::Entry, call(number, params));
            draft.hook_function(function.index, Mode::Exit, call(number + 1, results));
        }
        self.state.lock().deeds = deeds;
    }

    fn counting(&self) -> &'static [&'static str] {
        &["blocks"]
    }

    fn report(&self, module: &Module) -> Report {
        let mut report =
            Report::new("alloc", &["bytes", "blocks", "live bytes", "live", "site", "source"]);
        let places = Places::of(module);
        let state = self.state.lock();
        for (way, site) in &state.sites {
            let shown: Vec<String> =
                way.iter().map(|(function, at)| places.place(*function, *at)).collect();
            if way
                .first()
                .is_some_and(|(function, _)| !self.choice.wants(&module.inner().label(*function)))
            {
                continue;
            }
            let source = way.iter().find_map(|(_, at)| places.source(*at)).unwrap_or_default();
            let site_cells = [site.bytes, site.count, site.live_bytes, site.live].map(Into::into);
            report.row(site_cells.into_iter().chain([shown.join(" < ").into(), source.into()]));
        }
        report.rows.sort_by_key(|row| (std::cmp::Reverse(row[0].sum()), format!("{:?}", row[4])));
        let sum = |of: fn(&AllocSite) -> u64| state.sites.values().map(of).sum::<u64>();
        report.total_of(["bytes", "blocks", "live bytes", "live"]);
        if state.deeds.is_empty() {
            report.notes.push("the module has no function with the name of an allocator's".into());
        }
        report.notes.push(format!(
            "allocated: {} in {}; still there: {} in {}, {} at most at once",
            several(sum(|site| site.bytes), "byte"),
            several(sum(|site| site.count), "block"),
            several(sum(|site| site.live_bytes), "byte"),
            several(sum(|site| site.live), "block"),
            state.peak
        ));
        if state.strange > 0 {
            report
                .notes
                .push(format!("freed and not seen allocated: {}", several(state.strange, "block")));
        }
        report.notes.extend(state.failure.clone());
        report
    }
}

impl Receiver for Allocations {
    fn fire(&self, firing: &mut Firing<'_>) {
        let mut state = self.state.lock();
        let Some((_, deed)) = state.deeds.get(firing.number as usize / 2).copied() else { return };
        let values: Vec<u64> = firing.values.iter().map(|value| value[0]).collect();
        let instance = state.instances.entry(firing.vmctx).or_default();
        // Calls that a trap or an exception has unwound are below.
        while instance.open.last().is_some_and(|(frame, ..)| *frame < firing.frame) {
            instance.open.pop();
        }
        if firing.number.is_multiple_of(2) {
            instance.open.push((firing.frame, deed, values));
            return;
        }
        let Some((_, deed, args)) = instance.open.pop_if(|(frame, ..)| *frame == firing.frame)
        else {
            return;
        };
        if !instance.open.is_empty() {
            return;
        }
        let result = values.first().copied().unwrap_or_default();
        match deed {
            Deed::Allocate { size, times } => {
                let size = args[size as usize] * times.map_or(1, |times| args[times as usize]);
                state.allocated(firing, result, size, self.depth);
            }
            Deed::Free { pointer } => state.freed(firing.vmctx, args[pointer as usize]),
            Deed::Reallocate { pointer, size } => {
                let (pointer, size) = (args[pointer as usize], args[size as usize]);
                // A block that could not be enlarged still exists.
                if result != 0 || size == 0 {
                    state.freed(firing.vmctx, pointer);
                    state.allocated(firing, result, size, self.depth);
                }
            }
        }
    }

    fn end(&self, slots: InstanceSlots) {
        self.state.lock().instances.remove(&slots.vmctx);
    }

    fn failed(&self, why: &str) {
        self.state.lock().failure.get_or_insert(format!("the monitor has failed: {why}"));
    }
}

impl AllocState {
    fn allocated(&mut self, firing: &Firing<'_>, pointer: u64, size: u64, depth: usize) {
        if pointer == 0 {
            return;
        }
        let way = callers(firing.vmctx, firing.frame, depth);
        let site = self.sites.entry(way.clone()).or_default();
        (site.count, site.bytes) = (site.count + 1, site.bytes + size);
        (site.live, site.live_bytes) = (site.live + 1, site.live_bytes + size);
        self.live += size;
        self.peak = self.peak.max(self.live);
        let before =
            self.instances.entry(firing.vmctx).or_default().blocks.insert(pointer, (size, way));
        if let Some(block) = before {
            self.gone(&block);
        }
    }

    fn freed(&mut self, vmctx: usize, pointer: u64) {
        if pointer == 0 {
            return;
        }
        match self.instances.entry(vmctx).or_default().blocks.remove(&pointer) {
            Some(block) => self.gone(&block),
            None => self.strange += 1,
        }
    }

    fn gone(&mut self, (size, way): &(u64, Vec<(u32, u32)>)) {
        self.live -= size;
        if let Some(site) = self.sites.get_mut(way) {
            (site.live, site.live_bytes) = (site.live - 1, site.live_bytes - size);
        }
    }
}
