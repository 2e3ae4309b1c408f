//! Self time: CPU time of a function without its callees, and the time of no known function.
//!
//! If there is a clock, it is the only source of this column's values: a function has the time of
//! the samples with it innermost. If every call of it was timed, its interval ends with the time of
//! these calls, however few samples there are. Time of which nothing shows where it was spent may
//! be any function's, so every interval reaches up by it. Time that the clock charges to no
//! function is `[system]` or `[unknown]`, so all of them add up to the CPU time, exactly. Where
//! every call is timed by probes (policy `exact`, no clock), self times are wall-clock times: if
//! they add up to more than the CPU time, threads have waited. Then the longest are cut to a common
//! limit, since waits are long. All shorter ones keep their values, but are lower if the waits were
//! in their calls.

use super::{Seen, doubt, estimate, interval};
use crate::profile::{Function, Header, Profile};
use crate::{ClockSource, Figure};
use libm::hypot;

/// Self times by position, and the time of no function, in nanoseconds.
#[derive(Debug)]
pub(super) struct OwnTimes {
    pub(super) functions: Vec<Option<Figure>>,
    pub(super) system: f64,
    pub(super) unknown: f64,
}

impl OwnTimes {
    /// A function's self time; 0 if unknown.
    pub(super) fn value(&self, at: usize) -> f64 {
        self.functions[at].map_or(0.0, |own| own.value)
    }
}

/// Self times and the time of no function; together they are the CPU time.
pub(super) fn own_times(profile: &Profile, seen: &Seen) -> OwnTimes {
    let system = seen.system.min(seen.processor);
    let room = seen.processor - system;
    let functions = match seen.source {
        ClockSource::Kernel { .. } | ClockSource::Frames { .. } => by_clock(seen, room)
            .into_iter()
            .zip(&profile.functions)
            .map(|(own, function)| {
                let own = doubt::beside(own, function.timed.own(), seen.processor)?;
                Some(within_calls(own, function, &profile.header))
            })
            .collect(),
        ClockSource::Probes => by_probes(profile, room),
        ClockSource::None { .. } => vec![None; profile.functions.len()],
    };
    let known: f64 = functions.iter().flatten().map(|own| own.value).sum();
    if !seen.processor.is_finite() {
        return OwnTimes { functions, system, unknown: 0.0 };
    }
    // Rounding of a sum may make this negative.
    let unknown = (room - known).max(0.0);
    let all = known + system + unknown;
    assert!(
        (all - seen.processor).abs() <= 1e-9 * seen.processor.max(1.0),
        "{all} of {}",
        seen.processor
    );
    OwnTimes { functions, system, unknown }
}

/// Self times from the clock, scaled down if their sum exceeds `room`.
fn by_clock(seen: &Seen, room: f64) -> Vec<Option<Figure>> {
    let visible = || seen.functions.iter().zip(&seen.visible);
    let told: f64 =
        visible().filter(|(_, visible)| **visible).map(|(function, _)| function.innermost).sum();
    let scale = if told > room { room / told } else { 1.0 };
    visible()
        .map(|(function, visible)| {
            let value = function.innermost * scale;
            let (lo, hi) =
                interval::of_samples(value, function.samples, seen.samples, seen.processor);
            let divided = 2.0 * function.deviation * scale;
            let above = hypot(hi - value, divided) + seen.unplaced;
            let interval = (value - hypot(value - lo, divided), value + above);
            visible.then(|| estimate(value, interval, 0.0, seen.processor.max(value)))
        })
        .collect()
}

/// A self time whose interval ends with the time of the function's calls, if all were timed and
/// have ended. What hooks take within a call is hidden from its time, and the clock sees a part of
/// it in the function.
fn within_calls(own: Figure, function: &Function, header: &Header) -> Figure {
    let ended = function.lost == 0 && function.samples as f64 >= function.calls.value;
    let total = function.timed.total().filter(|_| ended && function.calls.is_exact());
    let Some(total) = total.filter(|_| function.is_timed_completely()) else { return own };
    let hooks = function.calls.value * header.pair / header.hz * 1e9;
    let (lo, hi) = own.interval();
    estimate(own.value, (lo, hi.min(total.interval().1 + hooks)), 0.0, f64::INFINITY)
}

/// Self times from timed calls; the longest are cut to a common limit if their sum exceeds `room`.
fn by_probes(profile: &Profile, room: f64) -> Vec<Option<Figure>> {
    let told: Vec<Option<Figure>> =
        profile.functions.iter().map(|function| function.timed.own()).collect();
    let values: Vec<f64> = told.iter().flatten().map(|own| own.value).collect();
    let excess = values.iter().sum::<f64>() - room;
    let height = height(values, room);
    let cut = |(own, function): (Figure, &Function)| {
        let waited = excess.min(function.long(&profile.header));
        match own.value > height {
            true => estimate(height, (own.value - excess, own.value), 0.0, room.max(height)),
            false if waited > doubt::TRIFLE * own.value => {
                let (lo, hi) = own.interval();
                estimate(own.value, (lo - waited, hi), 0.0, room.max(own.value))
            }
            false => own.clipped(0.0, room.max(own.value)),
        }
    };
    told.into_iter()
        .zip(&profile.functions)
        .map(|(own, function)| Some(cut((own?, function))))
        .collect()
}

/// The limit to which values are cut so that their sum does not exceed `room`.
fn height(mut values: Vec<f64>, room: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let mut left = room;
    for (at, value) in values.iter().enumerate() {
        let even = left / (values.len() - at) as f64;
        if *value > even {
            return even;
        }
        left -= value;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_cut_to_what_is_left() {
        assert_eq!(height(vec![10.0, 1.0, 4.0], 100.0), f64::INFINITY);
        assert_eq!(height(vec![10.0, 1.0, 4.0], 9.0), 4.0);
        assert_eq!(height(vec![10.0, 1.0, 4.0], 6.0), 2.5);
        assert_eq!(height(vec![10.0, 1.0, 4.0], 0.0), 0.0);
    }
}
