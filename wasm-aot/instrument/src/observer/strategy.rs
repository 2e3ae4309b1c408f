//! How a monitor that can be switched observes a program: by probes in its code
//! ([`Installed`](super::installed::Installed)), or by counters that say what probes would have
//! done ([`Counting`](super::counting::Counting)).

use super::binding::Binding;
use super::switches::Switches;
use std::fmt::Debug;
use std::sync::atomic::Ordering::Relaxed;
use wasm_aot_engine::instrument::runtime::StoreCore;
use wasm_aot_engine::{Error, Instance};

/// A probe, and where it stands or would stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchableProbe {
    pub(super) function: u32,
    pub(super) rule: u16,
    pub(super) id: u32,
    /// Where the instruction is in the module.
    pub(super) offset: u32,
}

impl SwitchableProbe {
    pub(super) fn of(function: u32, binding: &Binding) -> Self {
        Self { function, rule: binding.rule, id: binding.id, offset: binding.offset }
    }
}

/// One of the two.
pub(super) trait Strategy: Debug + Send + Sync {
    fn switches(&self) -> &Switches;

    /// All probes.
    fn probes(&self) -> Box<dyn Iterator<Item = SwitchableProbe> + '_>;

    /// Whether it observes.
    fn is_wanted(&self) -> bool;

    /// Has the code be as probes were switched, if it is to observe; otherwise it rests.
    fn apply_switches(&self, is_wanted: bool) -> Result<(), Error>;

    /// Has it observe, or rest. Which probes are on stays as it is.
    fn attach(&self, on: bool) -> Result<(), Error> {
        self.switches().resting().store(!on, Relaxed);
        self.apply_switches(on)
    }

    /// Has its calls counted; returns whether they are.
    fn count(&self) -> Result<bool, Error> {
        Ok(true)
    }

    /// How many of its calls were counted.
    fn events(&self) -> u64;

    /// Gives cells of its instance what belongs to them by now.
    fn write_cells(&self, _: &StoreCore, _: Instance) {}
}
