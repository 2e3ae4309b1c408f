//! Planting: redirecting the sites of a module to trampolines of their own.
//!
//! ```text
//!   site:        call trampoline                      (its displacement, rewritten once, behind a barrier)
//!   trampoline:  jmp past │ test eax, …               enter sites only: the gate, switched by one byte
//!                count it here, if it is the function that is expected; ret
//!         past:  mov r11d, [cell]                     the offset of its function's record
//!                mov r10d, number                     the site
//!                jmp  [slot]                          a stub
//! ```
//!
//! The counter is in line because a jump through memory costs as much again as counting does. Its
//! code contains the record's place, and does not check whether the thread's block reaches that
//! far: it is used where every block [has room](super::threads::room).
//!
//! Later, a site's behaviour is controlled by its slot, which is data, and by its switch, one byte.
//! Modules that are loaded when the profiler begins are planted before their code runs. Modules
//! that are loaded later are planted while their code runs: what their sites do within the
//! microseconds of the barrier is not seen.

mod bed;
mod leading;
mod trampoline;

use super::boards::{Boards, Moves};
use super::functions::{self, Id};
use super::registered::Registration;
use super::sites::{self, Owners, Site, UNKNOWN};
use super::stub::Stub;
use super::unmodified::{Field, Unmodified};
use super::{guest, modes, sharing, unloading};
use crate::config::Provider;
use crate::discovery::points::Pair;
use crate::discovery::{self, Discovery, FoundSite, Module};
use crate::probe::Kind;
pub(crate) use bed::Bed;
use bed::{Identity, mapped_as};
use callpatch::{Islands, Retarget, Role, Survey, Switch};
pub(super) use leading::{carry_out, is_alone};
use leading::{lead_all, plant_site};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trampoline::Trampoline;
use wordpatch::os::signals::{AtLength, Blocked};
use wordpatch::os::{maps, pages::PAGE};
use wordpatch::{Access, CodeAddr, Policy};

/// The offset of a record that no thread's block has.
const NO_RECORD: u32 = !31;

/// What is installed. Held by a thread that installs, toggles as the agent, or forks.
#[derive(Debug)]
pub(crate) struct Garden {
    pub(crate) beds: Vec<Bed>,
    /// What went wrong, one line each.
    pub(crate) refusals: Vec<String>,
    boards: Boards,
    /// Code that no compiler has prepared, if it is to be profiled.
    pub(crate) unmodified: Option<Box<Unmodified>>,
    /// Code that runtimes have registered.
    pub(super) registrations: Vec<&'static Registration>,
    /// What runtimes had counted themselves in code that they have unregistered since.
    pub(super) counted: Vec<(Id, u64)>,
    /// While the profiler is detached: the sites that lead where the program had them lead, and
    /// where they led while it was attached.
    pub(super) withdrawn: Vec<(u32, CodeAddr)>,
}

static GARDEN: Mutex<Garden> = Mutex::new(Garden {
    beds: Vec::new(),
    refusals: Vec::new(),
    boards: Boards::new(),
    unmodified: None,
    registrations: Vec::new(),
    counted: Vec::new(),
    withdrawn: Vec::new(),
});

/// The start and the end of each planted module, for hooks, which cannot wait for the garden. Zero
/// in free entries.
static SPANS: [(AtomicUsize, AtomicUsize); 256] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 256];
/// A module found no free entry.
static SPANS_FULL: AtomicBool = AtomicBool::new(false);

/// Whether the module of a function is planted, as far as is known. Usable in a signal handler.
pub(super) fn is_planted(function: u64) -> bool {
    let holds = |(start, end): &(AtomicUsize, AtomicUsize)| {
        (start.load(Acquire)..end.load(Acquire)).contains(&(function as usize))
    };
    SPANS_FULL.load(Relaxed) || SPANS.iter().any(holds)
}

fn enter_span(span: &std::ops::Range<CodeAddr>) {
    match SPANS.iter().find(|(_, end)| end.load(Relaxed) == 0) {
        Some((start, end)) => {
            start.store(span.start.get(), Release);
            end.store(span.end.get(), Release);
        }
        None => SPANS_FULL.store(true, Release),
    }
}

