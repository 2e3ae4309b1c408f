//! Derives how often each block and edge was executed, from the counters of some edges and the
//! partial-block exits.

use crate::counter_placement::CounterPlacement;
use crate::graph::{Block, Graph, OUTSIDE};
use std::collections::BTreeMap;
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
    let mut edges: Vec<Option<u64>> = vec![None; graph.edges.len()];
    for (edge, counter) in places.edges().iter().zip(counters) {
        edges[*edge] = Some(*counter);
    }
    let mut blocks: Vec<Unsolved> = vec![Unsolved::default(); graph.blocks.len()];
    for (index, edge) in graph.edges.iter().enumerate() {
        for block in [edge.from, edge.to] {
            blocks[block as usize].edges.push(index);
            if edges[index].is_none() {
                blocks[block as usize].toggle(index, true);
            }
        }
    }
    // The edges that are not counted form a forest: some block has a single such edge, whose count
    // is computed from the others, and so on.
    let mut leaves: Vec<usize> =
        (1..blocks.len()).filter(|block| blocks[*block].unknown == 1).collect();
    while let Some(block) = leaves.pop() {
        if blocks[block].unknown != 1 {
            continue;
        }
        let index = blocks[block].sum;
        let surplus = surplus(graph, &blocks[block].edges, &edges, block, &crossed, partial_exits);
        let edge = &graph.edges[index];
        // Snapshots of running code may be off by activations in progress; a count is never
        // negative.
        let value = if edge.from as usize == block { surplus } else { -surplus };
        edges[index] = Some(u64::try_from(value).unwrap_or(0));
        for end in [edge.from, edge.to] {
            blocks[end as usize].toggle(index, false);
            if end != OUTSIDE && blocks[end as usize].unknown == 1 {
                leaves.push(end as usize);
            }
        }
    }
    let mut edges: Vec<u64> = edges.into_iter().map(Option::unwrap_or_default).collect();
    // So far the count of such an edge is that of its block; no other edge depends on it.
    for (turn, _) in places.turns() {
        let block = graph.edges[turn].to;
        let others =
            (0..).zip(&graph.edges).filter(|(index, edge)| *index != turn && edge.to == block);
        let others: i128 = others.map(|(index, _)| i128::from(edges[index])).sum();
        let entered = i128::from(edges[turn]) - came_to(&crossed, &graph.blocks[block as usize]);
        edges[turn] = u64::try_from(entered - others).unwrap_or(0);
    }
    let mut blocks: Vec<i128> = graph.blocks.iter().map(|block| came_to(&crossed, block)).collect();
    for (edge, count) in graph.edges.iter().zip(&edges) {
        blocks[edge.to as usize] += i128::from(*count);
    }
    let blocks = blocks.into_iter().map(|count| u64::try_from(count).unwrap_or(0)).collect();
    Flow { blocks, edges, partial_exits: partial_exits.clone() }
}

/// The number of OSR entries at the header of each loop, less that of OSR exits.
type Crossed = BTreeMap<u32, i128>;

fn came_to(crossed: &Crossed, block: &Block) -> i128 {
    crossed.get(&block.start).copied().unwrap_or_default()
}

/// A block, and its edges whose counts are not known yet.
#[derive(Clone, Debug, Default)]
struct Unsolved {
    edges: Vec<usize>,
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

/// The known flow into a block, less the known flow out of it.
fn surplus(
    graph: &Graph,
    incident: &[usize],
    edges: &[Option<u64>],
    block: usize,
    crossed: &Crossed,
    partial_exits: &PartialExits,
) -> i128 {
    let mut surplus = 0;
    for index in incident {
        let Some(count) = edges[*index] else { continue };
        let edge = &graph.edges[*index];
        if edge.to as usize == block && edge.from as usize != block {
            surplus += i128::from(count);
        } else if edge.from as usize == block && edge.to as usize != block {
            surplus -= i128::from(count);
        }
    }
    let range = graph.blocks[block];
    if range.start < range.end {
        surplus += came_to(crossed, &range);
        surplus -= partial_exits
            .range(ExitPlace::of_block(&range))
            .map(|(_, count)| i128::from(*count))
            .sum::<i128>();
    }
    surplus
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
    use crate::graph::{Edge, Way};
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

    #[test]
    fn whatever_way_was_gone_follows_from_the_edges_that_are_counted() {
        arbtest::arbtest(|u| {
            let (graph, gone, partial_exits) = walk(u)?;
            let places = CounterPlacement::of(&graph);
            let mut counters: Vec<u64> = places.edges().iter().map(|edge| gone[*edge]).collect();
            for (turn, counter) in places.turns() {
                let comes = graph
                    .edges
                    .iter()
                    .zip(&gone)
                    .filter(|(edge, _)| edge.to == graph.edges[turn].to);
                counters[counter as usize] = comes.map(|(_, gone)| gone).sum();
            }
            assert_eq!(solve(&graph, &places, &counters, &partial_exits).edges, gone, "{graph:?}");
            Ok(())
        });
    }
}
