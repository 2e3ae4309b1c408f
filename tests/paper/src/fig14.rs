//! The cost of toggling a call by its offset in a line (figure 14): by one byte, and by the
//! literature's cases.
//!
//! A thread on another processor executes the call all the time. The baseline is the bare store of
//! a byte, alone or with a fence, on the same line. The figure shows whether a toggle costs more
//! where a boundary cuts the call.
//!
//! | row | what |
//! |---|---|
//! | `WAY/activate/N`, `WAY/deactivate/N` | a toggle of a call that begins N bytes into a line, until it is visible |
//! | `WAY/issue/activate/N`, `WAY/issue/deactivate/N` | until it returns; including two readings of the clock |
//! | the same without `N`, or with `worst` | the mean over all offsets, and the worst of them |
//!
//! The ways are `one-byte` and `paper`.

use crate::bench_code::{self, Loop, Passes};
use crate::latent::mean;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::toggling::Stop;
use callpatch::Switch;
use std::error::Error;
use wordpatch::{Policy, Ticks, live};

/// The number of toggles in a block; half of them switch on.
const TOGGLES: usize = 32;

/// The timed operations, in the order of [`Kinds`].
const KINDS: [&str; 4] = ["activate", "deactivate", "issue/activate", "issue/deactivate"];

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let policy = Policy::new()?;
    let (mut report, mut places) = (Report::new("fig14"), Vec::new());
    for (way, paper) in [("one-byte", false), ("paper", true)] {
        let mut kinds: [Vec<Ratio>; 4] = Default::default();
        for offset in 0..64 {
            let target = Loop::of_call(2048 + offset)?;
            let (site, _islands) = target.adopt(&policy, paper)?;
            let toggle = |on| site.set(if on { Switch::On } else { Switch::Off });
            let measured = beside_an_executer(&target, if quick { 20 } else { 100 }, &toggle)?;
            kinds.iter_mut().zip(measured.ratios()).for_each(|(kind, ratio)| kind.extend(ratio));
        }
        for (kind, ratios) in KINDS.iter().zip(&kinds) {
            let name = format!("{way}/{kind}");
            report.rows.extend(mean(ratios).map(|mean| Row::compared(&name, "ticks", &mean)));
            let worst = ratios.iter().max_by(|a, b| a.median.total_cmp(&b.median));
            report
                .rows
                .extend(worst.map(|worst| Row::compared(format!("{name}/worst"), "ticks", worst)));
            let each = ratios.iter().enumerate();
            places.extend(
                each.map(|(offset, ratio)| {
                    Row::compared(format!("{name}/{offset}"), "ticks", ratio)
                }),
            );
        }
    }
    report.rows.extend(places);
    report.notes.push(format!(
        "Granule of the literature's cases: {} bytes, as trusted here.",
        policy.granule.bytes()
    ));
    Ok(report)
}

/// Toggles and their baseline, until visible and until issued.
#[derive(Debug, Default)]
struct Kinds {
    /// Switching on, switching off, and the bare store.
    visible: [Blocks; 3],
    issued: [Blocks; 3],
}

impl Kinds {
    /// Each kind beside its baseline.
    fn ratios(&self) -> [Option<Ratio>; 4] {
        let overhead = overhead();
        let visible = |i: usize| Ratio::of(&self.visible[i], &self.visible[2], overhead);
        // An issued store costs hardly more than reading the clock, so the clock's cost is not
        // subtracted there.
        let issued = |i: usize| Ratio::of(&self.issued[i], &self.issued[2], 0.0);
        [visible(0), visible(1), issued(0), issued(1)]
    }
}

fn beside_an_executer<E: Error + 'static>(
    target: &Loop,
    rounds: usize,
    toggle: &dyn Fn(bool) -> Result<(), E>,
) -> Result<Kinds, Box<dyn Error>> {
    let passes = [Passes::default()];
    let mut kinds = Kinds::default();
    std::thread::scope(|scope| {
        let _stop = Stop(&passes);
        scope.spawn(|| target.run(&passes[0]));
        for _ in 0..rounds {
            for (fenced, blocks) in [(true, &mut kinds.visible), (false, &mut kinds.issued)] {
                block(target, &passes[0], fenced, toggle, blocks)?;
            }
        }
        Ok(kinds)
    })
}

