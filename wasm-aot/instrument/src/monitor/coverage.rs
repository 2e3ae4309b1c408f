//! `coverage`: which instructions and blocks were executed, by one-shot probes.

use super::hooked::HookedMonitor;
use super::one_shot::{OneShotFunction, OneShotProbes};
use super::outline::Outline;
use super::{Cell, Choice, MonitorError, Report};
use crate::lower::Facts;
use std::sync::Arc;
use wasm_aot_engine::instrument::compile::Draft;
use wasm_aot_engine::instrument::runtime::{Module, Origin, Places};

/// The monitor.
#[derive(Debug)]
pub(super) struct Coverage {
    choice: Choice,
    probes: Arc<OneShotProbes>,
}

/// Makes the monitor.
pub(super) fn coverage_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    Ok(Arc::new(Coverage { choice: choice.clone(), probes: OneShotProbes::new() }))
}

impl HookedMonitor for Coverage {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        self.probes.plan(outline, outline.chosen(&self.choice), draft);
    }

    fn compiled(self: Arc<Self>, module: &Module, origin: Origin) {
        self.probes.compiled(module, origin);
    }

    fn facts(&self) -> Facts {
        Facts::OneShots
    }

    fn counting(&self) -> &'static [&'static str] {
        &["covered"]
    }

    fn report(&self, module: &Module) -> Report {
        let is_detailed = self.choice.has("missed");
        let columns: &[&str] = match is_detailed {
            true => &["function", "from", "to", "instructions", "source"],
            false => {
                &["function", "instructions", "covered", "share", "blocks", "reached", "of blocks"]
            }
        };
        let mut report = Report::new("coverage", columns);
        let places = Places::of(module);
        let mut sums = [0; 4];
        self.probes.each(module, &[], |function, executed| {
            let covered = executed.instructions;
            let count = covered.iter().filter(|covered| **covered).count();
            let counts = [count, covered.len(), executed.blocks, function.blocks.len()];
            sums.iter_mut().zip(counts).for_each(|(sum, own)| *sum += own);
            match is_detailed {
                true => missed(function, &covered, &places, &mut report),
                false => report.row(row(function, counts)),
            }
        });
        let percent = |part: usize, whole: usize| {
            if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
        };
        let [covered, all, reached, blocks] = sums;
        report
            .notes
            .push(format!("instructions: {covered} of {all} ({:.1}%)", percent(covered, all)));
        let totals =
            [("instructions", all), ("covered", covered), ("blocks", blocks), ("reached", reached)];
        report.total(totals.map(|(name, total)| (name, total as u64)));
        report
            .notes
            .push(format!("blocks: {reached} of {blocks} ({:.1}%)", percent(reached, blocks)));
        let outdated = self.probes.outdated(module);
        if outdated > 0 {
            report.notes.push(format!(
                "a monitor that was attached later replaces instructions (functions: {outdated}); \
                 what control went around there may be reported as covered: attach coverage after \
                 it"
            ));
        }
        report
    }
}

fn label(function: &OneShotFunction) -> Cell {
    Cell::Function { name: function.label.clone(), index: function.index }
}

fn row(function: &OneShotFunction, [covered, all, reached, blocks]: [usize; 4]) -> [Cell; 7] {
    let share = |part: usize, whole: usize| Cell::share(part as u64, whole as u64);
    [
        label(function),
        all.into(),
        covered.into(),
        share(covered, all),
        blocks.into(),
        reached.into(),
        share(reached, blocks),
    ]
}

/// Reports the ranges that were not executed.
fn missed(function: &OneShotFunction, covered: &[bool], places: &Places<'_>, report: &mut Report) {
    let mut at = 0;
    for gap in covered.chunk_by(|a, b| a == b) {
        let own = &function.instructions[at..at + gap.len()];
        at += gap.len();
        if gap[0] {
            continue;
        }
        let place = |at: u32| Cell::place(at - function.start, function.start);
        let source = places.source(own[0]).unwrap_or_default();
        report.row([
            label(function),
            place(own[0]),
            place(own[own.len() - 1]),
            own.len().into(),
            source.into(),
        ]);
    }
}
