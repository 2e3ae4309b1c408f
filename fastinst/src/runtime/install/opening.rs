//! Opening modules: which of them may get probes in functions without compiled-in hooks, or at
//! tracepoints.

use crate::config::Provider;
use crate::discovery::Module;
use crate::runtime::registry::{ModuleEntry, ModuleRegistry};
use crate::runtime::sites;
use crate::runtime::unmodified::{OpenModule, Unmodified};
use std::collections::BTreeSet;
use wordpatch::{Access, Policy};

impl ModuleRegistry {
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
        let is_candidate = |entry: &ModuleEntry| !entry.has_probes() && accepts(&entry.module);
        let mut candidates =
            self.candidates(provider, |_, entry| entry.may_be_prepared && is_candidate(entry));
        let takes_any =
            takes_any(sites::count() > 0 || candidates.iter().any(OpenModule::is_prepared));
        match takes_any {
            true => candidates.extend(
                self.candidates(provider, |_, entry| !entry.may_be_prepared && is_candidate(entry)),
            ),
            false => candidates.retain(OpenModule::is_prepared),
        }
        if candidates.is_empty() && !takes_any {
            return;
        }
        let why = "functions without compiled-in hooks get probes only where code may be written to (WORDPATCH_ACCESS=rwx)";
        if self.may_write(policy, why) {
            self.open(Box::new(Unmodified::new(takes_any)), candidates, policy);
        }
    }

    /// Opens the modules that have points.
    pub(crate) fn open_points(&mut self, policy: &Policy, accepts: impl Fn(&Module) -> bool) {
        let why = "points get probes only where code may be written to (WORDPATCH_ACCESS=rwx)";
        if self.may_write(policy, why) {
            let candidates = self.candidates_with_points(|_, entry| accepts(&entry.module));
            self.open(Box::new(Unmodified::for_points()), candidates, policy);
        }
    }

    /// Opens modules that were loaded since, as the initial ones were opened; returns their
    /// numbers. The loader has to report when they are unloaded.
    pub(crate) fn open_late(
        &mut self,
        policy: &Policy,
        provider: Provider,
        accepts: impl Fn(&Module) -> bool,
    ) -> BTreeSet<u32> {
        let numbered = self.entries.iter_mut().enumerate();
        let new: BTreeSet<u32> = numbered
            .filter_map(|(number, entry)| {
                std::mem::take(&mut entry.is_new).then_some(number as u32)
            })
            .collect();
        let Some(unmodified) = self.unmodified.take() else { return new };
        let is_candidate = |number, entry: &ModuleEntry| {
            new.contains(&number) && entry.transient && !entry.gone && accepts(&entry.module)
        };
        let candidates = match (unmodified.has_points(), unmodified.takes_any()) {
            (true, _) => self.candidates_with_points(is_candidate),
            (false, true) => self.candidates(provider, |number, entry| {
                is_candidate(number, entry) && !entry.has_probes()
            }),
            (false, false) => Vec::new(),
        };
        let mut late = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let entry = &self.entries[candidate.module_number() as usize];
            match candidate.come_late(&entry.puns) {
                Ok(candidate) => late.push(candidate),
                Err(why) => self.refusals.push(format!("{}: {why}", entry.module.name)),
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

    /// Modules that may be opened.
    fn candidates(
        &mut self,
        provider: Provider,
        is_candidate: impl Fn(u32, &ModuleEntry) -> bool,
    ) -> Vec<OpenModule> {
        let Self { entries, refusals, .. } = self;
        let numbered = (0..).zip(entries.iter());
        let candidate = |(number, entry): (u32, &ModuleEntry)| {
            let candidate = OpenModule::new(&entry.module, number, provider);
            candidate.map_err(|why| refusals.push(format!("{}: {why}", entry.module.name))).ok()
        };
        numbered
            .filter(|(number, entry)| is_candidate(*number, entry))
            .filter_map(candidate)
            .collect()
    }

    /// Modules that have points and may be opened.
    fn candidates_with_points(
        &mut self,
        is_candidate: impl Fn(u32, &ModuleEntry) -> bool,
    ) -> Vec<OpenModule> {
        let Self { entries, refusals, .. } = self;
        let mut candidates = Vec::new();
        for (number, entry) in (0..).zip(entries.iter_mut()) {
            if !entry.has_file() || !is_candidate(number, entry) {
                continue;
            }
            let sites = entry.sites.clone().filter_map(sites::get);
            let places = sites.map(|site| (site.call().address(), site.call().form()));
            match OpenModule::with_points(&entry.module, number, places) {
                Ok(None) => {}
                Ok(Some(candidate)) => {
                    entry.module = candidate.module().clone();
                    candidates.push(candidate);
                }
                Err(why) => refusals.push(format!("{}: {why}", entry.module.name)),
            }
        }
        candidates
    }

    fn open(
        &mut self,
        mut unmodified: Box<Unmodified>,
        candidates: Vec<OpenModule>,
        policy: &Policy,
    ) {
        for candidate in candidates {
            let entry = &mut self.entries[candidate.module_number() as usize];
            match unmodified.open(candidate, policy) {
                Ok(()) => entry.is_open = true,
                Err(why) => self.refusals.push(format!("{}: {why}", entry.module.name)),
            }
        }
        let is_of_use = unmodified.is_open() || unmodified.takes_late();
        self.unmodified = Some(unmodified).filter(|_| is_of_use);
    }
}
