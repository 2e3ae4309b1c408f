//! Writing: the profile as a file, as memory that another process reads, and its notes on how it
//! was made.

use super::{Agent, agent_time};
use crate::format::Format;
use crate::handover::Writer;
use crate::heap;
use crate::output::{self, Unhindered};
use crate::runtime::functions::{self, Id};
use crate::runtime::handover::{self, Due};
use crate::runtime::registry::{ModuleRegistry, lock_registry};
use crate::runtime::{attached, clock, measure, modes, registered, sites, spans, target, threads};
use profiler::{Clock, ClockEvidence, ClockSource};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wordpatch::os::clocks;

impl Agent {
    /// Writes the profile, or hands it over; reports once why it cannot.
    pub(super) fn write(&mut self) {
        self.written = Instant::now();
        let is_handed_over = handover::writer().is_some_and(|writer| {
            let is_handed_over = writer.has_reader() && self.hand_over(writer);
            writer.settle(is_handed_over);
            is_handed_over
        });
        // The profiler leaves no file in the folder of a process that it was attached to.
        if is_handed_over || attached::is_tied() {
            return;
        }
        let hoard = heap::Hoard::begin();
        let (profile, _unhindered) = self.profile(target::config().format);
        if profile.functions.is_empty() && !target::has_probes() {
            // A program without probes, which might have loaded code with some.
            return;
        }
        let is_orphan = handover::writer().is_some_and(|writer| !writer.has_reader());
        let path = if is_orphan { target::orphans_path() } else { target::output_path() };
        if let Err(error) = output::write(&profile, target::config(), path) {
            target::complain(&error.to_string());
        }
        self.leftovers = Some((profile, hoard));
    }

    /// Hands over to `fastinst run` as much as is due.
    pub(super) fn hand_over_if_due(&mut self) {
        let Some(writer) = handover::writer() else { return };
        let called = self.functions.iter().filter(|account| account.told > 0).count();
        // The agent's time is not the program's: a program that rests has nothing new.
        let programs = clocks::of_process().saturating_sub(agent_time());
        let due = self.pace.due(Instant::now(), programs, called);
        if due != Due::Nothing {
            writer.settle(false);
        }
        match due {
            Due::Nothing => {}
            Due::Counts => self.hand_over_counts(writer),
            Due::Whole => {
                self.hand_over(writer);
            }
        }
    }

    fn hand_over_counts(&self, writer: &Writer) {
        writer.reserve(self.functions.len());
        for (number, account) in
            self.functions.iter().enumerate().filter(|(_, account)| account.told > 0)
        {
            writer.count(number, account.told);
        }
    }

    /// Hands over the whole profile. Returns whether the reader's memory took it.
    fn hand_over(&mut self, writer: &Writer) -> bool {
        let start = agent_time();
        let hoard = heap::Hoard::begin();
        self.hand_over_counts(writer);
        let (profile, _unhindered) = self.profile(Format::Profile);
        let (called, all) = (profile.functions.len(), self.functions.len());
        let taken = writer.put(&profile.to_bytes(profiler::Packing::Plain), all);
        self.pace.handed_over(Instant::now(), agent_time().saturating_sub(start), called);
        self.leftovers = Some((profile, hoard));
        taken
    }

    pub(super) fn profile(&mut self, format: Format) -> (profiler::Profile, Unhindered) {
        let clock = measure::clock_since(self.started, target::clock());
        let registry = lock_registry();
        let unhindered = Unhindered::begin();
        if let Some(frozen) = &self.frozen {
            let mut profile = profiler::Profile::clone(frozen);
            if format != Format::Profile {
                profile.rename(crate::symbols::demangled);
            }
            return (profile, unhindered);
        }
        let evidence = if self.is_blurred {
            let why = "recording was switched faster than the sampling clock can follow";
            ClockEvidence {
                source: ClockSource::None { why: why.to_owned() },
                ..ClockEvidence::default()
            }
        } else {
            self.witness.evidence(&registry, &mut self.names)
        };
        let facts = self.facts(clock, evidence, &registry);
        let mut profile = self.controller.draft(clock::work());
        let functions = &self.functions;
        let entry_of = |id: Id| functions.get(id.0 as usize).and_then(|account| account.module);
        let (names, jit) = (&mut self.names, self.witness.jit());
        output::describe(&mut profile, &registry, names, &facts, format, jit, entry_of);
        (profile, unhindered)
    }

    /// The program's CPU time since it is profiled, without the agent's.
    pub(super) fn programs_time(&self, agent: Duration) -> Duration {
        clocks::of_process().saturating_sub(agent).saturating_sub(self.before)
    }

    /// Switches recording as signals and times request; the witness continues while a span is open.
    /// Returns the time until the next trigger, if one is set.
    pub(super) fn attend_to_spans(&mut self) -> Option<Duration> {
        let next = spans::attend(target::config(), target::clock().hz);
        let switches = spans::switches();
        let seen = switches.wrapping_sub(std::mem::replace(&mut self.switches, switches));
        if seen > 0 {
            self.is_blurred |= seen > 1;
            if spans::is_recording() {
                self.witness.resume_recording();
            } else {
                self.witness.pause_recording();
            }
        }
        next
    }

    fn facts(
        &self,
        clock: Clock,
        mut evidence: ClockEvidence,
        registry: &ModuleRegistry,
    ) -> output::Facts {
        let recorded = self.recorded.clone();
        let agent = agent_time();
        let (seconds, processor, agent, switching) = match &recorded {
            Some(spans) => (
                spans.counter as f64 / clock.hz,
                spans.process.saturating_sub(spans.agent),
                spans.agent,
                spans.switching,
            ),
            None => (
                self.started.elapsed().as_secs_f64(),
                self.programs_time(agent),
                agent.saturating_sub(self.agent_before),
                modes::ACCOUNT.ticks.load(Relaxed),
            ),
        };
        let processor = processor.as_secs_f64();
        if recorded.is_some() {
            // The agent looks a moment after recording was switched.
            evidence.limit(processor * 1e9);
        }
        output::Facts {
            clock,
            seconds,
            processor,
            recorded,
            evidence,
            toggles: modes::ACCOUNT.toggles.load(Relaxed),
            switching,
            agent: agent.as_secs_f64(),
            samples: self.samples,
            failures: modes::ACCOUNT.failures.load(Relaxed),
            unobserved: threads::UNOBSERVED.load(Relaxed),
            threads: threads::all().count() as u32,
            refused: functions::REFUSED.load(Relaxed).into(),
            probes: probes(registry),
            started: self.began,
        }
    }
}

/// The number of probes.
pub(super) fn probes(registry: &ModuleRegistry) -> u64 {
    u64::from(sites::count()) + registered::probes(registry)
}
