//! Owners: which functions with probes a place of the code belongs to.
//!
//! A place lies in a function of the symbol table. If that function has probes, they are its own. A
//! part that the compiler has split off (`name.part.0`, `name.cold`) or a copy (`name.isra.0`) has
//! the probes of its original. Where a function holds entry sites of others, these were
//! inlined into it, and debug information says which of them a place is in.

use super::jit::{self, Jit};
use super::mappings::Mappings;
use crate::attribution::{Code, Owner, Place};
use crate::discovery::registered::Registered;
use crate::names::Names;
use crate::probe::Kind;
use crate::runtime::functions::{self, Id};
use crate::runtime::registry::{ModuleEntry, ModuleRegistry};
use crate::runtime::{sites, target};
use crate::symbols::Subject;
use profiler::FuncId;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use wordpatch::CodeAddr;
use wordpatch::os::clocks;

pub(super) struct Owners<'o> {
    registry: &'o ModuleRegistry,
    names: &'o mut Names,
    mappings: &'o mut Mappings,
    jit: &'o mut Jit,
    sees_kernel: bool,
    /// Made at the first use: a short program is never sampled.
    probed: OnceCell<Probed>,
}

/// The functions with probes.
struct Probed {
    /// By module and address.
    functions: Vec<((usize, usize), FuncId)>,
    /// Enter sites, by address, with their module and function.
    enters: Vec<(usize, usize, FuncId)>,
}

impl Probed {
    fn find(registry: &ModuleRegistry) -> Self {
        let mut functions = Vec::new();
        let mut enters = Vec::new();
        let enter_sites = sites::all().filter(|(_, site)| site.kind == Kind::Enter);
        for (site, id) in enter_sites.filter_map(|(_, site)| Some((site, site.owner()?))) {
            let address = id.start();
            let module = site.module as usize;
            if target::is_selected(registry, address) {
                functions.push(((module, address.get()), FuncId(id.0)));
                enters.push((site.call().address().get(), module, FuncId(id.0)));
            }
        }
        // Functions that share a site are known from what hooks have received.
        let former = registry.former_modules();
        for id in functions::all() {
            let address = id.start();
            let entry_of = || registry.entry_of(address).map(|(module, _)| module);
            let module = former.get(&id).copied().or_else(entry_of);
            let is_selected =
                |&module: &usize| target::is_selected_in(&registry.entries[module].module, address);
            if let Some(module) = module.filter(is_selected) {
                functions.push(((module, address.get()), FuncId(id.0)));
            }
        }
        enters.sort_unstable();
        functions.sort_unstable();
        functions.dedup_by_key(|(place, _)| *place);
        Self { functions, enters }
    }

    /// The function that lies there.
    fn at(&self, module: usize, address: usize) -> Option<FuncId> {
        let found = self.functions.binary_search_by_key(&(module, address), |(place, _)| *place);
        found.ok().map(|at| self.functions[at].1)
    }
}

impl<'o> Owners<'o> {
    pub(super) fn new(
        registry: &'o ModuleRegistry,
        names: &'o mut Names,
        mappings: &'o mut Mappings,
        jit: &'o mut Jit,
        sees_kernel: bool,
    ) -> Self {
        let probed = OnceCell::new();
        Self { registry, names, mappings, jit, sees_kernel, probed }
    }

    /// Whether a place without probes is in the profiler's library, or in a trampoline.
    fn is_hook(&mut self, place: Place) -> bool {
        let here = Self::is_hook as *const () as u64;
        self.mappings.place(here, clocks::monotonic()).mapping == place.mapping
            || self
                .mappings
                .address(place)
                .is_some_and(|address| wordpatch::is_code_memory(CodeAddr::new(address)))
    }

    fn probed(&self) -> &Probed {
        self.probed.get_or_init(|| Probed::find(self.registry))
    }

    /// The module that a place lies in, if it has probes, and the address.
    fn module(&self, place: Place) -> Option<(usize, CodeAddr)> {
        let mapped = self.mappings.get(place.mapping)?;
        let address = CodeAddr::new(self.mappings.address(place)?);
        if let Some(entry) = mapped.entry {
            return self.registry.entries[entry].had_probes().then_some((entry, address));
        }
        // A file that was renamed since has another path now.
        let is_current = self.mappings.is_current(place.mapping);
        let holds = |entry: &ModuleEntry, has_its_path: bool| {
            let paths = [&entry.mapped_as, &entry.module.path];
            entry.module.span.contains(&address)
                && if has_its_path { paths.contains(&&mapped.path) } else { entry.is_loaded() }
        };
        let entries = &self.registry.entries;
        let module = entries
            .iter()
            .rposition(|entry| holds(entry, true))
            .or_else(|| entries.iter().rposition(|entry| is_current && holds(entry, false)))?;
        self.registry.entries[module].had_probes().then_some((module, address))
    }

