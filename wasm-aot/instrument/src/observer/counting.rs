//! The strategy of a switchable monitor whose calls follow from execution counts: while it
//! observes, the program counts, and its code contains nothing of the monitor.
//!
//! A [`Share`] of the counters belongs to the monitor. For each single probe that is off, the count
//! of its instruction is saved.

use super::strategy::{Strategy, SwitchableProbe};
use super::switches::Switches;
use super::virtual_probes::{VirtualProbe, VirtualProbeCells};
use parking_lot::Mutex;
use wasm_aot_engine::Error;
use wasm_aot_engine::Instance;
use wasm_aot_engine::Module;
use wasm_aot_engine::instrument::runtime::{Counted, ObservedLayer, Share, StoreCore, waiting};

/// The layer that is observed for it.
const COUNTS: ObservedLayer = ObservedLayer::Counts(Counted::Edges);

/// The monitor.
#[derive(Debug)]
pub(super) struct Counting {
    module: Module,
    switches: Switches,
    probes: Vec<SwitchableProbe>,
    state: Mutex<CountingState>,
}

#[derive(Debug)]
struct CountingState {
    calls: VirtualProbeCells,
    /// How many calls were counted.
    events: u64,
    /// Whether it is to observe.
    is_wanted: bool,
    counted: Share,
}

impl Counting {
    /// Off at first.
    pub(super) fn new(
        module: &Module,
        calls: Vec<VirtualProbe>,
        probes: Vec<SwitchableProbe>,
        switches: Switches,
    ) -> Self {
        let mut calls = VirtualProbeCells::new(calls);
        switch(&mut calls, &switches);
        let state = CountingState { calls, events: 0, is_wanted: false, counted: Share::default() };
        Self { module: module.clone(), switches, probes, state: Mutex::new(state) }
    }

    /// Reads the counts since the last reading; `waiting` are the addresses at which frames wait.
    fn read(&self, state: &mut CountingState, waiting: &[usize]) {
        let own = state
            .counted
            .reading(&self.module, waiting)
            .and_then(|reading| self.module.counts_of(&reading));
        if let Some(counts) = own {
            let calls = state.calls.read(&self.module, &counts);
            state.events = state.events.saturating_add_signed(calls);
        }
    }
}

impl Strategy for Counting {
    fn switches(&self) -> &Switches {
        &self.switches
    }

    fn probes(&self) -> Box<dyn Iterator<Item = SwitchableProbe> + '_> {
        Box::new(self.probes.iter().copied())
    }

    fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
    }

    fn apply_switches(&self, is_wanted: bool) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.is_wanted = is_wanted;
        if differ(&mut state.calls, &self.switches) {
            self.read(&mut state, &[]);
            switch(&mut state.calls, &self.switches);
        }
        let is_due = is_wanted && self.switches.on() > 0;
        match (state.counted.goes_on(), is_due) {
            (false, true) => {
                let mut counted = state.counted.clone();
                counted.begin(&self.module);
                self.module.observe(&[COUNTS])?;
                state.counted = counted;
            }
            (true, false) => {
                self.module.observe_no_more(&[COUNTS])?;
                state.counted.end(&self.module);
            }
            _ => {}
        }
        Ok(())
    }

    fn events(&self) -> u64 {
        let mut state = self.state.lock();
        self.read(&mut state, &[]);
        state.events
    }

    fn write_cells(&self, core: &StoreCore, instance: Instance) {
        let mut state = self.state.lock();
        self.read(&mut state, &waiting(core));
        state.calls.write_cells(core, |_| Some(instance));
    }
}

/// Whether probes were switched.
fn differ(calls: &mut VirtualProbeCells, switches: &Switches) -> bool {
    calls.each().any(|call| call.is_on != switches.is_on(call.id))
}

/// Switches virtual calls as their probes were switched.
fn switch(calls: &mut VirtualProbeCells, switches: &Switches) {
    calls.each().for_each(|call| call.is_on = switches.is_on(call.id));
}
