//! The durations of calls between one profile and the next.

use profiler::{Figure, FuncId, Function, Header, Profile};
use std::collections::{HashMap, VecDeque};

/// The number of intervals that are kept.
pub(crate) const LONGEST: usize = 240;

/// For each timed function its 99th percentile in each interval, in nanoseconds; 0 if no call of it
/// was timed.
#[derive(Debug, Default)]
pub(crate) struct History {
    curves: HashMap<FuncId, VecDeque<u64>>,
    /// The number of intervals so far.
    taken: usize,
    rates: HashMap<FuncId, Rate>,
}

/// Calls per second between the last two profiles in which the number of calls differed. An
/// estimate is renewed every few seconds; in between it has no information about the latest
/// interval. Where calls are counted exactly, the two profiles bound the latest interval.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The time of the latest renewal, and the number of calls at that time.
    seconds: f64,
    calls: f64,
    /// `None` before the first renewal.
    value: Option<f64>,
}

impl Rate {
    fn renew(&mut self, calls: &Figure, seconds: f64) {
        if calls.value != self.calls || calls.is_exact() {
            let more = (calls.value - self.calls).max(0.0);
            self.value = Some(more / (seconds - self.seconds));
            (self.seconds, self.calls) = (seconds, calls.value);
        }
    }
}

impl History {
    /// Adds an interval.
    pub(crate) fn add(&mut self, before: &Profile, now: &Profile) {
        let seconds = now.header.seconds - before.header.seconds;
        if seconds <= 0.0 {
            // The profile began anew.
            *self = Self::default();
            return;
        }
        let earlier: HashMap<FuncId, &Function> =
            before.functions.iter().map(|function| (function.id, function)).collect();
        for function in &now.functions {
            let known = earlier.get(&function.id);
            let rate = self.rates.entry(function.id).or_insert_with(|| {
                let calls = known.map_or(0.0, |known| known.calls.value);
                Rate { seconds: before.header.seconds, calls, value: None }
            });
            rate.renew(&function.calls, now.header.seconds);
            let latest = match known {
                Some(known) => function.histogram.since(&known.histogram),
                None => function.histogram.clone(),
            };
            let p99 = latest.quantile(0.99).map_or(0, |ticks| nanoseconds(ticks, &now.header));
            if p99 > 0 || self.curves.contains_key(&function.id) {
                let taken = self.taken.min(LONGEST - 1);
                let blank = || std::iter::repeat_n(0, taken).collect();
                let curve: &mut VecDeque<u64> =
                    self.curves.entry(function.id).or_insert_with(blank);
                curve.push_back(p99);
                if curve.len() > LONGEST {
                    curve.pop_front();
                }
            }
        }
        self.taken += 1;
    }

    /// The latest intervals of a function, at most `most`; the last comes last.
    pub(crate) fn curve(&self, function: FuncId, most: usize) -> Vec<u64> {
        let curve = self.curves.get(&function);
        curve.map_or_else(Vec::new, |curve| {
            curve.iter().copied().skip(curve.len().saturating_sub(most)).collect()
        })
    }

    /// The latest calls per second.
    pub(crate) fn rate(&self, function: FuncId) -> Option<f64> {
        self.rates.get(&function)?.value
    }
}

fn nanoseconds(ticks: f64, header: &Header) -> u64 {
    ((ticks - header.bias).max(0.0) / header.hz * 1e9) as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use profiler::{Clock, Controller, Costs, Label, Mode, Policy, Probes, Sample, Ticks};

    struct Still;

    impl Probes for Still {
        fn set(&mut self, _: FuncId, _: Mode) {}
    }

    /// Profiles of a program whose functions 1, 2 … take this many ticks a call; one more profile
    /// for each list of calls.
    pub(crate) fn profiles(rounds: &[&[(u32, u64)]]) -> Vec<Profile> {
        let clock = Clock { hz: 1e9, step: 1 };
        let costs = Costs { pair: 0.0, bias: 0.0, count: 0.0, toggle: 0.0, skip: 0.0 };
        let mut controller = Controller::new(Policy::Exact, clock, costs, 1, Ticks(0));
        (1..=4).for_each(|number| controller.discovered(FuncId(number), 2));
        controller.first(&mut Still);
        let mut now = 0;
        let round = |calls: &&[(u32, u64)]| {
            for &(number, ticks) in *calls {
                let function = FuncId(number);
                let call_site = 0x1000 + u64::from(number);
                controller.entered(function, 1);
                let (nested, children, outermost) = (0, 0, true);
                controller.sample(&Sample {
                    function,
                    call_site,
                    ticks,
                    nested,
                    children,
                    outermost,
                });
                controller.keep(
                    function,
                    profiler::Slow { ticks, thread: 7, at: Ticks(now), inside: Vec::new() },
                );
            }
            now += 1_000_000_000;
            controller.tick(Ticks(now), &mut Still);
            let mut profile = controller.profile(Ticks(now));
            let name = |id: FuncId| ["", "parse", "serve", "hash", "main"][id.0 as usize];
            profile.label(|id| Label { name: name(id).to_owned(), ..Label::default() });
            profile
                .label_callers(|_, _| Some(Label { name: "main".to_owned(), ..Label::default() }));
            profile.header.processor = now as f64 / 1e9;
            profile
        };
        rounds.iter().map(round).collect()
    }

    #[test]
    fn an_estimate_that_is_not_renewed_keeps_its_rate() {
        let mut all = profiles(&[&[(1, 1000)], &[(1, 1000)], &[(1, 1000)], &[(1, 1000)]]);
        for (profile, calls) in all.iter_mut().zip([100.0, 300.0, 300.0, 900.0]) {
            profile.functions[0].calls = Figure::estimated(calls, 1.0, 0.0);
        }
        let mut history = History::default();
        let rates: Vec<f64> = all
            .windows(2)
            .map(|pair| {
                history.add(&pair[0], &pair[1]);
                history.rate(FuncId(1)).unwrap()
            })
            .collect();
        assert_eq!(rates, [200.0, 200.0, 300.0]);
    }

    #[test]
    fn a_curve_has_what_each_interval_s_calls_took() {
        let all = profiles(&[&[(1, 1000)], &[(1, 5000), (1, 5000)], &[(2, 70)], &[(1, 1000)]]);
        let mut history = History::default();
        for pair in all.windows(2) {
            history.add(&pair[0], &pair[1]);
        }
        let curve = history.curve(FuncId(1), 10);
        assert!(curve.len() == 3 && (4900..5100).contains(&curve[0]) && curve[1] == 0, "{curve:?}");
        assert!((950..1050).contains(&curve[2]), "{curve:?}");
        assert_eq!(history.curve(FuncId(1), 1), curve[2..]);
        assert_eq!((history.rate(FuncId(1)), history.rate(FuncId(2))), (Some(1.0), Some(0.0)));
        // A profile that begins anew starts another history.
        history.add(&all[3], &all[0]);
        assert!(history.curve(FuncId(1), 10).is_empty());
    }
}
