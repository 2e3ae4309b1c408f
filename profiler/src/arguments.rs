//! Arguments: what functions were called with, by value.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// The values of some arguments of a function, or what it has returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arguments {
    /// The function's name.
    pub function: String,
    /// Which values: `arg1/s, arg2/i32`, or `retval/i`.
    pub what: String,
    /// Calls of values that found no place, as there were too many.
    pub other: u64,
    /// Calls that ended otherwise than by returning from the function itself: what they returned
    /// is another function's. Or values that were not read, as a signal's handler came between.
    #[serde(default)]
    pub unknown: u64,
    /// So many calls came within a second, and nothing was read from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<u64>,
    /// Those that were seen.
    pub values: Vec<ArgumentValue>,
}

/// A value, or several together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArgumentValue {
    /// As people write it, one for each argument.
    pub values: Vec<String>,
    /// Calls with it.
    pub calls: u64,
    /// The longest of them, in nanoseconds, if one has ended.
    pub max: Option<f64>,
    /// How long they took, in nanoseconds, callees included.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub histogram: Histogram,
}

impl ArgumentValue {
    /// The time that half of the calls took at most, in nanoseconds.
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
    /// Adds those of another process.
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

    /// The most frequent first.
    pub fn sort(&mut self) {
        self.values.sort_by(|a, b| (b.calls, &a.values).cmp(&(a.calls, &b.values)));
    }

    /// All reported calls.
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
