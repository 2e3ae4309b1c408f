//! The summary: the report as tables.

use crate::findings;
use crate::measure::tears::{Case, FENCED, Point};
use crate::report::Report;
use crate::table::{Table, count, of, span};
use std::fmt;

/// Shows a report as tables; `{:#}` with titles in bold type.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a>(pub &'a Report);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let place = &report.machine;
        writeln!(f, "{}, {} processors; {}", place.brand, place.cpus, place.machine)?;
        let load = place.load.map_or(String::new(), |load| format!(", load {load:.1} before"));
        let clock = format!("{:.2} ticks to the nanosecond", report.ticks_per_ns);
        writeln!(
            f,
            "{} run of {:.1} s, {}{load}; {clock}\n",
            report.plan, report.seconds, report.date
        )?;
        findings::table(&report.findings).fmt(f)?;
        writeln!(f)?;
        if report.plan == "quick" {
            writeln!(
                f,
                "This was the quick run: few waits, few toggles each. --full looks for rarer failures.\n"
            )?;
        }
        for table in
            [granule(report), waits(report), costs(report), latency(report), latent(report)]
        {
            table.fmt(f)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn granule(report: &Report) -> Table {
    let mut table = Table::new(
        "Fetch granule: eight bytes stored at once, torn / toggles by the largest boundary that cuts them",
        &["boundary", "offsets", "torn / toggles", "torn at"],
    );
    let crossed =
        |offset: usize| [64, 32, 16, 8].into_iter().find(|size| offset % size + 8 > *size);
    for boundary in [None, Some(8), Some(16), Some(32), Some(64)] {
        let at: Vec<_> =
            report.torn_by_offset.iter().filter(|at| crossed(at.offset) == boundary).collect();
        let (torn, n) = at.iter().fold((0, 0), |(torn, n), at| (torn + at.torn, n + at.n));
        let torn_at: Vec<String> =
            at.iter().filter(|at| at.torn > 0).map(|at| at.offset.to_string()).collect();
        table.line([
            boundary.map_or("none".to_owned(), |size| format!("{size} bytes")),
            at.len().to_string(),
            of(torn, n),
            if torn_at.is_empty() { "-".to_owned() } else { torn_at.join(",") },
        ]);
    }
    table
}

fn waits(report: &Report) -> Table {
    let columns = [
        ("hot lines", false),
        ("cold back line", false),
        ("page, cold", false),
        ("hot", true),
        ("cold", true),
        ("page", true),
    ];
    let names = columns
        .map(|(name, fenced)| if fenced { format!("{name}, mfence") } else { name.to_owned() });
    let mut table = Table::new(
        "INT3, wait, back, wait, front on five bytes: torn / toggles, all positions and numbers of executing threads together",
        &[&["wait, ticks"][..], &names.each_ref().map(String::as_str)].concat(),
    );
    let mut waits: Vec<Option<u64>> = report.tmax.iter().map(|point| point.wait).collect();
    waits.sort_by_key(|wait| wait.unwrap_or(u64::MAX));
    waits.dedup();
    for wait in waits {
        let curves = FENCED.into_iter().flat_map(|fenced| Case::ALL.map(|case| (case, fenced)));
        let cells = curves.map(|(case, fenced)| {
            let here =
                |point: &&Point| point.case == case && point.fenced == fenced && point.wait == wait;
            let points: Vec<&Point> = report.tmax.iter().filter(here).collect();
            match points
                .iter()
                .fold((0, 0), |(torn, n), point| (torn + point.torn, n + point.toggles))
            {
                _ if points.is_empty() => "-".to_owned(),
                (torn, n) => of(torn, n),
            }
        });
        let name = wait.map_or("membarrier, once".to_owned(), |wait| wait.to_string());
        table.line([name].into_iter().chain(cells));
    }
    table
}

fn costs(report: &Report) -> Table {
    let mut table = Table::new(
        "Costs in ticks (and nanoseconds), without the clock's own cost",
        &[
            "operation",
            "alone: median",
            "p99",
            "n",
            "beside an executing thread: median",
            "p99",
            "n",
        ],
    );
    for pair in report.costs.chunks(2) {
        let span = |ticks| span(ticks, report.ticks_per_ns);
        let cells =
            pair.iter().flat_map(|cost| [span(cost.median), span(cost.p99), count(cost.n as u64)]);
        let refused =
            pair.iter().find_map(|cost| cost.refused.clone()).map(|why| format!("  ({why})"));
        let name = pair.first().map_or("", |cost| cost.name);
        table.line([name.to_owned()].into_iter().chain(cells).chain(refused));
    }
    table
}

fn latency(report: &Report) -> Table {
    let mut table = Table::new(
        "Visibility in ticks (and nanoseconds), from the store to the first execution (or load) of what was stored",
        &["medium", "p50", "p90", "p99", "p99.9", "p99.99", "max", "n"],
    );
    for l in &report.latency {
        let figures = [l.p50, l.p90, l.p99, l.p99_9, l.p99_99, l.max]
            .map(|ticks| span(ticks, report.ticks_per_ns));
        table.line(
            [l.medium.name().to_owned()].into_iter().chain(figures).chain([count(l.n as u64)]),
        );
    }
    table
}

fn latent(report: &Report) -> Table {
    let mut table = Table::new(
        "Latent cost in ticks an iteration (ratio to the loop without it), by the bytes before the line's end; 0 is inside a line",
        &["form", "0", "1", "2", "3", "4"],
    );
    let mut forms: Vec<&'static str> = report.latent.iter().map(|l| l.form.name()).collect();
    forms.dedup();
    let of_first_position = forms.iter().take(crate::measure::latent::Form::ALL.len());
    for form in of_first_position {
        let here = report.latent.iter().filter(|l| l.form.name() == *form);
        let cells = here.map(|l| format!("{:.2} ({:.2})", l.median, l.ratio));
        table.line([(*form).to_owned()].into_iter().chain(cells));
    }
    table
}
