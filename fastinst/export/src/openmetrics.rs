//! OpenMetrics text: counters and histograms, for Prometheus and compatible tools.
//!
//! <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>. The labels
//! `host`, `program` and `process` distinguish processes; `function` and `module` distinguish
//! functions.

use crate::rows::{Row, Source, rows};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The upper bounds of a histogram's buckets. For thousands of functions, ten buckets a decade are
/// too many for a metrics store, so there is one a decade, from 100 ns to 10 s.
const ENDS: [f64; 9] = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// The figures of some profiles, as OpenMetrics text.
pub fn openmetrics(sources: &[Source]) -> String {
    let series = series(sources).into_iter().map(|(labels, row)| (quoted(&labels), row));
    let series: Vec<(String, Row<'_>)> = series.collect();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, unit: &str, help: &str, of: &Samples<'_>| {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
        series.iter().for_each(|(labels, row)| of(&mut text, labels, row));
    };
    family("fastinst_calls", "counter", "", "Calls of a function.", &|text, labels, row| {
        let _ = writeln!(text, "fastinst_calls_total{{{labels}}} {}", row.calls());
    });
    family(
        "fastinst_self_seconds",
        "counter",
        "seconds",
        "CPU time of a function without its callees.",
        &|text, labels, row| {
            if let Some(own) = row.function.own {
                let _ =
                    writeln!(text, "fastinst_self_seconds_total{{{labels}}} {}", own.value / 1e9);
            }
        },
    );
    family(
        "fastinst_call_duration_seconds",
        "histogram",
        "seconds",
        "Wall-clock time of single calls that were timed, each for as many calls as it stands for.",
        &histogram,
    );
    text + "# EOF\n"
}

type Samples<'a> = dyn Fn(&mut String, &str, &Row<'_>) + 'a;

fn histogram(text: &mut String, labels: &str, row: &Row<'_>) {
    let steps = row.histogram();
    if steps.is_empty() {
        return;
    }
    let name = "fastinst_call_duration_seconds";
    let below = |end: f64| -> f64 {
        let below = steps.iter().filter(|(upper, _)| upper / 1e9 <= end * 1.000_001);
        // The standard library's sum of nothing is -0.
        below.map(|step| step.1).fold(0.0, |sum, calls| sum + calls).round()
    };
    for end in ENDS {
        // OpenMetrics recommends bounds in canonical form, so that they match other exporters'
        // series: an exponent of two digits ("Considerations: Canonical Numbers").
        let le = format!("{end:?}").replace("e-", "e-0");
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{le}\"}} {}", below(end));
    }
    let all = below(f64::INFINITY);
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "{name}_count{{{labels}}} {all}");
    let mean = row.function.mean.map_or(0.0, |mean| mean.value.max(0.0));
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", mean / 1e9 * all);
}

/// The labels of a series: names and values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Functions by their labels: no two series may have the same labels.
pub(crate) fn series(sources: &[Source]) -> BTreeMap<Labels, Row<'_>> {
    let mut series = BTreeMap::<Labels, Row<'_>>::new();
    for row in rows(sources) {
        let mut labels = labels(&row);
        if series.contains_key(&labels) {
            labels.push(("offset", format!("{:#x}", row.function.label.offset)));
        }
        series.entry(labels).or_insert(row);
    }
    series
}

fn labels(row: &Row<'_>) -> Labels {
    vec![
        ("host", row.source.host.clone()),
        ("program", row.program().to_owned()),
        ("process", row.header().process.to_string()),
        ("function", row.function.label.name.clone()),
        ("module", row.module().to_owned()),
    ]
}

fn quoted(labels: &Labels) -> String {
    let each = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    each.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler::{Figure, FuncId, Function, Header, Label, Profile, bucket};

    #[test]
    fn counts_of_estimated_calls_are_whole_and_no_more_durations_than_calls() {
        let mut function = Function::counted(FuncId(1), Label::default(), 1);
        function.calls =
            Figure { value: 999.6, how: profiler::How::Estimated { lo: 900.0, hi: 1100.0 } };
        function.histogram.add(bucket(1000), 1010.3);
        let header = Header { hz: 1e9, step: 1, ..Header::default() };
        let profile =
            Profile { header, modules: vec![], functions: vec![function], stacks: vec![] };
        let text = openmetrics(&[Source { host: "h".to_owned(), profile }]);
        let value = |of: &str| {
            let line = text.lines().find(|line| line.starts_with(of)).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!(value("fastinst_calls_total"), "1000");
        assert_eq!(value("fastinst_call_duration_seconds_count"), "1000");
        assert_eq!(value("fastinst_call_duration_seconds_bucket"), "0", "{text}");
    }
}
