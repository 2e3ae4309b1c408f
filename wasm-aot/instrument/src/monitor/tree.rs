//! Trees of calling contexts: a node for each function and each call path to it.
//!
//! Machine code finds the node of a function that it enters in one of some places of the node that
//! it is in, by the function's number; those that share a place are chained, in the order in which
//! they were made. A node that is in none of them is made here. Nodes do not move while machine
//! code may know their addresses. An instance has a tree of its own, so that no two threads add to
//! the same node; the tree is added to a sum when the instance ends, and its nodes are used again.
//!
//! If timing the calls of a node would cost too much, it is only counted: its time belongs to the
//! nearest timed node above it. So it does not matter which of these is charged.

use super::counted_callees::CountedCallees;
use super::meter::Meter;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use wasm_aot_engine::instrument::compile::InstanceSlots;
use wasm_aot_engine::instrument::vm::context::{COUNTS, ContextNode as Node, NO_FUNCTION, PLACES};

/// The most nodes by default.
pub(super) const NODES: usize = 1 << 20;
/// Stands for all contexts for which there was no node.
pub(super) const BEYOND: u32 = NO_FUNCTION - 1;

/// An unused node.
const fn unused() -> Node {
    Node {
        ticks: AtomicU64::new(0),
        calls: AtomicU64::new(0),
        function: AtomicU32::new(NO_FUNCTION),
        timed: AtomicU32::new(0),
        next: AtomicUsize::new(0),
        entered: AtomicU64::new(0),
        spent: AtomicU64::new(0),
        samples: AtomicU64::new(0),
        counts: [const { AtomicU64::new(0) }; COUNTS as usize],
        places: [const { AtomicUsize::new(0) }; PLACES as usize],
    }
}

/// The node in places without a function, and at the ends of chains.
static NONE: Node = unused();

fn none() -> usize {
    &raw const NONE as usize
}

fn clear(node: &Node, function: u32, is_timed: bool) {
    for word in [&node.ticks, &node.calls, &node.entered, &node.spent, &node.samples] {
        word.store(0, Relaxed);
    }
    node.function.store(function, Relaxed);
    node.timed.store(is_timed.into(), Relaxed);
    node.next.store(none(), Relaxed);
    node.counts.iter().for_each(|count| count.store(0, Relaxed));
    node.places.iter().for_each(|place| place.store(none(), Relaxed));
}

/// The trees of all instances.
#[derive(Debug)]
pub(super) struct Trees {
    /// Nodes, in rows that stay where they are.
    rows: Vec<Box<[Node; ROW]>>,
    numbers: HashMap<usize, u32>,
    used: usize,
    most: usize,
    free: Vec<u32>,
    /// Whether all calls are timed, however short.
    times_all: bool,
    /// The trees of living instances, by the address of the instance.
    trees: HashMap<usize, Tree>,
    ended: Sum,
    /// How many nodes stand for all contexts of a function beyond memory.
    beyond: usize,
    /// The callees that nodes count.
    counted: CountedCallees,
}

const ROW: usize = 256;

/// More ticks than the least times any number of calls: a node that has spent them stays timed.
const TIMED_FOR_EVER: u64 = 1 << 62;

/// The tree of an instance: nodes and their parents, in the order in which they were made.
#[derive(Debug)]
struct Tree {
    slots: InstanceSlots,
    nodes: Vec<(u32, u32)>,
    /// The nodes that stand for the further contexts of a function, when there is no memory left.
    /// They are never timed. `entered` of such a node is the address of the node that it was last
    /// entered from, through others of these: so it tells which node its time belongs to.
    beyond: BTreeMap<u32, u32>,
}

impl Trees {
    /// No trees yet, with at most this many nodes, except for the roots of instances.
    pub(super) fn new(most: usize, times_all: bool) -> Self {
        let (rows, numbers, used, free, trees, ended, beyond, counted) = Default::default();
        Self { rows, numbers, used, most, free, times_all, trees, ended, beyond, counted }
    }

    /// The callees that nodes count, from now on. Code that is made for a program that runs already
    /// has none, and leaves to nodes what they have counted before.
    pub(super) fn count_callees(&mut self, counted: CountedCallees) {
        if !counted.is_empty() {
            self.counted = counted;
        }
    }

