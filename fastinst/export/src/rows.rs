//! Rows: a profile's functions, with the data of their process.

use profiler::{Function, Header, Profile, bounds};
use std::collections::BTreeMap;

/// A profile and its origin.
#[derive(Clone, Debug)]
pub struct Source {
    /// The machine.
    pub host: String,
    /// The profile.
    pub profile: Profile,
}

impl Source {
    /// The file name of the program.
    pub(crate) fn program(&self) -> &str {
        let command = self.profile.header.command.first().map_or("", String::as_str);
        command.rsplit('/').next().unwrap_or(command)
    }
}

/// A function in a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) source: &'a Source,
    pub(crate) function: &'a Function,
}

/// All rows of some profiles.
pub(crate) fn rows(sources: &[Source]) -> Vec<Row<'_>> {
    let of = |source| move |function| Row { source, function };
    sources.iter().flat_map(|source| source.profile.functions.iter().map(of(source))).collect()
}

/// Buckets of a histogram in a decade of time.
const STEPS: f64 = 10.0;

impl<'a> Row<'a> {
    pub(crate) const fn header(&self) -> &'a Header {
        &self.source.profile.header
    }

    /// The file name of the program.
    pub(crate) fn program(&self) -> &str {
        self.source.program()
    }

    /// The file of the function's code.
    pub(crate) fn module(&self) -> &str {
        let module = self.function.label.module;
        let module = module.and_then(|module| self.source.profile.modules.get(module as usize));
        module.map_or("", |module| &module.path)
    }

    /// The percentile of the calls' durations at this share, if enough calls were timed.
    pub(crate) fn percentile(&self, share: f64) -> Option<f64> {
        self.function.percentile(share, self.header())
    }

    /// The calls' durations: upper bounds of buckets in nanoseconds, ten a decade and the same in
    /// every profile, and the number of calls that each represents.
    pub(crate) fn histogram(&self) -> Vec<(f64, f64)> {
        let mut steps = BTreeMap::<i32, f64>::new();
        for (ns, calls) in self.durations() {
            *steps.entry((STEPS * ns.log10()).floor() as i32 + 1).or_default() += calls;
        }
        steps
            .into_iter()
            .map(|(step, calls)| (10f64.powf(f64::from(step) / STEPS), calls))
            .collect()
    }

    /// The number of its calls, which may be an estimate, as a whole number.
    pub(crate) fn calls(&self) -> f64 {
        self.function.calls.value.max(0.0).round()
    }

    /// The calls' durations in nanoseconds, at full resolution, and the number of calls that each
    /// represents: of an estimate no more than all calls.
    pub(crate) fn durations(&self) -> impl Iterator<Item = (f64, f64)> {
        let (header, max) = (self.header(), self.function.max);
        let represented: f64 =
            self.function.histogram.buckets().iter().map(|(_, calls)| calls).sum();
        let part = if represented > self.calls() { self.calls() / represented } else { 1.0 };
        self.function.histogram.buckets().iter().map(move |&(bucket, calls)| {
            let (first, last) = bounds(bucket);
            let ticks = (first as f64 + last as f64) / 2.0 - header.bias;
            let ns = ticks.max(0.0) / header.hz * 1e9;
            (max.map_or(ns, |max| ns.min(max)).max(1.0), part * calls)
        })
    }
}
