//! Merging: adds up the profiles of several processes, function by function. The sum of reconciled
//! profiles is made consistent again: functions whose callers are known in one process only have
//! unknown callers in the sum.

use crate::arguments::Arguments;
use crate::histogram::bounds;
use crate::profile::{Arc, Exemplar, Function, Header, Label, Module, Profile, Recorded, Stack};
use crate::timed::{mean_of, sum};
use crate::{FuncId, Histogram, Spent};
use std::collections::{BTreeMap, HashMap};

impl Profile {
    /// The sum of some profiles. Functions are matched by name, module and offset.
    ///
    /// # Panics
    /// If there are no profiles.
    #[must_use]
    pub fn merge(profiles: &[Self]) -> Self {
        let [first, rest @ ..] = profiles else { panic!("there is at least one profile to merge") };
        let mut merged = first.clone();
        merged.renumber(|at| FuncId(at as u32 + 1));
        for other in rest {
            merged.add(other);
        }
        merged.restore_consistency();
        // Files may contain anything; the sum of possible profiles must be possible.
        let are_possible = || profiles.iter().all(|profile| profile.impossible().is_empty());
        debug_assert!(
            !are_possible() || merged.impossible().is_empty(),
            "{:?}",
            merged.impossible()
        );
        merged
    }

    /// Replaces the IDs of functions, wherever they occur, by IDs of their positions.
    fn renumber(&mut self, number: impl Fn(usize) -> FuncId) {
        let numbers: HashMap<FuncId, FuncId> = self
            .functions
            .iter()
            .enumerate()
            .map(|(at, function)| (function.id, number(at)))
            .collect();
        for function in &mut self.functions {
            function.id = numbers[&function.id];
            for inside in function.exemplars.iter_mut().flat_map(|one| &mut one.inside) {
                // The ID of a function that was left out of the file has no meaning.
                inside.function = numbers.get(&inside.function).copied().unwrap_or_default();
            }
        }
    }

    fn add(&mut self, other: &Self) {
        let renumbered: Vec<u32> =
            other.modules.iter().map(|module| self.number_of(module)).collect();
        let relabel = |label: &Label| Label {
            module: label.module.and_then(|module| renumbered.get(module as usize).copied()),
            ..label.clone()
        };
        let mut known: BTreeMap<Label, usize> = self
            .functions
            .iter()
            .enumerate()
            .map(|(at, function)| (place(&function.label), at))
            .collect();
        let mut next = self.functions.len()..;
        let mut position = |function: &Function| {
            let known = known.entry(place(&relabel(&function.label)));
            *known.or_insert_with(|| next.next().unwrap_or(usize::MAX))
        };
        let positions: Vec<usize> = other.functions.iter().map(&mut position).collect();
        let mut theirs = other.clone();
        theirs.count_ticks_as(&self.header);
        theirs.renumber(|at| FuncId(positions[at] as u32 + 1));
        for (mut function, &at) in theirs.functions.into_iter().zip(&positions) {
            function.label = relabel(&function.label);
            for arc in &mut function.arcs {
                arc.caller = arc.caller.as_ref().map(relabel);
            }
            match self.functions.get_mut(at) {
                Some(known) => known.add(&function),
                None => self.functions.push(function),
            }
        }
        self.add_stacks(&other.stacks, &positions);
        self.add_header(other);
    }

    /// Converts histograms of another machine to this machine's ticks; histograms are in ticks, and
    /// contain the time that measuring adds to a call. If the clocks are nearly equal, buckets stay
    /// the same.
    fn count_ticks_as(&mut self, wanted: &Header) {
        let Header { hz, bias, .. } = self.header;
        if (hz, bias) == (wanted.hz, wanted.bias) {
            return;
        }
        for function in &mut self.functions {
            let mut counted = Histogram::default();
            for &(bucket, weight) in function.histogram.buckets() {
                let (first, last) = bounds(bucket);
                let seconds = ((first as f64 + last as f64) / 2.0 - bias) / hz;
                let ticks = (seconds * wanted.hz + wanted.bias).round().max(0.0);
                counted.add(crate::bucket(ticks as u64), weight);
            }
            function.histogram = counted;
        }
    }

    fn add_stacks(&mut self, theirs: &[Stack], positions: &[usize]) {
        let mut known: HashMap<Vec<u32>, usize> =
            self.stacks.iter().enumerate().map(|(at, stack)| (stack.frames.clone(), at)).collect();
        for stack in theirs {
            let frames = stack.frames.iter().filter_map(|frame| positions.get(*frame as usize));
            let frames: Vec<u32> = frames.map(|&at| at as u32).collect();
            match known.get(&frames) {
                Some(&at) => {
                    self.stacks[at].time += stack.time;
                    self.stacks[at].samples += stack.samples;
                }
                None => {
                    known.insert(frames.clone(), self.stacks.len());
                    self.stacks.push(Stack { frames, ..stack.clone() });
                }
            }
        }
    }

