//! Figure 9 of the literature: the rate of torn fetches by the length of the wait between trap and
//! back, for each way to cut five bytes.
//!
//! The calibration's library measures it. A row `CASE/POSITION/EXECUTERS/WAIT` counts torn toggles;
//! `n` counts those during which a thread was observed to execute. `membarrier` replaces the wait
//! if a barrier was passed instead.

use crate::progress::Progress;
use crate::report::{Report, Row};
use std::error::Error;
use std::time::Duration;
use tmax::{Plan, Watch};

const QUICK: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(600);

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let plan = if quick { Plan::quick(QUICK) } else { Plan::full(LONG) };
    let progress = Progress::new(plan.total().as_millis() as u64)?;
    let tell = |what: &str, time: Duration| {
        if !progress.is_stopped() {
            progress.passed(what, time.as_millis() as u64);
        }
    };
    let measured = tmax::Report::measure(&plan, &Watch::new(progress.stop(), tell).keeping())?;
    let mut report = Report::new("fig9");
    report.rows = measured
        .tmax
        .iter()
        .filter(|point| point.toggles > 0)
        .map(|point| {
            let wait = point.wait.map_or("membarrier".to_owned(), |ticks| ticks.to_string());
            let name =
                format!("{}/{}/{}/{wait}", point.case.name(), point.position, point.executers);
            Row::plain(name, point.torn as f64, "torn", point.toggles)
        })
        .collect();
    let summary = measured
        .rows
        .iter()
        .filter_map(|row| Some(Row::plain(row.name.clone(), row.value?, row.unit, row.n)));
    report.rows.extend(summary);
    report.notes =
        measured.findings.iter().map(ToString::to_string).chain(progress.end()).collect();
    Ok(report)
}
