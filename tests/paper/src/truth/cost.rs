//! The cost of the default policy over the floor: the same file with a nop for every call of a
//! hook.
//!
//! Floor and profiled run are taken in turn; a ratio compares CPU times. A program's ratio counts
//! as at least one in the geometric mean: a lower ratio is noise, and must not offset others.

use super::programs::{Subject, Variant};
use super::truths::command;
use crate::corpus::{Corpus, child};
use crate::journal::Journal;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::table3;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs;
use std::path::Path;

/// The CPU times of both, in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pair {
    profiled: u64,
    floor: u64,
}

/// One pair of runs, or its kept result.
pub(super) fn pair(
    corpus: &Corpus,
    library: &Path,
    journal: &Journal,
    subject: &Subject,
    run: usize,
) -> Result<Pair, Box<dyn Error>> {
    let name = format!("cost-{}-{run}", subject.name());
    if let Some(pair) = journal.get(&name) {
        return Ok(pair);
    }
    let profiles = corpus.folder().join("profiles");
    let _ = fs::remove_dir_all(&profiles);
    fs::create_dir_all(&profiles)?;
    let floor = child::run(&mut command(corpus, subject, Variant::Floor)?)?;
    let mut probed = command(corpus, subject, Variant::Probed)?;
    table3::observe(&mut probed, library, &profiles, "adaptive");
    probed.env("FASTINST_FORMAT", "profile");
    let profiled = child::run(&mut probed)?;
    if !(floor.success && profiled.success) || floor.stdout != profiled.stdout {
        return Err(format!(
            "{}: profiled it answers otherwise: {}",
            subject.name(),
            profiled.said()
        )
        .into());
    }
    let pair =
        Pair { profiled: profiled.cpu.as_micros() as u64, floor: floor.cpu.as_micros() as u64 };
    journal.put(&name, &pair)?;
    Ok(pair)
}

/// The rows: the ratio of each program, the geometric mean, the worst.
pub(super) fn rows(pairs: &[(&str, Vec<Pair>)], report: &mut Report) {
    let blocks = |pairs: &[Pair], of: fn(&Pair) -> u64| Blocks::of(pairs.iter().map(of));
    let mut ratios = Vec::new();
    for (name, pairs) in pairs {
        let ratio =
            Ratio::of(&blocks(pairs, |pair| pair.profiled), &blocks(pairs, |pair| pair.floor), 0.0);
        if let Some(ratio) = ratio {
            report.rows.push(Row::compared(format!("cost/{name}"), "us", &ratio));
            ratios.push((name, ratio));
        }
    }
    if ratios.is_empty() {
        return;
    }
    let mean = ratios.iter().map(|(_, ratio)| ratio.median.max(1.0).ln()).sum::<f64>()
        / ratios.len() as f64;
    report.rows.push(Row::plain("cost/geomean", mean.exp(), "ratio", ratios.len() as u64));
    if let Some((name, worst)) = ratios.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
        report.rows.push(Row::compared("cost/worst", "us", worst));
        report.notes.push(format!("cost/worst is {name}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_below_one_does_not_pay_for_others() {
        let same = |profiled, floor| vec![Pair { profiled, floor }; 3];
        let mut report = Report::new("truth");
        rows(&[("a", same(50, 100)), ("b", same(121, 100))], &mut report);
        let value = |name: &str| {
            report.rows.iter().find(|row| row.name == name).map(|row| (row.value, row.ratio))
        };
        assert!((value("cost/geomean").unwrap().0 - 1.1).abs() < 1e-9);
        assert_eq!(value("cost/worst").unwrap().1, Some(1.21));
    }
}
