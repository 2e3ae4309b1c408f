//! Trees of calling contexts: a node for each function and each way to it.
//!
//! Machine code finds the node of a function that it enters among eight places of the node that it
//! is in, by the function's number; what is not there is looked up here, and put there. Nodes stay
//! where they are while machine code may know them. An instance has a tree of its own, so that no
//! two threads add to the same node; what it says is added to a sum when the instance ends, and its
//! nodes are used again.
//!
//! ```text
//!     0 ticks    8 calls    16 function    24 eight nodes that were called from here
//! ```

use super::meter::{COUNT, TICKS};
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many nodes there may be. What is called when there are no more belongs to its caller.
const NODES: usize = 1 << 20;
/// How many places a node has for those that were called from it.
pub(super) const PLACES: u32 = 8;
/// No function has this number.
const NOBODY: u64 = u64::MAX;

/// A node, as machine code sees it.
#[derive(Debug)]
#[repr(C)]
struct Node {
    ticks: AtomicU64,
    calls: AtomicU64,
    function: AtomicU64,
    called: [AtomicUsize; PLACES as usize],
}

/// Where a node has the number of its function, and where those that were called from it.
pub(super) const FUNCTION: i32 = offset_of!(Node, function) as i32;
/// See [`FUNCTION`].
pub(super) const CALLED: i32 = offset_of!(Node, called) as i32;

const _: () =
    assert!(offset_of!(Node, ticks) as i32 == TICKS && offset_of!(Node, calls) as i32 == COUNT);

/// What stands in places that nobody has.
static NONE: Node = Node {
    ticks: AtomicU64::new(0),
    calls: AtomicU64::new(0),
    function: AtomicU64::new(NOBODY),
    called: [const { AtomicUsize::new(0) }; PLACES as usize],
};

impl Node {
    fn clear(&self, function: u64) {
        self.ticks.store(0, Relaxed);
        self.calls.store(0, Relaxed);
        self.function.store(function, Relaxed);
        self.called.iter().for_each(|place| place.store(&raw const NONE as usize, Relaxed));
    }
}

/// The trees of all instances.
#[derive(Debug, Default)]
pub(super) struct Trees {
    /// Nodes, in rows that stay where they are.
    rows: Vec<Box<[Node; ROW]>>,
    numbers: HashMap<usize, u32>,
    used: usize,
    free: Vec<u32>,
    /// Those that live, by the address of their instance.
    trees: HashMap<usize, Tree>,
    ended: Sum,
    /// How many calls found no node.
    without: u64,
}

const ROW: usize = 256;

/// The tree of an instance: nodes and their parents, in the order in which they were made.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<(u32, u32)>,
    known: HashMap<(u32, u32), u32>,
}

impl Trees {
    fn node(&self, number: u32) -> &Node {
        &self.rows[number as usize / ROW][number as usize % ROW]
    }

    fn make(&mut self, function: u64) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.used >= NODES => return None,
            None => {
                if self.used == self.rows.len() * ROW {
                    self.rows.push(Box::new(
                        [const {
                            Node {
                                ticks: AtomicU64::new(0),
                                calls: AtomicU64::new(0),
                                function: AtomicU64::new(NOBODY),
                                called: [const { AtomicUsize::new(0) }; PLACES as usize],
                            }
                        }; ROW],
                    ));
                }
                self.used += 1;
                self.used as u32 - 1
            }
        };
        self.node(number).clear(function);
        let address = std::ptr::from_ref(self.node(number)) as usize;
        self.numbers.insert(address, number);
        Some(number)
    }

    fn address(&self, number: u32) -> usize {
        std::ptr::from_ref(self.node(number)) as usize
    }

    /// An instance begins: the address of its root.
    pub(super) fn begin(&mut self, instance: usize) -> usize {
        let Some(root) = self.make(NOBODY) else { return &raw const NONE as usize };
        self.trees.insert(instance, Tree { nodes: vec![(root, root)], known: HashMap::new() });
        self.address(root)
    }

    /// The node of a function that is entered from another node: their addresses. The node itself
    /// if there are too many.
    pub(super) fn child(&mut self, instance: usize, parent: usize, function: u32) -> usize {
        let Some(&from) = self.numbers.get(&parent) else { return parent };
        let known =
            self.trees.get(&instance).and_then(|tree| tree.known.get(&(from, function))).copied();
        let Some(child) = known.or_else(|| self.make(function.into())) else {
            // The caller is not called once more.
            self.without += 1;
            self.node(from).calls.fetch_sub(1, Relaxed);
            return parent;
        };
        if known.is_none()
            && let Some(tree) = self.trees.get_mut(&instance)
        {
            tree.known.insert((from, function), child);
            tree.nodes.push((child, from));
        }
        let address = self.address(child);
        self.node(from).called[(function % PLACES) as usize].store(address, Relaxed);
        address
    }

    /// An instance ends.
    pub(super) fn end(&mut self, instance: usize) {
        let Some(tree) = self.trees.remove(&instance) else { return };
        let mut ended = std::mem::take(&mut self.ended);
        self.add(&tree, &mut ended);
        self.ended = ended;
        self.free.extend(tree.nodes.iter().map(|(node, _)| node));
    }

    fn add(&self, tree: &Tree, sum: &mut Sum) {
        let mut places = HashMap::new();
        for (number, parent) in &tree.nodes {
            let node = self.node(*number);
            let (ticks, calls, function) =
                (node.ticks.load(Relaxed), node.calls.load(Relaxed), node.function.load(Relaxed));
            let place = match places.get(parent) {
                Some(parent) => sum.place(*parent, function as u32),
                None => sum.root(),
            };
            places.insert(*number, place);
            let context = &mut sum.contexts[place];
            (context.own, context.calls) = (context.own + ticks, context.calls + calls);
        }
    }

    /// The sum of all instances' trees, and how many calls found no place in them.
    pub(super) fn sum(&self) -> (Sum, u64) {
        let mut sum = self.ended.clone();
        sum.root();
        self.trees.values().for_each(|tree| self.add(tree, &mut sum));
        (sum, self.without)
    }
}

