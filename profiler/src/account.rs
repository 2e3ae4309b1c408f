//! The account of one function: the sums of its observations.
//!
//! Time is divided into *cycles*: from one window, or arming, of the function to the next. In each,
//! some calls are timed, and entries are counted for a while, or all the time. A cycle's samples
//! represent all calls of the cycle: otherwise the quiet times of a function would weigh as much as
//! the busy ones. The weight of a cycle is known at its end.
//!
//! ```text
//!   counted ──── armed ──── samples ──── retired ──── not seen ──── counted again
//!   └ window ┘
//! ```
//!
//! The rate of calls is measured in the *window*, in which calls are only counted. Timing slows the
//! program down by an amount that cannot be known exactly, since hooks may or may not overlap with
//! the program's own work.
//!
//! The variance of a total or a mean is estimated from the differences between cycles, and from
//! those between samples within a cycle; the larger estimate is used. Successive calls are similar,
//! and a few cycles are weak evidence.

use crate::exemplars::Slowest;
use crate::figure::{Figure, How, product, student};
use crate::histogram::{Histogram, bounds, bucket};
use crate::null::Null;
use crate::{Costs, Sample, SummedCalls, Ticks};
use libm::hypot;
use smallvec::SmallVec;

mod unseen;

pub(crate) use unseen::Changes;
use unseen::Unseen;

/// The most call sites that are distinguished.
const SITES: usize = 32;
/// An error that all windows share, relative to the entries that were not counted: a window begins
/// when the agent opens it, and the entries before that are unknown. Such errors do not decrease
/// with the number of windows.
const UNKNOWN: f64 = 0.1;
/// Counting slows the program down, so a window shows too low a rate: by this factor at most.
const MOST_SLOWED: f64 = 5.0;
/// This many windows distinguish a function that is no longer called from one that is called in
/// bursts.
const FEW_WINDOWS: f64 = 4.0;
/// Samples of a cycle that are kept until their weight is known.
const KEPT: usize = 512;

/// The observations of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Entries that were counted.
    pub(crate) entries: u64,
    /// Estimates of entries that were not counted, and the sums for their variance.
    unseen: Unseen,
    /// Timed calls, and their time, without the cost of timing the calls inside.
    pub(crate) samples: u64,
    sum: f64,
    min: f64,
    max: f64,
    /// The time of outermost calls (no other call of the function was open), without the bias.
    outermost: f64,
    /// The time of all timed calls including the cost of timing those inside, and the time of the
    /// timed calls directly inside.
    whole: f64,
    children: f64,
    /// In cycles in which every call was timed: the number of calls that ended, and their time.
    certain: (u64, f64),
    /// The means of the other cycles.
    mean: Weighted,
    histogram: Histogram,
    pub(crate) arcs: SmallVec<[(u64, u64, u64); 1]>,
    pub(crate) other_arcs: (u64, u64),
    pub(crate) lost: u64,
    /// Counting may cost less or more than was measured. These are the relative amounts by which
    /// the rates of windows are then lower and higher: sums over windows, and their number.
    slowed: (f64, f64, f64),
    /// The uncertainty of the time that is subtracted from each timed call.
    spread: f64,
    pub(crate) slowest: Slowest,
    cycle: Cycle,
}

/// The current cycle.
#[derive(Clone, Debug, Default)]
struct Cycle {
    began: Ticks,
    /// The time in which entries were counted; `None` while counting continues.
    counted: Option<(Ticks, Ticks)>,
    /// When the window began; until then, the entries of the cycle, and those of all functions that
    /// are counted in windows.
    opened: Option<(Ticks, u64, f64)>,
    /// Entries per tick, measured in the window.
    rate: Option<f64>,
    entries: u64,
    samples: u64,
    sum: f64,
    squares: f64,
    kept: SmallVec<[u16; 8]>,
    /// Whether only some calls in it are timed.
    is_partial: bool,
}

