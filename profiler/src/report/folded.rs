//! Folded stacks: what flame graphs are drawn from, one line for each stack, with microseconds.
//!
//! Calls are timed one by one, not with their stacks. So stacks are put together from who calls whom: the time of a function is shared
//! among its callers in the proportion of what was timed from there, and so on up. Where a function calls itself, over others or
//! directly, the way ends.

use crate::profile::{Function, Profile};
use std::collections::{BTreeMap, HashMap};

/// No stack is deeper.
const DEEPEST: usize = 64;
/// Stacks that take less than this part of all time are not followed further up.
const FAINTEST: f64 = 1e-5;

impl Profile {
    /// As folded stacks.
    pub fn folded(&self) -> String {
        let known: HashMap<(Option<u32>, u64), usize> = self
            .functions
            .iter()
            .enumerate()
            .map(|(at, function)| ((function.label.module, function.label.offset), at))
            .collect();
        let own = self.own_times(&known);
        let whole: f64 = own.iter().sum::<f64>().max(1.0);
        let mut lines = BTreeMap::<String, f64>::new();
        for (at, &time) in own.iter().enumerate().filter(|(_, time)| **time > 0.0) {
            self.climb(at, time, whole, &known, &mut vec![at], &mut lines);
        }
        let line = |(stack, time): (&String, &f64)| format!("{stack} {:.0}\n", time / 1e3);
        lines.iter().filter(|(_, time)| **time >= 500.0).map(line).collect()
    }

    /// Every function's own time: told, or else its total less what it was seen to call.
    fn own_times(&self, known: &HashMap<(Option<u32>, u64), usize>) -> Vec<f64> {
        let total = |function: &Function| function.total.map_or(0.0, |total| total.value);
        let mut own: Vec<f64> = self.functions.iter().map(total).collect();
        for function in &self.functions {
            for (caller, share) in function.callers(known) {
                own[caller] -= total(function) * share;
            }
        }
        let told = |(function, rest): (&Function, &f64)| function.own.map_or(*rest, |own| own.value).max(0.0);
        self.functions.iter().zip(&own).map(told).collect()
    }

    fn climb(
        &self,
        at: usize,
        time: f64,
        whole: f64,
        known: &HashMap<(Option<u32>, u64), usize>,
        stack: &mut Vec<usize>,
        lines: &mut BTreeMap<String, f64>,
    ) {
        let mut left = time;
        if time / whole > FAINTEST && stack.len() < DEEPEST {
            for (caller, share) in self.functions[at].callers(known) {
                if !stack.contains(&caller) {
                    left -= time * share;
                    stack.push(caller);
                    self.climb(caller, time * share, whole, known, stack, lines);
                    stack.pop();
                }
            }
        }
        if left > 0.0 {
            let names: Vec<String> = stack.iter().rev().map(|&at| self.functions[at].label.name.replace(';', ":")).collect();
            *lines.entry(names.join(";")).or_default() += left;
        }
    }
}

impl Function {
    /// Who has called it, of those that are known, and for which share of its time.
    pub(super) fn callers(&self, known: &HashMap<(Option<u32>, u64), usize>) -> Vec<(usize, f64)> {
        let mut callers = BTreeMap::<usize, f64>::new();
        for arc in &self.arcs {
            let caller = arc.caller.as_ref().and_then(|caller| known.get(&(caller.module, caller.offset)));
            if let Some(&caller) = caller {
                *callers.entry(caller).or_default() += arc.share;
            }
        }
        callers.into_iter().collect()
    }
}
