//! The mean of a call: by the wall clock, as calls were timed; by the sampling clock where probes
//! cannot measure it.
//!
//! A probe cannot time a function of two nanoseconds in its context: sampled alone, it takes twenty
//! times that. No call of that length waits, so its duration is CPU time ÷ calls. The same is shown
//! where a single sampled call dominates the mean. If calls wait, a mean CPU time below the
//! shortest call is only a lower bound of a call's duration.

use crate::profile::Function;
use crate::{ClockSource, Figure, Header, How};
use libm::hypot;

/// Below this the clock's mean is better, in nanoseconds.
pub(crate) const SHORT: f64 = 50.0;

/// A function whose calls do not wait has a median below this, even with the time that sampling
/// adds.
const WAITS: f64 = 20.0 * SHORT;

/// The mean of a call of a function whose totals are reconciled.
pub(super) fn mean(function: &Function, header: &Header) -> Option<Figure> {
    let timed = function.timed.mean();
    let is_by_clock = matches!(header.clock, ClockSource::Kernel { .. }) && !function.unseen;
    let cpu = function.cpu_mean().filter(|_| is_by_clock);
    let short = if function.by_runtime { SHORT.max(function.floor(header)) } else { SHORT };
    let waits = function.percentile(0.5, header).is_some_and(|half| half >= WAITS);
    match (timed, cpu) {
        (Some(timed), _) if function.is_timed_completely() && timed.value >= SHORT => Some(timed),
        (_, Some(cpu)) if cpu.value < short && !waits => Some(cpu),
        (_, Some(cpu)) if function.is_wall_a_bound() => {
            Some(at_least_if_shorter(cpu, function, header))
        }
        (timed, cpu) => timed.or(cpu),
    }
}

/// A mean, as a lower bound of the duration of a call if no timed call was as short: CPU time is
/// less than the duration.
pub(super) fn at_least_if_shorter(mean: Figure, function: &Function, header: &Header) -> Figure {
    let added_by_sampling = function.floor(header).max(SHORT);
    let shortest = function.min.filter(|min| mean.value + added_by_sampling < *min);
    match (shortest, function.max) {
        (Some(_), Some(longest)) => {
            let how = How::Estimated { lo: mean.value, hi: longest.max(mean.value) };
            Figure { how, ..mean }
        }
        _ => mean,
    }
}

/// One figure divided by another; relative variances are added.
pub(crate) fn quotient(a: &Figure, b: &Figure) -> Option<Figure> {
    if b.value <= 0.0 {
        return None;
    }
    let value = a.value / b.value;
    if a.is_exact() && b.is_exact() {
        return Some(Figure::exact(value));
    }
    let ((lo, hi), (least, most)) = (a.interval(), b.interval());
    // Each side separately: intervals from few samples are not symmetric.
    let below = hypot(relative(a.value - lo, a.value), relative(most - b.value, most));
    let above = hypot(relative(hi - a.value, a.value), relative(b.value - least, b.value));
    let hi = if a.value > 0.0 { value * (1.0 + above) } else { hi / b.value };
    Some(Figure {
        value,
        how: How::Estimated { lo: value * (1.0 - below).max(0.0), hi: hi.max(value) },
    })
}

fn relative(width: f64, value: f64) -> f64 {
    if value > 0.0 { width / value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Mark;

    #[test]
    fn a_processor_time_below_the_shortest_call_is_a_lower_bound() {
        let function = |min, max, cpu| Function {
            min: Some(min),
            max: Some(max),
            samples: 1,
            total: Some(Figure::estimated(cpu, cpu / 2.0, 0.0)),
            ..Function::counted(crate::FuncId(1), crate::Label::default(), 1)
        };
        let of = |function: &Function| {
            at_least_if_shorter(function.cpu_mean().unwrap(), function, &Header::default())
        };
        // Calls of 229 ms by the wall clock, of 142 ms on a processor that other programs share.
        let busy = function(229e6, 240e6, 142e6);
        let mean = of(&busy);
        assert_eq!((mean.mark(), mean.value, mean.interval().1), (Mark::AtLeast, 142e6, 240e6));
        // One call of 5 ms among short ones; the clock gives the mean.
        let short = function(100.0, 5e6, 130.0);
        assert_eq!(of(&short).value, 130.0);
        assert_eq!(of(&short).mark(), Mark::About);
    }

    #[test]
    fn single_calls_that_a_runtime_tells_are_told_no_better_than_they_are_known() {
        let header = Header {
            hz: 1e9,
            step: 1,
            floor: 60.0,
            clock: ClockSource::Kernel { hz: 250.0, stack_hz: 60.0, kernel: true },
            ..Header::default()
        };
        let of = |by_runtime| Function {
            by_runtime,
            samples: 100,
            timed: crate::Timed {
                mean: Some(Figure::estimated(110.0, 5.0, 100.0)),
                ..crate::Timed::default()
            },
            total: Some(Figure::estimated(72_000.0, 100.0, 1000.0)),
            ..Function::counted(crate::FuncId(1), crate::Label::default(), 1000)
        };
        assert_eq!(mean(&of(false), &header).unwrap().value, 110.0);
        assert_eq!(mean(&of(true), &header).unwrap().value, 72.0);
        assert_eq!([false, true].map(|by| of(by).floor(&header)), [60.0, 240.0]);
    }

    #[test]
    fn a_quotient_is_exact_only_of_exact_figures_and_as_unsure_as_both() {
        assert_eq!(quotient(&Figure::exact(6.0), &Figure::exact(3.0)), Some(Figure::exact(2.0)));
        assert_eq!(quotient(&Figure::exact(6.0), &Figure::exact(0.0)), None);
        let of = quotient(&Figure::estimated(100.0, 30.0, 0.0), &Figure::estimated(10.0, 4.0, 0.0))
            .unwrap();
        assert!(of.value == 10.0 && of.interval().0 < 7.0 && of.interval().1 >= 15.0, "{of:?}");
    }
}