/// A context: a function, and the way to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) function: u32,
    /// Where its caller is. It comes before.
    pub(super) parent: usize,
    pub(super) depth: u32,
    pub(super) calls: u64,
    /// Ticks that it has taken itself.
    pub(super) own: u64,
}

/// Contexts, callers before those that they call; the first is outside of all functions.
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
            contexts.push(Context { function, parent, depth, calls: 0, own: 0 });
            contexts.len() - 1
        })
    }

    /// What is deeper belongs to who has called it.
    pub(super) fn cut(self, depth: u32) -> Self {
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
            }
            places.push(place);
        }
        cut
    }

    /// The ticks of each context and of all that were called from it.
    pub(super) fn nested(&self) -> Vec<u64> {
        let mut nested: Vec<u64> = self.contexts.iter().map(|context| context.own).collect();
        for i in (1..self.contexts.len()).rev() {
            nested[self.contexts[i].parent] += nested[i];
        }
        nested
    }

    /// All contexts but the outside, each followed by those that were called from it; those that
    /// took longer come first.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let nested = self.nested();
        let mut called = vec![Vec::new(); self.contexts.len()];
        (1..self.contexts.len()).for_each(|i| called[self.contexts[i].parent].push(i));
        for list in &mut called {
            // The last is taken first.
            list.sort_by_key(|i| (nested[*i], std::cmp::Reverse(self.contexts[*i].function)));
        }
        let mut waiting = called.first().cloned().unwrap_or_default();
        let mut order = Vec::new();
        while let Some(i) = waiting.pop() {
            order.push(i);
            waiting.append(&mut called[i]);
        }
        order
    }

    /// The last functions on the way to a context, so many at most, the outermost first, it
    /// included.
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

    #[test]
    fn a_function_has_a_node_for_each_way_to_it() {
        let mut trees = Trees::default();
        let root = trees.begin(1);
        let main = trees.child(1, root, 7);
        let (one, other) = (trees.child(1, main, 8), trees.child(1, main, 16));
        let deep = trees.child(1, one, 8);
        assert_eq!(trees.child(1, main, 8), one, "both have the same place in their caller");
        assert!(one != other && deep != one);
        for (node, calls) in [(main, 1), (one, 3), (other, 2), (deep, 5)] {
            let number = trees.numbers[&node];
            trees.node(number).calls.store(calls, Relaxed);
            trees.node(number).ticks.store(10 * calls, Relaxed);
        }
        for ended in [false, true] {
            let (sum, without) = trees.sum();
            let ways: Vec<_> = sum
                .in_order()
                .into_iter()
                .map(|i| (sum.way(i, 9), sum.contexts[i].calls))
                .collect();
            assert_eq!(
                ways,
                [(vec![7], 1), (vec![7, 8], 3), (vec![7, 8, 8], 5), (vec![7, 16], 2)],
                "ended: {ended}"
            );
            assert_eq!((sum.nested(), without), (vec![110, 110, 80, 20, 50], 0));
            let cut = sum.cut(2);
            let ways: Vec<_> = cut
                .in_order()
                .into_iter()
                .map(|i| (cut.way(i, 9), cut.contexts[i].calls))
                .collect();
            assert_eq!(ways, [(vec![7], 1), (vec![7, 8], 3), (vec![7, 16], 2)]);
            assert_eq!(cut.nested()[0], 110);
            trees.end(1);
        }
        assert_eq!(trees.free.len(), 5);
    }
}