fn leave_span(span: &std::ops::Range<CodeAddr>) {
    for (_, end) in SPANS.iter().filter(|(start, end)| {
        start.load(Relaxed) == span.start.get() && end.load(Relaxed) == span.end.get()
    }) {
        end.store(0, Release);
    }
}

/// The garden, for one thread at a time.
pub(crate) fn garden() -> TheGarden {
    let undisturbed = Blocked::all();
    let garden = GARDEN.lock().unwrap_or_else(PoisonError::into_inner);
    TheGarden { _at_length: undisturbed.at_length(), garden, _undisturbed: undisturbed }
}

/// The garden, for the thread that has locked it. The program's signals are blocked meanwhile: a
/// handler that forks takes the garden, and must not have interrupted its holder.
#[derive(Debug)]
pub(crate) struct TheGarden {
    // A thread that installs takes locks for each site. Released before signals are let in again:
    // fields are dropped in this order.
    _at_length: AtLength,
    garden: MutexGuard<'static, Garden>,
    _undisturbed: Blocked,
}

impl Deref for TheGarden {
    type Target = Garden;
    fn deref(&self) -> &Garden {
        &self.garden
    }
}

impl DerefMut for TheGarden {
    fn deref_mut(&mut self) -> &mut Garden {
        &mut self.garden
    }
}

impl Garden {
    /// What a reader of the profile has to know about unmodified code; nothing where none was
    /// wanted and a runtime has registered functions.
    pub(crate) fn note_of_unmodified(&self) -> Option<String> {
        let unmodified = self.unmodified.as_ref()?;
        (unmodified.was_tried() || self.registrations.is_empty()).then(|| unmodified.note())
    }

    /// Plants every module that was not planted before. Returns the functions that are new or have
    /// new sites. With `wanted`, plants only the modules in which one of these addresses lies.
    pub(crate) fn plant_all(
        &mut self,
        policy: &Policy,
        transient: bool,
        wanted: Option<&[u64]>,
    ) -> BTreeSet<Id> {
        let mut changed = BTreeSet::new();
        for module in Module::loaded() {
            if self.beds.iter().any(|bed| {
                !bed.gone && bed.module.span == module.span && bed.module.path == module.path
            }) {
                continue;
            }
            let holds = |address: &u64| module.span.contains(&CodeAddr::new(*address as usize));
            if wanted.is_some_and(|wanted| !wanted.iter().any(holds)) {
                continue;
            }
            let name = module.name.clone();
            match self.plant(module, policy, transient) {
                Ok(functions) => changed.extend(functions),
                Err(why) => self.refusals.push(format!("{name}: {why}")),
            }
        }
        changed
    }

    fn plant(
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
        let identity = if transient { Identity::of(&module) } else { None };
        let count = found.sites.iter().filter(|site| !site.own).count();
        let is_former = |bed: &Bed| {
            bed.gone
                && bed.identity.is_some()
                && bed.identity == identity
                && bed.numbers.len() == count
        };
        let former = self.beds.iter().position(is_former);
        let at = former.unwrap_or(self.beds.len());
        let mut bed = match former {
            Some(at) => self.beds[at].moved_to(module),
            None => {
                let (first, none) = (Id(functions::count()), sites::count()..sites::count());
                Bed {
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
                    identity,
                    numbers: Vec::new(),
                    first,
                    functions: Vec::new(),
                }
            }
        };
        let led =
            if found.sites.is_empty() { Ok(()) } else { self.lead(at, &mut bed, &found, policy) };
        if former.is_none() {
            bed.sites.end = sites::count();
        }
        let numbers = bed.sites.clone();
        if calls_hooks {
            enter_span(&bed.module.span);
        }
        match former {
            Some(at) => self.beds[at] = bed,
            None => self.beds.push(bed),
        }
        led?;
        if let Some(why) = failure {
            return Err(why);
        }
        // Nothing to switch yet: no site is verified, except for shared ones, and these are on
        // until one of their functions gets a mode.
        let mut changed = self.boards.extend(numbers.clone());
        let mut moves = Moves::default();
        for (number, site) in numbers.filter_map(|number| Some((number, sites::get(number)?))) {
            sharing::partners(site).for_each(|id| moves.add(id, number, Kind::Exit));
        }
        changed.extend(self.boards.carry_out(moves));
        Ok(changed)
    }

