//! The witness: a sampling clock that shows which functions used the CPU time, independently of
//! probes.
//!
//! ```text
//!   auto ──► kernel: `task-clock` events, one a processor ──refused──► frames: the agent's sight ──────► none
//!            addresses often, stacks seldom, no signal                 innermost call that is being timed
//! ```
//!
//! It is created before the agent's thread, by the thread that later ones descend from. Only the
//! agent reads it, at its ticks: nothing of it runs in the program's threads. What it has seen is
//! attributed when a profile is written.
//!
//! - `kernel` opens the events and reads their rings; `mappings` and `unwinding` find the code that
//!   an address is in, and its callers.
//! - `placements` finds modules that come and go: libraries, and code that runtimes register.
//! - `jit` names code that runtimes generate and report to perf.
//! - `reservoir` keeps as many stacks as a profile needs, however long the program runs.
//! - `brief` samples threads that end before the clock does.
//! - `frames` is the fallback where the kernel refuses.
//! - `owners` finds the functions with probes that a place belongs to.

mod brief;
mod frames;
mod jit;
mod kernel;
mod mappings;
mod owners;
mod placements;
mod reservoir;
mod unwinding;

use super::registry::ModuleRegistry;
use super::scope;
use crate::config::WitnessChoice;
use crate::names::Names;
use frames::Frames;
pub(crate) use jit::{Jit, MODULE as JIT};
use kernel::Kernel;
use profiler::{ClockEvidence, ClockSource, Policy};
use std::time::Duration;

/// The source that shows where the time goes.
#[derive(Debug)]
pub(crate) enum Witness {
    Kernel(Box<Kernel>),
    Frames(Box<Frames>),
    /// Every call is timed: without a kernel clock, these times are the only evidence.
    Probes,
    None {
        why: String,
    },
}

impl Witness {
    /// The best source available. By the thread that later ones descend from, before any thread of
    /// the profiler exists. Where puns are installed, it remembers what it has seen running.
    pub(crate) fn begin(choice: WitnessChoice, policy: &Policy, has_puns: bool) -> Self {
        if scope::is_used() && choice != WitnessChoice::None {
            // Samples show a function, but not whether its call is recorded.
            return match policy {
                Policy::Exact => Self::Probes,
                _ => {
                    let why = "the sampling clock cannot see which calls are in the scope of --under and --depth";
                    Self::None { why: why.to_owned() }
                }
            };
        }
        match choice {
            WitnessChoice::None => {
                Self::None { why: "disabled by FASTINST_WITNESS=none".to_owned() }
            }
            WitnessChoice::Frames => Self::frames("selected by FASTINST_WITNESS=frames".to_owned()),
            WitnessChoice::Auto | WitnessChoice::Kernel => match Kernel::open(has_puns) {
                Ok(kernel) => Self::Kernel(Box::new(kernel)),
                Err(refusal) if choice == WitnessChoice::Kernel => {
                    Self::None { why: refusal.to_string() }
                }
                Err(_) if choice == WitnessChoice::Auto && *policy == Policy::Exact => Self::Probes,
                Err(refusal) => Self::frames(refusal.to_string()),
            },
        }
    }

    fn frames(why: String) -> Self {
        Self::Frames(Box::new(Frames::new(why)))
    }

    /// How long the agent may sleep until it looks again.
    pub(crate) fn pause(&self) -> Duration {
        match self {
            Self::Frames(frames) => frames.pause(),
            Self::Kernel(kernel) => kernel.pause(),
            Self::Probes | Self::None { .. } => Duration::MAX,
        }
    }

    /// Takes what has been seen since. By the agent.
    pub(crate) fn take_samples(&mut self) {
        match self {
            Self::Kernel(kernel) => kernel.take_samples(),
            Self::Frames(frames) => frames.look_at_threads(),
            Self::Probes | Self::None { .. } => {}
        }
    }

    /// Addresses in functions that were seen running since, and in their callers; `None` if the
    /// source does not see any. By the agent.
    pub(crate) fn take_seen(&mut self) -> Option<Vec<u64>> {
        match self {
            Self::Kernel(kernel) => Some(kernel.take_seen()),
            Self::Frames(_) | Self::Probes | Self::None { .. } => None,
        }
    }

    /// Informs it where modules lie that come and go, and lay. By the agent.
    pub(super) fn learn_placements(&mut self, registry: &ModuleRegistry) {
        if let Self::Kernel(kernel) = self {
            kernel.learn_placements(registry);
        }
    }

    /// The code that it has seen and that has no probes, since runtimes have reported it only to
    /// perf.
    pub(crate) fn jit(&self) -> Option<&Jit> {
        match self {
            Self::Kernel(kernel) => Some(kernel.jit()),
            Self::Frames(_) | Self::Probes | Self::None { .. } => None,
        }
    }

    /// Nothing is recorded yet.
    pub(crate) fn wait_for_recording(&mut self) {
        match self {
            Self::Kernel(kernel) => kernel.wait_for_recording(),
            Self::Frames(frames) => frames.pause_recording(),
            Self::Probes | Self::None { .. } => {}
        }
    }

    /// What happens from now on is not recorded. By the agent.
    pub(crate) fn pause_recording(&mut self) {
        match self {
            Self::Kernel(kernel) => kernel.pause_recording(),
            Self::Frames(frames) => frames.pause_recording(),
            Self::Probes | Self::None { .. } => {}
        }
    }

    /// What happens from now on is recorded again. By the agent.
    pub(crate) fn resume_recording(&mut self) {
        match self {
            Self::Kernel(kernel) => kernel.resume_recording(),
            Self::Frames(frames) => frames.resume_recording(),
            Self::Probes | Self::None { .. } => {}
        }
    }

    /// What it has seen, attributed to the functions that have probes. By the agent.
    pub(crate) fn evidence(
        &mut self,
        registry: &ModuleRegistry,
        names: &mut Names,
    ) -> ClockEvidence {
        match self {
            Self::Kernel(kernel) => kernel.evidence(registry, names),
            Self::Frames(frames) => frames.evidence(),
            Self::Probes => ClockEvidence::default(),
            Self::None { why } => ClockEvidence {
                source: ClockSource::None { why: why.clone() },
                ..ClockEvidence::default()
            },
        }
    }
}
