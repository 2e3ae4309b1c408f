//! Installing: redirecting the sites of a module to trampolines of their own.
//!
//! ```text
//!   site:        call trampoline                    (rewritten once, behind a barrier)
//!   trampoline:  if rdi is not own: mov rsi, exit   exits where inlined functions end: their place
//!                jmp past │ test eax, …             enter sites: the gate, switched by one byte
//!                count it here, if it is the function that is expected; ret
//!         past:  mov r11d, [cell]                   the offset of its function's record
//!                mov r10d, number                   the site
//!                jmp  [slot]                        a stub
//! ```
//!
//! The counter is in line because a jump through memory costs as much again as counting does. Its
//! code contains the record's place, and does not check whether the thread's block reaches that
//! far: it is used where every block [has room](super::threads::room).
//!
//! Later, a site's behaviour is controlled by its slot, which is data, and by its switch, one byte.
//! The sites of modules that are loaded when the profiler begins are installed before their code
//! runs. Those of modules that are loaded later are installed while their code runs: calls within
//! the microseconds of the barrier are not seen.

mod inlined;
mod leading;
mod learning;
mod opening;
mod trampoline;

use super::functions::{self, Id};
use super::registry::{FileIdentity, ModuleEntry, ModuleRegistry, enter_span, mapped_as};
use super::site_lists::Moves;
use super::sites::{self, UNKNOWN};
use super::{modes, sharing, target};
use crate::discovery::points::Pair;
use crate::discovery::{self, Discovery, FoundSite, Module};
use crate::probe::Kind;
use callpatch::{Islands, Role, Survey};
use inlined::Containers;
pub(super) use leading::{commit_batch, is_alone};
use leading::{install_site, lead_all};
use std::collections::{BTreeSet, HashMap, HashSet};
use trampoline::{Beginning, Trampoline};
use wordpatch::os::pages::PAGE;
use wordpatch::{CodeAddr, Policy};

/// The offset of a record that no thread's block has.
pub(super) const NO_RECORD: u32 = !31;

impl ModuleRegistry {
    /// Installs the sites of every module that is not in the registry yet. Returns the functions
    /// that are new or have new sites. With `wanted`, takes only the modules in which one of these
    /// addresses lies.
    pub(crate) fn install_all(
        &mut self,
        policy: &Policy,
        transient: bool,
        wanted: Option<&[u64]>,
    ) -> BTreeSet<Id> {
        let mut changed = BTreeSet::new();
        for module in Module::loaded() {
            if self.entries.iter().any(|entry| {
                !entry.gone && entry.module.span == module.span && entry.module.path == module.path
            }) {
                continue;
            }
            let holds = |address: &u64| module.span.contains(&CodeAddr::new(*address as usize));
            if wanted.is_some_and(|wanted| !wanted.iter().any(holds)) {
                continue;
            }
            let name = module.name.clone();
            match self.install(module, policy, transient) {
                Ok(functions) => changed.extend(functions),
                Err(why) => self.refusals.push(format!("{name}: {why}")),
            }
        }
        changed
    }

    fn install(
        &mut self,
        module: Module,
        policy: &Policy,
        transient: bool,
    ) -> Result<BTreeSet<Id>, String> {
        let found = discovery::discover(&module);
        let calls_hooks = found.as_ref().is_ok_and(|found| !found.hooks.is_empty());
        let may_be_prepared = found.as_ref().is_ok_and(|found| found.may_be_prepared);
        let (found, failure) = match found {
            Ok(found) => (found, None),
            Err(error) => (Discovery::default(), Some(error.to_string())),
        };
        let identity = if transient { FileIdentity::of(&module) } else { None };
        let count = found.sites.iter().filter(|site| !site.own).count();
        let is_former = |entry: &ModuleEntry| {
            entry.gone
                && entry.identity.is_some()
                && entry.identity == identity
                && entry.numbers.len() == count
        };
        let former = self.entries.iter().position(is_former);
        let at = former.unwrap_or(self.entries.len());
        let lifetime = self.free_since(&module.span)..u64::MAX;
        let mut entry = match former {
            Some(at) => self.entries[at].moved_to(module, lifetime),
            None => {
                let (first, none) = (Id(functions::count()), sites::count()..sites::count());
                ModuleEntry {
                    mapped_as: mapped_as(&module),
                    module,
                    sites: none,
                    islands: None,
                    may_be_prepared,
                    is_open: false,
                    is_new: true,
                    puns: BTreeSet::new(),
                    transient,
                    gone: false,
                    lifetime,
                    identity,
                    numbers: Vec::new(),
                    containers: BTreeSet::new(),
                    first,
                    functions: Vec::new(),
                }
            }
        };
        let led =
            if found.sites.is_empty() { Ok(()) } else { self.lead(at, &mut entry, &found, policy) };
        if former.is_none() {
            entry.sites.end = sites::count();
        }
        let numbers = entry.sites.clone();
        if calls_hooks {
            enter_span(&entry.module.span);
        }
        match former {
            Some(at) => self.entries[at] = entry,
            None => self.entries.push(entry),
        }
        led?;
        if let Some(why) = failure {
            return Err(why);
        }
        // Nothing to switch yet: no site is verified, except for shared ones, and these are on
        // until one of their functions gets a mode.
        let mut changed = self.site_lists.extend(numbers.clone());
        let mut moves = Moves::default();
        for (number, site) in numbers.filter_map(|number| Some((number, sites::get(number)?))) {
            sharing::partners(site).for_each(|id| moves.add(id, number, Kind::Exit));
        }
        changed.extend(self.site_lists.apply_moves(moves));
        Ok(changed)
    }