    fn node(&self, number: u32) -> &Node {
        &self.rows[number as usize / ROW][number as usize % ROW]
    }

    fn add_node(&mut self, function: u32, is_timed: bool) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            if self.used == self.rows.len() * ROW {
                self.rows.push(Box::new([const { unused() }; ROW]));
            }
            self.used += 1;
            self.used as u32 - 1
        });
        clear(self.node(number), function, is_timed);
        self.numbers.insert(self.address(number), number);
        number
    }

    fn address(&self, number: u32) -> usize {
        std::ptr::from_ref(self.node(number)) as usize
    }

    /// Begins an instance; returns the address of its root.
    pub(super) fn begin(&mut self, slots: InstanceSlots) -> usize {
        let root = self.add_node(NO_FUNCTION, true);
        let tree = Tree { slots, nodes: vec![(root, root)], beyond: BTreeMap::new() };
        self.trees.insert(slots.vmctx, tree);
        self.address(root)
    }

    /// Called when a function is entered from a node at some address for the first time: returns
    /// the address of its node, which counts the call. If there is no memory left, that is a node
    /// for all further contexts of the function.
    pub(super) fn child(
        &mut self,
        instance: usize,
        parent: usize,
        function: u32,
        is_brief: bool,
    ) -> Option<usize> {
        let from = *self.numbers.get(&parent)?;
        let tree = self.trees.get(&instance)?;
        let above = self.node(from).function.load(Relaxed);
        let is_beyond = tree.beyond.get(&above) == Some(&from);
        if is_beyond || self.used - self.free.len() - self.beyond >= self.most {
            return self.beyond_memory(instance, function, from, is_beyond);
        }
        let is_timed = self.times_all || (!is_brief && self.node(from).timed.load(Relaxed) != 0);
        let child = self.add_node(function, is_timed);
        if above == NO_FUNCTION {
            // Nothing above it is a function that its time could belong to.
            self.node(child).spent.store(TIMED_FOR_EVER, Relaxed);
        }
        let address = self.address(child);
        let mut place = &self.node(from).places[(function % PLACES) as usize];
        while let Some(taken) = self.numbers.get(&place.load(Relaxed)) {
            place = &self.node(*taken).next;
        }
        place.store(address, Relaxed);
        self.trees.get_mut(&instance)?.nodes.push((child, from));
        Some(address)
    }

    /// The address of the node of all contexts of a function for which there is no memory.
    fn beyond_memory(
        &mut self,
        instance: usize,
        function: u32,
        from: u32,
        is_beyond: bool,
    ) -> Option<usize> {
        let known = self.trees.get(&instance)?.beyond.get(&function).copied();
        let number = match known {
            Some(number) => number,
            None => {
                let number = self.add_node(function, false);
                self.beyond += 1;
                self.trees.get_mut(&instance)?.beyond.insert(function, number);
                number
            }
        };
        let owner = match is_beyond {
            true => self.node(from).entered.load(Relaxed),
            false => self.address(from) as u64,
        };
        self.node(number).entered.store(owner, Relaxed);
        Some(self.address(number))
    }

    /// Charges a node.
    fn charge(&self, address: usize, ticks: u64) {
        if let Some(number) = self.numbers.get(&address) {
            self.node(*number).ticks.fetch_add(ticks, Relaxed);
        }
    }

    /// Charges an instance's node with what is due.
    pub(super) fn charge_due(&self, meter: Meter, slots: InstanceSlots) {
        let (address, ticks) = meter.due(slots);
        self.charge(address, ticks);
        meter.charged(slots);
    }

    /// Visits the words of all living instances.
    pub(super) fn each_instance(&self, visit: impl FnMut(InstanceSlots)) {
        self.trees.values().map(|tree| tree.slots).for_each(visit);
    }

    /// An instance ends.
    pub(super) fn end(&mut self, instance: usize) {
        let Some(tree) = self.trees.remove(&instance) else { return };
        let mut ended = std::mem::take(&mut self.ended);
        self.add(&tree, (0, 0), &mut ended);
        self.ended = ended;
        self.beyond -= tree.beyond.len();
        self.free.extend(tree.nodes.iter().map(|(node, _)| node));
        self.free.extend(tree.beyond.values());
    }

    /// Adds a tree to a sum, and ticks that the node at some address is to be charged with.
    fn add(&self, tree: &Tree, due: (usize, u64), sum: &mut Sum) {
        // Of each node, its context, and that which has its time.
        let mut places = HashMap::new();
        for (number, parent) in &tree.nodes {
            let node = self.node(*number);
            let is_timed = node.timed.load(Relaxed) != 0;
            let (place, owner) = match places.get(parent) {
                Some((above, owner)) => {
                    let place = sum.place(*above, node.function.load(Relaxed));
                    (place, if is_timed { place } else { *owner })
                }
                None => (sum.root(), 0),
            };
            places.insert(*number, (place, owner));
            self.add_node_to(*number, (place, owner), due, sum);
        }
        for (function, number) in &tree.beyond {
            let from = self.node(*number).entered.load(Relaxed) as usize;
            let owner = self.numbers.get(&from).and_then(|from| places.get(from));
            let owner = owner.map_or(0, |(_, owner)| *owner);
            let beyond = sum.place(0, BEYOND);
            let place = sum.place(beyond, *function);
            self.add_node_to(*number, (place, owner), due, sum);
        }
    }

    /// Adds a node to a context, and its time to another one.
    fn add_node_to(
        &self,
        number: u32,
        (place, owner): (usize, usize),
        due: (usize, u64),
        sum: &mut Sum,
    ) {
        let node = self.node(number);
        let due = if self.address(number) == due.0 { due.1 } else { 0 };
        // A charge is the difference of two readings of the time stamp counter. On another CPU the
        // counter may be a little behind, and the difference below zero.
        let ticks = node.ticks.load(Relaxed).wrapping_add(due).cast_signed();
        let own = &mut sum.contexts[owner].own;
        *own = own.saturating_add_signed(ticks);
        let (calls, is_timed) = (node.calls.load(Relaxed), node.timed.load(Relaxed) != 0);
        let context = &mut sum.contexts[place];
        context.calls += calls;
        context.timed += node.samples.load(Relaxed);
        context.is_counted |= !is_timed && calls > 0;
        for (callee, word) in self.counted.of_caller(node.function.load(Relaxed)) {
            let calls = node.counts[word as usize].load(Relaxed);
            if calls > 0 {
                let callee = sum.place(place, callee);
                sum.contexts[callee].calls += calls;
                sum.contexts[callee].is_counted = true;
            }
        }
    }

    /// The sum of all instances' trees at the moment, and how many calls have no node of their own.
    pub(super) fn sum(&self, meter: Option<Meter>) -> (Sum, u64) {
        let mut sum = self.ended.clone();
        sum.root();
        for tree in self.trees.values() {
            let due = meter.map_or((0, 0), |meter| meter.due(tree.slots));
            self.add(tree, due, &mut sum);
        }
        let without = sum.calls_beyond_memory();
        (sum, without)
    }
}

