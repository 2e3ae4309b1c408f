//! The report: all measurements, the conclusions, and its JSON.

use crate::findings::{Finding, findings};
use crate::measure::costs::{self, Cost};
use crate::measure::granule::{self, Offsets, TornAt};
use crate::measure::latency::{self, Latency, Medium};
use crate::measure::latent::{self, Form, Latent};
use crate::measure::tears::{self, Case, Point, Seen, Verdict};
use crate::plan::Plan;
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::time::{Instant, SystemTime};
use wordpatch::os::{affinity, cpu};
use wordpatch::{Calibration, FailedWait, Granule, Machine, Ticks};

/// The machine and its state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The processor's name.
    pub brand: String,
    /// The properties that the calibration depends on.
    #[serde(flatten)]
    pub machine: Machine,
    /// The number of processors that the process may use.
    pub cpus: usize,
    /// The load average over one minute, before the measurement.
    pub load: Option<f64>,
}

impl Place {
    fn here() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split(' ').next()?.parse().ok());
        Self {
            brand: cpu::brand(),
            machine: Machine::here(),
            cpus: affinity::allowed().map_or(1, |cpus| cpus.len()),
            load,
        }
    }
}

/// One figure, in the form that other tools read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// The value that it is compared with.
    pub baseline: Option<f64>,
    /// The quotient of the two.
    pub ratio: Option<f64>,
    /// The number of measurements behind it.
    pub n: u64,
}

impl Row {
    fn new(name: impl Into<String>, value: Option<f64>, unit: &'static str, n: u64) -> Self {
        Self {
            name: name.into(),
            value: value.filter(|v| v.is_finite()),
            unit,
            baseline: None,
            ratio: None,
            n,
        }
    }

    fn against(self, baseline: f64) -> Self {
        let ratio = self.value.map(|value| value / baseline).filter(|ratio| ratio.is_finite());
        Self { baseline: Some(baseline).filter(|b| b.is_finite()), ratio, ..self }
    }
}

/// All measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    experiment: &'static str,
    /// The machine.
    pub machine: Place,
    /// The start, in the format of RFC 3339.
    pub date: String,
    /// `quick` or `full`.
    pub plan: &'static str,
    /// The duration.
    pub seconds: f64,
    /// The number of ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// The granule in bytes, if it was determined.
    pub granule: Option<usize>,
    /// The number of toggles behind it, at the offset with the fewest.
    pub granule_toggles: u64,
    /// The 64 offsets.
    pub torn_by_offset: Vec<TornAt>,
    /// The cells of the curves.
    pub tmax: Vec<Point>,
    /// The costs of patching.
    pub costs: Vec<Cost>,
    /// The visibility of stores.
    pub latency: Vec<Latency>,
    /// The costs of inactive sites.
    pub latent: Vec<Latent>,
    /// The conclusions.
    pub findings: Vec<Finding>,
    /// The same as figures.
    pub rows: Vec<Row>,
}

impl Report {
    /// Makes all measurements.
    pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Self, Failure> {
        let (machine, date) = (Place::here(), SystemTime::now());
        let (start, ticks) = (Instant::now(), Ticks::now());
        let offsets = granule::measure(plan, watch)?;
        let tmax = tears::measure(plan, watch)?;
        let costs = costs::measure(plan, watch)?;
        let latency = latency::measure(plan, watch)?;
        let latent = latent::measure(plan, watch)?;
        let findings = findings(&offsets, &tmax);
        let rows = rows(&offsets, &tmax, &costs, &latency, &latent);
        let granule = offsets.granule().map(Granule::bytes);
        let (time, Ticks(ticks)) = (start.elapsed(), Ticks::now().since(ticks));
        Ok(Self {
            experiment: "tmax",
            machine,
            date: humantime::format_rfc3339_seconds(date).to_string(),
            plan: plan.name,
            seconds: time.as_secs_f64(),
            ticks_per_ns: ticks as f64 / time.as_nanos() as f64,
            granule,
            granule_toggles: granule.map_or(0, |granule| offsets.toggles(granule).0),
            torn_by_offset: offsets.0,
            tmax,
            costs,
            latency,
            latent,
            findings,
            rows,
        })
    }

