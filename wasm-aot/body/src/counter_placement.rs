//! Counter placement: the edges that are counted are those outside of a spanning tree of the graph,
//! in which lie the edges that are executed most often (Knuth and Stevenson, *Optimal measurement
//! points for program frequency counts*, BIT 13, 1973; Ball and Larus, *Optimally profiling and
//! tracing programs*, TOPLAS 16, 1994).
//!
//! An edge from a block to itself lies in no tree. It would need code of its own between here and
//! there, in the smallest of loops: instead the block is counted, where the loop begins; how often
//! the edge was executed is what is left when all else that comes there is known.

use crate::graph::{Graph, Way};
use std::collections::HashMap;

/// What names an edge to the compiler of its code: the instruction, and which way it is left.
pub(crate) type Key = (u32, Way);

/// The edges of a function that are counted, and the number of each counter.
#[derive(Clone, Debug, Default)]
pub struct CounterPlacement {
    counters: HashMap<Key, u32>,
    /// Blocks that are counted instead of edges to themselves, by where they begin.
    turns: HashMap<u32, u32>,
    /// The edges, by the numbers of their counters.
    edges: Vec<usize>,
    /// Loops: behind the counters of edges, each has one for activations that come there from
    /// another variant of the code, and one for those that go.
    loops: Vec<u32>,
}

impl CounterPlacement {
    /// Chooses the edges of a graph that are counted; their counters are numbered from 0 in the
    /// order of edges.
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

    /// The edges whose counters say how often their blocks were entered.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.turns.values().map(|counter| (self.edges[*counter as usize], *counter))
    }

    /// The counter of activations that come from another variant to the loop at `at`.
    pub fn coming(&self, at: u32) -> Option<u32> {
        let loops = self.loops.binary_search(&at).ok()?;
        Some((self.edges.len() + 2 * loops) as u32)
    }

    /// The counter of those that go into another one.
    pub fn going(&self, at: u32) -> Option<u32> {
        self.coming(at).map(|counter| counter + 1)
    }

    /// What came to each loop and went, from the counters of the function.
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

    /// How often counters are added to, about.
    pub fn cost(&self, graph: &Graph) -> u64 {
        self.edges.iter().map(|edge| often(graph.edges[*edge].depth)).sum()
    }

    /// How many counters there are.
    pub fn counters(&self) -> u32 {
        (self.edges.len() + 2 * self.loops.len()) as u32
    }

    /// The edges that are counted, in the order of their counters.
    pub(crate) fn edges(&self) -> &[usize] {
        &self.edges
    }
}

/// How often what lies in so many loops is executed, for each time that the function is, about.
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
            // What comes from outside in the middle is known to no other code; so is what leaves by
            // throwing.
            matches!(edge.way, Way::Catch(_) | Way::Thrown) || !sets.join(edge.from, edge.to)
        })
        .collect();
    counted.sort_unstable();
    counted
}

/// How much is gained if an edge is not counted.
fn worth(graph: &Graph, index: usize) -> (bool, u32, bool) {
    let edge = &graph.edges[index];
    // A call in place of the caller may trap behind its counter: exits are never counted. (They all
    // lead to one place, so they close no circle.)
    let exit = edge.way == Way::Exit;
    // A branch that is counted needs code of its own between here and there.
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

    /// Connects two blocks; returns whether they were not.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a as usize] = b;
        a != b
    }
}
