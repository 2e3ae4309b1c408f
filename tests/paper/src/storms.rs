//! Storms through the public interface: every offset in a line and every page crossing, under every
//! adversary.
//!
//! A row counts the torn toggles of one adversary over all places; its `n` counts the toggles
//! during which a thread was observed to execute. The controls do the same without the barrier: if
//! they detected no tears, the storms would not, either.

#![allow(unsafe_code)]

use crate::progress::Progress;
use crate::report::{Report, Row};
use std::error::Error;
use std::time::Duration;
use tmax::storm::{Adversary, Budget, Counts, Placement, Protocol, Shape, Storm, Target};
use wordpatch::{PatchSite, Policy};

/// The toggles in each cell: a shape at a placement under an adversary.
const LONG: u64 = 100_000;
const QUICK: u64 = 300;

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let toggles = if quick { QUICK } else { LONG };
    let policy = Policy::new()?;
    let mut report = Report::new("storms");
    let mut total = Counts::default();
    let adversaries: Vec<Adversary> =
        Adversary::ALL.into_iter().filter(|adversary| adversary.is_possible()).collect();
    let progress = Progress::new((adversaries.len() * places().len()) as u64)?;
    for adversary in adversaries {
        let mut sum = Counts::default();
        for (shape, placement) in places() {
            if progress.is_stopped() {
                break;
            }
            let counts = cell(shape, placement, adversary, &policy, toggles)?;
            let name = format!("{}/{}/{}", name(shape), place(placement), lower(adversary));
            report.rows.push(torn(format!("cell/{name}"), &counts));
            sum.add(&counts);
            progress.passed(&format!("{adversary:?}, {} torn", sum.torn), 1);
        }
        // Cells that an interruption skipped have no row.
        if sum.counted > 0 {
            report.rows.push(torn(format!("adversary/{}", lower(adversary)), &sum));
        }
        total.add(&sum);
    }
    report.rows.push(torn("total".to_owned(), &total));
    if !progress.is_stopped() {
        report.rows.extend(controls(quick)?);
    }
    report.notes.extend(progress.end());
    report.notes.push(format!(
        "{} executions beside {} toggles: {} torn, {} toggles that nobody was seen beside are not counted. Barrier: {}.",
        total.log.executions(),
        total.counted,
        total.torn,
        total.uncounted,
        policy.barrier
    ));
    Ok(report)
}

fn torn(name: String, counts: &Counts) -> Row {
    Row::plain(name, counts.torn as f64, "torn", counts.counted)
}

/// Every offset of an instruction in a line, and every way in which a page boundary cuts one
/// instruction or two.
fn places() -> Vec<(Shape, Placement)> {
    let lines = (0..64).map(|offset| (Shape::Move, Placement::InLine(offset)));
    let pages = |shape: Shape| {
        (1..shape.len()).map(move |before| (shape, Placement::Astride { boundary: 4096, before }))
    };
    let others = [Shape::Pair, Shape::Call].into_iter();
    let cut = others.flat_map(|shape| {
        (1..shape.len()).map(move |before| (shape, Placement::Astride { boundary: 64, before }))
    });
    lines.chain(pages(Shape::Move)).chain(pages(Shape::Pair)).chain(cut).collect()
}

fn name(shape: Shape) -> String {
    format!("{shape:?}").to_lowercase()
}

fn lower(adversary: Adversary) -> String {
    format!("{adversary:?}").to_lowercase()
}

fn place(placement: Placement) -> String {
    match placement {
        Placement::InLine(offset) => format!("line+{offset}"),
        Placement::Astride { boundary, before } => format!("{boundary}-{before}"),
    }
}

/// One storm through the public interface.
fn cell(
    shape: Shape,
    placement: Placement,
    adversary: Adversary,
    policy: &Policy,
    toggles: u64,
) -> Result<Counts, Box<dyn Error>> {
    let target = Target::new(shape, placement)?;
    // SAFETY: (1) the target's memory outlives the site; (2) to (4) its words begin with an
    // instruction and share their layout, and no other code writes to them.
    let site = unsafe { PatchSite::adopt(target.word_at(), shape.len(), shape.layout(), policy)? };
    let budget = Budget::toggles(toggles).within(Duration::from_secs(600));
    let counts = Storm::new()?.adversary(adversary).run(&target, budget, |face| {
        // SAFETY: (1) a face of the target's shape.
        unsafe { site.patch(shape.word(face)) }.expect("a site of our own");
    })?;
    Ok(counts)
}

/// The trap protocol without its barrier, with a cold back line: it has to tear.
fn controls(quick: bool) -> Result<Vec<Row>, Box<dyn Error>> {
    let budget = Budget::toggles(if quick { 20_000 } else { 200_000 });
    let mut rows = Vec::new();
    for before in 1..Shape::Move.len() {
        let target = Target::new(Shape::Move, Placement::Astride { boundary: 64, before })?;
        let without_barrier = Protocol::no_wait().ready(&target)?;
        let counts =
            Storm::new()?.adversary(Adversary::FlushBack).run(&target, budget, |face| {
                without_barrier.toggle(face).unwrap_or_default();
            })?;
        rows.push(torn(format!("control/no-barrier/64-{before}"), &counts));
    }
    if rows.iter().all(|row| row.value == 0.0) {
        return Err(
            "the control saw no tear without a barrier: these storms prove nothing on this machine"
                .into(),
        );
    }
    Ok(rows)
}
