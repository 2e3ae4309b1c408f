//! Native histograms: Prometheus's protocol buffers, delimited by their lengths
//! (`io.prometheus.client.MetricFamily`, `metrics.proto` of prometheus/client_model).
//!
//! A native histogram is one series, whatever its contents. Its buckets are a twelfth wide
//! ([`SCHEMA`] 3): bucket `i` ends at `2^(i/8)` seconds. Empty buckets take no space.

use crate::openmetrics::{Labels, series};
use crate::rows::{Row, Source};
use profiler::protobuf::Message;
use std::collections::BTreeMap;

/// Eight buckets per power of two.
const SCHEMA: i64 = 3;
/// The format's numbers of `MetricType`.
const COUNTER: u64 = 0;
const HISTOGRAM: u64 = 4;

/// The figures of some profiles, in the format in which Prometheus scrapes native histograms.
pub fn native(sources: &[Source]) -> Vec<u8> {
    let series = series(sources);
    let calls = |row: &Row<'_>| Some(counter(row.calls()));
    let own = |row: &Row<'_>| row.function.own.map(|own| counter(own.value / 1e9));
    let families = [
        family("fastinst_calls_total", "Calls of a function.", COUNTER, &series, calls),
        family(
            "fastinst_self_seconds_total",
            "CPU time of a function without its callees.",
            COUNTER,
            &series,
            own,
        ),
        family(
            "fastinst_call_duration_seconds",
            "Wall-clock time of single calls that were timed, each for as many calls as it stands \
             for.",
            HISTOGRAM,
            &series,
            histogram,
        ),
    ];
    let mut all = Message::default();
    families.into_iter().flatten().for_each(|family| all.delimited(&family));
    all.finish()
}

/// Writes nothing if no function has such a metric: Prometheus refuses a family without metrics.
fn family(
    name: &str,
    help: &str,
    kind: u64,
    series: &BTreeMap<Labels, Row<'_>>,
    metric: impl Fn(&Row<'_>) -> Option<Message>,
) -> Option<Message> {
    let mut family = Message::default();
    family.bytes(1, name.as_bytes());
    family.bytes(2, help.as_bytes());
    family.number(3, kind);
    let mut has_some = false;
    for (labels, row) in series {
        let Some(value) = metric(row) else { continue };
        let mut metric = Message::default();
        for (name, value) in labels {
            let mut pair = Message::default();
            pair.bytes(1, name.as_bytes());
            pair.bytes(2, value.as_bytes());
            metric.message(1, &pair);
        }
        metric.message(if kind == COUNTER { 3 } else { 7 }, &value);
        family.message(4, &metric);
        has_some = true;
    }
    has_some.then_some(family)
}

fn counter(value: f64) -> Message {
    let mut counter = Message::default();
    counter.double(1, value);
    counter
}

fn histogram(row: &Row<'_>) -> Option<Message> {
    let mut steps = BTreeMap::<i64, f64>::new();
    for (ns, calls) in row.durations() {
        let step = ((ns / 1e9).log2() * f64::from(1 << SCHEMA)).ceil() as i64;
        *steps.entry(step).or_default() += calls;
    }
    let steps: Vec<(i64, i64)> = steps
        .into_iter()
        .map(|(step, calls)| (step, calls.round() as i64))
        .filter(|(_, calls)| *calls > 0)
        .collect();
    let all: i64 = steps.iter().map(|(_, calls)| calls).sum();
    if all == 0 {
        return None;
    }
    let mean = row.function.mean.map_or(0.0, |mean| mean.value.max(0.0));
    let mut histogram = Message::default();
    histogram.number(1, all.cast_unsigned());
    histogram.double(2, mean / 1e9 * all as f64);
    histogram.signed(5, SCHEMA);
    let (mut spans, mut end): (Vec<(i64, u64)>, i64) = (Vec::new(), 0);
    for (number, (step, _)) in steps.iter().enumerate() {
        match spans.last_mut() {
            Some((_, length)) if *step == end => *length += 1,
            // The first span's offset counts from bucket 0, that of any other from the previous
            // span's end.
            _ => spans.push((if number == 0 { *step } else { step - end }, 1)),
        }
        end = step + 1;
    }
    for (offset, length) in spans {
        let mut span = Message::default();
        span.signed(1, offset);
        span.number(2, length);
        histogram.message(12, &span);
    }
    let before = std::iter::once(0).chain(steps.iter().map(|(_, calls)| *calls));
    histogram
        .packed_signed(13, steps.iter().zip(before).map(|((_, calls), before)| calls - before));
    Some(histogram)
}
