//! Stacks with their self times: the data of folded stacks, pprof and flame graphs.
//!
//! A function's self time is the one that the table prints, and every format distributes exactly
//! that. It is distributed in proportion over the stacks of the clock with the function innermost.
//! If there are none, it is distributed over callers, in proportion to the timed calls from there.
//! Time in the kernel and time whose function is not known are stacks of one frame. So all samples
//! together are the CPU time.
//!
//! If no self time is known at all, it is estimated from totals: a function's total minus that of
//! its callees. Estimates are limited by the CPU time.

use super::share::{self, Shares};
use crate::profile::{Function, Label, Profile};
use std::collections::{BTreeMap, HashMap};

/// The most frames of a stack that is composed from callers.
const DEEPEST: usize = 64;
/// Stacks with a smaller share of all time are not extended by further callers.
const FAINTEST: f64 = 1e-5;

/// A frame: a function, by its position in the profile, or time that belongs to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Frame {
    Function(usize),
    Other(&'static str),
}

/// Self times by stack, in nanoseconds; the outermost frame first.
pub(crate) type Stacks = BTreeMap<Vec<Frame>, f64>;

impl Profile {
    /// The CPU time of every stack.
    pub(crate) fn self_times(&self) -> Stacks {
        let callers = self.callers();
        let (own, others) = self.distributed(&callers);
        let whole: f64 = own.iter().sum::<f64>().max(1.0);
        let seen = self.stacks_by_innermost();
        let mut stacks = Stacks::new();
        for (at, &time) in own.iter().enumerate().filter(|(_, time)| **time > 0.0) {
            match seen.get(&at) {
                Some(ways) => {
                    let all: f64 = ways.iter().map(|(_, weight)| weight).sum();
                    for (frames, weight) in ways {
                        let frames = frames.iter().map(|&frame| Frame::Function(frame)).collect();
                        *stacks.entry(frames).or_default() += time * weight / all;
                    }
                }
                None => climb(at, time, whole, &callers, &mut vec![at], &mut stacks),
            }
        }
        for (name, time) in others {
            *stacks.entry(vec![Frame::Other(name)]).or_default() += time;
        }
        stacks
    }

    /// The clock's stacks by their innermost function, with their weights.
    fn stacks_by_innermost(&self) -> HashMap<usize, Vec<(Vec<usize>, f64)>> {
        let mut seen = HashMap::<usize, Vec<(Vec<usize>, f64)>>::new();
        for stack in &self.stacks {
            let frames: Vec<usize> = stack.frames.iter().map(|&frame| frame as usize).collect();
            let sound = stack.time.is_finite()
                && stack.time > 0.0
                && frames.iter().all(|&frame| frame < self.functions.len());
            if let Some(&innermost) = frames.last().filter(|_| sound) {
                seen.entry(innermost).or_default().push((frames, stack.time));
            }
        }
        seen
    }

    /// The self time of every function, distributed over stacks; and the time of no function.
    pub(crate) fn distributed(
        &self,
        callers: &[Vec<Caller>],
    ) -> (Vec<f64>, Vec<(&'static str, f64)>) {
        if let Some(shares) = Shares::of(self) {
            return (
                self.functions.iter().map(share::own_time).collect(),
                shares.others().collect(),
            );
        }
        let total = |function: &Function| {
            function.total.filter(crate::Figure::is_sound).map_or(0.0, |total| total.value.max(0.0))
        };
        let mut own: Vec<f64> = self.functions.iter().map(total).collect();
        for (at, function) in self.functions.iter().enumerate() {
            for caller in callers[at].iter().filter(|caller| caller.function != at) {
                own[caller.function] -= total(function) * caller.share;
            }
        }
        own.iter_mut().for_each(|own| *own = own.max(0.0));
        let (sum, processor) = (own.iter().sum::<f64>(), self.header.processor.max(0.0) * 1e9);
        if !(processor.is_finite() && processor > 0.0) {
            return (own, Vec::new());
        }
        if sum > processor {
            own.iter_mut().for_each(|own| *own *= processor / sum);
        }
        let rest = (processor - sum).max(0.0);
        (own, (rest >= 1.0).then_some((share::UNKNOWN, rest)).into_iter().collect())
    }

    /// The name of a frame.
    pub(crate) fn frame_name(&self, frame: Frame) -> &str {
        match frame {
            Frame::Function(at) => &self.functions[at].label.name,
            Frame::Other(name) => name,
        }
    }
}

fn climb(
    at: usize,
    time: f64,
    whole: f64,
    callers: &[Vec<Caller>],
    stack: &mut Vec<usize>,
    stacks: &mut Stacks,
) {
    let mut left = time;
    if time / whole > FAINTEST && stack.len() < DEEPEST {
        for caller in callers[at].iter().filter(|caller| caller.share > 0.0) {
            if !stack.contains(&caller.function) {
                let part = time * caller.share;
                left -= part;
                stack.push(caller.function);
                climb(caller.function, part, whole, callers, stack, stacks);
                stack.pop();
            }
        }
    }
    // The rest belongs to unknown callers, or to callers that are in the stack already.
    if left > time * 1e-9 {
        *stacks.entry(stack.iter().rev().map(|&at| Frame::Function(at)).collect()).or_default() +=
            left;
    }
}

/// One caller of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// Its position in the profile.
    pub(crate) function: usize,
    /// Timed calls from there.
    pub(crate) samples: u64,
    /// Their share of the callee's time.
    pub(crate) share: f64,
}