impl Cycle {
    /// Entries per tick while they were counted; `None` if that time was too short.
    fn rate_so_far(&self, now: Ticks) -> Option<f64> {
        let (from, until) = self.counted.unwrap_or((self.began, now));
        // If counting was ended by an entry, the interval does not include that entry.
        let entries = self.entries.saturating_sub(u64::from(self.counted.is_some()));
        let span = until.since(from).0;
        // No call is shorter than a tick: otherwise some entries were before or after the known
        // interval.
        (span > entries).then(|| entries as f64 / span as f64)
    }
}

/// Means of cycles, weighted by their calls.
#[derive(Clone, Debug, Default)]
struct Weighted {
    cycles: usize,
    weight: f64,
    sum: f64,
    /// The sum of the squared weights, and that of the squared weights times the means.
    w2: f64,
    w2m: f64,
    w2m2: f64,
    /// The variance of `sum`, from the samples within cycles.
    within: f64,
}

impl Account {
    /// The account of a function that is observed since `now`.
    pub(crate) fn new(now: Ticks) -> Self {
        Self {
            min: f64::INFINITY,
            cycle: Cycle { began: now, ..Cycle::default() },
            ..Self::default()
        }
    }

    /// An account whose entries were counted since `now`.
    pub(crate) fn counted(now: Ticks, entries: u64) -> Self {
        let mut account = Self::new(now);
        account.entered(entries);
        account
    }

    /// Adds a timed call. `null`: the measured time of an empty call at the same sampling rate, in
    /// excess of the time measured back to back.
    #[inline]
    pub(crate) fn sample(&mut self, sample: &Sample, costs: &Costs, null: Null) {
        // The costs are subtracted from each call: calls with many calls inside are as rare as they
        // are costly, and cycles have different weights.
        let ticks = sample.ticks as f64 - f64::from(sample.nested) * costs.pair - null.excess;
        self.spread = null.spread;
        self.samples += 1;
        self.sum += ticks;
        self.min = self.min.min(ticks);
        self.max = self.max.max(ticks);
        if sample.outermost {
            self.outermost += ticks - costs.bias;
        }
        self.whole += sample.ticks as f64 - null.excess;
        self.children += sample.children as f64;
        let cycle = &mut self.cycle;
        cycle.samples += 1;
        cycle.sum += ticks;
        cycle.squares += ticks.powi(2);
        if cycle.kept.len() == KEPT {
            // There are enough samples that the weight known so far suffices: about one call for
            // each, or as many as the others of the cycle represent.
            self.flush_samples();
        }
        self.cycle.kept.push(bucket(ticks.max(0.0) as u64));
        self.arc(sample.call_site, 1, sample.ticks);
    }

    /// Adds timed calls that were already summed. Each represents itself, or as many calls as the
    /// other samples of its cycle.
    pub(crate) fn add_summed(&mut self, summed: &SummedCalls, costs: &Costs, exact: bool) {
        let ticks = summed.ticks as f64;
        self.samples += summed.calls;
        self.sum += ticks;
        let (outermost, whole) = summed.outermost;
        self.outermost += whole as f64 - outermost as f64 * costs.bias;
        self.min = self.min.min(summed.min as f64);
        self.max = self.max.max(summed.max as f64);
        self.whole += ticks;
        self.children += summed.children as f64;
        self.cycle.samples += summed.calls;
        self.cycle.sum += ticks;
        let weight = if exact {
            1.0
        } else {
            (self.cycle.entries as f64 / self.cycle.samples as f64).max(1.0)
        };
        for &(bucket, calls) in &summed.buckets {
            let (first, last) = bounds(bucket);
            self.cycle.squares += calls as f64 * ((first as f64 + last as f64) / 2.0).powi(2);
            self.histogram.add(bucket, calls as f64 * weight);
        }
        for &(site, calls, ticks) in summed.arcs.iter().filter(|arc| arc.1 > 0) {
            self.arc(site, calls, ticks);
        }
    }

    #[inline]
    fn arc(&mut self, call_site: u64, calls: u64, ticks: u64) {
        if let Some(arc) = self.arcs.iter_mut().find(|arc| arc.0 == call_site) {
            arc.1 += calls;
            arc.2 += ticks;
        } else if self.arcs.len() < SITES {
            self.arcs.push((call_site, calls, ticks));
        } else {
            self.other_arcs.0 += calls;
            self.other_arcs.1 += ticks;
        }
    }