/// A context: a function, and the call path to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) function: u32,
    /// The place of its caller, which comes before it.
    pub(super) parent: usize,
    pub(super) depth: u32,
    pub(super) calls: u64,
    /// Its self time in ticks, as far as its calls were timed.
    pub(super) own: u64,
    /// How many of its calls were timed.
    pub(super) timed: u64,
    /// Whether calls of it were only counted, so that their time is its caller's.
    pub(super) is_counted: bool,
}

/// Contexts, callers before callees; the first is outside of all functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) contexts: Vec<Context>,
    known: HashMap<(usize, u32), usize>,
}

impl Sum {
    fn root(&mut self) -> usize {
        if self.contexts.is_empty() {
            self.contexts.push(Context::default());
        }
        0
    }

    fn place(&mut self, parent: usize, function: u32) -> usize {
        let (depth, contexts) = (self.contexts[parent].depth + 1, &mut self.contexts);
        *self.known.entry((parent, function)).or_insert_with(|| {
            contexts.push(Context { function, parent, depth, ..Context::default() });
            contexts.len() - 1
        })
    }

    /// How many calls are below [`BEYOND`].
    fn calls_beyond_memory(&self) -> u64 {
        let beyond = self.contexts.iter().position(|context| context.function == BEYOND);
        // Callers come before callees.
        let mut below = vec![false; self.contexts.len()];
        for (at, context) in self.contexts.iter().enumerate().skip(1) {
            below[at] = Some(context.parent) == beyond || below[context.parent];
        }
        let calls = self.contexts.iter().zip(below).filter(|(_, is_below)| *is_below);
        calls.map(|(context, _)| context.calls).sum()
    }

