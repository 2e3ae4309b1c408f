//! Monitors that are modules and look for a time only.

use super::modules::Chosen;
use std::sync::Arc;
use wasm_aot::observer::{Observation, Selection};

/// Has a monitor end when its time is over.
pub(super) fn start_spell(observation: &Arc<Observation>, chosen: &Chosen) {
    let Some(time) = chosen.lasts() else { return };
    let (observation, name) = (Arc::downgrade(observation), chosen.name());
    let end = move || {
        std::thread::sleep(time);
        if let Some(observation) = observation.upgrade() {
            // It may be gone by now.
            let _ = observation.switch(&Selection::whole(&name), false);
        }
    };
    // Without a thread it goes on looking.
    let _ = std::thread::Builder::new().name("monitors".into()).stack_size(4 << 20).spawn(end);
}
