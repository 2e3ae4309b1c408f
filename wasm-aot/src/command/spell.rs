//! Monitors that are modules and observe for a limited time.

use super::modules::Chosen;
use std::sync::Arc;
use wasm_aot::observer::{Observation, Selection};

/// Ends a monitor when its time is over.
pub(super) fn start_spell(observation: &Arc<Observation>, chosen: &Chosen) {
    let Some(time) = chosen.lasts() else { return };
    let (observation, name) = (Arc::downgrade(observation), chosen.name());
    let end = move || {
        std::thread::sleep(time);
        if let Some(observation) = observation.upgrade() {
            // It may have been detached by now.
            let _ = observation.switch(&Selection::whole(&name), false);
        }
    };
    // If no thread can be started, it continues to observe.
    let _ = std::thread::Builder::new().name("monitors".into()).stack_size(4 << 20).spawn(end);
}
