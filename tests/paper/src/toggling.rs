//! Throughput under toggling (figures 11 to 13), and what executers see.
//!
//! Threads run a loop with one site in it while another toggles that, at regular intervals. The baseline is the same loop while the site
//! is switched once in each half: on for as long, toggled hardly at all. Beside the throughput stands the *balance*: which part of the
//! passes saw the site on, and which part of the time it was on.
//!
//! - `fig11`: calls, switched by one byte (in the literature: calls that lie within a line).
//! - `fig12`: words that straddle a line, replaced by the trap protocol.
//! - `fig13`: calls that straddle a line, toggled by the literature's four cases.
//!
//! | row | what |
//! |---|---|
//! | `THREADS/RATE` | passes in a millisecond, of all threads |
//! | `THREADS/RATE/balance` | passes that saw it on, in per mille, and the time that it was on |
//! | `THREADS/RATE/toggles` | toggles in a second that were reached |

use crate::bench_code::{self, Loop, Passes};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use callpatch::Switch;
use std::error::Error;
use std::time::Duration;
use wordpatch::{Policy, Ticks};

/// Which figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    OneByte,
    Word,
    Paper,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::OneByte => "fig11",
            Self::Word => "fig12",
            Self::Paper => "fig13",
        }
    }
}

/// Toggles in a second; the last is as fast as can be.
const RATES: [(&str, f64); 6] = [("100", 1e2), ("1k", 1e3), ("10k", 1e4), ("100k", 1e5), ("1M", 1e6), ("max", f64::INFINITY)];

/// One measurement is so long.
const SPAN: Duration = Duration::from_millis(20);

pub(crate) fn measure(figure: Figure, quick: bool) -> Result<Report, Box<dyn Error>> {
    let policy = Policy::new()?;
    let mut report = Report::new(figure.name());
    // In the first line, or so that two bytes lie before a line's end.
    let at = if figure == Figure::OneByte { 2048 + 16 } else { 2048 + 64 - 2 };
    let target = if figure == Figure::Word { Loop::of_word(at)? } else { Loop::of_call(at)? };
    let cores = std::thread::available_parallelism()?.get();
    let ticks = 1e9 * crate::table2::ticks_per_ns();
    let rounds = if quick { 10 } else { 40 };
    let mut run = |toggle: &dyn Fn(bool)| {
        for threads in 1..=cores {
            series(&target, threads, rounds, ticks, toggle, &mut report);
        }
    };
    match figure {
        Figure::Word => {
            let site = target.adopt_word(&policy)?;
            run(&|on| bench_code::replace(&site, on));
        }
        Figure::OneByte | Figure::Paper => {
            let (site, _islands) = target.adopt(&policy, figure == Figure::Paper)?;
            run(&|on| site.set(if on { Switch::On } else { Switch::Off }).expect("a site of our own"));
        }
    }
    report.notes.push(format!("{cores} processors; the toggler needs one, and shares it with the last executer."));
    Ok(report)
}

/// What is told of one rate.
#[derive(Default)]
struct Cell {
    passes: [Blocks; 2],
    /// Passes that saw it on, all passes; ticks that it was on, all ticks.
    seen: [u64; 2],
    time: [u64; 2],
    toggles: u64,
}

fn series(target: &Loop, threads: usize, rounds: usize, ticks: f64, toggle: &dyn Fn(bool), report: &mut Report) {
    let passes: Vec<Passes> = (0..threads).map(|_| Passes::default()).collect();
    let mut cells: Vec<Cell> = RATES.iter().map(|_| Cell::default()).collect();
    std::thread::scope(|scope| {
        passes.iter().for_each(|passes| drop(scope.spawn(|| target.run(passes))));
        while passes.iter().any(|passes| passes.seen()[1] == 0) {
            std::thread::yield_now();
        }
        for _ in 0..rounds {
            for (cell, (_, rate)) in cells.iter_mut().zip(RATES) {
                for (at, rate) in [rate, 2.0 / SPAN.as_secs_f64()].into_iter().enumerate() {
                    let before = sum(&passes);
                    let (on, all, toggles) = keep_toggling(rate, ticks, toggle);
                    let seen = sum(&passes);
                    let per_ms = (seen[1] - before[1]) as f64 / (all as f64 / ticks * 1e3);
                    cell.passes[at].push(per_ms as u64);
                    cell.passes[at].close();
                    if at == 0 {
                        cell.seen = [cell.seen[0] + seen[0] - before[0], cell.seen[1] + seen[1] - before[1]];
                        cell.time = [cell.time[0] + on, cell.time[1] + all];
                        cell.toggles += toggles;
                    }
                }
            }
        }
        passes.iter().for_each(Passes::stop);
    });
    toggle(true);
    for (cell, (name, _)) in cells.iter().zip(RATES) {
        let row = format!("{threads}/{name}");
        report.rows.extend(Ratio::of(&cell.passes[0], &cell.passes[1], 0.0).map(|ratio| Row::compared(&row, "1/ms", &ratio)));
        let share = |[part, whole]: [u64; 2]| 1000.0 * part as f64 / whole.max(1) as f64;
        let balance = Row::plain(format!("{row}/balance"), share(cell.seen), "permille", cell.seen[1]);
        report.rows.push(Row { baseline: Some(share(cell.time)), ..balance });
        let rate = cell.toggles as f64 / (cell.time[1] as f64 / ticks);
        report.rows.push(Row::plain(format!("{row}/toggles"), rate, "1/s", cell.toggles));
    }
}

fn sum(passes: &[Passes]) -> [u64; 2] {
    passes.iter().map(Passes::seen).fold([0; 2], |sum, seen| [sum[0] + seen[0], sum[1] + seen[1]])
}

/// Toggles for the span, on first. Returns the ticks that it was on, all ticks, and the number of toggles.
fn keep_toggling(rate: f64, ticks: f64, toggle: &dyn Fn(bool)) -> (u64, u64, u64) {
    let (start, length) = (Ticks::now(), SPAN.as_secs_f64() * ticks);
    let (mut on_for, mut toggles, mut on) = (0, 0_u64, false);
    let mut last = start;
    loop {
        on = !on;
        toggle(on);
        toggles += 1;
        let now = Ticks::now();
        if !on {
            on_for += now.since(last).0;
        }
        last = now;
        let next = toggles as f64 * ticks / rate;
        while (Ticks::now().since(start).0 as f64) < next.min(length) {
            std::hint::spin_loop();
        }
        if Ticks::now().since(start).0 as f64 >= length && toggles.is_multiple_of(2) {
            let all = Ticks::now().since(start).0;
            return (on_for, all, toggles);
        }
    }
}
