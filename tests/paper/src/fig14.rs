//! What toggling a call costs by its place in a line (figure 14): by one byte, and by the literature's cases.
//!
//! An executer runs the call all the time on another processor. The baseline is the bare store of a byte, and a fence, on the same line.
//!
//! | row | what |
//! |---|---|
//! | `one-byte/N`, `paper/N` | a toggle of a call that begins N bytes into a line, until it is visible |
//! | `one-byte`, `paper` | the mean over all places |
//! | `one-byte/issue`, `paper/issue` | until the toggle returns, over all places; reading the clock twice included |

use crate::bench_code::{self, Loop, Passes};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use callpatch::Switch;
use std::error::Error;
use wordpatch::{Policy, Ticks, live};

/// Toggles of each kind in a block.
const TOGGLES: usize = 16;

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let policy = Policy::new()?;
    let mut report = Report::new("fig14");
    for (name, paper) in [("one-byte", false), ("paper", true)] {
        let (mut visible, mut issued) = (Vec::new(), Vec::new());
        for offset in 0..64 {
            let target = Loop::of_call(2048 + offset)?;
            let (site, _islands) = target.adopt(&policy, paper)?;
            let toggle = |on| site.set(if on { Switch::On } else { Switch::Off }).expect("a site of our own");
            let [one, two] = beside_an_executer(&target, if quick { 20 } else { 100 }, &toggle);
            visible.extend(one);
            issued.extend(two);
        }
        let mean = |ratios: &[Ratio]| {
            let mean = |of: fn(&Ratio) -> f64| ratios.iter().map(of).sum::<f64>() / ratios.len().max(1) as f64;
            let pairs = ratios.iter().map(|ratio| ratio.pairs).sum();
            let [value, baseline] = [mean(|ratio| ratio.value), mean(|ratio| ratio.baseline)];
            Ratio {
                value,
                baseline,
                median: mean(|ratio| ratio.median),
                lo: mean(|ratio| ratio.lo),
                hi: mean(|ratio| ratio.hi),
                pairs,
            }
        };
        report.rows.push(Row::compared(name, "ticks", &mean(&visible)));
        report.rows.push(Row::compared(format!("{name}/issue"), "ticks", &mean(&issued)));
        let each = visible.iter().enumerate();
        report.rows.extend(each.map(|(offset, ratio)| Row::compared(format!("{name}/{offset}"), "ticks", ratio)));
    }
    report.notes.push(format!("Granule of the literature's cases: {} bytes, as trusted here.", policy.granule.bytes()));
    Ok(report)
}

/// Visible and issued, each beside its baseline.
fn beside_an_executer(target: &Loop, rounds: usize, toggle: &dyn Fn(bool)) -> [Option<Ratio>; 2] {
    let passes = Passes::default();
    let mut kinds: [[Blocks; 2]; 2] = Default::default();
    std::thread::scope(|scope| {
        scope.spawn(|| target.run(&passes));
        // The line's own byte, written as it is: as much traffic as a toggle, and nothing changes.
        let byte = target.writable();
        for _ in 0..rounds {
            for (fenced, [subject, baseline]) in [true, false].into_iter().zip(&mut kinds) {
                (0..TOGGLES).for_each(|i| subject.push(timed(&passes, fenced, || toggle(i % 2 == 1))));
                let first = load(target);
                (0..TOGGLES).for_each(|_| baseline.push(timed(&passes, fenced, || bench_code::store(byte, first))));
                subject.close();
                baseline.close();
            }
        }
        passes.stop();
    });
    // What is issued costs hardly more than reading the clock: there the clock stays in.
    let [visible, issued] = kinds;
    [Ratio::of(&visible[0], &visible[1], overhead()), Ratio::of(&issued[0], &issued[1], 0.0)]
}

fn load(target: &Loop) -> u8 {
    // SAFETY: (1) code of our own, which can be read.
    #[allow(unsafe_code)]
    unsafe {
        live::load_byte(target.site())
    }
}

/// What reading the counter twice costs.
fn overhead() -> f64 {
    let mut readings = Blocks::default();
    for _ in 0..1000 {
        let start = Ticks::now();
        readings.push(Ticks::now().since(start).0);
    }
    readings.close();
    readings.median(0.0)
}

/// The ticks of an act, once the executer has run the line again.
fn timed(passes: &Passes, fenced: bool, act: impl FnOnce()) -> u64 {
    let before = passes.seen()[1];
    while passes.seen()[1].wrapping_sub(before) < 3 {
        std::hint::spin_loop();
    }
    live::fence();
    let start = Ticks::now();
    act();
    if fenced {
        live::fence();
    }
    Ticks::now().since(start).0
}