    /// Adds counted entries.
    pub(crate) fn entered(&mut self, calls: u64) {
        self.entries += calls;
        self.cycle.entries += calls;
    }

    /// Entries per tick in this cycle or, if they are unknown, in those before.
    pub(crate) fn rate(&self, now: Ticks) -> f64 {
        self.cycle
            .rate
            .or_else(|| self.cycle.rate_so_far(now))
            .unwrap_or_else(|| self.unseen.usual_rate())
    }

    /// Opens a window, in which calls are only counted. `counted`: the entries of all functions
    /// that were counted in windows so far.
    pub(crate) fn open_window(&mut self, now: Ticks, counted: f64) {
        self.cycle.opened = Some((now, self.cycle.entries, counted));
    }

    /// The beginning of the window, if there is one.
    pub(crate) fn window(&self) -> Option<Ticks> {
        self.cycle.opened.map(|(at, ..)| at)
    }

    /// Corrects the beginning of the window, which was somewhat later.
    pub(crate) fn delay_window(&mut self, at: Ticks) {
        if let Some((opened, ..)) = &mut self.cycle.opened {
            *opened = at.max(*opened);
        }
    }

    /// Closes the window. Each entry counted in it, of any function, took `cost` ticks, plus or
    /// minus twice the deviation.
    pub(crate) fn close_window(&mut self, now: Ticks, counted: f64, cost: f64, deviation: f64) {
        let Some((from, before, counted_before)) = self.cycle.opened else { return };
        let (span, entries) =
            (now.since(from).0.max(1) as f64, (self.cycle.entries - before) as f64);
        let counted = (counted - counted_before).max(entries);
        let own = |cost: f64, least: f64| (span - counted * cost).max(least);
        let (usual, shortest) = (span / MOST_SLOWED, entries.clamp(1.0, span));
        let likely = own(cost, usual);
        let longest = own((cost - 2.0 * deviation).max(0.0), likely);
        // No call is shorter than a tick.
        let least = own(cost + 2.0 * deviation, shortest).min(likely);
        self.slowed.0 += 1.0 - likely / longest;
        self.slowed.1 += likely / least - 1.0;
        self.slowed.2 += 1.0;
        self.cycle.rate.get_or_insert(entries / likely);
    }

    /// Entries of this cycle were counted from `from` to `until`, and are no longer counted.
    pub(crate) fn stop_counting(&mut self, from: Ticks, until: Ticks) {
        self.cycle.counted.get_or_insert((from.max(self.cycle.began), until));
    }

    /// Corrects the end of counting, which was somewhat later.
    pub(crate) fn count_until(&mut self, at: Ticks) {
        if let Some((_, until)) = &mut self.cycle.counted {
            *until = at.max(*until);
        }
    }

    /// Records that from now on not every call of the cycle is timed.
    pub(crate) fn stop_timing(&mut self) {
        self.cycle.is_partial = true;
    }

    /// Records that from now on every call is timed. A cycle begins with that.
    pub(crate) fn time_completely(&mut self) {
        self.cycle.is_partial = false;
    }

    pub(crate) fn cycle_began(&self) -> Ticks {
        self.cycle.began
    }

    /// Ends the cycle and begins another.
    pub(crate) fn turn(&mut self, now: Ticks) {
        let calls = self.calls_of_cycle(now);
        self.weigh(calls);
        // Calls that are open and will be timed at their end belong to the cycle in which they end.
        let Cycle { entries, samples, is_partial, counted, .. } = self.cycle;
        let open =
            if is_partial || counted.is_some() { 0 } else { entries.saturating_sub(samples) };
        let mut kept = std::mem::take(&mut self.cycle.kept);
        kept.clear();
        self.cycle = Cycle { began: now, entries: open, kept, is_partial, ..Cycle::default() };
    }

    /// The best estimate of the cycle's number of calls; records the estimated part.
    fn calls_of_cycle(&mut self, now: Ticks) -> f64 {
        let rate = self.rate(now);
        self.cycle.entries as f64 + self.unseen.end_cycle(&self.cycle, rate, now)
    }

