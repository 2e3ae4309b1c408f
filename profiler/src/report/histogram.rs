//! One function: the histogram of its calls' durations, and its slowest calls with the calls inside
//! of them.

use super::mark::{NOTHING, marked};
use super::{human, name};
use crate::histogram::bounds;
use crate::profile::{Exemplar, Function, Header, Profile};
use std::fmt::Write;

/// The options of the report.
#[derive(Clone, Copy, Debug)]
pub struct HistogramOptions {
    /// The greatest width.
    pub width: usize,
    /// The number of slowest calls to list.
    pub slowest: usize,
    /// Whether the output goes to a terminal with colours.
    pub color: bool,
}

/// The error that no function has a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no function {name} in the profile{}", if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) })]
pub struct NoFunction {
    name: String,
    near: Vec<String>,
}

/// The most functions that are shown by a part of their names, or proposed.
const SEVERAL: usize = 5;

impl Profile {
    /// The histograms of the functions with a name; if there are none, of the functions whose names
    /// contain it, if they are few.
    pub fn histogram(&self, name: &str, options: &HistogramOptions) -> Result<String, NoFunction> {
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<&Function> {
            self.functions.iter().filter(|function| wanted(&function.label.name)).collect()
        };
        let mut found = of(&|known| known == name);
        if found.is_empty() {
            found = of(&|known| !name.is_empty() && known.contains(name));
        }
        if found.is_empty() || found.len() > SEVERAL {
            return Err(NoFunction { name: name.to_owned(), near: self.near(name, &found) });
        }
        Ok(found
            .into_iter()
            .map(|function| self.of_function(function, options))
            .collect::<Vec<_>>()
            .join("\n"))
    }

    /// The histogram of one function, by its number.
    pub fn histogram_of(&self, function: &Function, options: &HistogramOptions) -> String {
        self.of_function(function, options)
    }

    /// Names that the user may have meant: those that contain it, or that have the most similar
    /// beginnings or ends.
    fn near(&self, name: &str, found: &[&Function]) -> Vec<String> {
        let wanted = name.to_lowercase();
        let alike = |known: &str| {
            let known = known.to_lowercase();
            let begin = known.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
            let end =
                known.chars().rev().zip(wanted.chars().rev()).take_while(|(a, b)| a == b).count();
            if known.contains(&wanted) { usize::MAX } else { begin.max(end) }
        };
        let all: Vec<&Function> =
            if found.is_empty() { self.functions.iter().collect() } else { found.to_vec() };
        let mut ranked: Vec<(usize, &str)> =
            all.iter().map(|one| (alike(&one.label.name), one.label.name.as_str())).collect();
        ranked.retain(|(alike, _)| *alike >= 3.min(wanted.chars().count().max(1)));
        ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        ranked.dedup();
        ranked.into_iter().take(SEVERAL).map(|(_, name)| name.to_owned()).collect()
    }

    fn of_function(&self, function: &Function, options: &HistogramOptions) -> String {
        let (bold, plain) = if options.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let place =
            name::line(&function.label).map_or_else(String::new, |line| format!(" ({line})"));
        let mut text = format!("{bold}{}{place}{plain}\n", function.label.name);
        let calls = marked(Some(function.calls), human::count);
        let timed = if function.is_complete() {
            "all timed".to_owned()
        } else {
            format!("{} timed", human::grouped(function.samples))
        };
        let time = |figure| marked(figure, human::time);
        let _ = writeln!(
            text,
            "{calls} calls, {timed}; self {}, total {} {}",
            time(function.own),
            time(function.total),
            self.header.kind_of_time()
        );
        let value = |share| {
            function.latency(share, &self.header).map_or_else(|| NOTHING.to_owned(), human::time)
        };
        let max = function.max.map_or_else(|| NOTHING.to_owned(), human::time);
        let _ = writeln!(
            text,
            "p50 {}, p90 {}, p99 {}, p99.9 {}, max {max}\n",
            value(0.5),
            value(0.9),
            value(0.99),
            value(0.999)
        );
        bars(&mut text, function, &self.header, options);
        self.slowest(&mut text, function, options);
        text
    }

    fn slowest(&self, text: &mut String, function: &Function, options: &HistogramOptions) {
        if options.slowest == 0 {
            return;
        }
        let mut calls: Vec<&Exemplar> = function.exemplars.iter().collect();
        calls.sort_by(|a, b| b.time.total_cmp(&a.time));
        if calls.is_empty() {
            text.push_str("\nNo single call was recorded.\n");
            return;
        }
        text.push_str("\nSlowest calls:\n");
        for call in calls.into_iter().take(options.slowest) {
            let _ = writeln!(
                text,
                "  {:>8}  thread {}, at {}",
                human::time(call.time),
                call.thread,
                human::time(call.at)
            );
            for callee in &call.inside {
                let known = self.functions.iter().find(|known| known.id == callee.function);
                let name = known.map_or("?", |known| known.label.name.as_str());
                let name = human::shorten(name, options.width.saturating_sub(36).max(20));
                let part = (callee.time / call.time.max(1e-9)).min(1.0);
                let times = if callee.calls == 1 {
                    "1 call".to_owned()
                } else {
                    format!("{} calls", human::grouped(callee.calls))
                };
                let _ = writeln!(
                    text,
                    "      {:>8} {:>6}  {name} ({times})",
                    human::time(callee.time),
                    human::percent(part)
                );
            }
        }
    }
}

