//! Derives how often each block and edge was executed, from the counters of some edges and the
//! partial-block exits.

use crate::counter_placement::CounterPlacement;
use crate::graph::{Block, Edge, Graph, OUTSIDE};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Where a frame was unwound in the middle of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitPlace {
    /// Where the instruction is.
    pub at: u32,
    /// Whether its execution had begun.
    pub begun: bool,
}

impl ExitPlace {
    /// The place before an instruction.
    pub const fn before(at: u32) -> Self {
        Self { at, begun: false }
    }

    /// The place at an instruction that has begun.
    pub const fn within(at: u32) -> Self {
        Self { at, begun: true }
    }

    /// All places in a block.
    pub const fn of_block(block: &Block) -> Range<Self> {
        Self::before(block.start)..Self::before(block.end)
    }

    /// Where the instructions end that were executed.
    pub fn end(self) -> u32 {
        self.at + u32::from(self.begun)
    }
}

/// How many frames were unwound at each place; negative if frames continued from there that had
/// been considered unwound.
pub type PartialExits = BTreeMap<ExitPlace, i64>;

/// The execution counts of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// How often each block was entered.
    pub blocks: Vec<u64>,
    /// How often each edge was executed.
    pub edges: Vec<u64>,
    /// The exits from the middle of blocks.
    partial_exits: PartialExits,
}

/// Computes all counts from the counters of the counted edges.
pub fn solve(
    graph: &Graph,
    places: &CounterPlacement,
    counters: &[u64],
    partial_exits: &PartialExits,
) -> Flow {
    // At the headers of loops, activations enter from another variant of the code, or leave to one,
    // before any instruction of the block is executed.
    let crossed = places
        .crossed(counters)
        .map(|(at, came, went)| (at, i128::from(came) - i128::from(went)))
        .collect();
    let mut network = Network::of(graph, places, counters, &crossed);
    // The edges that are not counted form a forest: some block has a single such edge, whose count
    // is computed from the others, and so on.
    let is_leaf = |block: &usize| network.blocks[*block].unknown == 1;
    let mut leaves: Vec<usize> = (1..network.blocks.len()).filter(is_leaf).collect();
    while let Some(block) = leaves.pop() {
        if network.blocks[block].unknown != 1 {
            continue;
        }
        let index = network.blocks[block].sum;
        let surplus = network.surplus(block, partial_exits);
        let edge = network.edges[index];
        // Snapshots of running code may be off by activations in progress; a count is never
        // negative.
        let value = if edge.from == block { surplus } else { -surplus };
        network.edges[index].count = Some(u64::try_from(value).unwrap_or(0));
        for end in [edge.from, edge.to] {
            network.blocks[end].toggle(index, false);
            if end != OUTSIDE as usize && network.blocks[end].unknown == 1 {
                leaves.push(end);
            }
        }
    }
    let counts = network.edges.iter().take(graph.edges.len());
    let edges: Vec<u64> = counts.map(|edge| edge.count.unwrap_or_default()).collect();
    let mut blocks: Vec<i128> =
        graph.blocks.iter().map(|block| came_into(&crossed, block)).collect();
    for (edge, count) in graph.edges.iter().zip(&edges) {
        blocks[edge.to as usize] += i128::from(*count);
    }
    let blocks = blocks.into_iter().map(|count| u64::try_from(count).unwrap_or(0)).collect();
    Flow { blocks, edges, partial_exits: partial_exits.clone() }
}

/// The number of OSR entries at the header of each loop, less that of OSR exits.
type Crossed = BTreeMap<u32, i128>;

/// That number for a block, if a loop begins with it.
fn came_into(crossed: &Crossed, block: &Block) -> i128 {
    let is_there = block.start < block.end;
    crossed.get(&block.start).copied().filter(|_| is_there).unwrap_or_default()
}

/// The graph, with a block more before each block that is counted: control enters that one, and
/// passes the counter on its way to the other. These edges follow those of the graph.
struct Network<'a> {
    graph: &'a Graph,
    blocks: Vec<Unsolved>,
    edges: Vec<Flowing>,
}

/// An edge, with its count if it is known.
#[derive(Clone, Copy, Debug)]
struct Flowing {
    from: usize,
    to: usize,
    count: Option<u64>,
}

impl<'a> Network<'a> {
    fn of(
        graph: &'a Graph,
        places: &CounterPlacement,
        counters: &[u64],
        crossed: &Crossed,
    ) -> Self {
        let counted = places.turns().map(|(edge, _)| graph.edges[edge].to as usize);
        let entrances: HashMap<usize, usize> = counted.zip(graph.blocks.len()..).collect();
        let entered = |block: usize| entrances.get(&block).copied().unwrap_or(block);
        let flowing = |edge: &Edge| {
            let (from, to) = (edge.from as usize, edge.to as usize);
            Flowing { from, to: entered(to), count: None }
        };
        let mut edges: Vec<Flowing> = graph.edges.iter().map(flowing).collect();
        let value = |counter: u32| counters.get(counter as usize).copied();
        for (edge, counter) in places.edges() {
            edges[*edge].count = value(*counter);
        }
        for (edge, counter) in places.turns() {
            let to = graph.edges[edge].to as usize;
            edges.push(Flowing { from: entered(to), to, count: value(counter) });
        }
        let mut blocks = vec![Unsolved::default(); graph.blocks.len() + entrances.len()];
        // Activations come from another variant, or leave to one, before a block is counted.
        for (block, range) in graph.blocks.iter().enumerate() {
            blocks[entered(block)].came = came_into(crossed, range);
        }
        for (index, edge) in edges.iter().enumerate() {
            for block in [edge.from, edge.to] {
                blocks[block].edges.push(index);
                if edge.count.is_none() {
                    blocks[block].toggle(index, true);
                }
            }
        }
        Self { graph, blocks, edges }
    }

