//! How the agent applies the controller's decisions, and learns what hooks have switched.

use super::Agent;
use crate::runtime::functions::Id;
use crate::runtime::layout::{Function, Record};
use crate::runtime::{clock, modes, registered};
use profiler::{Mode, Probes};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How many functions are switched per reading of the program's clock.
const MARKED_TOGETHER: usize = 8;

/// The changes that the controller wants.
#[derive(Debug, Default)]
pub(super) struct Changes(Vec<(profiler::FuncId, Mode)>);

impl Probes for Changes {
    fn set(&mut self, function: profiler::FuncId, mode: Mode) {
        self.0.push((function, mode));
    }
}

/// Gives a thread its quota anew, if it has not used it up. If the thread takes one off meanwhile,
/// it gets one more.
pub(super) fn refill(record: &Record, function: &Function, quota: i32) {
    let left = record.left.load(Relaxed);
    if (1..quota / 2).contains(&left) && record.term.load(Relaxed) == function.term.load(Relaxed) {
        record.left.store(quota, Relaxed);
    }
}

impl Agent {
    /// The cost of switching a function off and on again: two sites, each twice, and as much again
    /// for the threads that execute them and have to fetch them anew.
    pub(super) fn learn_toggle(&mut self) {
        let toggles = modes::ACCOUNT.toggles.load(Relaxed);
        if toggles > 100 {
            let one = modes::ACCOUNT.ticks.load(Relaxed) as f64 / toggles as f64;
            self.controller.learn_toggle((one * 4.0 * 2.0).clamp(400.0, 20_000.0));
        }
    }

    /// Passes the wanted states of registered functions to their runtimes.
    pub(super) fn notify_runtimes(&mut self) {
        let refused = registered::notify_runtimes();
        modes::ACCOUNT.failures.fetch_add(refused as u64, Relaxed);
    }

    /// Reports the functions to the controller that hooks have retired.
    pub(super) fn report_retired(&mut self) {
        let (controller, functions) = (&mut self.controller, &mut self.functions);
        self.armed.retain(|&id| {
            let function = id.function();
            let armed = modes::is_armed(function);
            if !armed {
                functions[id.0 as usize].samples = false;
                let [armed, at] = [&function.armed_at, &function.retired_at]
                    .map(|at| profiler::Ticks(at.load(Acquire)));
                controller.retired(profiler::FuncId(id.0), armed, at);
            }
            armed
        });
    }

    /// Switches functions. Returns those that a runtime switches itself, once the agent calls it.
    pub(super) fn apply_modes(&mut self, changes: Changes) -> Vec<profiler::FuncId> {
        let mut elsewhere = Vec::new();
        for (at, (function, mode)) in changes.0.into_iter().enumerate() {
            let id = Id(function.0);
            if at % MARKED_TOGETHER == 0 {
                clock::mark();
            }
            modes::set(id, mode);
            self.controller.switched(function, clock::marked());
            if id.function().site_list().is_some_and(|list| list.registration().is_some()) {
                elsewhere.push(function);
            }
            let account = &mut self.functions[id.0 as usize];
            let samples = matches!(mode, Mode::Sample(_));
            if samples && !account.samples {
                self.armed.insert(id);
            } else if !samples && account.samples {
                self.armed.remove(&id);
            }
            account.samples = samples;
            account.refill = match mode {
                Mode::Sample(draw) if draw.is_refilled() => i32::try_from(draw.quota).ok(),
                _ => None,
            };
        }
        elsewhere
    }
}
