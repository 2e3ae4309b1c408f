//! The cost of single probes (table 2): switching and executing them.
//!
//! Switches go through the C interface, its look-up included, while another thread executes the
//! probe all the time; the baseline is the bare store of the same byte. The cost of executing is
//! the difference between a loop over an instrumented function and the same loop with nops instead
//! of the calls.
//!
//! | row | what is timed | beside |
//! |---|---|---|
//! | `activate`, `deactivate` | until the switch returns | the store alone |
//! | `activate/visible`, `deactivate/visible` | and a fence: until other cores see it | store and fence |
//! | `rearm/bulk`, `disarm/bulk` | twenty thousand probes in a batch, per probe | |
//! | `invoke/off` | a call of a function whose two probes are off | its call with nops |
//! | `invoke/count` | its entry counted | the same |
//! | `invoke/pair` | timed from its entry to its end | the same |
//! | `…/ticks` | the same, in ticks of the counter | |

use crate::peers;
use crate::probes::{self, Probes};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::collections::BTreeMap;
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};
use wordpatch::Ticks;

pub(crate) fn measure(quick: bool, install: bool) -> Result<Report, Box<dyn Error>> {
    let probes = Probes::build()?;
    let mut report = Report::new("table2");
    switches(&probes, quick, &mut report)?;
    passes(&probes, quick, &mut report)?;
    peers::measure(&probes, quick, install, &mut report)?;
    Ok(report)
}

/// The frequency of the counter, in ticks per nanosecond.
pub(crate) fn ticks_per_ns() -> f64 {
    let (start, began) = (Ticks::now(), Instant::now());
    std::thread::sleep(Duration::from_millis(100));
    Ticks::now().since(start).0 as f64 / began.elapsed().as_nanos() as f64
}

fn switches(probes: &Probes, quick: bool, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let (blocks, samples) = if quick { ("30", "50") } else { ("60", "200") };
    let outcome = probes::run(Command::new(probes.toggling()?).args(["toggle", blocks, samples]))?;
    let mut rows: BTreeMap<&str, [Blocks; 2]> = BTreeMap::new();
    let text = String::from_utf8(outcome.stdout)?;
    let mut each = 1.0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["probes", number] => each = number.parse()?,
            [row, "end"] => rows.entry(row).or_default().iter_mut().for_each(Blocks::close),
            [row, "subject", ticks] => rows.entry(row).or_default()[0].push(ticks.parse()?),
            [row, "baseline", ticks] => rows.entry(row).or_default()[1].push(ticks.parse()?),
            _ => return Err(format!("unexpected answer: {line}").into()),
        }
    }
    let overhead = rows.get("overhead").map_or(0.0, |[subject, _]| subject.median(0.0));
    for name in ["activate", "deactivate", "activate/visible", "deactivate/visible"] {
        let ratio =
            rows.get(name).and_then(|[subject, baseline]| Ratio::of(subject, baseline, overhead));
        report.rows.push(Row::compared(name, "ticks", &ratio.ok_or("an executer was never seen")?));
    }
    for name in ["rearm/bulk", "disarm/bulk"] {
        let Some([took, _]) = rows.get(name) else { return Err("no batch was made".into()) };
        let ticks = took.median(overhead) / each;
        report.rows.push(Row::plain(name, ticks / ticks_per_ns(), "ns", took.len() as u64));
        report.rows.push(Row::plain(format!("{name}/ticks"), ticks, "ticks", took.len() as u64));
    }
    report.notes.push(format!(
        "{overhead:.1} ticks for taking the time are subtracted; {each} probes in a batch."
    ));
    Ok(())
}

/// The ticks of a call, in hundredths: one block for each round.
fn rounds(
    command: &mut Command,
    [calls, pause]: [&str; 2],
    blocks: &mut Blocks,
) -> Result<(), Box<dyn Error>> {
    let outcome = probes::run(command.args(["invoke", calls, pause]))?;
    for line in String::from_utf8(outcome.stdout)?.lines() {
        blocks.push((line.parse::<f64>()? * 100.0) as u64);
    }
    blocks.close();
    Ok(())
}

fn passes(probes: &Probes, quick: bool, report: &mut Report) -> Result<(), Box<dyn Error>> {
    // The pairs of a burst fit into a thread's ring, so that the probe is timed, and not the thread
    // that collects the samples.
    const WAYS: [(&str, &str, [&str; 2]); 3] = [
        ("invoke/off", "", ["100000", "1000"]),
        ("invoke/count", "count", ["100000", "1000"]),
        ("invoke/pair", "exact", ["500", "15000"]),
    ];
    let speed = ticks_per_ns();
    let mut series: [[Blocks; 2]; 3] = Default::default();
    for _ in 0..if quick { 15 } else { 41 } {
        for ((_, policy, calls), [subject, baseline]) in WAYS.iter().zip(&mut series) {
            let mut command = Command::new(&probes.probed);
            probes.observe(&mut command, if policy.is_empty() { "count" } else { policy })?;
            if policy.is_empty() {
                command.env("FASTINST_EXCLUDE", "*");
            }
            rounds(&mut command, *calls, subject)?;
            rounds(&mut Command::new(&probes.floor), *calls, baseline)?;
        }
    }
    for ((name, _, _), [subject, baseline]) in WAYS.iter().zip(&series) {
        let ratio = Ratio::of(subject, baseline, 0.0).ok_or("nothing was measured")?;
        let ticks = (ratio.value - ratio.baseline) / 100.0;
        let row = Row::compared(*name, "ns", &ratio);
        report.rows.push(Row {
            value: ticks / speed,
            baseline: Some(ratio.baseline / 100.0 / speed),
            ..row
        });
        report.rows.push(Row::plain(format!("{name}/ticks"), ticks, "ticks", ratio.pairs));
    }
    report
        .notes
        .push("invoke/…: the value is what a call takes longer than its baseline, the ratio compares whole calls.".into());
    Ok(())
}
