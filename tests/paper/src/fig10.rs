//! Latency histograms (figure 10): those of the default policy, beside those of a complete record.
//!
//! The functions of sqlite with the most time are compared by their quantiles under `adaptive` and
//! under `exact`; the ratio compares one run of each, taken in turn. An exact record also slows all
//! callees down: the profiler subtracts its direct cost, but not its effect on caches.

use crate::corpus::{self, Build, Corpus, PROGRAMS};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::table3::{observe, profiles};
use std::collections::BTreeMap;
use std::error::Error;
use std::process::Command;

const QUANTILES: [&str; 5] = ["mean", "p50", "p90", "p99", "max"];

/// The number of functions that are shown.
const SHOWN: usize = 8;

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let corpus = Corpus::prepare()?;
    let library = corpus::library()?;
    let program = &PROGRAMS[0];
    let executable = corpus.build(program, Build::Probed)?;
    let folder = corpus.folder().join("profiles");
    let mut series: BTreeMap<String, BTreeMap<&str, [Blocks; 2]>> = BTreeMap::new();
    let mut order: Vec<(f64, String)> = Vec::new();
    for _ in 0..if quick { 5 } else { 15 } {
        for (at, policy) in ["adaptive", "exact"].into_iter().enumerate() {
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder)?;
            let mut command = Command::new(&executable);
            // Long enough for many cycles, short enough for a complete record.
            observe(command.arg("60000"), &library, &folder, policy);
            corpus::run(program, Build::Probed, &mut command, &mut None)?;
            let profile = profiles(&folder)?.pop().ok_or("no profile was written")?;
            order.clear();
            for function in profile["functions"].as_array().into_iter().flatten() {
                let name = function["name"].as_str().unwrap_or_default().to_owned();
                order.push((function["total"]["value"].as_f64().unwrap_or(0.0), name.clone()));
                let rows = series.entry(name).or_default();
                for quantile in QUANTILES {
                    let value = &function[quantile];
                    // In thousandths of nanoseconds, since short times would be rounded to zero.
                    if let Some(value) = value["value"].as_f64().or(value.as_f64()) {
                        rows.entry(quantile).or_default()[at].push((value * 1e3) as u64);
                    }
                }
            }
        }
        series.values_mut().flat_map(BTreeMap::values_mut).flatten().for_each(Blocks::close);
    }
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut report = Report::new("fig10");
    for (_, name) in order.iter().take(SHOWN) {
        for quantile in QUANTILES {
            let Some([subject, baseline]) = series.get(name).and_then(|rows| rows.get(quantile))
            else {
                continue;
            };
            if let Some(ratio) = Ratio::of(subject, baseline, 0.0) {
                let ratio =
                    Ratio { value: ratio.value / 1e3, baseline: ratio.baseline / 1e3, ..ratio };
                report.rows.push(Row::compared(format!("{name}/{quantile}"), "ns", &ratio));
            }
        }
    }
    report
        .notes
        .push("The value is the default policy's, the baseline that of a complete record.".into());
    Ok(report)
}