/// Toggles, followed by the same number of bare stores.
fn block<E: Error + 'static>(
    target: &Loop,
    passes: &Passes,
    fenced: bool,
    toggle: &dyn Fn(bool) -> Result<(), E>,
    [to_on, to_off, bare]: &mut [Blocks; 3],
) -> Result<(), Box<dyn Error>> {
    // The call is on at the beginning of every block.
    for _ in 0..TOGGLES / 2 {
        for (on, blocks) in [(false, &mut *to_off), (true, &mut *to_on)] {
            let (ticks, outcome) = timed(passes, fenced, || toggle(on));
            outcome?;
            blocks.push(ticks);
        }
    }
    // The site's own byte, stored unchanged: as much traffic as a toggle, without a change.
    let (byte, first) = (target.writable(), load(target));
    (0..TOGGLES)
        .for_each(|_| bare.push(timed(passes, fenced, || bench_code::store(byte, first)).0));
    [to_on, to_off, bare].into_iter().for_each(Blocks::close);
    Ok(())
}

fn load(target: &Loop) -> u8 {
    // SAFETY: (1) readable code of the loop.
    #[allow(unsafe_code)]
    unsafe {
        live::load_byte(target.site())
    }
}

/// The cost of two readings of the counter.
fn overhead() -> f64 {
    let mut readings = Blocks::default();
    for _ in 0..1000 {
        let start = Ticks::now();
        readings.push(Ticks::now().since(start).0);
    }
    readings.close();
    readings.median(0.0)
}

/// The ticks of an act, which begins after the executing thread has run the line again.
#[inline(always)]
fn timed<T>(passes: &Passes, fenced: bool, act: impl FnOnce() -> T) -> (u64, T) {
    let before = passes.seen()[1];
    while passes.seen()[1].wrapping_sub(before) < 3 {
        std::hint::spin_loop();
    }
    live::fence();
    let start = Ticks::now();
    let outcome = act();
    if fenced {
        live::fence();
    }
    (Ticks::now().since(start).0, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_held_against_the_bare_store_of_its_own() {
        let blocks = |ticks| {
            let mut blocks = Blocks::default();
            blocks.push(ticks);
            blocks.close();
            blocks
        };
        let kinds = Kinds {
            visible: [1 << 40, 2 << 40, 4 << 40].map(blocks),
            issued: [60, 30, 20].map(blocks),
        };
        let [on, off, issued_on, issued_off] = kinds.ratios().map(Option::unwrap);
        // The cost of reading the clock is negligible for such long times.
        assert!(
            (on.median - 0.25).abs() < 1e-6 && (off.median - 0.5).abs() < 1e-6,
            "{on:?} {off:?}"
        );
        assert_eq!((issued_on.median, issued_off.median), (3.0, 1.5));
    }

    #[test]
    fn a_block_leaves_the_call_on_and_ends_with_its_executer() {
        let (target, policy) = (Loop::of_call(2110).unwrap(), Policy::new().unwrap());
        let (site, _islands) = target.adopt(&policy, true).unwrap();
        let toggle = |on| site.set(if on { Switch::On } else { Switch::Off });
        let kinds = beside_an_executer(&target, 2, &toggle).unwrap();
        assert!(site.is_on());
        assert!(kinds.visible.iter().chain(&kinds.issued).all(|blocks| blocks.len() == 2));
    }

    #[test]
    fn a_toggle_that_fails_stops_the_executer_and_is_told() {
        let target = Loop::of_call(2064).unwrap();
        let refuse = |_| Err(std::io::Error::other("refused"));
        assert_eq!(beside_an_executer(&target, 2, &refuse).unwrap_err().to_string(), "refused");
    }
}