    /// Opens the modules without compiled-in hooks: those that are prepared as `provider` says, and
    /// all others if `takes_any`, which is called with whether any module is prepared.
    pub(crate) fn open_unmodified(
        &mut self,
        policy: &Policy,
        provider: Provider,
        takes_any: impl Fn(bool) -> bool,
        accepts: impl Fn(&Module) -> bool,
    ) {
        // A module that calls hooks has its probes already.
        let is_candidate = |bed: &Bed| !bed.has_probes() && accepts(&bed.module);
        let mut fields = self.fields(provider, |_, bed| bed.may_be_prepared && is_candidate(bed));
        let takes_any = takes_any(sites::count() > 0 || fields.iter().any(Field::is_prepared));
        match takes_any {
            true => fields
                .extend(self.fields(provider, |_, bed| !bed.may_be_prepared && is_candidate(bed))),
            false => fields.retain(Field::is_prepared),
        }
        if fields.is_empty() && !takes_any {
            return;
        }
        let why = "functions without compiled-in hooks get probes only where code may be written to (WORDPATCH_ACCESS=rwx)";
        if self.may_write(policy, why) {
            self.open(Box::new(Unmodified::new(takes_any)), fields, policy);
        }
    }

    /// Opens the modules that have points.
    pub(crate) fn open_points(&mut self, policy: &Policy, accepts: impl Fn(&Module) -> bool) {
        let why = "points get probes only where code may be written to (WORDPATCH_ACCESS=rwx)";
        if self.may_write(policy, why) {
            let fields = self.fields_with_points(|_, bed| accepts(&bed.module));
            self.open(Box::new(Unmodified::for_points()), fields, policy);
        }
    }

    /// Marks all modules as known.
    pub(crate) fn know_all(&mut self) {
        self.beds.iter_mut().for_each(|bed| bed.is_new = false);
    }

    /// Opens modules that were loaded since, as the initial ones were opened; returns their
    /// numbers. The loader has to report when they are unloaded.
    pub(crate) fn open_late(
        &mut self,
        policy: &Policy,
        provider: Provider,
        accepts: impl Fn(&Module) -> bool,
    ) -> BTreeSet<u32> {
        let numbered = self.beds.iter_mut().enumerate();
        let new: BTreeSet<u32> = numbered
            .filter_map(|(number, bed)| std::mem::take(&mut bed.is_new).then_some(number as u32))
            .collect();
        let Some(unmodified) = self.unmodified.take() else { return new };
        let is_candidate = |number, bed: &Bed| {
            new.contains(&number) && bed.transient && !bed.gone && accepts(&bed.module)
        };
        let fields = match (unmodified.has_points(), unmodified.takes_any()) {
            (true, _) => self.fields_with_points(is_candidate),
            (false, true) => {
                self.fields(provider, |number, bed| is_candidate(number, bed) && !bed.has_probes())
            }
            (false, false) => Vec::new(),
        };
        let mut late = Vec::with_capacity(fields.len());
        for field in fields {
            let bed = &self.beds[field.bed() as usize];
            match field.come_late(&bed.puns) {
                Ok(field) => late.push(field),
                Err(why) => self.refusals.push(format!("{}: {why}", bed.module.name)),
            }
        }
        self.open(unmodified, late, policy);
        new
    }

    fn may_write(&mut self, policy: &Policy, why: &str) -> bool {
        let may = policy.access == Access::Rwx;
        self.refusals.extend((!may).then(|| why.to_owned()));
        may
    }

    /// Fields of modules.
    fn fields(
        &mut self,
        provider: Provider,
        is_candidate: impl Fn(u32, &Bed) -> bool,
    ) -> Vec<Field> {
        let Self { beds, refusals, .. } = self;
        let numbered = (0..).zip(beds.iter());
        let field = |(number, bed): (u32, &Bed)| {
            let field = Field::new(&bed.module, number, provider);
            field.map_err(|why| refusals.push(format!("{}: {why}", bed.module.name))).ok()
        };
        numbered.filter(|(number, bed)| is_candidate(*number, bed)).filter_map(field).collect()
    }

