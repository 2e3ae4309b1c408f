//! The rows for each program, and over all of them.

use super::monitor::Monitor;
use super::variant::{Length, Target};
use super::{ENGINES, Series};
use crate::engine::peer::Peer;
use crate::engine::{exactly, thousandths};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};

/// The measured values and their baseline, round by round.
type Rounds = [Vec<u64>; 2];

/// The values of a program, if it has any.
type Of = Box<dyn Fn(&Series) -> Option<Rounds>>;

/// A kind of row: the function that yields each program's values and baseline, round by round.
struct Kind {
    name: String,
    unit: &'static str,
    of: Of,
    /// Whether the value is deterministic.
    exact: bool,
}

/// All rows.
pub(super) fn rows(all: &[Series], report: &mut Report) {
    for kind in kinds() {
        let able: Vec<(&Series, Rounds)> =
            all.iter().filter_map(|series| Some((series, (kind.of)(series)?))).collect();
        let mut worst: Option<(&Series, Ratio)> = None;
        for (series, values) in &able {
            let Some(ratio) = ratio(&kind, values) else { continue };
            report.rows.push(Row::compared(
                format!("{}/{}", series.plain.name, kind.name),
                kind.unit,
                &ratio,
            ));
            if worst.is_none_or(|worst| worst.1.median < ratio.median) {
                worst = Some((series, ratio));
            }
        }
        let values: Vec<Rounds> = able.into_iter().map(|(_, values)| values).collect();
        if let Some(mean) = Ratio::geometric(&values) {
            report.rows.push(Row::compared(format!("geomean/{}", kind.name), "ppm", &mean));
        }
        if let Some((series, ratio)) = worst {
            report.rows.push(Row::compared(format!("worst/{}", kind.name), kind.unit, &ratio));
            report.notes.push(format!("worst/{} is {}.", kind.name, series.plain.name));
        }
    }
    for series in all {
        for variant in series.variants.iter().filter(|variant| !variant.made.is_empty()) {
            let name = format!(
                "{}/{}/{}/instrument",
                series.plain.name,
                variant.monitor.name(),
                variant.target.name()
            );
            let spent = Blocks::of(variant.made.iter().copied()).median(0.0) / 1e3;
            report.rows.push(Row::plain(name, spent, "us", variant.made.len() as u64));
        }
    }
    let unable = all
        .iter()
        .flat_map(|series| &series.variants)
        .filter_map(|variant| variant.unable.as_ref());
    report.notes.extend(unable.map(|why| format!("No row of a variant: {why}.")));
}

fn ratio(kind: &Kind, [with, without]: &Rounds) -> Option<Ratio> {
    match (kind.exact, &with[..], &without[..]) {
        (true, [with, ..], [without, ..]) => Some(exactly([*with, *without])),
        _ => {
            Ratio::of(&Blocks::of(with.iter().copied()), &Blocks::of(without.iter().copied()), 0.0)
                .map(|ratio| thousandths(&ratio))
        }
    }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for monitor in Monitor::ALL {
        let targets = Target::ALL
            .into_iter()
            .filter(|&target| target != Target::Handwritten || monitor == Monitor::Hotness);
        let targets: Vec<Target> = targets.collect();
        for engine in ENGINES {
            kinds.extend(targets.iter().map(|&target| run(monitor, target, engine)));
            kinds.push(advantage(monitor, engine));
        }
        kinds.extend(targets.iter().map(|&target| size(monitor, target)));
        kinds.push(smaller(monitor));
        kinds.push(quicker(monitor));
    }
    kinds
}

fn run(monitor: Monitor, target: Target, engine: Peer) -> Kind {
    Kind {
        name: format!("{}/{}@{}", monitor.name(), target.name(), engine.name()),
        unit: "us",
        of: Box::new(move |series| {
            let length = if target == Target::Existing {
                Length::beside_existing(monitor)
            } else {
                Length::Full
            };
            let runs = series.runs(monitor, target, engine, length)?;
            Some([runs.with.clone(), runs.without.clone()])
        }),
        exact: false,
    }
}

fn advantage(monitor: Monitor, engine: Peer) -> Kind {
    Kind {
        name: format!("{}/advantage@{}", monitor.name(), engine.name()),
        unit: "us",
        of: Box::new(move |series| {
            let length = Length::beside_existing(monitor);
            let runs = |target| Some(series.runs(monitor, target, engine, length)?.with.clone());
            Some([runs(Target::Rewriting)?, runs(Target::Existing)?])
        }),
        exact: false,
    }
}

/// The bytes that a variant adds, if it could be made.
fn added(series: &Series, monitor: Monitor, target: Target) -> Option<[u64; 2]> {
    let variant = series.variant(monitor, target)?;
    let [before, after] = variant.sizes;
    (!variant.made.is_empty() || target == Target::Handwritten)
        .then_some([after.checked_sub(before)?, before])
}

fn size(monitor: Monitor, target: Target) -> Kind {
    Kind {
        name: format!("{}/{}/size", monitor.name(), target.name()),
        unit: "kB",
        of: Box::new(move |series| {
            added(series, monitor, target).map(|[added, program]| [vec![added], vec![program]])
        }),
        exact: true,
    }
}

fn smaller(monitor: Monitor) -> Kind {
    Kind {
        name: format!("{}/smaller", monitor.name()),
        unit: "kB",
        of: Box::new(move |series| {
            let added = |target| Some(vec![added(series, monitor, target)?[0]]);
            Some([added(Target::Rewriting)?, added(Target::Existing)?])
        }),
        exact: true,
    }
}

/// The time to instrument, beside the existing compiler's if that is installed.
fn quicker(monitor: Monitor) -> Kind {
    Kind {
        name: format!("{}/quicker", monitor.name()),
        unit: "us",
        of: Box::new(move |series| {
            let made = |target| series.variant(monitor, target).map(|variant| variant.made.clone());
            let (ours, theirs) = (made(Target::Rewriting)?, made(Target::Existing)?);
            Some([ours[..theirs.len().min(ours.len())].to_vec(), theirs])
        }),
        exact: false,
    }
}