    /// Installs probes at the points that the user wants in modules of these numbers, paired by
    /// their names, or as `named`.
    pub(crate) fn install_points(
        &mut self,
        named: &[Pair],
        is_asked: impl Fn(u32) -> bool,
    ) -> BTreeSet<Id> {
        let Some(unmodified) = &mut self.unmodified else { return BTreeSet::new() };
        let installed =
            unmodified.install_points(named, target::policy(), (is_asked, target::wants));
        self.count(installed)
    }

    /// Installs probes in the unmodified functions that hold these addresses and have already run.
    /// Returns those that are new.
    pub(crate) fn install_unmodified(&mut self, addresses: &[CodeAddr]) -> BTreeSet<Id> {
        let Some(unmodified) = self.unmodified.as_mut().filter(|code| !code.has_points()) else {
            return BTreeSet::new();
        };
        let installed = unmodified.install(addresses, target::policy(), target::wants);
        self.count(installed)
    }

    /// The same, for functions that have not run yet.
    pub(crate) fn install_early(&mut self, addresses: &[CodeAddr]) -> BTreeSet<Id> {
        let Some(unmodified) = self.unmodified.as_mut().filter(|code| !code.has_points()) else {
            return BTreeSet::new();
        };
        let installed = unmodified.install_early(addresses, target::policy(), target::wants);
        self.count(installed)
    }

    /// Counts the calls of functions that have got these sites, until they have a mode.
    fn count(&mut self, installed: Result<Vec<u32>, String>) -> BTreeSet<Id> {
        let numbers = installed.unwrap_or_else(|why| {
            self.refusals.push(why);
            Vec::new()
        });
        for &number in &numbers {
            let entry =
                sites::get(number).and_then(|site| self.entries.get_mut(site.module as usize));
            if let Some(entry) = entry.filter(|entry| entry.transient) {
                entry.puns.insert(number);
            }
        }
        let new = self.site_lists.extend(numbers);
        self.arm(&new);
        new.iter().copied().for_each(modes::renew);
        new
    }

