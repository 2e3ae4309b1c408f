//! What the agent knows about each function, and how it meets new ones.

use super::{Agent, BEFORE, Changes, agent_time};
use crate::runtime::drain::{self, Done};
use crate::runtime::functions::{self, Id};
use crate::runtime::layout::{RECORD, Record};
use crate::runtime::registry::{ModuleRegistry, lock_registry};
use crate::runtime::sites::SiteList;
use crate::runtime::thread_sums::News;
use crate::runtime::{modes, registered, scope, sharing, spans, target, thread_sums, threads};
use profiler::Clock;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wordpatch::os::clocks;

/// What the agent knows about a function.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// Entries that were reported to the controller; and, among them, those of an earlier profile.
    pub(super) told: u64,
    pub(super) earlier: u64,
    /// Entries on threads that have ended.
    pub(super) ended: u64,
    pub(super) samples: bool,
    /// The quota that threads are refilled to at every look, if they are.
    pub(super) refill: Option<i32>,
    pub(super) module: Option<usize>,
}

/// Discards what is in the threads' rings.
fn drain_unseen() {
    for block in threads::all() {
        while drain::take_entries(block, &mut [Done::default(); drain::BATCH]) > 0 {}
    }
}

fn sites_of(id: Id) -> u32 {
    id.function().site_list().map_or(0, SiteList::probes)
}

impl Agent {
    /// Meets all existing functions.
    pub(super) fn meet_all(&mut self) {
        let all = self.meet();
        let mut registry = lock_registry();
        self.discover(&all, &mut registry);
        self.witness.learn_placements(&registry);
    }

    /// For a process that ran before this agent: what threads have counted and timed for an earlier
    /// agent is not reported again, and the CPU time used so far is not shared out to functions.
    pub(crate) fn late(clock: Clock, seed: u64) -> Self {
        drain_unseen();
        modes::ACCOUNT.clear();
        crate::runtime::arguments::clear();
        let mut agent = Self::new(clock, seed);
        threads::give_back();
        agent.leave_the_past();
        // The CPU time of earlier agents. What this one has used so far counts for this profile.
        agent.agent_before = Duration::from_nanos(BEFORE.load(Relaxed));
        agent
    }

    /// What was counted and timed so far is not reported again, and the CPU time used so far
    /// belongs to no function.
    pub(super) fn leave_the_past(&mut self) {
        drain_unseen();
        modes::ACCOUNT.clear();
        self.make_accounts();
        let mut past = profiler::SummedCalls::default();
        for block in threads::all() {
            block.lost.store(0, Relaxed);
            for number in 1..threads::records_of(block).min(functions::count()) {
                thread_sums::take_sums(block, Id(number), News::Any, &mut past);
            }
        }
        for (number, sum) in self.sums(|_, _| ()).into_iter().enumerate().skip(1) {
            (self.functions[number].told, self.functions[number].earlier) = (sum, sum);
        }
        self.before = clocks::of_process().saturating_sub(agent_time());
        spans::begin_anew();
        self.switches = spans::switches();
    }

    /// How often each function was entered, by all threads; calls `visit` with each of their
    /// records.
    pub(super) fn sums(&self, visit: impl Fn(u32, &Record)) -> Vec<u64> {
        let mut sums: Vec<u64> = self.functions.iter().map(|account| account.ended).collect();
        for block in threads::all() {
            let records = threads::records_of(block).min(sums.len() as u32);
            for (number, sum) in (1..records).zip(&mut sums[1..]) {
                if let Some(record) = block.record(number * RECORD as u32) {
                    *sum += record.count.load(Relaxed);
                    visit(number, record);
                }
            }
        }
        for (number, sum) in sums.iter_mut().enumerate().skip(1) {
            *sum += Id(number as u32).function().late.load(Relaxed);
        }
        sums
    }

    /// Makes accounts for functions that were added since. Returns those that must be reported to
    /// the controller.
    pub(super) fn meet(&mut self) -> BTreeSet<Id> {
        self.make_accounts();
        let count = self.functions.len() as u32;
        let come = std::mem::take(&mut self.unready).into_iter().chain((self.met..count).map(Id));
        let (ready, unready): (Vec<Id>, _) =
            come.filter(|id| !id.is_abandoned()).partition(|id| id.is_made());
        (self.met, self.unready) = (count, unready);
        ready.into_iter().collect()
    }

    pub(super) fn make_accounts(&mut self) {
        let blank =
            Account { told: 0, earlier: 0, ended: 0, samples: false, refill: None, module: None };
        self.functions.resize(functions::count() as usize, blank);
    }

    /// Reports functions to the controller that are new or have new sites.
    pub(super) fn discover(&mut self, changed: &BTreeSet<Id>, registry: &mut ModuleRegistry) {
        self.make_accounts();
        for &id in changed {
            let address = id.start();
            // The module in which it was first seen: another one may be mapped there by now.
            let account = &mut self.functions[id.0 as usize];
            account.module =
                account.module.or_else(|| registry.entry_of(address).map(|(number, _)| number));
            if scope::is_used() {
                let unmodified = registry.unmodified.as_ref();
                let is_untimed = unmodified.is_some_and(|code| code.is_untimed(id));
                scope::set_role(id, target::opens_scope(registry, address), is_untimed);
            }
            if self.frozen.is_none() && target::is_selected(registry, address) {
                let others =
                    sharing::others(id).into_iter().map(|id| profiler::FuncId(id.0)).collect();
                self.controller.discovered(profiler::FuncId(id.0), sites_of(id));
                self.controller.ends_with(profiler::FuncId(id.0), others);
                if let Some(counting) = registered::counting_at(registry, address) {
                    self.controller.counting_takes(profiler::FuncId(id.0), counting);
                }
                if registry.unmodified.as_ref().is_some_and(|code| code.is_untimed(id)) {
                    self.controller.only_counts(profiler::FuncId(id.0));
                }
            } else {
                modes::allow(id, false);
            }
        }
        let mut changes = Changes::default();
        self.controller.first(&mut changes);
        self.apply_modes(changes);
        // Only after they have got their modes: a span that began earlier would miss their calls.
        for &id in changed.iter().filter(|_| spans::are_used()) {
            let address = id.start();
            spans::set_role(id, target::role_of(registry, address));
        }
        if spans::are_used() || scope::is_used() {
            changed.iter().copied().for_each(modes::renew);
        }
    }
}
