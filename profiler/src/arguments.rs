//! Arguments: the calls of functions, by the values of their arguments.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// The values of some arguments of a function, or of its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arguments {
    /// The function's name.
    pub function: String,
    /// Which values: `arg1/s, arg2/i32`, or `retval/i`.
    pub what: String,
    /// Calls with values that have no entry, because there were too many values.
    pub other: u64,
    /// Calls that did not end by a return from the function itself, so that the returned value
    /// belongs to another function; or calls whose values were not read, because a signal handler
    /// interrupted the hook.
    #[serde(default)]
    pub unknown: u64,
    /// The number of calls within a second after which values were no longer read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<u64>,
    /// The values.
    pub values: Vec<ArgumentValue>,
}

/// A value, or a combination of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArgumentValue {
    /// The values as text, one for each argument.
    pub values: Vec<String>,
    /// Calls with it.
    pub calls: u64,
    /// The longest of them, in nanoseconds, if one has ended.
    pub max: Option<f64>,
    /// Their durations, in nanoseconds, callees included.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub histogram: Histogram,
}

impl ArgumentValue {
    /// The median duration of the calls, in nanoseconds.
    pub fn p50(&self) -> Option<f64> {
        let half = self.histogram.quantile(0.5)?;
        Some(self.max.map_or(half, |max| half.min(max)))
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.max = match (self.max, other.max) {
            (Some(one), Some(two)) => Some(one.max(two)),
            (one, two) => one.or(two),
        };
        self.histogram.merge(&other.histogram);
    }
}

impl Arguments {
    /// Adds the calls of another process.
    pub(crate) fn add(&mut self, other: &Self) {
        self.other += other.other;
        self.unknown += other.unknown;
        self.stopped = self.stopped.max(other.stopped);
        for value in &other.values {
            match self.values.iter_mut().find(|known| known.values == value.values) {
                Some(known) => known.add(value),
                None => self.values.push(value.clone()),
            }
        }
        self.sort();
    }

    /// Sorts the values, the most frequent first.
    pub fn sort(&mut self) {
        self.values.sort_by(|a, b| (b.calls, &a.values).cmp(&(a.calls, &b.values)));
    }

    /// The number of all calls.
    pub fn calls(&self) -> u64 {
        self.values.iter().map(|value| value.calls).sum::<u64>() + self.other + self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, calls: u64, times: &[u64]) -> ArgumentValue {
        let mut histogram = Histogram::default();
        times.iter().for_each(|&time| histogram.add(crate::bucket(time), 1.0));
        let max = times.iter().max().map(|&time| time as f64);
        ArgumentValue { values: vec![text.to_owned()], calls, max, histogram }
    }

    #[test]
    fn values_of_several_processes_add_up() {
        let mut one = Arguments {
            function: "parse".to_owned(),
            what: "arg1/s".to_owned(),
            other: 1,
            values: vec![value("\"a\"", 2, &[100, 300]), value("\"b\"", 1, &[])],
            ..Arguments::default()
        };
        let two = Arguments {
            other: 2,
            stopped: Some(10_000),
            values: vec![value("\"b\"", 4, &[50]), value("\"c\"", 1, &[])],
            ..one.clone()
        };
        one.add(&two);
        let shown: Vec<_> = one.values.iter().map(|v| (&*v.values[0], v.calls, v.max)).collect();
        assert_eq!(
            shown,
            [("\"b\"", 5, Some(50.0)), ("\"a\"", 2, Some(300.0)), ("\"c\"", 1, None)]
        );
        assert_eq!((one.other, one.calls()), (3, 11));
    }
}