    /// Deeper frames are folded into their caller.
    pub(super) fn cut(&self, depth: u32) -> Self {
        let mut cut = Self::default();
        let mut places = Vec::with_capacity(self.contexts.len());
        for (i, context) in self.contexts.iter().enumerate() {
            let place = match (i, context.depth > depth) {
                (0, _) => cut.root(),
                (_, true) => places[context.parent],
                (_, false) => cut.place(places[context.parent], context.function),
            };
            cut.contexts[place].own += context.own;
            if context.depth <= depth {
                cut.contexts[place].calls += context.calls;
                cut.contexts[place].timed += context.timed;
                cut.contexts[place].is_counted |= context.is_counted;
            }
            places.push(place);
        }
        cut
    }

    /// The ticks of each context including its callees.
    pub(super) fn totals(&self) -> Vec<u64> {
        let mut totals: Vec<u64> = self.contexts.iter().map(|context| context.own).collect();
        for i in (1..self.contexts.len()).rev() {
            totals[self.contexts[i].parent] += totals[i];
        }
        totals
    }

    /// All contexts except the outside, each followed by its callees, those that took longer by
    /// `totals` first.
    pub(super) fn in_order(&self, totals: &[u64]) -> Vec<usize> {
        let mut called = vec![Vec::new(); self.contexts.len()];
        (1..self.contexts.len()).for_each(|i| called[self.contexts[i].parent].push(i));
        for list in &mut called {
            // The last is taken first.
            list.sort_by_key(|i| {
                let context = &self.contexts[*i];
                (totals[*i], context.calls, std::cmp::Reverse(context.function))
            });
        }
        let mut waiting = called.first().cloned().unwrap_or_default();
        let mut order = Vec::new();
        while let Some(i) = waiting.pop() {
            order.push(i);
            waiting.append(&mut called[i]);
        }
        order
    }