    fn add_header(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.header, &other.header);
        for arguments in &theirs.arguments {
            let is_same = |known: &&mut Arguments| {
                known.function == arguments.function && known.what == arguments.what
            };
            match mine.arguments.iter_mut().find(is_same) {
                Some(known) => known.add(arguments),
                None => mine.arguments.push(arguments.clone()),
            }
        }
        mine.add_notes(theirs);
        mine.processes += theirs.processes;
        // If it is unknown for one, it is unknown for the sum.
        mine.processor = if mine.processor.min(theirs.processor) > 0.0 {
            mine.processor + theirs.processor
        } else {
            0.0
        };
        mine.wall |= theirs.wall;
        mine.system += theirs.system;
        mine.unknown += theirs.unknown;
        mine.clock_samples += theirs.clock_samples;
        mine.floor = mine.floor.max(theirs.floor);
        mine.null = mine.null.max(theirs.null);
        mine.threads =
            if mine.threads.min(theirs.threads) == 0 { 0 } else { mine.threads + theirs.threads };
        if mine.recorded.is_some() || theirs.recorded.is_some() {
            // A profile that was recorded all the time has one span.
            let spans = |header: &Header| header.recorded.as_ref().map_or(1, |all| all.spans);
            let spans = spans(mine) + spans(theirs);
            mine.recorded = Some(Recorded { spans, first: Vec::new() });
        }
        mine.seconds = mine.seconds.max(theirs.seconds);
        mine.started = mine.started.min(theirs.started);
        let step = theirs.step as f64 / theirs.hz * mine.hz;
        mine.step = mine.step.max(step.round() as u64);
        if !mine.machine.split("; ").any(|machine| machine == theirs.machine) {
            mine.machine = format!("{}; {}", mine.machine, theirs.machine);
        }
        mine.spent = Spent {
            probes: mine.spent.probes.max(theirs.spent.probes),
            toggles: mine.spent.toggles + theirs.spent.toggles,
            samples: mine.spent.samples + theirs.spent.samples,
            counting: mine.spent.counting + theirs.spent.counting,
            switching: mine.spent.switching + theirs.spent.switching,
            agent: mine.spent.agent + theirs.spent.agent,
            lost: mine.spent.lost + theirs.spent.lost,
        };
        let differ = std::mem::discriminant(&mine.clock) != std::mem::discriminant(&theirs.clock);
        if differ {
            mine.note_sum(
                "the processes had different clocks: time that a clock did not measure is [unknown]",
            );
        }
    }

    fn number_of(&mut self, module: &Module) -> u32 {
        let at = self.modules.iter().position(|known| known == module).unwrap_or_else(|| {
            self.modules.push(module.clone());
            self.modules.len() - 1
        });
        at as u32
    }
}

/// The key by which functions are matched.
fn place(label: &Label) -> Label {
    Label { file: None, line: None, ..label.clone() }
}

/// The most slow calls of a function in a sum.
const EXEMPLARS: usize = 5;

impl Function {
    fn add(&mut self, other: &Self) {
        let calls = [self.calls.value, other.calls.value];
        self.unite_arcs(other);
        self.calls = self.calls.plus(&other.calls);
        self.samples += other.samples;
        self.lost += other.lost;
        self.min = extreme(self.min, other.min, f64::min);
        self.max = extreme(self.max, other.max, f64::max);
        self.total = sum(self.total, other.total);
        self.own = sum(self.own, other.own);
        self.cpu = sum(self.cpu, other.cpu);
        self.wall = sum(self.wall, other.wall);
        self.mean = mean_of([self.mean, other.mean], calls);
        self.timed = self.timed.plus(&other.timed, calls);
        self.unseen |= other.unseen;
        self.by_runtime |= other.by_runtime;
        self.histogram.merge(&other.histogram);
        self.exemplars.extend(other.exemplars.iter().cloned());
        self.exemplars.sort_by(|a: &Exemplar, b| b.time.total_cmp(&a.time));
        self.exemplars.truncate(EXEMPLARS);
    }

    /// Adds the callers of the other. If the callers of one are unknown, those of the sum are.
    fn unite_arcs(&mut self, other: &Self) {
        let (mine, theirs) = (self.samples as f64, other.samples as f64);
        let all = (mine + theirs).max(1.0);
        let unknown =
            |function: &Self| Arc { site: 0, samples: function.samples, share: 1.0, caller: None };
        let complete = |function: &Self| match function.arcs.is_empty() {
            true => vec![unknown(function)],
            false => function.arcs.clone(),
        };
        let added = complete(other);
        self.arcs = complete(self);
        self.arcs.iter_mut().for_each(|arc| arc.share *= mine / all);
        for arc in added {
            let share = arc.share * theirs / all;
            match self
                .arcs
                .iter_mut()
                .find(|known| known.site == arc.site && known.caller == arc.caller)
            {
                Some(known) => {
                    known.samples += arc.samples;
                    known.share += share;
                }
                None => self.arcs.push(Arc { share, ..arc }),
            }
        }
        self.arcs.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.site.cmp(&b.site)));
    }
}

fn extreme(a: Option<f64>, b: Option<f64>, choose: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(choose(a, b)),
        (one, other) => one.or(other),
    }
}
