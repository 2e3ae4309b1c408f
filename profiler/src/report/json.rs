//! JSON, for programs: one object; times are in nanoseconds, shares from 0 to 1.
//!
//! A figure is `{"value", "how": "exact"}`, `{"value", "how": "estimated", "lo", "hi"}`, or null if
//! unknown. Percentiles are numbers, or null if too few calls were timed.

use super::share::{Shares, waiting};
use crate::FuncId;
use crate::profile::{Exemplar, Function, Profile};
use serde_json::{Value, json};
use std::collections::HashMap;

impl Profile {
    /// The profile as JSON.
    pub fn json(&self) -> String {
        let shares = Shares::of(self);
        let names: HashMap<FuncId, &str> = self
            .functions
            .iter()
            .map(|function| (function.id, function.label.name.as_str()))
            .collect();
        let functions: Vec<Value> = self
            .functions
            .iter()
            .map(|function| self.function_json(function, shares.as_ref(), &names))
            .collect();
        let rest = shares.map(|shares| json!({ "system": shares.system, "unknown": shares.unknown, "whole": shares.whole }));
        let all = json!({ "header": self.header, "modules": self.modules, "functions": functions, "elsewhere": rest });
        serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
    }

    fn function_json(
        &self,
        function: &Function,
        shares: Option<&Shares>,
        names: &HashMap<FuncId, &str>,
    ) -> Value {
        let percentile = |share| function.latency(share, &self.header);
        let module = function.label.module.and_then(|module| self.modules.get(module as usize));
        let exemplars: Vec<Value> =
            function.exemplars.iter().map(|call| exemplar(call, names)).collect();
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
            "p999": percentile(0.999),
            "max": function.max,
            "total": function.total,
            "self": function.own,
            "cpu": function.cpu,
            "wall": function.wall,
            "waiting": shares.and_then(|_| waiting(function)),
            "share": shares.and_then(|shares| shares.share(function)),
            "lost": function.lost,
            "below_resolution": function.is_below_resolution(&self.header),
            "heavy_tail": function.has_heavy_tail(&self.header),
            "callers": function.arcs,
            "exemplars": exemplars,
        })
    }
}

fn exemplar(call: &Exemplar, names: &HashMap<FuncId, &str>) -> Value {
    let inside = call.inside.iter();
    let inside: Vec<Value> =
        inside.map(|callee| json!({ "name": names.get(&callee.function), "calls": callee.calls, "time": callee.time })).collect();
    json!({ "time": call.time, "thread": call.thread, "at": call.at, "inside": inside })
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::{about, program};
    use crate::{Callee, Exemplar, FuncId};
    use serde_json::Value;

    #[test]
    fn every_figure_is_told_with_how_it_is_known_and_shares_add_up() {
        let mut profile = program();
        profile.functions[1].own = about(200e6, 150e6, 250e6);
        profile.functions[2].total = None;
        profile.functions[0].exemplars = vec![Exemplar {
            time: 7e8,
            thread: 42,
            at: 5.0,
            inside: vec![Callee { function: FuncId(2), calls: 3, time: 6e8 }],
        }];
        let json: Value = serde_json::from_str(&profile.json()).unwrap();
        assert_eq!(json["header"]["processor"], 1.0);
        let functions = json["functions"].as_array().unwrap();
        assert_eq!(functions[0]["self"], serde_json::json!({ "value": 100e6, "how": "exact" }));
        assert_eq!(
            functions[1]["self"],
            serde_json::json!({ "value": 200e6, "how": "estimated", "lo": 150e6, "hi": 250e6 })
        );
        assert!(functions[2]["total"].is_null() && functions[2]["waiting"].is_null());
        assert_eq!(functions[0]["waiting"]["value"], 0.5);
        assert_eq!(functions[0]["exemplars"][0]["inside"][0]["name"], "parse");
        for name in [
            "name", "module", "calls", "total", "self", "cpu", "wall", "p50", "p90", "p99", "p999",
            "max", "callers", "share",
        ] {
            assert!(functions.iter().all(|function| function.get(name).is_some()), "{name}");
        }
        let share = |function: &Value| function["share"]["value"].as_f64().unwrap();
        let rest =
            ["system", "unknown"].map(|name| json["elsewhere"][name].as_f64().unwrap() / 1e9);
        let sum = functions.iter().map(share).sum::<f64>() + rest.iter().sum::<f64>();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
}