    /// Adopts what was found, makes trampolines, and redirects all sites there with one barrier.
    /// The sites of an entry that existed before have numbers already.
    fn lead(
        &mut self,
        at: usize,
        entry: &mut ModuleEntry,
        found: &Discovery,
        policy: &Policy,
    ) -> Result<(), String> {
        let mut survey = Survey::new(*policy).map_err(|error| error.to_string())?;
        let mut islands =
            Islands::near(entry.module.span.clone()).map_err(|error| error.to_string())?;
        let shared = SharedExits::find(found);
        let containers = Containers::find(&found.sites);
        expect(&mut islands, &found.sites, &containers, entry.transient);
        let former = std::mem::take(&mut entry.numbers);
        if former.is_empty() {
            functions::expect(found.functions);
        }
        for pages in runs(&found.sites) {
            // SAFETY: as for adopting, below.
            #[allow(unsafe_code)]
            unsafe {
                survey.open(pages);
            }
        }
        let mut installed = Ok(());
        for (order, site) in found.sites.iter().filter(|site| !site.own).enumerate() {
            let is_hook = |to| found.is_hook(site.kind, to);
            // SAFETY: (1) a loaded module's code stays mapped until its sites are marked as gone;
            // (2) an instruction begins there: discovery decoded its way to it; (3) no other code
            // writes there; (4) a hook is a function that the program did not ask for, and flags
            // are dead at calls (A5); (5) hooks and stubs may be called for ever.
            #[allow(unsafe_code)]
            let adopted = unsafe { survey.adopt(site.address, site.role, is_hook) };
            let number = match adopted {
                Ok(call) => {
                    let end = containers.end_of_inlined(site);
                    let entry = (at as u32, entry.transient);
                    install_site(
                        &mut islands,
                        call,
                        (site, end),
                        &shared.partners(site),
                        entry,
                        former.get(order).copied(),
                    )
                }
                Err(error) => {
                    if former.is_empty() {
                        self.refusals.push(error.to_string());
                    }
                    Ok(UNKNOWN)
                }
            };
            entry.numbers.push(*number.as_ref().unwrap_or(&UNKNOWN));
            if let Err(why) = number {
                installed = Err(why);
                break;
            }
        }
        let numbers = entry.numbers.iter().copied().filter(|&number| number != UNKNOWN);
        let led = installed.and_then(|()| lead_all(numbers, &mut islands, policy));
        // The trampolines are in use from here on, even after a failure.
        entry.islands = Some(islands);
        entry.containers = containers.addresses();
        led
    }
}

/// Makes room for trampolines, and for two slots each.
fn expect(islands: &mut Islands, sites: &[FoundSite], containers: &Containers, transient: bool) {
    const SLOTS: usize = 16;
    let len = |site: &FoundSite| match containers.end_of_inlined(site) {
        Some(end) => Trampoline::len(&Beginning::End(end)),
        None if site.kind == Kind::Enter && !transient => Trampoline::COUNTED,
        None => Trampoline::len(&Beginning::Plain),
    };
    let own = || sites.iter().filter(|site| !site.own);
    let has_lane = |site: &&FoundSite| site.role == Role::Call && !site.form.is_through_memory();
    let others = own().filter(|site| !has_lane(site));
    let others: usize = others.map(|site| len(site).next_multiple_of(16)).sum();
    islands.expect(others + own().count() * SLOTS);
    let calls = || own().filter(has_lane);
    if let (Some(first), Some(last)) =
        (calls().map(|site| site.address).min(), calls().map(|site| site.address).max())
    {
        islands.expect_calls(first..last.offset(1), calls().map(len).sum());
    }
}

/// The pages that hold sites, as runs of neighbours.
fn runs(sites: &[FoundSite]) -> Vec<std::ops::Range<CodeAddr>> {
    let mut runs: Vec<std::ops::Range<CodeAddr>> = Vec::new();
    for site in sites.iter().filter(|site| !site.own) {
        let first = site.address.align_down(PAGE);
        let end = site
            .address
            .offset(site.form.len() as isize - 1)
            .align_down(PAGE)
            .offset(PAGE as isize);
        match runs.last_mut() {
            Some(run) if first <= run.end => run.end = run.end.max(end),
            _ => runs.push(first..end),
        }
    }
    runs
}

/// Exits that several functions share, of functions that have enters.
struct SharedExits<'d> {
    exits: HashMap<CodeAddr, &'d [CodeAddr]>,
    entered: HashSet<CodeAddr>,
}

impl<'d> SharedExits<'d> {
    fn find(found: &'d Discovery) -> Self {
        let exits: HashMap<_, _> =
            found.shared.iter().map(|(exit, functions)| (*exit, &functions[..])).collect();
        let enters =
            found.sites.iter().filter(|site| site.kind == Kind::Enter && !exits.is_empty());
        let entered = enters.filter_map(|site| site.function).collect();
        Self { exits, entered }
    }

    /// The functions that share a site; none if only one has it.
    fn partners(&self, site: &FoundSite) -> Vec<Id> {
        let functions = self.exits.get(&site.address).copied().unwrap_or_default();
        let entered = functions.iter().filter(|function| self.entered.contains(function));
        let ids: Vec<Id> =
            entered.filter_map(|function| functions::add(function.get() as u64)).collect();
        if ids.len() > 1 { ids } else { Vec::new() }
    }
}