impl Profile {
    /// The callers of every function that are in the profile.
    pub(crate) fn callers(&self) -> Vec<Vec<Caller>> {
        let place = |label: &Label| {
            (label.module, label.offset, label.module.is_none().then(|| label.name.clone()))
        };
        let known: HashMap<_, usize> = self
            .functions
            .iter()
            .enumerate()
            .map(|(at, function)| (place(&function.label), at))
            .collect();
        let callers = self.functions.iter().map(|function| {
            let mut callers = BTreeMap::<usize, Caller>::new();
            for arc in &function.arcs {
                let caller = arc.caller.as_ref().and_then(|caller| known.get(&place(caller)));
                if let Some(&function) = caller {
                    let caller = callers.entry(function).or_insert(Caller {
                        function,
                        samples: 0,
                        share: 0.0,
                    });
                    caller.samples += arc.samples;
                    caller.share += if arc.share.is_finite() { arc.share.max(0.0) } else { 0.0 };
                }
            }
            // A file may contain anything: the shares of callers must not exceed all of a
            // function's time.
            let all: f64 = callers.values().map(|caller| caller.share).sum::<f64>().max(1.0);
            callers
                .into_values()
                .map(|caller| Caller { share: caller.share / all, ..caller })
                .collect()
        });
        callers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up::{program, program_with_stacks};

    fn sum(stacks: &Stacks) -> f64 {
        stacks.values().sum()
    }

    /// Self and total of a function, as a reader of the stacks computes them, in milliseconds.
    fn read(profile: &Profile, stacks: &Stacks, name: &str) -> (f64, f64) {
        let named = |frame: &Frame| profile.frame_name(*frame) == name;
        let add = |wanted: &dyn Fn(&[Frame]) -> bool| {
            stacks
                .iter()
                .filter(|(frames, _)| wanted(frames))
                .map(|(_, time)| time / 1e6)
                .sum::<f64>()
        };
        (add(&|frames| frames.last().is_some_and(named)), add(&|frames| frames.iter().any(named)))
    }

    #[test]
    fn samples_sum_to_the_processor_time_and_self_is_that_of_the_table() {
        for profile in [program(), program_with_stacks()] {
            let stacks = profile.self_times();
            assert!((sum(&stacks) - 1e9).abs() < 1.0, "{stacks:?}");
            for function in &profile.functions {
                let (own, total) = read(&profile, &stacks, &function.label.name);
                assert!(
                    (own * 1e6 - share::own_time(function)).abs() < 1.0,
                    "{}",
                    function.label.name
                );
                assert!(
                    (total * 1e6 - function.total.unwrap().value).abs() < 15e6,
                    "{}: {total}",
                    function.label.name
                );
            }
            assert_eq!(read(&profile, &stacks, share::SYSTEM).0.round(), 150.0);
            assert_eq!(read(&profile, &stacks, share::UNKNOWN).0.round(), 100.0);
        }
    }

    #[test]
    fn where_the_clock_has_seen_stacks_these_are_taken() {
        let profile = program_with_stacks();
        let stacks = profile.self_times();
        let by_serve = [0, 2, 3].map(Frame::Function).to_vec();
        assert!((stacks[&by_serve] - 400e6 * 110.0 / 400.0).abs() < 1.0, "{stacks:?}");
    }

    #[test]
    fn without_self_times_what_is_guessed_is_no_more_than_the_processor_time() {
        let mut profile = program();
        profile.functions.iter_mut().for_each(|function| {
            function.own = None;
            function.total = function.total.map(|total| total.scaled(20.0));
        });
        assert!((sum(&profile.self_times()) - 1e9).abs() < 1.0);
        profile.header.processor = 30.0;
        let stacks = profile.self_times();
        assert!((sum(&stacks) - 30e9).abs() < 10.0, "{stacks:?}");
        assert!(stacks.contains_key(&vec![Frame::Other(share::UNKNOWN)]));
    }

    #[test]
    fn recursion_ends_the_way_up_and_loses_nothing() {
        let mut profile = program();
        crate::report::made_up::called(&mut profile, 1, 3, 50, 0.5);
        crate::report::made_up::called(&mut profile, 3, 3, 50, 0.5);
        assert!((sum(&profile.self_times()) - 1e9).abs() < 1.0);
    }
}
