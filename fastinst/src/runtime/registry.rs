//! The registry of modules: an entry for each, with the sites that are installed there.
//!
//! A thread that installs or unloads, the agent, and a thread that forks lock it, one at a time.
//! Hooks cannot wait for that lock: they read the spans of modules with probes.

mod module_entry;
mod placement;
mod withdrawal;

use super::functions::{self, Id};
use super::install::NO_RECORD;
use super::registered::Registration;
use super::site_lists::SiteLists;
use super::sites::{self, Site};
use super::unloading;
use super::unmodified::Unmodified;
use crate::discovery::Module;
pub(crate) use module_entry::ModuleEntry;
pub(super) use module_entry::{FileIdentity, mapped_as};
pub(super) use placement::Placement;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wordpatch::CodeAddr;
use wordpatch::os::maps;
use wordpatch::os::signals::{AtLength, Blocked};

/// The modules of the process, with their installed sites. Locked by a thread that installs or
/// unloads, by the agent while it switches sites, and by a thread that forks.
#[derive(Debug)]
pub(crate) struct ModuleRegistry {
    pub(crate) entries: Vec<ModuleEntry>,
    /// What went wrong, one line each.
    pub(crate) refusals: Vec<String>,
    pub(super) site_lists: SiteLists,
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

static REGISTRY: Mutex<ModuleRegistry> = Mutex::new(ModuleRegistry {
    entries: Vec::new(),
    refusals: Vec::new(),
    site_lists: SiteLists::new(),
    unmodified: None,
    registrations: Vec::new(),
    counted: Vec::new(),
    withdrawn: Vec::new(),
});

/// The start and the end of each module whose sites are installed, for hooks, which cannot wait for
/// the registry. Zero in free entries.
static SPANS: [(AtomicUsize, AtomicUsize); 256] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 256];
/// A module found no free entry.
static SPANS_FULL: AtomicBool = AtomicBool::new(false);

/// Whether the sites of a function's module are installed, as far as is known. Usable in a signal
/// handler.
pub(super) fn is_installed(function: u64) -> bool {
    let holds = |(start, end): &(AtomicUsize, AtomicUsize)| {
        (start.load(Acquire)..end.load(Acquire)).contains(&(function as usize))
    };
    SPANS_FULL.load(Relaxed) || SPANS.iter().any(holds)
}

pub(super) fn enter_span(span: &std::ops::Range<CodeAddr>) {
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

/// Locks the registry. The program's signals are blocked until it is released: a handler that forks
/// locks the registry, and must not have interrupted the thread that holds it.
pub(crate) fn lock_registry() -> LockedRegistry {
    let undisturbed = Blocked::all();
    let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    LockedRegistry { _at_length: undisturbed.at_length(), registry, _undisturbed: undisturbed }
}

/// The registry, for the thread that has locked it.
#[derive(Debug)]
pub(crate) struct LockedRegistry {
    // A thread that installs takes locks for each site. Released before signals are let in again:
    // fields are dropped in this order.
    _at_length: AtLength,
    registry: MutexGuard<'static, ModuleRegistry>,
    _undisturbed: Blocked,
}

impl Deref for LockedRegistry {
    type Target = ModuleRegistry;
    fn deref(&self) -> &ModuleRegistry {
        &self.registry
    }
}

impl DerefMut for LockedRegistry {
    fn deref_mut(&mut self) -> &mut ModuleRegistry {
        &mut self.registry
    }
}

impl ModuleRegistry {
    /// What a reader of the profile has to know about unmodified code; nothing where none was
    /// wanted and a runtime has registered functions.
    pub(crate) fn note_of_unmodified(&self) -> Option<String> {
        let unmodified = self.unmodified.as_ref()?;
        (unmodified.was_tried() || self.registrations.is_empty()).then(|| unmodified.note())
    }

    /// Marks all modules as known.
    pub(crate) fn know_all(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.is_new = false);
    }

    /// The entry of the module that holds an address, and its number.
    pub(crate) fn entry_of(&self, address: CodeAddr) -> Option<(usize, &ModuleEntry)> {
        self.entries
            .iter()
            .enumerate()
            .rev()
            .find(|(_, entry)| entry.module.span.contains(&address))
    }

    /// Marks modules that are not loaded any more. Nothing of them is touched again.
    pub(crate) fn mark_unloaded(&mut self) {
        let loaded = Module::loaded();
        self.mark_unloaded_except(|entry| {
            // While the profiler was detached, another build may have been loaded in its place.
            let is_it = |module: &Module| {
                let of = &entry.module;
                (&module.span, &module.path, &module.loaded) == (&of.span, &of.path, &of.loaded)
            };
            loaded.iter().any(is_it)
        });
    }

    fn mark_unloaded_except(&mut self, stays: impl Fn(&ModuleEntry) -> bool) {
        let mut closed = Vec::new();
        for (number, entry) in self.entries.iter_mut().enumerate() {
            if !entry.transient || entry.gone || stays(entry) {
                continue;
            }
            entry.end();
            closed.extend(std::mem::take(&mut entry.is_open).then_some(number as u32));
            leave_span(&entry.module.span);
            wordpatch::forget_unlocked(&entry.module.span);
            for site in entry.numbers().filter_map(sites::get) {
                site.gone.store(true, Release);
            }
            entry.functions = functions::forget(&entry.module.span, entry.first);
            // No thread is in code that is unmapped, so no thread enters its trampolines.
            entry.islands = None;
        }
        if let Some(unmodified) = self.unmodified.as_mut().filter(|_| !closed.is_empty()) {
            unmodified.close(&closed);
        }
    }

    /// The functions that have sites in modules that may be unloaded.
    pub(super) fn transient_functions(&self) -> BTreeSet<Id> {
        let entries = self.entries.iter().filter(|entry| entry.transient && !entry.gone);
        entries
            .flat_map(ModuleEntry::numbers)
            .filter_map(|number| sites::get(number)?.owner())
            .collect()
    }

    /// In a forked child: threads that were unloading a module, or verifying a site, do not exist.
    /// The thread that has forked does, and may itself be unloading (`unloads`).
    pub(crate) fn inherit(&mut self, unloads: bool) {
        if unloading::inherit(unloads) {
            // The loader may be in the middle of it: what is mapped stays.
            let mappings = maps::mappings().unwrap_or_default();
            self.mark_unloaded_except(|entry| {
                mappings.iter().any(|mapping| mapping.contains(entry.module.span.start))
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
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::*;
    use wordpatch::os::{signals, threads};

    #[test]
    fn no_handler_interrupts_the_holder_of_the_registry() {
        static HANDLED: AtomicBool = AtomicBool::new(false);
        extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            HANDLED.store(true, Relaxed);
        }
        // SAFETY: (1) the handler stores a flag.
        unsafe { signals::install(libc::SIGWINCH, handle, 0) }.unwrap();
        let held = lock_registry();
        signals::send(threads::current(), libc::SIGWINCH).unwrap();
        assert!(!HANDLED.load(Relaxed) && !held.entries.iter().any(|entry| entry.gone));
        drop(held);
        assert!(HANDLED.load(Relaxed));
    }
}
