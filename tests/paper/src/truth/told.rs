//! A profile as printed by `fastinst run --format json`, read from the JSON alone, without the
//! profiler's own types.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A figure with its reported interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) value: f64,
    /// `None` for a figure that is reported as exact.
    pub(super) interval: Option<[f64; 2]>,
}

impl Told {
    /// `{value, how, lo, hi}`, a bare number, or null.
    pub(super) fn of(json: &Value) -> Option<Self> {
        if let Some(value) = json.as_f64() {
            return Some(Self { value, interval: None });
        }
        let value = json["value"].as_f64()?;
        let interval = match json["how"].as_str()? {
            "exact" => None,
            _ => Some([
                json["lo"].as_f64().unwrap_or(f64::NEG_INFINITY),
                json["hi"].as_f64().unwrap_or(f64::INFINITY),
            ]),
        };
        Some(Self { value, interval })
    }

    pub(super) fn is_exact(&self) -> bool {
        self.interval.is_none()
    }

    /// Whether the table marks it as unknown: its interval is wider than itself.
    pub(super) fn is_unknown(&self) -> bool {
        self.interval.is_some_and(|[lo, hi]| hi - lo > self.value.abs() || !(hi - lo).is_finite())
    }

    /// Half of the interval's width, as a share of the value.
    pub(super) fn half_width(&self) -> f64 {
        self.interval.map_or(0.0, |[lo, hi]| (hi - lo) / 2.0 / self.value.abs())
    }

    pub(super) fn covers(&self, truth: f64) -> bool {
        let [lo, hi] = self.interval.unwrap_or([self.value, self.value]);
        let slack = 1e-9 * truth.abs();
        lo - slack <= truth && truth <= hi + slack
    }
}

/// The reported figures of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct ToldFunction {
    pub(super) calls: Option<Told>,
    pub(super) own: Option<Told>,
    pub(super) total: Option<Told>,
    pub(super) cpu: Option<Told>,
    pub(super) wall: Option<Told>,
    pub(super) mean: Option<Told>,
    pub(super) min: Option<f64>,
    /// The reported ones of p50, p90, p99, p99.9, in this order.
    pub(super) percentiles: Vec<f64>,
    pub(super) max: Option<f64>,
    /// The names of its callers; `None` for an unknown caller.
    pub(super) callers: Vec<Option<String>>,
}

/// The reported figures of a profile.
#[derive(Clone, Debug, Default)]
pub(super) struct ToldProfile {
    /// The functions by name; names that several functions share are left out.
    pub(super) functions: BTreeMap<String, ToldFunction>,
    /// The number of functions that share their name with another.
    pub(super) ambiguous: usize,
    /// CPU time in nanoseconds; and its parts in the kernel and of unknown functions.
    pub(super) processor: f64,
    pub(super) system: f64,
    pub(super) unknown: f64,
    /// Whether time in the kernel is charged to the functions that entered it.
    pub(super) kernel: bool,
    pub(super) clock_samples: f64,
    /// Timed calls that were lost for lack of space, or never ended.
    pub(super) lost: f64,
}

/// The fields of the header that are read; those that an earlier version lacks are zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Header {
    processor: f64,
    system: f64,
    unknown: f64,
    clock: Value,
    clock_samples: f64,
    spent: Value,
}

impl ToldProfile {
    /// Parses a profile.
    pub(super) fn of(json: &Value) -> Option<Self> {
        let header = Header::deserialize(&json["header"]).ok()?;
        let mut told = Self {
            processor: header.processor * 1e9,
            system: header.system * 1e9,
            unknown: header.unknown * 1e9,
            kernel: header.clock["kernel"].as_bool().unwrap_or(false),
            clock_samples: header.clock_samples,
            lost: header.spent["lost"].as_f64().unwrap_or(0.0),
            ..Self::default()
        };
        let mut times = BTreeMap::<&str, usize>::new();
        let functions = json["functions"].as_array()?;
        functions
            .iter()
            .filter_map(|function| function["name"].as_str())
            .for_each(|name| *times.entry(name).or_default() += 1);
        for function in functions {
            let Some(name) = function["name"].as_str() else { continue };
            if times[name] > 1 {
                told.ambiguous += 1;
                continue;
            }
            told.functions.insert(name.to_owned(), ToldFunction::of(function));
        }
        Some(told)
    }
}

impl ToldFunction {
    fn of(json: &Value) -> Self {
        let callers = json["callers"].as_array().into_iter().flatten();
        Self {
            calls: Told::of(&json["calls"]),
            own: Told::of(&json["self"]),
            total: Told::of(&json["total"]),
            cpu: Told::of(&json["cpu"]),
            wall: Told::of(&json["wall"]),
            mean: Told::of(&json["mean"]),
            min: json["min"].as_f64(),
            percentiles: ["p50", "p90", "p99", "p999"]
                .into_iter()
                .filter_map(|name| Told::of(&json[name]))
                .map(|p| p.value)
                .collect(),
            max: json["max"].as_f64(),
            callers: callers.map(|arc| arc["caller"]["name"].as_str().map(str::to_owned)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_says_how_it_is_known() {
        let exact = Told::of(&json!({"value": 3.0, "how": "exact"})).unwrap();
        let estimated =
            Told::of(&json!({"value": 3.0, "how": "estimated", "lo": 2.0, "hi": 5.0})).unwrap();
        assert!(exact.is_exact() && exact.covers(3.0) && !exact.covers(3.1));
        assert!(
            !estimated.is_exact()
                && estimated.covers(4.9)
                && !estimated.covers(5.1)
                && !estimated.is_unknown()
        );
        assert_eq!((estimated.half_width(), Told::of(&Value::Null)), (0.5, None));
        assert!(Told { value: 1.0, interval: Some([0.0, 9.0]) }.is_unknown());
    }

    #[test]
    fn functions_that_share_a_name_are_left_out_and_counted() {
        let profile = json!({
            "header": {"processor": 0.5, "seconds": 1.0, "clock": {"clock": "kernel", "kernel": true}},
            "functions": [{"name": "a", "calls": 1.0}, {"name": "b"}, {"name": "b"}],
        });
        let told = ToldProfile::of(&profile).unwrap();
        assert_eq!(
            (told.functions.len(), told.ambiguous, told.processor, told.kernel),
            (1, 2, 5e8, true)
        );
    }
}
