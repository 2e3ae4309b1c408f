//! The division of a place's time among the stacks that end there.

use super::{Amount, Attributed, Owner, Place, Stack};
use profiler::{ClockFunction, ClockStack, FuncId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// What a stack ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Leaf {
    /// A function with probes.
    Function(FuncId),
    /// Code without probes: where its function begins.
    Code(Place),
    /// Any code without probes of that mapping.
    Mapping(u32),
}

/// A stack of functions with probes, the outermost first; empty if it has none.
type Functions = Rc<[FuncId]>;

#[derive(Debug, Default)]
pub(super) struct Division {
    /// How often a stack was seen, by its leaf.
    seen: HashMap<Leaf, BTreeMap<Functions, u64>>,
    functions: BTreeMap<FuncId, ClockFunction>,
    /// The time of code without probes that was divided, by the leaf of its stacks.
    divided: BTreeMap<Leaf, f64>,
    /// By samples, before they are rounded.
    innermost: BTreeMap<FuncId, f64>,
    stacks: BTreeMap<Functions, f64>,
    unknown: f64,
    /// Of that, the time of code that was on no stack.
    unplaced: f64,
}

/// The most stacks of a profile: the others keep only their leaf.
const MOST_STACKS: usize = 8192;

impl Division {
    pub(super) fn of(stacks: &HashMap<Stack, u64>, owner: &mut impl FnMut(Place) -> Owner) -> Self {
        let mut division = Self::default();
        for (stack, &times) in stacks {
            let Some(&place) = stack.places.first() else { continue };
            if owner(place).is_hook {
                continue;
            }
            let mut functions: Vec<FuncId> = Vec::new();
            stack.places.iter().for_each(|&place| functions.extend(owner(place).functions.iter()));
            functions.reverse();
            if functions.is_empty() && !stack.is_whole {
                // It is not used: its callers could not be found.
                continue;
            }
            let functions: Functions = functions.into();
            for leaf in leaves(&owner(place)) {
                *division.seen.entry(leaf).or_default().entry(functions.clone()).or_default() +=
                    times;
            }
        }
        division
    }

    /// Charges the time of a place.
    pub(super) fn charge(&mut self, owner: &Owner, amount: Amount) {
        let found = leaves(owner).find_map(|leaf| Some((leaf, self.seen.get(&leaf)?)));
        if let Some((leaf, stacks)) = found {
            if owner.functions.is_empty() {
                *self.divided.entry(leaf).or_default() += amount.time;
            }
            let all: u64 = stacks.values().sum();
            let shares: Vec<_> = stacks
                .iter()
                .map(|(stack, &times)| (stack.clone(), times as f64 / all as f64))
                .collect();
            for (stack, share) in shares {
                self.charge_stack(&stack, amount.times(share), owner);
            }
        } else {
            // It was never on a stack, so no caller is known.
            if owner.functions.is_empty() {
                self.unplaced += amount.time;
            }
            let alone: Functions = owner.functions.iter().rev().copied().collect();
            self.charge_stack(&alone, amount, owner);
        }
    }

    fn charge_stack(&mut self, stack: &Functions, amount: Amount, owner: &Owner) {
        let Some(&innermost) = stack.last() else {
            self.unknown += amount.time;
            return;
        };
        let function = self.functions.entry(innermost).or_insert_with(|| blank(innermost));
        function.innermost += amount.time;
        if owner.functions.is_empty() {
            function.elsewhere += amount.time;
        }
        *self.innermost.entry(innermost).or_default() += amount.samples;
        *self.stacks.entry(stack.clone()).or_default() += amount.time;
    }

