//! The results of an experiment: rows with stable names for other tools.

use crate::sample::{Blocks, Ratio};
use serde::Serialize;
use std::fmt;
use wordpatch::Machine;

/// The result of one experiment.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) experiment: &'static str,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    /// The meaning of the rows, in sentences.
    pub(crate) notes: Vec<String>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The same for its baseline, from the same run.
    pub(crate) baseline: Option<f64>,
    /// The median over interleaved pairs, with its 95 % bootstrap interval.
    pub(crate) ratio: Option<f64>,
    pub(crate) lo: Option<f64>,
    pub(crate) hi: Option<f64>,
    /// The literature's value, if it has one: for the value, or for the ratio if there is one.
    pub(crate) paper: Option<f64>,
    /// The number of samples, or of pairs of samples.
    pub(crate) n: u64,
}

impl Row {
    /// A figure without a baseline.
    pub(crate) fn plain(name: impl Into<String>, value: f64, unit: &'static str, n: u64) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            baseline: None,
            ratio: None,
            lo: None,
            hi: None,
            paper: None,
            n,
        }
    }

    /// A deterministic figure beside another.
    pub(crate) fn counted(name: impl Into<String>, value: u64, baseline: u64) -> Self {
        Self {
            baseline: Some(baseline as f64),
            ratio: Some(value as f64 / baseline.max(1) as f64),
            ..Self::plain(name, value as f64, "", 1)
        }
    }

    /// A figure beside its baseline.
    pub(crate) fn compared(name: impl Into<String>, unit: &'static str, ratio: &Ratio) -> Self {
        let Ratio { value, baseline, median, lo, hi, pairs } = *ratio;
        Self {
            name: name.into(),
            value,
            unit,
            baseline: Some(baseline),
            ratio: Some(median),
            lo: Some(lo),
            hi: Some(hi),
            paper: None,
            n: pairs,
        }
    }

    /// Adds the literature's value.
    pub(crate) fn beside(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }
}

impl Report {
    pub(crate) fn new(experiment: &'static str) -> Self {
        Self { experiment, machine: Machine::here(), rows: Vec::new(), notes: Vec::new() }
    }

    /// The summary rows over programs: the geometric mean of each round, and the program whose
    /// median is worst. Each program has its values and its baseline's, round by round.
    pub(crate) fn sum_up<'t>(
        &mut self,
        row: &str,
        programs: impl Iterator<Item = (&'t str, [&'t [u64]; 2])>,
    ) {
        let (names, pairs): (Vec<&str>, Vec<[&[u64]; 2]>) = programs.unzip();
        if let Some(ratio) = Ratio::geometric(&pairs) {
            self.rows.push(Row::compared(format!("geomean/{row}"), "ppm", &ratio));
        }
        let blocks = |values: &[u64]| Blocks::of(values.iter().copied());
        let ratio =
            |[subject, plain]: [&[u64]; 2]| Ratio::of(&blocks(subject), &blocks(plain), 0.0);
        let each = names.iter().zip(pairs).filter_map(|(name, pair)| Some((name, ratio(pair)?)));
        if let Some((name, worst)) = each.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
            self.rows.push(Row::compared(format!("worst/{row}"), "us", &worst));
            self.notes.push(format!("worst/{row} is {name}."));
        }
    }
}

/// A number of any size with its significant digits.
fn short(number: f64) -> String {
    match number.abs() {
        size if size > 0.0 && size < 0.001 => format!("{number:.1e}"),
        size if size < 100.0 => format!("{number:.3}"),
        _ => format!("{number:.0}"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}\n", self.experiment, self.machine)?;
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(4).max(4);
        let is_beside = self.rows.iter().any(|row| row.paper.is_some());
        write!(
            f,
            "{:width$} {:>14} {:8} {:>14} {:>24} {:>10}",
            "name", "value", "", "baseline", "ratio [95 %]", "n"
        )?;
        writeln!(f, "{}", if is_beside { "      paper" } else { "" })?;
        for row in &self.rows {
            let baseline = row.baseline.map_or(String::new(), |b| format!("{b:.1}"));
            let ratio = match (row.ratio, row.lo, row.hi) {
                (Some(ratio), Some(lo), Some(hi)) => format!("{ratio:.3} [{lo:.3}, {hi:.3}]"),
                (Some(ratio), ..) => short(ratio),
                _ => String::new(),
            };
            let paper = row.paper.map_or(String::new(), short);
            let line = format!(
                "{:width$} {:>14.1} {:8} {baseline:>14} {ratio:>24} {:>10} {paper:>10}",
                row.name, row.value, row.unit, row.n
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}