    /// Fields of modules that have points.
    fn fields_with_points(&mut self, is_candidate: impl Fn(u32, &Bed) -> bool) -> Vec<Field> {
        let Self { beds, refusals, .. } = self;
        let mut fields = Vec::new();
        for (number, bed) in (0..).zip(beds.iter_mut()) {
            if !bed.has_file() || !is_candidate(number, bed) {
                continue;
            }
            let sites = bed.sites.clone().filter_map(sites::get);
            let places = sites.map(|site| (site.call().address(), site.call().form()));
            match Field::with_points(&bed.module, number, places) {
                Ok(None) => {}
                Ok(Some(field)) => {
                    bed.module = field.module().clone();
                    fields.push(field);
                }
                Err(why) => refusals.push(format!("{}: {why}", bed.module.name)),
            }
        }
        fields
    }

    fn open(&mut self, mut unmodified: Box<Unmodified>, fields: Vec<Field>, policy: &Policy) {
        for field in fields {
            let bed = &mut self.beds[field.bed() as usize];
            match unmodified.open(field, policy) {
                Ok(()) => bed.is_open = true,
                Err(why) => self.refusals.push(format!("{}: {why}", bed.module.name)),
            }
        }
        let is_of_use = unmodified.is_open() || unmodified.takes_late();
        self.unmodified = Some(unmodified).filter(|_| is_of_use);
    }

    /// Plants the points that the user wants in modules of these numbers, paired by their names, or
    /// as `named`.
    pub(crate) fn plant_points(
        &mut self,
        named: &[Pair],
        is_asked: impl Fn(u32) -> bool,
    ) -> BTreeSet<Id> {
        let Some(unmodified) = &mut self.unmodified else { return BTreeSet::new() };
        let planted = unmodified.plant_points(named, guest::policy(), (is_asked, guest::wants));
        self.count(planted)
    }

    /// Counts the calls of functions that have got these sites, until they have a mode.
    fn count(&mut self, planted: Result<Vec<u32>, String>) -> BTreeSet<Id> {
        let numbers = planted.unwrap_or_else(|why| {
            self.refusals.push(why);
            Vec::new()
        });
        for &number in &numbers {
            let bed = sites::get(number).and_then(|site| self.beds.get_mut(site.module as usize));
            if let Some(bed) = bed.filter(|bed| bed.transient) {
                bed.puns.insert(number);
            }
        }
        let new = self.boards.extend(numbers);
        self.arm(&new);
        new.iter().copied().for_each(modes::renew);
        new
    }