/// The number of a value's step among 1, 2, 5, 10, 20, 50 … nanoseconds.
fn step(ns: f64) -> i32 {
    (0..).find(|&number| begin(number + 1) > ns || number > 60).unwrap_or(0)
}

/// The beginning of a step; the first begins at 0.
fn begin(number: i32) -> f64 {
    let number = number - 1;
    if number < 0 { 0.0 } else { [1.0, 2.0, 5.0][number as usize % 3] * 10f64.powi(number / 3) }
}

fn bars(text: &mut String, function: &Function, header: &Header, options: &HistogramOptions) {
    let mut steps = std::collections::BTreeMap::<i32, f64>::new();
    for &(bucket, weight) in function.histogram.buckets() {
        let (first, last) = bounds(bucket);
        let ns = ((first as f64 + last as f64) / 2.0 - header.bias).max(0.0) / header.hz * 1e9;
        // The last bucket ends above the longest call.
        let ns = function.max.map_or(ns, |max| ns.min(max));
        *steps.entry(step(ns)).or_default() += weight;
    }
    let all: f64 = steps.values().sum();
    let (Some(first), Some(last)) = (steps.keys().next(), steps.keys().next_back()) else {
        text.push_str("No call was timed.\n");
        return;
    };
    let most = steps.values().copied().fold(0.0, f64::max);
    let room = options.width.saturating_sub(44).clamp(10, 60);
    let _ = writeln!(text, "{:>19}  {:>8}  {:>7}", "time", "calls", "share");
    for number in *first..=*last {
        let weight = steps.get(&number).copied().unwrap_or(0.0);
        let length = (weight / most * room as f64).round() as usize;
        let bar = if weight > 0.0 && length == 0 { "▏".to_owned() } else { "█".repeat(length) };
        let (from, to) = (short(begin(number)), short(begin(number + 1)));
        let line = format!(
            "{from:>7} … {to:>7}    {:>8}  {:>7}  {bar}",
            human::count(weight),
            human::percent(weight / all)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A round time.
fn short(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{value:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up::program;
    use crate::{Callee, FuncId, bucket};

    const OPTIONS: HistogramOptions = HistogramOptions { width: 80, slowest: 3, color: false };

    #[test]
    fn steps_are_one_two_five() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(begin), [0.0, 1.0, 2.0, 5.0, 10.0, 20.0]);
        for ns in [0.0, 0.5, 1.0, 3.0, 7e3, 4.9e9] {
            assert!(begin(step(ns)) <= ns && ns < begin(step(ns) + 1), "{ns}");
        }
    }

    #[test]
    fn a_function_is_shown_with_its_counts_and_its_slowest_calls() {
        let mut profile = program();
        profile.header.bias = 0.0;
        let parse = &mut profile.functions[1];
        parse.histogram = crate::Histogram::default();
        [(1_500, 90.0), (30_000, 9.0), (400_000_000, 1.0)]
            .iter()
            .for_each(|&(ns, weight)| parse.histogram.add(bucket(ns), weight));
        (parse.min, parse.max) = (Some(1500.0), Some(4e8));
        parse.exemplars = [2e8, 4e8]
            .map(|time| Exemplar {
                time,
                thread: 7,
                at: 1.5e9,
                inside: vec![Callee { function: FuncId(4), calls: 3, time: time / 2.0 }],
            })
            .to_vec();
        let text = profile.histogram("parse", &OPTIONS).unwrap();
        assert!(text.contains("1 us …    2 us          90    90.0%"), "{text}");
        assert!(text.contains("200 ms …  500 ms           1     1.0%"), "{text}");
        let slowest =
            text.lines().skip_while(|line| !line.starts_with("Slowest")).collect::<Vec<_>>();
        assert_eq!(slowest[1], "    400 ms  thread 7, at 1.50 s");
        assert!(
            slowest[2].contains("50.0%  hash (3 calls)") && slowest[3].contains("200 ms"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            !profile
                .histogram("parse", &HistogramOptions { slowest: 0, ..OPTIONS })
                .unwrap()
                .contains("Slowest")
        );
    }

    #[test]
    fn a_part_of_a_name_is_enough_and_near_misses_are_named() {
        let profile = program();
        assert!(profile.histogram("pars", &OPTIONS).unwrap().contains("parse"));
        assert!(
            profile.histogram("main", &OPTIONS).unwrap().contains("No single call was recorded")
        );
        let error = profile.histogram("parze", &OPTIONS).unwrap_err().to_string();
        assert_eq!(error, "no function parze in the profile; did you mean parse?");
    }
}