    /// The known flow into a block, less the known flow out of it.
    fn surplus(&self, block: usize, partial_exits: &PartialExits) -> i128 {
        let mut surplus = self.blocks[block].came;
        for index in &self.blocks[block].edges {
            let edge = &self.edges[*index];
            let Some(count) = edge.count.filter(|_| edge.from != edge.to) else { continue };
            surplus += i128::from(count) * if edge.to == block { 1 } else { -1 };
        }
        if let Some(range) = self.graph.blocks.get(block).filter(|range| range.start < range.end) {
            let left = partial_exits.range(ExitPlace::of_block(range));
            surplus -= left.map(|(_, count)| i128::from(*count)).sum::<i128>();
        }
        surplus
    }
}

/// A block, and its edges whose counts are not known yet.
#[derive(Clone, Debug, Default)]
struct Unsolved {
    edges: Vec<usize>,
    /// The number of activations that come into its middle, less those that leave from there.
    came: i128,
    unknown: usize,
    /// The exclusive-or of their numbers: for a single one, its number.
    sum: usize,
}

impl Unsolved {
    fn toggle(&mut self, edge: usize, is_unknown: bool) {
        self.sum ^= edge;
        if is_unknown { self.unknown += 1 } else { self.unknown -= 1 }
    }
}

impl Flow {
    /// How often the execution of the instruction at `at`, which is in `block`, has begun.
    pub fn executed(&self, graph: &Graph, block: usize, at: u32) -> u64 {
        let places = ExitPlace::before(graph.blocks[block].start)..ExitPlace::within(at);
        let left: i64 = self.partial_exits.range(places).map(|(_, count)| count).sum();
        self.blocks[block].saturating_add_signed(left.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Way;
    use arbtest::arbitrary::{Result, Unstructured};

    /// Any graph, and a walk through it: the counts of its edges, and its partial exits.
    fn walk(u: &mut Unstructured<'_>) -> Result<(Graph, Vec<u64>, PartialExits)> {
        let count = u.int_in_range(1..=8u32)?;
        let blocks =
            (0..=count).map(|block| Block { start: 10 * block, end: 10 * block + 10 }).collect();
        let loops = (1..=count)
            .filter(|_| u.arbitrary().unwrap_or(false))
            .map(|block| 10 * block)
            .collect();
        let mut graph = Graph { blocks, edges: Vec::new(), calls: Vec::new(), loops };
        let edge = |from, to, at, way, depth| Edge { from, to, at, way, depth };
        graph.edges.push(edge(OUTSIDE, 1, 0, Way::Entry, 0));
        for from in 1..=count {
            for case in 0..u.int_in_range(0..=3u32)? {
                let to = u.int_in_range(1..=count)?;
                graph.edges.push(edge(
                    from,
                    to,
                    10 * from,
                    Way::Case(case),
                    u.int_in_range(0..=3)?,
                ));
            }
            graph.edges.push(edge(from, OUTSIDE, 10 * from, Way::Exit, 0));
        }
        let mut gone = vec![0; graph.edges.len()];
        let mut partial_exits = PartialExits::new();
        for _ in 0..u.int_in_range(0..=5u32)? {
            gone[0] += 1;
            let mut at = 1;
            while at != OUTSIDE {
                let ways: Vec<usize> =
                    (1..graph.edges.len()).filter(|edge| graph.edges[*edge].from == at).collect();
                if u.is_empty() || u.ratio(1, 20)? {
                    let place =
                        ExitPlace { at: 10 * at + u.int_in_range(0..=9)?, begun: u.arbitrary()? };
                    *partial_exits.entry(place).or_default() += 1;
                    break;
                }
                let way = *u.choose(&ways)?;
                gone[way] += 1;
                at = graph.edges[way].to;
            }
        }
        Ok((graph, gone, partial_exits))
    }

    /// The counters of code that has executed each edge as often.
    fn counted(graph: &Graph, places: &CounterPlacement, gone: &[u64]) -> Vec<u64> {
        let mut counters = vec![0; places.counters() as usize];
        for (edge, counter) in places.edges() {
            counters[*counter as usize] = gone[*edge];
        }
        for (turn, counter) in places.turns() {
            let edges = graph.edges.iter().zip(gone);
            let into = edges.filter(|(edge, _)| edge.to == graph.edges[turn].to);
            counters[counter as usize] = into.map(|(_, gone)| gone).sum();
        }
        counters
    }

    #[test]
    fn whatever_way_was_gone_follows_from_the_edges_that_are_counted() {
        arbtest::arbtest(|u| {
            let (graph, gone, partial_exits) = walk(u)?;
            let places = CounterPlacement::of(&graph);
            let counters = counted(&graph, &places, &gone);
            assert_eq!(solve(&graph, &places, &counters, &partial_exits).edges, gone, "{graph:?}");
            Ok(())
        });
    }
}
