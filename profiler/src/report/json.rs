//! JSON: for programs. One object; times in nanoseconds.

use crate::profile::Profile;
use serde_json::{Value, json};

impl Profile {
    /// As JSON.
    pub fn json(&self) -> String {
        let functions: Vec<Value> = self
            .functions
            .iter()
            .map(|function| {
                let percentile = |share| function.percentile(share, &self.header);
                let module = function.label.module.and_then(|module| self.modules.get(module as usize));
                json!({
                    "name": function.label.name,
                    "module": module.map(|module| &module.path),
                    "offset": function.label.offset,
                    "file": function.label.file,
                    "line": function.label.line,
                    "calls": function.calls,
                    "samples": function.samples,
                    "min": function.min,
                    "mean": function.mean,
                    "p50": percentile(0.5),
                    "p90": percentile(0.9),
                    "p99": percentile(0.99),
                    "max": function.max,
                    "total": function.total,
                    "self": function.own,
                    "lost": function.lost,
                    "below_resolution": function.is_below_resolution(&self.header),
                    "callers": function.arcs,
                })
            })
            .collect();
        let all = json!({ "header": self.header, "modules": self.modules, "functions": functions });
        serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
    }
}