    /// The functions with probes that a place in a module is in, innermost first, and where its
    /// function begins.
    fn in_module(
        &mut self,
        module: usize,
        address: CodeAddr,
        start: usize,
    ) -> (Vec<FuncId>, usize) {
        if let Some(registered) = &self.registry.entries[module].module.registered {
            return self.in_registered(module, registered, address, start);
        }
        let symbol = self.names.symbol(self.registry, module, address);
        let (start, size) =
            symbol.as_ref().map_or((start, 0), |symbol| (symbol.start.get(), symbol.size));
        let copied = symbol.as_ref().filter(|symbol| symbol.name.contains('.'));
        let original = copied.and_then(|symbol| self.names.owner(self.registry, module, symbol));
        let original = original.filter(|&id| target::is_selected(self.registry, id.start()));
        let known = original.map(|id| FuncId(id.0));
        let own = known.or_else(|| self.probed().at(module, start));
        let inside = self.enters_within(module, start, if size == 0 { 1 } else { size });
        let own = own.or_else(|| inside.first().copied());
        if inside.iter().all(|&id| Some(id) == own) {
            return (own.into_iter().collect(), start);
        }
        let mut functions = Vec::new();
        let frames = self.names.inlined_at(self.registry, module, address);
        let inlined = frames.len().saturating_sub(1);
        for name in &frames[..inlined] {
            functions.extend(self.named(module, name));
        }
        functions.extend(own);
        (functions, start)
    }

    /// The same, for registered code: its runtime has reported where its functions and their
    /// variants lie.
    fn in_registered(
        &self,
        module: usize,
        registered: &Registered,
        address: CodeAddr,
        start: usize,
    ) -> (Vec<FuncId>, usize) {
        let Some(function) = registered.at(address) else { return (Vec::new(), start) };
        let is_selected = target::is_selected_in(&self.registry.entries[module].module, address);
        (is_selected.then_some(function.id).into_iter().collect(), function.span.start.get())
    }

    /// The function of a place in code that a runtime has reported to perf.
    fn in_jit(&mut self, place: Place) -> Option<Owner> {
        let when = self.mappings.seen_in_window(place.mapping)?;
        let address = self.mappings.address(place)?;
        let (function, start) = self.jit.function(address, when)?;
        let label = self.jit.label(function)?;
        let subject = Subject {
            name: &label.name,
            module: jit::MODULE,
            file: label.file.as_deref(),
            size: None,
        };
        let is_selected = target::is_named(&subject);
        // A function that begins before the window gets the window's beginning.
        let offset = (place.offset as usize).saturating_sub(address - start) as u32;
        Some(Owner {
            functions: is_selected.then_some(function).into_iter().collect(),
            code: Place { mapping: place.mapping, offset },
            is_kernel_exit: false,
            is_hook: false,
        })
    }

    fn named(&mut self, module: usize, name: &str) -> Option<FuncId> {
        self.names.function_named(self.registry, module, name).map(|id| FuncId(id.0))
    }

    /// The functions whose enter sites lie there.
    fn enters_within(&self, module: usize, start: usize, size: usize) -> Vec<FuncId> {
        let enters = &self.probed().enters;
        let first = enters.partition_point(|&(site, ..)| site < start);
        let here = enters[first..].iter().take_while(|&&(site, ..)| site < start + size);
        here.filter(|&&(_, of, _)| of == module).map(|&(.., id)| id).collect()
    }

    /// Points, which take no time.
    pub(super) fn points() -> BTreeSet<FuncId> {
        let points = (0..sites::count()).filter_map(sites::get).filter(|site| site.is_point());
        points.filter_map(sites::Site::owner).map(|id| FuncId(id.0)).collect()
    }

    /// Functions that were inlined, and on which debug information says nothing; and points.
    pub(super) fn invisible(&mut self) -> BTreeSet<FuncId> {
        let mut invisible = Self::points();
        let mut tells = HashMap::new();
        let (registry, names) = (self.registry, &mut *self.names);
        let probed = self.probed.get_or_init(|| Probed::find(registry));
        for &(site, module, id) in &probed.enters {
            let Some(start) = names.start(registry, module, CodeAddr::new(site)) else { continue };
            if start == Id(id.0).start() {
                continue;
            }
            let Some(symbol) = names.symbol(registry, module, start) else { continue };
            if names.owner(registry, module, &symbol) == Some(Id(id.0)) {
                continue;
            }
            // Asked once a module: it has debug information or has none.
            if !*tells.entry(module).or_insert_with(|| {
                names.inlined_at(registry, module, CodeAddr::new(site)).len() > 1
            }) {
                invisible.insert(id);
            }
        }
        invisible
    }
}

impl Code for Owners<'_> {
    fn owner(&mut self, place: Place) -> Owner {
        if let Some(owner) = self.in_jit(place) {
            return owner;
        }
        let start = self.mappings.start(place);
        let Some((module, address)) = self.module(place) else {
            let is_kernel_exit = !self.sees_kernel && self.mappings.is_behind_system_call(place);
            let is_hook = self.is_hook(place);
            return Owner { functions: [].into(), code: start, is_kernel_exit, is_hook };
        };
        let begin = self.mappings.address(start).unwrap_or(address.get());
        let (functions, begin) = self.in_module(module, address, begin);
        let base = self.mappings.address(Place { offset: 0, ..place }).unwrap_or(begin);
        let code = Place { mapping: place.mapping, offset: begin.saturating_sub(base) as u32 };
        Owner { functions: functions.into(), code, is_kernel_exit: false, is_hook: false }
    }
}