    pub(super) fn finish(mut self) -> Attributed {
        let mut seen = BTreeMap::<Functions, u64>::new();
        for (leaf, stacks) in &self.seen {
            // Code without probes is counted by its mapping, too.
            if !matches!(leaf, Leaf::Mapping(_)) {
                stacks
                    .iter()
                    .for_each(|(stack, times)| *seen.entry(stack.clone()).or_default() += times);
            }
        }
        for (stack, &time) in &self.stacks {
            let times = seen.get(stack).copied().unwrap_or(0);
            for &id in &stack.iter().copied().collect::<BTreeSet<_>>() {
                let function = self.functions.entry(id).or_insert_with(|| blank(id));
                function.on_stack += time;
                function.stack_samples += times;
            }
        }
        self.deviate();
        for (id, samples) in &self.innermost {
            let function = self.functions.entry(*id).or_insert_with(|| blank(*id));
            function.samples = samples.round() as u64;
        }
        let stacks = self.stacks.into_iter();
        let stacks =
            stacks.map(|(frames, time)| (seen.get(&frames).copied().unwrap_or(0), frames, time));
        let mut stacks: Vec<ClockStack> = stacks
            .map(|(samples, frames, time)| ClockStack { frames: frames.to_vec(), time, samples })
            .collect();
        stacks.sort_by(|a, b| b.time.total_cmp(&a.time));
        shorten(&mut stacks);
        let functions = self.functions.into_values().collect();
        let (unknown, unplaced) = (self.unknown, self.unplaced);
        Attributed { functions, stacks, unknown, unplaced, ..Attributed::default() }
    }
}

impl Division {
    /// Computes the uncertainty of the division of code without probes: a caller's part of it is
    /// estimated from the few stacks that end there (Agresti and Coull 1998, for proportions). A
    /// function that calls code of the same file in other stacks may have called this code, too.
    fn deviate(&mut self) {
        let mut variances = BTreeMap::<FuncId, f64>::new();
        for (leaf, time) in &self.divided {
            let callers = self.callers(leaf);
            let all: u64 = callers.values().sum();
            let count = all as f64 + 4.0;
            for (caller, times) in callers {
                let share = (times as f64 + 2.0) / count;
                *variances.entry(caller).or_default() +=
                    time * time * share * (1.0 - share) / count;
            }
        }
        for (id, variance) in variances {
            self.functions.entry(id).or_insert_with(|| blank(id)).deviation = variance.sqrt();
        }
    }

    /// The innermost functions of the stacks that end in a leaf, with their number; 0 for those of
    /// other stacks that end in the same file.
    fn callers(&self, leaf: &Leaf) -> BTreeMap<FuncId, u64> {
        let of_file = match leaf {
            Leaf::Code(place) => self.seen.get(&Leaf::Mapping(place.mapping)),
            Leaf::Function(_) | Leaf::Mapping(_) => None,
        };
        let innermost = |stacks: &BTreeMap<Functions, u64>| -> Vec<(FuncId, u64)> {
            stacks.iter().filter_map(|(stack, &times)| Some((*stack.last()?, times))).collect()
        };
        let mut callers = BTreeMap::new();
        for (caller, _) in of_file.map(innermost).unwrap_or_default() {
            callers.insert(caller, 0);
        }
        for (caller, times) in self.seen.get(leaf).map(innermost).unwrap_or_default() {
            *callers.entry(caller).or_default() += times;
        }
        callers
    }
}

/// Stacks beyond the limit keep their last function only.
fn shorten(stacks: &mut Vec<ClockStack>) {
    let mut last = BTreeMap::<FuncId, ClockStack>::new();
    for stack in stacks.drain(stacks.len().min(MOST_STACKS)..) {
        let Some(&innermost) = stack.frames.last() else { continue };
        let sum = last
            .entry(innermost)
            .or_insert_with(|| ClockStack { frames: vec![innermost], ..ClockStack::default() });
        sum.time += stack.time;
        sum.samples += stack.samples;
    }
    stacks.extend(last.into_values());
}

fn blank(function: FuncId) -> ClockFunction {
    ClockFunction { function, ..ClockFunction::default() }
}

/// What a stack that ends at a place ends in: the nearest first.
fn leaves(owner: &Owner) -> impl Iterator<Item = Leaf> + use<> {
    let function = owner.functions.first().map(|&function| Leaf::Function(function));
    let code = [Leaf::Code(owner.code), Leaf::Mapping(owner.code.mapping)];
    let without_probes = if function.is_none() { code.as_slice() } else { &[] };
    function.into_iter().chain(without_probes.to_vec())
}
