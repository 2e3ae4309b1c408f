//! A timeline for Perfetto and `chrome://tracing` (the Trace Event Format): the slowest calls of
//! every function, each at its time and in its thread.
//!
//! A profile contains no other single calls. The calls inside of a slow call are known by their
//! sums only, so they are listed with the call and not drawn.

use super::human;
use crate::FuncId;
use crate::profile::Profile;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

impl Profile {
    /// The profile in the Trace Event Format.
    pub fn trace(&self) -> String {
        let names: HashMap<FuncId, &str> =
            self.functions.iter().map(|one| (one.id, one.label.name.as_str())).collect();
        let process = self.header.process;
        let command = self.header.command.join(" ");
        let named = json!({ "ph": "M", "pid": process, "tid": process, "name": "process_name", "args": { "name": command } });
        let mut events = vec![named];
        for function in &self.functions {
            for call in &function.exemplars {
                let inside = call.inside.iter().map(|callee| {
                    let name = names.get(&callee.function).unwrap_or(&"?");
                    let calls = if callee.calls == 1 { "call" } else { "calls" };
                    let told = format!("{}, {} {calls}", human::time(callee.time), callee.calls);
                    ((*name).to_owned(), Value::String(told))
                });
                // Microseconds.
                events.push(json!({
                    "ph": "X",
                    "name": function.label.name,
                    "cat": "slow",
                    "pid": process,
                    "tid": call.thread,
                    "ts": (call.at - call.time).max(0.0) / 1e3,
                    "dur": call.time / 1e3,
                    "args": inside.collect::<Map<_, _>>(),
                }));
            }
        }
        // Outer calls come first if both begin at the same time.
        let key = |event: &Value, name: &str| event[name].as_f64().unwrap_or(-1.0);
        events.sort_by(|a, b| {
            key(a, "ts").total_cmp(&key(b, "ts")).then(key(b, "dur").total_cmp(&key(a, "dur")))
        });
        let all = json!({
            "traceEvents": events,
            "displayTimeUnit": "ns",
            "otherData": { "command": command, "machine": self.header.machine },
        });
        all.to_string() + "\n"
    }
}