    /// How much its rate has changed from one window to the next, if the cycle ended now.
    fn changes(&self, now: Ticks) -> Changes {
        let mut unseen = self.unseen.clone();
        unseen.end_cycle(&self.cycle, self.rate(now), now);
        unseen.changes()
    }

    /// Sets the weight of the cycle's samples: they represent `calls` calls.
    fn weigh(&mut self, calls: f64) {
        let cycle = &self.cycle;
        if cycle.samples == 0 {
            return;
        }
        if !cycle.is_partial && cycle.counted.is_none() {
            self.certain.0 += cycle.samples;
            self.certain.1 += cycle.sum;
            cycle.kept.iter().for_each(|&bucket| self.histogram.add(bucket, 1.0));
            return;
        }
        let (n, calls) = (cycle.samples as f64, calls.max(cycle.samples as f64));
        let mean = cycle.sum / n;
        let spread = if n > 1.0 {
            ((cycle.squares - cycle.sum * mean) / (n - 1.0)).max(0.0)
        } else {
            mean * mean
        };
        let unsampled = 1.0 - n / calls;
        let of_all = &mut self.mean;
        of_all.cycles += 1;
        of_all.weight += calls;
        of_all.sum += calls * mean;
        of_all.w2 += calls * calls;
        of_all.w2m += calls * calls * mean;
        of_all.w2m2 += calls * calls * mean * mean;
        of_all.within += calls * calls * spread / n * unsampled.max(0.0);
        let weight = calls / n;
        for &bucket in &self.cycle.kept {
            self.histogram.add(bucket, weight);
        }
    }

    /// Puts the kept samples into the histogram, each with the cycle's current number of entries
    /// per sample as its weight.
    fn flush_samples(&mut self) {
        let weight = (self.cycle.entries as f64 / self.cycle.samples as f64).max(1.0);
        for bucket in self.cycle.kept.drain(..) {
            self.histogram.add(bucket, weight);
        }
    }

    /// The number of calls, without the estimate's interval.
    pub(crate) fn estimate(&self) -> f64 {
        self.entries as f64 + self.unseen.entries
    }

    /// Whether some of its calls were not counted.
    pub(crate) fn is_estimated(&self) -> bool {
        self.unseen.cycles > 0
    }

    /// The number of calls, with an interval that uses the rate changes of the whole program,
    /// `changes`.
    pub(crate) fn calls(&self, changes: &Changes) -> Figure {
        let unseen = &self.unseen;
        if unseen.cycles == 0 {
            return Figure::exact(self.entries as f64);
        }
        let n = unseen.cycles as f64;
        let value = self.estimate();
        let (variance, freedom) = unseen.variance(changes);
        let by_windows = student(freedom as usize) * variance.sqrt();
        // All windows may have the same error: see `UNKNOWN`.
        let half = hypot(by_windows, UNKNOWN * unseen.entries.max(0.0));
        let (below, above) = self.slowed_by_counting();
        let (half, above) = (hypot(half, below), hypot(half, above));
        // A few windows without a burst are weak evidence against bursts: the function may have
        // been called as often as while all of its entries were counted.
        let as_watched = self.entries as f64 / unseen.watched.max(1.0) * unseen.hidden;
        let more = (as_watched - unseen.entries - above).max(0.0) * (FEW_WINDOWS / n).min(1.0);
        Figure::estimated(value, half, self.entries as f64).with_more_above(above - half + more)
    }

    /// By how much the estimate of uncounted entries is too high, or too low, if counting slowed
    /// the windows down by less than was measured, or by more.
    fn slowed_by_counting(&self) -> (f64, f64) {
        let (less, more, windows) = self.slowed;
        let each = self.unseen.entries.max(0.0) / windows.max(1.0);
        (less * each, more * each)
    }

    /// The same where rates were measured while a few calls were timed, in less time than a switch
    /// takes: the only known bound is that no call is shorter than a tick.
    pub(crate) fn calls_without_windows(&self) -> Figure {
        self.calls(&Changes::default()).with_more_above(self.unseen.hidden)
    }