    /// The last functions on the path to a context, at most `most`, the outermost first, including
    /// its own.
    pub(super) fn way(&self, context: usize, most: usize) -> Vec<u32> {
        let mut way = Vec::new();
        let mut at = context;
        while at != 0 && way.len() < most {
            way.push(self.contexts[at].function);
            at = self.contexts[at].parent;
        }
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of a function's node in the chain of one of the places of a node.
    fn known(trees: &Trees, parent: usize, function: u32) -> Option<usize> {
        let mut at =
            trees.node(trees.numbers[&parent]).places[(function % PLACES) as usize].load(Relaxed);
        loop {
            let node = trees.node(*trees.numbers.get(&at)?);
            if node.function.load(Relaxed) == function {
                return Some(at);
            }
            at = node.next.load(Relaxed);
        }
    }

    fn child(trees: &mut Trees, parent: usize, function: u32) -> usize {
        let child = trees.child(1, parent, function, false).expect("the instance has a tree");
        assert_eq!(known(trees, parent, function), Some(child), "it was put there");
        child
    }

    fn set(trees: &Trees, node: usize, calls: u64, is_timed: bool) {
        let node = trees.node(trees.numbers[&node]);
        node.calls.store(calls, Relaxed);
        node.ticks.store(10 * calls, Relaxed);
        node.timed.store(is_timed.into(), Relaxed);
    }

    fn ways(sum: &Sum) -> Vec<(Vec<u32>, u64)> {
        let order = sum.in_order(&sum.totals()).into_iter();
        order.map(|i| (sum.way(i, 9), sum.contexts[i].calls)).collect()
    }

    #[test]
    fn a_function_has_a_node_for_each_way_to_it() {
        let mut trees = Trees::new(NODES, false);
        let root = trees.begin(InstanceSlots::of_vmctx(1));
        let main = child(&mut trees, root, 7);
        let (one, other) = (child(&mut trees, main, 8), child(&mut trees, main, 24));
        let deep = child(&mut trees, one, 8);
        assert_eq!(known(&trees, main, 8), Some(one), "both have the same place in their caller");
        assert!(one != other && deep != one);
        for (node, calls) in [(main, 1), (one, 3), (other, 2), (deep, 5)] {
            set(&trees, node, calls, true);
        }
        for ended in [false, true] {
            let (sum, without) = trees.sum(None);
            assert_eq!(
                ways(&sum),
                [(vec![7], 1), (vec![7, 8], 3), (vec![7, 8, 8], 5), (vec![7, 24], 2)],
                "ended: {ended}"
            );
            assert_eq!((sum.totals(), without), (vec![110, 110, 80, 20, 50], 0));
            let cut = sum.cut(2);
            assert_eq!(ways(&cut), [(vec![7], 1), (vec![7, 8], 3), (vec![7, 24], 2)]);
            assert_eq!(cut.totals()[0], 110);
            trees.end(1);
        }
        assert_eq!(trees.free.len(), 5);
    }

    #[test]
    fn a_charge_below_zero_is_taken_off_and_no_time_is_negative() {
        let mut trees = Trees::new(NODES, false);
        let root = trees.begin(InstanceSlots::of_vmctx(1));
        let main = child(&mut trees, root, 1);
        let (counted, timed) = (child(&mut trees, main, 2), child(&mut trees, main, 3));
        for (node, is_timed) in [(main, true), (counted, false), (timed, true)] {
            set(&trees, node, 1, is_timed);
        }
        trees.charge(counted, 13u64.wrapping_neg());
        trees.charge(timed, 13u64.wrapping_neg());
        let (sum, _) = trees.sum(None);
        let own: Vec<_> = sum.contexts.iter().map(|c| (c.function, c.own)).collect();
        assert_eq!(own[1..], [(1, 7), (2, 0), (3, 0)]);
        trees.end(1);
    }

    #[test]
    fn the_time_of_what_is_only_counted_is_that_of_the_nearest_above_that_is_timed() {
        let mut trees = Trees::new(NODES, false);
        let root = trees.begin(InstanceSlots::of_vmctx(1));
        let main = child(&mut trees, root, 1);
        let counted = child(&mut trees, main, 2);
        let (timed, brief) = (child(&mut trees, counted, 3), child(&mut trees, counted, 4));
        for (node, calls, is_timed) in
            [(main, 1, true), (counted, 2, false), (timed, 3, true), (brief, 4, false)]
        {
            set(&trees, node, calls, is_timed);
        }
        let (sum, _) = trees.sum(None);
        let own: Vec<_> = sum.contexts.iter().map(|c| (c.function, c.own, c.is_counted)).collect();
        assert_eq!(own[1..], [(1, 70, false), (2, 0, true), (3, 30, false), (4, 0, true)]);
        // What is made below a counted one is counted.
        let below = child(&mut trees, counted, 5);
        assert_eq!(trees.node(trees.numbers[&below]).timed.load(Relaxed), 0);
    }

    #[test]
    fn contexts_beyond_room_are_counted_by_function() {
        let mut trees = Trees::new(3, false);
        let root = trees.begin(InstanceSlots::of_vmctx(1));
        let main = child(&mut trees, root, 7);
        let called = child(&mut trees, main, 8);
        let enter = |trees: &mut Trees, from, function, calls: u64| {
            let node = trees.child(1, from, function, false).expect("the instance has a tree");
            trees.node(trees.numbers[&node]).calls.fetch_add(calls, Relaxed);
            node
        };
        let beyond = enter(&mut trees, called, 8, 3);
        assert_eq!(enter(&mut trees, beyond, 8, 1), beyond, "one node for all contexts");
        let other = enter(&mut trees, beyond, 9, 1);
        trees.charge(other, 5);
        for ended in [false, true] {
            let (sum, without) = trees.sum(None);
            assert_eq!(without, 5, "ended: {ended}");
            let beyond = [(vec![BEYOND], 0), (vec![BEYOND, 8], 4), (vec![BEYOND, 9], 1)];
            assert_eq!(ways(&sum)[2..], beyond);
            assert_eq!(sum.contexts.iter().map(|it| it.own).sum::<u64>(), 5);
            assert_eq!(sum.contexts[2].own, 5, "the time is that of the last context with memory");
            trees.end(1);
        }
        assert_eq!((trees.free.len(), trees.beyond), (5, 0));
        // Further instances begin all the same.
        let other = trees.begin(InstanceSlots::of_vmctx(2));
        assert!(trees.numbers.contains_key(&other));
    }
}