    /// Restores all code. Sites are off, and no hook switches any.
    pub(super) fn withdraw(&mut self, policy: &Policy) -> Result<(), String> {
        let mut batch = Retarget::new(*policy);
        for (number, site) in sites::all().filter(|(_, site)| !site.gone.load(Relaxed)) {
            if site.is_pun() {
                site.call().set(Switch::Off).map_err(|error| error.to_string())?;
            }
            // A pun's displacement is the program's own.
            let now = site.call().destination().address();
            if site.call().role() == Role::Pun || now == site.home() {
                continue;
            }
            // SAFETY: (1) what the program had there; (2) its module is loaded; (3) no hook and no
            // other thread switches it.
            #[allow(unsafe_code)]
            unsafe {
                batch.push_shared(site.call(), site.home()).map_err(|error| error.to_string())?;
            }
            self.withdrawn.push((number.0, now));
        }
        batch.commit().map_err(|error| error.to_string())?;
        if let Some(unmodified) = &self.unmodified {
            unmodified.points.change_semaphores(-1);
        }
        for site in self.withdrawn.iter().filter_map(|(number, _)| sites::get(*number)) {
            if !site.is_pun() {
                site.call().set(Switch::On).map_err(|error| error.to_string())?;
            }
        }
        for bed in self.beds.iter().filter(|bed| bed.is_loaded()) {
            // SAFETY: (1) a module that is loaded; (2) sites are not switched any more.
            #[allow(unsafe_code)]
            unsafe { wordpatch::lock_again(&bed.module.span) }
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Redirects all sites to their trampolines again.
    pub(super) fn come_back(&mut self, policy: &Policy) -> Result<(), String> {
        for bed in self.beds.iter().filter(|bed| bed.is_loaded()) {
            // SAFETY: (1) a module that is loaded.
            #[allow(unsafe_code)]
            unsafe { wordpatch::unlock_again(&bed.module.span) }
                .map_err(|error| error.to_string())?;
        }
        if let Some(unmodified) = &self.unmodified {
            unmodified.points.change_semaphores(1);
        }
        let mut batch = Retarget::new(*policy);
        for (number, to) in std::mem::take(&mut self.withdrawn) {
            let Some(site) = sites::get(number).filter(|site| !site.gone.load(Relaxed)) else {
                continue;
            };
            // SAFETY: (1) its trampoline, which is there as long as its module; (2) its module is
            // loaded; (3) no hook switches any site yet.
            #[allow(unsafe_code)]
            unsafe {
                batch.push_shared(site.call(), to).map_err(|error| error.to_string())?;
            }
        }
        batch.commit().map(drop).map_err(|error| error.to_string())
    }

    /// Plants the unmodified functions that hold these addresses and have already run. Returns
    /// those that are new.
    pub(crate) fn plant_unmodified(&mut self, addresses: &[CodeAddr]) -> BTreeSet<Id> {
        let Some(unmodified) = self.unmodified.as_mut().filter(|code| !code.has_points()) else {
            return BTreeSet::new();
        };
        let planted = unmodified.plant(addresses, guest::policy(), guest::wants);
        self.count(planted)
    }

    /// The same, for functions that have not run yet.
    pub(crate) fn plant_early(&mut self, addresses: &[CodeAddr]) -> BTreeSet<Id> {
        let Some(unmodified) = self.unmodified.as_mut().filter(|code| !code.has_points()) else {
            return BTreeSet::new();
        };
        let planted = unmodified.plant_early(addresses, guest::policy(), guest::wants);
        self.count(planted)
    }

    /// Adopts what was found, makes trampolines, and redirects all sites there with one barrier.
    /// The sites of a bed that existed before have numbers already.
    fn lead(
        &mut self,
        at: usize,
        bed: &mut Bed,
        found: &Discovery,
        policy: &Policy,
    ) -> Result<(), String> {
        let mut survey = Survey::new(*policy).map_err(|error| error.to_string())?;
        let mut islands =
            Islands::near(bed.module.span.clone()).map_err(|error| error.to_string())?;
        let shared = Shared::of(found);
        expect(&mut islands, &found.sites, bed.transient);
        let former = std::mem::take(&mut bed.numbers);
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
        let mut planted = Ok(());
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
                    let bed = (at as u32, bed.transient);
                    plant_site(
                        &mut islands,
                        call,
                        site,
                        &shared.partners(site),
                        bed,
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
            bed.numbers.push(*number.as_ref().unwrap_or(&UNKNOWN));
            if let Err(why) = number {
                planted = Err(why);
                break;
            }
        }
        let numbers = bed.numbers.iter().copied().filter(|&number| number != UNKNOWN);
        let led = planted.and_then(|()| lead_all(numbers, &mut islands, policy));
        // The trampolines are in use from here on, even after a failure.
        bed.islands = Some(islands);
        led
    }

    /// The bed that holds an address.
    pub(crate) fn bed_of(&self, address: CodeAddr) -> Option<(usize, &Bed)> {
        self.beds.iter().enumerate().rev().find(|(_, bed)| bed.module.span.contains(&address))
    }

    /// Marks modules that are not loaded any more. Nothing of them is touched again.
    pub(crate) fn bury(&mut self) {
        let loaded = Module::loaded();
        self.bury_but(|bed| {
            loaded
                .iter()
                .any(|module| module.span == bed.module.span && module.path == bed.module.path)
        });
    }

    fn bury_but(&mut self, stays: impl Fn(&Bed) -> bool) {
        let mut closed = Vec::new();
        for (number, bed) in self.beds.iter_mut().enumerate() {
            if !bed.transient || bed.gone || stays(bed) {
                continue;
            }
            bed.gone = true;
            closed.extend(std::mem::take(&mut bed.is_open).then_some(number as u32));
            leave_span(&bed.module.span);
            for site in bed.numbers().filter_map(sites::get) {
                site.gone.store(true, Release);
            }
            bed.functions = functions::forget(&bed.module.span, bed.first);
            // No thread is in code that is unmapped, so no thread enters its trampolines.
            bed.islands = None;
        }
        if let Some(unmodified) = self.unmodified.as_mut().filter(|_| !closed.is_empty()) {
            unmodified.close(&closed);
        }
    }

    /// The functions that have sites in modules that may be unloaded.
    pub(super) fn transient_functions(&self) -> BTreeSet<Id> {
        let beds = self.beds.iter().filter(|bed| bed.transient && !bed.gone);
        beds.flat_map(Bed::numbers).filter_map(|number| sites::get(number)?.owner()).collect()
    }

    /// In a forked child: threads that were unloading a module, or verifying a site, do not exist.
    /// The thread that has forked does, and may itself be unloading (`unloads`).
    pub(crate) fn inherit(&mut self, unloads: bool) {
        if unloading::inherit(unloads) {
            // The loader may be in the middle of it: what is mapped stays.
            let mappings = maps::mappings().unwrap_or_default();
            self.bury_but(|bed| {
                mappings.iter().any(|mapping| mapping.contains(bed.module.span.start))
            });
        }
        let begun = |site: &Site| {
            !site.gone.load(Relaxed)
                && !site.verified.load(Relaxed)
                && site.cell().target().get() != NO_RECORD as usize
        };
        for (_, site) in sites::all().filter(|(_, site)| begun(site)) {
            site.cell().hold(u64::from(NO_RECORD));
        }
    }

    /// Learns what hooks have seen at sites whose function was unknown, or another one.
    pub(crate) fn learn(&mut self) -> BTreeSet<Id> {
        let mut moves = Moves::default();
        for (number, site, told) in sites::lessons() {
            if site.gone.load(Relaxed) {
                // The island that held its cell is gone as well.
                continue;
            }
            match site.owner() {
                _ if site.shared.load(Relaxed) => sharing::learn(number.0, site, told, &mut moves),
                Some(owner) if owner == told => {}
                Some(owner) if site.moved.swap(true, Relaxed) => {
                    // At least two functions: every event reports its own.
                    site.shared.store(true, Release);
                    site.inline.store(false, Release);
                    let owners = if site.kind == Kind::Exit { Owners::new() } else { None };
                    if let Some((owners, cell)) = owners {
                        owners.add(owner);
                        owners.add(told);
                        site.share(cell);
                        site.lead_to(Stub::SharedExit);
                    } else {
                        site.cell().hold(u64::from(NO_RECORD));
                        site.lead_to(if site.kind == Kind::Enter {
                            Stub::Count
                        } else {
                            Stub::TimeExit
                        });
                    }
                    site.pass_counter(true);
                    moves.remove(owner, number.0, site.kind);
                }
                owner => {
                    site.moved.store(owner.is_some(), Relaxed);
                    // What counts in line is not this function.
                    site.inline.store(false, Release);
                    // With the record of its function a stub that counts would count calls that are
                    // to be timed, until it is switched below.
                    if site.kind == Kind::Enter && !site.attached.load(Relaxed) {
                        site.lead_to(Stub::TimeEnter);
                        site.pass_counter(true);
                    }
                    site.function.store(told.0, Relaxed);
                    site.cell().hold(u64::from(told.record()));
                    site.verified.store(true, SeqCst);
                    if let Some(owner) = owner {
                        moves.remove(owner, number.0, site.kind);
                    }
                    moves.add(told, number.0, site.kind);
                }
            }
        }
        let changed = self.boards.carry_out(moves);
        changed.iter().copied().for_each(modes::renew);
        changed
    }
}

/// Makes room for trampolines, and for two slots each.
fn expect(islands: &mut Islands, sites: &[FoundSite], transient: bool) {
    const SLOTS: usize = 16;
    let len = |site: &FoundSite| Trampoline::len(site.kind == Kind::Enter && !transient);
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
struct Shared<'d> {
    exits: HashMap<CodeAddr, &'d [CodeAddr]>,
    entered: HashSet<CodeAddr>,
}

impl<'d> Shared<'d> {
    fn of(found: &'d Discovery) -> Self {
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

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::*;
    use wordpatch::os::{signals, threads};

    #[test]
    fn no_handler_interrupts_who_has_the_garden() {
        static HANDLED: AtomicBool = AtomicBool::new(false);
        extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            HANDLED.store(true, Relaxed);
        }
        // SAFETY: (1) the handler stores a flag.
        unsafe { signals::install(libc::SIGWINCH, handle, 0) }.unwrap();
        let held = garden();
        signals::send(threads::current(), libc::SIGWINCH).unwrap();
        assert!(!HANDLED.load(Relaxed) && !held.beds.iter().any(|bed| bed.gone));
        drop(held);
        assert!(HANDLED.load(Relaxed));
    }
}