    /// Whether every call that has ended was timed.
    pub(crate) fn is_complete(&self) -> bool {
        self.unseen.cycles == 0 && self.samples + self.lost >= self.entries && self.samples > 0
    }

    /// The mean duration of a call, in ticks, without the overhead of measuring.
    pub(crate) fn mean(&self, costs: &Costs) -> Option<Figure> {
        if self.is_complete() {
            return Some(Figure::exact(self.sum / self.samples as f64 - costs.bias));
        }
        let rest = self.mean_of_rest(costs)?;
        let (all, certain) = (self.estimate().max(1.0), self.certain.0 as f64);
        let part = (certain / all).min(1.0);
        if part == 0.0 {
            return Some(rest);
        }
        // The mean of the calls in complete cycles is known.
        let known = self.certain.1 / certain - costs.bias;
        let (lo, hi) = rest.interval();
        let of_all = |rest: f64| part * known + (1.0 - part) * rest;
        Some(Figure {
            value: of_all(rest.value),
            how: How::Estimated { lo: of_all(lo), hi: of_all(hi) },
        })
    }

    /// The same, of the calls in cycles of which only some were timed. If there are none, the
    /// completely timed cycles represent the calls that were missed.
    fn mean_of_rest(&self, costs: &Costs) -> Option<Figure> {
        let all = &self.mean;
        if all.weight == 0.0 {
            let known = (self.certain.0 > 0)
                .then(|| self.certain.1 / self.certain.0 as f64 - costs.bias)?;
            return Some(
                Figure::estimated(known, known.abs(), 0.0)
                    .with_more_above(self.max - costs.bias - known),
            );
        }
        let raw = all.sum / all.weight;
        let value = raw - costs.bias;
        let cycles = all.cycles as f64;
        let between = (all.w2m2 - 2.0 * raw * all.w2m + raw * raw * all.w2).max(0.0) * cycles
            / (cycles - 1.0).max(1.0);
        let deviation = (between.max(all.within)).sqrt() / all.weight;
        let samples = self.samples - self.certain.0;
        let freedom =
            if all.cycles > 1 { all.cycles - 1 } else { (samples as usize).saturating_sub(1) };
        // Long calls are rare: one more call like the longest may well have been missed.
        let missed = (self.max - costs.bias - value).max(0.0) / (samples as f64 + 1.0);
        let half = hypot(student(freedom.max(1)) * deviation, self.spread);
        Some(Figure::estimated(value, half, f64::MIN).with_more_above(missed))
    }

    /// The durations of the shortest and the longest timed call, without the overhead of measuring.
    pub(crate) fn extremes(&self, costs: &Costs) -> Option<(f64, f64)> {
        (self.samples > 0).then_some((self.min - costs.bias, self.max - costs.bias))
    }

    /// The time of all calls, with recursion counted once: that of the outermost calls only.
    pub(crate) fn total(&self, calls: &Figure, costs: &Costs) -> Option<Figure> {
        let mean = self.mean(costs)?;
        if self.is_complete() {
            return Some(Figure::exact(self.outermost));
        }
        let all = self.sum - self.samples as f64 * costs.bias;
        let share = if all > 0.0 { (self.outermost / all).clamp(0.0, 1.0) } else { 1.0 };
        Some(product(calls, &mean).scaled(share))
    }

    /// The self time of all timed calls.
    pub(crate) fn own(&self, costs: &Costs) -> f64 {
        self.whole - self.children - self.samples as f64 * costs.bias
    }

    /// The time of all timed calls, without the overhead of measuring, in ticks.
    pub(crate) fn seen(&self, costs: &Costs) -> f64 {
        self.sum - self.samples as f64 * costs.bias
    }

    pub(crate) fn into_histogram(self) -> Histogram {
        self.histogram
    }

    /// The relative variance of the means of cycles.
    pub(crate) fn variation(&self) -> f64 {
        let all = &self.mean;
        if all.cycles < 2 || all.sum == 0.0 {
            return 1.0;
        }
        let mean = all.sum / all.weight;
        let between = (all.w2m2 - 2.0 * mean * all.w2m + mean * mean * all.w2).max(0.0) / all.w2;
        between / (mean * mean)
    }
}

#[cfg(test)]
mod tests;
