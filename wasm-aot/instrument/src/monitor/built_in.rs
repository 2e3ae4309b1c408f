//! One built-in monitor of a program, static or attached.

use super::hooked::{self, HookedMonitor};
use super::{Choice, MonitorError, Report, Source};
use crate::lower::{self, Capabilities, Census, Facts, Lowering, Time};
use std::sync::Arc;
use std::time::Instant;
use wasm_aot_body::report::several;
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::runtime::{Counted, Module, ObservedLayer, Origin, Share};

/// When a monitor observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttachState {
    /// From the program's beginning to its end.
    Static,
    /// Since a time, unless it rests: by itself, or together with all that are attached.
    Attached { since: Instant, rests: bool, all_rest: bool },
    /// No longer: what it has seen stays.
    Detached,
}

impl AttachState {
    /// Attached now, and resting if all others do.
    pub(super) fn since_now(all_rest: bool) -> Self {
        Self::Attached { since: Instant::now(), rests: false, all_rest }
    }

    /// Attached now, and resting if it does.
    pub(super) fn again(self) -> Self {
        match self {
            Self::Attached { rests, all_rest, .. } => {
                Self::Attached { since: Instant::now(), rests, all_rest }
            }
            Self::Static | Self::Detached => self,
        }
    }
}

/// A built-in monitor with its options, and its data.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) choice: Choice,
    /// Its hooks and their data, if it is made of hooks.
    pub(super) hooked: Option<Arc<dyn HookedMonitor>>,
    pub(super) attach_state: AttachState,
    /// Which probes it has in the program's code.
    pub(super) census: Census,
    /// Its layer, unless it is in the module's own code; and whether the layer is observed.
    pub(super) layer: Option<ObservedLayer>,
    pub(super) is_observed: bool,
    /// Its share of the counters, if it is made of counts.
    counted: Share,
}

impl BuiltIn {
    /// Prepares a static monitor, and creates the files that it writes to.
    pub(super) fn prepare(choice: Choice) -> Result<Self, MonitorError> {
        Self::new(choice, AttachState::Static, Share::whole())
    }

    /// The same for a monitor that will be attached to a running program.
    pub(super) fn prepare_late(choice: Choice) -> Result<Self, MonitorError> {
        Self::new(choice, AttachState::Detached, Share::default())
    }

    fn new(
        mut choice: Choice,
        attach_state: AttachState,
        counted: Share,
    ) -> Result<Self, MonitorError> {
        let hooked = match choice.kind.source {
            Source::Hooks(begin) => Some(begin(&choice)?),
            Source::Counts { .. } => {
                choice.open_profile()?;
                None
            }
        };
        let (census, layer, is_observed) = Default::default();
        Ok(Self { choice, hooked, attach_state, census, layer, is_observed, counted })
    }

    pub(super) fn name(&self) -> &'static str {
        self.choice.name()
    }

    pub(super) fn is_static(&self) -> bool {
        self.attach_state == AttachState::Static
    }

    /// When it was attached, if it is.
    pub(super) fn since(&self) -> Option<Instant> {
        match self.attach_state {
            AttachState::Attached { since, .. } => Some(since),
            AttachState::Static | AttachState::Detached => None,
        }
    }

    /// Whether it is to observe.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(
            self.attach_state,
            AttachState::Static | AttachState::Attached { rests: false, all_rest: false, .. }
        )
    }

    /// Its facts, for its lowering.
    pub(super) fn facts(&self) -> Facts {
        self.hooked.as_ref().map_or(Facts::Counts, |hooked| hooked.facts())
    }

    /// How it is lowered in code with these capabilities.
    pub(super) fn lowering(&self, code: &Capabilities) -> Lowering {
        lower::lower(&[self.facts()], code).swap_remove(0)
    }

    /// When it is attached, for its lowering.
    pub(super) fn time(&self) -> Time {
        if self.is_static() { Time::Early } else { Time::Running }
    }

    /// Whether code with these capabilities can be used for it unchanged.
    pub(super) fn leaves_alone(&self, code: &Capabilities) -> bool {
        self.lowering(code).is_apart() || self.hooked.is_none() && code.counts
    }

    /// Assigns a layer apart from the module's own code to it, unless it is compiled in.
    pub(super) fn begin(&mut self, module: &Module) -> Result<(), Error> {
        let is_apart = self.lowering(&Capabilities::of_module(module, self.time())).is_apart();
        self.layer = match &self.hooked {
            Some(hooked) if is_apart => {
                let (part, census) = hooked::attach(hooked, module, !self.is_static())?;
                self.census = census;
                Some(ObservedLayer::Plan(part))
            }
            Some(hooked) => {
                Arc::clone(hooked).compiled(module, Origin::Own);
                None
            }
            None if is_apart => {
                Some(ObservedLayer::Counts(match self.choice.wants_call_targets() {
                    true => Counted::Targets,
                    false => Counted::Edges,
                }))
            }
            None => None,
        };
        Ok(())
    }

    /// Its share of the counters, begun now: before the code is switched to count for it.
    pub(super) fn share_from_now(&self, module: &Module) -> Share {
        let mut share = self.counted.clone();
        if self.hooked.is_none() {
            share.begin(module);
        }
        share
    }

    /// Tells its hooks that it observes from now on, or rests, before the code is switched.
    pub(super) fn tell(&self, observes: bool) {
        if let Some(hooked) = &self.hooked {
            hooked.observes(observes);
        }
    }

    /// Records that it observes from now on, with that share of the counters.
    pub(super) fn observed(&mut self, counted: Share) {
        (self.is_observed, self.counted) = (true, counted);
    }

    /// Records that its layer is no longer observed.
    pub(super) fn unobserved(&mut self, module: &Module) {
        self.is_observed = false;
        if self.hooked.is_none() {
            self.counted.end(module);
        }
    }

    /// How many events it has seen so far: accesses, calls, edges between blocks, whatever it is
    /// made of; `counted` returns the number of edges.
    pub(super) fn events(&self, module: &Module, counted: impl FnOnce() -> u64) -> u64 {
        self.hooked.as_ref().map_or_else(counted, |hooked| hooked.events(module))
    }

    /// Its report.
    pub(super) fn report(&mut self, module: &Module) -> Option<Report> {
        let mut report = match &self.hooked {
            Some(hooked) => Report { shown: self.choice.top(), ..hooked.report(module) },
            None => {
                let counts = module.counts_of(&self.counted.reading(module, &[])?)?;
                self.choice.report_of(&counts)?
            }
        };
        self.choice.nobody(module).into_iter().for_each(|nobody| report.remark(nobody));
        if let Some(since) = self.since() {
            report.remark(format!(
                "attached for {:.1?}; what is being executed at this moment may be missing",
                since.elapsed()
            ));
        } else if self.hooked.is_some()
            && let unmade = module.unmade()
            && let Some((function, why)) = unmade.first()
        {
            let (count, name) = (unmade.len(), module.inner().label(*function));
            report.remark(format!(
                "not observed: {}, as {name}: {why}",
                several(count as u64, "function")
            ));
        }
        Some(report)
    }
}
