//! When the agent installs probes: in modules that were loaded since, and in functions of
//! unmodified code that were seen to run.

use super::{Agent, LATEST, control};
use crate::runtime::registry::lock_registry;
use crate::runtime::{clock, load_handshake, spans, target, unloading};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;
use wordpatch::CodeAddr;

/// The next installation waits for one part in this many of the time between the agent's start and
/// the previous one.
const INSTALLATION_PACE: u32 = 20;

/// Whether functions of unmodified code get no more probes: a filter of system calls may kill the
/// process for the calls that installing takes.
static INSTALLATION_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Whether unmodified code may get probes, and memory for them may be mapped and unmapped.
pub(in crate::runtime) fn may_install() -> bool {
    !INSTALLATION_FORBIDDEN.load(Acquire)
}

/// A filter of system calls is about to be installed, under which profiles are known to work.
/// Everything that takes further system calls stops.
pub(crate) fn do_with_less() {
    INSTALLATION_FORBIDDEN.store(true, Release);
    // Another thread may be installing a probe: wait until it is done.
    drop(lock_registry());
    control::forbid();
}

impl Agent {
    pub(super) fn look_for_modules(&mut self) {
        let news = target::take_new_functions() | target::take_lessons() | !self.unready.is_empty();
        if !news && !load_handshake::is_requested() {
            return;
        }
        let mut registry = lock_registry();
        let is_unloading = unloading::is_going_on();
        let wanted = load_handshake::take_requests(is_unloading);
        if is_unloading && wanted.is_none() {
            // Later: a thread that waits for a module gets no answer yet, and what hooks have
            // learnt is kept.
            target::keep_lessons();
            return;
        }
        let mut changed = self.meet();
        changed.extend(registry.learn());
        if let Some(wanted) = &wanted {
            changed.extend(registry.install_all(
                target::policy(),
                true,
                wanted.functions.as_deref(),
            ));
            if wanted.functions.is_none() && may_install() {
                changed.extend(target::install_late(&mut registry));
                self.installed_all = false;
            }
        }
        self.discover(&changed, &mut registry);
        self.witness.learn_placements(&registry);
        if let Some(wanted) = &wanted {
            load_handshake::answer_requests(wanted);
        }
    }

    /// Installs probes in functions of unmodified code that were seen to run.
    pub(super) fn install_sampled(&mut self) {
        if !self.has_puns || !may_install() || !self.is_installation_due() {
            return;
        }
        let seen = self.witness.take_seen();
        if seen.is_some() && !spans::is_recording() {
            return;
        }
        let (was_seen, nothing_is_new) = match &seen {
            Some(seen) => (true, seen.is_empty()),
            None => (false, std::mem::replace(&mut self.installed_all, true)),
        };
        if nothing_is_new {
            return;
        }
        self.last_installation = Instant::now();
        let mut registry = lock_registry();
        // Checked under the lock: a thread that forbids installing waits for the lock, or is seen
        // here.
        let Some(unmodified) = registry.unmodified.as_ref() else { return };
        if !may_install() || !target::installs_when_sampled(&registry) || unloading::is_going_on() {
            return;
        }
        // Without a clock that shows which functions run, any may.
        let mut seen: Vec<CodeAddr> = match seen {
            Some(seen) => seen.into_iter().map(|at| CodeAddr::new(at as usize)).collect(),
            None => unmodified.all(|_| true),
        };
        seen.sort_unstable();
        seen.dedup();
        let new = registry.install_unmodified(&seen);
        let now = clock::work();
        for id in &new {
            self.controller.begins_late(profiler::FuncId(id.0), now, was_seen);
        }
        self.discover(&new, &mut registry);
    }

    /// Whether the functions that were seen meanwhile are worth a look at what is mapped, which
    /// takes as long as giving some of them probes. Hot functions were seen in the beginning.
    fn is_installation_due(&self) -> bool {
        let age = self.last_installation.duration_since(self.arrived);
        self.last_installation.elapsed() >= (age / INSTALLATION_PACE).min(LATEST)
    }
}