    /// The report as one JSON object.
    pub fn to_json(&self) -> String {
        // Serialization fails only for maps whose keys are no strings, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The calibration for wordpatch; `None` if the granule was not determined.
    pub fn calibration(&self) -> Option<Calibration> {
        let failed = curves().flat_map(|(case, fenced)| {
            let failed = Verdict::of(case, fenced, &self.tmax)
                .by_wait
                .into_iter()
                .filter(|seen| seen.torn > 0);
            failed.map(move |Seen { wait, torn, toggles }| FailedWait {
                case: name(case, fenced),
                wait,
                torn,
                toggles,
            })
        });
        Some(Calibration {
            machine: self.machine.machine.clone(),
            date: self.date.clone(),
            granule: self.granule.and_then(Granule::new)?,
            granule_toggles: self.granule_toggles,
            tmax: Verdict::of(Case::Hot, false, &self.tmax).tmax().map(Ticks),
            failed: failed.collect(),
        })
    }
}

/// The text in place of a figure that too few observations leave open.
pub(crate) const NOT_SEEN: &str = "not seen: the machine is busy, run again";

/// All curves, those without fences first.
pub(crate) fn curves() -> impl Iterator<Item = (Case, bool)> {
    tears::FENCED.into_iter().flat_map(|fenced| Case::ALL.map(|case| (case, fenced)))
}

/// The name of a curve in files and rows.
fn name(case: Case, fenced: bool) -> String {
    format!("{}{}", case.name(), if fenced { "+mfence" } else { "" })
}

fn rows(
    offsets: &Offsets,
    points: &[Point],
    costs: &[Cost],
    latency: &[Latency],
    latent: &[Latent],
) -> Vec<Row> {
    let granule = offsets.granule().map(Granule::bytes);
    let toggles = granule.map_or(0, |granule| offsets.toggles(granule).0);
    let mut rows =
        vec![Row::new("granule", granule.map(|granule| granule as f64), "bytes", toggles)];
    for (case, fenced) in curves() {
        let (verdict, name) = (Verdict::of(case, fenced, points), name(case, fenced));
        let value = |wait: Option<u64>| wait.map(|wait| wait as f64);
        let n = verdict.by_wait.iter().map(|seen| seen.toggles).sum();
        rows.push(Row::new(
            format!("tmax/{name}/largest_failing"),
            value(verdict.longest_failing),
            "ticks",
            n,
        ));
        rows.push(Row::new(
            format!("tmax/{name}"),
            value(verdict.tmax()),
            "ticks",
            verdict.clean_toggles,
        ));
    }
    for case in Case::ALL {
        let barrier = points.iter().filter(|point| point.case == case && point.wait.is_none());
        let (torn, n) =
            barrier.fold((0, 0), |(torn, n), point| (torn + point.torn, n + point.toggles));
        rows.push(Row::new(
            format!("membarrier/{}", case.name()),
            (n > 0).then_some(torn as f64),
            "torn",
            n,
        ));
    }
    for pair in costs.chunks(2) {
        let [alone, beside] = pair else { continue };
        let cost = |cost: &Cost, with: &str| {
            Row::new(
                format!("cost/{}/{with}", cost.name),
                Some(cost.median),
                "ticks",
                cost.n as u64,
            )
        };
        rows.extend([cost(alone, "alone"), cost(beside, "executer").against(alone.median)]);
    }
    let of = |medium| latency.iter().find(move |latency| latency.medium == medium);
    if let (Some(code), Some(data)) = (of(Medium::Code), of(Medium::Data)) {
        let pairs = [
            ("p50", code.p50, data.p50),
            ("p99", code.p99, data.p99),
            ("p99.99", code.p99_99, data.p99_99),
        ];
        let row = |(name, code_ticks, data_ticks)| {
            Row::new(format!("latency/{name}"), Some(code_ticks), "ticks", code.n as u64)
                .against(data_ticks)
        };
        rows.extend(pairs.map(row));
    }
    let empty = |at| {
        latent
            .iter()
            .find(move |l| l.form == Form::Empty && l.position == at)
            .map_or(f64::NAN, |l| l.median)
    };
    for l in latent.iter().filter(|l| l.form != Form::Empty) {
        let name = format!("latent/{}/{}", l.form.name(), l.position);
        let row = Row::new(name, Some(l.median), "ticks/iteration", l.n as u64)
            .against(empty(l.position));
        rows.push(Row { ratio: Some(l.ratio), ..row });
    }
    rows
}
