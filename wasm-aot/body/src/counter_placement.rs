//! Counter placement: the edges that are counted are those outside of a spanning tree of the graph,
//! which contains the edges that are executed most often (Knuth and Stevenson, *Optimal measurement
//! points for program frequency counts*, BIT 13, 1973; Ball and Larus, *Optimally profiling and
//! tracing programs*, TOPLAS 16, 1994).
//!
//! An edge from a block to itself is not in any tree. To count it, extra code would be needed on
//! the edge, in the smallest of loops: instead the block is counted, at the beginning of the loop;
//! the edge's count is the block's count less those of all other edges into it.

use crate::graph::{Graph, Way};
use std::collections::HashMap;

/// Identifies an edge for the compiler: the instruction, and the way by which control leaves it.
pub(crate) type Key = (u32, Way);

/// The edges of a function that are counted, and the number of each counter.
#[derive(Clone, Debug, Default)]
pub struct CounterPlacement {
    counters: HashMap<Key, u32>,
    /// Blocks that are counted instead of edges to themselves, by their beginnings.
    turns: HashMap<u32, u32>,
    /// The edges, by the numbers of their counters.
    edges: Vec<usize>,
    /// Loops: after the counters of edges, each loop has a counter of OSR entries from another
    /// variant of the code, and one of OSR exits.
    loops: Vec<u32>,
}

impl CounterPlacement {
    /// Chooses the edges of a graph to be counted; their counters are numbered from 0 in the order
    /// of edges.
    pub fn of(graph: &Graph) -> Self {
        let edges = counted(graph);
        let (mut counters, mut turns) = (HashMap::new(), HashMap::new());
        for (number, edge) in (0..).zip(&edges) {
            let edge = &graph.edges[*edge];
            let start = graph.blocks[edge.to as usize].start;
            match edge.from == edge.to
                && graph.loops.binary_search(&start).is_ok()
                && !turns.contains_key(&start)
            {
                true => turns.insert(start, number),
                false => counters.insert((edge.at, edge.way), number),
            };
        }
        Self { counters, turns, edges, loops: graph.loops.clone() }
    }

    /// The counter of the block that begins with the loop at `at`, if it is counted instead of an
    /// edge.
    pub fn turn(&self, at: u32) -> Option<u32> {
        self.turns.get(&at).copied()
    }

    /// The edges whose counters hold how often their blocks were entered.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.turns.values().map(|counter| (self.edges[*counter as usize], *counter))
    }

    /// The counter of OSR entries from another variant at the loop at `at`.
    pub fn coming(&self, at: u32) -> Option<u32> {
        let loops = self.loops.binary_search(&at).ok()?;
        Some((self.edges.len() + 2 * loops) as u32)
    }

    /// The counter of OSR exits to another variant.
    pub fn going(&self, at: u32) -> Option<u32> {
        self.coming(at).map(|counter| counter + 1)
    }

    /// The OSR entries and exits of each loop, from the counters of the function.
    pub(crate) fn crossed<'a>(
        &'a self,
        counters: &'a [u64],
    ) -> impl Iterator<Item = (u32, u64, u64)> + 'a {
        let pairs = counters.get(self.edges.len()..).unwrap_or_default().chunks_exact(2);
        self.loops.iter().zip(pairs).map(|(at, pair)| (*at, pair[0], pair[1]))
    }

    /// The counter of an edge, if it is counted.
    pub fn counter(&self, at: u32, way: Way) -> Option<u32> {
        self.counters.get(&(at, way)).copied()
    }

    /// The approximate number of additions to counters.
    pub fn cost(&self, graph: &Graph) -> u64 {
        self.edges.iter().map(|edge| often(graph.edges[*edge].depth)).sum()
    }

    /// How many counters there are.
    pub fn counters(&self) -> u32 {
        (self.edges.len() + 2 * self.loops.len()) as u32
    }

    /// The counted edges, in the order of their counters.
    pub(crate) fn edges(&self) -> &[usize] {
        &self.edges
    }
}

/// The approximate number of executions of code in `depth` nested loops, for each execution of the
/// function.
pub fn often(depth: u32) -> u64 {
    8u64.pow(depth.min(16))
}

/// The counted edges, in order.
fn counted(graph: &Graph) -> Vec<usize> {
    let mut order: Vec<usize> = (0..graph.edges.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(worth(graph, *index)), *index));
    let mut sets = Sets((0..graph.blocks.len() as u32).collect());
    let mut counted: Vec<usize> = order
        .into_iter()
        .filter(|index| {
            let edge = &graph.edges[*index];
            // Only these edges record entries into the middle from outside, and exits by throwing.
            matches!(edge.way, Way::Catch(_) | Way::Thrown) || !sets.join(edge.from, edge.to)
        })
        .collect();
    counted.sort_unstable();
    counted
}

/// The gain of not counting an edge.
fn worth(graph: &Graph, index: usize) -> (bool, u32, bool) {
    let edge = &graph.edges[index];
    // A tail call may trap after its counter: exits are never counted. (They all lead to one block,
    // so they do not close a cycle.)
    let exit = edge.way == Way::Exit;
    // A branch that is counted needs extra code on the edge.
    let jumps = matches!(edge.way, Way::Taken | Way::Case(_));
    (exit, edge.depth, jumps)
}

/// Sets of blocks that are connected.
struct Sets(Vec<u32>);

impl Sets {
    fn root(&mut self, mut block: u32) -> u32 {
        while self.0[block as usize] != block {
            let parent = self.0[block as usize];
            self.0[block as usize] = self.0[parent as usize];
            block = self.0[block as usize];
        }
        block
    }

    /// Connects two blocks; returns whether they were not connected before.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a as usize] = b;
        a != b
    }
}
